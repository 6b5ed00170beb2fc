"""What a message between two workers costs through Redis: streams, as the gateway uses them, and pub/sub.

    python -m benchmarks.command_relay [round trips]

Two asyncio clients of one Valkey exchange messages of 300 bytes (a sealed command), and so do 32 at once. The
figures are the time of a round trip, and the CPU time of this process and of the server for each.
"""

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import psutil
from redis.asyncio import Redis

from app.core.background import cancel_tasks
from app.storage.redis import connect
from tests.harness.valkey import OwnValkey, own_valkey

_BODY = os.urandom(300)
_AT_ONCE = 32
_Exchange = Callable[[int], Awaitable[None]]


class _Waiting:
    """Messages that were sent, and the futures of their responses."""

    def __init__(self) -> None:
        self.futures: dict[bytes, asyncio.Future[None]] = {}

    def take(self, data: bytes) -> None:
        self.futures.pop(data[:8]).set_result(None)

    def sent(self, number: int) -> tuple[bytes, asyncio.Future[None]]:
        name = number.to_bytes(8, "big")
        future = self.futures[name] = asyncio.get_running_loop().create_future()
        return name + _BODY, future


async def _read_stream(client: Redis, name: str, take: Callable[[bytes], Any]) -> None:
    last: Any = "0-0"
    while True:
        for _, entries in cast("list[Any]", await client.xread({name: last}, count=64, block=1000) or []):
            for entry, fields in entries:
                last = entry
                found = take(fields[b"e"])
                if found is not None:
                    await found


async def _streams(first: Redis, second: Redis) -> tuple[_Exchange, list[asyncio.Task[None]]]:
    waiting = _Waiting()
    for name in ("a", "b"):
        await first.xadd(name, {b"e": b""})
        await first.xtrim(name, maxlen=0, approximate=False)
    reading = [
        asyncio.ensure_future(_read_stream(first, "a", waiting.take)),
        asyncio.ensure_future(_read_stream(second, "b", lambda data: second.xadd("a", {b"e": data}))),
    ]

    async def exchange(number: int) -> None:
        data, future = waiting.sent(number)
        await first.xadd("b", {b"e": data}, nomkstream=True)
        await future

    return exchange, reading


async def _channel(client: Redis, name: str, take: Callable[[bytes], Any]) -> asyncio.Task[None]:
    channel = client.pubsub(ignore_subscribe_messages=True)
    await channel.subscribe(name)

    async def read() -> None:
        async for message in channel.listen():
            found = take(message["data"])
            if found is not None:
                await found

    return asyncio.ensure_future(read())


async def _pubsub(first: Redis, second: Redis) -> tuple[_Exchange, list[asyncio.Task[None]]]:
    waiting = _Waiting()
    reading = [
        await _channel(first, "a", waiting.take),
        await _channel(second, "b", lambda data: second.publish("a", data)),
    ]

    async def exchange(number: int) -> None:
        data, future = waiting.sent(number)
        await first.publish("b", data)
        await future

    return exchange, reading


async def _measure(name: str, kind: Any, valkey: OwnValkey, rounds: int) -> None:
    first, second = connect(valkey.url, timeout=5), connect(valkey.url, timeout=5)
    exchange, reading = await kind(first, second)
    server = psutil.Process(valkey.process.pid)
    for number in range(200):
        await exchange(number)
    for at_once in (1, _AT_ONCE):
        times: list[float] = []
        numbers = iter(range(1_000, 1_000 + rounds))

        async def sender(numbers: Any = numbers, times: list[float] = times) -> None:
            for number in numbers:
                began = time.perf_counter()
                await exchange(number)
                times.append(time.perf_counter() - began)

        own, theirs, began = time.process_time(), sum(server.cpu_times()[:2]), time.perf_counter()
        await asyncio.gather(*(sender() for _ in range(at_once)))
        seconds = time.perf_counter() - began
        own, theirs = time.process_time() - own, sum(server.cpu_times()[:2]) - theirs
        cuts = statistics.quantiles(times, n=100)
        print(
            f"{name:8} {at_once:3} at once  p50 {cuts[49] * 1e6:6.0f} us  p99 {cuts[98] * 1e6:6.0f} us"
            f"  {rounds / seconds:7.0f}/s  CPU {own / rounds * 1e6:5.0f} us"
            f"  server {theirs / rounds * 1e6:4.0f} us"
        )
    await cancel_tasks(reading)
    await first.aclose()
    await second.aclose()


async def _main(rounds: int) -> None:
    # Twice, in turns: the first to run would pay for whatever is cold.
    for _ in range(2):
        for name, kind in (("streams", _streams), ("pub/sub", _pubsub)):
            with own_valkey() as valkey:
                await _measure(name, kind, valkey, rounds)


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000))
