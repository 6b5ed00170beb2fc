"""`/console/approvals`: what waits for a decision, over all providers, and one with what it is about."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from starlette.responses import Response

from app.console.api_client import ApiProblem, path_of
from app.console.notices import Notice
from app.console.page import PAGE_SIZE, Page, PageRouter
from app.console.pages.sign_in import require_recent
from app.console.templating import json_text
from app.console.values import highlighted

router = PageRouter()

STATES: Final = ("pending", "executed", "rejected", "expired", "failed")
_KINDS: Final = ("call", "origin", "credential", "definition")
_PENDING_PAGE_SIZE: Final = 20
"""Each of them is read, so that the list shows what is decided about."""
_NOTICES: Final = {"approve": "approved", "reject": "rejected"}
_SENDS_ELSEWHERE: Final = frozenset({"origin", "credential"})


@router.get("/console/approvals")
async def list_approvals(page: Page) -> Response:
    """List the approvals of a state, those that are pending without one."""
    return await _list(page)


@router.post("/console/approvals/decide")
async def decide(page: Page) -> Response:
    """Approve or reject the selected ones; each is a request of its own, and failures are shown."""
    form = await page.form()
    decision = str(form.get("decision", ""))
    chosen = list(dict.fromkeys(str(one) for one in form.getlist("id")))[:PAGE_SIZE]
    if decision not in _NOTICES or not chosen:
        return await _list(page, failures=[("", page.gettext("Select what you decide about."))], status=422)
    if decision == "approve" and (confirm := await _confirm(page, chosen, "/console/approvals")) is not None:
        return confirm
    failures = []
    for approval_id in chosen:
        try:
            await _decide(page, approval_id, decision, str(form.get("comment", "")))
        except ApiProblem as problem:
            failures.append((approval_id, problem.detail or problem.title))
    if failures:
        return await _list(page, failures=failures, decided=len(chosen) - len(failures), status=409)
    return page.redirect("/console/approvals", notice=Notice(_NOTICES[decision], count=len(chosen)))


@router.get("/console/approvals/{id}")
async def show_approval(page: Page) -> Response:
    """Show an approval with what it is about."""
    approval = await page.api.get(_path(page.parameter("id")))
    context = await _call_context(page, approval) if approval["kind"] == "call" else {}
    return page.render("approval.html", **{"request": None, "tool": None, "approval": approval, **context})


@router.post("/console/approvals/{id}")
async def decide_one(page: Page) -> Response:
    """Approve or reject one, and show it as it is afterwards."""
    approval_id = page.parameter("id")
    form = await page.form()
    decision, back = str(form.get("decision", "")), f"/console{_path(approval_id)}"
    if decision not in _NOTICES:
        return page.redirect(back)
    if decision == "approve" and (confirm := await _confirm(page, [approval_id], back)) is not None:
        return confirm
    await _decide(page, approval_id, decision, str(form.get("comment", "")))
    return page.redirect(back, notice=Notice(_NOTICES[decision], count=1))


async def _list(
    page: Page, *, failures: Sequence[tuple[str, str]] = (), decided: int = 0, status: int = 200
) -> Response:
    state = page.query.get("state", "pending")
    kind = page.query.get("kind", "")
    query = {
        "state": state if state in STATES else "",
        "kind": kind if kind in _KINDS else "",
        "provider": page.query.get("provider"),
        "q": page.query.get("q"),
        "sort": page.query.get("sort") or ("requested_at" if state == "pending" else "-requested_at"),
        "cursor": page.query.get("cursor"),
        "limit": _PENDING_PAGE_SIZE if state == "pending" else PAGE_SIZE,
    }
    found = await page.api.get("/approvals", query)
    ids = [one["id"] for one in found["items"]] if state == "pending" else []
    details = await asyncio.gather(*(page.api.send("GET", _path(one), check=False) for one in ids))
    return page.render(
        "approvals.html",
        status=status,
        approvals=found,
        state=state,
        kinds=_KINDS,
        states=STATES,
        failures=failures,
        decided=decided,
        details={one["id"]: one for one in (found.json() for found in details if found.status == 200)},
        decisions={one for item in found["items"] for one in item["decisions"]},
    )


async def _decide(page: Page, approval_id: str, decision: str, comment: str) -> None:
    await page.api.post(f"{_path(approval_id)}/{decision}", {"comment": comment})


async def _confirm(page: Page, ids: Sequence[str], back: str) -> Response | None:
    """Return the way to the form that asks for the key, where an approval sends credentials elsewhere."""
    found = await asyncio.gather(*(page.api.send("GET", _path(one), check=False) for one in ids))
    # What cannot be read may be one of these; there is nothing to approve where there is none.
    is_dangerous = any(
        response.json()["kind"] in _SENDS_ELSEWHERE if response.status == 200 else response.status != 404
        for response in found
    )
    return await require_recent(page, next_path=back) if is_dangerous else None


async def _call_context(page: Page, approval: dict[str, Any]) -> dict[str, Any]:
    """Return what the page of a call shows besides: the tool, and the request as it would be sent."""
    path = path_of("tools", approval["subject"]["name"])
    context: dict[str, Any] = {}
    if page.may("GET /tools/{name}"):
        found = await page.api.send("GET", path, check=False)
        context["tool"] = found.json() if found.status == 200 else None
    if approval["state"] == "pending" and page.may("POST /tools/{name}/call"):
        described = await page.api.send(
            "POST", f"{path}/call", query={"dry_run": True}, json=approval["arguments"], check=False
        )
        if described.status == 200:
            context["request"] = highlighted(json_text(described.json()))
    return context


def _path(approval_id: str) -> str:
    """Return the path of the API of an approval; an id that is none is one that there is not."""
    try:
        return path_of("approvals", str(UUID(approval_id)))
    except ValueError:
        return path_of("approvals", str(UUID(int=0)))
