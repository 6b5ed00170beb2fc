"""Opening connections: name resolution, the guarded socket, TLS, and an outbound proxy where there is one."""

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

from app.core.errors import BlockedAddress, GatewayError, InvalidInput, UpstreamUnreachable
from app.outbound.egress import EgressSettings, proxy_context
from app.outbound.guard import AddressDenied, DeniedAddress, Guard, GuardedResolver, literal_addresses
from app.outbound.http1.exchange import NO_COMMON_VERSION
from app.security.secret import Secret

_DNS_CACHE_SECONDS: Final = 10.0
_MAX_CACHED_NAMES: Final = 4096
_HAPPY_EYEBALLS_DELAY: Final = 0.25
_MAX_PROXY_HEAD_BYTES: Final = 16 << 10
# RFC 7301 section 3.2: the server supports none of the offered protocols, of which http/1.1 is the only one.
# (This is OpenSSL's text: Python 3.11 has no `reason` for it.)
_NO_PROTOCOL: Final = re.compile("no.application.protocol", re.IGNORECASE)
_CHECK_HOST_NAME: Final = (
    "Check the spelling of the host name, and the network and DNS of the gateway's machine."
)
_CONNECTED: Final = re.compile(rb"HTTP/1\.[01] 2\d\d[ \r\n]")

P = TypeVar("P", bound=asyncio.BaseProtocol)
AddressInfo = tuple[int, int, int, str, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Address:
    """A host, as it stands in a URL but without brackets, and a port."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Proxy:
    """An outbound proxy (RFC 9110 section 3.7).

    `authorization` is the value of Proxy-Authorization; `tls` is None where the connection to the proxy
    itself is not encrypted.
    """

    address: Address
    tls: ssl.SSLContext | None
    authorization: Secret | None

    @classmethod
    def parse(cls, egress: EgressSettings) -> "Proxy":
        """Parse `egress.proxy_url`, `http(s)://user:password@host:port`. Raises InvalidInput."""
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
        address = Address(host, port or (443 if secure else 80))
        return cls(address, tls=proxy_context(egress) if secure else None, authorization=secret)


class AnotherProtocol(UpstreamUnreachable):
    """The upstream has rejected the version of HTTP that it was offered, before anything was sent."""


class Dialer:
    """Opens sockets to addresses that the guard allows; resolved names are cached for ten seconds."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._resolver = GuardedResolver(guard)
        self._resolved: OrderedDict[Address, tuple[float, list[AddressInfo]]] = OrderedDict()

    def close(self) -> None:
        """Stop the threads of the resolver."""
        self._resolver.shutdown()

    async def connect(
        self,
        address: Address,
        make: Callable[[], P],
        *,
        tls: ssl.SSLContext | None,
        proxy: Proxy | None = None,
        socket_path: str | None = None,
    ) -> P:
        """Return a connection to `address`, through a tunnel where there are a proxy and TLS.

        With `socket_path`, it is a connection to that Unix socket.

        Raises BlockedAddress and UpstreamUnreachable. A cancellation leaves nothing open.
        """
        if proxy is not None and socket_path is None:
            return await self._connect_through_proxy(proxy, address, make, tls=tls)
        try:
            if socket_path is None:
                raw = await self.connect_socket(address)
            else:
                raw = await self.connect_unix_socket(socket_path)
            return await _create_protocol(raw, make, tls=tls, host=address.host)
        except (OSError, ssl.SSLError) as error:
            raise connect_error(error) from None

    async def check_proxied_target(self, address: Address, *, resolve: bool) -> None:
        """Check a target that a proxy will connect to: IP literals in any spelling, and names if `resolve`.

        Raises BlockedAddress and UpstreamUnreachable.
        """
        literals = literal_addresses(address.host)
        for ip in literals:
            self._guard.check(ip, address.port)
        if not literals and (resolve or address.host.lower().rstrip(".").endswith("localhost")):
            try:
                await self._resolver.resolve(address.host, address.port)
            except OSError as error:
                raise connect_error(error) from None

    async def _connect_through_proxy(
        self,
        proxy: Proxy,
        address: Address,
        make: Callable[[], P],
        *,
        tls: ssl.SSLContext | None,
    ) -> P:
        try:
            raw = await self.connect_socket(proxy.address)
            if tls is None:
                return await _create_protocol(raw, make, tls=proxy.tls, host=proxy.address.host)
            loop = asyncio.get_running_loop()
            tunnel = await _create_protocol(
                raw, lambda: _Tunnel(loop), tls=proxy.tls, host=proxy.address.host
            )
        except (OSError, ssl.SSLError) as error:
            raise _proxy_error(error) from None
        try:
            await tunnel.open(address, proxy.authorization)
            return await _start_tls(tunnel.transport, make(), tls, address.host)
        except (OSError, ssl.SSLError) as error:
            tunnel.transport.abort()
            raise connect_error(error) from None
        except BaseException:
            tunnel.transport.abort()
            raise

    async def connect_socket(self, address: Address) -> socket.socket:
        """Return a connected, non-blocking TCP socket. Raises BlockedAddress and OSError."""
        found = await self._resolve_cached(address)
        # The guard checks once more the very address of each socket.
        return await start_connection(
            found,
            happy_eyeballs_delay=_HAPPY_EYEBALLS_DELAY,
            interleave=1,
            loop=asyncio.get_running_loop(),
            socket_factory=self._guard.socket_factory,
        )

    async def connect_unix_socket(self, path: str) -> socket.socket:
        """Return a connected, non-blocking Unix socket. Raises AddressDenied and OSError."""
        raw = self._guard.unix_socket(path)
        try:
            raw.setblocking(False)
            await asyncio.get_running_loop().sock_connect(raw, path)
        except BaseException:
            raw.close()
            raise
        return raw

    def denied_socket(self, path: str) -> DeniedAddress | None:
        """Return the Unix socket, and the setting that would allow it; None where it is allowed."""
        return None if self._guard.allows_socket(path) else DeniedAddress(path, 0, "UNIX_SOCKETS")

    async def resolve(self, address: Address) -> list[tuple[int, str]]:
        """Return the address family and IP of each record of a name.

        Raises BlockedAddress unless all of them may be connected to, and UpstreamUnreachable.
        """
        try:
            found = await self._resolve_cached(address)
        except OSError as error:
            raise connect_error(error) from None
        for _, _, _, _, (ip, port) in found:
            self._guard.check(ip, port)
        return [(family, ip) for family, _, _, _, (ip, _) in found]

    async def denied(self, address: Address) -> DeniedAddress | None:
        """Return the first address of a host that the guard denies, None where it denies none or the name is
        unknown.
        """
        found = literal_addresses(address.host)
        if not found:
            try:
                found = [ip for _, ip in await self._resolver.look_up(address.host, address.port)]
            except OSError:
                return None
        denials = (self._guard.denied(ip, address.port) for ip in found)
        return next((denial for denial in denials if denial is not None), None)

    async def _resolve_cached(self, address: Address) -> list[AddressInfo]:
        now = asyncio.get_running_loop().time()
        known = self._resolved.get(address)
        if known is not None and known[0] > now:
            return known[1]
        found: list[AddressInfo] = [
            (family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (ip, address.port))
            for family, ip in await self._resolver.resolve(address.host, address.port)
        ]
        self._resolved[address] = (now + _DNS_CACHE_SECONDS, found)
        self._resolved.move_to_end(address)
        while len(self._resolved) > _MAX_CACHED_NAMES:
            self._resolved.popitem(last=False)
        return found


class _Tunnel(asyncio.Protocol):
    """Requests a tunnel from a proxy (CONNECT, RFC 9110 section 9.3.6); TLS reads what follows."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._head_received: asyncio.Future[bytes] = loop.create_future()
        self._head = b""
        self.transport: asyncio.Transport

    async def open(self, address: Address, authorization: Secret | None) -> None:
        """Open the tunnel. Raises UpstreamUnreachable where the proxy rejects the request."""
        self.transport.write(_connect_request(address, authorization))
        _check_tunnel(await self._head_received)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._head += data
        done = b"\r\n\r\n" in self._head or len(self._head) > _MAX_PROXY_HEAD_BYTES
        if done and not self._head_received.done():
            self._head_received.set_result(self._head)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's.
        if not self._head_received.done():
            self._head_received.set_result(b"")


async def open_tunnel(raw: socket.socket, address: Address, authorization: Secret | None) -> None:
    """Request a tunnel from the proxy that a socket is connected to. Raises UpstreamUnreachable, OSError."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(raw, _connect_request(address, authorization))
    head = b""
    # Byte by byte, because what follows the head must stay in the socket.
    while not head.endswith(b"\r\n\r\n") and len(head) <= _MAX_PROXY_HEAD_BYTES:
        piece = await loop.sock_recv(raw, 1)
        if not piece:
            break
        head += piece
    _check_tunnel(head)


def _connect_request(address: Address, authorization: Secret | None) -> bytes:
    host = f"[{address.host}]" if ":" in address.host else address.host
    lines = [f"CONNECT {host}:{address.port} HTTP/1.1", f"Host: {host}:{address.port}"]
    if authorization is not None:
        lines.append(f"Proxy-Authorization: {authorization.reveal()}")
    return "\r\n".join([*lines, "", ""]).encode()


def _check_tunnel(head: bytes) -> None:
    if not _CONNECTED.match(head):
        raise UpstreamUnreachable("The outbound proxy rejected the connection.", request_sent=False)


async def _create_protocol(
    raw: socket.socket, make: Callable[[], P], *, tls: ssl.SSLContext | None, host: str
) -> P:
    """Return the protocol over a connected socket, which is closed where this fails."""
    loop = asyncio.get_running_loop()
    try:
        if raw.family != socket.AF_UNIX:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name = host.rstrip(".") if tls is not None else None
        _, protocol = await loop.create_connection(make, sock=raw, ssl=tls, server_hostname=name)
    except BaseException:
        raw.close()
        raise
    return protocol


async def _start_tls(transport: asyncio.Transport, connection: P, tls: ssl.SSLContext, host: str) -> P:
    loop = asyncio.get_running_loop()
    inner = await loop.start_tls(transport, connection, tls, server_hostname=host.rstrip("."))
    if inner is None:
        raise ConnectionResetError
    connection.connection_made(inner)
    return connection


def connect_error(error: Exception) -> GatewayError:
    """Return the gateway error for a failure to connect (`OSError` or `ssl.SSLError`)."""
    if isinstance(error, AddressDenied):
        return BlockedAddress("The gateway's network policy does not allow the destination.")
    if isinstance(error, ssl.SSLError) and _NO_PROTOCOL.search(str(error)):
        return AnotherProtocol(NO_COMMON_VERSION, request_sent=False)
    if isinstance(error, ssl.SSLError):
        detail = "The upstream's TLS certificate or handshake is not acceptable."
    elif isinstance(error, socket.gaierror):
        unknown = UpstreamUnreachable("The upstream's host name cannot be resolved.", request_sent=False)
        unknown.hint = _CHECK_HOST_NAME
        return unknown
    else:
        detail = "The upstream does not accept connections."
    return UpstreamUnreachable(detail, request_sent=False)


def _proxy_error(error: Exception) -> GatewayError:
    if isinstance(error, AddressDenied):
        return connect_error(error)
    return UpstreamUnreachable("The outbound proxy does not accept connections.", request_sent=False)
