"""D: gateways, PostgreSQL and Redis are killed at random under load. No call is lost, none is made twice."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from tests.faults.load import Load, Outcome, counts
from tests.faults.report import Row
from tests.faults.rig import Rig, until

TITLE = "SIGKILL at random under load, strict call log"

_WORKERS = 16
_REJECTED = frozenset(
    {"call-log-unavailable", "unavailable", "overloaded", "circuit-open", "origin-busy", "rate-limited", "unauthenticated",
     "stopping"}
)  # fmt: skip
"""Problems which guarantee that nothing was sent."""
_RECORDS = "SELECT id::text, tool FROM calls WHERE provider = $1"


async def run(rig: Rig) -> list[Row]:
    """20,000 writes in strict mode; in the slice 400."""
    if rig.full:
        return await _mode(rig, "strict", 20_000, gateways=30, servers=5)
    return await _mode(rig, "strict", 400, gateways=3, servers=1)


async def _mode(rig: Rig, mode: str, calls: int, *, gateways: int, servers: int) -> list[Row]:
    await rig.use(CALL_LOG_MODE=mode)
    provider = f"d-{mode}"
    await rig.register(provider, rig.stub.url, writers=_WORKERS)
    await rig.warm(f"{provider}.read")
    supervisor = asyncio.create_task(rig.replicas.supervise())
    try:
        async with rig.client() as client:

            def make(worker: int, number: int) -> tuple[str, dict[str, Any]]:
                # A tool for each worker, with one call at a time: its records can be matched with the requests received.
                wait = random.random() * 0.02
                return f"{provider}.write{worker}", {"body": {"id": f"{provider}-{number}", "wait": wait}}

            async with Load(client, make, concurrency=_WORKERS, calls=calls, failure_pause=0.2) as load:
                killed = await _kill(rig, load, calls, gateways=gateways, servers=servers)
                await load.finished()
    finally:
        supervisor.cancel()
    await rig.use(CALL_LOG_MODE=mode)
    seen = {name: times for name, times in rig.stub.seen.items() if name.startswith(f"{provider}-")}
    lost: list[str] = []

    async def all_recorded() -> bool:
        records = await rig.servers.primary.query(_RECORDS, provider)
        lost[:] = _lost(load.outcomes, seen, [(row[0], row[1]) for row in records])
        return not lost

    await until(all_recorded, 30, every=0.5)
    return _rows(mode, load.outcomes, seen, lost, killed)


async def _kill(rig: Rig, load: Load, calls: int, *, gateways: int, servers: int) -> Counter[str]:
    """Kill servers and replicas throughout the run, in random order, always while two replicas are ready."""
    plan = ["gateway"] * gateways + ["PostgreSQL", "Redis"] * servers
    random.shuffle(plan)
    killed: Counter[str] = Counter()
    for index, what in enumerate(plan):
        due = calls * (index + 1) // (len(plan) + 1)
        await load.reached(due)
        if what == "gateway":
            await _two_are_ready(rig)
            random.choice([one for one in rig.replicas.all if one.runs]).kill()
        else:
            server = rig.servers.primary if what == "PostgreSQL" else rig.servers.redis
            await server.kill()
            await asyncio.sleep(random.random())
            await server.start()
        killed[what] += 1
    return killed


async def _two_are_ready(rig: Rig) -> None:
    async def enough() -> bool:
        found = 0
        for replica in rig.replicas.all:
            async with rig.client(replica.url) as client:
                found += (await client.request("GET", "/health/ready"))[0] == 200
        return found >= 2

    await until(enough, 60)


def _lost(outcomes: Iterable[Outcome], seen: dict[str, int], records: list[tuple[str, str]]) -> list[str]:
    """Return the ids of calls that the upstream received and that have no record.

    Where the client got the call's id, that record must exist. Where it did not, the tool must have a record that
    belongs to no other call.
    """
    known = {record for record, _ in records}
    spare: defaultdict[str, int] = defaultdict(int)
    known_to_clients = {one.call_id for one in outcomes if one.call_id}
    for record, tool in records:
        if record not in known_to_clients:
            spare[tool] += 1
    lost = []
    for one in outcomes:
        if one.id not in seen:
            continue
        if one.call_id:
            if one.call_id not in known:
                lost.append(one.id)
        elif spare[one.tool] > 0:
            spare[one.tool] -= 1
        else:
            lost.append(one.id)
    return lost


def _rows(
    mode: str, outcomes: list[Outcome], seen: dict[str, int], lost: list[str], killed: Counter[str]
) -> list[Row]:
    twice = [name for name, times in seen.items() if times > 1]
    good = [one for one in outcomes if one.ok]
    rejected = [one for one in outcomes if one.slug in _REJECTED]
    wrongly_rejected = [one for one in rejected if one.id in seen]
    unknown = [one for one in outcomes if not one.ok and one.slug not in _REJECTED]
    unexpected = [one for one in unknown if one.status not in (0, 502, 504)]
    wrongly_ok = [one for one in good if one.id not in seen]
    # The others are nginx's own responses: it does not retry a killed replica for two seconds, sometimes none is left.
    executed = [one for one in unknown if one.id in seen]
    tried = f"{len(outcomes)} writes, {mode} call log, SIGKILL: " + ", ".join(
        f"{n} {what}" for what, n in killed.items()
    )
    limit = _WORKERS * killed.total()
    return [
        Row("D", tried, "0 calls that the upstream received without a record", f"{len(seen)} received, {len(lost)} lost", not lost),
        Row("D", "the same: calls that are not idempotent", "0 received twice", f"{len(twice)} received twice", not twice),
        Row("D", "the same: responses to clients",
            f"success, rejected (nothing sent) or unknown; executed nevertheless <= {limit} (in progress at a kill)",
            f"{len(good)} success, {len(rejected)} rejected ({len(wrongly_rejected)} of them sent), {len(unknown)} unknown"
            f" ({counts(unknown)}; {len(executed)} of them executed), {len(unexpected)} others",
            not wrongly_rejected and not unexpected and not wrongly_ok and len(executed) <= limit),
    ]  # fmt: skip
