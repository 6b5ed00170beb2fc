"""The one door out for HTTP: guarded, bounded, without cookies, redirects and environment.

`Engine` owns the connections. All of its requests go through the address guard, keep nothing of what an
upstream sets, follow no redirect, read no proxy or netrc from the environment, and end in time.
"""

import ssl
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from app.deadlines import Bound, Timers, timers
from app.errors import UpstreamTimeout, UpstreamUnreachable
from app.outbound.egress import EgressSettings, tls_context
from app.outbound.guard import Guard
from app.outbound.http1 import head
from app.outbound.http1.connection import Connection
from app.outbound.http1.dialing import Dialer, Proxy
from app.outbound.http1.exchange import HTTP2_ONLY, Broken, Exchange, ExchangeFailed
from app.outbound.http1.pool import PROBATION_SECONDS, Key, Pool
from app.outbound.limits import Limits
from app.outbound.network import Network
from app.outbound.response import OutboundResponse, Patience, broken

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_MOST_ROUTES: Final = 64


@dataclass(slots=True)
class OutboundRequest:  # made at each call; a frozen one costs twice as much
    """One request. `url` is sent as it is given: already percent-encoded, ASCII, without userinfo.

    `deadline` is a `loop.time()` that overrides `limits.total`. `scope` is what `connection_scope` gives:
    only requests of one scope share connections, and without one a request has a connection of its own.
    `resend` allows a GET, HEAD or OPTIONS to be sent a second time, once, where a reused connection turns out
    to be closed; `resent` says afterwards whether it was.
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
class Way:
    """How upstreams with the same outbound settings are reached."""

    key: bytes
    tls: ssl.SSLContext
    proxy: Proxy | None
    resolve: bool


@dataclass(slots=True)
class _Prepared:
    """A request as it goes out."""

    authority: head.Authority
    way: Way
    head: bytes
    request: OutboundRequest
    method: str


class Engine:
    """Sends requests; make it and use it in one event loop, and `aclose()` it there.

    `connections` bounds the open connections, `connections_per_origin` those to one scheme, host and port
    with the same outbound settings (None: as many as in all); what waits for one waits within
    `Limits.connect`. `identity` says in each request which gateway it comes from (CDN-Loop, RFC 8586).
    `probation`: seconds for which connections to an origin rest between two requests (see `http1.pool`).
    """

    def __init__(
        self,
        guard: Guard,
        *,
        connections: int = 1000,
        connections_per_origin: int | None = 128,
        identity: str = "",
        probation: float = PROBATION_SECONDS,
    ) -> None:
        self._own_lines = f"CDN-Loop: {identity}\r\n" if identity else ""
        self._dialer = Dialer(guard)
        self.network = Network(guard, self._dialer)
        """The same door for other protocols than HTTP."""
        per_origin = connections_per_origin or connections
        self._pool = Pool(most=connections, most_per_origin=per_origin, probation=probation)
        self._direct: Way | None = None
        self._ways: OrderedDict[bytes, Way] = OrderedDict()
        self._clock: Timers | None = None

    async def request(self, request: OutboundRequest) -> OutboundResponse:
        """Send, and return once the headers of the answer are here, whatever its status.

        Raises BlockedAddress, InvalidInput (URL or header), UpstreamTimeout, UpstreamUnreachable and
        UpstreamMalformed. A cancellation closes the connection.
        """
        method = head.checked_method(request.method)
        authority, target = head.split(request.url)
        way = self._way(request.egress)
        extra = self._own_lines if request.scope else f"{self._own_lines}Connection: close\r\n"
        if way.proxy is not None and not authority.tls:
            target = authority.text + target
            if way.proxy.authorization is not None:
                extra += f"Proxy-Authorization: {way.proxy.authorization.reveal()}\r\n"
        lines = head.encode(method, target, authority, request.headers, request.body, extra=extra)
        clock = self.clock
        now = clock.loop.time()
        limits = request.limits
        deadline = now + limits.total if request.deadline is None else request.deadline
        exchange = await self._exchange(
            _Prepared(authority, way, lines, request, method),
            answer_by=min(deadline, now + limits.first_byte),
            connect_by=min(deadline, now + min(limits.connect, limits.first_byte)),
        )
        return OutboundResponse(
            exchange, url=request.url, patience=Patience(deadline, limits.idle, clock), head=method == "HEAD"
        )

    @property
    def clock(self) -> Timers:
        """The timers of the loop that this engine works in; asking for them is for free."""
        clock = self._clock
        if clock is None:
            clock = self._clock = timers()
        return clock

    @property
    def pool(self) -> Pool:
        """The connections, to be counted."""
        return self._pool

    async def aclose(self) -> None:
        """Close all connections."""
        self._pool.close()
        self._dialer.close()

    async def _exchange(self, prepared: _Prepared, *, answer_by: float, connect_by: float) -> Exchange:
        """Send on a reused or a new connection, and wait for the head of the answer."""
        clock = self.clock
        request = prepared.request
        key = (prepared.authority.text, prepared.way.key, request.scope)
        connection = self._pool.take(key, clock.loop.time()) if request.scope else None
        if connection is None:
            connection = await self._connect(key, prepared, by=connect_by, fresh=not request.scope)
        while True:
            resend = request.resend and connection.used and prepared.method in _SAFE
            exchange = connection.send(prepared.head, request.body, no_body=prepared.method == "HEAD")
            try:
                with Bound(clock, answer_by):
                    await exchange.head
            except ExchangeFailed as failed:
                if not (resend and failed.why is Broken.CLOSED and not failed.heard):
                    raise broken(failed.why) from None
            except TimeoutError:
                exchange.abort()
                raise UpstreamTimeout("The upstream did not answer in time.") from None
            except BaseException:
                exchange.abort()
                raise
            else:
                return exchange
            request.resent = True
            connection = await self._connect(key, prepared, by=connect_by, fresh=True)

    async def _connect(self, key: Key, request: _Prepared, *, by: float, fresh: bool = False) -> Connection:
        way, authority = request.way, request.authority

        async def dial(make: Callable[[], Connection]) -> Connection:
            if way.proxy is not None:
                await self._dialer.check(authority.place, resolve=way.resolve)
            tls = way.tls if authority.tls else None
            return await self._dialer.connect(authority.place, make, tls=tls, proxy=way.proxy)

        try:
            with Bound(self.clock, by):
                connection = await self._pool.open_one(key, dial, fresh=fresh)
        except TimeoutError:
            raise UpstreamTimeout("No connection to the upstream was made in time.", sent=False) from None
        if connection.speaks_http2:
            raise UpstreamUnreachable(HTTP2_ONLY, sent=False)
        if not connection.usable:
            raise UpstreamUnreachable("The upstream hung up, or spoke, before it was asked.", sent=False)
        return connection

    def _way(self, egress: EgressSettings | None) -> Way:
        if egress is None:
            if self._direct is None:
                self._direct = Way(b"", _context(None), None, resolve=False)
            return self._direct
        way = self._ways.get(egress.key)
        if way is None:
            tls = _context(egress)
            proxy = Proxy.parse(egress) if egress.proxy_url else None
            way = self._ways[egress.key] = Way(egress.key, tls, proxy, resolve=not egress.proxy_resolves)
            while len(self._ways) > _MOST_ROUTES:
                self._ways.popitem(last=False)
        self._ways.move_to_end(egress.key)
        return way


def _context(egress: EgressSettings | None) -> ssl.SSLContext:
    context = tls_context(egress)
    context.set_alpn_protocols(["http/1.1"])
    return context
