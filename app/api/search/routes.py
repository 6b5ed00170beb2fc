"""`/tools/search` and `/toolsets/{name}/search`: the tools for a task, and their export for a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Response

from app.api.authorisation import requires
from app.api.dependencies import UsesServices
from app.api.lists import TagFilter
from app.api.search.explanations import (
    Explain,
    SearchExplanation,
    explained_hits,
    explanations_by_tool,
    require_may_explain,
)
from app.api.search.schemas import (
    ExportFormat,
    ExportStrict,
    PluginHit,
    ProviderFilter,
    SearchLimit,
    SearchTexts,
    ToolHit,
    ToolHitsExport,
    ToolsetHit,
    ToolsetHitsExport,
    view_hit,
)
from app.catalog.availability import read_availability
from app.core import exact_json
from app.core.resource_names import TOOLSET_NAME
from app.core.schemas import problem_responses
from app.formats.dialects.dialects import Format, Strict
from app.search.advice import Advice
from app.search.hits import hit_availability, write_hits
from app.search.index import Filters
from app.search.parameters import list_texts
from app.search.search_index import SearchResult
from app.security.principal import Principal
from app.services import Services
from app.toolsets import AgentTool, ToolCollection, ToolSearch, condition_of, schema_form, toolset_call_url

router = APIRouter()

ReadsTools = Annotated[Principal, Depends(requires("tools:read"))]


@dataclass(frozen=True, slots=True)
class _WantedExport:
    format: Format
    strict: Strict


async def _wanted_export(
    export_format: ExportFormat = None, strict: ExportStrict = "auto"
) -> _WantedExport | None:
    return None if export_format is None else _WantedExport(export_format, strict)


async def _wanted_filters(provider: ProviderFilter = None, tag: TagFilter = None) -> Filters:
    return Filters(provider, tag)


WantedExport = Annotated[_WantedExport | None, Depends(_wanted_export)]
WantedFilters = Annotated[Filters, Depends(_wanted_filters)]


@router.get(
    "/tools/search",
    operation_id="searchTools",
    summary="Search tools by task",
    tags=["tools"],
    response_model=ToolHitsExport,
    responses=problem_responses(414),
)
async def search_tools(
    principal: ReadsTools,
    services: UsesServices,
    *,
    export: WantedExport,
    filters: WantedFilters,
    q: SearchTexts = "",
    limit: SearchLimit = 10,
    explain: Explain = False,
) -> Response:
    """Search the tools that this key may call, best match first; `weak` says where to search again.

    With several `q`, the best matches of each are taken in turn, each tool once. With `format` the response
    has them exported for a model, too, as by `GET /tools/export`. For a key that may read providers,
    `plugins` has those that are off and fit the words better than the matches. With `explain`, each match
    says why it has its score.
    """
    if explain:
        require_may_explain(principal)
    texts = list_texts(q)
    view = await services.collections.open_view(principal)
    if not view.is_registry:
        return await _search_view(view, texts, services, export, filters, limit=limit, explain=explain)
    result = await services.search.find(
        texts, principal=principal, filters=filters, limit=limit, explain=explain
    )
    hits = explained_hits(result.hits) if explain else result.hits
    # Built from JSON that was serialised when the tools were indexed, in the form of `ToolHits`.
    is_available = await hit_availability(hits, services.commands, tenant_id=principal.tenant_id)
    conditions = services.conditions
    conditions.refresh_if_due()
    body = write_hits(
        hits,
        is_available=is_available,
        condition=lambda hit: conditions.of(hit.name, provider=hit.provider, slots=hit.credential_slots),
    )
    advice = await services.search.advise(result, principal=principal, filters=filters)
    body = _joined(body, _search_members(result, advice, explain=explain))
    plugins = await services.plugins.suggestions(texts, hits, principal=principal)
    if plugins:
        body = _joined(body, {"plugins": [PluginHit.of(one).model_dump() for one in plugins]})
    if export is not None:
        found = await view.find(ToolSearch(texts, filters, limit, explain=explain))
        body = await _with_export(body, found.tools, export, services, view)
    return Response(body, media_type="application/json")


@router.get(
    "/toolsets/{name}/search",
    operation_id="searchToolset",
    summary="Search the tools of a toolset by task",
    tags=["toolsets"],
    response_model=ToolsetHitsExport,
    responses=problem_responses(404, 414),
)
async def search_toolset(
    name: Annotated[str, Path(pattern=TOOLSET_NAME, description="Name of a toolset.", examples=["support"])],
    principal: ReadsTools,
    services: UsesServices,
    *,
    export: WantedExport,
    filters: WantedFilters,
    q: SearchTexts = "",
    limit: SearchLimit = 10,
    explain: Explain = False,
) -> Response:
    """Search the tools of a toolset that this key may call, best match first, as `GET /tools/search` ranks
    them. With `format` the response has them exported for a model, too, as by `GET /toolsets/{name}/export`.
    """
    if explain:
        require_may_explain(principal)
    collection = await services.collections.toolset(name, principal)
    texts = list_texts(q)
    return await _search_view(
        collection, texts, services, export, filters, limit=limit, explain=explain, toolset=name
    )


async def _search_view(
    collection: ToolCollection,
    texts: Sequence[str],
    services: Services,
    export: _WantedExport | None,
    filters: Filters,
    *,
    limit: int,
    explain: bool,
    toolset: str | None = None,
) -> Response:
    """Return the matches among tools as toolsets have them: in the form of the address of a toolset, or of
    that which names none.
    """
    result = await collection.find(ToolSearch(texts, filters, limit, advise=True, explain=explain))
    found = result.tools
    named = [(tool.provider, tool.command_name) for tool in found]
    tenant = collection.principal.tenant_id
    available = await read_availability(named, services.commands, tenant_id=tenant)
    services.conditions.refresh_if_due()
    scores = {hit.name: hit.score for hit in result.search.hits}
    hits: list[ToolHit | ToolsetHit] = []
    for tool, one in zip(found, available, strict=True):
        condition = condition_of(tool, services.conditions)
        url = toolset_call_url(services.settings.base_url, collection.toolset, tool.name)
        if toolset is not None:
            hits.append(ToolsetHit.of(tool, call_url=url, condition=condition, available=one))
        else:
            score = scores.get(tool.tool, 0.0)
            hits.append(view_hit(tool, score=score, call_url=url, condition=condition, available=one))
    if explain:
        explanations = explanations_by_tool(result.search.hits)
        for tool, hit in zip(found, hits, strict=True):
            hit.explanation = explanations.get(tool.tool)
    body = exact_json.dumps({"items": [hit.model_dump(mode="json") for hit in hits]})
    body = _joined(body, _search_members(result.search, result.advice, explain=explain))
    if export is not None:
        body = await _with_export(body, found, export, services, collection)
    return Response(body, media_type="application/json")


def _search_members(result: SearchResult, advice: Advice | None, *, explain: bool) -> dict[str, Any]:
    members: dict[str, Any] = {"ranking": result.ranking, "weak": advice is not None}
    if advice is not None:
        members["suggestions"] = advice.as_json()
    if explain:
        members["explanation"] = SearchExplanation.of(result).model_dump()
    return members


def _joined(body: bytes, members: Mapping[str, Any]) -> bytes:
    """Return a JSON object that is not empty with further members."""
    return b"%s,%s" % (body[:-1], exact_json.dumps(members)[1:])


async def _with_export(
    body: bytes,
    tools: Sequence[AgentTool],
    wanted: _WantedExport,
    services: Services,
    collection: ToolCollection,
) -> bytes:
    """Return a JSON object with the members of the export of these tools."""
    export = await services.exporter.export(
        tools,
        wanted.format,
        strict=wanted.strict,
        toolset=collection.toolset,
        form=schema_form(collection),
    )
    return b"%s,%s" % (body[:-1], export.to_json()[1:])
