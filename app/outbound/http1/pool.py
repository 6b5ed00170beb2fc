"""A pool of idle connections, with limits on the open ones: in total and per origin.

A connection belongs to a scope, which stands for a provider with its credentials: requests of another scope
never use it. Within a scope, `OriginPool` guards against an upstream whose responses are desynchronized
from its requests.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import structlog

from app.outbound.http1.connection import Http1Connection
from app.outbound.http1.exchange import Exchange

# uvicorn and Node.js close idle connections after 5 s. Close them first, since a request on a connection that
# is just being closed cannot be retried safely.
KEEP_ALIVE_SECONDS: Final = 4.5

PROBATION_SECONDS: Final = 1.0
"""How long an origin is on probation, from its first response."""
REUSE_DELAY_SECONDS: Final = 0.25
"""How long a connection to an origin on probation is not reused after each response, so that late bytes
arrive before the next request.
"""
MAX_BODY_DELAY_SECONDS: Final = 0.3
"""The longest time by which a request body to an origin on probation is delayed."""
DISTRUST_SECONDS: Final = 600.0
"""How long connections to an origin whose responses were desynchronized are not reused."""

_BUFFER_BYTES: Final = 64 << 10
_MAX_ORIGINS: Final = 4096
# A connection with unread data is closed when the event loop has read it, or after this time.
_UNREAD_CLOSE_SECONDS: Final = 1.0
_BODY_DELAY_MARGIN: Final = 0.02

_log = structlog.get_logger(__name__)


class PooledConnection(Protocol):
    """A connection of either version of HTTP, which carries one exchange at a time."""

    body_delay: float
    reusable_from: float
    idle_since: float
    desynchronized: bool
    speaks_http2: bool
    refused: bool
    used: bool
    had_body: bool

    @property
    def usable(self) -> bool:
        """Whether another request can be sent on it."""

    @property
    def has_unread_data(self) -> bool:
        """Whether something has arrived, after which it must not be reused."""

    def send(self, head: bytes, body: bytes | None, *, no_body: bool = False) -> Exchange:
        """Send a request and return its exchange."""

    def abort(self) -> None:
        """Close the connection immediately."""


class ConnectionType(Protocol):
    """The class of a connection: `Http1Connection` or `Http2Connection`."""

    def __call__(
        self,
        loop: asyncio.AbstractEventLoop,
        buffer: memoryview,
        *,
        on_free: Callable[[Any], None],
        on_lost: Callable[[Any], None],
    ) -> Any:
        """Return a connection that is not open yet."""


Dial = Callable[[Callable[[], Any]], Awaitable[Any]]
PoolKey = tuple[str, bytes, bytes]
"""The origin, the key of the egress settings, and the scope (b"" for connections that are used once)."""


@dataclass(slots=True)
class OriginPool:
    """The connections of all scopes to one origin over one egress route, and how the origin has behaved.

    `name` is the origin, `open` counts the connections that are open or being opened, `waiting` holds the
    requests that wait for a connection. `trusted_at` is the `loop.time()` from which connections are reused
    at once, 0.0 before the first response; `trusted_with_bodies_at` is the same for connections whose last
    request had a body, counted from the first response to such a request, since only then does an upstream
    show that it does not read bodies. Bytes that belong to no request set `distrusted_until`, a `loop.time()`
    before which no connection is reused.
    """

    name: str
    open: int = 0
    waiting: deque["asyncio.Future[None]"] = field(default_factory=deque)
    scopes: "dict[bytes, ScopePool]" = field(default_factory=dict)
    trusted_at: float = 0.0
    trusted_with_bodies_at: float = 0.0
    distrusted_until: float = 0.0

    def record_response(self, now: float, probation: float, *, to_body: bool) -> None:
        """Start the probation if this is the first response of its kind.

        `now` is a `loop.time()`, `probation` are seconds, `to_body` says whether the request had a body.
        """
        if not self.trusted_at:
            self.trusted_at = now + probation
        if to_body and not self.trusted_with_bodies_at:
            self.trusted_with_bodies_at = now + probation


@dataclass(slots=True)
class ScopePool:
    """The connections of one scope to one origin; `idle` is ordered with the longest idle one first."""

    origin: OriginPool
    idle: list[PooledConnection] = field(default_factory=list)
    open: int = 0


class ConnectionPool:
    """A pool of connections for one event loop.

    `max_connections` limits the open connections, `max_connections_per_origin` those to each origin.
    `probation` are seconds; 0 trusts every origin from the beginning. A connection that is idle for
    `keep_alive` seconds is closed. How at most `max_origins` origins have behaved is remembered.
    """

    def __init__(
        self,
        *,
        max_connections: int,
        max_connections_per_origin: int,
        probation: float = PROBATION_SECONDS,
        keep_alive: float = KEEP_ALIVE_SECONDS,
        max_origins: int = _MAX_ORIGINS,
    ) -> None:
        self._max_connections = max_connections
        self._max_connections_per_origin = max_connections_per_origin
        self._probation = probation
        self._keep_alive = keep_alive
        self._max_origins = max_origins
        self._open = 0
        self._waiter_count = 0
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._scope_pools: dict[PoolKey, ScopePool] = {}
        self._origin_pools: OrderedDict[tuple[str, bytes], OriginPool] = OrderedDict()
        self._all: set[PooledConnection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def open(self) -> int:
        """The number of connections that are open or being opened."""
        return self._open

    @property
    def idle(self) -> int:
        """The number of idle connections."""
        return sum(len(scope.idle) for scope in self._scope_pools.values())

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a connection."""
        return sum(len(origin.waiting) for origin in self._origin_pools.values())

    def take_idle(self, key: PoolKey, now: float) -> PooledConnection | None:
        """Return the most recently used idle connection of this scope on which nothing has arrived, or None.

        `now` is a `loop.time()`. The socket is polled, because the event loop may not yet have read what
        arrived a moment ago.
        """
        scope = self._scope_pools.get(key)
        if scope is None:
            return None
        idle = scope.idle
        while idle:
            connection = idle[-1]
            if connection.reusable_from <= now:
                idle.pop()
            else:
                connection = idle[0]
                if connection.reusable_from > now:
                    return None
                del idle[0]
            if not connection.usable or now - connection.idle_since >= self._keep_alive:
                connection.abort()
            elif not connection.has_unread_data:
                if connection.body_delay and 0.0 < scope.origin.trusted_with_bodies_at <= now:
                    connection.body_delay = 0.0
                return connection
            else:
                # It is about to read the end of the stream, or bytes that belong to no request, and close.
                asyncio.get_running_loop().call_later(_UNREAD_CLOSE_SECONDS, connection.abort)
        return None

    async def acquire(
        self, key: PoolKey, dial: Dial, *, new_only: bool = False, kind: ConnectionType = Http1Connection
    ) -> PooledConnection:
        """Return a connection: a new one of a kind, or one that becomes free while this waits for its turn.

        With `new_only`, return a new one, which its peer may already have closed. Raises what `dial` raises.
        """
        loop = asyncio.get_running_loop()
        origin = self._origin_pool(key)
        first = True
        while not self._has_capacity(origin):
            await self._wait_for_turn(origin, first=first)
            first = False
            if not new_only and (connection := self.take_idle(key, loop.time())) is not None:
                return connection
        scope = self._scope_pool(key, origin)
        scope.open += 1
        origin.open += 1
        self._open += 1
        made: list[PooledConnection] = []
        started = loop.time()

        def make() -> Any:
            connection = kind(
                loop,
                self._buffer,
                on_free=partial(self._handle_free, loop, scope, key),
                on_lost=partial(self._handle_loss, loop, scope, key),
            )
            made.append(connection)
            return connection

        try:
            opened: PooledConnection = await dial(make)
        except BaseException:
            if not made:
                self._release(scope, key)
            for broken in made:
                broken.abort()
            raise
        if opened.usable:
            self._all.add(opened)
        now = loop.time()
        if key[2] and self._on_probation(origin, now):
            # Connecting has taken at least one round trip.
            opened.body_delay = min(now - started + _BODY_DELAY_MARGIN, MAX_BODY_DELAY_SECONDS)
        return opened

    async def _wait_for_turn(self, origin: OriginPool, *, first: bool) -> None:
        """Wait until a connection, or capacity for a new one, becomes free.

        A waiter that was woken without effect returns to the front of the queue (`first` is False).
        """
        waiter = asyncio.get_running_loop().create_future()
        if first:
            origin.waiting.append(waiter)
        else:
            origin.waiting.appendleft(waiter)
        self._waiter_count += 1
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and not self._wake(origin):
                self._wake_another()  # It was woken, and leaves its turn to the next waiter.
            raise
        finally:
            self._waiter_count -= 1
            if waiter in origin.waiting:
                origin.waiting.remove(waiter)

    def close(self) -> None:
        """Close all connections, including those in use."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in list(self._all):
            connection.abort()

    def _origin_pool(self, key: PoolKey) -> OriginPool:
        route = (key[0], key[1])
        origin = self._origin_pools.get(route)
        if origin is None:
            origin = self._origin_pools[route] = OriginPool(key[0])
            if len(self._origin_pools) > self._max_origins:
                self._evict_origin()
        else:
            self._origin_pools.move_to_end(route)
        return origin

    def _evict_origin(self) -> None:
        """Forget the unused origin that was connected to longest ago."""
        for route, origin in self._origin_pools.items():
            if not origin.open and not origin.waiting:
                del self._origin_pools[route]
                return

    def _on_probation(self, origin: OriginPool, now: float) -> bool:
        """Return whether connections are reused, but not yet at once after requests with a body."""
        trusted = 0.0 < origin.trusted_with_bodies_at <= now
        return bool(self._probation) and not trusted and origin.distrusted_until <= now

    def _scope_pool(self, key: PoolKey, origin: OriginPool) -> ScopePool:
        scope = self._scope_pools.get(key)
        if scope is None:
            scope = self._scope_pools[key] = origin.scopes[key[2]] = ScopePool(origin)
        return scope

    def _handle_free(
        self,
        loop: asyncio.AbstractEventLoop,
        scope: ScopePool,
        key: PoolKey,
        connection: PooledConnection,
    ) -> None:
        now = loop.time()
        origin = scope.origin
        if self._closed or not key[2] or origin.distrusted_until > now:
            connection.abort()
            return
        origin.record_response(now, self._probation, to_body=connection.had_body)
        connection.idle_since = now
        if origin.trusted_at > now or (connection.had_body and origin.trusted_with_bodies_at > now):
            connection.reusable_from = now + REUSE_DELAY_SECONDS
        scope.idle.append(connection)
        if not (origin.waiting and self._wake(origin)) and self._open >= self._max_connections:
            # A request to another origin may open a connection in place of this one.
            self._wake_another()
        if self._sweeper is None:
            self._sweeper = loop.call_later(self._keep_alive, self._sweep)

    def _handle_loss(
        self,
        loop: asyncio.AbstractEventLoop,
        scope: ScopePool,
        key: PoolKey,
        connection: PooledConnection,
    ) -> None:
        self._all.discard(connection)
        if connection in scope.idle:
            scope.idle.remove(connection)
        self._release(scope, key)
        now = loop.time()
        if connection.desynchronized:
            self._distrust(scope.origin, now)
        elif connection.used and key[2] and scope.origin.distrusted_until <= now:
            # Where connections are closed after each response, bodies are not delayed for ever either.
            scope.origin.record_response(now, self._probation, to_body=connection.had_body)

    def _distrust(self, origin: OriginPool, now: float) -> None:
        """Reuse no connection to the origin for `DISTRUST_SECONDS`; its probation then starts again."""
        if origin.distrusted_until <= now:
            _log.warning("upstream_desynchronized", origin=origin.name, seconds=DISTRUST_SECONDS)
        origin.distrusted_until = now + DISTRUST_SECONDS
        origin.trusted_at = origin.trusted_with_bodies_at = 0.0
        for connection in [one for scope in origin.scopes.values() for one in scope.idle]:
            connection.abort()

    def _release(self, scope: ScopePool, key: PoolKey) -> None:
        origin = scope.origin
        scope.open -= 1
        origin.open -= 1
        self._open -= 1
        if not scope.open and self._scope_pools.get(key) is scope:
            del self._scope_pools[key]
            del origin.scopes[key[2]]
        if not self._wake(origin):
            self._wake_another()

    def _wake(self, origin: OriginPool) -> bool:
        """Wake the first request that waits for this origin; return whether there was one."""
        while origin.waiting:
            waiter = origin.waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return True
        return False

    def _wake_another(self) -> None:
        if not self._waiter_count:
            return
        for origin in self._origin_pools.values():
            if origin.waiting and origin.open < self._max_connections_per_origin and self._wake(origin):
                return

    def _has_capacity(self, origin: OriginPool) -> bool:
        """Return whether a connection may be opened, closing an idle one of the origin, or any, if needed."""
        at_origin_max = origin.open >= self._max_connections_per_origin
        if at_origin_max and not _close_longest_idle(origin.scopes.values()):
            return False
        return self._open < self._max_connections or _close_longest_idle(self._scope_pools.values())

    def _sweep(self) -> None:
        self._sweeper = None
        loop = asyncio.get_running_loop()
        old = loop.time() - self._keep_alive
        left = False
        for scope in list(self._scope_pools.values()):
            for connection in [one for one in scope.idle if one.idle_since <= old]:
                connection.abort()
            left = left or bool(scope.idle)
        if left:
            self._sweeper = loop.call_later(1.0, self._sweep)


def _close_longest_idle(scopes: Iterable[ScopePool]) -> bool:
    longest = min(
        (scope.idle[0] for scope in scopes if scope.idle), key=lambda one: one.idle_since, default=None
    )
    if longest is None:
        return False
    longest.abort()
    return True
