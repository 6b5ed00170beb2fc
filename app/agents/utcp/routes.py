"""`GET /utcp` and `GET /providers/{name}/utcp`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from sqlalchemy import select
from sqlmodel import col

from app.agents.utcp.direct import DirectManuals
from app.agents.utcp.manual_schema import MANUAL_COMPONENT
from app.agents.utcp.manuals import Manuals
from app.agents.utcp.provider_manuals import ManualSelection, Representation
from app.agents.utcp.toolset_manuals import ToolsetManuals
from app.api.authorisation import anonymous_if
from app.api.dependencies import UsesDatabase, services_of
from app.api.lists import TagFilter
from app.core.errors import Forbidden, LoopDetected, Unauthenticated, not_found
from app.core.resource_names import PROVIDER_NAME, TOOLSET_NAME
from app.core.schemas import problem_responses
from app.formats.utcp.render import STREAMING_PROTOCOL, ManualVersion
from app.protocols.registry import PROTOCOLS
from app.search.index import Filters
from app.search.parameters import QueryTexts, list_texts
from app.security.loop_detection import names_gateway
from app.security.principal import Principal
from app.storage.models import TENANT, Provider
from app.toolsets import ToolCollection

router = APIRouter()

# No client of UTCP calls what only the gateway has a connection to.
_PROTOCOL_NAMES: Final = "|".join(sorted(name for name, one in PROTOCOLS.items() if one.direct.versions))
# At most this many search results go into a manual.
_MAX_MATCHES: Final = 1_000
_MIN_GZIP_BYTES: Final = 1_000

Reads = Annotated[Principal, Depends(anonymous_if("utcp_anonymous"))]
Version = Annotated[
    Literal["0", "1"] | None,
    Query(description="Generation of UTCP: 1 for 1.x, 0 for 0.x. Default: the operator's setting."),
]
SearchQuery = Annotated[
    QueryTexts | None,
    Query(
        description="Only tools that match this search, the best match first. Up to four, whose matches are "
        "taken in turn.",
    ),
]
Mode = Annotated[
    Literal["gateway", "direct"],
    Query(
        description="direct: the upstreams' own call templates, with `${VARIABLES}` for secrets, of "
        "providers for which the gateway stores no credentials."
    ),
]
Protocols = Annotated[
    str | None,
    Query(
        pattern=f"^({_PROTOCOL_NAMES})(,({_PROTOCOL_NAMES}))*$",
        description="Protocols by which the client calls tools. With mode=direct: only tools of these; "
        "default: those of UTCP's HTTP plugin. Else tools are called by `http`, and those that stream by "
        "`streamable_http`, if this is named.",
    ),
]
ToolsetProtocols = Annotated[
    str | None,
    Query(
        pattern=f"^({_PROTOCOL_NAMES})(,({_PROTOCOL_NAMES}))*$",
        description="Protocols by which the client calls tools: by `http`, and those that stream by "
        "`streamable_http`, if this is named.",
    ),
]
IfNoneMatch = Annotated[
    str | None, Header(max_length=2000, description="ETags of the manuals that the client already has.")
]

_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "A UTCP manual of the tools that this key may call.",
        "content": {
            "application/json": {
                "schema": {"$ref": f"#/components/schemas/{MANUAL_COMPONENT}"},
            }
        },
        "headers": {
            "ETag": {"schema": {"type": "string"}},
            "X-Tools-Left-Out": {
                "description": "Tools that were selected, but that no UTCP client could read, or call with "
                "mode=direct; one of them would have clients reject the whole manual.",
                "schema": {"type": "integer"},
            },
        },
    },
    304: {"description": "The client already has this manual."},
}


def _manuals(request: Request) -> Manuals:
    found: Manuals = request.state.manuals
    return found


@dataclass(frozen=True, slots=True)
class _ManualQuery:
    """The request parameters that both routes share."""

    request: Request
    principal: Principal
    version: ManualVersion
    tag: str | None
    search: Sequence[str]
    """The texts of the search; none: all tools."""
    if_none_match: str | None
    takes_gzip: bool
    direct: frozenset[str] | None = None
    """The protocols of the upstreams that the client calls itself; None: it calls all tools through the
    gateway.
    """
    streaming: bool = False
    """Whether the client calls tools that stream by `streamable_http`."""


async def _manual_query(
    request: Request,
    principal: Reads,
    version: Version = None,
    tag: TagFilter = None,
    q: SearchQuery = None,
    mode: Mode = "gateway",
    protocol: Protocols = None,
    if_none_match: IfNoneMatch = None,
) -> _ManualQuery:
    # A coroutine, as in `app.api.dependencies`.
    services = services_of(request)
    if names_gateway(request.headers.get("cdn-loop", "").encode("latin-1"), services.identity):
        raise LoopDetected("The gateway would become a provider of itself.")
    if mode == "direct" and principal.anonymous:
        raise Unauthenticated("mode=direct requires an API key.")
    if mode == "direct" and principal.upstream is not None and principal.upstream.is_offline:
        raise Forbidden("The calls of this key reach no upstream, which those with mode=direct would.")
    return _ManualQuery(
        request=request,
        principal=principal,
        version=0 if (version or services.settings.manual_version) == "0" else 1,
        tag=tag,
        search=list_texts(q),
        if_none_match=if_none_match,
        takes_gzip=_takes_gzip(request.headers.get("accept-encoding", "")),
        direct=_protocols(protocol) if mode == "direct" else None,
        streaming=mode == "gateway" and protocol is not None and STREAMING_PROTOCOL in protocol.split(","),
    )


ManualQuery = Annotated[_ManualQuery, Depends(_manual_query)]


@router.get(
    "/utcp",
    operation_id="getManual",
    summary="Get the UTCP manual of all tools",
    tags=["discovery"],
    response_class=Response,
    responses=problem_responses(403) | _RESPONSES,
)
async def get_manual(
    query: ManualQuery,
    *,
    provider: Annotated[
        str | None, Query(pattern=PROVIDER_NAME, description="Only tools of this provider.")
    ] = None,
) -> Response:
    """Return the UTCP manual of all tools that this key may call; each points to its call URL at this
    gateway.

    With `mode=direct`, only tools that a client may call itself, with the call templates of their upstreams.
    """
    return _response(await _manual(query, provider), query)


@router.get(
    "/providers/{name}/utcp",
    operation_id="getProviderManual",
    summary="Get the UTCP manual of a provider",
    tags=["discovery"],
    response_class=Response,
    responses=problem_responses(403, 404) | _RESPONSES,
)
async def get_provider_manual(
    name: Annotated[str, Path(pattern=PROVIDER_NAME, examples=["library"])],
    query: ManualQuery,
    database: UsesDatabase,
) -> Response:
    """Return the UTCP manual of one provider."""
    statement = select(col(Provider.tags)).where(
        col(Provider.tenant_id) == TENANT, col(Provider.name) == name
    )
    async with database.read_session() as session:
        tags = (await session.execute(statement)).scalar_one_or_none()
    manual = await _manual(query, name) if tags is not None else None
    # A key with a limit to tags sees a provider through the provider's own tags, or through one of its tools.
    if tags is None or manual is None or not (manual.tools or query.principal.may_use(name, tags)):
        similar = services_of(query.request).search.suggest_providers(name, principal=query.principal)
        raise not_found(f"There is no provider {name}.", similar)
    return _response(manual, query)


@router.get(
    "/toolsets/{name}/utcp",
    operation_id="getToolsetManual",
    summary="Get the UTCP manual of a toolset",
    tags=["discovery"],
    response_class=Response,
    responses=problem_responses(403, 404) | _RESPONSES,
)
async def get_toolset_manual(
    request: Request,
    name: Annotated[str, Path(pattern=TOOLSET_NAME, description="Name of a toolset.", examples=["support"])],
    principal: Reads,
    *,
    version: Version = None,
    tag: TagFilter = None,
    q: SearchQuery = None,
    protocol: ToolsetProtocols = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Return the UTCP manual of a toolset's tools that this key may call; each points to its call URL in the
    toolset, by the name that it has there.
    """
    query = await _manual_query(
        request, principal, version, tag, q, protocol=protocol, if_none_match=if_none_match
    )
    collection = await services_of(request).collections.toolset(name, principal)
    return _response(await _view_manual(collection, query, None), query)


async def _manual(query: _ManualQuery, provider: str | None) -> Representation:
    view = await services_of(query.request).collections.open_view(query.principal)
    if query.direct is None and not view.is_registry:
        return await _view_manual(view, query, provider)
    selection = await _selection(query, provider)
    if query.direct is not None:
        direct = DirectManuals(services_of(query.request).database)
        return await direct.manual(selection, principal=query.principal, protocols=query.direct)
    manuals = _manuals(query.request)
    return await manuals.manual(selection, principal=query.principal, compressed=query.takes_gzip)


async def _view_manual(
    collection: ToolCollection, query: _ManualQuery, provider: str | None
) -> Representation:
    """Return the manual of tools as toolsets have them."""
    manuals: ToolsetManuals = query.request.state.toolset_manuals
    return await manuals.manual(
        collection,
        query.version,
        texts=query.search,
        filters=Filters(provider=provider, tag=query.tag),
        streaming=query.streaming,
        compressed=query.takes_gzip,
    )


async def _selection(query: _ManualQuery, provider: str | None) -> ManualSelection:
    matching = None
    if query.search:
        found = await services_of(query.request).search.find(
            query.search,
            principal=query.principal,
            filters=Filters(provider=provider, tag=query.tag),
            limit=_MAX_MATCHES,
        )
        matching = tuple(hit.tool_id for hit in found.hits)
    return ManualSelection(query.version, provider, query.tag, matching, query.streaming)


def _protocols(names: str | None) -> frozenset[str]:
    return PROTOCOLS.direct_by_default if names is None else frozenset(names.split(","))


def _response(manual: Representation, query: _ManualQuery) -> Response:
    zipped = query.takes_gzip and len(manual.body) >= _MIN_GZIP_BYTES
    etag = f'"{manual.etag}-gzip"' if zipped else f'"{manual.etag}"'
    headers = {
        "ETag": etag,
        "Cache-Control": "private, no-cache",
        "Vary": "Accept-Encoding, Authorization, X-API-Key",
        "X-Tools-Left-Out": str(manual.left_out),
    }
    if _if_none_match(query.if_none_match, etag):
        return Response(status_code=304, headers=headers)
    if zipped:
        headers["Content-Encoding"] = "gzip"
    body = manual.compressed() if zipped else memoryview(manual.body)
    return Response(body, headers=headers, media_type="application/json")


def _if_none_match(if_none_match: str | None, etag: str) -> bool:
    """Return whether If-None-Match names the entity tag (RFC 9110 section 13.1.2: `*` or a list, compared
    weakly).
    """
    if if_none_match is None:
        return False
    etags = (part.strip().removeprefix("W/") for part in if_none_match.split(","))
    return if_none_match.strip() == "*" or etag in etags


def _takes_gzip(accept_encoding: str) -> bool:
    """Return whether Accept-Encoding names gzip (RFC 9110 section 12.5.3); a header without it does not."""
    for item in accept_encoding.lower().split(","):
        coding, _, weight = item.partition(";")
        if coding.strip() == "gzip":
            value = weight.strip().removeprefix("q=").strip()
            return not (weight.strip() and not value.strip("0."))
    return False
