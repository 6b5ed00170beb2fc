"""How many calls of one origin run at once, and a short, fair queue for a permit among them."""

import asyncio
from collections import deque

from app.deadlines import Bound, Timers


class Bulkhead:
    """Places for `most` calls; `queue` more may wait, the first come first. `running` and `waiting` are to be
    read; a call that finds `running < most` and nobody waiting may raise `running` by itself.
    """

    __slots__ = ("_queue", "_timers", "most", "running", "waiting")

    def __init__(self, clock: Timers, *, most: int, queue: int) -> None:
        self._timers = clock
        self._queue = queue
        self.most = most
        self.running = 0
        self.waiting: deque[asyncio.Future[bool]] = deque()

    def take(self) -> bool:
        """Return a permit, if one is free and nobody waits for it."""
        if self.running >= self.most or self.waiting:
            return False
        self.running += 1
        return True

    async def wait(self, until: float) -> bool:
        """Return whether there was a permit by `until` (`loop.time()`); False for who is turned away, too.

        A waiter that is cancelled leaves the queue, and passes on a permit that it was just given.
        """
        if self.take():
            return True
        if len(self.waiting) >= self._queue:
            return False
        permit: asyncio.Future[bool] = self._timers.loop.create_future()
        self.waiting.append(permit)
        try:
            with Bound(self._timers, until):
                return await permit
        except TimeoutError:
            self._withdraw(permit)
            return False
        except asyncio.CancelledError:
            self._withdraw(permit)
            raise

    def leave(self) -> None:
        """Return a permit back, or straight to who waits longest."""
        while self.waiting:
            permit = self.waiting.popleft()
            if not permit.done():
                permit.set_result(True)
                return
        self.running -= 1

    def turn_away(self) -> None:
        """All who wait get no permit."""
        while self.waiting:
            permit = self.waiting.popleft()
            if not permit.done():
                permit.set_result(False)

    def _withdraw(self, permit: "asyncio.Future[bool]") -> None:
        if permit.done() and not permit.cancelled():
            if permit.result():
                self.leave()
        elif permit in self.waiting:
            self.waiting.remove(permit)
