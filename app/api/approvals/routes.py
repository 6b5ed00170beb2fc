"""`/approvals`: list, decide and withdraw them; `/approval-requirements`: what requires them."""

import asyncio
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import BaseModel

from app.api.approvals.schemas import (
    ApprovalDecision,
    ApprovalPage,
    ApprovalQuery,
    ApprovalRequest,
    ApprovalRequirementPage,
    ApprovalRequirementQuery,
    ApprovalRequirementView,
    ApprovalResult,
    ApprovalSummary,
    ApprovalView,
)
from app.api.authorisation import requires, requires_any
from app.api.dependencies import UsesPageLinks, UsesServices
from app.calls.approvals.kinds import Decision
from app.core import exact_json
from app.core.schemas import PAGE_HEADERS, problem_responses
from app.security.principal import Principal
from app.security.scopes import Scope
from app.services import Services
from app.storage.models import Approval

router = APIRouter(tags=["approvals"])

_SCOPES: Final[tuple[Scope, ...]] = (
    "approvals:decide",
    "credentials:write",
    "providers:write",
    "tools:call",
)
UsesApprovals = Annotated[Principal, Depends(requires_any(*_SCOPES))]
Approves = Annotated[Principal, Depends(requires_any(*_SCOPES, recent=True))]
DecidesCalls = Annotated[Principal, Depends(requires("approvals:decide"))]
CallsTools = Annotated[Principal, Depends(requires("tools:call"))]
ApprovalPath = Annotated[UUID, Path(alias="id", description="Id of an approval.")]
_NO_STORE: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"Cache-Control": {"schema": {"type": "string"}, "description": "`no-store`."}}}
}


@router.get(
    "/approvals",
    operation_id="listApprovals",
    summary="List what waits for approval",
    responses=PAGE_HEADERS | problem_responses(),
)
async def list_approvals(
    principal: UsesApprovals,
    services: UsesServices,
    links: UsesPageLinks,
    query: Annotated[ApprovalQuery, Query()],
) -> ApprovalPage:
    """List the approvals that this key has requested, and those about which it may decide, newest first
    unless `sort` says otherwise.
    """
    page = await services.approvals.page(
        query.page(),
        principal=principal,
        kind=query.kind,
        state=query.state,
        provider=query.provider,
        q=query.q,
    )
    links.set(page.next_cursor)
    decisions = await services.approvals.decisions(page.rows, principal=principal)
    items = [ApprovalSummary.of(*pair) for pair in zip(page.rows, decisions, strict=True)]
    return ApprovalPage.of(page, items)


@router.get(
    "/approvals/{id}",
    operation_id="getApproval",
    summary="Get an approval",
    response_model=ApprovalView,
    responses=problem_responses(404),
)
async def get_approval(
    approval_id: ApprovalPath,
    principal: UsesApprovals,
    services: UsesServices,
) -> Response:
    """Return an approval with what it is about: the arguments of the call or the changes of the provider, and
    the list of what of it is hidden.
    """
    return await _view(await services.approvals.get(approval_id, principal=principal), principal, services)


@router.get(
    "/approvals/{id}/request",
    operation_id="getApprovalRequest",
    summary="Get the request of a waiting call",
    response_model=ApprovalRequest,
    responses=problem_responses(404, 409) | _NO_STORE,
)
async def get_approval_request(
    approval_id: ApprovalPath, principal: DecidesCalls, services: UsesServices
) -> Response:
    """Return the upstream request that would be sent if a call were approved now, made from the stored
    arguments. Nothing is sent. 409 where it is not pending any more, or where approving it would fail.
    """
    shown = await services.approvals.describe_request(approval_id, principal=principal)
    view = ApprovalRequest.of(shown)
    return _respond(view, {"request": shown.value}, {"Cache-Control": "no-store"})


@router.post(
    "/approvals/{id}/approve",
    operation_id="approveApproval",
    summary="Approve a call or changes",
    response_model=ApprovalView,
    responses=problem_responses(400, 404, 409, 413, 415),
)
async def approve_approval(
    approval_id: ApprovalPath,
    principal: Approves,
    services: UsesServices,
    body: ApprovalDecision | None = None,
) -> Response:
    """Approve, and do what was requested: make the call, at most once, or apply the changes exactly as
    they are shown. The response has the state afterwards.

    Calls need the scope `approvals:decide`, all other kinds `credentials:write`. 403 for the key that
    requested it, for keys that this one has created, and for its predecessors and successors by rotation; 409
    where it is not pending any more, or can no longer be done as it was requested.
    """
    comment = "" if body is None else body.comment
    return await _view(
        await services.approvals.approve(approval_id, Decision(principal, comment)), principal, services
    )


@router.post(
    "/approvals/{id}/reject",
    operation_id="rejectApproval",
    summary="Reject a call or changes",
    response_model=ApprovalView,
    responses=problem_responses(400, 404, 409, 413, 415),
)
async def reject_approval(
    approval_id: ApprovalPath,
    principal: UsesApprovals,
    services: UsesServices,
    body: ApprovalDecision | None = None,
) -> Response:
    """Reject: what was requested is not done, and its arguments are deleted. The key that requested it may
    reject it, too. 409 where it is not pending any more.
    """
    comment = "" if body is None else body.comment
    return await _view(
        await services.approvals.reject(approval_id, Decision(principal, comment)), principal, services
    )


@router.get(
    "/approvals/{id}/result",
    operation_id="getApprovalResult",
    summary="Get the result of an approved call",
    responses=problem_responses(404, 409) | _NO_STORE,
)
async def get_approval_result(
    approval_id: ApprovalPath,
    principal: CallsTools,
    services: UsesServices,
    response: Response,
) -> ApprovalResult:
    """Return the result of an approved call, or the problem that it failed with: to the key that requested
    it, for APPROVAL_RESULT_SECONDS. 409 before the call has ended.
    """
    response.headers["Cache-Control"] = "no-store"
    return ApprovalResult.of(await services.approvals.result(approval_id, principal=principal))


async def _view(row: Approval, principal: Principal, services: Services) -> Response:
    (decisions,) = await services.approvals.decisions([row], principal=principal)
    call = await asyncio.to_thread(services.approvals.shown_call, row, principal=principal)
    view = ApprovalView.with_detail(row, decisions, call)
    return _respond(view, {"arguments": view.arguments})


def _respond(view: BaseModel, exact: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    """Return a response with a view, in which the `exact` members have their digits and all their levels."""
    body = exact_json.dumps({**view.model_dump(mode="json", exclude=set(exact)), **exact})
    return Response(body, media_type="application/json", headers=headers)


Decides = Annotated[Principal, Depends(requires("approvals:decide"))]
Removes = Annotated[Principal, Depends(requires("approvals:decide", recent=True))]
RequirementPath = Annotated[UUID, Path(alias="id", description="Id of a requirement of approval.")]


@router.get(
    "/approval-requirements",
    operation_id="listApprovalRequirements",
    summary="List what requires approval",
    responses=PAGE_HEADERS | problem_responses(),
)
async def list_approval_requirements(
    principal: Decides,
    services: UsesServices,
    links: UsesPageLinks,
    query: Annotated[ApprovalRequirementQuery, Query()],
) -> ApprovalRequirementPage:
    """List the operations whose calls require approval, whatever tool makes them, newest first. They are
    kept when a tool is deleted or registered under another name.
    """
    page = await services.approval_requirements.page(
        query.page(), principal=principal, provider=query.provider, q=query.q
    )
    links.set(page.next_cursor)
    return ApprovalRequirementPage.of(page, [ApprovalRequirementView.of(row) for row in page.rows])


@router.get(
    "/approval-requirements/{id}",
    operation_id="getApprovalRequirement",
    summary="Get a requirement of approval",
    responses=problem_responses(404),
)
async def get_approval_requirement(
    requirement_id: RequirementPath, principal: Decides, services: UsesServices
) -> ApprovalRequirementView:
    """Return an operation whose calls require approval."""
    return ApprovalRequirementView.of(
        await services.approval_requirements.get(requirement_id, principal=principal)
    )


@router.delete(
    "/approval-requirements/{id}",
    operation_id="deleteApprovalRequirement",
    summary="Remove a requirement of approval",
    status_code=204,
    responses=problem_responses(404, 409),
)
async def delete_approval_requirement(
    requirement_id: RequirementPath, principal: Removes, services: UsesServices
) -> None:
    """Remove a requirement: tools that are registered from now on may make such calls without approval.

    409 where a tool of this operation requires approval still: change `requires_approval` of the tool, which
    removes the requirement, too.
    """
    await services.approval_requirements.remove(requirement_id, principal=principal)
