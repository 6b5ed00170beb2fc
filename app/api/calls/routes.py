"""`/calls.csv`, `/calls/stream` and `/calls`: records of calls."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from app.access import authorise
from app.access.authorise import require_same_rights
from app.access.repository import key_names
from app.api.authorisation import requires
from app.api.calls.schemas import CallBodies, CallCsvQuery, CallPage, CallQuery, CallSelection, CallView
from app.api.csv_rows import csv_cell, csv_response, csv_text
from app.api.dependencies import UsesDatabase, UsesPageLinks, UsesServices, UsesVault
from app.api.streams.record_stream import (
    LastEventId,
    RecordStream,
    current_position,
    event_stream_response,
    resume_time,
)
from app.calls.log import service
from app.calls.log.queries import NEWEST_CALLS, CallFilters, list_calls, matches
from app.calls.log.service import visible_calls
from app.core.schemas import PAGE_HEADERS, problem_responses
from app.formats.toolclad.envelope import ENVELOPE_REFERENCE, MEDIA_TYPE
from app.security.principal import Principal
from app.services import Services
from app.storage.database import Database
from app.storage.models import CallRecord

# Fixed paths come before the path with an id.
router = APIRouter(tags=["tools"])

ReadsCalls = Annotated[Principal, Depends(requires("calls:read"))]

_COLUMNS: Final = tuple(CallView.model_fields)
_ROWS_PER_QUERY: Final = 1_000
_CSV_EXAMPLE: Final = (
    f"{','.join(_COLUMNS)}\r\n019a0000-0000-7000-8000-000000000001,2026-11-22T09:00:00Z,a1b2c3d4e5f6,library,"
    "library.searchBooks,ok,200,200,12.5,11,420,1,true,billing agent,mcp,support,upstream\r\n"
)
_CSV_RESPONSE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The records, newest first, with a header line.",
        "content": {"text/csv": {"schema": {"type": "string"}, "example": _CSV_EXAMPLE}},
    }
}


@router.get(
    "/calls.csv",
    operation_id="exportCalls",
    summary="Export call records as CSV",
    response_class=StreamingResponse,
    responses=problem_responses() | _CSV_RESPONSE,
)
async def export_calls(
    request: Request,
    principal: ReadsCalls,
    database: UsesDatabase,
    query: Annotated[CallCsvQuery, Query()],
) -> StreamingResponse:
    """Return the calls of tools that this key may see, newest first, as comma-separated values.

    The columns are the members of the records of `GET /calls`, with the same filters. Text that a spreadsheet
    would take for a formula begins with an apostrophe. The response is complete where its last line ends in
    CRLF and the connection was closed properly; to continue after `limit` rows, pass the last `id` as
    `cursor`.
    """
    lines = _lines(database, query, query.filters(visible_calls(principal)), principal)
    check = partial(require_same_rights, request, "calls:read", principal)
    return await csv_response(lines, "calls.csv", check=check)


async def _lines(
    database: Database, query: CallCsvQuery, filters: CallFilters, principal: Principal
) -> AsyncIterator[bytes]:
    """Yield the lines in pieces, the header line with the first; no connection is held between two pieces."""
    page, left = NEWEST_CALLS, query.limit
    header: Iterable[Any] | None = _COLUMNS
    while left:
        async with database.read_session() as session:
            page = replace(page, limit=min(left, _ROWS_PER_QUERY))
            found = await list_calls(session, page, filters=filters, tenant=principal.tenant_id)
            names = await key_names(session, {row.key_id for row in found.rows}, principal=principal)
        left -= len(found.rows)
        lines = [] if header is None else [header]
        lines += (csv_row(CallView.of(row, names)) for row in found.rows)
        header = None
        yield csv_text(lines)
        if found.next_cursor is None:
            return
        page = replace(page, cursor=found.next_cursor)


def csv_row(call: CallView) -> list[str]:
    """Return the cells of a record: empty for null, and text that cannot be a formula."""
    return [csv_cell(value) for value in call.model_dump(mode="json").values()]


_STREAM_EXAMPLE: Final = (
    "event: call\nid: 019a0000-0000-7000-8000-000000000001\n"
    'data: {"id":"019a0000-0000-7000-8000-000000000001","at":"2026-11-22T09:00:00Z",'
    '"key_id":"a1b2c3d4e5f6","provider":"library","tool":"library.searchBooks","outcome":"ok","status":200,'
    '"upstream_status":200,"duration_ms":12.5,"request_bytes":11,"response_bytes":420,"attempts":1,'
    '"safe":true,"key_name":"billing agent","interface":"mcp","toolset":"support","source":"upstream"}\n\n'
)


class CallStreamView:
    """What the client of a stream may see of the calls, and its filters."""

    name = "call"

    def __init__(
        self, request: Request, services: Services, *, principal: Principal, selection: CallSelection
    ) -> None:
        self._request = request
        self._services = services
        self._selection = selection
        self._principal = principal
        self._filters = selection.filters(visible_calls(principal))
        self._tools: frozenset[str] | None = None
        self._tools_at = -1
        self._key_names: dict[str, str] = {}
        self._key_names_at = -1

    async def authorise(self) -> None:
        """See `StreamView`. The restrictions of the key may have changed."""
        principal = await authorise(self._request, "calls:read")
        if principal != self._principal:
            self._principal = principal
            self._filters = self._selection.filters(visible_calls(principal))
            self._tools_at = self._key_names_at = -1

    async def select(self, rows: Sequence[CallRecord]) -> Sequence[CallRecord]:
        """See `StreamView`."""
        if self._filters.tools is not None:
            await self._read_tools(self._filters)
        selected = [row for row in rows if matches(row, self._filters, tools=self._tools)]
        await self._read_key_names({row.key_id for row in selected})
        return selected

    def data(self, row: CallRecord) -> bytes:
        """See `StreamView`."""
        return CallView.of(row, self._key_names).model_dump_json().encode()

    async def _read_key_names(self, key_ids: set[str]) -> None:
        """Read the names of these keys that are not known, or all where something has changed since."""
        position = self._services.feed.position
        if position != self._key_names_at:
            self._key_names = {}
            self._key_names_at = position
        unknown = key_ids - self._key_names.keys()
        if unknown:
            async with self._services.database.read_session() as session:
                self._key_names |= await key_names(session, unknown, principal=self._principal)

    async def _read_tools(self, filters: CallFilters) -> None:
        """Read the names of the visible tools, where something has changed since they were read."""
        position = self._services.feed.position
        if position != self._tools_at and filters.tools is not None:
            async with self._services.database.read_session() as session:
                self._tools = frozenset((await session.scalars(filters.tools)).all())
            self._tools_at = position


@router.get(
    "/calls/stream",
    operation_id="streamCalls",
    summary="Stream call records as they are stored",
    status_code=200,
    response_class=RecordStream,
    response_model=None,
    responses=problem_responses() | event_stream_response(_STREAM_EXAMPLE),
)
async def stream_calls(
    request: Request,
    principal: ReadsCalls,
    services: UsesServices,
    query: Annotated[CallSelection, Query()],
    *,
    last_event_id: LastEventId = None,
) -> RecordStream[CallRecord]:
    """Stream the records of calls of tools that this key may see, from all workers, as server-sent events.

    Each call is an event `call` when its end is stored: `id` is the id of the call, `data` the record as in
    `GET /calls`. A comment is sent as a heartbeat. The last event is `gateway-error`, with a problem: the key
    is no longer valid, the client reads too slowly, or the gateway stops. With `Last-Event-ID` the stream
    continues after that record; records of a few seconds before it may come again.
    """
    view = CallStreamView(request, services, principal=principal, selection=query)
    since = await resume_time(services.call_feed, last_event_id)
    return RecordStream(services.call_feed, view, services.streams, since=since, last_event_id=last_event_id)


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
