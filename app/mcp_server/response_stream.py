"""The response to one request as server-sent events: begun only where something is to be sent before the
result, so that an error until then has its own HTTP status.
"""

import asyncio
from typing import Final

import orjson
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from app.background import cancel_tasks
from app.calls.streams import StreamRegistry
from app.deadlines import Timer
from app.errors import ClientTimeout
from app.mcp_server.jsonrpc import Id
from app.outbound.framing import StreamEvent
from app.streaming.connection import Headers, ResponseWriter

SLOW_SECONDS: Final = 10.0
"""A result that takes longer is sent as an event, after comments that keep the connection open."""
EVENT_HEADERS: Final[Headers] = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
KEEP_ALIVE: Final = b": keep-alive\r\n\r\n"
_MAX_MESSAGE: Final = 500


def event(message: bytes) -> bytes:
    """Return a JSON-RPC message as a server-sent event."""
    return b"event: message\r\ndata: %b\r\n\r\n" % message


class ResponseStream:
    """The response to one request. `token` is that of its notifications of progress, None for none."""

    __slots__ = (
        "_last",
        "_lock",
        "_progress",
        "_request",
        "_streams",
        "_tasks",
        "_timer",
        "_token",
        "_writer",
        "has_begun",
    )
    status_code = 200

    def __init__(self, request: Request, streams: StreamRegistry, token: Id | None) -> None:
        self._request = request
        self._streams = streams
        self._token = token
        self._progress = 0
        self._timer: Timer | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._last = b""
        # Most calls need neither.
        self._lock: asyncio.Lock | None = None
        self._writer: ResponseWriter | None = None
        self.has_begun = False

    def arm(self, seconds: float = SLOW_SECONDS) -> None:
        """Begin the stream after this time, unless `disarm` is called before."""
        clock = self._streams.clock
        self._timer = clock.call_at(clock.loop.time() + seconds, self._begin_late)

    async def disarm(self) -> None:
        """Begin no more, and end the keep-alive comments."""
        if self._timer is not None:
            self._timer.cancel()
        if self._tasks:
            await cancel_tasks(self._tasks)

    async def on_event(self, upstream_event: StreamEvent) -> None:
        """Report an event of the upstream as progress, where the client asked for it."""
        if self._token is None:
            return
        await self._begin()
        text = upstream_event.data[: 4 * _MAX_MESSAGE].decode("utf-8", "replace")[:_MAX_MESSAGE]
        await self._report(text)

    def finish(self, message: bytes) -> "ResponseStream":
        """Return the response with its last message; only where the stream `has_begun`."""
        self._last = event(message)
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI.
        """Send the last message."""
        await self._write(self._last, more=False)

    def _begin_late(self) -> None:
        self._tasks.append(self._streams.clock.loop.create_task(self._keep_alive(), name="mcp-keep-alive"))

    async def _keep_alive(self) -> None:
        try:
            await self._begin()
            while True:
                if self._token is None:
                    await self._write(KEEP_ALIVE)
                else:
                    await self._report("The call is still running.")
                await asyncio.sleep(self._streams.heartbeat)
        except (OSError, ClientTimeout):
            # The connection is lost: whether that ends the call depends on the era of the client.
            return

    async def _report(self, message: str) -> None:
        self._progress += 1
        params = {"progressToken": self._token, "progress": self._progress, "message": message}
        notification = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        await self._write(event(orjson.dumps(notification)))

    async def _begin(self) -> None:
        if self.has_begun:
            return
        self.has_begun = True
        # Starlette has no public name for the `send` of a request.
        send = self._request._send  # noqa: SLF001
        self._lock = asyncio.Lock()
        self._writer = ResponseWriter(send, clock=self._streams.clock, stall=self._streams.stall)
        async with self._lock:
            await send({"type": "http.response.start", "status": 200, "headers": EVENT_HEADERS})

    async def _write(self, piece: bytes, *, more: bool = True) -> None:
        """Write a piece, after the head."""
        if self._lock is None or self._writer is None:
            raise RuntimeError("The stream has not begun.")
        async with self._lock:
            await self._writer.write(piece, more=more)
