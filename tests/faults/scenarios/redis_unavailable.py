"""E: Redis refuses connections, is black-holed, frozen or flushed. No call fails because of it, and it is used again soon after."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from tests.faults.load import Client, Load, counts, milliseconds, percentile
from tests.faults.proxy import Toxic
from tests.faults.report import Row
from tests.faults.rig import Rig, until

TITLE = "Redis unreachable, black-holed, frozen, flushed"

Step = Callable[[], Awaitable[Any]]
_LONGEST_ADDED = 0.15
"""One command's timeout (REDIS_TIMEOUT, 0.1 s) and a margin for a busy machine: after it Redis is not used for a while."""


async def run(rig: Rig) -> list[Row]:
    """Calls without and with a token during each kind of outage, and a token that must be fetched meanwhile."""
    await rig.use()
    await rig.register("e", rig.stub.url)
    await rig.warm("e.secure")
    redis = rig.servers.redis

    async def freeze() -> None:
        redis.signal(signal.SIGSTOP)

    async def thaw() -> None:
        redis.signal(signal.SIGCONT)

    async def black_hole() -> None:
        rig.redis.poison(Toxic("timeout", "up"))

    async def flush() -> None:
        await _flushall(redis.url)

    async def nothing() -> None:
        pass

    rows = []
    faults: list[tuple[str, Step, Step]] = [
        ("unreachable (connections refused and reset)", rig.redis.cut, rig.redis.heal),
        ("black-holed", black_hole, rig.redis.heal),
        ("frozen (SIGSTOP)", freeze, thaw),
        ("FLUSHALL", flush, nothing),
    ]
    for number, (name, begin, end) in enumerate(faults if rig.full else faults[::2]):
        rows.append(await _one(rig, f"cold{number}", name, begin, end))
    return rows


async def _one(rig: Rig, cold: str, name: str, begin: Step, end: Step) -> Row:
    # The breaker retries every three seconds, so that twenty seconds cover several cycles.
    seconds = 20.0 if rig.full else 1.5
    await rig.register(cold, rig.stub.url)
    await rig.warm(f"{cold}.read")
    async with rig.client() as client:

        def make(_worker: int, number: int) -> tuple[str, dict[str, Any]]:
            # Every tenth call of the first second needs a token that no replica has.
            return ("e.read", "e.secure", f"{cold}.secure")[number % 3], {"id": f"{cold}-{number}"}

        async with Load(client, make, concurrency=4, pause=0.01) as before:
            await asyncio.sleep(min(seconds, 3.0))
        await begin()
        async with Load(client, make, concurrency=4, pause=0.01) as during:
            await asyncio.sleep(seconds)
        await end()
        recovered = await until(lambda: _used_again(rig), 10)
        async with Load(client, make, concurrency=4, calls=30) as after:
            await after.finished()
    added = percentile([one.seconds for one in during.outcomes], 0.99) - percentile(
        [one.seconds for one in before.outcomes], 0.99
    )
    failed = len(during.failed) + len(after.failed)
    return Row(
        "E", f"Redis {name} for {seconds:.0f} s under load", "0 failed calls; used again within 5 s",
        f"{failed} of {len(during.outcomes) + len(after.outcomes)} calls failed; p99 {milliseconds(max(0, added))} more;"
        f" used again after {recovered:.1f} s" + (f" ({counts(during.failed + after.failed)})" if failed else ""),
        failed == 0 and recovered <= 5,
    )  # fmt: skip


async def _used_again(rig: Rig) -> bool:
    """Return whether all replicas report that Redis is available."""
    responses = []
    for replica in rig.replicas.all:
        async with Client(replica.url, rig.replicas.key) as client:
            responses.append(await client.request("GET", "/health/ready"))
    return all(status == 200 and body.get("redis") == "ok" for status, body, _ in responses)


async def _flushall(url: str) -> None:
    reader, writer = await asyncio.open_unix_connection(url.removeprefix("unix://"))
    writer.write(b"FLUSHALL\r\n")
    await reader.readline()
    writer.close()
