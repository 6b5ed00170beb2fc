"""S: a load of invalid keys. New keys are served, revocations take effect, and the load on PostgreSQL is limited."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.faults.load import Outcome, counts, milliseconds
from tests.faults.report import Row
from tests.faults.rig import LivenessProbe, Rig

TITLE = "a load of invalid keys"
_COLD = 30
_SOON = 1.0
_PER_REPLICA = 60.0
"""Limit of transactions a second in PostgreSQL for each attacked replica: 40 statements for invalid keys, each with a check
of its connection where that was idle, would be 80; look-ups of known keys and polls add little."""


@dataclass(slots=True)
class Attack:
    """The responses to invalid keys."""

    statuses: dict[str, int] = field(default_factory=dict)
    delayed: int = 0
    seconds: float = 0.0
    transactions: float = 0.0
    """Transactions a second of the whole database."""


async def run(rig: Rig) -> list[Row]:
    """Directly to one replica and through nginx; from one address and from many; ids that exist and ids that do not."""
    await rig.use()
    await rig.register("s", rig.stub.url)
    await rig.warm("s.read")
    direct, nginx = rig.replicas.all[0].url, rig.url
    rows = await _attacked(rig, "directly to a replica, from one address", direct, connections=300)
    if not rig.full:
        return rows
    rows += await _attacked(rig, "through nginx, from one address", nginx, connections=300)
    rows += await _attacked(
        rig, "directly to a replica, from 300 addresses", direct, connections=300, addresses=300
    )
    rows += await _attacked(rig, "through nginx, from 300 addresses", nginx, connections=300, addresses=300)
    rows += await _attacked(rig, "directly to a replica, from one address", direct, connections=1000)
    rows += await _attacked(
        rig, "directly to a replica, from 1000 addresses", direct, connections=1000, addresses=1000
    )
    rows += await _attacked(
        rig, "the id of a key that exists, directly to a replica", direct, connections=300, real=True
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
    # A key that every replica has cached when the attack begins.
    revoked = await _created(rig)
    for replica in rig.replicas.all:
        async with rig.client(replica.url, revoked["key"]) as client:
            assert (await client.call("s.read", {"id": "r"})).ok
    key_id = (await _created(rig))["id"] if real else ""
    outcomes: list[Outcome] = []
    async with (
        LivenessProbe(rig) as probe,
        _hammer(rig, url, connections=connections, addresses=addresses, key_id=key_id) as attack,
    ):
        await asyncio.sleep(2 if rig.full else 1)
        for number in range(cold):
            key = keys[number] if number < len(keys) else await _created(rig)
            async with rig.client(url, key["key"]) as client:
                outcomes.append(await client.call("s.read", {"id": f"s{number}"}))
        seconds = await _revoked(rig, url, revoked)
    slow = max(one.seconds for one in outcomes)
    # Extended by the slowest response of /health/live in the same time, which depends on no server.
    soon = _SOON + probe.slowest
    failed = [one for one in outcomes if not one.ok]
    replicas = 1 if url == rig.replicas.all[0].url else len(rig.replicas.all)
    statuses = ", ".join(f"{number} {status}" for status, number in sorted(attack.statuses.items()))
    rate = sum(attack.statuses.values()) / attack.seconds
    # And those of all replicas, which poll and read keys again each second.
    limit = _PER_REPLICA * replicas + 20 * len(rig.replicas.all)
    attempt = f"{connections} connections with invalid keys, {name}"
    return [
        Row("S", f"{attempt}: {cold} keys that no replica has cached, half of them created meanwhile",
            f"{cold} served within {_SOON:.0f} s",
            f"{counts(outcomes)}, slowest {milliseconds(slow)} (/health/live: {milliseconds(probe.slowest)})", not failed and slow <= soon),
        Row("S", "the same: a key that all replicas have cached is revoked", "rejected by all within 1 s (push feed)",
            f"the last call with it began {seconds:.2f} s later", seconds <= 1 + probe.slowest),
        Row("S", "the same: responses to the invalid keys", f"401, nothing else; <= {limit:.0f} transactions a second in PostgreSQL",
            f"{statuses} ({attack.delayed} with Retry-After, {rate:.0f} a second); {attack.transactions:.0f} transactions a second",
            set(attack.statuses) == {"401"} and attack.transactions <= limit),
    ]  # fmt: skip


async def _created(rig: Rig) -> dict[str, Any]:
    """Create a key at the last replica, which is not attacked where only one is."""
    async with rig.client(rig.replicas.all[-1].url) as client:
        body = {"name": "new", "scopes": ["tools:call"]}
        status, made, _ = await client.request("POST", "/keys", json=body)
    assert status == 201, (status, made)
    return dict(made)


async def _revoked(rig: Rig, url: str, key: dict[str, Any]) -> float:
    """Return the seconds from the response to a revocation to the start of the last call that the key could still make, at the
    replica that is attacked, or at any.
    """
    for replica in rig.replicas.all:
        async with rig.client(replica.url, key["key"]) as client:
            accepted = await client.call("s.read", {"id": "r"})
            assert accepted.ok, accepted.label
    async with rig.client(rig.replicas.all[-1].url) as client:
        status, _, _ = await client.request("DELETE", f"/keys/{key['id']}")
        assert status == 204, status
    began = time.monotonic()

    async def last(one: str) -> float:
        found = 0.0
        async with rig.client(one, key["key"]) as client:
            while (started := time.monotonic() - began) < 15:
                if (await client.call("s.read", {"id": "r"})).status == 401:
                    break
                found = started
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
    options = {
        "host": parts.hostname, "port": parts.port, "connections": connections, "addresses": addresses, "key_id": key_id,
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.faults.invalid_key_load",
        json.dumps(options),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    found = Attack()
    try:
        assert await process.stdout.readline() == b"started\n"
        before, began = await _transactions(rig), time.monotonic()
        yield found
        # PostgreSQL reports the statistics of a session up to a second later.
        await asyncio.sleep(1)
        found.transactions = (await _transactions(rig) - before) / (time.monotonic() - began)
    finally:
        process.terminate()
        out, _ = await process.communicate()
    result = json.loads(out)
    found.statuses, found.delayed, found.seconds = result["statuses"], result["delayed"], result["seconds"]
