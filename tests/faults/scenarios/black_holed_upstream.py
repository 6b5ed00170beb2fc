"""X: one of ten upstreams accepts connections and never responds: calls to the others are unaffected, its own fail at once."""

import asyncio
import contextlib
from typing import Any

from tests.faults.load import Load, milliseconds, percentile
from tests.faults.proxy import Toxic
from tests.faults.report import Row
from tests.faults.rig import Rig

TITLE = "one black-holed upstream of ten"
_LIMITS = {"connect": 1.0, "first_byte": 2.0, "total": 3.0}


async def run(rig: Rig) -> list[Row]:
    """Black-hole one of ten upstreams under load, and compare the calls to the others with those before."""
    await rig.use()
    seconds = 20.0 if rig.full else 4.0
    async with contextlib.AsyncExitStack() as stack:
        links = [await stack.enter_async_context(rig.link()) for _ in range(10)]
        for index, link in enumerate(links):
            await rig.register(f"x{index}", f"http://{link.address}", limits=_LIMITS)
            await rig.warm(f"x{index}.read")
        client = await stack.enter_async_context(rig.client())

        def make(_worker: int, number: int) -> tuple[str, dict[str, Any]]:
            return f"x{number % 10}.read", {"id": f"x{number}"}

        async with Load(client, make, concurrency=6, pause=0.02) as before:
            await asyncio.sleep(seconds / 2)
        links[0].poison(Toxic("timeout", "up"))
        links[0].reset()

        def make_live(_worker: int, number: int) -> tuple[str, dict[str, Any]]:
            return f"x{1 + number % 9}.read", {"id": f"x{number}"}

        # Its clients are separate workers, so that they do not delay the calls to the others.
        async with (
            Load(
                client,
                lambda _worker, number: ("x0.read", {"id": f"dead{number}"}),
                concurrency=12,
                pause=0.02,
            ) as black_holed,
            Load(client, make_live, concurrency=6, pause=0.02) as live,
        ):
            await asyncio.sleep(seconds)
    was, now = (percentile([one.seconds for one in load.outcomes], 0.99) for load in (before, live))
    opened = [one.seconds for one in black_holed.outcomes if one.slug == "circuit-open"]
    good = [one for one in black_holed.outcomes if one.ok]
    return [
        Row("X", f"9 of 10 upstreams live, the tenth black-holed, {seconds:.0f} s", "0 failed calls of the nine",
            f"{len(live.failed)} of {len(live.outcomes)} failed; p99 {milliseconds(was)} -> {milliseconds(now)}", not live.failed),
        Row("X", "the black-holed upstream's calls while its breaker is open", "fail at once (median < 10 ms + the p99 before)",
            f"{len(opened)} of {len(black_holed.outcomes)}, median {milliseconds(percentile(opened, 0.5))}",
            bool(opened) and not good and percentile(opened, 0.5) <= 0.01 + was),
    ]  # fmt: skip
