"""`x-keywords` of documents: what is read, and what is reported instead."""

from typing import Any

import pytest

from app.core.tool_keywords import MAX_KEYWORD_LENGTH, MAX_KEYWORDS, drop_repeated, read_keywords
from tests.harness.cases import for_each

AT = "/info/x-keywords"


@for_each(
    ("value", "keywords"),
    [
        (["coupon", "voucher"], ("coupon", "voucher")),
        ("coupon, gift card,voucher", ("coupon", "gift card", "voucher")),
        ("coupon", ("coupon",)),
        ([" coupon\n code ", "", "cou\u200bpon"], ("coupon code", "coupon")),
        (["Coupon", "coupon", "COUPON", "Straße", "STRASSE"], ("Coupon", "Straße")),
        (["a,b"], ("a,b",)),
        (["k" * MAX_KEYWORD_LENGTH], ("k" * MAX_KEYWORD_LENGTH,)),
        (["\ud800nul\x00"], ("nul",)),
        ([], ()),
        ("", ()),
        (None, ()),
    ],
)
def test_lists_and_texts_are_read(value: Any, keywords: tuple[str, ...]) -> None:
    assert read_keywords(value, location=AT) == (keywords, [])


@pytest.mark.parametrize("value", [7, 1.5, True, {"en": ["coupon"]}])
def test_other_values_are_reported_as_a_whole(value: Any) -> None:
    keywords, problems = read_keywords(value, location=AT)
    assert keywords == ()
    assert [problem.pointer for problem in problems] == [AT]


@for_each(
    "entry", [7, None, ["nested"], {"en": "x"}, "k" * 101, "k" * 10_000_000], violations={"entry": "card"}
)
def test_an_unusable_entry_is_reported_by_its_pointer_and_the_others_stay(entry: Any) -> None:
    keywords, problems = read_keywords(["coupon", entry, "voucher"], location=AT)
    assert keywords == ("coupon", "voucher")
    assert [problem.pointer for problem in problems] == [f"{AT}/1"]
    assert "k" * 101 not in problems[0].detail


def test_a_text_is_its_own_pointer() -> None:
    keywords, problems = read_keywords(f"coupon,{'k' * 101}", location=AT)
    assert keywords == ("coupon",)
    assert [problem.pointer for problem in problems] == [AT]


@pytest.mark.parametrize("is_text", [False, True])
def test_at_most_fifty_are_read(is_text: bool) -> None:
    given = [f"k{number}" for number in range(100_000)]
    keywords, problems = read_keywords(",".join(given) if is_text else given, location=AT)
    assert keywords == tuple(given[:MAX_KEYWORDS])
    assert [problem.pointer for problem in problems] == [AT]
    assert "more than 50" in problems[0].detail


def test_a_long_list_of_what_is_no_text_gives_a_bounded_report() -> None:
    keywords, problems = read_keywords([7] * 100_000, location=AT)
    assert keywords == ()
    assert len(problems) == MAX_KEYWORDS + 1


def test_of_keywords_that_differ_in_case_the_first_one_stays() -> None:
    assert drop_repeated(["B", "a", "b", "A"]) == ("B", "a")
