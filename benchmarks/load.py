"""The load: HTTP/1.1 keep-alive connections in a process of its own, so that its cost is nobody else's.

Standard input is {"port", "targets", "body", "headers", "calls", "warm_up", "connections"}; it answers on
standard output with "warm" after the warm-up, waits for a line, makes the calls and answers with the wall
seconds.
"""

import asyncio
import sys
import time
from itertools import count
from typing import Any

import orjson
import uvloop


class Failed(Exception):
    """An answer that was not 200."""


async def read_answer(reader: asyncio.StreamReader) -> None:
    """One whole answer; `Failed` unless it is 200."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = head.find(b"content-length:")
    if length >= 0:
        body = await reader.readexactly(int(head[length + 15 : head.index(b"\r\n", length)]))
    else:
        body = b""
        while size := int((await reader.readline()).split(b";")[0], 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    if not head.startswith(b"http/1.1 200"):
        raise Failed(f"{head.decode()}{body.decode(errors='replace')}")


async def connection(port: int, requests: list[bytes], numbers: Any, calls: int) -> None:
    """Take call numbers until `calls` are made, one call at a time."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in numbers:
        if number >= calls:
            break
        writer.write(requests[number % len(requests)])
        await read_answer(reader)
    writer.close()


async def drive(plan: dict[str, Any], requests: list[bytes], calls: int) -> None:
    """`calls` calls over all connections."""
    numbers = count()
    tasks = (connection(plan["port"], requests, numbers, calls) for _ in range(plan["connections"]))
    await asyncio.gather(*tasks)


async def main() -> None:
    """Warm up, wait to be told, measure."""
    plan = orjson.loads(sys.stdin.readline())
    body = orjson.dumps(plan["body"])
    lines = [f"{name}: {value}" for name, value in plan["headers"].items()]
    lines += ["Host: 127.0.0.1", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    requests = [
        f"POST {target} HTTP/1.1\r\n".encode() + "\r\n".join(lines).encode() + b"\r\n\r\n" + body
        for target in plan["targets"]
    ]
    await drive(plan, requests, plan["warm_up"])
    print("warm", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    started = time.perf_counter()
    await drive(plan, requests, plan["calls"])
    print(time.perf_counter() - started, flush=True)


if __name__ == "__main__":
    uvloop.run(main())
