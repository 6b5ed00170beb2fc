"""M: thousands of clients disconnect during their call; every pool is at its baseline afterwards."""

import asyncio
import random
from typing import Any

from tests.faults.load import Load
from tests.faults.report import Row
from tests.faults.rig import Rig, until

TITLE = "cancelled calls"
_ACTIVITY = (
    "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
)
_BUSY = (
    "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    " AND pid <> pg_backend_pid() AND state <> 'idle'"
)


async def run(rig: Rig) -> list[Row]:
    """Calls of known and unknown tools, with and without a token; then the pools are measured."""
    await rig.use()
    number = 5_000 if rig.full else 300
    await rig.register("m", rig.stub.url, writers=1)
    await rig.warm("m.secure")
    # Fill the pools with as many connections as the load will use at once.
    async with (
        rig.client() as client,
        Load(
            client, lambda _worker, index: ("m.read", {"id": f"mw{index}"}), concurrency=30, calls=300
        ) as warm,
    ):
        await warm.finished()
    before = await _baseline(rig)
    limit = asyncio.Semaphore(60)

    async def one(index: int) -> None:
        async with limit:
            await _disconnect(rig, index)

    await asyncio.gather(*(one(index) for index in range(number)))
    seconds = await until(lambda: _at_baseline(rig, before), 20, every=0.3)
    after = await _baseline(rig)
    async with (
        rig.client() as client,
        Load(
            client, lambda _worker, index: ("m.secure", {"id": f"m{index}"}), concurrency=20, calls=200
        ) as load,
    ):
        await load.finished()
    row = Row(
        "M", f"{number} clients disconnected during their call",
        "descriptors, PostgreSQL and Redis connections, calls in progress at their baseline; the next calls succeed",
        f"{before} -> {after} after {seconds:.1f} s; {len(load.failed)} of {len(load.outcomes)} next calls failed",
        seconds < 20 and not load.failed,
    )  # fmt: skip
    return [row]


async def _disconnect(rig: Rig, index: int) -> None:
    """Send a call and close the connection within 50 ms; the upstream would respond after a second."""
    replica = rig.replicas.all[index % 3]
    # Every eighth tool is unknown, so that some disconnect during a query of PostgreSQL.
    tool, body = ("m.nope", b"{}") if index % 8 == 0 else ("m.secure", b'{"wait": 1}')
    _, writer = await asyncio.open_connection("127.0.0.1", replica.port)
    head = (
        f"POST /tools/{tool}/call HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {rig.replicas.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await asyncio.sleep(random.random() * 0.05)
    if index % 2:
        writer.transport.abort()
    else:
        writer.close()


async def _baseline(rig: Rig) -> dict[str, Any]:
    clients = await _redis_clients(rig)
    rows = await rig.servers.primary.query(_ACTIVITY)
    return {
        "fds": [replica.descriptors() for replica in rig.replicas.all],
        "pg": rows[0][0],
        "redis": clients,
    }


async def _at_baseline(rig: Rig, before: dict[str, Any]) -> bool:
    now = await _baseline(rig)
    busy = (await rig.servers.primary.query(_BUSY))[0][0]
    in_flight = 0.0
    for replica in rig.replicas.all:
        in_flight += await rig.metric(replica, "utcp_gateway_calls_in_flight")
    pool = 5 * 3 + 3  # DATABASE_POOL_SIZE and the listener, for three replicas
    return (
        in_flight == 0 and busy <= 1 and now["pg"] <= max(pool, before["pg"]) and now["redis"] <= before["redis"] + 3
        and all(new <= old + 8 for new, old in zip(now["fds"], before["fds"], strict=True))
    )  # fmt: skip


async def _redis_clients(rig: Rig) -> int:
    reader, writer = await asyncio.open_unix_connection(rig.servers.redis.socket)
    writer.write(b"CLIENT LIST\r\n")
    length = int((await reader.readline())[1:])
    text = await reader.readexactly(length + 2)
    writer.close()
    return len(text.decode().strip().splitlines()) - 1
