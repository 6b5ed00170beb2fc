"""Writing events to one client, with heartbeats."""

import asyncio

from app.api.streams.connection import ResponseWriter
from app.calls.response.streams import OpenStream, StreamRegistry
from app.core.deadlines import Timer
from app.core.errors import ClientTimeout


class EventWriter:
    """Writes one event at a time, and a heartbeat when nothing was written for a while.

    `stream` is ended where a heartbeat cannot be written, because the client has stopped reading.
    """

    def __init__(self, stream: OpenStream, writer: ResponseWriter, streams: StreamRegistry) -> None:
        self._stream = stream
        self._writer = writer
        self._clock = streams.clock
        self._interval = streams.heartbeat
        self._lock = asyncio.Lock()
        self._last = 0.0
        self._timer: Timer | None = None
        self._sending: asyncio.Task[None] | None = None

    @property
    def sent(self) -> int:
        """The number of bytes written."""
        return self._writer.sent

    async def write(self, text: bytes, *, more: bool = True) -> None:
        """Write an event after the previous ones, as fast as the client reads. Raises ClientTimeout."""
        async with self._lock:
            self._last = self._clock.loop.time()
            await self._writer.write(text, more=more)

    def begin(self, heartbeat: bytes) -> None:
        """Send `heartbeat` from now on whenever nothing was written for the interval."""
        self._last = self._clock.loop.time()

        def on_timer() -> None:
            now = self._clock.loop.time()
            # A write in progress waits for the client: no heartbeat is due.
            if now >= self._last + self._interval - 0.001 and not self._lock.locked():
                self._last = now
                self._sending = self._clock.loop.create_task(self._send_heartbeat(heartbeat))
            self._timer = self._clock.call_at(max(self._last + self._interval, now + 0.01), on_timer)

        self._timer = self._clock.call_at(self._last + self._interval, on_timer)

    def end(self) -> None:
        """Stop sending heartbeats."""
        if self._timer is not None:
            self._timer.cancel()
        if self._sending is not None:
            self._sending.cancel()

    async def _send_heartbeat(self, heartbeat: bytes) -> None:
        try:
            await self.write(heartbeat)
        except ClientTimeout as stalled:
            self._stream.end(stalled)
        except OSError:
            # The connection is lost, which DisconnectWatch reports.
            return
