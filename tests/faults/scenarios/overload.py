"""Y: more calls than one replica can serve: it rejects some early, serves the rest, and /health/live responds."""

import asyncio
import contextlib
import os
import sys
import time

from app.core.processes import run_child_process
from tests.faults.load import Load, Outcome, counts, milliseconds, percentile
from tests.faults.report import Row
from tests.faults.rig import Rig

TITLE = "overload of one replica"
_PROBE = """
import http.client, sys, time
address, end = sys.argv[1].removeprefix("http://"), time.monotonic() + float(sys.argv[2])
connection = http.client.HTTPConnection(address, timeout=30)
while time.monotonic() < end:
    began = time.monotonic()
    connection.request("GET", "/health/live")
    response = connection.getresponse()
    response.read()
    print(time.monotonic() - began if response.status == 200 else 99)
    time.sleep(0.05)
"""


async def run(rig: Rig) -> list[Row]:
    """At one replica, so that this process can generate more load than it can serve."""
    await rig.use()
    await rig.register("q", rig.stub.url, limits={"concurrency": 1000})
    await rig.warm("q.read")
    seconds = 60.0 if rig.full else 3.0
    replica = rig.replicas.all[0]
    _prioritise(replica.pid, -10)
    async with rig.client(replica.url) as client:

        async def rate(concurrency: int, seconds: float) -> tuple[float, list[Outcome]]:
            began = time.monotonic()
            async with Load(client, _call, concurrency=concurrency) as load:
                await asyncio.sleep(seconds)
                lasted = time.monotonic() - began
                good = sum(1 for one in load.outcomes if one.ok)
            return good / lasted, load.outcomes

        await rate(16, 1.0)
        peak, _ = await rate(16, min(seconds, 5.0))
        health = asyncio.create_task(_health(replica.url, seconds))
        during, outcomes = await rate(400, seconds)
        times = await health
    _prioritise(replica.pid, 0)
    others = [one for one in outcomes if not one.ok and one.slug not in ("overloaded", "origin-busy")]
    without_delay = [one for one in outcomes if one.slug == "overloaded" and not one.retry_after]
    slow = percentile(times, 0.99)
    return [
        Row("Y", f"400 clients without a pause at one replica for {seconds:.0f} s (its peak: {peak:.0f} calls a second)",
            "goodput >= 80 % of the peak; what is rejected is 503 with Retry-After",
            f"{during / peak * 100:.0f} %; {counts(outcomes)}", during >= 0.8 * peak and not others and not without_delay),
        Row("Y", "/health/live meanwhile", "p99 < 100 ms; always 200",
            f"p99 {milliseconds(slow)} of {len(times)}", slow < 0.1 and all(one < 10 for one in times)),
    ]  # fmt: skip


def _call(_worker: int, number: int) -> tuple[str, dict[str, str]]:
    return "q.read", {"id": f"q{number}"}


async def _health(url: str, seconds: float) -> list[float]:
    """Return the seconds of each response, 99 for one other than 200; measured by a separate process."""
    async with run_child_process(
        sys.executable, "-c", _PROBE, url, str(seconds), env=os.environ
    ) as connection:
        _prioritise(connection.pid, -15)
        return [float(line) for line in (await connection.communicate())[0].split()]


def _prioritise(pid: int, priority: int) -> None:
    """Set the priority of a process where that is permitted, so that other work on the machine does not delay it."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, pid, priority)
