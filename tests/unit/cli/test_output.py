"""Sentences for people, pure JSON for programs, nothing that a terminal would obey."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.responses import Response

from app.cli.output import clean, format_cell, write_sentences
from tests.harness.cases import for_each

Run = Callable[..., Any]


def test_a_problem_becomes_sentences_with_every_pointer(run: Run, stub: Any) -> None:
    stub.problem(
        "POST",
        "/tools/library.search/call",
        slug="invalid-arguments",
        status=422,
        title="The arguments are not valid for the tool's inputs",
        detail="Two arguments are wrong.",
        errors=[
            {"pointer": "/limit", "detail": "is not an integer", "expected": "integer"},
            {"pointer": "/q", "detail": "is missing"},
        ],
    )
    ran = run("tools", "call", "library.search", "limit=ten")
    assert ran.code == 1
    assert ran.out == ""
    assert ran.err.splitlines()[:3] == [
        "Error: The arguments are not valid for the tool's inputs. Two arguments are wrong.",
        "  /limit: is not an integer (expected: integer)",
        "  /q: is missing",
    ]
    assert "tools show library.search" in ran.err


def test_with_json_a_problem_is_pure_json_on_standard_output(run: Run, stub: Any) -> None:
    stub.problem("GET", "/tools/x", slug="not-found", status=404, title="Not found", detail="No tool x.")
    ran = run("tools", "show", "x", "--json")
    assert ran.code == 1
    assert ran.json()["type"] == "urn:utcp-gateway:problem:not-found"
    assert "Error: Not found. No tool x." in ran.err


def test_upstream_response_is_shown_on_one_line() -> None:
    lines = write_sentences(
        {
            "title": "The upstream rejected the call",
            "detail": "The upstream rejected the call",
            "upstream_status": 409,
            "upstream_body": {"message": "taken"},
            "call_id": "0199",
        }
    )
    assert lines == [
        "The upstream rejected the call.",
        "The upstream responded with HTTP 409.",
        'Its response: {"message":"taken"}',
        "Call id: 0199",
    ]


@pytest.mark.parametrize(
    "problem", [{}, {"title": None}, {"title": "X", "errors": "?"}, {"errors": [1, None]}]
)
def test_odd_problems_still_give_a_sentence(problem: dict[str, Any]) -> None:
    assert write_sentences(problem)[0]


ESCAPES = "\x1b]0;owned\x07 \x1b[2J \u202eevil \x9b31m [bold]markup[/bold] [/nonsense] :smile:"


def test_descriptions_cannot_send_escape_sequences_or_markup(run: Run, stub: Any) -> None:
    tool = {"name": "a.b", "description": ESCAPES, "tags": ["\x1b[31m"], "enabled": True}
    stub.on("GET", "/tools", {"items": [tool], "next_cursor": None})
    stub.on("GET", "/tools/a.b", {**tool, "inputs": {"properties": {"\x1b[1m": {"description": ESCAPES}}}})
    stub.problem("GET", "/tools/bad", status=404, title="No", detail=ESCAPES)
    for words in (("list",), ("show", "a.b"), ("show", "bad")):
        ran = run("tools", *words)
        text = ran.out + ran.err
        assert not any(mark in text for mark in ("\x1b", "\x07", "\x9b", "\u202e"))
        assert "[bold]markup[/bold]" in text
        assert ":smile:" in text


def test_lines_are_neither_folded_nor_coloured_in_a_pipe(run: Run, stub: Any) -> None:
    name = "provider." + "long" * 60
    tool = {"name": name, "description": "x", "tags": ["t"] * 40, "enabled": True}
    stub.on("GET", "/tools", {"items": [tool], "next_cursor": None})
    ran = run("tools", "list")
    header, line = ran.out.splitlines()
    assert header.split() == ["NAME", "DESCRIPTION", "TAGS", "ENABLED"]
    assert line.startswith(name)
    assert line.rstrip().endswith("yes")
    assert "\x1b" not in ran.out


def test_empty_list_is_noted_on_standard_error(run: Run, stub: Any) -> None:
    stub.on("GET", "/tools", {"items": [], "next_cursor": None})
    ran = run("tools", "list")
    assert (ran.code, ran.out) == (0, "")
    assert "Nothing" in ran.err


def test_lists_fetch_pages_up_to_the_limit(run: Run, stub: Any) -> None:
    def page(first: int, count: int, following: str | None) -> dict[str, Any]:
        items = [{"name": f"p.t{first + number}"} for number in range(count)]
        return {"items": items, "next_cursor": following}

    pages = [page(0, 200, "c1"), page(200, 50, "c2")]
    stub.on("GET", "/tools", *pages)
    ran = run("tools", "list", "--limit", "250", "--json")
    assert len(ran.json()["items"]) == 250
    assert ran.json()["next_cursor"] == "c2"
    assert [one.query.get("limit") for one in stub.seen] == ["200", "50"]
    assert [one.query.get("cursor") for one in stub.seen] == [None, "c1"]
    stub.on("GET", "/tools", *pages, page(250, 3, None))
    assert len(run("tools", "list", "--all", "--json").json()["items"]) == 253


def test_empty_page_with_a_cursor_ends_the_list(run: Run, stub: Any) -> None:
    stub.on("GET", "/tools", {"items": [], "next_cursor": "again"})
    assert run("tools", "list", "--all", "--json").json()["items"] == []
    assert len(stub.seen) == 1


LISTS = [
    ("GET", "/tools", ("tools", "list")),
    ("GET", "/keys", ("keys", "list")),
    ("GET", "/calls", ("calls", "list")),
    ("GET", "/providers", ("providers", "list")),
    ("GET", "/variables", ("variables", "list")),
    ("GET", "/providers/p/variables", ("variables", "list", "--provider", "p")),
]


@for_each(("method", "path", "words"), LISTS)
def test_every_list_is_pure_json_for_programs(
    run: Run, stub: Any, method: str, path: str, words: tuple[str, ...]
) -> None:
    stub.on(method, path, {"items": [{"name": "n", "extra": [1, {"a": None}]}], "next_cursor": None})
    ran = run(*words, "--json")
    assert ran.json()["items"] == [{"name": "n", "extra": [1, {"a": None}]}]
    assert ran.err == ""


@for_each(("method", "path", "words"), [*LISTS, ("GET", "/events", ("events", "list"))])
def test_every_list_can_be_sorted_and_searched(
    run: Run, stub: Any, method: str, path: str, words: tuple[str, ...]
) -> None:
    stub.seen.clear()
    stub.on(method, path, {"items": [], "next_cursor": None, "total": 0, "total_at_least": None})
    ran = run(*words, "--sort", "-name", "--query", "sea", "--json")
    assert stub.seen[0].query == {"sort": "-name", "q": "sea", "limit": "50"}
    assert ran.json()["total"] == 0


def test_cells_are_one_line() -> None:
    assert format_cell("a\n  b\tc") == "a b c"
    assert format_cell([True, None, {"k": 1}]) == 'yes, , {"k":1}'
    assert clean("tab\tnew\nline") == "tab\tnew\nline"


def test_response_that_is_not_json_is_an_error(run: Run, stub: Any) -> None:
    stub.on("GET", "/tools/x", Response(b"{broken", media_type="application/json"))
    ran = run("tools", "show", "x", "--json")
    assert ran.code == 3
    assert ran.json()["title"]


def test_the_filters_of_calls_and_events_are_passed_on(run: Run, stub: Any) -> None:
    empty = {"items": [], "next_cursor": None}
    stub.on("GET", "/calls", empty)
    stub.on("GET", "/events", empty)
    stub.on("GET", "/keys", empty)
    run(
        "calls",
        "list",
        "--tool",
        "a.b",
        "--key-id",
        "k",
        "--outcome",
        "ok",
        "--since",
        "2030-01-01T00:00:00Z",
    )
    run("events", "list", "--object-type", "provider", "--limit", "5")
    run("keys", "list", "--revoked")
    assert [one.query for one in stub.seen] == [
        {"tool": "a.b", "key_id": "k", "outcome": "ok", "since": "2030-01-01T00:00:00+00:00", "limit": "50"},
        {"object_type": "provider", "limit": "5"},
        {"include_revoked": "true", "limit": "50"},
    ]


def test_duration_in_a_filter_means_ago(run: Run, stub: Any) -> None:
    stub.on("GET", "/calls", {"items": [], "next_cursor": None})
    run("calls", "list", "--since", "2h")
    since = datetime.fromisoformat(stub.seen[0].query["since"])
    assert timedelta(hours=1.9) < datetime.now(UTC) - since < timedelta(hours=2.1)


def test_field_error_equal_to_the_detail_is_shown_once() -> None:
    problem = {
        "title": "T",
        "detail": "/q: is missing",
        "errors": [{"pointer": "/q", "detail": "is missing"}],
    }
    assert write_sentences(problem) == ["T. /q: is missing"]
