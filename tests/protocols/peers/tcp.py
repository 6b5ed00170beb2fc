"""A TCP peer."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def tcp_server(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Run `handler` for each connection, which is closed at its end, and yield the port of loopback.

    A connection that the client closes or resets ends the handler without an error.
    """

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # asyncio logs a cancelled handler as an error when the loop ends.
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


class TcpPeer:
    """A server that reads one request per connection and sends `replies`, 30 ms apart."""

    def __init__(self) -> None:
        self.port = 0
        self.received = b""
        """The last request."""
        self.request_bytes = 0
        """The length of a request; 0: it ends with `request_end`."""
        self.request_end = b"}"
        self.replies: list[bytes] = []
        self.stays_open = False
        """Whether the connection stays open after the last reply, until the client closes it."""
        self.disconnected = asyncio.Event()

    @property
    def template(self) -> dict[str, Any]:
        """The call template of this peer."""
        return {"call_template_type": "tcp", "host": "127.0.0.1", "port": self.port}

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator["TcpPeer"]:
        """Listen on loopback until the block ends."""
        async with tcp_server(self._handle) as self.port:
            yield self

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.request_bytes:
                self.received = await reader.readexactly(self.request_bytes)
            else:
                self.received = await reader.readuntil(self.request_end)
            for number, reply in enumerate(self.replies):
                if number:
                    await asyncio.sleep(0.03)
                writer.write(reply)
                await writer.drain()
            if self.stays_open:
                await reader.read()
        finally:
            self.disconnected.set()
