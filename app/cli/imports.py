"""Sending what may take long: asked for asynchronously, then watched until it is done."""

import time
from collections.abc import Mapping
from typing import Any

from app.cli.outcome import CommandFailed, Refused, Unreachable
from app.cli.session import Session
from app.cli.values import path

#: Seconds between two looks: short at first, because most documents take less than a second.
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 2.0
#: A gateway that is being restarted behind a proxy is away for a few seconds.
_PATIENCE = 5


def send_import(
    session: Session,
    target: str,
    *,
    what: str,
    json: Any = None,
    content: bytes | None = None,
    media_type: str = "application/json",
    query: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """POST with `Prefer: respond-async` (RFC 7240) and wait for the result, which is returned.

    The gateway may as well answer at once. A failed import raises `Refused`, as its direct answer would have.
    """
    headers = {"Prefer": "respond-async", **({} if content is None else {"Content-Type": media_type})}
    with session.output.waiting(what):
        answer = session.gateway.send(
            "POST", target, json=json, content=content, headers=headers, query=query
        )
        result = answer.json()
        if answer.status == 202:
            return _watch(session, str(result["id"]))
    return dict(result or {})


def _watch(session: Session, import_id: str) -> dict[str, Any]:
    wait, failures = _FIRST_WAIT, 0
    while True:
        time.sleep(wait)
        wait = min(wait * 1.5, _LONGEST_WAIT)
        try:
            state = session.gateway.get(path("imports", import_id)).json()
        except CommandFailed as failed:
            failures += 1
            if failures >= _PATIENCE or not _may_pass(failed):
                failed.hint = f"the import goes on all the same: its id is {import_id}."
                raise
            continue
        failures = 0
        if state["state"] != "running":
            break
    result = dict(state.get("result") or {})
    if state["state"] == "failed":
        raise Refused({"title": "The import failed", **result}, status=int(state.get("status") or 500))
    return result


def _may_pass(failed: CommandFailed) -> bool:
    """Whether asking again may help: nobody answered, or a part of the gateway is away."""
    return isinstance(failed, Unreachable) or (isinstance(failed, Refused) and failed.status >= 500)
