"""`-o table|json|yaml|name`: one value in the format that a person or a program reads."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from app.cli.output import list_names
from tests.harness.cases import for_each

Run = Callable[..., Any]
TOOLS = [
    {
        "name": "a.one",
        "description": "Größe: 3\x1b[1m",
        "tags": ["x", "y"],
        "enabled": True,
        "at": "2030-01-31",
    },
    {"name": "a.two", "description": None, "tags": [], "enabled": False, "at": "off"},
]
PAGE = {"items": TOOLS, "next_cursor": "next"}


def test_table_is_the_default(run: Run, stub: Any) -> None:
    stub.on("GET", "/tools", PAGE)
    table = run("tools", "list", "-o", "table")
    assert table.out == run("tools", "list").out
    assert table.out.splitlines()[0].split() == ["NAME", "DESCRIPTION", "TAGS", "ENABLED"]
    assert "There are more items" in table.err


@pytest.mark.parametrize("words", [("--json",), ("-o", "json"), ("--output", "json")])
def test_json_is_the_response(run: Run, stub: Any, words: tuple[str, ...]) -> None:
    stub.on("GET", "/tools", PAGE)
    ran = run("tools", "list", *words, "--limit", "2")
    assert (ran.json(), ran.err) == (PAGE, "")


def test_yaml_is_the_response(run: Run, stub: Any) -> None:
    stub.on("GET", "/tools", PAGE)
    ran = run("-o", "yaml", "tools", "list", "--limit", "2")
    assert yaml.safe_load(ran.out) == PAGE
    assert ran.out.startswith("items:\n- name: a.one\n")
    assert "Größe" in ran.out
    assert "\x1b" not in ran.out
    assert ran.err == ""


def test_name_is_a_name_a_line(run: Run, stub: Any) -> None:
    stub.on("GET", "/tools", PAGE)
    ran = run("tools", "list", "-o", "name", "--limit", "2")
    assert (ran.out, ran.err) == ("a.one\na.two\n", "")


def test_no_items_are_no_output(run: Run, stub: Any) -> None:
    stub.on("GET", "/tools", {"items": [], "next_cursor": None})
    assert run("tools", "list", "-o", "name").out == ""
    assert yaml.safe_load(run("tools", "list", "-o", "yaml").out) == {"items": [], "next_cursor": None}


def test_shown_object_has_one_name(run: Run, stub: Any) -> None:
    stub.on("GET", "/tools/a.one", TOOLS[0])
    assert run("tools", "show", "a.one", "-o", "name").out == "a.one\n"
    assert yaml.safe_load(run("tools", "show", "a.one", "-o", "yaml").out) == TOOLS[0]


def test_records_without_a_name_are_named_by_their_id(run: Run, stub: Any) -> None:
    call = {"id": "0199", "tool": "a.b"}
    stub.on("GET", "/calls", {"items": [call], "next_cursor": None})
    assert run("calls", "list", "-o", "name").out == "0199\n"


def test_changes_name_what_was_changed(run: Run, stub: Any) -> None:
    stub.on("DELETE", "/providers/a")
    stub.on("DELETE", "/providers/b")
    assert run("providers", "remove", "a", "b", "--yes", "-o", "name").out == "a\nb\n"


@for_each(
    ("value", "names"),
    [
        ({"slots": [{"slot": "main"}, {"slot": "other"}], "credentials": []}, ["main", "other"]),
        ({"name": "pets", "slots": [{"slot": "main"}]}, ["pets"]),
        ({"entries": [{"name": "a"}, {"name": "b"}]}, ["a", "b"]),
        ({"items": [{"id": "AbC", "name": "agent"}]}, ["AbC"]),
        ({"provider": "pets", "status": "ok", "origins": [{"status": "ok"}]}, ["pets"]),
        ({"tool": "pets.list", "items": [{"id": "7"}]}, ["7"]),
        ({"outcome": "nothing has a name"}, []),
        (None, []),
    ],
)
def test_names_of_a_value(value: Any, names: list[str]) -> None:
    assert list_names(value) == names


def test_names_have_no_control_characters(run: Run, stub: Any) -> None:
    stub.on("GET", "/tools", {"items": [{"name": "a\x1b[1m\nb"}], "next_cursor": None})
    assert "\x1b" not in run("tools", "list", "-o", "name").out


def test_two_formats_are_a_usage_error(run: Run, stub: Any) -> None:
    ran = run("tools", "list", "--json", "-o", "yaml")
    assert (ran.code, stub.seen) == (2, [])
    assert "not both" in ran.err
    assert run("tools", "list", "-o", "xml").code == 2


def test_format_after_the_command_takes_precedence(run: Run, stub: Any) -> None:
    stub.on("GET", "/tools", PAGE)
    assert run("--json", "tools", "list", "-o", "name", "--limit", "2").out == "a.one\na.two\n"


def test_problem_is_in_the_format_of_programs(run: Run, stub: Any) -> None:
    stub.problem("GET", "/tools/x", slug="not-found", status=404, title="Not found", detail="No tool x.")
    ran = run("tools", "show", "x", "-o", "yaml")
    assert (ran.code, yaml.safe_load(ran.out)["status"]) == (1, 404)
    named = run("tools", "show", "x", "-o", "name")
    assert (named.code, named.out) == (1, "")
    assert named.err == "Error: Not found. No tool x.\n"


@pytest.mark.parametrize("chosen", ["yaml", "name"])
def test_response_of_a_tool_is_not_converted(run: Run, stub: Any, chosen: str) -> None:
    ran = run("tools", "call", "a.b", "-o", chosen)
    assert (ran.code, stub.seen) == (2, [])
    assert "-o json" in ran.err
