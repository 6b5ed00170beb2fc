"""Cancels the work for a call when its client disconnects."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final

from app.calls.request import ClientDisconnected
from app.core.deadlines import Timer, TimerQueue

# Most calls have ended by then, and need no task that watches the connection.
_WATCH_AFTER_SECONDS: Final = 0.1


class DisconnectWatch:
    """Raises ClientDisconnected out of a `with` block when the client disconnects.

    `disconnected` returns once the client has disconnected; with None, nothing is watched. It is awaited from
    `after` seconds on. Enter the block in the task that is to be cancelled. A cancellation by others is
    raised unchanged.
    """

    __slots__ = ("_after", "_clock", "_disconnected", "_has_disconnected", "_task", "_timer", "_watcher")

    def __init__(
        self,
        disconnected: Callable[[], Awaitable[None]] | None,
        clock: TimerQueue,
        *,
        after: float = _WATCH_AFTER_SECONDS,
    ) -> None:
        self._after = after
        self._disconnected = disconnected
        self._clock = clock
        self._task: asyncio.Task[Any] | None = None
        self._timer: Timer | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._has_disconnected = False

    def __enter__(self) -> None:
        if self._disconnected is None:
            return
        loop = self._clock.loop
        self._task = asyncio.current_task(loop)
        if self._after <= 0:
            self._start()
        else:
            self._timer = self._clock.call_at(loop.time() + self._after, self._start)

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is None:
            return
        self._watcher.cancel()
        if self._has_disconnected and kind is asyncio.CancelledError and self._task is not None:
            self._task.uncancel()
            raise ClientDisconnected from None

    def _start(self) -> None:
        self._watcher = self._clock.loop.create_task(self._watch())

    async def _watch(self) -> None:
        if self._disconnected is None or self._task is None:
            return
        await self._disconnected()
        self._has_disconnected = True
        self._task.cancel()
