"""Background tasks: work that comes round again, and how all of them are ended."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

import structlog

from app.errors import Unavailable

_log = structlog.get_logger(__name__)

_AGAIN_SECONDS = 0.5

_Result = TypeVar("_Result")


class Reports(NamedTuple):
    """What the log says when a round of work fails, and where PostgreSQL is merely away."""

    failed: str
    away: str = ""


async def repeat(
    work: Callable[[], Awaitable[object]], *, every: float, reports: Reports, at_once: bool = False
) -> None:
    """Does the work every so many seconds until it is cancelled, whatever comes of it.

    The first round comes after the first pause, or `at_once`.
    """
    if not at_once:
        await asyncio.sleep(every)
    while True:
        try:
            await work()
        except Unavailable:
            _log.warning(reports.away or reports.failed)
        except Exception:  # noqa: BLE001  (the loop must outlive every fault)
            _log.exception(reports.failed)
        await asyncio.sleep(every)


class Watched:
    """Tasks that come to their ends though nobody waits for them."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def add(self, task: "asyncio.Task[Any]") -> None:
        """Keeps the task, and takes what it raises."""
        self._running.add(task)
        task.add_done_callback(self._ended)

    async def aclose(self, *, seconds: float) -> None:
        """Waits for the ends, for at most so long, then cancels the rest."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            # Whoever waited has it; when the caller has left, nobody else will look at it.
            task.exception()


async def completed(task: "asyncio.Task[_Result]") -> _Result:
    """Wait for the end of the task, and return or raise what it does.

    A cancellation of the waiting task does not reach this one, and is raised only after its end: for clean-up
    that must be over before the waiting task goes on. The task itself is to be short.
    """
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        if not task.cancelled():
            # What it raised gives way to the cancellation, and counts as retrieved.
            task.exception()
        raise cancellation
    return task.result()


async def end_tasks(tasks: "list[asyncio.Task[None]]") -> None:
    """Cancels the tasks, waits for their ends, and empties the list. Raises what one of them raised.

    They are cancelled again while they run: until Python 3.12, `asyncio.wait_for` loses a cancellation that
    comes at the moment at which what it waits for is done.
    """
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=_AGAIN_SECONDS)
    ended = tasks.copy()
    tasks.clear()
    for task in ended:
        if not task.cancelled():
            task.result()
