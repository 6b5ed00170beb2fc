"""`utcp-gateway keys show|edit|rotate`, `me` and `explain`."""

import pytest

from tests.harness.cases import for_each

KEY_VIEW = {
    "id": "AbCdEfGhJkMn",
    "name": "agent",
    "owner": "billing",
    "purpose": "Invoices",
    "state": "active",
    "scopes": ["tools:call"],
    "providers": None,
    "tags": None,
    "rate_limit": {"requests": 5, "per_seconds": 1, "burst": 2},
    "warnings": [{"code": "unused", "detail": "It was never used.", "hint": "Revoke it."}],
}
PATH = "/keys/AbCdEfGhJkMn"
CHECKS = [
    {"check": "scopes", "passed": True, "required": True, "detail": "It has it.", "hint": ""},
    {"check": "tool-enabled", "passed": False, "required": True, "detail": "Disabled.", "hint": "Enable it."},
    {"check": "pending-approval", "passed": None, "required": False, "detail": "Unknown.", "hint": ""},
]
EXPLANATION = {"key_id": "k", "key_name": "agent", "tool": "p.t", "may_call": False, "checks": CHECKS}


def test_a_key_is_shown_with_its_warnings(stub, run):
    stub.on("GET", PATH, KEY_VIEW)
    ran = run("keys", "show", "AbCdEfGhJkMn")
    assert ran.code == 0
    for text in ("billing", "Invoices", "tools:call", "5/1:2"):
        assert text in ran.out
    assert "It was never used. Revoke it." in ran.err
    assert run("keys", "show", "AbCdEfGhJkMn", "-o", "json").json() == KEY_VIEW
    assert run("keys", "show", "AbCdEfGhJkMn", "-o", "name").out == "AbCdEfGhJkMn\n"


@for_each(
    ("words", "body"),
    [
        (["--name", "n", "--owner", "", "--purpose", "p"], {"name": "n", "owner": "", "purpose": "p"}),
        (
            ["-s", "tools:read", "-s", "tools:call", "--provider", "p", "--tag", "t"],
            {"scopes": ["tools:read", "tools:call"], "providers": ["p"], "tags": ["t"]},
        ),
        (
            ["--provider", "p", "--allow-unknown-providers"],
            {"providers": ["p"], "allow_unknown_providers": True},
        ),
        (["--any-provider", "--any-tag"], {"providers": None, "tags": None}),
        (["--expires", "never", "--rate", "default"], {"expires_at": None, "rate_limit": None}),
        (["--rate", "5/60"], {"rate_limit": {"requests": 5, "per_seconds": 60, "burst": 5}}),
        (["--argument-repair", "safe"], {"argument_repair": "safe"}),
        (["--argument-repair", "default"], {"argument_repair": None}),
        (["--schemas", "full"], {"schemas": "full"}),
        (["--schemas", "default"], {"schemas": None}),
        (["--expires", "2030-01-31T00:00Z"], {"expires_at": "2030-01-31T00:00:00+00:00"}),
    ],
)
def test_an_edit_sends_what_is_given(stub, run, words, body):
    stub.seen.clear()
    stub.on("GET", PATH, KEY_VIEW)
    stub.on("PATCH", PATH, KEY_VIEW)
    assert run("keys", "edit", "AbCdEfGhJkMn", *words).code == 0
    assert stub.seen[-1].json() == body


@for_each(
    "words",
    [
        [],
        ["--allow-unknown-providers"],
        ["--provider", "p", "--any-provider"],
        ["--rate", "often"],
        ["--argument-repair", "always"],
        ["--schemas", "whole"],
    ],
)
def test_an_edit_of_nothing_or_of_contradictions_is_not_sent(stub, run, words):
    stub.seen.clear()
    assert run("keys", "edit", "AbCdEfGhJkMn", *words).code == 2
    assert stub.seen == []


@pytest.mark.parametrize(("overlap", "seconds"), [("24h", 86_400), ("0", 0), ("30m", 1800), ("7d", 604_800)])
def test_a_rotation_prints_nothing_but_the_key(stub, run, overlap, seconds):
    stub.on("GET", PATH, KEY_VIEW)
    stub.on("POST", f"{PATH}/rotate", {**KEY_VIEW, "id": "new", "key": "ugw_new"}, status=201)
    ran = run("keys", "rotate", "AbCdEfGhJkMn", "--overlap", overlap)
    assert (ran.code, ran.out) == (0, "ugw_new\n")
    assert stub.seen[-1].json() == {"overlap_seconds": seconds}


def test_a_rotation_may_set_the_expiry_of_the_successor(stub, run):
    stub.on("GET", PATH, KEY_VIEW)
    stub.on("POST", f"{PATH}/rotate", {**KEY_VIEW, "key": "ugw_new"}, status=201)
    assert run("keys", "rotate", "AbCdEfGhJkMn", "--expires", "never").code == 0
    assert stub.seen[-1].json() == {"overlap_seconds": 86_400, "expires_at": None}


def test_an_overlap_that_cannot_be_read_is_not_sent(stub, run):
    assert run("keys", "rotate", "AbCdEfGhJkMn", "--overlap", "soon").code == 2
    assert stub.seen == []


def test_keys_are_revoked_by_id_or_name_after_a_confirmation(stub, run):
    other = {**KEY_VIEW, "id": "BbCdEfGhJkMn", "name": "agent of the desk"}
    stub.on("GET", PATH, KEY_VIEW)
    stub.on("GET", "/keys", {"items": [other, KEY_VIEW], "next_cursor": None})
    stub.problem("GET", "/keys/agent of the desk", status=422, title="Invalid", detail="Not an id.")
    for key_id in (KEY_VIEW["id"], other["id"]):
        stub.on("DELETE", f"/keys/{key_id}")

    unconfirmed = run("keys", "revoke", "AbCdEfGhJkMn")
    assert (unconfirmed.code, "--yes" in unconfirmed.err) == (2, True)
    assert {one.method for one in stub.seen} == {"GET"}

    ran = run("keys", "revoke", "AbCdEfGhJkMn", "agent of the desk", "--yes")
    assert ran.code == 0, ran.err
    assert [one.path for one in stub.seen if one.method == "DELETE"] == [PATH, "/keys/BbCdEfGhJkMn"]
    assert "Revoked agent (AbCdEfGhJkMn), agent of the desk (BbCdEfGhJkMn)." in ran.err
    shown = run("keys", "revoke", "agent", "--yes", "--json").json()
    assert shown == {"revoked": ["AbCdEfGhJkMn"]}

    stub.problem("DELETE", "/keys/BbCdEfGhJkMn", status=409, title="Conflict", detail="No.")
    failed = run("keys", "revoke", "agent", "agent of the desk", "--yes")
    assert failed.code != 0
    assert "Revoked agent (AbCdEfGhJkMn)." in failed.err


def test_a_name_of_several_keys_or_of_none_revokes_nothing(stub, run):
    stub.on("GET", "/keys", {"items": [KEY_VIEW, {**KEY_VIEW, "id": "second"}], "next_cursor": None})
    ambiguous = run("keys", "revoke", "agent", "--yes")
    assert (ambiguous.code, "AbCdEfGhJkMn, second" in ambiguous.err) == (2, True)
    absent = run("keys", "revoke", "agen", "--yes")
    assert (absent.code, "the name agen." in absent.err) == (1, True)
    assert {one.method for one in stub.seen} == {"GET"}


def test_a_key_that_may_not_read_keys_revokes_by_id(stub, run):
    stub.problem("GET", PATH, status=403, title="Forbidden", detail="It needs keys:read.")
    stub.on("DELETE", PATH)
    assert run("keys", "revoke", "AbCdEfGhJkMn", "--yes").code == 0
    assert stub.seen[-1].method == "DELETE"


def test_a_new_key_has_owner_and_purpose(stub, run):
    stub.on("POST", "/keys", {**KEY_VIEW, "key": "ugw_new"}, status=201)
    ran = run("keys", "create", "agent", "-s", "tools:call", "--owner", "o", "--purpose", "p")
    assert ran.out == "ugw_new\n"
    assert stub.seen[-1].json() == {"name": "agent", "scopes": ["tools:call"], "owner": "o", "purpose": "p"}


def test_a_new_key_may_name_providers_that_do_not_exist(stub, run):
    stub.on("POST", "/keys", {**KEY_VIEW, "key": "ugw_new"}, status=201)
    words = ("agent", "-s", "tools:call", "--provider", "p", "--allow-unknown-providers")
    assert run("keys", "create", *words).code == 0
    assert stub.seen[-1].json()["allow_unknown_providers"] is True


def test_keys_are_listed_by_state(stub, run):
    stub.on("GET", "/keys", {"items": [KEY_VIEW], "next_cursor": None})
    assert run("keys", "list", "--state", "expiring").code == 0
    assert stub.seen[-1].query["state"] == "expiring"


def test_the_key_in_use_is_shown_with_the_meaning_of_its_scopes(stub, run):
    usage = {"requests": 5, "per_seconds": 1, "burst": 2, "remaining": 1, "reset_seconds": 1}
    scopes = [{"name": "tools:call", "description": "Call tools."}]
    visible = {"providers": 2, "tools": 7}
    me = {**KEY_VIEW, "visible": visible, "rate_limit_usage": usage, "scope_descriptions": scopes}
    stub.on("GET", "/me", me)
    ran = run("me")
    assert ran.code == 0
    for text in ("7 tools of 2 providers", "1 of 5/1:2", "Call tools."):
        assert text in ran.out
    assert ran.out.count("tools:call") == 1
    assert run("me", "-o", "json").json() == me


def test_an_explanation_is_a_table_of_checks(stub, run):
    stub.on("GET", "/explain", EXPLANATION)
    ran = run("explain", "p.t", "--key-id", "AbCdEfGhJkMn")
    assert stub.seen[-1].query == {"tool": "p.t", "key": "AbCdEfGhJkMn"}
    assert ran.code == 0
    assert [line.split()[:2] for line in ran.out.splitlines()[1:]] == [
        ["scopes", "yes"],
        ["tool-enabled", "NO"],
        ["pending-approval", "?"],
    ]
    assert "Disabled. Enable it." in ran.out
    assert "agent (k) cannot call p.t now" in ran.err
    assert run("explain", "p.t", "-o", "json").json() == EXPLANATION
    assert "key" not in stub.seen[-1].query
