"""Each background task of a worker ends by one cancellation, at whatever moment it comes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import CoroutineType
from typing import Any

import pytest

from app.calls.log.record_feed import RecordSubscription
from app.core.settings import Settings
from app.security.vault import KeyRing
from tests.harness.application import Application, run_application
from tests.harness.cancelling import begin_again, end_by_one_cancellation, find_coroutine
from tests.harness.mcp_requests import CAPABILITIES_KEY, MODERN, VERSION_KEY
from tests.harness.semantic_models import write_model

TIMES = 200
# On a busy machine some of them may be late.
LATE = TIMES // 20
ON_START = {
    "approvals-sweep",
    "call-partitions",
    "call-records",
    "change-feed-listen",
    "change-feed-poll",
    "credentials-last-used",
    "idempotency-sweep",
    "key-expiry",
    "keys-last-used",
    "recordings-sweep",
    "search-usage",
    "search-vectors",
    "search-vectors-process",
    "sessions-last-used",
    "sessions-sweep",
}
# They wait for one event, at which they end what they watch.
WATCHES = {"DisconnectWatch._watch", "StreamRegistry._end_all"}
ON_DEMAND = {
    *WATCHES,
    "WorkerRelay._read",
    "WorkerRelay._renew_always",
    "record-feed",
    "read_records",
    "wait_until_denied",
}
SUBSCRIPTION = "ListenResponse._run"
# Those of the applications that other modules use.
EXISTING: set["asyncio.Task[Any]"] = set()
OTHERS = {
    "LifespanOn.main",
    "RequestResponseCycle.run_asgi",
    "Server.serve",
    "TimeLimits._limited",
    "test_each_background_task_ends_by_one_cancellation",
}


def name_of(task: "asyncio.Task[Any]") -> str:
    """Return the name that the application gave a task, else that of its coroutine."""
    name = task.get_name()
    return task.get_coro().__qualname__ if name.startswith("Task-") else name


async def find_background(names: set[str]) -> dict[str, "CoroutineType[Any, Any, Any]"]:
    """Return the coroutines of the running tasks by name. These must be the names, once what ends by itself has ended."""
    for _ in range(200):
        running = {name_of(task): task.get_coro() for task in asyncio.all_tasks() - EXISTING}
        if running.keys() - OTHERS == names:
            break
        await asyncio.sleep(0.02)
    assert running.keys() - OTHERS == names
    return {name: running[name] for name in names}


async def read_records(subscription: "RecordSubscription[Any]") -> None:
    """Take records as a stream does."""
    while True:
        await subscription.take(seconds=60)


@asynccontextmanager
async def listening(application: Application) -> AsyncIterator[None]:
    """Subscribe to the changes of the list of tools."""
    client = await application.client("tools:read")
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "subscriptions/listen",
        "params": {
            "notifications": {"toolsListChanged": True},
            "_meta": {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}},
        },
    }
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "subscriptions/listen",
    }
    async with client.stream("POST", "/mcp", json=body, headers=headers) as response:
        assert response.status_code == 200
        # The acknowledgement comes before it waits for changes.
        lines = response.aiter_lines()
        await anext(lines)
        yield
        await lines.aclose()


@pytest.fixture
async def application(database_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[Application]:
    settings = Settings(
        _env_file=None,
        database_url=database_url,
        redis_url=redis_url,
        sealing_keys=KeyRing.generate("test"),
        semantic_model_dir=write_model(tmp_path / "model"),
        data_dir=tmp_path / "data",
        log_level="error",
    )
    EXISTING.update(asyncio.all_tasks())
    async with run_application(settings) as running:
        yield running
    EXISTING.clear()


@pytest.mark.time_limit(90)
async def test_each_background_task_ends_by_one_cancellation(application: Application) -> None:
    services = application.services
    await services.search.wait_loaded()
    await services.conditions.wait()
    await find_background(ON_START)
    async with AsyncExitStack() as stack:
        await services.commands.follow_workers()
        records = await stack.enter_async_context(services.call_feed.subscribe())
        reading = asyncio.create_task(read_records(records))
        stack.callback(reading.cancel)
        await stack.enter_async_context(listening(application))
        background = await find_background(ON_START | ON_DEMAND)
        streams = [find_coroutine(task, SUBSCRIPTION) for task in asyncio.all_tasks() - EXISTING]
        background[SUBSCRIPTION] = next(stream for stream in streams if stream is not None)
        failures = await asyncio.gather(*(cancel_often(*item) for item in background.items()))
    assert [failure for failure in failures if failure] == []


async def cancel_often(name: str, coroutine: "CoroutineType[Any, Any, Any]") -> str:
    """Begin a background task and end it, 200 times; return what is wrong, "" where nothing is."""
    seconds = []
    for number in range(TIMES):
        task = asyncio.create_task(begin_again(coroutine), name=f"{name}, cancelled")
        try:
            seconds.append(await end_by_one_cancellation(task, number % 2 if name in WATCHES else number))
        except AssertionError as error:
            return f"{name}, {number}: {error}"
    late = sorted(seconds)[-LATE]
    return f"{name}: it takes {late:.1f} s" if late > 1 else ""
