"""G: a thousand clients read streams slowly, and upstreams send decompression bombs. Memory stays bounded, and is reused."""

import asyncio
import contextlib
import socket
import time
from typing import Any

from tests.faults.load import Client, Outcome
from tests.faults.report import Row
from tests.faults.rig import Rig, until

TITLE = "slow readers of streams, decompression bombs"
_MEGABYTE = 1 << 20
_GROWTH = 200 * _MEGABYTE


async def run(rig: Rig) -> list[Row]:
    """Streams of 100 MB each that are not read to the end, then 10 GB of zeros in 10 MB of gzip."""
    await rig.use()
    limits = {"concurrency": 1000, "response_bytes": 16 * _MEGABYTE, "total": 60}
    await rig.register("g", rig.stub.url, limits=limits)
    await rig.register("gs", rig.stub.url, limits={"concurrency": 1000, "total": 600, "first_byte": 60})
    await rig.warm("g.read")
    await rig.warm("gs.read")
    return [*await _slow(rig), await _bombs(rig)]


async def _slow(rig: Rig) -> list[Row]:
    """Twice in the long form: memory that the allocator retains is reused by the second wave, a leak adds up."""
    number = 1000 if rig.full else 60
    seconds = 30.0 if rig.full else 2.0
    before = _resident(rig)
    served, streams, peak, other = await _wave(rig, number, seconds)
    closed = await until(lambda: _none_stream(rig), 20)
    after = await _settled(rig)
    rows = [
        Row("G", f"{number} clients read streams of 100 MB at some 16 kB/s for {seconds:.0f} s",
            f"all are served; resident memory of 3 replicas + <= {_GROWTH // _MEGABYTE} MB; another call works",
            f"{served} served, {streams} streams at once; + {(peak - before) // _MEGABYTE} MB; other call: {other.label}",
            served == number and peak - before <= _GROWTH and other.ok),
        Row("G", "the clients disconnect", f"upstream connections are closed within 3 s; memory + <= {_GROWTH // _MEGABYTE} MB",
            f"no stream left after {closed:.1f} s; + {(after - before) // _MEGABYTE} MB", closed <= 3 and after - before <= _GROWTH),
    ]  # fmt: skip
    if rig.full:
        await _wave(rig, number, 5.0)
        await until(lambda: _none_stream(rig), 20)
        again = await _settled(rig)
        rows.append(
            Row("G", f"{number} more clients connect and disconnect", "memory + <= 60 MB: it is reused, not leaked",
                f"+ {(again - after) // _MEGABYTE} MB", again - after <= 60 * _MEGABYTE)
        )  # fmt: skip
    return rows


async def _wave(rig: Rig, number: int, seconds: float) -> tuple[int, int, int, Outcome]:
    """Return the clients served, the most streams at once, the peak of memory, and the outcome of a concurrent call."""
    peak, streams = _resident(rig), 0
    stop = asyncio.Event()
    readers = [asyncio.create_task(_read_slowly(rig, index, stop)) for index in range(number)]
    began = time.monotonic()
    # On a busy machine it may take longer until all streams are open.
    while time.monotonic() - began < seconds or (streams < number and time.monotonic() - began < 60):
        await asyncio.sleep(0.5)
        peak = max(peak, _resident(rig))
        streams = max(streams, rig.stub.streaming)
    async with rig.client() as client:
        other = await client.call("g.read", {"id": "beside"})
    stop.set()
    got = await asyncio.gather(*readers)
    return sum(1 for one in got if one > 0), streams, peak, other


async def _settled(rig: Rig) -> int:
    await asyncio.sleep(1)
    return _resident(rig)


async def _read_slowly(rig: Rig, index: int, stop: asyncio.Event) -> int:
    """Return the bytes read, 0 without a stream."""
    replica = rig.replicas.all[index % 3]
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", replica.port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=8192)
    body = b'{"bytes": 104857600}'
    head = (
        f"POST /tools/gs.stream/call HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {rig.replicas.key}\r\n"
        f"Accept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    received = 0
    try:
        writer.write(head.encode() + body)
        status = await reader.readline()
        while b" 200 " in status and not stop.is_set():
            data = await reader.read(8192)
            if not data:
                break
            received += len(data)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    await stop.wait()
    except OSError:
        pass
    finally:
        writer.transport.abort()
    return received


async def _none_stream(rig: Rig) -> bool:
    return rig.stub.streaming == 0


async def _bombs(rig: Rig) -> Row:
    number = 12 if rig.full else 3
    before = _resident(rig)
    peak = before

    async def one(index: int) -> Outcome:
        async with Client(rig.replicas.all[index % 3].url, rig.replicas.key) as client:
            return await client.call("g.bomb", {"bytes": 10_000 * _MEGABYTE})

    tasks = [asyncio.create_task(one(index)) for index in range(number)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0.1)
        peak = max(peak, _resident(rig))
    outcomes: list[Any] = [task.result() for task in tasks]
    whole = [one for one in outcomes if one.status == 200]
    return Row(
        "G", f"{number} responses of 10 MB gzip that decompress to 10 GB, limit 16 MB", "each rejected or visibly truncated; memory + <= 100 MB",
        f"{len(whole)} accepted as complete, slowest {max(one.seconds for one in outcomes):.1f} s; + {(peak - before) // _MEGABYTE} MB",
        not whole and peak - before <= 100 * _MEGABYTE,
    )  # fmt: skip


def _resident(rig: Rig) -> int:
    return sum(replica.resident() for replica in rig.replicas.all)
