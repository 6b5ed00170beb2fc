"""What one call costs with each HTTP client: `python -m benchmarks.clients CLIENT UPSTREAM CALLS WARM_UP`.

CLIENT is aiohttp, httpx2 or httpx; 8 calls at a time on uvloop. Prints the CPU microseconds of one call.
"""

import asyncio
import resource
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import aiohttp
import httpx
import httpx2
import uvloop

from benchmarks.shape import KEY, KEY_HEADER, RESPONSE_BODY

_CONNECTIONS = 8
Call = Callable[[], Awaitable[bytes]]


async def create_call(name: str, url: str, stack: AsyncExitStack) -> Call:
    """A function that makes one call with the named client."""
    query, headers = {"q": "sea", "limit": "10"}, {KEY_HEADER: KEY}
    if name == "aiohttp":
        session = await stack.enter_async_context(aiohttp.ClientSession())

        async def with_aiohttp() -> bytes:
            async with session.get(url, params=query, headers=headers) as response:
                return await response.read()

        return with_aiohttp
    kind = {"httpx": httpx.AsyncClient, "httpx2": httpx2.AsyncClient}[name]
    client = await stack.enter_async_context(kind(trust_env=False))

    async def with_httpx() -> bytes:
        return bytes((await client.get(url, params=query, headers=headers)).content)

    return with_httpx


async def drive(call: Call, calls: int) -> None:
    """`calls` calls, eight at a time."""
    numbers = iter(range(calls))

    async def one_after_another() -> None:
        for _ in numbers:
            if await call() != RESPONSE_BODY:
                raise SystemExit("an unexpected response")

    await asyncio.gather(*(one_after_another() for _ in range(_CONNECTIONS)))


def cpu_seconds() -> float:
    """User and system time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def main() -> None:
    """Warm up, measure."""
    name, upstream = sys.argv[1:3]
    calls, warm_up = map(int, sys.argv[3:5])
    async with AsyncExitStack() as stack:
        call = await create_call(name, f"{upstream}/t0/items/42", stack)
        await drive(call, warm_up)
        before = cpu_seconds()
        await drive(call, calls)
        print((cpu_seconds() - before) / calls * 1e6)


if __name__ == "__main__":
    uvloop.run(main())
