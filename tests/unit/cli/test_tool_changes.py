"""Enabling, disabling and editing tools, and their history."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.cases import for_each

Run = Callable[..., Any]
TOOL = {"name": "pets.a", "description": "New", "tags": ["x"], "enabled": True}


def result(*outcomes: str) -> dict[str, Any]:
    problem = {"type": "urn:utcp-gateway:problem:not-found", "title": "Not found", "detail": "No such tool."}
    return {
        "applied": True,
        "items": [
            {"name": f"pets.{number}", "outcome": one, "problem": problem if one == "failed" else None}
            for number, one in enumerate(outcomes)
        ],
    }


def test_tools_are_disabled_by_names_with_one_request(run: Run, stub: Any) -> None:
    stub.on("POST", "/tools:batch", result("changed", "unchanged"))
    ran = run("tools", "disable", "pets.0", "pets_1")
    assert ran.code == 0
    patch = {"enabled": False}
    assert [one.json() for one in stub.seen] == [
        {
            "operations": [{"tool": "pets.0", "patch": patch}, {"tool": "pets_1", "patch": patch}],
            "dry_run": False,
        }
    ]
    assert "unchanged" in ran.out


def test_tools_are_enabled_by_provider_and_tag(run: Run, stub: Any) -> None:
    stub.on("POST", "/tools:batch", result("changed"))
    ran = run("tools", "enable", "--provider", "pets", "--tag", "x", "--dry-run")
    assert (ran.code, "dry run" in ran.err) == (0, True)
    assert stub.seen[0].json() == {
        "operations": [{"filter": {"provider": "pets", "tag": "x"}, "patch": {"enabled": True}}],
        "dry_run": True,
    }


@pytest.mark.parametrize(
    ("outcomes", "code"), [(("changed", "failed"), 4), (("failed", "failed"), 1), ((), 0)]
)
def test_exit_code_says_whether_some_or_all_failed(
    run: Run, stub: Any, outcomes: tuple[str, ...], code: int
) -> None:
    stub.on("POST", "/tools:batch", result(*outcomes), status=207)
    ran = run("tools", "enable", "pets.0")
    assert ran.code == code
    assert ("No such tool." in ran.out) is ("failed" in outcomes)
    assert run("tools", "enable", "pets.0", "--json").json() == result(*outcomes)


@pytest.mark.parametrize("words", [(), ("pets.a", "--provider", "pets")])
def test_names_and_filters_exclude_each_other(run: Run, stub: Any, words: tuple[str, ...]) -> None:
    assert run("tools", "disable", *words).code == 2
    assert not stub.seen


def test_edit_sends_what_was_given(run: Run, stub: Any) -> None:
    stub.on("PATCH", "/tools/pets.a", TOOL)
    words = ("--description", "New", "--tag", "x", "--revert", "enabled", "--if-match", '"1"')
    ran = run("tools", "edit", "pets.a", *words)
    assert ran.code == 0
    assert stub.seen[0].json() == {"description": "New", "tags": ["x"], "enabled": None}
    assert stub.seen[0].headers["if-match"] == '"1"'
    assert run("tools", "edit", "pets.a", "--no-tags", "--json").json() == TOOL
    assert stub.seen[1].json() == {"tags": []}


def test_edit_replaces_keywords_and_shows_them(run: Run, stub: Any) -> None:
    stub.on("PATCH", "/tools/pets.a", {**TOOL, "keywords": ["coupon", "voucher"]})
    ran = run("tools", "edit", "pets.a", "--keyword", "coupon", "--keyword", "voucher")
    assert ran.code == 0
    assert "keywords" in ran.out
    assert "voucher" in ran.out
    assert run("tools", "edit", "pets.a", "--no-keywords").code == 0
    assert run("tools", "edit", "pets.a", "--revert", "keywords").code == 0
    assert [one.json() for one in stub.seen] == [
        {"keywords": ["coupon", "voucher"]},
        {"keywords": []},
        {"keywords": None},
    ]
    for flag, value in (("--requires-approval", True), ("--no-requires-approval", False)):
        assert run("tools", "edit", "pets.a", flag).code == 0
        assert stub.seen[-1].json() == {"requires_approval": value}


def test_edit_sends_the_inputs_that_mcp_clients_repeat_in_headers(run: Run, stub: Any) -> None:
    header_inputs = {"tenant": "Tenant", "/a=b/c": "Inner"}
    shown = {"read_only": True, "header_inputs": header_inputs}
    stub.on("PATCH", "/tools/pets.a", {**TOOL, "annotations": shown})
    words = ("--header-input", "tenant=Tenant", "--header-input", "/a=b/c=Inner", "--read-only")
    ran = run("tools", "edit", "pets.a", *words)
    assert ran.code == 0
    assert stub.seen[0].json() == {"annotations": shown}
    assert "tenant=Tenant /a=b/c=Inner" in ran.out


@for_each(
    "words",
    [
        (),
        ("--tag", "a", "--no-tags"),
        ("--keyword", "a", "--no-keywords"),
        ("--revert", "name"),
        ("--header-input", "tenant"),
    ],
)
def test_edit_rejects_what_cannot_be_sent(run: Run, stub: Any, words: tuple[str, ...]) -> None:
    stub.seen.clear()
    assert run("tools", "edit", "pets.a", *words).code == 2
    assert not stub.seen


def test_history_shows_differences_and_values(run: Run, stub: Any) -> None:
    item = {
        "id": "019a0000-0000-7000-8000-000000000001",
        "at": "2030-01-31T00:00:00Z",
        "action": "changed",
        "actor": "AdminKey2346",
        "compatibility": "breaking",
        "differences": [{"detail": "It needs key instead of nothing."}],
        "changes": [{"field": "tags", "before": [], "after": ["x\x1b[1m"], "truncated": False}],
    }
    page = {"items": [item], "next_cursor": None}
    stub.on("GET", "/tools/pets.a/history", page)
    ran = run("tools", "history", "pets.a", "-q", "key")
    assert ran.code == 0
    assert stub.seen[0].query == {"q": "key", "limit": "50"}
    for text in ("AdminKey2346", "breaking", "It needs key instead of nothing.", "tags: - -> x"):
        assert text in ran.out
    assert "\x1b" not in ran.out
    assert run("tools", "history", "pets.a", "-o", "name").out == f"{item['id']}\n"


def test_response_options_are_set_and_reverted(run, stub):
    stub.on("PATCH", "/tools/l.a", {"name": "l.a"})
    ran = run("tools", "edit", "l.a", "--response-options", '{"poll": true}')
    assert ran.code == 0, ran.err
    assert stub.seen[-1].json() == {"response_options": {"poll": True}}
    assert run("tools", "edit", "l.a", "--revert", "response_options").code == 0
    assert stub.seen[-1].json() == {"response_options": None}
    assert run("tools", "edit", "l.a", "--response-options", "{").code == 2
