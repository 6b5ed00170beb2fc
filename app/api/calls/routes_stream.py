"""`/calls/stream`: call records as server-sent events, as soon as they are stored."""

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request

from app.access import authorise, requires
from app.access.repository import key_names
from app.api.calls.schemas import CallSelection, CallView
from app.api.dependencies import UsesServices
from app.api.streams.record_stream import LastEventId, RecordStream, event_stream_response, resume_time
from app.calls.log.queries import CallFilters, matches
from app.calls.log.service import visible_calls
from app.core.schemas import problem_responses
from app.security.principal import Principal
from app.services import Services
from app.storage.models import CallRecord

router = APIRouter(tags=["tools"])

ReadsCalls = Annotated[Principal, Depends(requires("calls:read"))]

_EXAMPLE: Final = (
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
    responses=problem_responses() | event_stream_response(_EXAMPLE),
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
