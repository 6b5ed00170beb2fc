"""`/console/approvals`: what waits for a decision, over all providers, one with what it is about, and the
operations whose calls require approval.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from starlette.responses import Response

from app.console.http.api_client import ApiProblem, path_of
from app.console.http.page import PAGE_SIZE, Page
from app.console.http.page_router import PageRouter
from app.console.templating import json_text
from app.console.views.notices import Notice
from app.console.views.values import highlighted
from app.core import exact_json

router = PageRouter()

STATES: Final = ("pending", "executed", "rejected", "expired", "failed")
_KINDS: Final = ("call", "origin", "credential", "definition")
_PENDING_PAGE_SIZE: Final = 20
"""Each of them is read, so that the list shows what is decided about."""
_NOTICES: Final = {"approve": "approved", "reject": "rejected"}


@router.get("/console/approvals")
async def list_approvals(page: Page) -> Response:
    """List the approvals of a state, those that are pending without one."""
    return await _list(page)


@router.post("/console/approvals/decide", recent=True)
async def decide(page: Page) -> Response:
    """Approve or reject the selected ones; each is a request of its own, and failures are shown."""
    form = await page.form()
    decision = str(form.get("decision", ""))
    chosen = list(dict.fromkeys(str(one) for one in form.getlist("id")))[:PAGE_SIZE]
    if decision not in _NOTICES or not chosen:
        return await _list(page, failures=[("", page.gettext("Select what you decide about."))], status=422)
    failures = []
    for approval_id in chosen:
        try:
            await _decide(page, approval_id, decision, str(form.get("comment", "")))
        except ApiProblem as problem:
            failures.append((approval_id, problem.detail or problem.title))
    if failures:
        return await _list(page, failures=failures, decided=len(chosen) - len(failures), status=409)
    return page.redirect("/console/approvals", notice=Notice(_NOTICES[decision], count=len(chosen)))


@router.get("/console/approvals/requirements")
async def list_requirements(page: Page) -> Response:
    """List the operations whose calls require approval, whatever tool makes them."""
    return await _list_requirements(page)


@router.post("/console/approvals/requirements", recent=True)
async def remove_requirement(page: Page) -> Response:
    """Remove a requirement that no tool has any more."""
    requirement = str((await page.form()).get("id", ""))
    try:
        await page.api.send("DELETE", path_of("approval-requirements", _parse_id(requirement)))
    except ApiProblem as problem:
        return await _list_requirements(page, problem=problem)
    return page.redirect("/console/approvals/requirements", notice=Notice("requirement-removed"))


@router.get("/console/approvals/{id}")
async def show_approval(page: Page) -> Response:
    """Show an approval with what it is about."""
    response = await page.api.send("GET", _build_path(page.parameter("id")))
    # The numbers of arguments keep their digits.
    approval = exact_json.load_exactly(response.body)
    context = await _call_context(page, approval) if approval["kind"] == "call" else {}
    hidden = [*(approval["hidden"] or ()), *context.pop("hidden", ())]
    return page.render(
        "approval.html",
        **{
            "request": None,
            "request_problem": None,
            "tool": None,
            "approval": approval,
            "hidden": hidden,
            **context,
        },
    )


@router.post("/console/approvals/{id}", recent=True)
async def decide_one(page: Page) -> Response:
    """Approve or reject one, and show it as it is afterwards."""
    approval_id = page.parameter("id")
    form = await page.form()
    decision, back = str(form.get("decision", "")), f"/console{_build_path(approval_id)}"
    if decision not in _NOTICES:
        return page.redirect(back)
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
    approvals = await page.api.get("/approvals", query)
    ids = [one["id"] for one in approvals["items"] if state == "pending" or one["decisions"]]
    details = await asyncio.gather(*(page.api.send("GET", _build_path(one), check=False) for one in ids))
    read = {
        one["id"]: one
        for one in (exact_json.load_exactly(shown.body) for shown in details if shown.status == 200)
    }
    return page.render(
        "approvals.html",
        status=status,
        approvals=approvals,
        state=state,
        kinds=_KINDS,
        states=STATES,
        failures=failures,
        decided=decided,
        details=read,
        # What could not be read is not decided about here.
        decisions={one for item in approvals["items"] if item["id"] in read for one in item["decisions"]},
    )


async def _list_requirements(page: Page, *, problem: ApiProblem | None = None) -> Response:
    query = {name: page.query.get(name) for name in ("q", "provider", "cursor")}
    requirements = await page.api.get("/approval-requirements", {**query, "limit": PAGE_SIZE})
    status = 200 if problem is None else problem.status
    return page.render(
        "approval_requirements.html", status=status, requirements=requirements, problem=problem
    )


async def _decide(page: Page, approval_id: str, decision: str, comment: str) -> None:
    await page.api.post(f"{_build_path(approval_id)}/{decision}", {"comment": comment})


async def _call_context(page: Page, approval: dict[str, Any]) -> dict[str, Any]:
    """Return what the page of a call shows besides: the tool, and the request as it would be sent, which the
    gateway makes from the stored arguments, with what is hidden of it.
    """
    path = path_of("tools", approval["subject"]["name"])
    context: dict[str, Any] = {}
    if page.may("GET /tools/{name}"):
        tool = await page.api.send("GET", path, check=False)
        context["tool"] = tool.json() if tool.status == 200 else None
    if approval["state"] == "pending" and page.may("GET /approvals/{id}/request"):
        described = await page.api.send("GET", f"{_build_path(approval['id'])}/request", check=False)
        if described.status == 200:
            preview = exact_json.load_exactly(described.body)
            context["hidden"] = preview["hidden"]
            if preview["request"] is not None:
                context["request"] = highlighted(json_text(preview["request"]))
        else:
            context["request_problem"] = ApiProblem(described)
    return context


def _build_path(approval_id: str) -> str:
    """Return the path of the API of an approval."""
    return path_of("approvals", _parse_id(approval_id))


def _parse_id(text: str) -> str:
    """Return an id of the API; one that is none is an id that nothing has."""
    try:
        return str(UUID(text))
    except ValueError:
        return str(UUID(int=0))
