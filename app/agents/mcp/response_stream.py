"""The response to one request as server-sent events: begun only where something is to be sent before the
result, so that an error until then has its own HTTP status.
"""

import asyncio
import math
from typing import Any, Final

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from app.agents.mcp.jsonrpc import Id
from app.agents.mcp.progress_queue import ProgressQueue
from app.api.streams.connection import Headers, ResponseWriter
from app.calls.response.streams import StreamRegistry
from app.core import exact_json
from app.core.background import cancel_tasks
from app.core.deadlines import Timer
from app.core.errors import ClientTimeout
from app.outbound.framing import StreamEvent

EVENT_HEADERS: Final[Headers] = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
KEEP_ALIVE: Final = b": keep-alive\r\n\r\n"
_MAX_EVENT: Final = 64 << 10


def event(message: bytes) -> bytes:
    """Return a JSON-RPC message as a server-sent event."""
    # A result has JSON of upstreams as it came.
    return b"event: message\r\ndata: %b\r\n\r\n" % exact_json.on_one_line(message)


class ResponseStream:
    """The response to one request. `token` is that of its notifications of progress, None for none."""

    __slots__ = (
        "_events",
        "_is_ended",
        "_is_sending",
        "_last",
        "_lock",
        "_progress",
        "_request",
        "_sent_at",
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
        self._progress = None if token is None else ProgressQueue()
        self._events = 0
        self._sent_at = -math.inf
        self._is_sending = False
        self._is_ended = False
        self._timer: Timer | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._last = b""
        # Most calls need neither.
        self._lock: asyncio.Lock | None = None
        self._writer: ResponseWriter | None = None
        self.has_begun = False

    def arm(self, seconds: float) -> None:
        """Begin the stream after this time, unless `disarm` is called before."""
        clock = self._streams.clock
        self._timer = clock.call_at(clock.loop.time() + seconds, self._begin_late)

    def disarm(self) -> bool:
        """Begin no more; return whether something is being sent, which `end` ends."""
        self._is_ended = True
        if self._timer is not None:
            self._timer.cancel()
        return bool(self._tasks)

    async def end(self) -> None:
        """End what is being sent, and wait until the last of it is sent."""
        await cancel_tasks(self._tasks)

    async def send_rest(self) -> None:
        """Send the reports of progress that still wait, at once."""
        try:
            while self._progress:
                await self._send_first(self._progress)
        except (OSError, ClientTimeout):
            return

    @property
    def wants_progress(self) -> bool:
        """Whether the client asked for notifications of progress."""
        return self._token is not None

    def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress where the client asked for it: a `ProgressListener`, for which a task sends."""
        if self._progress is None or self._is_ended:
            return
        loop = self._streams.clock.loop
        self._progress.add(progress, total, message, now=loop.time())
        if self._progress and not self._is_sending:
            self._is_sending = True
            self._tasks = [one for one in self._tasks if not one.done()]
            self._tasks.append(loop.create_task(self._send_progress(self._progress), name="mcp-progress"))

    async def on_event(self, upstream_event: StreamEvent) -> None:
        """Report an event of the upstream as progress, where the client asked for it."""
        if self._progress is None:
            return
        self._events += 1
        data = upstream_event.data
        text = data.decode("utf-8", "replace") if len(data) <= _MAX_EVENT else None
        self.on_progress(self._events, None, text)

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
                if self._progress is None:
                    await self._write(KEEP_ALIVE)
                elif self._streams.clock.loop.time() >= self._sent_at + self._streams.heartbeat:
                    await self._notify(self._progress.describe_still_running())
                await asyncio.sleep(self._streams.heartbeat)
        except (OSError, ClientTimeout):
            # The connection is lost: whether that ends the call depends on the era of the client.
            return

    async def _send_progress(self, queue: ProgressQueue) -> None:
        """Send reports at the rate of the queue until none waits."""
        clock = self._streams.clock
        try:
            while queue:
                seconds = queue.seconds(clock.loop.time())
                if seconds > 0:
                    await asyncio.sleep(seconds)
                await self._send_first(queue)
        except (OSError, ClientTimeout):
            # As with the keep-alive comments; nothing more can be sent.
            self._is_ended = True
        finally:
            self._is_sending = False

    async def _send_first(self, queue: ProgressQueue) -> None:
        await self._begin()
        await self._notify(queue.take())

    async def _notify(self, report: dict[str, Any]) -> None:
        self._sent_at = self._streams.clock.loop.time()
        params = {"progressToken": self._token, **report}
        notification = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        await self._write(event(exact_json.dumps(notification)))

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
