"""F: PostgreSQL stops, is black-holed, fails over, drops all connections. Cached tools still work; the rest fails at once."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any

from tests.faults.load import Client, Load, Outcome, counts, milliseconds, percentile
from tests.faults.proxy import Toxic
from tests.faults.report import Row
from tests.faults.rig import LivenessProbe, Rig, until

TITLE = "PostgreSQL stopped, black-holed, failed over, all connections dropped"

STALE = 12.0
"""AUTH_STALE_SECONDS here. Only two clocks run while PostgreSQL is unavailable: a cached key becomes stale
(KEY_CACHE_SECONDS, 1 s here and 60 s by default), and unusable (this, 900 s by default). Plans and credentials do not
expire. An outage between the two therefore covers what 15 minutes would."""
_SOON = 1.0
_READ_AGAIN = 2.5


async def run(rig: Rig) -> list[Row]:
    """Each kind of outage in turn, then a failover, a revocation, and an outage beyond AUTH_STALE_SECONDS."""
    await rig.use(AUTH_STALE_SECONDS=str(int(STALE)))
    await rig.register("f", rig.stub.url)
    for tool in ("f.read", "f.secure", "f.keyed"):
        await rig.warm(tool)
    stopped = (
        await _outage(rig, "stopped (immediate)", lambda: _stop(rig), rig.servers.primary.start)
        if rig.full
        else []
    )
    return [
        *stopped,
        *await _outage(rig, "black-holed", lambda: _black_hole(rig), rig.database.heal),
        await _dropped(rig),
        await _promoted(rig),
        await _revoked(rig),
        *([await _too_long(rig)] if rig.full else []),
    ]


async def _stop(rig: Rig) -> None:
    """`pg_ctl stop -m immediate`."""
    rig.servers.primary.signal(signal.SIGQUIT)
    await asyncio.to_thread(rig.servers.primary.child.process.wait)  # type: ignore[union-attr]


async def _black_hole(rig: Rig) -> None:
    rig.database.poison(Toxic("timeout", "up"))


async def _outage(
    rig: Rig, name: str, begin: Callable[[], Awaitable[Any]], end: Callable[[], Awaitable[Any]]
) -> list[Row]:
    seconds = STALE - 3 if rig.full else 3.0
    async with (
        rig.client() as client,
        LivenessProbe(rig) as probe,
        Load(client, _warm_calls, concurrency=4, pause=0.02) as load,
    ):
        await asyncio.sleep(0.3)
        await begin()
        began = time.monotonic()
        cold, writes = await _unavailable(rig)
        await asyncio.sleep(max(0.0, seconds - (time.monotonic() - began)))
        await end()
        back = await until(lambda: _writes(client, "back"), 15)
        # Keys are read again within a second or two; until then they are as old as the outage was long.
        await asyncio.sleep(_READ_AGAIN)
    slow = max(one.seconds for one in cold + writes)
    correct = all(one.status == 503 and one.retry_after for one in cold + writes)
    return [
        Row("F", f"PostgreSQL {name} for {seconds:.0f} s: cached tools, keys and credentials", "0 failed calls",
            f"{len(load.failed)} of {len(load.outcomes)} failed, p99 {milliseconds(percentile([one.seconds for one in load.outcomes], 0.99))}"
            + (f" ({counts(load.failed)})" if load.failed else ""), not load.failed),
        Row("F", f"PostgreSQL {name}: tools that are not cached, and writes", "503 with Retry-After within 1 s",
            f"{counts(cold + writes)}, slowest {milliseconds(slow)}", correct and slow <= _SOON + probe.slowest),
        Row("F", f"PostgreSQL {name}, then back: writes succeed", "within 5 s", f"after {back:.1f} s", back <= 5),
    ]  # fmt: skip


def _warm_calls(_worker: int, number: int) -> tuple[str, dict[str, Any]]:
    return ("f.read", "f.secure", "f.keyed")[number % 3], {"id": f"f{number}"}


async def _unavailable(rig: Rig) -> tuple[list[Outcome], list[Outcome]]:
    """Make calls of tools that no replica has cached, and writes, several at a time at each replica."""

    async def cold(replica: Any, index: int) -> Outcome:
        async with rig.client(replica.url) as client:
            return await client.call(f"f.cold{index}", {})

    async def write(replica: Any, index: int) -> Outcome:
        async with rig.client(replica.url) as client:
            began = time.monotonic()
            body = {"name": f"k{index}", "scopes": ["tools:call"]}
            status, response, headers = await client.request("POST", "/keys", json=body)
            slug = str(response.get("type", "")).rpartition(":")[2] if isinstance(response, dict) else ""
            retry = headers.get("retry-after", "")
            return Outcome("", "write", status, slug, time.monotonic() - began, retry_after=retry)

    tasks = [
        one(replica, index)
        for one in (cold, write)
        for replica in rig.replicas.all
        for index in range(4 if rig.full else 2)
    ]
    found = await asyncio.gather(*tasks)
    half = len(found) // 2
    return list(found[:half]), list(found[half:])


async def _writes(client: Client, name: str) -> bool:
    status, _, _ = await client.request("POST", "/keys", json={"name": name, "scopes": ["tools:call"]})
    return status == 201


async def _dropped(rig: Rig) -> Row:
    """Terminate every backend repeatedly."""
    async with rig.client() as client, Load(client, _warm_calls, concurrency=4, pause=0.02) as load:
        dropped = 0
        for _ in range(10 if rig.full else 3):
            dropped += await rig.servers.primary.terminate_all()
            await asyncio.sleep(0.4)
        back = await until(lambda: _writes(client, "dropped"), 15)
    return Row(
        "F", f"{dropped} backends ended with pg_terminate_backend", "0 failed calls; writes succeed within 5 s",
        f"{len(load.failed)} of {len(load.outcomes)} failed ({counts(load.failed)}); after {back:.1f} s", not load.failed and back <= 5,
    )  # fmt: skip


async def _promoted(rig: Rig) -> Row:
    """Kill the primary and promote the standby while keys are created, each name once."""
    servers = rig.servers
    await servers.begin_replication()
    made: list[tuple[str, int]] = []
    stop = asyncio.Event()
    async with rig.client() as client:

        async def write() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                name = f"promote-{number}"
                status, _, _ = await client.request(
                    "POST", "/keys", json={"name": name, "scopes": ["tools:call"]}
                )
                made.append((name, status))
                await asyncio.sleep(0.05)

        async with Load(client, _warm_calls, concurrency=4, pause=0.02) as load:
            writer = asyncio.create_task(write())
            await asyncio.sleep(0.7)
            await servers.primary.kill()
            killed = time.monotonic()
            await servers.standby.promote()
            await servers.swap()
            writable = await until(lambda: _writes(client, "promoted"), 20)
            lasted = time.monotonic() - killed
            await asyncio.sleep(0.5)
            stop.set()
            await writer
    stored = await servers.primary.query(
        "SELECT name, count(*) FROM keys WHERE name LIKE 'promote-%' GROUP BY name"
    )
    times = {row[0]: row[1] for row in stored}
    lost = [name for name, status in made if status == 201 and name not in times]
    twice = [name for name, number in times.items() if number > 1]
    errors = [status for _, status in made if status not in (201, 503)]
    # The old primary becomes the standby; its fault proxy still forwards to the same cluster.
    await servers.standby.follow(servers.primary)
    ok = not load.failed and not lost and not twice and not errors and writable < 20 and lasted <= 10
    return Row(
        "F", f"the primary is killed and the standby promoted, {len(made)} writes in progress",
        "0 failed calls of cached tools; write errors (503) for <= 10 s; 0 lost, 0 twice",
        f"{len(load.failed)} of {len(load.outcomes)} calls failed; writes again after {lasted:.1f} s; {len(lost)} lost,"
        f" {len(twice)} twice, {len(errors)} other errors {sorted(set(errors))}", ok,
    )  # fmt: skip


async def _revoked(rig: Rig) -> Row:
    """Revoke a key and measure when every replica rejects it."""
    async with rig.client() as client:
        status, made, _ = await client.request(
            "POST", "/keys", json={"name": "revoke", "scopes": ["tools:call"]}
        )
        assert status == 201, made
        for replica in rig.replicas.all:
            async with rig.client(replica.url, made["key"]) as agent:
                assert (await agent.call("f.read", {"id": "r"})).ok
        status, _, _ = await client.request("DELETE", f"/keys/{made['id']}")
        assert status == 204, status

    async def rejected() -> bool:
        found = []
        for replica in rig.replicas.all:
            async with rig.client(replica.url, made["key"]) as agent:
                found.append((await agent.call("f.read", {"id": "r"})).status)
        return found == [401] * 3

    seconds = await until(rejected, 10, every=0.05)
    return Row("F", "a key is revoked afterwards", "rejected by all replicas within 1 s (push feed)",
               f"after {seconds:.2f} s", seconds <= 1.2)  # fmt: skip


async def _too_long(rig: Rig) -> Row:
    """PostgreSQL is unavailable for longer than a cached key may be used."""
    await _black_hole_both(rig)
    began = time.monotonic()
    last_ok = 0.0
    async with rig.client(rig.replicas.all[0].url) as client:
        outcome = await client.call("f.read", {"id": "long"})
        while outcome.ok and time.monotonic() - began < STALE + 6:
            last_ok = time.monotonic() - began
            await asyncio.sleep(0.25)
            outcome = await client.call("f.read", {"id": "long"})
    await rig.database.heal()
    await rig.database_b.heal()
    in_time = STALE - 3 <= last_ok <= STALE + 2
    return Row(
        "F", f"PostgreSQL unavailable for longer than AUTH_STALE_SECONDS ({STALE:.0f} s)",
        "the key works until then, then 503, so that a revocation takes effect",
        f"worked for {last_ok:.1f} s, then {outcome.label}", in_time and outcome.slug == "unavailable",
    )  # fmt: skip


async def _black_hole_both(rig: Rig) -> None:
    for link in (rig.database, rig.database_b):
        link.poison(Toxic("timeout", "up"))
