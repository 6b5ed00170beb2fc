"""`utcp-gateway toolsets`: listing, changing, exporting and importing toolsets."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

Run = Callable[..., Any]
DESK = {
    "name": "desk",
    "title": "Desk",
    "description": "For the desk.",
    "version": 1,
    "tools": 1,
    "addresses": {"mcp": "https://g.example/toolsets/desk/mcp"},
    "members": [{"name": "find_books", "tool": "library.books", "title": "Books", "read_only": True}],
    "problems": [
        {"kind": "tool", "name": "library.gone", "detail": "There is no enabled tool of this name."}
    ],
    "definition": {"tools": ["library.books", "library.gone"]},
    "updated_at": "2026-11-23T00:00:00Z",
}
EXPORTED = {member: DESK[member] for member in ("name", "title", "description", "definition")}


def test_list_has_the_address(run: Run, stub: Any) -> None:
    stub.on("GET", "/toolsets", {"items": [DESK], "next_cursor": None, "total": 1})
    ran = run("toolsets", "list")
    assert ran.code == 0
    assert "https://g.example/toolsets/desk/mcp" in ran.out


def test_show_has_tools_and_problems(run: Run, stub: Any) -> None:
    stub.on("GET", "/toolsets/desk", DESK)
    ran = run("toolsets", "show", "desk")
    assert "find_books" in ran.out
    assert "library.gone: There is no enabled tool" in ran.err


def test_set_changes_only_what_is_given(run: Run, stub: Any) -> None:
    stub.on("GET", "/toolsets/desk", DESK)
    stub.on("PUT", "/toolsets/desk", DESK)
    ran = run(
        "toolsets", "set", "desk", "--title", "Front desk", "--provider", "library", "--if-match", '"1"'
    )
    assert ran.code == 0
    sent = stub.seen[-1]
    assert sent.headers["if-match"] == '"1"'
    assert sent.json() == {
        "title": "Front desk",
        "description": "For the desk.",
        "definition": {**DESK["definition"], "providers": ["library"]},
    }


def test_set_creates_a_toolset_from_a_file(run: Run, stub: Any, tmp_path: Path) -> None:
    stub.on("PUT", "/toolsets/desk", DESK, status=201)
    file = tmp_path / "desk.json"
    file.write_bytes(orjson.dumps(DESK["definition"]))
    assert run("toolsets", "set", "desk", "--file", str(file)).code == 0
    assert stub.seen[-1].json() == {"title": "", "description": "", "definition": DESK["definition"]}


def test_set_without_members_creates_nothing(run: Run, stub: Any) -> None:
    ran = run("toolsets", "set", "desk", "--title", "Desk")
    assert ran.code == 2
    assert [one.method for one in stub.seen] == ["GET"]


def test_remove_sends_the_version(run: Run, stub: Any) -> None:
    stub.on("DELETE", "/toolsets/desk")
    assert run("toolsets", "remove", "desk", "--yes", "--if-match", '"1"').code == 0
    assert stub.seen[-1].headers["if-match"] == '"1"'


def test_export_is_what_import_reads(run: Run, stub: Any, tmp_path: Path) -> None:
    stub.on("GET", "/toolsets", {"items": [DESK], "next_cursor": None})
    stub.on("GET", "/toolsets/desk", DESK)
    exported = run("toolsets", "export")
    assert exported.json() == {"toolsets": [EXPORTED]}
    file = tmp_path / "toolsets.json"
    file.write_text(exported.out)
    stub.on("PUT", "/toolsets/desk", DESK)
    assert run("toolsets", "import", str(file)).code == 0
    assert stub.seen[-1].json() == {name: value for name, value in EXPORTED.items() if name != "name"}


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"toolsets": [1]}', "no"], ids=["list", "empty", "items", "text"]
)
def test_import_of_something_else_is_rejected(run: Run, stub: Any, tmp_path: Path, text: str) -> None:
    file = tmp_path / "toolsets.json"
    file.write_text(text)
    assert run("toolsets", "import", str(file)).code == 2
    assert not stub.seen


def test_export_without_definitions_is_rejected(run: Run, stub: Any) -> None:
    stub.on("GET", "/toolsets", {"items": [DESK], "next_cursor": None})
    stub.on("GET", "/toolsets/desk", {**DESK, "definition": None})
    ran = run("toolsets", "export")
    assert ran.code == 2
    assert "providers:read" in ran.err


def test_set_changes_all_of_a_definition(run: Run, stub: Any) -> None:
    stub.on("GET", "/toolsets/desk", DESK | {"definition": {"changes": {"l.a": {"title": "A"}}}})
    stub.on("PUT", "/toolsets/desk", DESK)
    ran = run(
        "toolsets", "set", "desk", "--search", "books", "--mode", "search", "--pin", "l.a", "--read-only",
        "--argument-repair", "on", "--schemas", "full", "--max-bytes", "5000", "--rename", "l.a=find", "--preset", "l.a:limit=5",
        "--preset", "l.a:/body/desk=north", "--preset", "l.b:code=007",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert stub.seen[-1].json()["definition"] == {
        "search": ["books"],
        "mode": "search",
        "pinned": ["l.a"],
        "read_only": True,
        "argument_repair": "on",
        "schemas": "full",
        "result_budget": {"max_bytes": 5000},
        "changes": {
            "l.a": {"title": "A", "name": "find", "presets": {"/limit": 5, "/body/desk": "north"}},
            "l.b": {"presets": {"/code": "007"}},
        },
    }
    for option, written in (("--preset", "l.a=5"), ("--rename", "l.a")):
        wrong = run("toolsets", "set", "desk", option, written)
        assert wrong.code == 2
        assert f"{option} '{written}'" in wrong.err
