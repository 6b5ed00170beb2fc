"""Listing and deciding approvals, and calls that wait."""

import json
from collections.abc import Callable
from typing import Any

from starlette.responses import Response

Run = Callable[..., Any]
APPROVAL = {
    "id": "019a0000-0000-7000-8000-000000000001",
    "kind": "call",
    "state": "pending",
    "subject": {"type": "tool", "name": "library.lend", "provider": "library"},
    "requested_by": "AgentKey2346",
    "requested_at": "2030-01-01T00:00:00Z",
    "expires_at": "2030-01-02T00:00:00Z",
    "decided_by": None,
    "decided_at": None,
    "comment": "",
    "ended_at": None,
    "call_id": None,
    "failure": None,
    "arguments": {"book_id": "bk-001", "pin": "***"},
    "operations": None,
    "operation_count": None,
}
PATH = f"/approvals/{APPROVAL['id']}"


def test_list_sends_the_filters(run: Run, stub: Any) -> None:
    stub.on("GET", "/approvals", {"items": [APPROVAL], "next_cursor": None, "total": 1})
    ran = run("approvals", "list", "--state", "pending", "--kind", "call", "--provider", "library")
    assert ran.code == 0, ran.err
    assert "library.lend" in ran.out
    query = stub.seen[0].query
    assert (query["state"], query["kind"], query["provider"]) == ("pending", "call", "library")


def test_show_has_the_arguments(run: Run, stub: Any) -> None:
    stub.on("GET", PATH, APPROVAL)
    ran = run("approvals", "show", APPROVAL["id"])
    assert ran.code == 0, ran.err
    assert '"book_id": "bk-001"' in ran.out


def test_arguments_are_shown_exactly_and_what_is_hidden_before_the_question(run: Run, stub: Any) -> None:
    text = "pay \u202e0001 to \u0085X"
    hidden = [{"pointer": "/arguments/pin", "reason": "declared-secret", "bytes": 6}]
    approval = {**APPROVAL, "arguments": {"q": text, "n": 1, "pin": "***"}, "hidden": hidden}
    digits = "0.1000000000000000055511151231257827"
    body = json.dumps(approval).replace('"n": 1', f'"n": {digits}').encode()
    stub.on("GET", PATH, Response(body, media_type="application/json"))
    for arguments, output in (
        (("approvals", "show", APPROVAL["id"]), "out"),
        (("approvals", "approve", APPROVAL["id"]), "out"),
        (("approvals", "approve", APPROVAL["id"], "-o", "json"), "err"),
    ):
        ran = run(*arguments, stdin="y\n")
        shown = getattr(ran, output)
        assert "pay \\u202e0001 to \\u0085X" in shown
        assert digits in shown
        assert "Hidden: /arguments/pin (declared-secret, 6 bytes)" in ran.err
    assert digits in run("approvals", "show", APPROVAL["id"], "-o", "json").out
    assert [seen.method for seen in stub.seen] == ["GET"] * 4


def test_approve_asks_after_showing_what_is_approved(run: Run, stub: Any) -> None:
    stub.on("GET", PATH, APPROVAL)
    failure = {"type": "x", "title": "The upstream failed", "status": 502, "detail": "It said no."}
    stub.on("POST", f"{PATH}/approve", {**APPROVAL, "state": "failed", "failure": failure})
    refused = run("approvals", "approve", APPROVAL["id"], stdin="y\n")
    assert (refused.code, len(stub.seen)) == (2, 1)
    assert "bk-001" in refused.out
    ran = run("approvals", "approve", APPROVAL["id"], "--yes", "-m", "Fine.")
    assert ran.code == 0, ran.err
    assert stub.seen[-1].json() == {"comment": "Fine."}
    assert "failed now" in ran.err
    assert "It said no." in ran.err


def test_reject_sends_the_comment(run: Run, stub: Any) -> None:
    stub.on("POST", f"{PATH}/reject", {**APPROVAL, "state": "rejected"})
    ran = run("approvals", "reject", APPROVAL["id"], "-m", "No.")
    assert (ran.code, stub.seen[0].json()) == (0, {"comment": "No."})
    assert "rejected now" in ran.err


def test_result_is_written_as_json(run: Run, stub: Any) -> None:
    stub.on("GET", f"{PATH}/result", {"json": {"lent": True}})
    assert '"lent": true' in run("approvals", "result", APPROVAL["id"]).out


def test_a_call_that_waits_says_where_its_result_will_be(run: Run, stub: Any) -> None:
    stub.on(
        "POST", "/tools/library.lend/call", {"approval": APPROVAL}, status=202, headers={"Location": PATH}
    )
    for option in ((), ("--stream",)):
        ran = run("tools", "call", "library.lend", *option)
        assert ran.code == 0, ran.err
        assert f"approvals result {APPROVAL['id']}" in ran.err
        assert '"approval"' in ran.out


REQUIREMENT = {
    "id": APPROVAL["id"],
    "operation": "POST https://bank.example/transfers/{}",
    "tool": "bank.transfer",
    "provider": "bank",
    "created_by": "AdminKey2346",
    "created_at": "2030-01-01T00:00:00Z",
}
REQUIREMENT_PATH = f"/approval-requirements/{REQUIREMENT['id']}"


def test_requirements_are_listed(run: Run, stub: Any) -> None:
    stub.on("GET", "/approval-requirements", {"items": [REQUIREMENT], "next_cursor": None, "total": 1})
    ran = run("approvals", "requirements", "--provider", "bank")
    assert (ran.code, stub.seen[0].query["provider"]) == (0, "bank"), ran.err
    assert REQUIREMENT["operation"] in ran.out


def test_requirement_is_removed_after_a_question(run: Run, stub: Any) -> None:
    stub.on("GET", REQUIREMENT_PATH, REQUIREMENT)
    stub.on("DELETE", REQUIREMENT_PATH, None, status=204)
    refused = run("approvals", "remove-requirement", REQUIREMENT["id"], stdin="y\n")
    assert (refused.code, [one.method for one in stub.seen]) == (2, ["GET"])
    ran = run("approvals", "remove-requirement", REQUIREMENT["id"], "--yes")
    assert (ran.code, stub.seen[-1].method) == (0, "DELETE"), ran.err
