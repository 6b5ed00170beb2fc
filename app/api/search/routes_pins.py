"""`/search/pins`: create, list, read, replace and delete pinned results."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request, Response

from app.access import requires
from app.api.dependencies import UsesPageLinks, UsesServices, location_of
from app.api.idempotency import IDEMPOTENCY_HEADERS, IdempotentOperation, UsesIdempotency
from app.api.lists import IfMatch
from app.api.search.schemas_words import PinnedResultPage, PinnedResultQuery, PinnedResultView, PinPath
from app.core.schemas import PAGE_HEADERS, location_header, problem_responses
from app.search.words.definition import PinnedResult
from app.search.words.service import write_row_etag
from app.security.principal import Principal
from app.storage.models import PinnedResultRow

router = APIRouter(tags=["search"])
_CREATION: Final = IdempotentOperation("createPin", seconds=60)
_ETAG: Final[dict[str, Any]] = {
    "ETag": {"schema": {"type": "string"}, "description": "The version in quotes."}
}

ReadsProviders = Annotated[Principal, Depends(requires("providers:read"))]
WritesProviders = Annotated[Principal, Depends(requires("providers:write"))]


@router.post(
    "/search/pins",
    operation_id="createPin",
    summary="Pin tools to a query",
    status_code=201,
    response_model=PinnedResultView,
    responses={
        201: {
            "model": PinnedResultView,
            "description": "Created",
            "headers": {**location_header("Path of the pinned result."), **_ETAG, **IDEMPOTENCY_HEADERS},
        },
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
        made = await services.search_words.create_pin(body, principal=principal)
        location = location_of(request, "search", "pins", str(made.row.id))
        headers = {"ETag": write_row_etag(made.row), "Location": location}
        content = PinnedResultView.of(made).model_dump_json()
        return Response(content, 201, headers=headers, media_type="application/json")

    content = body.model_dump_json().encode()
    return await idempotency.respond(_CREATION, create, principal=principal, content=content)


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
    responses={200: {"headers": _ETAG}, **problem_responses(404)},
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
    responses={200: {"headers": _ETAG}, **problem_responses(400, 404, 409, 412, 413, 415)},
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
