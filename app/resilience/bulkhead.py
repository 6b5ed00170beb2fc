"""How many calls of one origin run at once, and a short, fair queue for a place among them."""

import asyncio
from collections import deque

from app.deadlines import Bound, Timers


class Bulkhead:
    """Places for `most` calls; `queue` more may wait, the first come first. `running` and `waiting` are to be
    read; a call that finds `running < most` and nobody waiting may raise `running` by itself.
    """

    __slots__ = ("_clock", "_queue", "most", "running", "waiting")

    def __init__(self, clock: Timers, *, most: int, queue: int) -> None:
        self._clock = clock
        self._queue = queue
        self.most = most
        self.running = 0
        self.waiting: deque[asyncio.Future[bool]] = deque()

    def take(self) -> bool:
        """A place, if one is free and nobody waits for it."""
        if self.running >= self.most or self.waiting:
            return False
        self.running += 1
        return True

    async def wait(self, until: float) -> bool:
        """Whether there was a place by `until` (`loop.time()`); False for who is turned away, too.

        A waiter that is cancelled leaves the queue, and passes on a place that it was just given.
        """
        if self.take():
            return True
        if len(self.waiting) >= self._queue:
            return False
        place: asyncio.Future[bool] = self._clock.loop.create_future()
        self.waiting.append(place)
        try:
            with Bound(self._clock, until):
                return await place
        except TimeoutError:
            self._withdraw(place)
            return False
        except asyncio.CancelledError:
            self._withdraw(place)
            raise

    def leave(self) -> None:
        """Gives a place back, or straight to who waits longest."""
        while self.waiting:
            place = self.waiting.popleft()
            if not place.done():
                place.set_result(True)
                return
        self.running -= 1

    def turn_away(self) -> None:
        """All who wait get no place."""
        while self.waiting:
            place = self.waiting.popleft()
            if not place.done():
                place.set_result(False)

    def _withdraw(self, place: "asyncio.Future[bool]") -> None:
        if place.done() and not place.cancelled():
            if place.result():
                self.leave()
        elif place in self.waiting:
            self.waiting.remove(place)
