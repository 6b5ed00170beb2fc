"""H: 500 calls at each of three replicas need a token that has just expired.

With Redis there is one request for all, and one more for each replica that had to do without Redis: on a busy machine a
command may exceed REDIS_TIMEOUT, and a replica then fetches a token of its own, as specified.
"""

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
    for redis in ("with Redis", "without Redis"):
        is_cut = redis == "without Redis"
        name = "h3" if is_cut else "h1"
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
        if is_cut:
            await rig.redis.cut()
        for state in ("missing", "expired"):
            failures, up = await _redis_failures(rig), await _redis_up(rig)
            before = rig.stub.tokens
            outcomes = await _at_once(rig, f"{name}.secure", number)
            requests = rig.stub.tokens - before
            failed = [one for one in outcomes if not one.ok]
            # A replica for which a command failed may not have read, or not have stored, the token.
            later = await _redis_failures(rig)
            alone = sum(
                not was_up or now > then for was_up, then, now in zip(up, failures, later, strict=True)
            )
            max_requests = 3 if is_cut else 1 + alone
            expected = (
                "token requests <= 3"
                if is_cut
                else "one token request, one more for each replica for which Redis was too slow"
            )
            found = f"{requests} token requests" + (
                f", Redis too slow for {alone}" if alone and not is_cut else ""
            )
            rows.append(
                Row("H", f"{number} calls at once x 3 replicas, token {state}, {redis}", f"{expected}; 0 failed",
                    f"{found}, {counts(outcomes)}", requests <= max_requests and not failed)
            )  # fmt: skip
            if state == "missing":
                await asyncio.sleep(_TOKEN_SECONDS * 0.85)
        await rig.redis.heal()
    rig.stub.token_seconds, rig.stub.token_life = 0.2, 3600
    return rows


async def _redis_up(rig: Rig) -> list[bool]:
    """Return whether the last command of each replica succeeded."""
    return [bool(await rig.metric(one, "utcp_gateway_redis_up")) for one in rig.replicas.all]


async def _redis_failures(rig: Rig) -> list[float]:
    """Return how many commands of each replica have failed or were not sent, since its start."""
    names = ("utcp_gateway_redis_failures_total", "utcp_gateway_redis_pool_timeouts_total")
    return [sum([await rig.metric(one, name) for name in names]) for one in rig.replicas.all]


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
