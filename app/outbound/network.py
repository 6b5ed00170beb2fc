"""The one door out for protocols that are not HTTP: guarded sockets, streams, datagrams and addresses."""

import asyncio
import socket
import ssl
from collections import OrderedDict
from types import TracebackType
from typing import Final, Self

from app.deadlines import Bound, timers
from app.errors import InvalidInput, UpstreamTimeout, UpstreamUnreachable
from app.outbound.egress import EgressSettings, tls_context
from app.outbound.guard import AddressDenied, Guard
from app.outbound.http1.dialing import Dialer, Place, Proxy, not_connected, tunnelled

__all__ = ["Datagrams", "Network", "Place", "Stream"]

_READ_AHEAD: Final = 64 * 1024
_MOST_DATAGRAMS: Final = 1024
_MOST_CONTEXTS: Final = 64


class Network:
    """Opens what the address guard allows. `by` is always a `loop.time()`."""

    def __init__(self, guard: Guard, dialer: Dialer) -> None:
        self._guard = guard
        self._dialer = dialer
        self._contexts: OrderedDict[bytes, ssl.SSLContext] = OrderedDict()

    def allows(self, address: str, port: int) -> bool:
        """Whether this IP address and port may be spoken to."""
        return self._guard.allows(address, port)

    def tls(self, egress: EgressSettings | None) -> ssl.SSLContext:
        """A verifying client context with the provider's own authorities and certificate; InvalidInput."""
        key = egress.key if egress is not None else b""
        context = self._contexts.get(key)
        if context is None:
            context = self._contexts[key] = tls_context(egress)
            while len(self._contexts) > _MOST_CONTEXTS:
                self._contexts.popitem(last=False)
        self._contexts.move_to_end(key)
        return context

    async def addresses(self, place: Place, *, by: float) -> list[tuple[int, str]]:
        """All addresses of a place, with their families, each of which may be connected to.

        For libraries that connect by themselves: give them the address, never the name. Raises
        BlockedAddress, UpstreamUnreachable and UpstreamTimeout.
        """
        try:
            with Bound(timers(), by):
                return await self._dialer.addresses(place)
        except TimeoutError:
            raise _too_late() from None

    async def connected(self, place: Place, *, egress: EgressSettings | None, by: float) -> socket.socket:
        """A connected, non-blocking TCP socket, through the provider's proxy where it has one.

        Raises BlockedAddress, InvalidInput, UpstreamUnreachable and UpstreamTimeout.
        """
        try:
            with Bound(timers(), by):
                return await self._socket(place, egress)
        except TimeoutError:
            raise _too_late() from None
        except OSError as error:
            raise not_connected(error) from None

    async def stream(
        self, place: Place, *, egress: EgressSettings | None, by: float, tls: bool = False
    ) -> "Stream":
        """A TCP connection; raises what `connected` does."""
        raw = await self.connected(place, egress=egress, by=by)
        try:
            with Bound(timers(), by):
                reader, writer = await asyncio.open_connection(
                    sock=raw,
                    limit=_READ_AHEAD,
                    ssl=self.tls(egress) if tls else None,
                    server_hostname=place.host.rstrip(".") if tls else None,
                )
        except BaseException as error:
            raw.close()
            if isinstance(error, TimeoutError):
                raise _too_late() from None
            if isinstance(error, OSError):
                raise not_connected(error) from None
            raise
        return Stream(reader, writer)

    async def datagrams(self, place: Place, *, egress: EgressSettings | None, by: float) -> "Datagrams":
        """A UDP socket that is bound to its one peer: the kernel drops what comes from elsewhere."""
        if egress is not None and egress.proxy_url is not None:
            raise InvalidInput("Datagrams do not go through an HTTP proxy: take proxy_url out.")
        failed: OSError | None = None
        for family, address in await self.addresses(place, by=by):
            try:
                return await self._bound(family, address, place.port)
            except AddressDenied as error:
                raise not_connected(error) from None
            except OSError as error:
                # There is no way to an address of this family from here, perhaps.
                failed = error
        raise not_connected(failed or OSError()) from None

    async def _bound(self, family: int, address: str, port: int) -> "Datagrams":
        raw = self._guard.socket_factory((family, socket.SOCK_DGRAM, socket.IPPROTO_UDP, "", (address, port)))
        try:
            raw.setblocking(False)
            raw.connect((address, port))
            return await Datagrams.over(raw)
        except BaseException:
            raw.close()
            raise

    async def _socket(self, place: Place, egress: EgressSettings | None) -> socket.socket:
        proxy = Proxy.parse(egress) if egress is not None and egress.proxy_url is not None else None
        if proxy is None or egress is None:
            raw = await self._dialer.socket(place)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return raw
        if proxy.tls is not None:
            raise InvalidInput("This protocol goes through proxies at http:// addresses only.")
        await self._dialer.check(place, resolve=not egress.proxy_resolves)
        raw = await self._dialer.socket(proxy.place)
        try:
            await tunnelled(raw, place, proxy.authorization)
        except BaseException:
            raw.close()
            raise
        return raw


class Stream:
    """A TCP connection. `abort` it at once, or leave the `async with` to do so."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    async def write(self, data: bytes) -> None:
        """Send, and wait for the peer to take it. Raises UpstreamUnreachable."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError:
            raise UpstreamUnreachable("The connection to the upstream broke.") from None

    def abort(self) -> None:
        """Close the connection at once. May be called again."""
        self._writer.transport.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()


class Datagrams(asyncio.DatagramProtocol):
    """Datagrams to and from one peer; what nobody takes is dropped, as a full socket buffer drops it."""

    def __init__(self) -> None:
        self._received: asyncio.Queue[bytes | OSError] = asyncio.Queue(_MOST_DATAGRAMS)
        self._transport: asyncio.DatagramTransport | None = None

    @classmethod
    async def over(cls, raw: socket.socket) -> "Datagrams":
        """Over a connected socket."""
        loop = asyncio.get_running_loop()
        _, made = await loop.create_datagram_endpoint(cls, sock=raw)
        return made

    def send(self, data: bytes) -> None:
        """Raises InvalidInput for what no datagram can carry."""
        if len(data) > 65_507:
            raise InvalidInput("The request has more than the 65,507 bytes that a datagram carries.")
        if self._transport is not None:
            self._transport.sendto(data)

    async def receive(self) -> bytes:
        """The next one; raises UpstreamUnreachable where the peer's machine says that nobody listens."""
        found = await self._received.get()
        if isinstance(found, OSError):
            raise UpstreamUnreachable("The upstream's machine refuses the datagram: nobody listens there.")
        return found

    def close(self) -> None:
        """Close the socket. May be called again."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: object) -> None:  # noqa: ARG002 - asyncio's.
        self._put(data)

    def error_received(self, exc: Exception) -> None:
        if isinstance(exc, OSError):
            self._put(exc)

    def _put(self, found: bytes | OSError) -> None:
        if not self._received.full():
            self._received.put_nowait(found)


def _too_late() -> UpstreamTimeout:
    return UpstreamTimeout("No connection to the upstream was made in time.", sent=False)
