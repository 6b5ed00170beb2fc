"""N: one key at three replicas, with more calls than its rate limit: the calls admitted match the limit within 1 %."""

import asyncio
import time

from tests.faults.load import Client, Outcome, counts
from tests.faults.report import Row
from tests.faults.rig import Rig

TITLE = "rate limits over three replicas"
_BURST = 40
"""Two seconds of the rate: if the load pauses for longer, since the machine is busy, part of the limit is not used."""


async def run(rig: Rig) -> list[Row]:
    """Offer several times the limit; admitted = burst + rate x time."""
    # The fault proxies run in this process, which the load keeps busy: with the usual 0.1 s some commands would time out,
    # and the fallback without Redis would be measured.
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
    async with rig.client() as client:
        status, made, _ = await client.request(
            "POST", "/keys", json={"name": f"n {name}", "scopes": ["tools:call"], "rate_limit": limit}
        )
    assert status == 201, made
    async with rig.client(rig.replicas.all[0].url) as admin:
        assert (await admin.call("n.read", {"id": "warm"})).ok
    # Every replica has cached the key, and the burst is complete again before the first call that counts.
    for replica in rig.replicas.all:
        async with rig.client(replica.url, made["key"]) as client:
            assert (await client.call("n.read", {"id": "warm"})).ok
    await asyncio.sleep(len(rig.replicas.all) / rate + 0.1)
    if not redis:
        await rig.redis.cut()
    numbers = iter(range(calls))
    outcomes: list[Outcome] = []

    async def work(client: Client) -> None:
        for number in numbers:
            outcome = await client.call("n.read", {"id": f"n{number}"})
            outcomes.append(outcome)

    clients = [rig.client(replica.url, made["key"]) for replica in rig.replicas.all]
    for client in clients:
        await client.__aenter__()
    began = time.monotonic()
    await asyncio.gather(*(work(client) for client in clients for _ in range(4)))
    lasted = time.monotonic() - began
    for client in clients:
        await client.__aexit__()
    await rig.redis.heal()
    admitted = sum(1 for one in outcomes if one.ok)
    others = [one for one in outcomes if not one.ok and one.slug != "rate-limited"]
    without_delay = [one for one in outcomes if one.slug == "rate-limited" and not one.retry_after]
    # Without Redis each replica admits its own burst, and then its share of the rate.
    expected = (burst if redis else burst * len(clients)) + rate * lasted
    within = max(0.01 * expected, 3.0)
    ok = abs(admitted - expected) <= within if redis else admitted <= expected * 1.01 + within
    return Row(
        "N", f"{len(outcomes)} calls at three replicas in {lasted:.1f} s, {rate} a second + {burst} allowed, {name}",
        f"{expected:.0f} admitted within 1 %" if redis else f"at most {expected:.0f} admitted (a burst and a share of the rate each)",
        f"{admitted} admitted ({(admitted / expected - 1) * 100:+.1f} %), the others 429 with Retry-After"
        + (f"; also {counts(others)}" if others else "") + (f"; {len(without_delay)} without Retry-After" if without_delay else ""),
        ok and not others and not without_delay,
    )  # fmt: skip
