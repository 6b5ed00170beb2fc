"""`/toolsets`: create, list, read, replace, delete and search toolsets."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field

from app.api.authorisation import requires
from app.api.crud import ETAG, describe_created, respond_stored
from app.api.dependencies import UsesPageLinks, UsesSettings, location_of, services_of
from app.api.idempotency import IdempotentOperation, UsesIdempotency
from app.api.lists import IfMatch
from app.api.toolsets.schemas import (
    ToolsetCreate,
    ToolsetInput,
    ToolsetPage,
    ToolsetQuery,
    ToolsetSummary,
    ToolsetView,
)
from app.core.resource_names import TOOLSET_NAME
from app.core.schemas import PAGE_HEADERS, problem_responses
from app.search.parameters import MAX_QUERY_LENGTH
from app.security.principal import Principal
from app.toolsets.service import SeenToolset, ToolsetService

router = APIRouter(tags=["toolsets"])
_CREATION: Final = IdempotentOperation("createToolset", seconds=60)

ReadsTools = Annotated[Principal, Depends(requires("tools:read"))]
WritesProviders = Annotated[Principal, Depends(requires("providers:write"))]
ChangesToolsets = Annotated[Principal, Depends(requires("providers:write", recent=True))]
ToolsetPath = Annotated[
    str, Path(alias="name", pattern=TOOLSET_NAME, description="Name of a toolset.", examples=["support"])
]
_Text = Annotated[str, Field(max_length=MAX_QUERY_LENGTH)]


async def _service(request: Request) -> ToolsetService:
    services = services_of(request)
    return ToolsetService(services.database, services.feed, services.collections)


UsesToolsets = Annotated[ToolsetService, Depends(_service)]


@router.post(
    "/toolsets",
    operation_id="createToolset",
    summary="Create a toolset",
    status_code=201,
    response_model=ToolsetView,
    responses={
        201: describe_created(ToolsetView, "Path of the toolset.", idempotent=True),
        **problem_responses(400, 409, 413, 415),
    },
)
async def create_toolset(
    request: Request,
    body: ToolsetCreate,
    principal: WritesProviders,
    toolsets: UsesToolsets,
    idempotency: UsesIdempotency,
) -> Response:
    """Create a toolset, a named view of the registry for agents. Members that do not exist are reported in
    `problems`, and become members once they do. 403 for a key with restrictions.
    """

    async def create() -> Response:
        toolset = await toolsets.create(body.name, body.to_draft(), principal=principal)
        return _respond(request, toolset, is_new=True)

    content = body.model_dump_json().encode()
    return await idempotency.respond(_CREATION, create, principal=principal, content=content)


@router.get(
    "/toolsets",
    operation_id="listToolsets",
    summary="List all toolsets",
    responses=PAGE_HEADERS | problem_responses(),
)
async def list_toolsets(
    principal: ReadsTools,
    toolsets: UsesToolsets,
    links: UsesPageLinks,
    settings: UsesSettings,
    query: Annotated[ToolsetQuery, Query()],
) -> ToolsetPage:
    """List the toolsets that this key may use."""
    page = await toolsets.page(query.page(), q=query.q, principal=principal)
    links.set(page.next_cursor)
    listed = [ToolsetSummary.of_listed(row, base_url=settings.base_url) for row in page.rows]
    return ToolsetPage.of(page, listed)


@router.get(
    "/toolsets/{name}",
    operation_id="getToolset",
    summary="Get a toolset",
    responses={200: {"headers": ETAG}, **problem_responses(404)},
)
async def get_toolset(
    name: ToolsetPath,
    principal: ReadsTools,
    toolsets: UsesToolsets,
    settings: UsesSettings,
    response: Response,
) -> ToolsetView:
    """Get a toolset, its tools that this key may call, and what of its definition has no effect."""
    toolset = await toolsets.get(name, principal=principal)
    response.headers["ETag"] = toolset.etag
    return ToolsetView.of(toolset, base_url=settings.base_url)


@router.put(
    "/toolsets/{name}",
    operation_id="putToolset",
    summary="Replace or create a toolset",
    response_model=ToolsetView,
    responses={
        200: {"headers": ETAG},
        201: describe_created(ToolsetView, "Path of the toolset."),
        **problem_responses(400, 412, 413, 415),
    },
)
async def put_toolset(
    request: Request,
    name: ToolsetPath,
    body: ToolsetInput,
    principal: ChangesToolsets,
    toolsets: UsesToolsets,
    *,
    if_match: IfMatch = None,
) -> Response:
    """Replace a toolset, or create it where there is none of this name. Agents that use a name which a tool
    no longer has get an error with the present one.
    """
    toolset, is_new = await toolsets.put(name, body.to_draft(), if_match=if_match, principal=principal)
    return _respond(request, toolset, is_new=is_new)


@router.delete(
    "/toolsets/{name}",
    operation_id="deleteToolset",
    summary="Delete a toolset",
    status_code=204,
    responses=problem_responses(404, 412),
)
async def delete_toolset(
    name: ToolsetPath, principal: ChangesToolsets, toolsets: UsesToolsets, *, if_match: IfMatch = None
) -> None:
    """Delete a toolset. Keys that are limited to it can use nothing by its addresses any more."""
    await toolsets.delete(name, if_match=if_match, principal=principal)


def _respond(request: Request, toolset: SeenToolset, *, is_new: bool) -> Response:
    location = location_of(request, "toolsets", toolset.row.name) if is_new else None
    view = ToolsetView.of(toolset, base_url=services_of(request).settings.base_url)
    return respond_stored(view, etag=toolset.etag, location=location)
