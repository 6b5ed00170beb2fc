"""Sockets, streams, datagrams and addresses for protocols other than HTTP, checked by the address guard."""

import asyncio
import socket
import ssl
from collections import OrderedDict
from types import TracebackType
from typing import Final, Self

from app.core.deadlines import Deadline, get_timer_queue
from app.core.errors import InvalidInput, UpstreamTimeout, UpstreamUnreachable
from app.outbound.egress import EgressSettings, tls_context
from app.outbound.guard import AddressDenied, DeniedAddress, Guard
from app.outbound.http1.dialing import Address, Dialer, Proxy, connect_error, open_tunnel

__all__ = ["Address", "Datagrams", "Network", "Stream"]

_READ_BUFFER_BYTES: Final = 64 * 1024
_MAX_QUEUED_DATAGRAMS: Final = 1024
_MAX_CONTEXTS: Final = 64


class Network:
    """Opens sockets to what the address guard allows. Deadlines are `loop.time()` values."""

    def __init__(self, guard: Guard, dialer: Dialer) -> None:
        self._guard = guard
        self._dialer = dialer
        self._contexts: OrderedDict[bytes, ssl.SSLContext] = OrderedDict()

    def allows(self, ip: str, port: int) -> bool:
        """Return whether the address guard allows this IP address and port."""
        return self._guard.allows(ip, port)

    def tls_context(self, egress: EgressSettings | None) -> ssl.SSLContext:
        """Return a verifying TLS client context with the provider's own CAs and client certificate.

        Raises InvalidInput where a setting cannot be used.
        """
        key = egress.key if egress is not None else b""
        context = self._contexts.get(key)
        if context is None:
            context = self._contexts[key] = tls_context(egress)
            while len(self._contexts) > _MAX_CONTEXTS:
                self._contexts.popitem(last=False)
        self._contexts.move_to_end(key)
        return context

    async def resolve(self, address: Address, *, deadline: float) -> list[tuple[int, str]]:
        """Return the address family and IP of each record of a host; all of them may be connected to.

        For libraries that connect by themselves: give them the IP address, never the name. Raises
        BlockedAddress, UpstreamUnreachable and UpstreamTimeout.
        """
        try:
            with Deadline(get_timer_queue(), deadline):
                return await self._dialer.resolve(address)
        except TimeoutError:
            raise _connect_timeout() from None

    async def denied(self, address: Address) -> DeniedAddress | None:
        """Return the address that makes the guard block a destination, and the setting that would allow it;
        None where it is not blocked or its name cannot be resolved. For keys that may register providers.
        """
        return await self._dialer.denied(address)

    def denied_socket(self, path: str) -> DeniedAddress | None:
        """Return a Unix socket with the setting that would allow it; None where it is allowed."""
        return self._dialer.denied_socket(path)

    async def connect_socket(
        self, address: Address, *, egress: EgressSettings | None, deadline: float
    ) -> socket.socket:
        """Return a connected, non-blocking TCP socket, through the provider's proxy where it has one, or its
        Unix socket.

        Raises BlockedAddress, InvalidInput, UpstreamUnreachable and UpstreamTimeout.
        """
        try:
            with Deadline(get_timer_queue(), deadline):
                return await self._proxied_socket(address, egress)
        except TimeoutError:
            raise _connect_timeout() from None
        except OSError as error:
            raise connect_error(error) from None

    async def open_stream(
        self, address: Address, *, egress: EgressSettings | None, deadline: float, tls: bool = False
    ) -> "Stream":
        """Return a TCP connection, with TLS if `tls`. Raises BlockedAddress, InvalidInput,
        UpstreamUnreachable and UpstreamTimeout.
        """
        raw = await self.connect_socket(address, egress=egress, deadline=deadline)
        try:
            with Deadline(get_timer_queue(), deadline):
                reader, writer = await asyncio.open_connection(
                    sock=raw,
                    limit=_READ_BUFFER_BYTES,
                    ssl=self.tls_context(egress) if tls else None,
                    server_hostname=address.host.rstrip(".") if tls else None,
                )
        except BaseException as error:
            raw.close()
            if isinstance(error, TimeoutError):
                raise _connect_timeout() from None
            if isinstance(error, OSError):
                raise connect_error(error) from None
            raise
        return Stream(reader, writer)

    async def open_datagrams(
        self, address: Address, *, egress: EgressSettings | None, deadline: float
    ) -> "Datagrams":
        """Return a UDP socket that is connected to one peer: the kernel drops datagrams from elsewhere.

        Raises BlockedAddress, InvalidInput (with a proxy), UpstreamUnreachable and UpstreamTimeout.
        """
        if egress is not None and egress.proxy_url is not None:
            raise InvalidInput("Datagrams do not go through an HTTP proxy: remove proxy_url.")
        failed: OSError | None = None
        for family, ip in await self.resolve(address, deadline=deadline):
            try:
                return await self._connect_datagrams(family, ip, address.port)
            except AddressDenied as error:
                raise connect_error(error) from None
            except OSError as error:
                # Perhaps this machine has no route for this address family.
                failed = error
        raise connect_error(failed or OSError()) from None

    async def _connect_datagrams(self, family: int, ip: str, port: int) -> "Datagrams":
        raw = self._guard.socket_factory((family, socket.SOCK_DGRAM, socket.IPPROTO_UDP, "", (ip, port)))
        try:
            raw.setblocking(False)
            raw.connect((ip, port))
            return await Datagrams.from_socket(raw)
        except BaseException:
            raw.close()
            raise

    async def _proxied_socket(self, address: Address, egress: EgressSettings | None) -> socket.socket:
        path = None if egress is None else egress.socket_path(address.host)
        if path is not None:
            return await self._dialer.connect_unix_socket(path)
        proxy = Proxy.parse(egress) if egress is not None and egress.proxy_url is not None else None
        if proxy is None or egress is None:
            raw = await self._dialer.connect_socket(address)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return raw
        if proxy.tls is not None:
            raise InvalidInput("This protocol supports proxies with http:// URLs only.")
        await self._dialer.check_proxied_target(address, resolve=not egress.proxy_resolves)
        raw = await self._dialer.connect_socket(proxy.address)
        try:
            await open_tunnel(raw, address, proxy.authorization)
        except BaseException:
            raw.close()
            raise
        return raw


class Stream:
    """A TCP connection, which `abort` or leaving its `async with` closes immediately."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    async def write(self, data: bytes) -> None:
        """Write the data and wait until the transport accepts more. Raises UpstreamUnreachable."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError:
            raise UpstreamUnreachable("The connection to the upstream broke.") from None

    def abort(self) -> None:
        """Close the connection immediately. Calling it again has no effect."""
        self._writer.transport.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()


class Datagrams(asyncio.DatagramProtocol):
    """Datagrams to and from one peer; those that exceed the queue are dropped, as by a full socket buffer."""

    def __init__(self) -> None:
        self._received: asyncio.Queue[bytes | OSError] = asyncio.Queue(_MAX_QUEUED_DATAGRAMS)
        self._transport: asyncio.DatagramTransport | None = None

    @classmethod
    async def from_socket(cls, raw: socket.socket) -> "Datagrams":
        """Return the datagrams of a connected, non-blocking UDP socket, which they own from here on."""
        loop = asyncio.get_running_loop()
        _, datagrams = await loop.create_datagram_endpoint(cls, sock=raw)
        return datagrams

    def send(self, data: bytes) -> None:
        """Send one datagram. Raises InvalidInput for more bytes than it can carry."""
        if len(data) > 65_507:
            raise InvalidInput("The request has more than the 65,507 bytes that a datagram carries.")
        if self._transport is not None:
            self._transport.sendto(data)

    async def receive(self) -> bytes:
        """Return the next datagram. Raises UpstreamUnreachable where the peer's port is closed (ICMP)."""
        received = await self._received.get()
        if isinstance(received, OSError):
            raise UpstreamUnreachable("The upstream's host rejected the datagram: its port is closed.")
        return received

    def close(self) -> None:
        """Close the socket. Calling it again has no effect."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: object) -> None:  # noqa: ARG002 - asyncio's.
        self._put(data)

    def error_received(self, exc: Exception) -> None:
        if isinstance(exc, OSError):
            self._put(exc)

    def _put(self, received: bytes | OSError) -> None:
        if not self._received.full():
            self._received.put_nowait(received)


def _connect_timeout() -> UpstreamTimeout:
    return UpstreamTimeout("No connection to the upstream was made in time.", request_sent=False)
