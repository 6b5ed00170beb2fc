"""The only way to send HTTP requests: guarded, limited, without cookies, redirects or the environment.

`Engine` owns the connections. All of its requests go through the address guard, store no cookie, follow no
redirect, read no proxy or netrc from the environment, and have a deadline.
"""

import asyncio
import importlib
import ssl
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.core.deadlines import Deadline, TimerQueue, get_timer_queue
from app.core.errors import UpstreamTimeout, UpstreamUnreachable
from app.outbound.egress import EgressSettings, tls_context
from app.outbound.guard import Guard
from app.outbound.http1 import head
from app.outbound.http1.connection import Http1Connection
from app.outbound.http1.dialing import AnotherProtocol, Dialer, Proxy
from app.outbound.http1.exchange import (
    HTTP2_ONLY,
    NO_COMMON_VERSION,
    Exchange,
    ExchangeFailed,
    FailureReason,
)
from app.outbound.http1.pool import (
    PROBATION_SECONDS,
    ConnectionPool,
    ConnectionType,
    PooledConnection,
    PoolKey,
)
from app.outbound.limits import Limits
from app.outbound.network import Network
from app.outbound.response import OutboundResponse, ReadTimeouts, upstream_error

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "QUERY"})
_MAX_ROUTES: Final = 64
_MAX_HTTP2_ORIGINS: Final = 4096


@dataclass(slots=True)
class OutboundRequest:  # Created for each call; a frozen dataclass costs twice as much.
    """One request to an upstream.

    `url` is sent as given: already percent-encoded, ASCII, without userinfo. `deadline` is a `loop.time()`
    that overrides `limits.total`. `scope` is what `connection_scope` returns: only requests of one scope
    share connections, and a request without one has a connection of its own. `resend` allows a GET, HEAD,
    OPTIONS or QUERY to be sent a second time, once, where a reused connection turns out to be closed;
    `resent` says afterwards whether it was.
    """

    method: str
    url: str
    headers: Sequence[tuple[str, str]] = ()
    body: bytes | None = None
    limits: Limits = field(default_factory=Limits)
    deadline: float | None = None
    egress: EgressSettings | None = None
    scope: bytes = b""
    resend: bool = True
    resent: bool = False


@dataclass(frozen=True, slots=True)
class EgressRoute:
    """The route to upstreams with the same egress settings: proxy, Unix socket and name resolution.

    `key` identifies the settings; `resolve` says whether the target's name is resolved and checked here, too.
    """

    key: bytes
    proxy: Proxy | None
    resolve: bool
    egress: EgressSettings | None = None

    @property
    def http_version(self) -> str | None:
        """The version of HTTP that the provider asks for, None where it leaves it open."""
        return None if self.egress is None else self.egress.http_version

    def socket_path(self, authority: head.Authority) -> str | None:
        """Return the path of the Unix socket to which requests to an authority go, None for TCP."""
        return None if self.egress is None else self.egress.socket_path(authority.address.host)


@dataclass(slots=True)
class _EncodedRequest:
    """A request with its encoded head and its route."""

    authority: head.Authority
    route: EgressRoute
    head: bytes
    request: OutboundRequest
    method: str


class Engine:
    """Sends HTTP requests to upstreams. Create it, use it and `aclose()` it in one event loop.

    `connections` limits the open connections, `connections_per_origin` those to one scheme, host and port
    with the same egress settings (None: no limit of its own); the time of waiting for one counts towards
    `Limits.connect`. `identity` names the gateway in each request (CDN-Loop, RFC 8586). `probation`: seconds
    from the first response of an origin in which its connections are not reused at once (see `http1.pool`).
    Of `max_routes` egress settings, the TLS contexts are kept.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        connections: int = 1000,
        connections_per_origin: int | None = 128,
        identity: str = "",
        probation: float = PROBATION_SECONDS,
        max_routes: int = _MAX_ROUTES,
    ) -> None:
        self._own_header_lines = f"CDN-Loop: {identity}\r\n" if identity else ""
        self._dialer = Dialer(guard)
        self.network = Network(guard, self._dialer)
        """The guarded network, for protocols other than HTTP."""
        per_origin = connections_per_origin or connections
        self._pool = ConnectionPool(
            max_connections=connections, max_connections_per_origin=per_origin, probation=probation
        )
        self._max_routes = max_routes
        self._routes: OrderedDict[bytes, EgressRoute] = OrderedDict()
        self._http2_only: OrderedDict[tuple[str, bytes], None] = OrderedDict()
        self._tls_contexts: OrderedDict[tuple[bytes, str], ssl.SSLContext] = OrderedDict()
        self._clock: TimerQueue | None = None

    async def request(self, request: OutboundRequest) -> OutboundResponse:
        """Send a request and return its response, whatever its status, once its headers have arrived.

        Raises BlockedAddress, InvalidInput (URL, method or header), UpstreamTimeout, UpstreamUnreachable and
        UpstreamMalformed. A cancellation closes the connection.
        """
        method = request.method
        if method not in head.COMMON_METHODS:
            method = head.normalize_method(method)
        authority, target = head.split_url(request.url)
        route = _DIRECT if request.egress is None else self._find_route(request.egress)
        extra = self._own_header_lines if request.scope else f"{self._own_header_lines}Connection: close\r\n"
        if route.proxy is not None and not authority.tls and route.socket_path(authority) is None:
            target = authority.origin + target
            if route.proxy.authorization is not None:
                extra += f"Proxy-Authorization: {route.proxy.authorization.reveal()}\r\n"
        lines = head.encode_head(method, target, authority, request.headers, request.body, extra=extra)
        clock = self._clock if self._clock is not None else self.timers
        now = clock.loop.time()
        limits = request.limits
        deadline = now + limits.total if request.deadline is None else request.deadline
        exchange = await self._exchange(
            _EncodedRequest(authority, route, lines, request, method),
            clock,
            head_deadline=min(deadline, now + limits.first_byte),
            connect_deadline=min(deadline, now + min(limits.connect, limits.first_byte)),
        )
        return OutboundResponse(
            exchange,
            url=request.url,
            timeouts=ReadTimeouts(deadline, limits.idle, clock),
            head=method == "HEAD",
        )

    @property
    def timers(self) -> TimerQueue:
        """The timers of the event loop that this engine belongs to."""
        clock = self._clock
        if clock is None:
            clock = self._clock = get_timer_queue()
        return clock

    @property
    def pool(self) -> ConnectionPool:
        """The connection pool, for metrics."""
        return self._pool

    async def aclose(self) -> None:
        """Close all connections."""
        self._pool.close()
        self._dialer.close()

    async def _exchange(
        self, prepared: _EncodedRequest, clock: TimerQueue, *, head_deadline: float, connect_deadline: float
    ) -> Exchange:
        """Send on a reused or a new connection, and wait for the head of the response."""
        request = prepared.request
        key = (prepared.authority.origin, prepared.route.key, request.scope)
        connection = self._pool.take_idle(key, clock.loop.time()) if request.scope else None
        if connection is None:
            connection = await self._connect(
                key, prepared, deadline=connect_deadline, new_only=not request.scope
            )
        while True:
            resend = request.resend and connection.used and prepared.method in _SAFE
            exchange = connection.send(prepared.head, request.body, no_body=prepared.method == "HEAD")
            try:
                with Deadline(clock, head_deadline):
                    await exchange.head
            except ExchangeFailed as failed:
                # A server of HTTP/2 alone has read no request, because none begins like one of HTTP/1.1.
                is_http2 = failed.reason is FailureReason.HTTP2 and self._may_change_version(prepared.route)
                if not (is_http2 or connection.used):
                    # The upstream may not speak HTTP/2 any more: the next request finds out.
                    self._http2_only.pop(key[:2], None)
                if is_http2:
                    self._remember_http2(key[:2])
                elif not (resend and failed.reason is FailureReason.CLOSED and not failed.response_started):
                    raise upstream_error(failed.reason) from None
            except TimeoutError:
                exchange.abort()
                raise UpstreamTimeout("The upstream did not respond in time.") from None
            except BaseException:
                exchange.abort()
                raise
            else:
                return exchange
            request.resent = request.resent or not is_http2
            connection = await self._connect(key, prepared, deadline=connect_deadline, new_only=True)

    async def _connect(
        self,
        key: PoolKey,
        request: _EncodedRequest,
        *,
        deadline: float,
        new_only: bool = False,
        may_change: bool = True,
    ) -> PooledConnection:
        """Return a connection; with `may_change`, one of another version where the upstream requires it."""
        route, authority = request.route, request.authority
        may_change = may_change and self._may_change_version(route)
        is_http2 = route.http_version == "2" or key[:2] in self._http2_only
        kind: ConnectionType = await _http2_connection() if is_http2 else Http1Connection

        async def dial(make: Callable[[], Any]) -> Any:
            path = route.socket_path(authority)
            if route.proxy is not None and path is None:
                await self._dialer.check_proxied_target(authority.address, resolve=route.resolve)
            tls = self._tls(route, is_http2=is_http2) if authority.tls else None
            return await self._dialer.connect(
                authority.address, make, tls=tls, proxy=route.proxy, socket_path=path
            )

        try:
            with Deadline(self.timers, deadline):
                connection = await self._pool.acquire(key, dial, new_only=new_only, kind=kind)
        except AnotherProtocol:
            if may_change:
                return await self._reconnect(key, request, deadline, is_http2=not is_http2)
            if is_http2 or self._may_change_version(route):
                raise
            raise UpstreamUnreachable(HTTP2_ONLY, request_sent=False) from None
        except TimeoutError:
            raise UpstreamTimeout(
                "No connection to the upstream was made in time.", request_sent=False
            ) from None
        if connection.refused:
            connection.abort()
            if may_change:
                return await self._reconnect(key, request, deadline, is_http2=False)
            raise UpstreamUnreachable(NO_COMMON_VERSION, request_sent=False)
        if connection.speaks_http2 and may_change:
            return await self._reconnect(key, request, deadline, is_http2=True)
        if connection.speaks_http2:
            raise UpstreamUnreachable(HTTP2_ONLY, request_sent=False)
        if not connection.usable:
            raise UpstreamUnreachable(
                "The upstream closed the connection, or sent data, before the request was sent.",
                request_sent=False,
            )
        return connection

    async def _reconnect(
        self, key: PoolKey, request: _EncodedRequest, deadline: float, *, is_http2: bool
    ) -> PooledConnection:
        """Return a connection of the other version of HTTP, which is remembered for the origin."""
        if is_http2:
            self._remember_http2(key[:2])
        else:
            self._http2_only.pop(key[:2], None)
        return await self._connect(key, request, deadline=deadline, new_only=True, may_change=False)

    def _may_change_version(self, route: EgressRoute) -> bool:
        """Return whether an upstream that speaks nothing else may be called by HTTP/2."""
        return route.http_version is None

    def _remember_http2(self, origin: tuple[str, bytes]) -> None:
        """Remember an origin and egress key whose upstream accepts HTTP/2 only."""
        self._http2_only[origin] = None
        while len(self._http2_only) > _MAX_HTTP2_ORIGINS:
            self._http2_only.popitem(last=False)

    def _tls(self, route: EgressRoute, *, is_http2: bool) -> ssl.SSLContext:
        """Return the TLS context of a route, which offers one version of HTTP (ALPN).

        It is created at the first connection that needs it: reading the CAs of the system takes 25 ms.
        """
        key = route.key, "h2" if is_http2 else "http/1.1"
        context = self._tls_contexts.get(key)
        if context is None:
            context = self._tls_contexts[key] = _context(route.egress, protocol=key[1])
            while len(self._tls_contexts) > 2 * self._max_routes:
                self._tls_contexts.popitem(last=False)
        return context

    def _find_route(self, egress: EgressSettings) -> EgressRoute:
        route = self._routes.get(egress.key)
        if route is None:
            proxy = Proxy.parse(egress) if egress.proxy_url else None
            route = EgressRoute(egress.key, proxy, resolve=not egress.proxy_resolves, egress=egress)
            # At once: settings that cannot be used are an error of every call, over TLS or not.
            self._tls(route, is_http2=False)
            self._routes[egress.key] = route
            while len(self._routes) > self._max_routes:
                self._routes.popitem(last=False)
        self._routes.move_to_end(egress.key)
        return route


_DIRECT: Final = EgressRoute(b"", None, resolve=False)


async def _http2_connection() -> ConnectionType:
    """Return the class of HTTP/2 connections, which is imported when it is first needed."""
    module: Any = await asyncio.to_thread(importlib.import_module, "app.outbound.http2.connection")
    kind: ConnectionType = module.Http2Connection
    return kind


def _context(egress: EgressSettings | None, *, protocol: str) -> ssl.SSLContext:
    context = tls_context(egress)
    context.set_alpn_protocols([protocol])
    return context
