"""Background tasks: periodic work, tasks whose result is not awaited, and how they are stopped."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

import structlog

from app.core.errors import Unavailable

_log = structlog.get_logger(__name__)

_Result = TypeVar("_Result")


class LoopMessages(NamedTuple):
    """The log messages for failed runs of periodic work: `unavailable` where PostgreSQL is unavailable (if it
    is not ""), `failed` for any other error.
    """

    failed: str
    unavailable: str = ""


async def run_periodically(
    work: Callable[[], Awaitable[object]],
    *,
    interval: float,
    messages: LoopMessages,
    run_immediately: bool = False,
) -> None:
    """Run `work` every `interval` seconds until cancelled, whether it succeeds or raises; log what it raises.

    The first run is after one interval, or at once with `run_immediately`.
    """
    if not run_immediately:
        await asyncio.sleep(interval)
    while True:
        try:
            await work()
        except Unavailable:
            _log.warning(messages.unavailable or messages.failed)
        except Exception:  # noqa: BLE001  (the loop must survive every error)
            _log.exception(messages.failed)
        await asyncio.sleep(interval)


class TaskSet:
    """Running tasks whose result is not awaited; references are held, so that none is garbage-collected."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def add(self, task: "asyncio.Task[Any]") -> None:
        """Hold a reference to the task until it ends, and retrieve its exception."""
        self._running.add(task)
        task.add_done_callback(self._on_done)

    async def aclose(self, *, timeout: float) -> None:
        """Wait for the tasks for at most `timeout` seconds, then cancel those that still run."""
        if self._running:
            await asyncio.wait(self._running, timeout=timeout)
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _on_done(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            # Mark the exception as retrieved, so that asyncio does not log it where nothing awaits the task.
            task.exception()


async def await_uncancelled(task: "asyncio.Task[_Result]") -> _Result:
    """Wait for the task, and return its result or raise its exception.

    A cancellation of the waiting task does not cancel `task`, and is raised only after that has ended: for
    clean-up that must be complete before the waiting task continues. The task must be short.
    """
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        if not task.cancelled():
            # The cancellation is raised in place of what the task raised, which counts as retrieved.
            task.exception()
        raise cancellation
    return task.result()


async def cancel_tasks(tasks: "list[asyncio.Task[None]]") -> None:
    """Cancel the tasks, wait until they have ended, and empty the list; raise what one of them raised."""
    ended = tasks.copy()
    for task in ended:
        task.cancel()
    if ended:
        await asyncio.wait(ended)
    tasks.clear()
    for task in ended:
        if not task.cancelled():
            task.result()
