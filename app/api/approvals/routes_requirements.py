"""`/approval-requirements`: list and remove the requirements of approval that outlive their tools."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query

from app.access import requires
from app.api.approvals.schemas import (
    ApprovalRequirementPage,
    ApprovalRequirementQuery,
    ApprovalRequirementView,
)
from app.api.dependencies import UsesPageLinks, UsesServices
from app.core.schemas import PAGE_HEADERS, problem_responses
from app.security.principal import Principal

router = APIRouter(tags=["approvals"])

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
