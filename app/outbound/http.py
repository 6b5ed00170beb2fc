"""The one door out for HTTP: guarded, bounded, without cookies, redirects and environment.

`Engine` owns the aiohttp sessions. All of its requests go through the address guard, keep nothing of what an
upstream sets, follow no redirect, read no proxy or netrc from the environment, and end in time.
"""

import asyncio
import io
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

import aiohttp
from yarl import URL

from app.errors import InvalidInput
from app.outbound.egress import EgressSettings, tls_context
from app.outbound.failures import CAUGHT, SentOnce, as_gateway_error
from app.outbound.guard import Guard, GuardedResolver, literal_addresses
from app.outbound.limits import Limits
from app.outbound.response import OutboundResponse, Patience
from app.outbound.timing import Bound, Timers, timers

_URL = re.compile(r"https?://[!-\[\]-~]+", re.IGNORECASE)
# RFC 9110 section 5.6.2; aiohttp lets a blank and an empty method pass.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_USER_AGENT = f"utcp-gateway/{version('utcp-gateway')}"
# RFC 9110 sections 7.6.1 and 10.1.1: these belong to the connection, which is the engine's.
_RESERVED = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_USUAL = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
# What aiohttp would send again besides the safe methods.
_RESENT = frozenset({"PUT", "DELETE", "TRACE"})
# aiohttp warns about larger bodies given as bytes, since it writes them in one go.
_LARGEST_BYTES_BODY = 2**20
# uvicorn and Node close idle connections after 5 s: let go before them, as a request on a connection that is
# just being closed cannot be repeated safely.
_KEEP_ALIVE_SECONDS = 4.5
_SESSIONS = 64


@dataclass(slots=True)
class OutboundRequest:  # made at each call; a frozen one costs twice as much
    """One request. `url` is sent as it is given: already percent-encoded, ASCII, without userinfo.

    `deadline` is a `loop.time()` that overrides `limits.total`.
    """

    method: str
    url: str
    headers: Sequence[tuple[str, str]] = ()
    body: bytes | None = None
    limits: Limits = field(default_factory=Limits)
    deadline: float | None = None
    egress: EgressSettings | None = None


@dataclass(slots=True)
class _Door:
    """A session, and how many answers are still being read from it."""

    session: aiohttp.ClientSession
    busy: int = 0


class Engine:
    """Sends requests; make it and use it in one event loop, and `aclose()` it there.

    `connections` bounds the open connections of each session, `connections_per_origin` those to one scheme,
    host and port; what waits for one waits within `Limits.connect`.
    """

    def __init__(self, guard: Guard, *, connections: int = 1000, connections_per_origin: int = 128) -> None:
        self._guard = guard
        self._resolver = GuardedResolver(guard)
        self._connections = connections
        self._per_origin = connections_per_origin
        self._default: aiohttp.ClientSession | None = None
        self._doors: OrderedDict[bytes, _Door] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()
        self._clock: Timers | None = None
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}

    async def request(self, request: OutboundRequest) -> OutboundResponse:
        """Send, and return once the headers of the answer are here, whatever its status.

        Raises BlockedAddress, InvalidInput (URL or header), UpstreamTimeout, UpstreamUnreachable and
        UpstreamMalformed. A cancellation closes the connection. Only GET, HEAD and OPTIONS are sent a
        second time, once, when a kept connection turns out to be closed.
        """
        method = request.method.upper()
        if method not in _USUAL and not _TOKEN.fullmatch(method):
            raise InvalidInput("The method holds characters that HTTP does not allow.")
        url = _parsed(request.url)
        headers = _checked(request.headers)
        limits = request.limits
        clock = self.clock
        now = clock.loop.time()
        deadline = now + limits.total if request.deadline is None else request.deadline
        session, proxy, release = self._session(request.egress)
        try:
            with Bound(clock, min(deadline, now + limits.first_byte)):
                if proxy is not None and request.egress is not None:
                    await self._check_target(url, resolve=not request.egress.proxy_resolves)
                response = await session.request(
                    method,
                    url,
                    headers=headers,
                    data=_payload(request.body),
                    skip_auto_headers=None if request.body is None and method not in _TYPED else _NO_TYPE,
                    allow_redirects=False,
                    timeout=self._timeout(limits.connect),
                    proxy=proxy,
                    middlewares=_ONCE if method in _RESENT else None,
                )
        except CAUGHT as error:
            if release is not None:
                release()
            raise as_gateway_error(error) from None
        except BaseException:
            if release is not None:
                release()
            raise
        return OutboundResponse(
            response, url=request.url, patience=Patience(deadline, limits.idle, clock), on_close=release
        )

    @property
    def clock(self) -> Timers:
        """The timers of the loop that this engine works in; asking for them is for free."""
        clock = self._clock
        if clock is None:
            clock = self._clock = timers()
        return clock

    async def aclose(self) -> None:
        """Close all sessions and their connections."""
        sessions = [door.session for door in self._doors.values()]
        self._doors.clear()
        if self._default is not None:
            sessions.append(self._default)
            self._default = None
        for session in sessions:
            await session.close()
        if self._closing:
            await asyncio.wait(self._closing)
        self._resolver.shutdown()

    def _session(
        self, egress: EgressSettings | None
    ) -> tuple[aiohttp.ClientSession, str | None, Callable[[], None] | None]:
        """The session for these settings, the proxy to name, and what to call when the answer is done."""
        if egress is None:
            if self._default is None:
                self._default = self._open(None)
            return self._default, None, None
        door = self._doors.get(egress.key)
        if door is None:
            door = self._doors[egress.key] = _Door(self._open(egress))
        self._doors.move_to_end(egress.key)
        door.busy += 1
        self._close_idle()

        def release() -> None:
            door.busy -= 1

        return door.session, egress.proxy_url.reveal() if egress.proxy_url else None, release

    def _open(self, egress: EgressSettings | None) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=self._resolver,
            socket_factory=self._guard.socket_factory,
            ssl=tls_context(egress),
            limit=self._connections,
            limit_per_host=self._per_origin,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            ttl_dns_cache=10,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            headers={"User-Agent": _USER_AGENT, "Accept-Encoding": "gzip, deflate"},
            max_line_size=16384,
            max_field_size=16384,
            max_headers=128,
            read_bufsize=65536,
        )

    def _close_idle(self) -> None:
        """Close the sessions longest unused while there are too many; one that is being read from stays."""
        excess = len(self._doors) - _SESSIONS
        if excess <= 0:
            return
        idle = [key for key, door in self._doors.items() if door.busy == 0][:excess]
        for key in idle:
            task = asyncio.get_running_loop().create_task(self._doors.pop(key).session.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _timeout(self, connect: float) -> aiohttp.ClientTimeout:
        """aiohttp bounds the connecting; all else is bounded here, to the millisecond and per phase."""
        known = self._timeouts.get(connect)
        if known is None:
            if len(self._timeouts) > 256:
                self._timeouts.clear()
            known = self._timeouts[connect] = aiohttp.ClientTimeout(
                total=None, connect=connect, sock_read=None, ceil_threshold=3600
            )
        return known

    async def _check_target(self, url: URL, *, resolve: bool) -> None:
        """Judge a target that a proxy will connect to: literals in any spelling always, names where asked."""
        host, port = url.raw_host or "", url.port or 0
        literals = literal_addresses(host.strip("[]"))
        for address in literals:
            self._guard.check(address, port)
        if not literals and (resolve or host.lower().rstrip(".").endswith("localhost")):
            await self._resolver.resolve(host, port)


async def _once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from sending PUT and DELETE again on a new connection: they may have been executed."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise SentOnce from error


_ONCE = (_once,)
# A body without a declared type is sent without one, and so is no body at all, which aiohttp would call
# application/octet-stream with the methods below; to tell it not to copies the headers.
_NO_TYPE = ("Content-Type",)
_TYPED = frozenset({"POST", "PUT", "PATCH"})


def _parsed(url: str) -> URL:
    if not _URL.fullmatch(url):
        raise InvalidInput("The URL is not a usable http or https URL.")
    try:
        parsed = URL(url, encoded=True)
        usable = bool(parsed.raw_host) and parsed.port is not None and "@" not in parsed.raw_authority
    except ValueError:
        usable = False
    if not usable:
        raise InvalidInput("The URL is not a usable http or https URL.")
    return parsed


def _checked(headers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    checked = []
    for name, value in headers:
        lowered = name.lower()
        if not _TOKEN.fullmatch(name):
            raise InvalidInput("A header name holds characters that HTTP does not allow.")
        if lowered in _RESERVED:
            raise InvalidInput(f"The header {name} belongs to the connection and cannot be set.")
        if lowered != "accept-encoding":
            checked.append((name, value))
    return checked


def _payload(body: bytes | None) -> bytes | io.BytesIO | None:
    if body is not None and len(body) > _LARGEST_BYTES_BODY:
        return io.BytesIO(body)
    return body
