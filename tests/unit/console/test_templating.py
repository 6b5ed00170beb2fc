"""Filters of the templates, in both languages."""

from datetime import UTC, datetime, timedelta

import pytest

from app.console.templating import (
    LANGUAGES,
    byte_size,
    environment,
    first_sentence,
    milliseconds,
    number,
    percentage,
    relative_time,
    time_element,
    translations,
)
from tests.harness.cases import for_each

ENGLISH = translations("en")
NOW = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)


@for_each(
    ("seconds", "text"),
    [
        (0, "just now"),
        (59, "59 seconds ago"),
        (60, "1 minute ago"),
        (3 * 3600, "3 hours ago"),
        (25 * 3600, "1 day ago"),
        (40 * 86400, "1 month ago"),
        (800 * 86400, "2 years ago"),
        (-90, "in 1 minute"),
        (-86400 * 2, "in 2 days"),
    ],
)
def test_relative_times(seconds: float, text: str) -> None:
    assert relative_time(seconds, ENGLISH) == text


def test_a_time_has_the_exact_one_as_its_title() -> None:
    html = time_element("2026-11-24T11:57:00.5Z", ENGLISH, NOW)
    assert html == (
        '<time datetime="2026-11-24T11:57:00.500000Z" title="2026-11-24 11:57:00 UTC">2 minutes ago</time>'
    )
    assert "3 minutes ago" in time_element(NOW - timedelta(minutes=3), ENGLISH, NOW)
    assert time_element(None, ENGLISH) == '<span class="muted">\u2013</span>'


def test_numbers_in_both_languages() -> None:
    assert (number(1234567, "en"), number(1234567, "de")) == ("1,234,567", "1.234.567")
    assert (milliseconds(3.25, "en"), milliseconds(3.25, "de")) == ("3.2 ms", "3,2 ms")
    assert (milliseconds(1234.4, "en"), milliseconds(12345, "en")) == ("1,234 ms", "12.3 s")
    assert (byte_size(999, "en"), byte_size(1500, "de"), byte_size(2e9, "en")) == (
        "999 B",
        "1,5 kB",
        "2.0 GB",
    )
    assert (percentage(0.004, "en"), percentage(0.5, "de"), percentage(1, "en")) == ("0.4 %", "50 %", "100 %")
    assert {number(None, "en"), milliseconds(None, "de"), byte_size(None, "en")} == {"\u2013"}


@for_each(
    ("text", "sentence"),
    [
        ("Find a book. By its title.", "Find a book."),
        ("Version 1.2 of it", "Version 1.2 of it"),
        ("Get Book\n\nGet one book. By its id.", "Get one book."),
        ("Get one book.\n\nBy its id.", "Get one book."),
        ("Get Book\n\n", "Get Book"),
        (None, ""),
        ("a  b\n c", "a b c"),
        ("x" * 200, "x" * 159 + "…"),
    ],
)
def test_first_sentences(text: str | None, sentence: str) -> None:
    assert first_sentence(text) == sentence


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_template_compiles(language: str) -> None:
    made = environment(language)
    names = made.list_templates()
    assert "base.html" in names
    for name in names:
        made.get_template(name)


def test_what_a_template_shows_is_escaped() -> None:
    made = environment("en").from_string("{{ text }} {{ value|ago }}")
    assert made.render(text="<b>&", value=None).startswith("&lt;b&gt;&amp;")
