"""`POST /tools:batch`: change many tools at once."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from app.access import require_recent, requires
from app.api.dependencies import UsesDatabase, UsesFeed, UsesSettings
from app.api.tools.schemas_batch import ToolBatch, ToolBatchResult
from app.core.schemas import problem_responses
from app.providers.registration.tool_history import ToolHistoryWriter
from app.providers.tools.batch import change_tools
from app.security.principal import Principal

router = APIRouter()


@router.post(
    "/tools:batch",
    operation_id="updateTools",
    summary="Update many tools",
    tags=["tools"],
    response_model=None,
    responses={
        200: {"model": ToolBatchResult, "description": "No change failed"},
        207: {"model": ToolBatchResult, "description": "At least one change failed; see each item"},
        **problem_responses(400, 413, 415),
    },
)
async def update_tools(
    body: ToolBatch,
    principal: Annotated[Principal, Depends(requires("providers:write"))],
    database: UsesDatabase,
    feed: UsesFeed,
    settings: UsesSettings,
    request: Request,
) -> Response:
    """Enable, disable, tag or describe many tools, by names or by a filter, in one transaction.

    Each item of the result is what `PATCH /tools/{name}` would have returned. A tool that has these values
    already is `unchanged`, so that a repeated request changes nothing.
    """
    if any(one.patch is not None and one.patch.may_end_approval for one in body.operations):
        await require_recent(request)
    history = ToolHistoryWriter(principal.key_id, settings.tool_history_max)
    outcome = await change_tools(database, body.to_draft(), principal=principal, history=history)
    if outcome.applied:
        await feed.catch_up()
    base_url = settings.public_base_url or ""
    result = ToolBatchResult.of(outcome, dry_run=body.dry_run, base_url=base_url)
    return Response(result.model_dump_json(), result.status, media_type=JSONResponse.media_type)
