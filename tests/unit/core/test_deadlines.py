"""Timers: what they hold, and when they let go of it."""

import asyncio
import gc
import weakref

from app.core.deadlines import Deadline, get_timer_queue


class Waiting:
    """Keeps the timer that would call it, as those do who set one."""

    def __init__(self, when):
        self.rung = False
        self.timer = get_timer_queue().call_at(when, self.ring)

    def ring(self):
        self.rung = True


async def test_timer_releases_its_owner_without_the_garbage_collector():
    gc.disable()
    try:
        loop = asyncio.get_running_loop()
        cancelled, rung = Waiting(loop.time() + 60), Waiting(loop.time())
        seen = [weakref.ref(cancelled), weakref.ref(rung)]
        cancelled.timer.cancel()
        await asyncio.sleep(0.01)
        assert (cancelled.rung, rung.rung) == (False, True)
        del cancelled, rung
        assert [one() for one in seen] == [None, None]
    finally:
        gc.enable()


async def test_one_timer_may_cancel_another_that_is_due():
    loop = asyncio.get_running_loop()
    called = []
    second = get_timer_queue().call_at(loop.time() + 0.002, lambda: called.append("second"))
    get_timer_queue().call_at(loop.time() + 0.001, second.cancel)
    await asyncio.sleep(0)
    # Both are due when the loop comes to look.
    while loop.time() < second.when + 0.002:
        pass
    await asyncio.sleep(0.01)
    assert called == []
    assert len(get_timer_queue()) == 0


async def test_deadline_leaves_no_timer_behind():
    loop = asyncio.get_running_loop()
    with Deadline(get_timer_queue(), loop.time() + 60):
        assert len(get_timer_queue()) == 1
    assert len(get_timer_queue()) == 0
