"""W: many times more calls with an Idempotency-Key than can be served, retried every half second, while replicas are killed."""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Self

from tests.faults.gateways import Replica
from tests.faults.load import Client, Outcome
from tests.faults.report import Row
from tests.faults.rig import Rig

TITLE = "calls with an Idempotency-Key under backlog"

_FEW = 16
_RETRY_SECONDS = 0.5
_KILL_SECONDS = 5.0
_WRITERS = 16
_RECOVERY_SECONDS = 10
"""Once all replicas are ready again; nginx does not retry a killed one for two seconds more."""
_ENDS = frozenset({"idempotency-unknown", "idempotency-not-stored"})
"""Problems after which a client does not retry with the same key."""
_REJECTED = frozenset({"overloaded", "unavailable", "call-log-unavailable", "origin-busy"})


@dataclass(slots=True)
class Backlog:
    """Clients that make calls one after the other, and retry each with its key until it has a response.

        async with Backlog(client, "provider", clients=600) as backlog: ...

    `succeeded` are the times (`time.monotonic()`) of successful calls, `others` times and names of all other responses,
    `wrong` those that must not occur: a response to another call, 500, or a rejection without Retry-After.
    """

    client: Client
    provider: str
    clients: int
    succeeded: list[float] = field(default_factory=list)
    others: list[tuple[float, str]] = field(default_factory=list)
    wrong: list[Outcome] = field(default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._work(number)) for number in range(self.clients)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def goodput(self, since: float, until: float) -> float:
        """Return the successful calls a second between two times."""
        return sum(1 for at in self.succeeded if since <= at < until) / (until - since)

    async def measured(self, seconds: float) -> float:
        """Return the goodput of the next `seconds`."""
        began = time.monotonic()
        await asyncio.sleep(seconds)
        return self.goodput(began, time.monotonic())

    async def _work(self, client: int) -> None:
        tool = f"{self.provider}.write{client % _WRITERS}"
        await asyncio.sleep(random.random() * _RETRY_SECONDS)
        number = 0
        while True:
            number += 1
            await self._until_response(tool, f"{self.provider}-{self.clients}-{client}-{number}")

    async def _until_response(self, tool: str, name: str) -> None:
        arguments = {"body": {"id": name, "wait": 0.02}}
        while True:
            outcome = await self.client.call(tool, arguments, **{"Idempotency-Key": name})
            if outcome.ok:
                self.succeeded.append(time.monotonic())
                return
            self.others.append((time.monotonic(), outcome.label))
            if outcome.status in {200, 500} or (outcome.slug in _REJECTED and not outcome.retry_after):
                self.wrong.append(outcome)
                return
            if outcome.slug in _ENDS:
                return
            await asyncio.sleep(_RETRY_SECONDS)


async def run(rig: Rig) -> list[Row]:
    """400 clients and 30 s of kills; in the slice 100 clients and one kill."""
    clients, kills, seconds = (400, 6, 10.0) if rig.full else (100, 1, 3.0)
    await rig.use(CALL_LOG_MODE="strict")
    await rig.register("w", rig.stub.url, writers=_WRITERS, limits={"concurrency": 1000})
    await rig.warm("w.write0", {"body": {"id": "warm"}})
    async with rig.client() as client:
        async with Backlog(client, "w", clients=_FEW) as few:
            await asyncio.sleep(1)
            usual = await few.measured(seconds / 2)
        async with Backlog(client, "w", clients=clients) as many:
            await asyncio.sleep(2)
            crowded = await many.measured(seconds)
            supervisor = asyncio.create_task(rig.replicas.supervise())
            try:
                last = await _kill(rig, kills)
                recovered, after = await _recovery(many, last, usual, seconds)
            finally:
                supervisor.cancel()
    await rig.use(CALL_LOG_MODE="strict")
    seen = Counter({name: times for name, times in rig.stub.seen.items() if name.startswith("w-")})
    twice = [name for name, times in seen.items() if times > 1]
    recorded = await rig.servers.primary.query(
        "SELECT count(*) FROM calls WHERE provider = 'w' AND outcome IN ('ok', 'running', 'unknown')"
    )
    succeeded = len(few.succeeded) + len(many.succeeded)
    return [
        Row("W", f"{clients} clients that retry every {_RETRY_SECONDS} s, strict call log ({_FEW} clients: {usual:.0f} calls a second)",
            "goodput >= 50 % of that of the few", f"{crowded:.0f} a second; {_summary(many)}", crowded >= 0.5 * usual),
        Row("W", f"the same, with {kills} kills of a replica, one each {_KILL_SECONDS:.0f} s",
            f"goodput >= 50 % within {_RECOVERY_SECONDS} s after all replicas are ready again, and from then on",
            f"after {recovered:.0f} s, then {after:.0f} a second", recovered <= _RECOVERY_SECONDS and after >= 0.5 * usual),
        Row("W", "the same: what the upstream received", "no call twice; a record for every success",
            f"{len(seen)} calls, {len(twice)} twice; {succeeded} successes, {recorded[0][0]} recorded",
            not twice and recorded[0][0] >= succeeded),
        Row("W", "the same: responses to clients", "their own response, or an error with Retry-After where a retry is useful",
            f"{len(many.wrong) + len(few.wrong)} others", not many.wrong and not few.wrong),
    ]  # fmt: skip


async def _kill(rig: Rig, kills: int) -> float:
    """Kill one replica after the other, while two are ready; return the time when all of them are ready again."""
    for _ in range(kills):
        await asyncio.sleep(_KILL_SECONDS)
        ready: list[Replica] = []
        while len(ready) < 2:
            ready = [one for one in rig.replicas.all if one.runs and await _is_ready(rig, one)]
        random.choice(ready).kill()
    await asyncio.sleep(0.5)
    await rig.replicas.ready()
    return time.monotonic()


async def _is_ready(rig: Rig, replica: Replica) -> bool:
    async with rig.client(replica.url) as client:
        return (await client.request("GET", "/health/ready"))[0] == 200


async def _recovery(backlog: Backlog, last: float, usual: float, seconds: float) -> tuple[float, float]:
    """Return the seconds from `last` to the first with half of the usual goodput, and the goodput afterwards."""
    recovered = float("inf")
    while time.monotonic() - last < 2 * _RECOVERY_SECONDS:
        if await backlog.measured(1.0) >= 0.5 * usual:
            recovered = time.monotonic() - last
            break
    return recovered, await backlog.measured(seconds)


def _summary(backlog: Backlog) -> str:
    found = Counter(word for _, word in backlog.others)
    return ", ".join(f"{number} {word}" for word, number in found.most_common(4)) or "no others"
