"""A WebSocket peer, by the server of the library `websockets`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

Handler = Callable[[ServerConnection], Awaitable[None]]


@contextlib.asynccontextmanager
async def websocket_server(handler: Handler, **options: Any) -> AsyncIterator[str]:
    """Run `handler` for each connection, and yield the URL; `options` are those of `websockets.serve`."""
    options = {"ping_interval": None, "close_timeout": 0.5, **options}
    async with serve(handler, "127.0.0.1", 0, **options) as server:
        scheme = "wss" if options.get("ssl") else "ws"
        yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"


class WebsocketPeer:
    """A server that sends `replies` to the first message, or the message itself, and waits for the close.

    `handler` takes the place of that; `process_request` may respond to the upgrade.
    """

    def __init__(self, handler: Handler | None = None) -> None:
        self.url = ""
        self.requests: list[Any] = []
        """The request of each upgrade."""
        self.messages: list[str | bytes] = []
        self.replies: list[str | bytes] = []
        self.handler = handler
        self.process_request: Callable[[ServerConnection, Any], Any] | None = None
        self.disconnected = asyncio.Event()

    @property
    def template(self) -> dict[str, Any]:
        """The call template of this peer."""
        return {"call_template_type": "websocket", "url": f"{self.url}/tools"}

    @contextlib.asynccontextmanager
    async def serve(self, **options: Any) -> AsyncIterator[str]:
        """Listen on loopback until the block ends, and yield the URL."""
        server = websocket_server(
            self._handle,
            process_request=self._process_request,
            select_subprotocol=lambda _, offered: offered[0] if offered else None,
            **options,
        )
        async with server as self.url:
            yield self.url

    async def _handle(self, connection: ServerConnection) -> None:
        self.requests.append(connection.request)
        if self.handler is not None:
            await self.handler(connection)
            return
        try:
            self.messages.append(await connection.recv())
            for reply in self.replies or self.messages[-1:]:
                await connection.send(reply)
            await connection.wait_closed()
        except ConnectionClosed:
            pass
        finally:
            self.disconnected.set()

    def _process_request(self, connection: ServerConnection, request: Any) -> Any:
        return None if self.process_request is None else self.process_request(connection, request)
