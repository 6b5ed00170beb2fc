"""Timers that are nearly always cancelled, for the price of a set: one timer of the loop serves them all.

A call sets several (the first byte, whether its caller is still there), and a timer of uvloop costs some 5 us
with its cancellation. Here setting one adds it to a set and cancelling one takes it out; the one timer of the
loop is armed for the earliest moment that was asked for, and looks through the set only then.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType


class Timer:
    """One moment at which something is to be called; made by `Timers.at`.

    It lets go of what it would call as soon as that is over: whoever sets a timer keeps it, too, and such a
    ring would stay for the garbage collector, which under load then takes 0.1 s every three seconds.
    """

    __slots__ = ("_among", "call", "when")

    def __init__(self, when: float, call: Callable[[], None], among: "set[Timer]") -> None:
        self.when = when
        self.call: Callable[[], None] | None = call
        self._among = among

    def cancel(self) -> None:
        """It will not be called. May be said again, and after it was called."""
        self._among.discard(self)
        self.call = None


class Timers:
    """The timers of one event loop; use it in that loop only."""

    __slots__ = ("_armed", "_handle", "_waiting", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: set[Timer] = set()
        self._handle: asyncio.TimerHandle | None = None
        self._armed = 0.0

    def __len__(self) -> int:
        """Timers that were neither called nor cancelled."""
        return len(self._waiting)

    def at(self, when: float, call: Callable[[], None]) -> Timer:
        """Call `call` at `when` (`loop.time()`), or at the loop's next turn where that is past."""
        timer = Timer(when, call, self._waiting)
        self._waiting.add(timer)
        if self._handle is None or when < self._armed:
            self._arm(when)
        return timer

    def _arm(self, when: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._armed = when
        self._handle = self.loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._handle = None
        # uvloop rounds to milliseconds and may be early by half of one.
        now = max(self.loop.time(), self._armed)
        due = [timer for timer in self._waiting if timer.when <= now]
        self._waiting.difference_update(due)
        if self._waiting:
            self._arm(min(timer.when for timer in self._waiting))
        for timer in sorted(due, key=lambda timer: timer.when):
            call, timer.call = timer.call, None
            if call is not None:
                call()


class Bound:
    """`asyncio.timeout_at` on `Timers`, as a plain `with`: TimeoutError if the body has not ended at `when`.

    Enter it in a task. A cancellation from elsewhere passes as it is.
    """

    __slots__ = ("_cancelling", "_expired", "_task", "_timer", "_timers", "_when")

    def __init__(self, timers: Timers, when: float) -> None:
        self._timers = timers
        self._when = when
        self._expired = False

    def __enter__(self) -> None:
        task = asyncio.current_task(self._timers.loop)
        if task is None:
            raise RuntimeError("A Bound is used inside a task.")
        self._task = task
        self._cancelling = task.cancelling()
        self._timer = self._timers.at(self._when, self._expire)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _expire(self) -> None:
        self._expired = True
        self._task.cancel()


_latest: Timers | None = None


def timers() -> Timers:
    """The timers of the running loop."""
    global _latest  # noqa: PLW0603 - a process has one loop that matters; others get timers of their own.
    loop = asyncio.get_running_loop()
    found = _latest
    if found is None or found.loop is not loop:
        found = _latest = Timers(loop)
    return found
