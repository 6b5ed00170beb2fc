"""Open streams of events, and how they are ended when the gateway stops."""

import asyncio
from typing import Protocol

from app.core.deadlines import TimerQueue
from app.core.errors import GatewayError, Stopping


class OpenStream(Protocol):
    """A stream of events that can be ended from outside."""

    def end(self, cause: GatewayError) -> None:
        """End the stream at once, with a last event that contains the error."""


class StreamRegistry:
    """The open streams of events of a process, from all interfaces.

    After `heartbeat` seconds without an event, a heartbeat is sent; a client that takes more than `stall`
    seconds to receive 64 KiB is disconnected. When `stopping` is set, every stream is ended; a stream that
    begins later is ended at once.
    """

    def __init__(
        self, clock: TimerQueue, stopping: asyncio.Event, *, heartbeat: float = 15.0, stall: float = 60.0
    ) -> None:
        self.clock = clock
        self.stopping = stopping
        self.heartbeat = heartbeat
        self.stall = stall
        self._open: set[OpenStream] = set()
        self._waiter: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Return the number of open streams."""
        return len(self._open)

    def add(self, stream: OpenStream) -> None:
        """Add an open stream, to be ended when the gateway stops."""
        self._open.add(stream)
        if self._waiter is None:
            self._waiter = self.clock.loop.create_task(self._end_all())

    def discard(self, stream: OpenStream) -> None:
        """Remove a stream that has ended; do nothing where it was removed before."""
        self._open.discard(stream)
        if not self._open and self._waiter is not None:
            self._waiter.cancel()
            self._waiter = None

    async def _end_all(self) -> None:
        await self.stopping.wait()
        for stream in tuple(self._open):
            stream.end(Stopping())
