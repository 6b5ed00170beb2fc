"""The client connections of one worker: how many there are, from which addresses, and their timeouts.

Each state in which the server waits for a client has a queue, ordered by the start of the state. A single
timer checks the heads of the queues twice per second, so that a request costs no timer of its own.
"""

import asyncio
import resource
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakKeyDictionary

import structlog
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from app.core.client_address import group_address
from app.core.settings import Settings
from app.server.rejections import (
    ADDRESS_LIMIT,
    BODY_AFTER_RESPONSE,
    BODY_TIMEOUT,
    CONNECTION_LIMIT,
    EVICTED,
    HEAD_TIMEOUT,
    NO_REQUEST,
    REASONS,
    RESPONSE_TIMEOUT,
    Rejection,
)

if TYPE_CHECKING:
    from uvicorn.server import ServerState

_log = structlog.get_logger(__name__)

LINGER_BYTES: Final = 16 << 20
"""How much of a request is read and discarded after its response: a client whose connection is reset may lose
the response (RFC 9112 section 9.6)."""
_LINGER_SECONDS: Final = 5.0
_SWEEP_SECONDS: Final = 0.5
MAX_ENDED_AT_ONCE: Final = 32
"""Connections of each queue that one iteration of the loop ends: ending one costs some 50 microseconds."""
_NEXT_SWEEP_SECONDS: Final = 0.01
# Memory for incomplete heads of all connections. Beyond it, the oldest are rejected, which are an attack's.
_HEADS_BYTES: Final = 8 << 20
# A connection younger than this is not closed in favour of another.
_YOUNG_SECONDS: Final = 1.0
# The amount that a client must send of a body, or read of a response, within the timeout.
_PROGRESS_BYTES: Final = 64 << 10
# Longer values of X-Forwarded-For are not cached.
_MAX_FORWARDED: Final = 128
# The application has the same timeout for calls, and a more specific error.
_BODY_SLACK: Final = 2.0


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits of one worker; see `settings.http_server`. Times are in seconds, sizes in bytes."""

    head_bytes: int = 64 << 10
    header_fields: int = 128
    head_timeout: float = 10.0
    keep_alive_timeout: float = 75.0
    stall_timeout: float = 60.0
    connections: int = 4096
    per_address: int = 1024
    pipelined: int = 16
    forwarded_allow_ips: str = "127.0.0.1"

    @classmethod
    def from_settings(cls, settings: Settings) -> "ServerLimits":
        """Return the limits of the settings, with at most half of RLIMIT_NOFILE as connections."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        connections = settings.max_connections
        if files != resource.RLIM_INFINITY and connections > files // 2:
            connections = files // 2
            _log.warning("MAX_CONNECTIONS exceeds half of the limit of open files", connections=connections)
        return cls(
            head_bytes=settings.max_head_bytes,
            header_fields=settings.max_header_fields,
            head_timeout=settings.head_timeout,
            keep_alive_timeout=settings.keep_alive_timeout,
            stall_timeout=settings.client_idle_timeout,
            connections=connections,
            per_address=settings.max_connections_per_address,
            pipelined=settings.max_pipelined_requests,
            forwarded_allow_ips=settings.forwarded_allow_ips,
        )


class ClientConnection(Protocol):
    """A connection as the table of connections uses it."""

    group: str | None
    """The client's address group while the connection counts for its limit, else None."""
    counted: bool
    head_cost: int

    def reject(self, rejection: Rejection) -> None:
        """Send the rejection's response, if it has one and none was started, and close the connection."""

    def abort(self) -> None:
        """Close the connection without sending what is buffered."""

    def is_body_stalled(self, now: float, seconds: float) -> bool:
        """Return whether the client has sent less than 64 KiB of its body in `seconds`, though it could."""

    def is_response_stalled(self, now: float, seconds: float) -> bool:
        """Return whether the client has read less than 64 KiB of its response in `seconds`."""


class ConnectionTable:
    """The table of one worker's client connections; not thread-safe."""

    def __init__(self, limits: ServerLimits | None = None) -> None:
        self.limits = limits or ServerLimits()
        self.open = 0
        self.rejected = dict.fromkeys(REASONS, 0)
        """The number of rejected requests and closed connections by reason, since the start."""
        self.fresh: dict[ClientConnection, float] = {}
        """Connections that have sent nothing yet, with the time of their start."""
        self.heads: dict[ClientConnection, float] = {}
        """Connections with an incomplete request head, with the time of its first byte."""
        self.idle: dict[ClientConnection, float] = {}
        """Connections between two requests, with the time since when."""
        self.lingering: dict[ClientConnection, float] = {}
        """Connections that still send a body after their response, with the time since when."""
        self.bodies: set[ClientConnection] = set()
        """Connections with an incomplete request body."""
        self.blocked: set[ClientConnection] = set()
        """Connections that do not read their response as fast as it is written."""
        self._head_cost = 0
        self._addresses: dict[str, int] = {}
        self._trusted = ProxyHeadersMiddleware(_serve_nothing, self.limits.forwarded_allow_ips).trusted_hosts
        self._groups = lru_cache(maxsize=4096)(self._find_group)
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def trusts(self, host: str | None) -> bool:
        """Return whether the peer is a proxy whose X-Forwarded-For is trusted; None is a Unix socket."""
        return host is None or host in self._trusted

    def admit(self, connection: ClientConnection, loop: asyncio.AbstractEventLoop) -> Rejection | None:
        """Add a new connection; return why it is rejected, or None. Without a `group` it has no address
        limit.
        """
        now = loop.time()
        if self.open >= self.limits.connections and not self._evict(now):
            return self.count(CONNECTION_LIMIT)
        if connection.group is not None and not self.enter(connection.group):
            connection.group = None
            return self.count(ADDRESS_LIMIT)
        connection.counted = True
        self.open += 1
        self.fresh[connection] = now
        if self._timer is None:
            self._loop = loop
            self._timer = loop.call_later(_SWEEP_SECONDS, self._sweep)
        return None

    def release(self, connection: ClientConnection) -> None:
        """Remove a connection that was closed; do nothing for one that was removed before."""
        self.fresh.pop(connection, None)
        self.idle.pop(connection, None)
        self.lingering.pop(connection, None)
        self.bodies.discard(connection)
        self.blocked.discard(connection)
        self.record_head_end(connection)
        if connection.group is not None:
            self.leave(connection.group)
            connection.group = None
        if connection.counted:
            connection.counted = False
            self.open -= 1

    def enter(self, group: str) -> bool:
        """Count one more connection or request of an address group; return False when there are too many."""
        number = self._addresses.get(group, 0)
        if number >= self.limits.per_address:
            return False
        self._addresses[group] = number + 1
        return True

    def leave(self, group: str) -> None:
        """Count one connection or request of an address group less, after `enter`."""
        number = self._addresses[group] - 1
        if number:
            self._addresses[group] = number
        else:
            del self._addresses[group]

    def find_forwarded_group(self, forwarded_for: bytes) -> str | None:
        """Return the address group of the client that a trusted proxy names in X-Forwarded-For."""
        if len(forwarded_for) > _MAX_FORWARDED:
            return self._find_group(forwarded_for)
        return self._groups(forwarded_for)

    def _find_group(self, forwarded_for: bytes) -> str | None:
        host = self._trusted.get_trusted_client_address(forwarded_for.decode("latin-1"))[0]
        return group_address(host) if host else None

    def count(self, rejection: Rejection) -> Rejection:
        """Count a rejection for the metric, and return it."""
        self.rejected[rejection.reason] += 1
        return rejection

    def record_head_growth(self, connection: ClientConnection, cost: int, now: float) -> None:
        """Record that an incomplete head takes `cost` bytes; reject the oldest heads beyond the memory for
        them.
        """
        if connection not in self.heads:
            self.fresh.pop(connection, None)
            self.heads[connection] = now
        self._head_cost += cost - connection.head_cost
        connection.head_cost = cost
        while self._head_cost > _HEADS_BYTES:
            oldest = next(iter(self.heads))
            self.record_head_end(oldest)
            oldest.reject(HEAD_TIMEOUT)

    def record_head_end(self, connection: ClientConnection) -> None:
        """Record that a head is complete, or its connection was closed."""
        self.heads.pop(connection, None)
        self._head_cost -= connection.head_cost
        connection.head_cost = 0

    def _evict(self, now: float) -> bool:
        """Close the connection that has been inactive for longest; return False where all are too young."""
        for queue in (self.fresh, self.heads, self.idle):
            for connection, since in queue.items():
                if now - since < _YOUNG_SECONDS:
                    break
                self.count(EVICTED)
                self.release(connection)
                connection.abort()
                return True
        return False

    def _sweep(self) -> None:
        """End the connections whose timeout has passed, and schedule the next sweep."""
        loop = self._loop
        if loop is None or not self.open:
            self._timer = None
            return
        now = loop.time()
        limits = self.limits
        stall = limits.stall_timeout + _BODY_SLACK
        fresh = _remove_expired(self.fresh, now - limits.head_timeout)
        heads = _remove_expired(self.heads, now - limits.head_timeout)
        idle = _remove_expired(self.idle, now - limits.keep_alive_timeout)
        lingering = _remove_expired(self.lingering, now - _LINGER_SECONDS)
        bodies = list(
            islice((one for one in self.bodies if one.is_body_stalled(now, stall)), MAX_ENDED_AT_ONCE)
        )
        blocked = list(
            islice((one for one in self.blocked if one.is_response_stalled(now, stall)), MAX_ENDED_AT_ONCE)
        )
        for connection in fresh:
            self.count(NO_REQUEST)
            connection.abort()
        for connection in heads:
            self.record_head_end(connection)
            connection.reject(HEAD_TIMEOUT)
        for connection in idle:
            connection.abort()
        for connection in lingering:
            self.count(BODY_AFTER_RESPONSE)
            connection.abort()
        for connection in bodies:
            self.bodies.discard(connection)
            connection.reject(BODY_TIMEOUT)
        for connection in blocked:
            self.blocked.discard(connection)
            self.count(RESPONSE_TIMEOUT)
            connection.abort()
        largest = max(map(len, (fresh, heads, idle, lingering, bodies, blocked)))
        seconds = _SWEEP_SECONDS if largest < MAX_ENDED_AT_ONCE else _NEXT_SWEEP_SECONDS
        self._timer = loop.call_later(seconds, self._sweep)


class Progress:
    """The progress of a transfer, which must be at least 64 KiB within a timeout."""

    __slots__ = ("_amount", "_since")

    def __init__(self, now: float, amount: int) -> None:
        self._since = now
        self._amount = amount

    def is_stalled(self, now: float, amount: int, seconds: float) -> bool:
        """Return whether `amount` has grown by less than 64 KiB for more than `seconds`."""
        if amount - self._amount >= _PROGRESS_BYTES:
            self._since, self._amount = now, amount
        return now - self._since > seconds

    def restart(self, now: float) -> None:
        """Restart the timeout: the transfer did not wait for the client."""
        self._since = now


def _remove_expired(queue: dict[ClientConnection, float], before: float) -> list[ClientConnection]:
    """Remove and return the first connections of a queue, at most 32, whose time is before `before`."""
    expired: list[ClientConnection] = []
    for connection, since in queue.items():
        if since > before or len(expired) == MAX_ENDED_AT_ONCE:
            break
        expired.append(connection)
    for connection in expired:
        queue.pop(connection, None)
    return expired


async def _serve_nothing(_scope: Any, _receive: Any, _send: Any) -> None:
    """Do nothing: the application of a middleware of which only the list of trusted proxies is used."""


_of_servers: "WeakKeyDictionary[ServerState, ConnectionTable]" = WeakKeyDictionary()


def get_connections(server_state: "ServerState", app_state: dict[str, Any]) -> ConnectionTable:
    """Return the table of the application's lifespan, or one with the default limits for each server."""
    table = app_state.get("connections")
    if isinstance(table, ConnectionTable):
        return table
    return _of_servers.setdefault(server_state, ConnectionTable())
