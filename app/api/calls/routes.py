"""`/calls`: read records of calls."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Response

from app.access import requires
from app.access.repository import key_names
from app.api.calls.schemas import CallBodies, CallPage, CallQuery, CallView
from app.api.dependencies import UsesDatabase, UsesPageLinks, UsesServices, UsesVault
from app.api.streams.record_stream import current_position
from app.calls.log import service
from app.calls.log.queries import list_calls
from app.core.schemas import PAGE_HEADERS, problem_responses
from app.formats.toolclad.envelope import ENVELOPE_REFERENCE, MEDIA_TYPE
from app.security.principal import Principal

router = APIRouter(tags=["tools"])

ReadsCalls = Annotated[Principal, Depends(requires("calls:read"))]
ReadsBodies = Annotated[Principal, Depends(requires("calls:bodies", recent=True))]
CallId = Annotated[UUID, Path(description="The `X-Call-Id` of the call's response.")]


@router.get(
    "/calls",
    operation_id="listCalls",
    summary="List call records",
    responses=PAGE_HEADERS | problem_responses(),
)
async def get_call_records(
    principal: ReadsCalls, services: UsesServices, links: UsesPageLinks, query: Annotated[CallQuery, Query()]
) -> CallPage:
    """List the calls of tools that this key may see, newest first unless `sort` says otherwise.

    `GET /calls/stream` with `position` as `Last-Event-ID` follows the list.
    """
    filters = query.filters(service.visible_calls(principal))
    async with services.database.read_session() as session:
        position = await current_position(session, services.call_feed.source)
        page = await list_calls(session, query.page(), filters=filters, count=query.total)
        names = await key_names(session, {row.key_id for row in page.rows}, principal=principal)
    links.set(page.next_cursor)
    return CallPage.of(page, [CallView.of(row, names) for row in page.rows], position=position)


@router.get(
    "/calls/{call_id}", operation_id="getCall", summary="Get a call record", responses=problem_responses(404)
)
async def get_call(call_id: CallId, principal: ReadsCalls, database: UsesDatabase) -> CallView:
    """Return one call. With several workers its record may appear only after CALL_LOG_FLUSH_SECONDS."""
    row = await service.get(call_id, principal=principal, database=database)
    async with database.read_session() as session:
        names = await key_names(session, {row.key_id}, principal=principal)
    return CallView.of(row, names)


@router.get(
    "/calls/{call_id}/bodies",
    operation_id="getCallBodies",
    summary="Get the recorded arguments and response of a call",
    responses=problem_responses(404),
)
async def get_call_bodies(
    call_id: CallId, principal: ReadsBodies, database: UsesDatabase, vault: UsesVault
) -> CallBodies:
    """Return the recorded arguments and response of a call (CALL_LOG_BODIES). Each read is an event."""
    arguments, result = await service.read_bodies(
        call_id, principal=principal, database=database, vault=vault
    )
    # Who may read the definition of a toolset may read what it has set.
    sees_presets = principal.has_scope("providers:read") and not principal.is_restricted
    presets = arguments.presets if arguments is not None and sees_presets else None
    return CallBodies.model_validate(
        {"id": call_id, "arguments": arguments, "presets": presets, "result": result}, from_attributes=True
    )


@router.get(
    "/calls/{call_id}/envelope",
    operation_id="getCallEnvelope",
    summary="Get the evidence envelope of a call",
    response_class=Response,
    responses={
        200: {"description": "The envelope.", "content": {MEDIA_TYPE: {"schema": ENVELOPE_REFERENCE}}},
        **problem_responses(404),
    },
)
async def get_call_envelope(
    call_id: CallId, principal: ReadsBodies, database: UsesDatabase, vault: UsesVault
) -> Response:
    """Return the evidence envelope of a call of a ToolClad tool, made of its record (CALL_LOG_BODIES): the
    same bytes as in the response of the call. Each read is an event.
    """
    envelope = await service.read_envelope(call_id, principal=principal, database=database, vault=vault)
    return Response(envelope, media_type=MEDIA_TYPE)
