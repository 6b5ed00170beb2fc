"""S: made-up keys without a pause. Keys that nobody has used yet are served, revocations take effect, PostgreSQL is spared."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.faults.load import Outcome, counted, milliseconds
from tests.faults.report import Row
from tests.faults.rig import Pulse, Rig

TITLE = "made-up keys by the hundred"
_COLD = 30
_SOON = 1.0
_PER_REPLICA = 60.0
"""Transactions a second that PostgreSQL may see of an attacked replica: 40 statements for strangers, each with a check of its
connection where that was idle, would be 80; what is left of the look-ups of known keys and of polls is little."""


@dataclass(slots=True)
class Attack:
    """What the hammer got."""

    statuses: dict[str, int] = field(default_factory=dict)
    delayed: int = 0
    seconds: float = 0.0
    transactions: float = 0.0
    """A second, of the whole database."""


async def run(rig: Rig) -> list[Row]:
    """Straight at one replica and through nginx; from one address and from many; ids that exist and ids that do not."""
    await rig.use()
    await rig.register("s", rig.stub.url)
    await rig.warm("s.read")
    direct, nginx = rig.replicas.all[0].url, rig.url
    rows = await _attacked(rig, "straight at a replica, from one address", direct, connections=300)
    if not rig.full:
        return rows
    rows += await _attacked(rig, "through nginx, from one address", nginx, connections=300)
    rows += await _attacked(
        rig, "straight at a replica, from 300 addresses", direct, connections=300, addresses=300
    )
    rows += await _attacked(rig, "through nginx, from 300 addresses", nginx, connections=300, addresses=300)
    rows += await _attacked(rig, "straight at a replica, from one address", direct, connections=1000)
    rows += await _attacked(
        rig, "straight at a replica, from 1000 addresses", direct, connections=1000, addresses=1000
    )
    rows += await _attacked(
        rig, "the id of a key that exists, straight at a replica", direct, connections=300, real=True
    )
    rows += await _attacked(
        rig, "the id of a key that exists, through nginx", nginx, connections=300, real=True
    )
    return rows


async def _attacked(
    rig: Rig, name: str, url: str, *, connections: int, addresses: int = 0, real: bool = False
) -> list[Row]:
    """Half of the keys existed before, half are created at another replica meanwhile and used at once."""
    cold = _COLD if rig.full else _COLD // 3
    keys = [await _created(rig) for _ in range(cold // 2)]
    # A key that every replica remembers when the attack begins.
    revoked = await _created(rig)
    for replica in rig.replicas.all:
        async with rig.caller(replica.url, revoked["key"]) as caller:
            assert (await caller.call("s.read", {"id": "r"})).ok
    key_id = (await _created(rig))["id"] if real else ""
    outcomes: list[Outcome] = []
    async with (
        Pulse(rig) as pulse,
        _hammer(rig, url, connections=connections, addresses=addresses, key_id=key_id) as attack,
    ):
        await asyncio.sleep(2 if rig.full else 1)
        for number in range(cold):
            key = keys[number] if number < len(keys) else await _created(rig)
            async with rig.caller(url, key["key"]) as caller:
                outcomes.append(await caller.call("s.read", {"id": f"s{number}"}))
        seconds = await _revoked(rig, url, revoked)
    slow = max(one.seconds for one in outcomes)
    # As late as /health/live is at the same moments, which waits for nothing but the machine.
    soon = _SOON + pulse.slack
    failed = [one for one in outcomes if not one.ok]
    replicas = 1 if url == rig.replicas.all[0].url else len(rig.replicas.all)
    said = ", ".join(f"{number} {status}" for status, number in sorted(attack.statuses.items()))
    rate = sum(attack.statuses.values()) / attack.seconds
    # Those of the other replicas, which poll and read keys again each second.
    most = _PER_REPLICA * replicas + 20 * len(rig.replicas.all)
    attempt = f"{connections} connections with made-up keys, {name}"
    return [
        Row("S", f"{attempt}: {cold} keys that no replica has seen, half of them created meanwhile",
            f"{cold} served within {_SOON:.0f} s",
            f"{counted(outcomes)}, slowest {milliseconds(slow)} (/health/live: {milliseconds(pulse.slack)})", not failed and slow <= soon),
        Row("S", "the same: a key that all replicas remember is revoked", "rejected by all within 1 s (push feed)",
            f"the last call with it began {seconds:.2f} s later", seconds <= 1 + pulse.slack),
        Row("S", "the same: what the made-up keys got", f"401, nothing else; <= {most:.0f} transactions a second in PostgreSQL",
            f"{said} ({attack.delayed} with Retry-After, {rate:.0f} a second); {attack.transactions:.0f} transactions a second",
            set(attack.statuses) == {"401"} and attack.transactions <= most),
    ]  # fmt: skip


async def _created(rig: Rig) -> dict[str, Any]:
    """A new key; made at the last replica, which nobody attacks where one is attacked alone."""
    async with rig.caller(rig.replicas.all[-1].url) as caller:
        body = {"name": "stranger", "scopes": ["tools:call"]}
        status, made, _ = await caller.request("POST", "/keys", json=body)
    assert status == 201, (status, made)
    return dict(made)


async def _revoked(rig: Rig, url: str, key: dict[str, Any]) -> float:
    """Seconds from the response to a revocation to the beginning of the last call that the key could make all the same, at the
    replica that is attacked, or at any.
    """
    for replica in rig.replicas.all:
        async with rig.caller(replica.url, key["key"]) as caller:
            accepted = await caller.call("s.read", {"id": "r"})
            assert accepted.ok, accepted.word
    async with rig.caller(rig.replicas.all[-1].url) as caller:
        status, _, _ = await caller.request("DELETE", f"/keys/{key['id']}")
        assert status == 204, status
    began = time.monotonic()

    async def last(one: str) -> float:
        found = 0.0
        async with rig.caller(one, key["key"]) as caller:
            while (asked := time.monotonic() - began) < 15:
                if (await caller.call("s.read", {"id": "r"})).status == 401:
                    break
                found = asked
                await asyncio.sleep(0.02)
        return found

    direct = url == rig.replicas.all[0].url
    return max(
        await asyncio.gather(*(last(one) for one in ([url] if direct else [r.url for r in rig.replicas.all])))
    )


async def _transactions(rig: Rig) -> int:
    rows = await rig.servers.primary.query(
        "SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database WHERE datname = 'gateway'",
        name="postgres",
    )
    return int(rows[0][0])


@asynccontextmanager
async def _hammer(
    rig: Rig, url: str, *, connections: int, addresses: int, key_id: str
) -> AsyncIterator[Attack]:
    """The attack, while the block runs."""
    parts = urlsplit(url)
    order = {
        "host": parts.hostname, "port": parts.port, "connections": connections, "addresses": addresses, "key_id": key_id,
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.faults.hammer", json.dumps(order), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    found = Attack()
    try:
        assert await process.stdout.readline() == b"begun\n"
        before, began = await _transactions(rig), time.monotonic()
        yield found
        # PostgreSQL tells what a session did up to a second later.
        await asyncio.sleep(1)
        found.transactions = (await _transactions(rig) - before) / (time.monotonic() - began)
    finally:
        process.terminate()
        out, _ = await process.communicate()
    said = json.loads(out)
    found.statuses, found.delayed, found.seconds = said["statuses"], said["delayed"], said["seconds"]
