"""H: 500 calls at each of three replicas find the token expired at the same moment."""

import asyncio

from tests.faults.load import Caller, Outcome, counted
from tests.faults.report import Row
from tests.faults.rig import Rig

TITLE = "token stampede over three replicas"
_LIFE = 4
"""Seconds that a token lives; a fifth less is what it is kept for."""


async def run(rig: Rig) -> list[Row]:
    """A token that nobody has, one that has just expired everywhere, and both without Redis."""
    # In the long form this process, in which the fault proxies lie, makes 1,500 connections at once: with the usual 0.1 s
    # commands to Redis would count as failed, and what is measured would be the way without Redis.
    await rig.use(**({"REDIS_TIMEOUT": "2"} if rig.full else {}))
    number = 500 if rig.full else 40
    rows = []
    for redis, most in (("with Redis", 1), ("without Redis", 3)):
        name = f"h{most}"
        await rig.register(name, rig.stub.url, limits={"concurrency": 1000})
        await rig.warm(f"{name}.read")
        # For the same reason the plan is there before; a dry run needs no token.
        for replica in rig.replicas.all:
            async with rig.caller(replica.url) as caller:
                status, body, _ = await caller.request(
                    "POST", f"/tools/{name}.secure/call?dry_run=true", json={}
                )
                assert status == 200, body
        rig.stub.token_seconds, rig.stub.token_life = 0.5, _LIFE
        if most == 3:
            await rig.redis.cut()
        for state in ("missing", "expired"):
            before = rig.stub.tokens
            outcomes = await _at_once(rig, f"{name}.secure", number)
            asked = rig.stub.tokens - before
            failed = [one for one in outcomes if not one.ok]
            rows.append(
                Row("H", f"{number} calls at once x 3 replicas, token {state}, {redis}", f"token requests <= {most}, 0 failed",
                    f"{asked} token requests, {counted(outcomes)}", asked <= most and not failed)
            )  # fmt: skip
            if state == "missing":
                await asyncio.sleep(_LIFE * 0.85)
        await rig.redis.heal()
    rig.stub.token_seconds, rig.stub.token_life = 0.2, 3600
    return rows


async def _at_once(rig: Rig, tool: str, number: int) -> list[Outcome]:
    async def one(caller: Caller, index: int) -> Outcome:
        return await caller.call(tool, {"id": f"h{index}"})

    found: list[Outcome] = []
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_replica(rig, replica.url, one, number)) for replica in rig.replicas.all]
    for task in tasks:
        found += task.result()
    return found


async def _replica(rig: Rig, url: str, one, number: int) -> list[Outcome]:  # type: ignore[no-untyped-def]
    async with rig.caller(url) as caller:
        return list(await asyncio.gather(*(one(caller, index) for index in range(number))))
