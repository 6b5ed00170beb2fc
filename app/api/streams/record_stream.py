"""The response of a stream of new records: server-sent events, from any record on, until one side ends it."""

import asyncio
import math
from collections.abc import Hashable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final, Generic, Protocol, TypeVar
from uuid import UUID

from fastapi import Header
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.streams.connection import ResponseWriter, until_disconnected
from app.api.streams.event_formats import ServerSentEvents
from app.api.streams.event_writer import EventWriter
from app.calls import ClientDisconnected
from app.calls.disconnect import DisconnectWatch
from app.calls.log.record_feed import PAGE_SIZE, RecordFeed, RecordSource
from app.calls.response.streams import StreamRegistry
from app.core.errors import (
    ClientTimeout,
    FieldError,
    GatewayError,
    InvalidInput,
    Overloaded,
    Stopping,
)
from app.core.uuid7 import make_first_uuid7
from app.security.lasting_rights import CHECK_SECONDS

Row = TypeVar("Row")

_MAX_REPLAYED: Final = 50_000
_FORMAT: Final = ServerSentEvents()
_UUID_VERSION: Final = 7
# In the year 9999: the timestamp of a UUIDv7 may be later than what a datetime can have.
_LAST_SECOND: Final = 253_402_000_000

LastEventId = Annotated[
    UUID | None,
    Header(
        description="The id of the last event that was received, or the `position` of a list: the stream "
        "continues after it."
    ),
]


class StreamView(Protocol[Row]):
    """What one client may see of the records, and wants to."""

    name: str
    """The name of its events."""

    async def authorise(self) -> None:
        """Verify the client's API key again; raise a GatewayError where it may no longer read the stream."""

    async def select(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the records that the client may see and that match its filters."""

    def data(self, row: Row) -> bytes:
        """Return a record as JSON."""


def event_stream_response(example: str) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` of a route that returns a RecordStream, with the text of an event."""
    content = {"schema": {"type": "string"}, "example": example}
    return {
        200: {
            "description": "Server-sent events, until one side ends the stream.",
            "content": {_FORMAT.media_type: content},
        }
    }


def new_record_event(name: str, record_id: UUID, data: bytes) -> bytes:
    """Return a server-sent event with a record; `data` is JSON on one line."""
    return f"event: {name}\nid: {record_id}\ndata: ".encode() + data + b"\n\n"


async def current_position(session: AsyncSession, source: RecordSource[Any]) -> UUID:
    """Return the position of a list that the session reads next: a stream that is resumed after it has every
    record that the list does not have yet.

    It is the time before the list is read, in the form of an id, and no record: a list may be empty, and the
    newest record that matches its filters may be days old. What becomes visible after the list was read has
    at most `overlap` before this a time of its own, so the stream begins that much earlier.
    """
    return make_first_uuid7(await source.now(session))


async def resume_time(feed: RecordFeed[Any], last_event_id: UUID | None) -> datetime | None:
    """Return the time from which a stream is resumed after the record or position `last_event_id`; None
    without one.

    A position, and a record that no longer exists, have the time of their id. Raise InvalidInput where the
    id has none.
    """
    if last_event_id is None:
        return None
    async with feed.database.read_session() as session:
        found = await feed.source.time_of(session, last_event_id)
    if found is not None:
        return found
    if last_event_id.version != _UUID_VERSION:
        detail = "There is no record with this id."
        raise InvalidInput(detail, errors=[FieldError("#/header/Last-Event-ID", detail)])
    return datetime.fromtimestamp(min((last_event_id.int >> 80) / 1000, _LAST_SECOND), UTC)


class RecordStream(Response, Generic[Row]):
    """An ASGI response with each new record as an event, and heartbeats. The first heartbeat says that from
    now on no record is missed.

    With `since`, what was stored from then on comes first, except the record `last_event_id`; records of the
    last seconds before it may come again. An error, the end of the key's validity, a client that reads too
    slowly, and the gateway's shutdown end the stream with an event `gateway-error`.
    """

    media_type = _FORMAT.media_type

    def __init__(
        self,
        feed: RecordFeed[Row],
        view: StreamView[Row],
        streams: StreamRegistry,
        *,
        since: datetime | None = None,
        last_event_id: UUID | None = None,
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._feed = feed
        self._view = view
        self._streams = streams
        self._since = since
        self._last_event_id = last_event_id
        self._replayed: dict[Hashable, datetime] = {}
        self._authorised_at = -math.inf
        self._task: asyncio.Task[Any] | None = None
        self._cause: GatewayError | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI.
        """Send the response; raise an unexpected error again after the last event, so that it is logged."""
        streams = self._streams
        self._feed.acquire()
        self._task = asyncio.current_task()
        writer = EventWriter(self, ResponseWriter(send, clock=streams.clock, stall=streams.stall), streams)
        streams.add(self)
        try:
            with DisconnectWatch(partial(until_disconnected, receive), streams.clock, after=0):
                if streams.stopping.is_set():
                    self.end(Stopping())
                await send(
                    {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
                )
                await self._forward(writer)
        except BaseException as caught:  # noqa: BLE001 - sent and, if unexpected, raised again.
            await self._failed(caught, writer)
        finally:
            streams.discard(self)
            writer.end()
            self._feed.release()

    def end(self, cause: GatewayError) -> None:
        """End the response at once, with `cause` as its last event."""
        self._cause = self._cause or cause
        if self._task is not None:
            self._task.cancel()

    async def _forward(self, writer: EventWriter) -> None:
        if self._since is not None:
            async with self._feed.database.read_session() as session:
                began = await self._feed.source.now(session)
            await self._replay(writer)
            # A slow client may read this for long; what became visible meanwhile may be older than the last
            # record.
            self._since = min(self._since, began)
        async with self._feed.subscribe() as subscription:
            # At once, so that a client knows when it is subscribed.
            await writer.write(_FORMAT.heartbeat)
            writer.begin(_FORMAT.heartbeat)
            if self._since is not None:
                # What became visible between the queries and the subscription.
                await self._replay(writer)
            while True:
                rows = await subscription.take(seconds=CHECK_SECONDS)
                await self._authorise()
                await self._write(rows, writer)

    async def _replay(self, writer: EventWriter) -> None:
        """Write what is stored from `since` on and was not written yet; then set `since` to the last time."""
        source = self._feed.source
        since = self._since or datetime.now(UTC)
        after, after_id = since - source.overlap, None
        number = 0
        while True:
            async with self._feed.database.read_session() as session:
                page = await source.read(session, after=after, after_id=after_id, limit=PAGE_SIZE)
            await self._authorise()
            await self._write([row for row in page if not self._is_last_event(row)], writer, remember=True)
            if page:
                after, after_id = source.position(page[-1])
            if len(page) < PAGE_SIZE:
                break
            number += len(page)
            if number >= _MAX_REPLAYED:
                raise Overloaded("There are too many records since the last event; read them as a list.")
        self._since = max(since, after)
        oldest = self._since - 2 * source.overlap
        self._replayed = {one: at for one, at in self._replayed.items() if at >= oldest}

    async def _write(self, rows: Sequence[Row], writer: EventWriter, *, remember: bool = False) -> None:
        source = self._feed.source
        new = [row for row in rows if source.identity(row) not in self._replayed]
        if not new:
            return
        if remember:
            self._replayed |= {source.identity(row): source.position(row)[0] for row in new}
        for row in await self._view.select(new):
            if self._streams.clock.loop.time() - self._authorised_at >= CHECK_SECONDS:
                # The client reads slowly.
                await self._authorise()
                if not await self._view.select([row]):
                    continue
            record_id = source.position(row)[1]
            await writer.write(new_record_event(self._view.name, record_id, self._view.data(row)))

    async def _authorise(self) -> None:
        await self._view.authorise()
        self._authorised_at = self._streams.clock.loop.time()

    def _is_last_event(self, row: Row) -> bool:
        return self._feed.source.position(row)[1] == self._last_event_id

    async def _failed(self, error: BaseException, writer: EventWriter) -> None:
        if isinstance(error, asyncio.CancelledError) and self._cause is not None:
            error = self._cause
            if self._task is not None:
                self._task.uncancel()
        self._streams.discard(self)
        if isinstance(error, ClientDisconnected | ClientTimeout):
            return
        if isinstance(error, Exception) and not isinstance(error, OSError):
            known = error if isinstance(error, GatewayError) else GatewayError()
            await writer.write(_FORMAT.failed(known.as_problem()), more=False)
            if known is error:
                return
        raise error
