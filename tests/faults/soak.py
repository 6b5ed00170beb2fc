"""`make soak`: half load for MINUTES minutes (30); memory and file descriptors of the replicas must stay level.

The load is half of what the replicas manage in a first measurement: reads, writes, calls with a token, large streamed
responses, calls that fail and clients that disconnect. It prints a line a minute; the result is the slope of each figure over the second
half of the run, by least squares, since caches fill in the first.
"""

import asyncio
import os
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

from tests.faults.load import Load, counts
from tests.faults.nginx import PROGRAM, NginxMissing
from tests.faults.report import Row, table
from tests.faults.rig import Rig, rig

_MEGABYTE = 1 << 20
_SLOPE = 10.0
"""Growth in MB an hour and replica that counts as level: fragmentation of a process of 150 MB within half an hour."""
_DESCRIPTORS = 12
_CONNECTIONS = 8


async def main(minutes: float) -> list[Row]:
    """Run the soak test and return a row for each figure."""
    async with rig(full=True) as running:
        await running.use()
        await running.register("soak", running.stub.url, writers=4)
        await running.warm("soak.secure")
        rate = await _capacity(running) / 2
        print(f"{rate:.0f} calls a second, {minutes:.0f} minutes", file=sys.stderr)
        samples: list[tuple[float, list[int], list[int]]] = []
        async with running.client() as client:
            pause = _CONNECTIONS / rate
            async with Load(client, _mixed, concurrency=_CONNECTIONS, pause=pause) as load:
                await _sampled(running, minutes, samples)
            outcomes = counts(load.outcomes)
            failed = [one for one in load.failed if one.tool != "soak.nope"]
        errors = running.replicas.tracebacks()
    return [
        Row("S", f"{len(load.outcomes)} calls over {minutes:.0f} minutes", "no unexpected failure, no unhandled error",
            f"{outcomes}; {len(errors)} tracebacks", not failed and not errors),
        *_rows(samples),
    ]  # fmt: skip


def _mixed(_worker: int, number: int) -> tuple[str, dict[str, Any]]:
    arguments: dict[str, Any] = {"id": f"s{number}"}
    kind = number % 50
    if kind == 0:
        return "soak.nope", arguments
    if kind == 1:
        return "soak.read", arguments | {"bytes": 2 * _MEGABYTE}
    if kind % 5 == 2:
        return f"soak.write{number % 4}", {"body": arguments}
    return ("soak.read", "soak.keyed", "soak.secure")[number % 3], arguments


async def _capacity(running: Rig) -> float:
    """Return the calls a second at full load, over ten seconds."""
    async with running.client() as client, Load(client, _mixed, concurrency=_CONNECTIONS * 2) as load:
        await asyncio.sleep(10)
        return len(load.outcomes) / 10


async def _sampled(running: Rig, minutes: float, samples: list[tuple[float, list[int], list[int]]]) -> None:
    began = time.monotonic()
    while (passed := time.monotonic() - began) < minutes * 60:
        for _ in range(5):
            await _disconnect(running)
        memory = [one.resident() for one in running.replicas.all]
        descriptors = [one.descriptors() for one in running.replicas.all]
        samples.append((passed, memory, descriptors))
        if len(samples) % 6 == 1:
            shown = " ".join(f"{one / _MEGABYTE:.1f}" for one in memory)
            print(f"{passed / 60:5.1f} min  {shown} MB  {descriptors} fds", file=sys.stderr, flush=True)
        await asyncio.sleep(min(10.0, minutes * 6))


async def _disconnect(running: Rig) -> None:
    """Make a call and disconnect before its response."""
    replica = random.choice(running.replicas.all)
    _, writer = await asyncio.open_connection("127.0.0.1", replica.port)
    body = b'{"wait": 5}'
    head = (
        f"POST /tools/soak.read/call HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {running.replicas.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await asyncio.sleep(0.2)
    writer.transport.abort()


def _rows(samples: Sequence[tuple[float, list[int], list[int]]]) -> list[Row]:
    late = samples[len(samples) // 2 :]
    rows = []
    for replica in range(len(late[0][1])):
        slope = _slope([(at, memory[replica]) for at, memory, _ in late]) * 3600 / _MEGABYTE
        first, last = (samples[index][1][replica] / _MEGABYTE for index in (0, -1))
        fds = [descriptors[replica] for _, _, descriptors in late]
        rows.append(
            Row("S", f"replica {replica}: memory and descriptors over the second half", f"<= {_SLOPE:.0f} MB an hour, descriptors level",
                f"{slope:+.1f} MB an hour ({first:.0f} -> {last:.0f} MB), {min(fds)} to {max(fds)} descriptors",
                slope <= _SLOPE and max(fds) - min(fds) <= _DESCRIPTORS)
        )  # fmt: skip
    return rows


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope per second by least squares."""
    number = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / number, sum(y for _, y in points) / number
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


if __name__ == "__main__":
    if PROGRAM is None:
        sys.exit(str(NginxMissing()))
    lines = asyncio.run(main(float(os.environ.get("MINUTES") or 30)))
    print(table(lines))
    sys.exit(0 if all(line.ok for line in lines) else 1)
