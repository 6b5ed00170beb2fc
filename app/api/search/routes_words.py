"""`/search/synonyms` and `/search/pins`: the words of an operator."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import PlainTextResponse

from app.api.authorisation import requires
from app.api.crud import ETAG, describe_created, respond_stored
from app.api.dependencies import UsesPageLinks, UsesServices, location_of
from app.api.idempotency import IdempotentOperation, UsesIdempotency
from app.api.lists import IfMatch
from app.api.providers.request_reader import read_body
from app.api.search.schemas_words import (
    PinnedResultPage,
    PinnedResultQuery,
    PinnedResultView,
    PinPath,
    SynonymSetPage,
    SynonymSetQuery,
    SynonymSetView,
    SynonymsImported,
    SynonymsPath,
    ToolsetScope,
)
from app.core.errors import BadRequest, UnsupportedMediaType
from app.core.media_types import parse_essence
from app.core.schemas import PAGE_HEADERS, problem_responses
from app.search.words.definition import PinnedResult, SynonymSet
from app.search.words.service import write_row_etag, write_text_etag
from app.search.words.text_form import MEDIA_TYPE
from app.security.principal import Principal
from app.storage.models import PinnedResultRow, SynonymSetRow

router = APIRouter(tags=["search"])
_SYNONYMS_CREATION: Final = IdempotentOperation("createSynonyms", seconds=60)
_TEXT_ETAG: Final[dict[str, Any]] = {
    "ETag": {"schema": {"type": "string"}, "description": "A digest of the text in quotes."}
}
_EXAMPLE: Final = "voucher, coupon, gift card\nk8s => kubernetes\n"
_TEXT_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {MEDIA_TYPE: {"schema": {"type": "string", "minLength": 1}, "example": _EXAMPLE}},
    }
}

ReadsProviders = Annotated[Principal, Depends(requires("providers:read"))]
WritesProviders = Annotated[Principal, Depends(requires("providers:write"))]


@router.post(
    "/search/synonyms",
    operation_id="createSynonyms",
    summary="Create a set of synonyms",
    status_code=201,
    response_model=SynonymSetView,
    responses={
        201: describe_created(SynonymSetView, "Path of the set of synonyms.", idempotent=True),
        **problem_responses(400, 409, 413, 415),
    },
)
async def create_synonyms(
    request: Request,
    body: SynonymSet,
    principal: WritesProviders,
    services: UsesServices,
    idempotency: UsesIdempotency,
) -> Response:
    """Create a set of terms that mean the same, for all searches or for those of one toolset. 403 for a key
    with restrictions.
    """

    async def create() -> Response:
        row = await services.search_words.create_synonyms(body, principal=principal)
        location = location_of(request, "search", "synonyms", str(row.id))
        return respond_stored(SynonymSetView.of(row), etag=write_row_etag(row), location=location)

    content = body.model_dump_json().encode()
    return await idempotency.respond(_SYNONYMS_CREATION, create, principal=principal, content=content)


@router.get(
    "/search/synonyms",
    operation_id="listSynonyms",
    summary="List all sets of synonyms",
    responses=PAGE_HEADERS | problem_responses(),
)
async def list_synonyms(
    principal: ReadsProviders,
    services: UsesServices,
    links: UsesPageLinks,
    query: Annotated[SynonymSetQuery, Query()],
) -> SynonymSetPage:
    """List the sets of synonyms, those of toolsets included. 403 for a key with restrictions."""
    page = await services.search_words.get_synonyms(
        query.page(), toolset=query.toolset, q=query.q, principal=principal
    )
    links.set(page.next_cursor)
    return SynonymSetPage.of(page, [SynonymSetView.of(row) for row in page.rows])


@router.get(
    "/search/synonyms/{id}",
    operation_id="getSynonyms",
    summary="Get a set of synonyms",
    responses={200: {"headers": ETAG}, **problem_responses(404)},
)
async def get_synonyms(
    synonyms_id: SynonymsPath, principal: ReadsProviders, services: UsesServices, response: Response
) -> SynonymSetView:
    """Get a set of synonyms."""
    found = await services.search_words.read_synonym_set(synonyms_id, principal=principal)
    response.headers["ETag"] = write_row_etag(found)
    return SynonymSetView.of(found)


@router.put(
    "/search/synonyms/{id}",
    operation_id="putSynonyms",
    summary="Replace a set of synonyms",
    responses={200: {"headers": ETAG}, **problem_responses(400, 404, 409, 412, 413, 415)},
)
async def put_synonyms(
    synonyms_id: SynonymsPath,
    body: SynonymSet,
    principal: WritesProviders,
    services: UsesServices,
    response: Response,
    *,
    if_match: IfMatch = None,
) -> SynonymSetView:
    """Replace a set of synonyms."""
    changed = await services.search_words.replace_synonyms(
        synonyms_id, body, if_match=if_match, principal=principal
    )
    response.headers["ETag"] = write_row_etag(changed)
    return SynonymSetView.of(changed)


@router.delete(
    "/search/synonyms/{id}",
    operation_id="deleteSynonyms",
    summary="Delete a set of synonyms",
    status_code=204,
    responses=problem_responses(404, 412),
)
async def delete_synonyms(
    synonyms_id: SynonymsPath,
    principal: WritesProviders,
    services: UsesServices,
    *,
    if_match: IfMatch = None,
) -> None:
    """Delete a set of synonyms."""
    await services.search_words.delete(SynonymSetRow, synonyms_id, if_match=if_match, principal=principal)


@router.get(
    "/search/synonyms.txt",
    operation_id="exportSynonyms",
    summary="Get all synonyms as text",
    response_class=PlainTextResponse,
    responses={
        200: {
            "description": "A set on each line, as in the files of Solr and Elasticsearch.",
            "headers": _TEXT_ETAG,
            "content": {MEDIA_TYPE: {"schema": {"type": "string"}, "example": _EXAMPLE}},
        },
        **problem_responses(),
    },
)
async def export_synonyms(
    principal: ReadsProviders, services: UsesServices, *, toolset: ToolsetScope = None
) -> PlainTextResponse:
    """Get the synonyms of all searches, or those of one toolset, as text: a set on each line, `voucher,
    coupon` for equivalent terms, `k8s => kubernetes` for an explicit mapping.
    """
    text = await services.search_words.export_synonyms(toolset, principal=principal)
    return PlainTextResponse(text, headers={"ETag": write_text_etag(text)})


@router.put(
    "/search/synonyms.txt",
    operation_id="importSynonyms",
    summary="Replace all synonyms by a text",
    responses={200: {"headers": _TEXT_ETAG}, **problem_responses(400, 412, 413, 415)},
    openapi_extra=_TEXT_BODY,
)
async def import_synonyms(
    request: Request,
    principal: WritesProviders,
    services: UsesServices,
    response: Response,
    *,
    toolset: ToolsetScope = None,
    if_match: IfMatch = None,
) -> SynonymsImported:
    """Replace the synonyms of all searches, or those of one toolset, by those of a text in the format of Solr
    and Elasticsearch. Sets that are stored already keep their ids; empty lines and lines that begin with `#`
    are ignored, but an empty body is rejected.
    """
    media_type = parse_essence(request.headers.get("content-type", MEDIA_TYPE))
    if media_type != MEDIA_TYPE:
        raise UnsupportedMediaType(f"Send {MEDIA_TYPE}, not {media_type[:100]!r}.")
    body = await read_body(request, max_bytes=services.settings.max_request_bytes)
    if not body:
        raise BadRequest("The body is empty. To delete all synonyms, send a comment (`#`).")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise BadRequest("The body is not UTF-8.") from None
    imported, stored = await services.search_words.import_synonyms(
        text, toolset=toolset, if_match=if_match, principal=principal
    )
    response.headers["ETag"] = write_text_etag(stored)
    return SynonymsImported.of(imported)


_PIN_CREATION: Final = IdempotentOperation("createPin", seconds=60)


@router.post(
    "/search/pins",
    operation_id="createPin",
    summary="Pin tools to a query",
    status_code=201,
    response_model=PinnedResultView,
    responses={
        201: describe_created(PinnedResultView, "Path of the pinned result.", idempotent=True),
        **problem_responses(400, 409, 413, 415),
    },
)
async def create_pin(
    request: Request,
    body: PinnedResult,
    principal: WritesProviders,
    services: UsesServices,
    idempotency: UsesIdempotency,
) -> Response:
    """Let tools come first in searches for the words of a query. Clients find only those that they may call;
    a tool that does not exist is reported in `problems`. 403 for a key with restrictions.
    """

    async def create() -> Response:
        pinned = await services.search_words.create_pin(body, principal=principal)
        location = location_of(request, "search", "pins", str(pinned.row.id))
        return respond_stored(PinnedResultView.of(pinned), etag=write_row_etag(pinned.row), location=location)

    content = body.model_dump_json().encode()
    return await idempotency.respond(_PIN_CREATION, create, principal=principal, content=content)


@router.get(
    "/search/pins",
    operation_id="listPins",
    summary="List all pinned results",
    responses=PAGE_HEADERS | problem_responses(),
)
async def list_pins(
    principal: ReadsProviders,
    services: UsesServices,
    links: UsesPageLinks,
    query: Annotated[PinnedResultQuery, Query()],
) -> PinnedResultPage:
    """List the pinned results, those of toolsets included. 403 for a key with restrictions."""
    page = await services.search_words.get_pins(
        query.page(), toolset=query.toolset, q=query.q, principal=principal
    )
    links.set(page.next_cursor)
    return PinnedResultPage.of(page, [PinnedResultView.of(state) for state in page.rows])


@router.get(
    "/search/pins/{id}",
    operation_id="getPin",
    summary="Get a pinned result",
    responses={200: {"headers": ETAG}, **problem_responses(404)},
)
async def get_pin(
    pin_id: PinPath, principal: ReadsProviders, services: UsesServices, response: Response
) -> PinnedResultView:
    """Get a pinned result."""
    found = await services.search_words.pin(pin_id, principal=principal)
    response.headers["ETag"] = write_row_etag(found.row)
    return PinnedResultView.of(found)


@router.put(
    "/search/pins/{id}",
    operation_id="putPin",
    summary="Replace a pinned result",
    responses={200: {"headers": ETAG}, **problem_responses(400, 404, 409, 412, 413, 415)},
)
async def put_pin(
    pin_id: PinPath,
    body: PinnedResult,
    principal: WritesProviders,
    services: UsesServices,
    response: Response,
    *,
    if_match: IfMatch = None,
) -> PinnedResultView:
    """Replace a pinned result."""
    changed = await services.search_words.replace_pin(pin_id, body, if_match=if_match, principal=principal)
    response.headers["ETag"] = write_row_etag(changed.row)
    return PinnedResultView.of(changed)


@router.delete(
    "/search/pins/{id}",
    operation_id="deletePin",
    summary="Delete a pinned result",
    status_code=204,
    responses=problem_responses(404, 412),
)
async def delete_pin(
    pin_id: PinPath, principal: WritesProviders, services: UsesServices, *, if_match: IfMatch = None
) -> None:
    """Delete a pinned result."""
    await services.search_words.delete(PinnedResultRow, pin_id, if_match=if_match, principal=principal)
