"""Background tasks end when they are told to."""

import asyncio
import contextlib

import pytest

from app.background import cancel_tasks


async def test_a_task_that_lost_its_cancellation_is_cancelled_again() -> None:
    rounds = 0

    async def loses_one() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            # As `asyncio.wait_for` of Python 3.11 where what it waits for is done at that moment.
            with contextlib.suppress(asyncio.CancelledError) if rounds == 1 else contextlib.nullcontext():
                await asyncio.sleep(60)

    tasks = [asyncio.create_task(loses_one())]
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await cancel_tasks(tasks)
    assert (rounds, tasks) == (2, [])


async def test_what_a_task_raised_is_raised() -> None:
    async def fails() -> None:
        raise ValueError("it failed")

    tasks = [asyncio.create_task(fails())]
    await asyncio.sleep(0)
    with pytest.raises(ValueError, match="it failed"):
        await cancel_tasks(tasks)
    assert tasks == []
