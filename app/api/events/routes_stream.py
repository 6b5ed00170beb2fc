"""`/changes/stream`: audit events of the control plane as server-sent events."""

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request

from app.access.authorise import authorise, requires
from app.api.dependencies import UsesServices
from app.api.events.schemas import EventView
from app.api.streams.record_stream import LastEventId, RecordStream, event_stream_response, resume_time
from app.core.schemas import problem_responses
from app.security.principal import Principal
from app.storage.models import Event

router = APIRouter(tags=["audit"])

ReadsCalls = Annotated[Principal, Depends(requires("calls:read"))]
Filter = Query(min_length=1, max_length=300, pattern=r"^[^\u0000-\u001F\u007F]+$")

_EXAMPLE: Final = (
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
    responses=problem_responses() | event_stream_response(_EXAMPLE),
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
