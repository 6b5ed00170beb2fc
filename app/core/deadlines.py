"""Cheap timers for timeouts, which are nearly always cancelled: they share one timer of the event loop.

A call sets several (for the first byte, for whether its client is still connected), and a timer of uvloop
costs some 5 us with its cancellation. Here setting one adds it to a set and cancelling one removes it; the
one timer of the loop is armed for the earliest time requested, and searches the set only then.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType


class Timer:
    """A callback that is called at `when` (`loop.time()`); created by `TimerQueue.call_at`.

    It drops its reference to the callback once it is called or cancelled. The owner of a timer is often
    referred to by its callback, and such reference cycles would be left to the garbage collector, which under
    load would then take 0.1 s every three seconds.
    """

    __slots__ = ("_pending", "callback", "when")

    def __init__(self, when: float, call: Callable[[], None], among: "set[Timer]") -> None:
        self.when = when
        self.callback: Callable[[], None] | None = call
        self._pending = among

    def cancel(self) -> None:
        """Cancel the callback; do nothing if it was called or cancelled before."""
        self._pending.discard(self)
        self.callback = None


class TimerQueue:
    """Holds the timers of one event loop; not thread-safe."""

    __slots__ = ("_armed_for", "_handle", "_waiting", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: set[Timer] = set()
        self._handle: asyncio.TimerHandle | None = None
        self._armed_for = 0.0

    def __len__(self) -> int:
        """Return the number of timers that were neither called nor cancelled."""
        return len(self._waiting)

    def call_at(self, when: float, call: Callable[[], None]) -> Timer:
        """Call `call` at `when` (`loop.time()`), or in the loop's next iteration where that is past."""
        timer = Timer(when, call, self._waiting)
        self._waiting.add(timer)
        if self._handle is None or when < self._armed_for:
            self._arm(when)
        return timer

    def _arm(self, when: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._armed_for = when
        self._handle = self.loop.call_at(when, self._call_due_timers)

    def _call_due_timers(self) -> None:
        self._handle = None
        # uvloop rounds to milliseconds and may be early by half of one.
        now = max(self.loop.time(), self._armed_for)
        due = [timer for timer in self._waiting if timer.when <= now]
        self._waiting.difference_update(due)
        if self._waiting:
            self._arm(min(timer.when for timer in self._waiting))
        for timer in sorted(due, key=lambda timer: timer.when):
            call, timer.callback = timer.callback, None
            if call is not None:
                call()


class Deadline:
    """`asyncio.timeout_at` on the timer queue, as a plain `with`: raise TimeoutError at `when`
    (`loop.time()`).

    It must be entered in a task. A cancellation by others is raised unchanged.
    """

    __slots__ = ("_cancelling", "_expired", "_task", "_timer", "_timers", "_when")

    def __init__(self, timers: TimerQueue, when: float) -> None:
        self._timers = timers
        self._when = when
        self._expired = False

    def __enter__(self) -> None:
        task = asyncio.current_task(self._timers.loop)
        if task is None:
            raise RuntimeError("A deadline must be entered inside a task.")
        self._task = task
        self._cancelling = task.cancelling()
        self._timer = self._timers.call_at(self._when, self._expire)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _expire(self) -> None:
        self._expired = True
        self._task.cancel()


_current: TimerQueue | None = None


def get_timer_queue() -> TimerQueue:
    """Return the timer queue of the running loop."""
    global _current  # noqa: PLW0603 - caches the queue of the latest loop; a process has one that matters.
    loop = asyncio.get_running_loop()
    queue = _current
    if queue is None or queue.loop is not loop:
        queue = _current = TimerQueue(loop)
    return queue
