"""Every entry of the plugin catalogue is valid; the loader reads one when it is asked for."""

from pathlib import Path

import pytest

from app.core.errors import InvalidDocument, NotFound
from app.providers.plugins.loader import CATALOGUE, PluginCatalogue, parse_entry
from tests.harness.cases import for_each

NAMES = PluginCatalogue().names()
MINIMAL = """
name: clock
version: 1
title: Clock
description: The time of the day.
tags: [time]
manual:
  tools:
    - name: now
      description: Tell the time.
      inputs: {type: object}
      tool_call_template: {call_template_type: http, url: "https://clock.example.com/now"}
"""


@for_each("name", NAMES)
def test_each_entry_is_valid(name: str) -> None:
    entry = PluginCatalogue().read(name)
    assert entry.name == name
    assert entry.tool_names


@for_each("name", NAMES)
def test_each_entry_says_where_to_get_its_credentials(name: str) -> None:
    for credential in PluginCatalogue().read(name).credentials.values():
        assert credential.help.endswith(".")
        assert credential.url.startswith("https://") or credential.kind == "connection_string"


@for_each("name", NAMES)
def test_each_document_is_at_a_secure_url(name: str) -> None:
    document = PluginCatalogue().read(name).document
    assert document is None or document.url.startswith("https://")


def test_names_are_read_without_opening_files(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text(": not YAML [")
    (tmp_path / "No name.yaml").write_text("")
    assert set(PluginCatalogue(tmp_path).names()) == {"broken", *NAMES}


async def test_a_file_that_is_no_entry_does_not_hide_others(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("name: [")
    (tmp_path / "clock.yaml").write_text(MINIMAL)
    catalogue = PluginCatalogue(tmp_path)
    assert set(await catalogue.all()) == {"clock", *NAMES}
    with pytest.raises(InvalidDocument):
        await catalogue.get("broken")


async def test_a_file_that_has_changed_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "clock.yaml"
    file.write_text(MINIMAL)
    catalogue = PluginCatalogue(tmp_path)
    first = await catalogue.all()
    assert await catalogue.all() is first
    file.write_text(MINIMAL.replace("version: 1", "version: 12"))
    assert (await catalogue.all())["clock"].version == 12
    # The operator's entry replaces the shipped one.
    (tmp_path / "github.yaml").write_text(MINIMAL.replace("name: clock", "name: github"))
    assert (await catalogue.get("github")).title == "Clock"


def test_an_unknown_name_has_a_suggestion() -> None:
    with pytest.raises(NotFound) as raised:
        PluginCatalogue().read("githb")
    assert raised.value.extra["suggestions"] == ["github"]


@for_each("name", ["../entry", "", "a/b", "A", ".."])
def test_a_name_is_no_path(name: str) -> None:
    with pytest.raises(NotFound):
        PluginCatalogue(CATALOGUE / "..").read(name)


@for_each(
    ("change", "problem"),
    [
        (("version: 1", "version: 0"), "/version"),
        (("title: Clock", "titel: Clock"), "/titel"),
        (("name: clock", "name: watch"), "the name watch"),
        (("https://clock.example.com/now", "{{base}}/now"), "the setting base"),
        (("tags: [time]", "tags: [time]\ntests: [{tool: never}]"), "the tool never"),
        (("tags: [time]", "tags: [time]\ndocument: {}"), "/document"),
    ],
)
def test_what_an_entry_cannot_be(change: tuple[str, str], problem: str) -> None:
    with pytest.raises(InvalidDocument) as raised:
        parse_entry(MINIMAL.replace(*change).encode(), name="clock")
    assert problem in raised.value.detail
