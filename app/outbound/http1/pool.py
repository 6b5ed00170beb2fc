"""Connections that wait to be used again, and how many may be open: in all, and to each origin.

A connection belongs to a scope, which stands for a provider with its credentials: requests of another scope
never use it. Within one, an upstream that is out of step is guarded against: see `Conduct`.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import structlog

from app.outbound.http1.connection import Connection

# uvicorn and Node close idle connections after 5 s: let go before them, as a request on a connection that is
# just being closed cannot be repeated safely.
KEEP_ALIVE_SECONDS: Final = 4.5

PROBATION_SECONDS: Final = 1.0
"""How long an origin is on probation, from its first response."""
REST_SECONDS: Final = 0.25
"""How long a connection to an origin on probation rests after each response, so that late bytes arrive
meanwhile.
"""
MAX_PROBE_SECONDS: Final = 0.3
"""The longest that a body is held back from an origin on probation."""
DISTRUST_SECONDS: Final = 600.0
"""How long connections to an origin that was out of step are not reused."""

_BUFFER_BYTES: Final = 64 << 10
_MAX_ORIGINS: Final = 4096
# A connection with something to read is closed by the event loop when it has read that, or after so long.
_UNREAD_SECONDS: Final = 1.0
_PROBE_SECONDS: Final = 0.02

_log = structlog.get_logger(__name__)

Dial = Callable[[Callable[[], Connection]], Awaitable[Connection]]
Key = tuple[str, bytes, bytes]
"""The origin, the key of the egress settings, and the scope; b"" for connections that are used once."""


@dataclass(slots=True)
class Conduct:
    """How an origin has behaved, reached in one way, and its connections of all scopes.

    `open` counts those being opened, too. `trusted_at` is the `loop.time()` from which connections are reused
    at once, 0.0 before the first response; `trusted_with_bodies_at` the same after requests with a body,
    counted from the first response to one, since only there an upstream shows that it does not read them.
    Bytes that belong to no request set `distrusted_until`, and nothing is reused before.
    """

    origin: str
    open: int = 0
    waiting: deque["asyncio.Future[None]"] = field(default_factory=deque)
    lanes: "dict[bytes, Lane]" = field(default_factory=dict)
    trusted_at: float = 0.0
    trusted_with_bodies_at: float = 0.0
    distrusted_until: float = 0.0

    def responded(self, now: float, probation: float, *, to_body: bool) -> None:
        """Let the probation begin, if this is the first response of its kind. Times are `loop.time()`."""
        if not self.trusted_at:
            self.trusted_at = now + probation
        if to_body and not self.trusted_with_bodies_at:
            self.trusted_with_bodies_at = now + probation


@dataclass(slots=True)
class Lane:
    """The connections of one scope to one origin; the longest idle one is the first."""

    conduct: Conduct
    idle: list[Connection] = field(default_factory=list)
    open: int = 0


class Pool:
    """`most` bounds the open connections, `most_per_origin` those to each origin. One event loop only.

    `probation` are seconds; 0 trusts every origin from the beginning.
    """

    def __init__(self, *, most: int, most_per_origin: int, probation: float = PROBATION_SECONDS) -> None:
        self._most = most
        self._most_per_origin = most_per_origin
        self._probation = probation
        self._open = 0
        self._turns = 0
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._lanes: dict[Key, Lane] = {}
        self._conduct: OrderedDict[tuple[str, bytes], Conduct] = OrderedDict()
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
        return sum(len(conduct.waiting) for conduct in self._conduct.values())

    def take(self, key: Key, now: float) -> Connection | None:
        """An idle connection of this scope on which nothing has arrived, the one used last; None where there
        is none.

        The socket is polled, because the event loop may not have read yet what arrived a moment ago.
        """
        lane = self._lanes.get(key)
        if lane is None:
            return None
        idle = lane.idle
        while idle:
            connection = idle[-1]
            if connection.rests_until <= now:
                idle.pop()
            else:
                connection = idle[0]
                if connection.rests_until > now:
                    return None
                del idle[0]
            if not connection.usable or now - connection.idle_since >= KEEP_ALIVE_SECONDS:
                connection.abort()
            elif connection.quiet:
                if connection.probe_seconds and 0.0 < lane.conduct.trusted_with_bodies_at <= now:
                    connection.probe_seconds = 0.0
                return connection
            else:
                # It reads an end, or bytes that belong to no request, and then closes itself.
                asyncio.get_running_loop().call_later(_UNREAD_SECONDS, connection.abort)
        return None

    async def open_one(self, key: Key, dial: Dial, *, fresh: bool = False) -> Connection:
        """A connection: a new one, or one that becomes free while this waits for its turn.

        `fresh` wants a new one, which may be closed again already. Raises what `dial` raises.
        """
        loop = asyncio.get_running_loop()
        conduct = self._conduct_of(key)
        first = True
        while not self._has_room(conduct):
            await self._turn(conduct, first=first)
            first = False
            if not fresh and (connection := self.take(key, loop.time())) is not None:
                return connection
        lane = self._lane(key, conduct)
        lane.open += 1
        conduct.open += 1
        self._open += 1
        made: list[Connection] = []
        began = loop.time()

        def make() -> Connection:
            connection = Connection(
                loop,
                self._buffer,
                on_free=lambda connection: self._free(loop, lane, key, connection),
                on_lost=lambda connection: self._lost(loop, lane, key, connection),
            )
            made.append(connection)
            return connection

        try:
            connection = await dial(make)
        except BaseException:
            if not made:
                self._forget(lane, key)
            for broken in made:
                broken.abort()
            raise
        if connection.usable:
            self._all.add(connection)
        now = loop.time()
        if key[2] and self._on_probation(conduct, now):
            # To connect has taken a round trip at least.
            connection.probe_seconds = min(now - began + _PROBE_SECONDS, MAX_PROBE_SECONDS)
        return connection

    async def _turn(self, conduct: Conduct, *, first: bool) -> None:
        """Wait until something has become free; who was woken for nothing is the next to be woken again."""
        turn = asyncio.get_running_loop().create_future()
        if first:
            conduct.waiting.append(turn)
        else:
            conduct.waiting.appendleft(turn)
        self._turns += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and not self._wake(conduct):
                self._wake_another()  # It had its turn, and leaves it to the next.
            raise
        finally:
            self._turns -= 1
            if turn in conduct.waiting:
                conduct.waiting.remove(turn)

    def close(self) -> None:
        """Close all connections, those in use included."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in list(self._all):
            connection.abort()

    def _conduct_of(self, key: Key) -> Conduct:
        place = (key[0], key[1])
        conduct = self._conduct.get(place)
        if conduct is None:
            conduct = self._conduct[place] = Conduct(key[0])
            if len(self._conduct) > _MAX_ORIGINS:
                self._forget_an_origin()
        else:
            self._conduct.move_to_end(place)
        return conduct

    def _forget_an_origin(self) -> None:
        """The one that was connected to longest ago, unless it is in use."""
        for place, conduct in self._conduct.items():
            if not conduct.open and not conduct.waiting:
                del self._conduct[place]
                return

    def _on_probation(self, conduct: Conduct, now: float) -> bool:
        """Whether connections to it are reused, but not yet at once after requests with a body."""
        trusted = 0.0 < conduct.trusted_with_bodies_at <= now
        return bool(self._probation) and not trusted and conduct.distrusted_until <= now

    def _lane(self, key: Key, conduct: Conduct) -> Lane:
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = conduct.lanes[key[2]] = Lane(conduct)
        return lane

    def _free(self, loop: asyncio.AbstractEventLoop, lane: Lane, key: Key, connection: Connection) -> None:
        now = loop.time()
        conduct = lane.conduct
        if self._closed or not key[2] or conduct.distrusted_until > now:
            connection.abort()
            return
        conduct.responded(now, self._probation, to_body=connection.had_body)
        connection.idle_since = now
        if conduct.trusted_at > now or (connection.had_body and conduct.trusted_with_bodies_at > now):
            connection.rests_until = now + REST_SECONDS
        lane.idle.append(connection)
        if not self._wake(conduct) and self._open >= self._most:
            # Who waits for a place in the pool may have that of this one.
            self._wake_another()
        if self._sweeper is None:
            self._sweeper = loop.call_later(KEEP_ALIVE_SECONDS, self._sweep)

    def _lost(self, loop: asyncio.AbstractEventLoop, lane: Lane, key: Key, connection: Connection) -> None:
        self._all.discard(connection)
        if connection in lane.idle:
            lane.idle.remove(connection)
        self._forget(lane, key)
        now = loop.time()
        if connection.out_of_step:
            self._distrust(lane.conduct, now)
        elif connection.used and key[2] and lane.conduct.distrusted_until <= now:
            # Where connections are closed after each response, bodies are not held back for ever, either.
            lane.conduct.responded(now, self._probation, to_body=connection.had_body)

    def _distrust(self, conduct: Conduct, now: float) -> None:
        """Reuse no connection to the origin for a while; then it is on probation anew."""
        if conduct.distrusted_until <= now:
            _log.warning("upstream_out_of_step", origin=conduct.origin, seconds=DISTRUST_SECONDS)
        conduct.distrusted_until = now + DISTRUST_SECONDS
        conduct.trusted_at = conduct.trusted_with_bodies_at = 0.0
        for connection in [one for lane in conduct.lanes.values() for one in lane.idle]:
            connection.abort()

    def _forget(self, lane: Lane, key: Key) -> None:
        conduct = lane.conduct
        lane.open -= 1
        conduct.open -= 1
        self._open -= 1
        if not lane.open and self._lanes.get(key) is lane:
            del self._lanes[key]
            del conduct.lanes[key[2]]
        if not self._wake(conduct):
            self._wake_another()

    def _wake(self, conduct: Conduct) -> bool:
        """Whether somebody waited for this origin, and goes on now."""
        while conduct.waiting:
            turn = conduct.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return True
        return False

    def _wake_another(self) -> None:
        if not self._turns:
            return
        for conduct in self._conduct.values():
            if conduct.waiting and conduct.open < self._most_per_origin and self._wake(conduct):
                return

    def _has_room(self, conduct: Conduct) -> bool:
        """Whether a connection may be opened; an idle one of the same origin, or of any, is closed for it."""
        if conduct.open >= self._most_per_origin and not _close_longest_idle(conduct.lanes.values()):
            return False
        return self._open < self._most or _close_longest_idle(self._lanes.values())

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


def _close_longest_idle(lanes: Iterable[Lane]) -> bool:
    longest = min((lane.idle[0] for lane in lanes if lane.idle), key=lambda one: one.idle_since, default=None)
    if longest is None:
        return False
    longest.abort()
    return True
