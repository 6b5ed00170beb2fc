"""Responses under way as events: what they share, and how all of them end when the gateway stops."""

import asyncio
from typing import Protocol

from app.deadlines import TimerQueue
from app.errors import GatewayError, Stopping


class OpenStream(Protocol):
    """A stream of events that can be told to end."""

    def end(self, cause: GatewayError) -> None:
        """End at once, with a last event that says why."""


class StreamRegistry:
    """The open streams of events of a process, whichever interface serves them.

    `heartbeat`: seconds of silence after which one is sent; `stall`: the most seconds that a client may take
    over 64 KiB. When `stopping` is set, every stream is ended, and one that begins later, at once.
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
        """Add a stream that begins."""
        self._open.add(stream)
        if self._waiter is None:
            self._waiter = self.clock.loop.create_task(self._end_all())

    def discard(self, stream: OpenStream) -> None:
        """Remove a stream, which cannot be told to end any more; nothing where it was removed before."""
        self._open.discard(stream)
        if not self._open and self._waiter is not None:
            self._waiter.cancel()
            self._waiter = None

    async def _end_all(self) -> None:
        await self.stopping.wait()
        for stream in tuple(self._open):
            stream.end(Stopping())
