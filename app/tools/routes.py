"""`/tools`: list, search, read, change and delete tools. Calls are in `app.call_api`."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response

from app.access import requires
from app.dependencies import UsesDatabase, UsesFeed, UsesSearch, UsesSettings
from app.pagination import Cursor, IfMatch, Limit, TagFilter
from app.schemas import PROVIDER_NAME, TOOL_NAME, problem_responses
from app.search import Filters, hits_json
from app.security.principal import Principal
from app.tools import service
from app.tools.schemas import ToolHits, ToolOut, ToolPage, ToolPatch, ToolSummary

router = APIRouter()

ReadsTools = Annotated[Principal, Depends(requires("tools:read"))]
WritesProviders = Annotated[Principal, Depends(requires("providers:write"))]

ToolPath = Annotated[
    str, Path(pattern=TOOL_NAME, description="Canonical name or alias.", examples=["library.searchBooks"])
]
ProviderFilter = Annotated[
    str | None, Query(pattern=PROVIDER_NAME, description="Only tools of this provider.", examples=["library"])
]
_ETAG: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"ETag": {"schema": {"type": "string"}, "description": "The version in quotes."}}}
}


@router.get("/tools", operation_id="listTools", tags=["tools"], responses=problem_responses())
async def list_tools(
    principal: ReadsTools,
    database: UsesDatabase,
    settings: UsesSettings,
    *,
    provider: ProviderFilter = None,
    tag: TagFilter = None,
    enabled: Annotated[bool | None, Query(description="Only tools that are enabled (or disabled).")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ToolPage:
    """List the tools that this key may see, by name."""
    filters = {"provider": provider, "tag": tag, "enabled": enabled}
    tools, next_cursor = await service.list_tools(
        database, principal=principal, filters=filters, cursor=cursor, limit=limit
    )
    items = [ToolSummary.of(tool, base_url=settings.base_url) for tool in tools]
    return ToolPage(items=items, next_cursor=next_cursor)


@router.get(
    "/tools/search",
    operation_id="searchTools",
    tags=["tools"],
    response_model=ToolHits,
    responses=problem_responses(),
)
async def search_tools(
    principal: ReadsTools,
    search: UsesSearch,
    *,
    q: Annotated[
        str,
        Query(
            max_length=1000,
            description="What the tool should do, in any words. Empty: list tools by name.",
            examples=["search books"],
        ),
    ] = "",
    limit: Annotated[int, Query(ge=1, le=50, description="Maximum number of results.")] = 10,
    provider: ProviderFilter = None,
    tag: TagFilter = None,
) -> Response:
    """Search the tools that this key may call, best match first."""
    hits = await search.search(q, principal=principal, filters=Filters(provider, tag), limit=limit)
    # Built from JSON that was serialised when the tools were indexed, in the form of `ToolHits`.
    return Response(hits_json(hits), media_type="application/json")


@router.get("/tools/{name}", operation_id="getTool", tags=["tools"], responses=problem_responses(404) | _ETAG)
async def get_tool(
    name: ToolPath,
    principal: ReadsTools,
    database: UsesDatabase,
    settings: UsesSettings,
    response: Response,
    *,
    full: Annotated[
        bool,
        Query(description="For a large tool, return the complete schemas that calls are validated against."),
    ] = False,
) -> ToolOut:
    """Return one tool, by canonical name or alias, as a model sees it."""
    tool = await service.get_tool(database, principal=principal, name=name, full=full)
    response.headers["ETag"] = service.etag(tool)
    return ToolOut.of(tool, base_url=settings.base_url)


@router.patch(
    "/tools/{name}",
    operation_id="updateTool",
    tags=["tools"],
    responses=problem_responses(400, 404, 412, 413, 415) | _ETAG,
)
async def update_tool(
    name: ToolPath,
    patch: ToolPatch,
    principal: WritesProviders,
    database: UsesDatabase,
    feed: UsesFeed,
    settings: UsesSettings,
    response: Response,
    *,
    if_match: IfMatch = None,
) -> ToolOut:
    """Change description, tags or enabled. Re-imports preserve these changes; null reverts to the source."""
    tool = await service.change_tool(database, principal=principal, name=name, patch=patch, if_match=if_match)
    await feed.catch_up()
    response.headers["ETag"] = service.etag(tool)
    return ToolOut.of(tool, base_url=settings.base_url)


@router.delete(
    "/tools/{name}",
    operation_id="deleteTool",
    tags=["tools"],
    status_code=204,
    responses=problem_responses(404, 409, 412),
)
async def delete_tool(
    name: ToolPath,
    principal: WritesProviders,
    database: UsesDatabase,
    feed: UsesFeed,
    *,
    if_match: IfMatch = None,
) -> None:
    """Delete a custom tool. An imported tool can only be disabled (409)."""
    await service.delete_tool(database, principal=principal, name=name, if_match=if_match)
    await feed.catch_up()
