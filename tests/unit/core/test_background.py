"""Background tasks end when they are told to."""

import asyncio

import pytest

from app.core.background import cancel_tasks


async def test_a_task_that_cleans_up_is_cancelled_once_and_waited_for() -> None:
    steps = []

    async def cleans_up() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            steps.append("cancelled")
            await asyncio.sleep(0.01)
            steps.append("cleaned up")
            raise

    tasks = [asyncio.create_task(cleans_up())]
    await asyncio.sleep(0)
    await cancel_tasks(tasks)
    assert (steps, tasks) == (["cancelled", "cleaned up"], [])


async def test_what_a_task_raised_is_raised() -> None:
    async def fails() -> None:
        raise ValueError("it failed")

    tasks = [asyncio.create_task(fails())]
    await asyncio.sleep(0)
    with pytest.raises(ValueError, match="it failed"):
        await cancel_tasks(tasks)
    assert tasks == []
