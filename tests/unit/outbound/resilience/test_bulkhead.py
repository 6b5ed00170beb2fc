"""Places are never lost and never given twice, whoever comes, leaves, is cancelled or waits too long."""

import asyncio
import gc
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from app.core.deadlines import TimerQueue, get_timer_queue
from app.core.errors import CircuitOpen, OriginBusy
from app.outbound.resilience import AttemptOutcome, OriginPolicy, Origins
from tests.harness.examples import examples

TENANT = UUID(int=1)


def origin(**policy):
    return Origins(get_timer_queue()).get(TENANT, "https://a.example", b"", OriginPolicy(**policy))


async def entered(one, deadline=1e9):
    return one.try_acquire() or await one.acquire(deadline)


async def test_who_comes_first_is_first():
    one = origin(concurrency=1, max_queued=10, queue_timeout=5)
    order = []
    first = await entered(one)

    async def call(number):
        permit = await entered(one)
        order.append(number)
        one.release(permit)

    tasks = [asyncio.create_task(call(number)) for number in range(5)]
    await asyncio.sleep(0)
    # Who comes now must not overtake those who wait, even at the moment at which a place becomes free.
    one.release(first)
    assert one.try_acquire() == 0
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4]
    assert (one.bulkhead.running, len(one.bulkhead.waiting)) == (0, 0)


@pytest.mark.parametrize(("queue_timeout", "deadline"), [(0.05, 600), (600, 0.05)])
async def test_waiting_ends_with_the_queue_timeout_or_the_deadline(queue_timeout, deadline):
    one = origin(concurrency=1, max_queued=10, queue_timeout=queue_timeout)
    await entered(one)
    # The other limit is ten minutes.
    async with asyncio.timeout(60):
        with pytest.raises(OriginBusy):
            await entered(one, asyncio.get_running_loop().time() + deadline)
    assert (one.rejected_busy, len(one.bulkhead.waiting), one.bulkhead.running) == (1, 0, 1)


async def test_a_full_queue_rejects_at_once():
    one = origin(concurrency=1, max_queued=1, queue_timeout=30)
    await entered(one)
    waiter = asyncio.create_task(entered(one))
    await asyncio.sleep(0)
    with pytest.raises(OriginBusy) as refused:
        await entered(one)
    assert refused.value.headers["Retry-After"] == "1"
    waiter.cancel()
    await asyncio.wait([waiter])


async def test_those_who_wait_are_rejected_when_the_breaker_opens():
    one = origin(concurrency=1, max_queued=10, queue_timeout=30, failure_threshold=1)
    permit = await entered(one)
    waiting = [asyncio.create_task(entered(one)) for _ in range(3)]
    await asyncio.sleep(0)
    one.record_failure(permit, AttemptOutcome.FAILURE)
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(error) for error in done] == [CircuitOpen] * 3
    one.release(permit)
    assert (one.bulkhead.running, one.rejected_open) == (0, 3)


async def test_nobody_waits_for_a_place_to_probe():
    one = origin(
        concurrency=1, max_queued=10, queue_timeout=30, failure_threshold=1, open_seconds=0.01, open_max=0.01
    )
    hanging = await entered(one)
    one.record_failure(hanging, AttemptOutcome.FAILURE)
    await asyncio.sleep(0.05)
    with pytest.raises(CircuitOpen):
        await entered(one)
    one.release(hanging)
    probe = await entered(one)
    with pytest.raises(CircuitOpen):
        await entered(one)
    one.record_success(probe)
    one.release(probe)
    assert one.try_acquire()


async def test_an_origin_is_remembered_while_it_is_used_or_recent():
    origins = Origins(get_timer_queue(), capacity=2)
    held = origins.get(TENANT, "https://held.example", b"", OriginPolicy())
    for number in range(5):
        origins.get(TENANT, f"https://{number}.example", b"", OriginPolicy())
    assert origins.get(TENANT, "https://held.example", b"", OriginPolicy()) is held
    gc.collect()
    assert len(origins) == 2
    others = [
        origins.get(UUID(int=2), "https://held.example", b"", OriginPolicy()),
        origins.get(TENANT, "https://held.example", b"proxy", OriginPolicy()),
        origins.get(TENANT, "https://held.example", b"", OriginPolicy(concurrency=5)),
    ]
    assert len({id(one) for one in (held, *others)}) == 4


class Places(RuleBasedStateMachine):
    """Tasks that want a place, leave, and are cancelled at any turn of the loop."""

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        clock = TimerQueue(self.loop)
        self.origin = Origins(clock).get(
            TENANT, "https://a.example", b"", OriginPolicy(concurrency=2, max_queued=3)
        )
        self.tasks = []
        self.inside = {}
        self.number = 0

    async def _call(self, number):
        permit = await entered(self.origin)
        self.inside[number] = self.loop.create_future()
        try:
            await self.inside[number]
        finally:
            del self.inside[number]
            self.origin.release(permit)

    @rule()
    def arrive(self):
        self.number += 1
        self.tasks.append(self.loop.create_task(self._call(self.number)))

    @precondition(lambda self: self.inside)
    @rule(index=st.integers(0, 10))
    def finish(self, index):
        done = list(self.inside.values())[index % len(self.inside)]
        if not done.done():
            done.set_result(None)

    @precondition(lambda self: self.tasks)
    @rule(index=st.integers(0, 30))
    def cancel(self, index):
        self.tasks[index % len(self.tasks)].cancel()

    @rule()
    def turn(self):
        self.loop.run_until_complete(asyncio.sleep(0))

    @invariant()
    def no_place_is_given_twice(self):
        assert len(self.inside) <= self.origin.bulkhead.running <= 2

    def teardown(self):
        for _ in range(200):
            for done in list(self.inside.values()):
                if not done.done():
                    done.set_result(None)
            self.loop.run_until_complete(asyncio.sleep(0))
            if all(task.done() for task in self.tasks):
                break
        for task in self.tasks:
            assert task.done()
            if not task.cancelled():
                assert task.exception() is None or isinstance(task.exception(), OriginBusy)
        bulkhead = self.origin.bulkhead
        assert (bulkhead.running, len(bulkhead.waiting)) == (0, 0), "every place came back"
        self.loop.close()


TestPlaces = Places.TestCase
TestPlaces.settings = settings(examples(40), stateful_step_count=40)
