"""One request to an MCP server: its deadline, its progress, and its single retry."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from app.core import exact_json
from app.core.errors import UpstreamUnreachable
from app.protocols.base import Call
from app.protocols.mcp.compiling import McpTarget, server_of
from app.protocols.mcp.pending_request import PendingRequest, SessionExpired
from app.protocols.shared.results import time_limit

_MAX_PROGRESS: Final = 256


class McpCall:
    """A request. The last 256 reports of its progress are buffered until they are read."""

    def __init__(self, call: Call[McpTarget]) -> None:
        target = call.target
        now = asyncio.get_running_loop().time()
        self.call = call
        self.session_deadline = min(call.deadline, now + (target.server.timeout or call.deadline))
        self.deadline = call.stream_deadline if call.stream_deadline is not None else self.session_deadline
        self.attempt = self._attempt()
        self.progress: deque[bytes] = deque(maxlen=_MAX_PROGRESS)
        self._changed = asyncio.Event()

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass a report of progress on, or buffer it where the call takes events; called by the SDK.

        Reports above `event_bytes` are not buffered.
        """
        if self.call.on_progress is not None:
            # It does not wait: this runs in the session's task, which calls may share.
            self.call.on_progress(progress, total, message)
        if self.call.stream_deadline is None:
            return
        report = {"progress": progress, "total": total, "message": message}
        text = exact_json.dumps({key: value for key, value in report.items() if value is not None})
        if len(text) <= self.call.limits.event_bytes:
            self.progress.append(text)
            self._changed.set()

    async def wait_for_progress(self, pending: "asyncio.Task[Any]") -> None:
        """Wait until a report of progress is buffered or the request, the task `pending`, has ended."""
        if self.progress or pending.done():
            return
        self._changed.clear()
        waiting = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait([pending, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    def renew_attempt(self) -> None:
        """Start a new attempt of the same request."""
        self.attempt = self._attempt()

    def _attempt(self) -> PendingRequest:
        return PendingRequest(self.deadline, self.call.limits, headers=self.call.headers)


async def send_request(sessions: Any, sent: McpCall, operation: Callable[[Any], Awaitable[Any]]) -> Any:
    """Return the server's response. A session that the server does not know any more is opened again, once.

    Raise ErrorReply, and what a call raises.
    """
    server = server_of(sent.call)
    with time_limit(sent.deadline, "The MCP server did not respond in time."):
        for is_retry in (False, True):
            async with sessions.session(
                server, limits=sent.call.limits, deadline=sent.session_deadline
            ) as session:
                try:
                    return await operation(session)
                except SessionExpired:
                    sessions.drop(session)
                    if is_retry:
                        detail = "The MCP server does not recognise a session that it has just opened."
                        raise UpstreamUnreachable(detail, request_sent=False) from None
                    sent.renew_attempt()
    raise AssertionError  # the loop has returned or raised
