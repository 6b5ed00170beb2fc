"""N: one key, three replicas, more calls than it may make: what is admitted is what the limit says, to a percent."""

import asyncio
import time

from tests.faults.load import Caller, Outcome, counted
from tests.faults.report import Row
from tests.faults.rig import Rig

TITLE = "rate limits over three replicas"
_BURST = 40
"""Two seconds of the rate: where nobody asks for longer than that, since the machine has no time, the limit is not used up."""


async def run(rig: Rig) -> list[Row]:
    """Offered at several times the limit; admitted = burst + rate x time."""
    # The fault proxies lie in this process, which the load keeps busy: with the usual 0.1 s some commands would count as
    # failed, and what is measured would be the share without Redis.
    await rig.use(REDIS_TIMEOUT="2")
    await rig.register("n", rig.stub.url)
    calls = 10_000 if rig.full else 600
    return [
        await _admitted(rig, calls, rate=20, burst=_BURST, redis=True),
        await _admitted(rig, calls // 4, rate=20, burst=_BURST, redis=False),
    ]


async def _admitted(rig: Rig, calls: int, *, rate: int, burst: int, redis: bool) -> Row:
    limit = {"requests": rate, "per_seconds": 1, "burst": burst}
    name = "with Redis" if redis else "without Redis"
    async with rig.caller() as caller:
        status, made, _ = await caller.request(
            "POST", "/keys", json={"name": f"n {name}", "scopes": ["tools:call"], "rate_limit": limit}
        )
    assert status == 201, made
    async with rig.caller(rig.replicas.all[0].url) as admin:
        assert (await admin.call("n.read", {"id": "warm"})).ok
    # Every replica knows the key, and then the burst is whole again: what comes before the first call is not counted.
    for replica in rig.replicas.all:
        async with rig.caller(replica.url, made["key"]) as caller:
            assert (await caller.call("n.read", {"id": "warm"})).ok
    await asyncio.sleep(len(rig.replicas.all) / rate + 0.1)
    if not redis:
        await rig.redis.cut()
    numbers = iter(range(calls))
    outcomes: list[Outcome] = []

    async def work(caller: Caller) -> None:
        for number in numbers:
            outcome = await caller.call("n.read", {"id": f"n{number}"})
            outcomes.append(outcome)

    callers = [rig.caller(replica.url, made["key"]) for replica in rig.replicas.all]
    for caller in callers:
        await caller.__aenter__()
    began = time.monotonic()
    await asyncio.gather(*(work(caller) for caller in callers for _ in range(4)))
    lasted = time.monotonic() - began
    for caller in callers:
        await caller.__aexit__()
    await rig.redis.heal()
    admitted = sum(1 for one in outcomes if one.ok)
    others = [one for one in outcomes if not one.ok and one.slug != "rate-limited"]
    untold = [one for one in outcomes if one.slug == "rate-limited" and not one.retry_after]
    # Without Redis each replica lets its own burst through, and then its share of the rate.
    expected = (burst if redis else burst * len(callers)) + rate * lasted
    within = max(0.01 * expected, 3.0)
    ok = abs(admitted - expected) <= within if redis else admitted <= expected * 1.01 + within
    return Row(
        "N", f"{len(outcomes)} calls at three replicas in {lasted:.1f} s, {rate} a second + {burst} allowed, {name}",
        f"{expected:.0f} admitted within 1 %" if redis else f"at most {expected:.0f} admitted (a burst and a share of the rate each)",
        f"{admitted} admitted ({(admitted / expected - 1) * 100:+.1f} %), the others 429 with Retry-After"
        + (f"; also {counted(others)}" if others else "") + (f"; {len(untold)} without Retry-After" if untold else ""),
        ok and not others and not untold,
    )  # fmt: skip
