"""`GET /utcp` and `GET /providers/{name}/utcp`."""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from sqlalchemy import select
from sqlmodel import col

from app.access import anonymous_if
from app.dependencies import UsesDatabase
from app.discovery.direct import DirectManuals
from app.discovery.manuals import Manuals
from app.discovery.shelves import Representation, Wanted
from app.errors import LoopDetected, NotFound, Unauthenticated
from app.models import TENANT, Provider
from app.pagination import TagFilter
from app.protocols.registry import PROTOCOLS
from app.schemas import PROVIDER_NAME, problems
from app.search import Filters
from app.security.identity import came_from
from app.security.principal import Principal
from app.services import Services
from app.utcp.render import ManualVersion

router = APIRouter()

_EVERY: Final = "|".join(sorted(PROTOCOLS))
# The most that a search by words lets into a manual.
_MOST_FOUND: Final = 1_000
_COMPRESSION_PAYS: Final = 1_000

Reads = Annotated[Principal, Depends(anonymous_if("utcp_anonymous"))]
Version = Annotated[
    Literal["0", "1"] | None,
    Query(description="Generation of UTCP: 1 for 1.x, 0 for 0.x. Default: as the operator set it."),
]
Words = Annotated[str | None, Query(max_length=1000, description="Only tools that a search for this finds.")]
Mode = Annotated[
    Literal["gateway", "direct"],
    Query(
        description="direct: the upstreams' own call templates, `${VARIABLES}` for secrets, of providers "
        "whose credentials are not the gateway's."
    ),
]
Protocols = Annotated[
    str | None,
    Query(
        pattern=f"^({_EVERY})(,({_EVERY}))*$",
        description="With mode=direct: protocols of the tools; without it those that UTCP's HTTP plugin has.",
    ),
]
IfNoneMatch = Annotated[str | None, Header(max_length=2000, description="ETags that are held already.")]

_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "A UTCP manual of the tools that this key may call.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {"tools": {"type": "array", "items": {"type": "object"}}},
                    "required": ["tools"],
                }
            }
        },
        "headers": {
            "ETag": {"schema": {"type": "string"}},
            "X-Tools-Left-Out": {
                "description": "With mode=direct: tools that a UTCP client could not call.",
                "schema": {"type": "integer"},
            },
        },
    },
    304: {"description": "The manual is the one that is held already."},
}


def _manuals(request: Request) -> Manuals:
    found: Manuals = request.state.manuals
    return found


def _services(request: Request) -> Services:
    found: Services = request.state.services
    return found


@dataclass(frozen=True, slots=True)
class _Asked:
    """What both routes ask for."""

    request: Request
    principal: Principal
    version: ManualVersion
    tag: str | None
    words: str | None
    if_none_match: str | None
    takes_gzip: bool
    direct: frozenset[str] | None = None
    """The protocols of the upstreams that the reader wants to call itself; None: none, all through here."""


async def _asked(
    request: Request,
    principal: Reads,
    version: Version = None,
    tag: TagFilter = None,
    q: Words = None,
    mode: Mode = "gateway",
    protocol: Protocols = None,
    if_none_match: IfNoneMatch = None,
) -> _Asked:
    # A coroutine, as in `app.dependencies`.
    services = _services(request)
    if came_from(request.headers.get("cdn-loop", "").encode("latin-1"), services.identity):
        raise LoopDetected("The gateway would be a provider of itself.")
    if mode == "direct" and principal.anonymous:
        raise Unauthenticated("How upstreams are called is told to holders of a key only.")
    return _Asked(
        request=request,
        principal=principal,
        version=0 if (version or services.settings.manual_version) == "0" else 1,
        tag=tag,
        words=q,
        if_none_match=if_none_match,
        takes_gzip=_takes_gzip(request.headers.get("accept-encoding", "")),
        direct=_protocols(protocol) if mode == "direct" else None,
    )


Asked = Annotated[_Asked, Depends(_asked)]


@router.get(
    "/utcp",
    operation_id="getManual",
    tags=["discovery"],
    response_class=Response,
    responses=problems(403) | _RESPONSES,
)
async def get_manual(
    asked: Asked,
    *,
    provider: Annotated[
        str | None, Query(pattern=PROVIDER_NAME, description="Only tools of this provider.")
    ] = None,
) -> Response:
    """The UTCP manual of all tools that this key may call; each points at its call URL here.

    With `mode=direct`, those that a client may call by itself, as their upstreams take them.
    """
    return _answer(await _manual(asked, provider), asked)


@router.get(
    "/providers/{name}/utcp",
    operation_id="getProviderManual",
    tags=["discovery"],
    response_class=Response,
    responses=problems(403, 404) | _RESPONSES,
)
async def get_provider_manual(
    name: Annotated[str, Path(pattern=PROVIDER_NAME, examples=["library"])],
    asked: Asked,
    database: UsesDatabase,
) -> Response:
    """The UTCP manual of one provider."""
    statement = select(col(Provider.tags)).where(
        col(Provider.tenant_id) == TENANT, col(Provider.name) == name
    )
    async with database.reading() as session:
        tags = (await session.execute(statement)).scalar_one_or_none()
    manual = await _manual(asked, name) if tags is not None else None
    # A key with a limit to tags sees a provider through the provider's own tags, or through one of its tools.
    if tags is None or manual is None or not (manual.tools or asked.principal.may_use(name, tags)):
        raise NotFound(f"There is no provider {name}.")
    return _answer(manual, asked)


async def _manual(asked: _Asked, provider: str | None) -> Representation:
    wanted = await _wanted(asked, provider)
    if asked.direct is not None:
        direct = DirectManuals(_services(asked.request).database)
        return await direct.manual(wanted, principal=asked.principal, protocols=asked.direct)
    manuals = _manuals(asked.request)
    return await manuals.manual(wanted, principal=asked.principal, compressed=asked.takes_gzip)


async def _wanted(asked: _Asked, provider: str | None) -> Wanted:
    matching = None
    if asked.words is not None and asked.words.strip():
        found = await _services(asked.request).search.matches(
            asked.words,
            principal=asked.principal,
            filters=Filters(provider=provider, tag=asked.tag),
            limit=_MOST_FOUND,
        )
        matching = frozenset(match.tool_id for match in found)
    return Wanted(asked.version, provider, asked.tag, matching)


def _protocols(said: str | None) -> frozenset[str]:
    return PROTOCOLS.direct_by_default if said is None else frozenset(said.split(","))


def _answer(manual: Representation, asked: _Asked) -> Response:
    zipped = asked.takes_gzip and len(manual.body) >= _COMPRESSION_PAYS
    etag = f'"{manual.etag}-gzip"' if zipped else f'"{manual.etag}"'
    headers = {
        "ETag": etag,
        "Cache-Control": "private, no-cache",
        "Vary": "Accept-Encoding, Authorization, X-API-Key",
    }
    if asked.direct is not None:
        headers["X-Tools-Left-Out"] = str(manual.left_out)
    if _holds(asked.if_none_match, etag):
        return Response(status_code=304, headers=headers)
    if zipped:
        headers["Content-Encoding"] = "gzip"
    body = manual.compressed() if zipped else memoryview(manual.body)
    return Response(body, headers=headers, media_type="application/json")


def _holds(if_none_match: str | None, etag: str) -> bool:
    """RFC 9110 section 13.1.2: `*` or a list of entity tags, compared weakly."""
    if if_none_match is None:
        return False
    held = (part.strip().removeprefix("W/") for part in if_none_match.split(","))
    return if_none_match.strip() == "*" or etag in held


def _takes_gzip(accept_encoding: str) -> bool:
    """RFC 9110 section 12.5.3; what is not named is not sent."""
    for item in accept_encoding.lower().split(","):
        coding, _, weight = item.partition(";")
        if coding.strip() == "gzip":
            value = weight.strip().removeprefix("q=").strip()
            return not (weight.strip() and not value.strip("0."))
    return False
