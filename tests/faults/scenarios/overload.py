"""Three times as many calls as one replica can make: it refuses some early, serves the rest, and says that it lives."""

import asyncio
import contextlib
import os
import sys
import time

from app.processes import child_process
from tests.faults.load import Load, Outcome, counted, milliseconds, percentile
from tests.faults.report import Row
from tests.faults.rig import Rig

TITLE = "three times the capacity"
_ASKING = """
import http.client, sys, time
address, until = sys.argv[1].removeprefix("http://"), time.monotonic() + float(sys.argv[2])
asking = http.client.HTTPConnection(address, timeout=30)
while time.monotonic() < until:
    began = time.monotonic()
    asking.request("GET", "/health/live")
    answer = asking.getresponse()
    answer.read()
    print(time.monotonic() - began if answer.status == 200 else 99)
    time.sleep(0.05)
"""


async def run(rig: Rig) -> list[Row]:
    """At one replica, so that this process can offer more than it takes."""
    await rig.use()
    await rig.register("q", rig.stub.url, limits={"concurrency": 1000})
    await rig.warm("q.read")
    seconds = 60.0 if rig.full else 3.0
    replica = rig.replicas.all[0]
    _first(replica.pid, -10)
    async with rig.caller(replica.url) as caller:

        async def rate(concurrency: int, seconds: float) -> tuple[float, list[Outcome]]:
            began = time.monotonic()
            async with Load(caller, _call, concurrency=concurrency) as load:
                await asyncio.sleep(seconds)
                lasted = time.monotonic() - began
                good = sum(1 for one in load.outcomes if one.ok)
            return good / lasted, load.outcomes

        await rate(16, 1.0)
        peak, _ = await rate(16, min(seconds, 5.0))
        health = asyncio.create_task(_health(replica.url, seconds))
        during, outcomes = await rate(400, seconds)
        times = await health
    _first(replica.pid, 0)
    others = [one for one in outcomes if not one.ok and one.slug not in ("overloaded", "origin-busy")]
    untold = [one for one in outcomes if one.slug == "overloaded" and not one.retry_after]
    slow = percentile(times, 0.99)
    return [
        Row("Y", f"400 callers without a pause at one replica for {seconds:.0f} s (its peak: {peak:.0f} calls a second)",
            "goodput >= 80 % of the peak; what is refused is 503 with Retry-After",
            f"{during / peak * 100:.0f} %; {counted(outcomes)}", during >= 0.8 * peak and not others and not untold),
        Row("Y", "/health/live meanwhile", "p99 < 100 ms; always 200",
            f"p99 {milliseconds(slow)} of {len(times)}", slow < 0.1 and all(one < 10 for one in times)),
    ]  # fmt: skip


def _call(_worker: int, number: int) -> tuple[str, dict[str, str]]:
    return "q.read", {"id": f"q{number}"}


async def _health(url: str, seconds: float) -> list[float]:
    """The seconds of each answer, 99 for one that was no 200; from a process that has nothing else to do."""
    async with child_process(sys.executable, "-c", _ASKING, url, str(seconds), env=os.environ) as asking:
        _first(asking.pid, -15)
        return [float(line) for line in (await asking.communicate())[0].split()]


def _first(pid: int, priority: int) -> None:
    """Where that is allowed, a process goes before others: how long it waits for a busy machine is not its own doing."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, pid, priority)
