"""`/tools/export` and `/toolsets/{name}/export`: tools in the dialects of models' clients."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from app.api.authorisation import requires
from app.api.dependencies import UsesServices
from app.api.exports.schemas import (
    LIST_LIMIT,
    MAX_NAMES,
    SEARCH_LIMIT,
    ExportQuery,
    ToolExport,
)
from app.core.errors import FieldError, InvalidInput, NotFound
from app.core.resource_names import TOOLSET_NAME
from app.core.schemas import problem_responses
from app.search.index import Filters
from app.search.parameters import list_texts
from app.security.principal import Principal
from app.services import Services
from app.toolsets import AgentTool, AmbiguousTool, ToolCollection, ToolSearch, schema_form
from app.toolsets.meta_tools import listed_tools, meta_tools

router = APIRouter()

ReadsTools = Annotated[Principal, Depends(requires("tools:read"))]


@router.get(
    "/tools/export",
    operation_id="exportTools",
    summary="Export tools for a model",
    tags=["tools"],
    response_model=ToolExport,
    responses=problem_responses(414),
)
async def export_tools(
    principal: ReadsTools, services: UsesServices, query: Annotated[ExportQuery, Query()]
) -> Response:
    """Export tools in the dialect of a client, with a report of what the dialect cannot say. Give `tools` to
    the client as it is, and its calls to `POST /tool-calls`.
    """
    return await _export(await services.collections.open_view(principal), query, services)


@router.get(
    "/toolsets/{name}/export",
    operation_id="exportToolset",
    summary="Export a toolset for a model",
    tags=["toolsets"],
    response_model=ToolExport,
    responses=problem_responses(404, 414),
)
async def export_toolset(
    name: Annotated[str, Path(pattern=TOOLSET_NAME, description="Name of a toolset.", examples=["support"])],
    principal: ReadsTools,
    services: UsesServices,
    query: Annotated[ExportQuery, Query()],
) -> Response:
    """Export the tools of a toolset, as `GET /tools/export` does those of the registry."""
    return await _export(await services.collections.toolset(name, principal), query, services)


async def _export(collection: ToolCollection, query: ExportQuery, services: Services) -> Response:
    tools, unknown, omitted = await _selected(collection, query)
    export = await services.exporter.export(
        tools,
        query.format,
        strict=query.strict,
        toolset=collection.toolset,
        form=schema_form(collection),
        unknown=unknown,
        omitted=omitted,
    )
    return Response(export.to_json(), media_type="application/json")


async def _selected(
    collection: ToolCollection, query: ExportQuery
) -> tuple[Sequence[AgentTool], list[str], int]:
    """Return the tools of a query, the names that are none, and the number of tools beyond the limit."""
    unknown: list[str] = []
    if query.q is not None and not query.names:
        filters = Filters(query.provider, query.tag)
        wanted = ToolSearch(list_texts(query.q), filters, query.limit or SEARCH_LIMIT)
        return (await collection.find(wanted)).tools, unknown, 0
    if query.names:
        tools: Sequence[AgentTool] = await _named(collection, query.names, unknown)
    else:
        tools = await _listed(collection, query)
    chosen = [
        tool
        for tool in tools
        if (query.provider is None or tool.provider == query.provider)
        and (query.tag is None or query.tag in tool.tags)
    ]
    limit = query.limit or LIST_LIMIT
    return chosen[:limit], unknown, max(0, len(chosen) - limit)


async def _listed(collection: ToolCollection, query: ExportQuery) -> Sequence[AgentTool]:
    """Return the tools that a client gets without names and search: as `tools/list` of MCP in the same mode,
    but without `read_more` beside the tools themselves.
    """
    mode = query.mode or ("all" if collection.is_registry else "auto")
    if query.format == "utcp" or query.provider is not None or query.tag is not None:
        # UTCP clients call no meta-tools, and who filters has searched already.
        mode = "all"
    form = schema_form(collection)
    return await listed_tools(await collection.listing(), mode, collection.options, form)


async def _named(collection: ToolCollection, names: list[str], unknown: list[str]) -> list[AgentTool]:
    found: dict[str, AgentTool] = {}
    known = {tool.name: tool for tool in meta_tools(await collection.listing())}
    given = [name.strip() for text in names for name in text.split(",")]
    if len(given) > MAX_NAMES:
        error = FieldError("#/query/names", f"Give at most {MAX_NAMES} names.")
        raise InvalidInput("The query has too many names.", errors=[error])
    for name in filter(None, dict.fromkeys(given)):
        try:
            tool = known.get(name) or await collection.get(name)
        except (NotFound, AmbiguousTool):
            unknown.append(name)
        else:
            found.setdefault(tool.name, tool)
    return list(found.values())
