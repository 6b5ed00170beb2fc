"""Connections that wait to be used again, and how many may be open: in all, and to each origin."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from app.outbound.http1.connection import Connection

# uvicorn and Node close idle connections after 5 s: let go before them, as a request on a connection that is
# just being closed cannot be repeated safely.
KEEP_ALIVE_SECONDS: Final = 4.5

_BUFFER_BYTES: Final = 64 << 10

Dial = Callable[[Callable[[], Connection]], Awaitable[Connection]]


@dataclass(slots=True)
class Lane:
    """The connections of one origin, reached in one way. `open` counts those being opened, too."""

    idle: list[Connection] = field(default_factory=list)
    waiting: deque["asyncio.Future[None]"] = field(default_factory=deque)
    open: int = 0


class Pool:
    """`most` bounds the open connections, `most_per_lane` those of each lane. One event loop only."""

    def __init__(self, *, most: int, most_per_lane: int) -> None:
        self._most = most
        self._most_per_lane = most_per_lane
        self._open = 0
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._lanes: dict[object, Lane] = {}
        self._all: set[Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def open(self) -> int:
        """Connections that are open or being opened."""
        return self._open

    @property
    def idle(self) -> int:
        """Connections that wait to be used again."""
        return sum(len(lane.idle) for lane in self._lanes.values())

    @property
    def waiting(self) -> int:
        """Requests that wait for a connection."""
        return sum(len(lane.waiting) for lane in self._lanes.values())

    def take(self, key: object, now: float) -> Connection | None:
        """A kept connection of this lane, the one used last; None where there is none."""
        lane = self._lanes.get(key)
        if lane is None:
            return None
        idle = lane.idle
        while idle:
            connection = idle.pop()
            if connection.usable and now - connection.idle_since < KEEP_ALIVE_SECONDS:
                return connection
            connection.abort()
        return None

    async def open_one(self, key: object, dial: Dial, *, fresh: bool = False) -> Connection:
        """A connection: a new one, or one that becomes free while this waits for its turn.

        `fresh` wants a new one, which may be closed again already. Raises what `dial` raises.
        """
        loop = asyncio.get_running_loop()
        lane = self._lanes.setdefault(key, Lane())
        while lane.open >= self._most_per_lane or (self._open >= self._most and not self._make_room()):
            turn = loop.create_future()
            lane.waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled() and not self._wake(lane):
                    self._wake_another()  # It had its turn, and leaves it to the next.
                raise
            finally:
                if turn in lane.waiting:
                    lane.waiting.remove(turn)
            if not fresh and (connection := self.take(key, loop.time())) is not None:
                return connection
            lane = self._lanes.setdefault(key, lane)
        lane.open += 1
        self._open += 1
        made: list[Connection] = []

        def make() -> Connection:
            connection = Connection(
                loop,
                self._buffer,
                on_free=lambda connection: self._free(loop, lane, connection),
                on_lost=lambda connection: self._lost(key, lane, connection),
            )
            made.append(connection)
            return connection

        try:
            connection = await dial(make)
        except BaseException:
            if not made:
                self._forget(key, lane)
            for broken in made:
                broken.abort()
            raise
        if connection.usable:
            self._all.add(connection)
        return connection

    def close(self) -> None:
        """Close all connections, those in use included."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in list(self._all):
            connection.abort()

    def _free(self, loop: asyncio.AbstractEventLoop, lane: Lane, connection: Connection) -> None:
        if self._closed:
            connection.abort()
            return
        connection.idle_since = loop.time()
        lane.idle.append(connection)
        if not self._wake(lane) and self._open >= self._most:
            # Who waits for a place in the pool may have that of this one.
            self._wake_another()
        if self._sweeper is None:
            self._sweeper = loop.call_later(KEEP_ALIVE_SECONDS, self._sweep)

    def _lost(self, key: object, lane: Lane, connection: Connection) -> None:
        self._all.discard(connection)
        if connection in lane.idle:
            lane.idle.remove(connection)
        self._forget(key, lane)

    def _forget(self, key: object, lane: Lane) -> None:
        lane.open -= 1
        self._open -= 1
        woken = self._wake(lane)
        if not lane.open and not lane.waiting and not woken and self._lanes.get(key) is lane:
            del self._lanes[key]
        if not woken:
            self._wake_another()

    def _wake(self, lane: Lane) -> bool:
        """Whether somebody waited for this lane, and goes on now."""
        while lane.waiting:
            turn = lane.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return True
        return False

    def _wake_another(self) -> None:
        for lane in self._lanes.values():
            if lane.waiting and lane.open < self._most_per_lane and self._wake(lane):
                return

    def _make_room(self) -> bool:
        """Close the idle connection that was used longest ago, of whatever lane."""
        idle = [connection for lane in self._lanes.values() for connection in lane.idle]
        if not idle:
            return False
        min(idle, key=lambda connection: connection.idle_since).abort()
        return True

    def _sweep(self) -> None:
        self._sweeper = None
        loop = asyncio.get_running_loop()
        old = loop.time() - KEEP_ALIVE_SECONDS
        left = False
        for lane in list(self._lanes.values()):
            for connection in [one for one in lane.idle if one.idle_since <= old]:
                connection.abort()
            left = left or bool(lane.idle)
        if left:
            self._sweeper = loop.call_later(1.0, self._sweep)
