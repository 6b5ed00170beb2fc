"""E: Redis refuses, swallows, freezes, forgets. No call may fail for it, and it is used again soon after."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from tests.faults.load import Caller, Load, counted, milliseconds, percentile
from tests.faults.proxy import Toxic
from tests.faults.report import Row
from tests.faults.rig import Rig, until

TITLE = "Redis refused, black-holed, frozen, flushed"

Step = Callable[[], Awaitable[Any]]
_LONGEST_ADDED = 0.15
"""One command's time-out (REDIS_TIMEOUT, 0.1 s) and what a busy machine adds: after it Redis is left alone."""


async def run(rig: Rig) -> list[Row]:
    """Calls without and with a token while Redis is away in each way, and a token that must be fetched meanwhile."""
    await rig.use()
    await rig.register("e", rig.stub.url)
    await rig.warm("e.secure")
    redis = rig.servers.redis

    async def freeze() -> None:
        redis.signal(signal.SIGSTOP)

    async def thaw() -> None:
        redis.signal(signal.SIGCONT)

    async def swallow() -> None:
        rig.redis.poison(Toxic("timeout", "up"))

    async def flush() -> None:
        await _flushall(redis.url)

    async def nothing() -> None:
        pass

    rows = []
    faults: list[tuple[str, Step, Step]] = [
        ("refused, open connections reset", rig.redis.cut, rig.redis.heal),
        ("black-holed", swallow, rig.redis.heal),
        ("frozen (SIGSTOP)", freeze, thaw),
        ("FLUSHALL", flush, nothing),
    ]
    for number, (name, begin, end) in enumerate(faults if rig.full else faults[::2]):
        rows.append(await _one(rig, f"cold{number}", name, begin, end))
    return rows


async def _one(rig: Rig, cold: str, name: str, begin: Step, end: Step) -> Row:
    # The breaker tries again every three seconds: what twenty show, a minute shows.
    seconds = 20.0 if rig.full else 1.5
    await rig.register(cold, rig.stub.url)
    await rig.warm(f"{cold}.read")
    async with rig.caller() as caller:

        def make(_worker: int, number: int) -> tuple[str, dict[str, Any]]:
            # Every tenth call of the first second needs a token that no replica has.
            return ("e.read", "e.secure", f"{cold}.secure")[number % 3], {"id": f"{cold}-{number}"}

        async with Load(caller, make, concurrency=4, pause=0.01) as before:
            await asyncio.sleep(min(seconds, 3.0))
        await begin()
        async with Load(caller, make, concurrency=4, pause=0.01) as during:
            await asyncio.sleep(seconds)
        await end()
        recovered = await until(lambda: _used_again(rig), 10)
        async with Load(caller, make, concurrency=4, calls=30) as after:
            await after.finished()
    added = percentile([one.seconds for one in during.outcomes], 0.99) - percentile(
        [one.seconds for one in before.outcomes], 0.99
    )
    failed = len(during.failed) + len(after.failed)
    return Row(
        "E", f"Redis {name} for {seconds:.0f} s under load", "0 failed calls; used again within 5 s",
        f"{failed} of {len(during.outcomes) + len(after.outcomes)} calls failed; p99 {milliseconds(max(0, added))} more;"
        f" used again after {recovered:.1f} s" + (f" ({counted(during.failed + after.failed)})" if failed else ""),
        failed == 0 and recovered <= 5,
    )  # fmt: skip


async def _used_again(rig: Rig) -> bool:
    """All replicas say that Redis is there."""
    answers = []
    for replica in rig.replicas.all:
        async with Caller(replica.url, rig.replicas.key) as caller:
            answers.append(await caller.request("GET", "/health/ready"))
    return all(status == 200 and body.get("redis") == "ok" for status, body, _ in answers)


async def _flushall(url: str) -> None:
    reader, writer = await asyncio.open_unix_connection(url.removeprefix("unix://"))
    writer.write(b"FLUSHALL\r\n")
    await reader.readline()
    writer.close()
