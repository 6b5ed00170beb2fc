"""`/events`, `/events.csv` and `/changes/stream`: the audit events."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse

from app.access.authorise import authorise, require_same_rights
from app.access.events import NEWEST_EVENTS, list_events
from app.api.authorisation import requires
from app.api.csv_rows import csv_cell, csv_response, csv_text
from app.api.dependencies import UsesDatabase, UsesPageLinks, UsesServices
from app.api.events.schemas import EventCsvQuery, EventPage, EventQuery, EventView
from app.api.streams.record_stream import (
    LastEventId,
    RecordStream,
    current_position,
    event_stream_response,
    resume_time,
)
from app.core.pagination import Page
from app.core.schemas import PAGE_HEADERS, problem_responses
from app.security.principal import Principal
from app.storage.database import Database
from app.storage.models import Event

router = APIRouter(tags=["audit"])

_NOBODY: Final = ""
_COLUMNS: Final = tuple(EventView.model_fields)
_ROWS_PER_QUERY: Final = 1_000
_CSV_EXAMPLE: Final = (
    f"{','.join(_COLUMNS)}\r\n019a0000-0000-7000-8000-000000000001,2026-11-22T09:00:00Z,a1b2c3d4e5f6,"
    "updated,tool,"
    'library.searchBooks,"{""changed"":[""tags""]}"\r\n'
)
_CSV_RESPONSE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The events, newest first, with a header line.",
        "content": {"text/csv": {"schema": {"type": "string"}, "example": _CSV_EXAMPLE}},
    }
}

ReadsCalls = Annotated[Principal, Depends(requires("calls:read"))]


@router.get(
    "/events",
    operation_id="listEvents",
    summary="List audit events",
    responses=PAGE_HEADERS | problem_responses(),
)
async def list_audit_events(
    principal: ReadsCalls,
    services: UsesServices,
    links: UsesPageLinks,
    query: Annotated[EventQuery, Query()],
) -> EventPage:
    """List the audit events, newest first unless `sort` says otherwise.

    A key restricted to providers or tags sees only its own events. `GET /changes/stream` with `position` as
    `Last-Event-ID` follows the list.
    """
    actor = _visible_actor(principal, query.actor)
    page: Page[Event] = Page([], None, 0)
    async with services.database.read_session() as session:
        position = await current_position(session, services.event_feed.source)
        if actor != _NOBODY:
            filters = query.filters(actor=actor, q=query.q)
            page = await list_events(session, query.page(), tenant=principal.tenant_id, filters=filters)
    links.set(page.next_cursor)
    return EventPage.of(page, [EventView.from_row(row) for row in page.rows], position=position)


@router.get(
    "/events.csv",
    operation_id="exportEvents",
    summary="Export audit events as CSV",
    response_class=StreamingResponse,
    responses=problem_responses() | _CSV_RESPONSE,
)
async def export_audit_events(
    request: Request,
    principal: ReadsCalls,
    database: UsesDatabase,
    query: Annotated[EventCsvQuery, Query()],
) -> StreamingResponse:
    """Return the audit events that this key may see, newest first, as comma-separated values.

    The columns are the members of `GET /events`, with the same filters; `detail` is JSON. Text that a
    spreadsheet would take for a formula begins with an apostrophe. The response is complete where its last
    line ends in CRLF and the connection was closed properly.
    """
    lines = _lines(database, query, principal)
    check = partial(require_same_rights, request, "calls:read", principal)
    return await csv_response(lines, "events.csv", check=check)


async def _lines(database: Database, query: EventCsvQuery, principal: Principal) -> AsyncIterator[bytes]:
    """Yield the lines in pieces, the header line with the first; no connection is held between two pieces."""
    yield_header = csv_text([_COLUMNS])
    actor = _visible_actor(principal, query.actor)
    page, left = NEWEST_EVENTS, 0 if actor == _NOBODY else query.limit
    filters = query.filters(actor=actor, q=query.q)
    while True:
        rows: list[Event] = []
        cursor = None
        if left:
            async with database.read_session() as session:
                page = replace(page, limit=min(left, _ROWS_PER_QUERY))
                found = await list_events(session, page, tenant=principal.tenant_id, filters=filters)
            rows, cursor = found.rows, found.next_cursor
        left -= len(rows)
        views = (EventView.from_row(row).model_dump(mode="json") for row in rows)
        yield yield_header + csv_text([csv_cell(value) for value in view.values()] for view in views)
        yield_header = b""
        if cursor is None or not left:
            return
        page = replace(page, cursor=cursor)


def _visible_actor(principal: Principal, actor: str | None) -> str | None:
    """Return the actor whose events a key may see of those with `actor`: a key restricted to providers or
    tags sees only its own; _NOBODY where it may see none of them.
    """
    if not principal.is_restricted:
        return actor
    return principal.key_id if actor in (None, principal.key_id) else _NOBODY


Filter = Query(min_length=1, max_length=300, pattern=r"^[^\u0000-\u001F\u007F]+$")

_STREAM_EXAMPLE: Final = (
    "event: change\nid: 019a0000-0000-7000-8000-000000000001\n"
    'data: {"id":"019a0000-0000-7000-8000-000000000001","at":"2026-11-22T09:00:00Z",'
    '"actor":"a1b2c3d4e5f6","action":"updated","object_type":"tool","object_name":"library.searchBooks",'
    '"detail":{"changed":["tags"]}}\n\n'
)


class ChangeStreamView:
    """What the client of a stream may see of the events, and its filters by column."""

    name = "change"

    def __init__(self, request: Request, *, principal: Principal, filters: dict[str, str | None]) -> None:
        self._request = request
        self._principal = principal
        self._filters = {column: value for column, value in filters.items() if value is not None}

    async def authorise(self) -> None:
        """See `StreamView`. The restrictions of the key may have changed."""
        self._principal = await authorise(self._request, "calls:read")

    async def select(self, rows: Sequence[Event]) -> Sequence[Event]:
        """See `StreamView`: a key restricted to providers or tags sees only its own events."""
        principal = self._principal
        return [
            row
            for row in rows
            if not (principal.is_restricted and row.actor != principal.key_id)
            and all(getattr(row, column) == value for column, value in self._filters.items())
        ]

    def data(self, row: Event) -> bytes:
        """See `StreamView`."""
        return EventView.from_row(row).model_dump_json().encode()


@router.get(
    "/changes/stream",
    operation_id="streamChanges",
    summary="Stream audit events as they happen",
    status_code=200,
    response_class=RecordStream,
    response_model=None,
    responses=problem_responses() | event_stream_response(_STREAM_EXAMPLE),
)
async def stream_changes(
    request: Request,
    principal: ReadsCalls,
    services: UsesServices,
    *,
    actor: Annotated[str | None, Filter] = None,
    action: Annotated[str | None, Filter] = None,
    object_type: Annotated[str | None, Filter] = None,
    object_name: Annotated[str | None, Filter] = None,
    last_event_id: LastEventId = None,
) -> RecordStream[Event]:
    """Stream the audit events of all workers as server-sent events: who changed what.

    Each is an event `change`: `id` is the id of the audit event, `data` as in `GET /events`, with the same
    filters. A key restricted to providers or tags sees only its own. Heartbeats, the last event and
    `Last-Event-ID` are as in `GET /calls/stream`; audit events of the minute before may come again.
    """
    filters = {"actor": actor, "action": action, "object_type": object_type, "object_name": object_name}
    view = ChangeStreamView(request, principal=principal, filters=filters)
    since = await resume_time(services.event_feed, last_event_id)
    return RecordStream(services.event_feed, view, services.streams, since=since, last_event_id=last_event_id)
