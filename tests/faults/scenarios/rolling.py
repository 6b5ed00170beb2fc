"""I: every replica is stopped with SIGTERM and started again while calls and streams run through nginx."""

import asyncio
import json
from collections import Counter
from typing import Any

import aiohttp

from tests.faults.gateways import Replica
from tests.faults.load import Caller, Load, counted
from tests.faults.report import Row
from tests.faults.rig import Rig, until

_STREAMS = 10
TITLE = "rolling restart under load"
_LONGEST = 32.0


async def run(rig: Rig) -> list[Row]:
    """Reads, writes that take a while, and calls with a token; not one may notice."""
    await rig.use()
    await rig.register("i", rig.stub.url, limits={"concurrency": 1000})
    await rig.warm("i.secure")
    rounds = 3 if rig.full else 1
    replicas = rig.replicas.all if rig.full else rig.replicas.all[:1]
    stops = []
    streams = asyncio.create_task(_streams(rig, replicas[0]))
    # They are under way when the first replica is stopped.
    assert await until(lambda: _all_stream(rig), 20) < 20
    async with rig.caller() as caller:

        def make(_worker: int, number: int) -> tuple[str, dict[str, Any]]:
            asked = {"id": f"i{number}", "wait": 0.2 if number % 7 == 0 else 0}
            return (("i.read", asked), ("i.secure", asked), ("i.write0", {"body": asked}))[number % 3]

        async with Load(caller, make, concurrency=8, pause=0.005) as load:
            for _ in range(rounds):
                for replica in replicas:
                    replica.ask_to_stop()
                    stops.append(await replica.ended())
                    replica.spawn(rig.replicas.environment)
                    await rig.replicas.one_ready(replica)
    ends = await streams
    twice = sum(1 for name, seen in rig.stub.seen.items() if name.startswith("i") and seen > 1)
    return [
        Row("I", f"{len(stops)} replicas restarted one after the other under load", "0 failed calls, none sent twice",
            f"{len(load.failed)} of {len(load.outcomes)} failed, {twice} sent twice"
            + (f" ({counted(load.failed)})" if load.failed else ""), not load.failed and not twice),
        Row("I", f"{_STREAMS} streams of the first replica, which would last for minutes", "each ends with its last event: gateway-error, stopping",
            ", ".join(f"{number} {word}" for word, number in Counter(ends).items()), all(one == "stopping" for one in ends)),
        Row("I", "time to stop", f"<= {_LONGEST:.0f} s", f"longest {max(stops):.1f} s", max(stops) <= _LONGEST),
    ]  # fmt: skip


async def _streams(rig: Rig, replica: Replica) -> list[str]:
    """How each stream ended: the slug of its last event, "end", or "cut"."""

    async def one(caller: Caller) -> str:
        url = f"{replica.url}/tools/i.stream/call"
        headers = {"Accept": "text/event-stream"}
        try:
            asked = {"bytes": 1 << 30, "wait": 0.5}
            async with caller.session.post(url, json=asked, headers=headers) as answer:
                text = await answer.read()
        except (aiohttp.ClientError, TimeoutError):
            return "cut"
        last = text.rstrip().rpartition(b"\n\n")[2].decode()
        if "event: gateway-end" in last:
            return "end"
        event, _, problem = last.partition("data: ")
        return str(json.loads(problem)["type"]).rpartition(":")[2] if "gateway-error" in event else "cut"

    async with rig.caller() as caller:
        return list(await asyncio.gather(*(one(caller) for _ in range(_STREAMS))))


async def _all_stream(rig: Rig) -> bool:
    return rig.stub.streaming >= _STREAMS
