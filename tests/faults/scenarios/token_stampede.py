"""H: 500 calls at each of three replicas need a token that has just expired."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.faults.load import Client, Outcome, counts
from tests.faults.report import Row
from tests.faults.rig import Rig

TITLE = "token stampede over three replicas"
_TOKEN_SECONDS = 4
"""Lifetime of a token; it is cached for four fifths of that."""


async def run(rig: Rig) -> list[Row]:
    """A token that no replica has, one that has just expired everywhere, and both without Redis."""
    # In the long form this process, which also runs the fault proxies, opens 1,500 connections at once: with the usual 0.1 s
    # commands to Redis would time out, and the fallback without Redis would be measured.
    await rig.use(**({"REDIS_TIMEOUT": "2"} if rig.full else {}))
    number = 500 if rig.full else 40
    rows = []
    for redis, max_requests in (("with Redis", 1), ("without Redis", 3)):
        name = f"h{max_requests}"
        await rig.register(name, rig.stub.url, limits={"concurrency": 1000})
        await rig.warm(f"{name}.read")
        # For the same reason the plan is cached before; a dry run needs no token.
        for replica in rig.replicas.all:
            async with rig.client(replica.url) as client:
                status, body, _ = await client.request(
                    "POST", f"/tools/{name}.secure/call?dry_run=true", json={}
                )
                assert status == 200, body
        rig.stub.token_seconds, rig.stub.token_life = 0.5, _TOKEN_SECONDS
        if max_requests == 3:
            await rig.redis.cut()
        for state in ("missing", "expired"):
            before = rig.stub.tokens
            outcomes = await _at_once(rig, f"{name}.secure", number)
            requests = rig.stub.tokens - before
            failed = [one for one in outcomes if not one.ok]
            rows.append(
                Row("H", f"{number} calls at once x 3 replicas, token {state}, {redis}", f"token requests <= {max_requests}, 0 failed",
                    f"{requests} token requests, {counts(outcomes)}", requests <= max_requests and not failed)
            )  # fmt: skip
            if state == "missing":
                await asyncio.sleep(_TOKEN_SECONDS * 0.85)
        await rig.redis.heal()
    rig.stub.token_seconds, rig.stub.token_life = 0.2, 3600
    return rows


async def _at_once(rig: Rig, tool: str, number: int) -> list[Outcome]:
    async def one(client: Client, index: int) -> Outcome:
        return await client.call(tool, {"id": f"h{index}"})

    found: list[Outcome] = []
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_replica(rig, replica.url, one, number)) for replica in rig.replicas.all]
    for task in tasks:
        found += task.result()
    return found


async def _replica(
    rig: Rig, url: str, one: Callable[[Client, int], Awaitable[Outcome]], number: int
) -> list[Outcome]:
    async with rig.client(url) as client:
        return list(await asyncio.gather(*(one(client, index) for index in range(number))))
