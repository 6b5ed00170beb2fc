"""Imports that may take long: sent with `Prefer: respond-async`, then polled until they end."""

import time
from collections.abc import Mapping
from typing import Any

from app.cli.errors import CommandFailed, GatewayUnreachable, ProblemResponse
from app.cli.session import ClientSession
from app.cli.values import Files, url_path

#: Seconds between two polls: short at first, because most documents take less than a second.
_FIRST_POLL_SECONDS, _POLL_SECONDS_MAX = 0.05, 2.0
#: Consecutive polls that may fail: a restart of a gateway behind a proxy takes a few seconds.
_FAILED_POLLS_MAX = 5


def send_import(
    session: ClientSession,
    path: str,
    *,
    activity: str,
    json: Any = None,
    content: bytes | None = None,
    files: Files | None = None,
    media_type: str = "application/json",
    query: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """POST with `Prefer: respond-async` (RFC 7240), wait for the import's end and return its result.

    The gateway may also respond at once. `activity` is shown meanwhile. Raise ProblemResponse for a failed
    import.
    """
    headers = {"Prefer": "respond-async", **({} if content is None else {"Content-Type": media_type})}
    with session.output.waiting(activity):
        response = session.gateway.send(
            "POST", path, json=json, content=content, files=files, headers=headers, query=query
        )
        result = response.json()
        if response.status == 202:
            return _poll(session, str(result["id"]))
    return dict(result or {})


def _poll(session: ClientSession, import_id: str) -> dict[str, Any]:
    wait, failures = _FIRST_POLL_SECONDS, 0
    while True:
        time.sleep(wait)
        wait = min(wait * 1.5, _POLL_SECONDS_MAX)
        try:
            state = session.gateway.get(url_path("imports", import_id)).json()
        except CommandFailed as failed:
            failures += 1
            if failures >= _FAILED_POLLS_MAX or not _is_retryable(failed):
                failed.hint = f"the import continues nevertheless: its id is {import_id}."
                raise
            continue
        failures = 0
        if state["state"] != "running":
            break
    result = dict(state.get("result") or {})
    if state["state"] == "failed":
        problem = {"title": "The import failed", **result}
        raise ProblemResponse(problem, status=int(state.get("status") or 500))
    return result


def _is_retryable(failed: CommandFailed) -> bool:
    """Whether another poll may succeed: no response came, or the gateway failed."""
    server_error = isinstance(failed, ProblemResponse) and failed.status >= 500
    return server_error or isinstance(failed, GatewayUnreachable)
