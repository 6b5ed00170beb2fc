"""Every entry of the plugin catalogue is valid; the loader reads one when it is asked for."""

from pathlib import Path

import pytest

from app.errors import InvalidDocument, NotFound
from app.plugins.loader import CATALOGUE, PluginCatalogue, parse_entry

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


@pytest.mark.parametrize("name", NAMES)
def test_each_entry_is_valid(name: str) -> None:
    entry = PluginCatalogue().read(name)
    assert entry.name == name
    assert entry.tool_names


@pytest.mark.parametrize("name", NAMES)
def test_each_entry_says_where_to_get_its_credentials(name: str) -> None:
    for credential in PluginCatalogue().read(name).credentials.values():
        assert credential.help.endswith(".")
        assert credential.url.startswith("https://") or credential.kind == "connection_string"


def test_names_are_read_without_opening_files(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text(": not YAML [")
    assert PluginCatalogue(tmp_path).names() == ("broken",)


def test_an_unknown_name_has_a_suggestion() -> None:
    with pytest.raises(NotFound) as raised:
        PluginCatalogue().read("githb")
    assert raised.value.extra["suggestions"] == ["github"]


@pytest.mark.parametrize("name", ["../entry", "", "a/b", "A", ".."])
def test_a_name_is_no_path(name: str) -> None:
    with pytest.raises(NotFound):
        PluginCatalogue(CATALOGUE / "..").read(name)


@pytest.mark.parametrize(
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
