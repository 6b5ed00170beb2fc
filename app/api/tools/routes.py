"""`/tools`: list, read, change and delete tools, one or many at once. Calls are in `app.agents.call`."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from starlette.responses import JSONResponse

from app.access import require_recent
from app.api.authorisation import requires
from app.api.crud import ETAG
from app.api.dependencies import (
    UsesDatabase,
    UsesFeed,
    UsesPageLinks,
    UsesServices,
    UsesSettings,
    services_of,
)
from app.api.lists import IfMatch
from app.api.tools.schemas import (
    ToolBatch,
    ToolBatchResult,
    ToolDetails,
    ToolHistoryItem,
    ToolHistoryPage,
    ToolHistoryQuery,
    ToolPage,
    ToolPatch,
    ToolQuery,
    ToolSource,
    ToolSummary,
)
from app.catalog.availability import availability_of_tools
from app.catalog.tools import ToolView
from app.core.errors import not_found
from app.core.resource_names import TOOL_NAME
from app.core.schemas import PAGE_HEADERS, problem_responses
from app.providers.registration.tool_history import ToolHistoryWriter, read_history
from app.providers.tools import service
from app.providers.tools.batch import change_tools
from app.security.principal import Principal
from app.security.requirements import slot_alternatives
from app.services import Services

router = APIRouter()

ReadsTools = Annotated[Principal, Depends(requires("tools:read"))]
ReadsProviders = Annotated[Principal, Depends(requires("providers:read"))]
WritesProviders = Annotated[Principal, Depends(requires("providers:write"))]
DeletesTools = Annotated[Principal, Depends(requires("providers:write", recent=True))]

ToolPath = Annotated[
    str, Path(pattern=TOOL_NAME, description="Canonical name or alias.", examples=["library.searchBooks"])
]


async def suggest_similar_tools(request: Request) -> AsyncIterator[None]:
    """Add the names that were probably meant to the error of a route that finds no tool of a name.

    They are searched for after the database session of the route has ended.
    """
    try:
        yield
    except service.UnknownTool as error:
        search = services_of(request).search
        similar = await search.suggest_tools(error.name, principal=request.state.principal)
        raise not_found(error.detail, similar) from None


SuggestsTools = Depends(suggest_similar_tools)


@router.get(
    "/tools",
    operation_id="listTools",
    summary="List available tools",
    tags=["tools"],
    response_model=ToolPage,
    responses=PAGE_HEADERS | problem_responses(),
)
async def list_tools(
    principal: ReadsTools,
    services: UsesServices,
    links: UsesPageLinks,
    query: Annotated[ToolQuery, Query()],
    response: Response,
) -> Response:
    """List the tools that this key may see."""
    page, usage = await service.list_tools(
        services.database,
        query.page(),
        query.to_filters(),
        await services.collections.open_view(principal),
        services.conditions,
    )
    links.set(page.next_cursor)
    services.conditions.refresh_if_due()
    available = await availability_of_tools(page.rows, services.commands, tenant_id=principal.tenant_id)
    base_url = services.settings.base_url
    found = ToolPage.of(
        page,
        [
            ToolSummary.of(
                tool,
                base_url=base_url,
                available=one,
                missing_credential=_is_missing_credential(tool, services),
                usage=usage.get(tool.name),
            )
            for tool, one in zip(page.rows, available, strict=True)
        ],
    )
    # Serialised here: FastAPI would validate each item again.
    headers = {"Link": response.headers["Link"]}
    return Response(found.model_dump_json(), headers=headers, media_type="application/json")


@router.get(
    "/tools/{name}",
    operation_id="getTool",
    summary="Get a tool",
    tags=["tools"],
    responses=problem_responses(404, 409) | {200: {"headers": ETAG}},
    dependencies=[SuggestsTools],
)
async def get_tool(
    name: ToolPath,
    principal: ReadsTools,
    services: UsesServices,
    response: Response,
    *,
    full: Annotated[
        bool,
        Query(description="For a large tool, return the complete schemas that calls are validated against."),
    ] = False,
    source: Annotated[
        bool,
        Query(description="Also return what the source says, where people have changed the tool."),
    ] = False,
) -> ToolDetails:
    """Return one tool, by canonical name or alias, as a model sees it.

    For a key that is limited to toolsets, as the one that has it does, without call template, credential
    slots and source: 409 for a name that means different things in several.
    """
    view = await services.collections.open_view(principal)
    tool, response.headers["ETag"] = await service.get_seen_tool(
        services.database, view, name=name, full=full
    )
    details = await _details(tool, services, principal)
    if not view.is_registry:
        # They tell of the inputs that a toolset sets, and of an upstream that is called through the toolset.
        details.call_template, details.security = {}, []
    elif source:
        texts = await service.source_of(services.database, tool)
        details.source = ToolSource.model_validate(texts, from_attributes=True)
    return details


@router.patch(
    "/tools/{name}",
    operation_id="updateTool",
    summary="Update a tool",
    tags=["tools"],
    responses=problem_responses(400, 404, 412, 413, 415) | {200: {"headers": ETAG}},
    dependencies=[SuggestsTools],
)
async def update_tool(
    name: ToolPath,
    patch: ToolPatch,
    principal: WritesProviders,
    services: UsesServices,
    request: Request,
    response: Response,
    *,
    if_match: IfMatch = None,
) -> ToolDetails:
    """Change description, tags, enabled, whether calls require approval, and what agents are told about
    the effects and the responses. Re-imports preserve these changes; null reverts to the source.
    """
    if patch.may_end_approval:
        await require_recent(request)
    tool = await service.change_tool(
        services.database,
        principal=principal,
        name=name,
        changes=patch.to_changes(),
        if_match=if_match,
        history=ToolHistoryWriter(principal.key_id, services.settings.tool_history_max),
    )
    await services.feed.catch_up()
    response.headers["ETag"] = service.etag(tool)
    return await _details(tool, services, principal)


@router.delete(
    "/tools/{name}",
    operation_id="deleteTool",
    summary="Delete a custom tool",
    tags=["tools"],
    status_code=204,
    responses=problem_responses(404, 409, 412),
    dependencies=[SuggestsTools],
)
async def delete_tool(
    name: ToolPath,
    principal: DeletesTools,
    database: UsesDatabase,
    feed: UsesFeed,
    settings: UsesSettings,
    *,
    if_match: IfMatch = None,
) -> None:
    """Delete a custom tool. An imported tool can only be disabled (409)."""
    history = ToolHistoryWriter(principal.key_id, settings.tool_history_max)
    await service.delete_tool(database, principal=principal, name=name, if_match=if_match, history=history)
    await feed.catch_up()


@router.get(
    "/tools/{name}/history",
    operation_id="getToolHistory",
    summary="Get the history of a tool",
    tags=["tools"],
    responses=PAGE_HEADERS | problem_responses(404),
    dependencies=[SuggestsTools],
)
async def get_tool_history(
    name: ToolPath,
    principal: ReadsProviders,
    database: UsesDatabase,
    links: UsesPageLinks,
    query: Annotated[ToolHistoryQuery, Query()],
) -> ToolHistoryPage:
    """List what imports, approvals and people changed on a tool, newest first.

    The history is retained while a source does not have the tool, and deleted with its provider.
    """
    tool = await service.get_tool(database, principal=principal, name=name)
    async with database.read_session() as session:
        page = await read_history(session, tool, query.page(), q=query.q)
    links.set(page.next_cursor)
    return ToolHistoryPage.of(page, [ToolHistoryItem.of(row, principal=principal) for row in page.rows])


async def _details(tool: ToolView, services: Services, principal: Principal) -> ToolDetails:
    (available,) = await availability_of_tools([tool], services.commands, tenant_id=principal.tenant_id)
    services.conditions.refresh_if_due()
    return ToolDetails.of(
        tool,
        base_url=services.settings.base_url,
        available=available,
        missing_credential=_is_missing_credential(tool, services),
    )


def _is_missing_credential(tool: ToolView, services: Services) -> bool | None:
    slots = slot_alternatives(tool.security)
    return services.conditions.of(tool.name, provider=tool.provider, slots=slots).missing_credential


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
