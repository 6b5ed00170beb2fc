"""Opening connections: the name, the guarded socket, TLS, and an outbound proxy where there is one."""

import asyncio
import base64
import re
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

from aiohappyeyeballs import start_connection

from app.errors import BlockedAddress, GatewayError, InvalidInput, UpstreamUnreachable
from app.outbound.egress import EgressSettings, proxy_context
from app.outbound.guard import AddressDenied, Guard, GuardedResolver, literal_addresses
from app.outbound.http1.connection import Connection
from app.outbound.http1.exchange import HTTP2_ONLY
from app.security.secret import Secret

_NAME_SECONDS: Final = 10.0
_MOST_NAMES: Final = 4096
_NEXT_ADDRESS_AFTER: Final = 0.25
_LONGEST_PROXY_HEAD: Final = 16 << 10
# RFC 7301 section 3.2: none of the protocols that were offered, and http/1.1 is the only one that is.
# (OpenSSL's text: Python 3.11 has no `reason` for it.)
_NO_PROTOCOL: Final = re.compile("no.application.protocol", re.IGNORECASE)
_CONNECTED: Final = re.compile(rb"HTTP/1\.[01] 2\d\d[ \r\n]")

P = TypeVar("P", bound=asyncio.BaseProtocol)
AddressInfo = tuple[int, int, int, str, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where to connect to: a host as it stands in a URL, without brackets, and a port."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Proxy:
    """An outbound proxy (RFC 9110 section 3.7). `authorization` is the value of Proxy-Authorization, `tls` is
    None where the proxy itself is spoken to in the clear.
    """

    place: Place
    tls: ssl.SSLContext | None
    authorization: Secret | None

    @classmethod
    def parse(cls, egress: EgressSettings) -> "Proxy":
        """Read its `http(s)://user:password@host:port`; raises InvalidInput."""
        url = egress.proxy_url or Secret("")
        parts = urlsplit(url.reveal())
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if not host:
            raise InvalidInput("The outbound proxy is not a URL like http://user:password@host:3128.")
        secret = None
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            secret = Secret("Basic " + base64.b64encode(pair.encode()).decode())
        secure = parts.scheme == "https"
        place = Place(host, port or (443 if secure else 80))
        return cls(place, tls=proxy_context(egress) if secure else None, authorization=secret)


class Dialer:
    """Opens sockets to addresses that the guard allows; names are remembered for ten seconds."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._resolver = GuardedResolver(guard)
        self._names: OrderedDict[Place, tuple[float, list[AddressInfo]]] = OrderedDict()

    def close(self) -> None:
        """Let the threads of the resolver go."""
        self._resolver.shutdown()

    async def connect(
        self,
        place: Place,
        make: Callable[[], Connection],
        *,
        tls: ssl.SSLContext | None,
        proxy: Proxy | None = None,
    ) -> Connection:
        """A connection to `place`, through a tunnel where there is a proxy and TLS.

        Raises BlockedAddress and UpstreamUnreachable. A cancellation leaves nothing open.
        """
        if proxy is not None:
            return await self._through(proxy, place, make, tls=tls)
        try:
            raw = await self.socket(place)
            return await _protocol(raw, make, tls=tls, host=place.host)
        except (OSError, ssl.SSLError) as error:
            raise not_connected(error) from None

    async def check(self, place: Place, *, resolve: bool) -> None:
        """Judge a target that a proxy will connect to: literals in any spelling always, names where asked."""
        literals = literal_addresses(place.host)
        for address in literals:
            self._guard.check(address, place.port)
        if not literals and (resolve or place.host.lower().rstrip(".").endswith("localhost")):
            try:
                await self._resolver.resolve(place.host, place.port)
            except OSError as error:
                raise not_connected(error) from None

    async def _through(
        self, proxy: Proxy, place: Place, make: Callable[[], Connection], *, tls: ssl.SSLContext | None
    ) -> Connection:
        try:
            raw = await self.socket(proxy.place)
            if tls is None:
                return await _protocol(raw, make, tls=proxy.tls, host=proxy.place.host)
            loop = asyncio.get_running_loop()
            tunnel = await _protocol(raw, lambda: _Tunnel(loop), tls=proxy.tls, host=proxy.place.host)
        except (OSError, ssl.SSLError) as error:
            raise _no_proxy(error) from None
        try:
            await tunnel.open(place, proxy.authorization)
            return await _upgraded(tunnel.transport, make(), tls, place.host)
        except (OSError, ssl.SSLError) as error:
            tunnel.transport.abort()
            raise not_connected(error) from None
        except BaseException:
            tunnel.transport.abort()
            raise

    async def socket(self, place: Place) -> socket.socket:
        """A connected socket; raises BlockedAddress and OSError."""
        found = await self._addresses(place)
        # The guard judges once more the very address of each socket.
        return await start_connection(
            found,
            happy_eyeballs_delay=_NEXT_ADDRESS_AFTER,
            interleave=1,
            loop=asyncio.get_running_loop(),
            socket_factory=self._guard.socket_factory,
        )

    async def addresses(self, place: Place) -> list[tuple[int, str]]:
        """The addresses of a name that all may be connected to, each with its family.

        Raises BlockedAddress and UpstreamUnreachable.
        """
        try:
            found = await self._addresses(place)
        except OSError as error:
            raise not_connected(error) from None
        for _, _, _, _, (address, port) in found:
            self._guard.check(address, port)
        return [(family, address) for family, _, _, _, (address, _) in found]

    async def _addresses(self, place: Place) -> list[AddressInfo]:
        now = asyncio.get_running_loop().time()
        known = self._names.get(place)
        if known is not None and known[0] > now:
            return known[1]
        found: list[AddressInfo] = [
            (family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, place.port))
            for family, address in await self._resolver.resolve(place.host, place.port)
        ]
        self._names[place] = (now + _NAME_SECONDS, found)
        self._names.move_to_end(place)
        while len(self._names) > _MOST_NAMES:
            self._names.popitem(last=False)
        return found


class _Tunnel(asyncio.Protocol):
    """Asks a proxy for a tunnel (RFC 9110 section 9.3.6); what comes after its answer belongs to TLS."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._answer: asyncio.Future[bytes] = loop.create_future()
        self._head = b""
        self.transport: asyncio.Transport

    async def open(self, place: Place, authorization: Secret | None) -> None:
        """Raises UpstreamUnreachable where the proxy refuses."""
        self.transport.write(_connect_request(place, authorization))
        _check_tunnel(await self._answer)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._head += data
        done = b"\r\n\r\n" in self._head or len(self._head) > _LONGEST_PROXY_HEAD
        if done and not self._answer.done():
            self._answer.set_result(self._head)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's.
        if not self._answer.done():
            self._answer.set_result(b"")


async def tunnelled(raw: socket.socket, place: Place, authorization: Secret | None) -> None:
    """Asks the proxy at the other end of a socket for a tunnel. Raises UpstreamUnreachable and OSError."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(raw, _connect_request(place, authorization))
    head = b""
    # Byte by byte: what comes after the head belongs to whoever gets the socket.
    while not head.endswith(b"\r\n\r\n") and len(head) <= _LONGEST_PROXY_HEAD:
        piece = await loop.sock_recv(raw, 1)
        if not piece:
            break
        head += piece
    _check_tunnel(head)


def _connect_request(place: Place, authorization: Secret | None) -> bytes:
    host = f"[{place.host}]" if ":" in place.host else place.host
    lines = [f"CONNECT {host}:{place.port} HTTP/1.1", f"Host: {host}:{place.port}"]
    if authorization is not None:
        lines.append(f"Proxy-Authorization: {authorization.reveal()}")
    return "\r\n".join([*lines, "", ""]).encode()


def _check_tunnel(head: bytes) -> None:
    if not _CONNECTED.match(head):
        raise UpstreamUnreachable("The outbound proxy refused the connection.", sent=False)


async def _protocol(raw: socket.socket, make: Callable[[], P], *, tls: ssl.SSLContext | None, host: str) -> P:
    """The protocol over a connected socket, which is closed where this fails."""
    loop = asyncio.get_running_loop()
    try:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name = host.rstrip(".") if tls is not None else None
        _, protocol = await loop.create_connection(make, sock=raw, ssl=tls, server_hostname=name)
    except BaseException:
        raw.close()
        raise
    return protocol


async def _upgraded(
    transport: asyncio.Transport, connection: Connection, tls: ssl.SSLContext, host: str
) -> Connection:
    loop = asyncio.get_running_loop()
    inner = await loop.start_tls(transport, connection, tls, server_hostname=host.rstrip("."))
    if inner is None:
        raise ConnectionResetError
    connection.connection_made(inner)
    return connection


def not_connected(error: Exception) -> GatewayError:
    """What a failure to connect is to a caller."""
    if isinstance(error, AddressDenied):
        return BlockedAddress("The gateway's network policy does not allow the destination.")
    if isinstance(error, ssl.SSLError) and _NO_PROTOCOL.search(str(error)):
        detail = HTTP2_ONLY
    elif isinstance(error, ssl.SSLError):
        detail = "The upstream's TLS certificate or handshake is not acceptable."
    elif isinstance(error, socket.gaierror):
        detail = "The upstream's host name cannot be resolved."
    else:
        detail = "The upstream accepts no connection."
    return UpstreamUnreachable(detail, sent=False)


def _no_proxy(error: Exception) -> GatewayError:
    if isinstance(error, AddressDenied):
        return not_connected(error)
    return UpstreamUnreachable("The outbound proxy accepts no connection.", sent=False)
