"""The caller's connection: when it has gone, and how much it takes at a time."""

import asyncio
from typing import Any, Final

from starlette.types import Receive, Send

from app.deadlines import Bound, Timers
from app.errors import CallerStalled, UpstreamTimeout

MOST_AT_ONCE: Final = 64 << 10
"""Bytes that are handed to the server in one go; it waits for the caller before it takes the next."""

Headers = list[tuple[bytes, bytes]]
"""As ASGI has them."""


async def cancel_when_gone(receive: Receive, task: "asyncio.Task[Any] | None") -> bool:
    """Waits until the caller has left, then cancels the task that works for it; gives True."""
    while (await receive())["type"] != "http.disconnect":
        pass
    if task is not None:
        task.cancel()
    return True


def gone(watcher: "asyncio.Task[bool]") -> bool:
    """Whether a cancellation came from this watcher; takes it back if so."""
    if not watcher.done() or watcher.cancelled() or watcher.exception() is not None:
        return False
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
    return True


class Writer:
    """Hands pieces of an answer to the server. Back-pressure comes from awaiting it.

    `stall` are the seconds that a caller may take over each 64 KiB; after that, CallerStalled is raised.
    `sent` counts bytes, `waited` the seconds that the caller was waited for.
    """

    __slots__ = ("_clock", "_send", "_stall", "sent", "waited")

    def __init__(self, send: Send, *, clock: Timers, stall: float) -> None:
        self._send = send
        self._clock = clock
        self._stall = stall
        self.sent = 0
        self.waited = 0.0

    async def write(self, piece: bytes, *, more: bool = True) -> None:
        """A piece, which is the last one unless there is `more`."""
        if len(piece) <= MOST_AT_ONCE:
            await self._write(piece, more)
            return
        for start in range(0, len(piece), MOST_AT_ONCE):
            await self._write(piece[start : start + MOST_AT_ONCE], more or start + MOST_AT_ONCE < len(piece))

    async def _write(self, piece: bytes, more: bool) -> None:
        now = self._clock.loop.time
        began = now()
        try:
            with Bound(self._clock, began + self._stall):
                await self._send({"type": "http.response.body", "body": piece, "more_body": more})
        except TimeoutError:
            raise CallerStalled("The caller stopped taking its answer.") from None
        self.waited += now() - began
        self.sent += len(piece)

    def at_fault(self, error: BaseException, *, seconds: float) -> BaseException:
        """The error that ended an answer of so many seconds: a timeout is its own, or that of a slow caller.

        Else callers that read slowly would open the breaker of a sound upstream.
        """
        if isinstance(error, UpstreamTimeout) and self.waited > seconds / 2:
            return CallerStalled("The caller took its answer too slowly for the time that the call may take.")
        return error
