"""I: every replica is stopped with SIGTERM and restarted while calls and streams run through nginx."""

import asyncio
import json
from collections import Counter
from typing import Any

import aiohttp

from tests.faults.gateways import Replica
from tests.faults.load import Client, Load, counts
from tests.faults.report import Row
from tests.faults.rig import Rig, until

_STREAMS = 10
TITLE = "rolling restart under load"
_MAX_STOP_SECONDS = 32.0


async def run(rig: Rig) -> list[Row]:
    """Reads, slow writes, and calls with a token; none may fail."""
    await rig.use()
    await rig.register("i", rig.stub.url, limits={"concurrency": 1000})
    await rig.warm("i.secure")
    rounds = 3 if rig.full else 1
    replicas = rig.replicas.all if rig.full else rig.replicas.all[:1]
    stops = []
    streams = asyncio.create_task(_streams(rig, replicas[0]))
    # They are in progress when the first replica is stopped.
    assert await until(lambda: _all_stream(rig), 20) < 20
    async with rig.client() as client:

        def make(_worker: int, number: int) -> tuple[str, dict[str, Any]]:
            arguments = {"id": f"i{number}", "wait": 0.2 if number % 7 == 0 else 0}
            return (("i.read", arguments), ("i.secure", arguments), ("i.write0", {"body": arguments}))[
                number % 3
            ]

        async with Load(client, make, concurrency=8, pause=0.005) as load:
            for _ in range(rounds):
                for replica in replicas:
                    replica.terminate()
                    stops.append(await replica.wait_ended())
                    replica.spawn(rig.replicas.environment)
                    await rig.replicas.one_ready(replica)
    ends = await streams
    twice = sum(1 for name, seen in rig.stub.seen.items() if name.startswith("i") and seen > 1)
    return [
        Row("I", f"{len(stops)} replicas restarted one after the other under load", "0 failed calls, none sent twice",
            f"{len(load.failed)} of {len(load.outcomes)} failed, {twice} sent twice"
            + (f" ({counts(load.failed)})" if load.failed else ""), not load.failed and not twice),
        Row("I", f"{_STREAMS} streams of the first replica, which would otherwise last for minutes", "each ends with its last event: gateway-error, stopping",
            ", ".join(f"{number} {word}" for word, number in Counter(ends).items()), all(one == "stopping" for one in ends)),
        Row("I", "time to stop", f"<= {_MAX_STOP_SECONDS:.0f} s", f"longest {max(stops):.1f} s", max(stops) <= _MAX_STOP_SECONDS),
    ]  # fmt: skip


async def _streams(rig: Rig, replica: Replica) -> list[str]:
    """Return how each stream ended: the slug of its last event, "end", or "truncated"."""

    async def one(client: Client) -> str:
        url = f"{replica.url}/tools/i.stream/call"
        headers = {"Accept": "text/event-stream"}
        try:
            arguments = {"bytes": 1 << 30, "wait": 0.5}
            async with client.session.post(url, json=arguments, headers=headers) as response:
                text = await response.read()
        except (aiohttp.ClientError, TimeoutError):
            return "truncated"
        last = text.rstrip().rpartition(b"\n\n")[2].decode()
        if "event: gateway-end" in last:
            return "end"
        event, _, problem = last.partition("data: ")
        return (
            str(json.loads(problem)["type"]).rpartition(":")[2] if "gateway-error" in event else "truncated"
        )

    async with rig.client() as client:
        return list(await asyncio.gather(*(one(client) for _ in range(_STREAMS))))


async def _all_stream(rig: Rig) -> bool:
    return rig.stub.streaming >= _STREAMS
