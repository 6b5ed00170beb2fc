"""A bulkhead: a limit of concurrent calls to one origin, with a short FIFO queue for permits."""

import asyncio
from collections import deque

from app.core.deadlines import Deadline, TimerQueue


class Bulkhead:
    """Grants permits to at most `max_running` concurrent calls; `max_waiting` more may wait, in FIFO order.

    `running` and `waiting` are public: a call that finds a free permit and no waiting calls may increment
    `running` by itself.
    """

    __slots__ = ("_queue", "_timers", "max_running", "running", "waiting")

    def __init__(self, clock: TimerQueue, *, max_running: int, max_waiting: int) -> None:
        self._timers = clock
        self._queue = max_waiting
        self.max_running = max_running
        self.running = 0
        self.waiting: deque[asyncio.Future[bool]] = deque()

    def try_acquire(self) -> bool:
        """Take a permit; return False where none is free, or others wait for one."""
        if self.running >= self.max_running or self.waiting:
            return False
        self.running += 1
        return True

    async def acquire(self, until: float) -> bool:
        """Wait for a permit until `until` (`loop.time()`); return False on timeout, a full queue or
        rejection.

        A cancelled waiter leaves the queue, and releases a permit that it has just been granted.
        """
        if self.try_acquire():
            return True
        if len(self.waiting) >= self._queue:
            return False
        permit: asyncio.Future[bool] = self._timers.loop.create_future()
        self.waiting.append(permit)
        try:
            with Deadline(self._timers, until):
                return await permit
        except TimeoutError:
            self._withdraw(permit)
            return False
        except asyncio.CancelledError:
            self._withdraw(permit)
            raise

    def release(self) -> None:
        """Release a permit: it goes to the call that has waited longest, if any."""
        while self.waiting:
            permit = self.waiting.popleft()
            if not permit.done():
                permit.set_result(True)
                return
        self.running -= 1

    def reject_waiting(self) -> None:
        """Reject all waiting calls: their `acquire` returns False."""
        while self.waiting:
            permit = self.waiting.popleft()
            if not permit.done():
                permit.set_result(False)

    def _withdraw(self, permit: "asyncio.Future[bool]") -> None:
        if permit.done() and not permit.cancelled():
            if permit.result():
                self.release()
        elif permit in self.waiting:
            self.waiting.remove(permit)
