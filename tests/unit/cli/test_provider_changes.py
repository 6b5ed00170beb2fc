"""Editing, pausing, resuming and checking providers."""

from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]
PROVIDER = {"name": "pets", "enabled": True, "description": "x"}
CHECK = {
    "provider": "pets",
    "status": "degraded",
    "origins": [
        {
            "origin": "https://api.example.com",
            "status": "ok",
            "http_status": 404,
            "steps": [{"step": "resolution", "status": "ok", "milliseconds": 1.25}],
            "certificate": {"valid_until": "2030-01-31T00:00:00Z"},
        }
    ],
    "credentials": [{"slot": "key", "kind": None, "status": "missing", "tool": None}],
    "protocols": [{"tool": "pets.now", "protocol": "graphql", "status": "ok"}],
    "hints": ["No credential is stored in slot key."],
}
HEALTH = {
    "name": "pets",
    "state": "failed",
    "breakers": [{"origin": "https://api.example.com", "state": "half_open", "retry_after": 3}],
    "calls": 4,
    "errors": 1,
    "p95_ms": 12.5,
    "last_error": {"outcome": "upstream-timeout", "at": "2030-01-31T00:00:00Z"},
    "last_check": None,
    "certificate_expires_at": None,
}


def test_edit_sends_what_was_given(run: Run, stub: Any) -> None:
    stub.on("PATCH", "/providers/pets", PROVIDER)
    words = (
        "--description", "New", "--tag", "a", "--tag", "b", "--base-url", "https://b.example",
        "--limits", '{"total": null}', "--options", '{"reuse": false}', "--if-match", '"3"',
    )  # fmt: skip
    ran = run("providers", "edit", "pets", *words)
    assert (ran.code, ran.err) == (0, "Changed pets: description, limits, options, tags.\n")
    assert stub.seen[0].json() == {
        "description": "New",
        "tags": ["a", "b"],
        "limits": {"total": None},
        "options": {"reuse": False, "base_url": "https://b.example"},
    }
    assert stub.seen[0].headers["if-match"] == '"3"'


def test_edit_sets_and_reverts_the_language(run: Run, stub: Any) -> None:
    stub.on("PATCH", "/providers/pets", PROVIDER)
    assert run("providers", "edit", "pets", "--language", "de").code == 0
    assert run("providers", "edit", "pets", "--language", "").code == 0
    assert [one.json() for one in stub.seen] == [{"language": "de"}, {"language": None}]


@pytest.mark.parametrize(
    "words", [(), ("--tag", "a", "--no-tags"), ("--limits", "[]"), ("--options", "not json")]
)
def test_edit_rejects_what_cannot_be_sent(run: Run, stub: Any, words: tuple[str, ...]) -> None:
    assert run("providers", "edit", "pets", *words).code == 2
    assert not stub.seen


@pytest.mark.parametrize(("command", "enabled"), [("pause", False), ("resume", True)])
def test_pause_and_resume_set_enabled(run: Run, stub: Any, command: str, enabled: bool) -> None:
    stub.on("PATCH", "/providers/pets", PROVIDER)
    stub.on("PATCH", "/providers/books", {**PROVIDER, "name": "books"})
    assert run("providers", command, "pets", "books").code == 0
    assert [one.json() for one in stub.seen] == [{"enabled": enabled}] * 2
    assert run("providers", command, "pets", "--json").json() == PROVIDER
    assert run("providers", command, "pets", "books", "-o", "name").out == "pets\nbooks\n"


def test_check_shows_origins_credentials_and_hints(run: Run, stub: Any) -> None:
    stub.on("POST", "/providers/pets/check", CHECK)
    ran = run("providers", "check", "pets", "--probe")
    assert ran.code == 4
    assert stub.seen[0].json() == {"probe": True}
    for text in ("https://api.example.com", "404", "2030-01-31T00:00:00Z", "missing", "graphql (pets.now)"):
        assert text in ran.out
    assert "No credential is stored in slot key." in ran.err


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("degraded", 4), ("failed", 1)])
def test_exit_code_of_a_check_is_its_status(run: Run, stub: Any, status: str, code: int) -> None:
    found = {**CHECK, "status": status}
    stub.on("POST", "/providers/pets/check", found)
    ran = run("providers", "check", "pets", "--tool", "pets.a", "--json")
    assert (ran.code, ran.json(), stub.seen[0].json()) == (code, found, {"tool": "pets.a"})


def test_health_is_a_list_in_pages(run: Run, stub: Any) -> None:
    stub.on("GET", "/provider-health", {"items": [HEALTH], "next_cursor": None})
    ran = run("providers", "health", "--state", "failed", "--provider", "pets")
    assert ran.code == 0
    assert stub.seen[0].query == {"state": "failed", "provider": "pets", "limit": "50"}
    assert [word in ran.out for word in ("failed", "half open", "12.5", "upstream-timeout")] == [True] * 4
    assert run("providers", "health", "-o", "name").out == "pets\n"
