"""Imports that a page starts, and for whose end it waits a moment; the browser polls what takes longer."""

import asyncio
import time
from typing import Any, Final

from starlette.datastructures import Headers

from app.console.http.api_client import ApiProblem, ApiResponse, path_of
from app.console.http.page import Page

WAIT_SECONDS: Final = 4.0
"""How long a page waits for an import before it shows its progress."""
_FIRST_POLL: Final = 0.03
_NO_HEADERS: Final = Headers()


async def start_import(page: Page, path: str, **request: Any) -> dict[str, Any]:
    """Start an import at a path of the API with the arguments of `ApiClient.send`, and return its state.

    It has ended, or runs on after WAIT_SECONDS. Raise ApiProblem where it was not started.
    """
    headers = {**request.pop("headers", {}), "Prefer": "respond-async"}
    started = await page.api.send("POST", path, headers=headers, **request)
    state: dict[str, Any] = started.json()
    if started.status != 202:
        return {"id": None, "state": "done", "status": started.status, "result": state}
    deadline, wait = time.monotonic() + WAIT_SECONDS, _FIRST_POLL
    while time.monotonic() < deadline:
        state = await page.api.get(path_of("imports", str(state["id"])))
        if state["state"] != "running":
            break
        await asyncio.sleep(wait)
        wait = min(wait * 1.5, 0.5)
    return state


async def read_import(page: Page, import_id: str) -> dict[str, Any] | None:
    """Return the state of an import; None for one that there is not, or not any more."""
    try:
        state: dict[str, Any] = await page.api.get(path_of("imports", import_id))
    except ApiProblem as problem:
        if problem.status in (404, 422):
            return None
        raise
    return state


def problem_of_import(state: dict[str, Any]) -> ApiProblem | None:
    """Return the problem of an import that failed, None for any other."""
    if state["state"] != "failed":
        return None
    return problem_from(int(state.get("status") or 500), state.get("result") or {})


def problem_from(status: int, problem: dict[str, Any]) -> ApiProblem:
    """Return problem details that are part of a result as the problem that a request would have raised."""
    problem_of_api = ApiProblem(ApiResponse(status, _NO_HEADERS, b""))
    problem_of_api.problem = problem
    return problem_of_api
