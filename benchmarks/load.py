"""The load generator: HTTP/1.1 keep-alive connections, in a process of its own so that its cost is separate.

The first line of standard input is {"port", "requests": [{"method", "target", "headers", "body"}], "expect",
"status"}; a GET has no body. A header value @a-different-number@ is replaced by a new number in each call.
Each further line is an order, and when it is done one line of JSON is printed:

{"calls", "connections"}: a closed loop, where each connection sends as soon as it has its response; prints
{"seconds"}.

{"calls", "connections", "rate"}: an open loop, where calls are due at a constant rate, whatever the server
does, and the time of each counts from when it was due (no coordinated omission); prints milliseconds: {"p50",
"p99", "longest"}.
"""

import asyncio
import sys
import threading
import time
from itertools import count
from typing import Any

import orjson
import uvloop

# The thread that schedules calls must not wait five milliseconds for the interpreter.
_SWITCH_SECONDS = 0.0002
_UNIQUE = b"@a-different-number@"


class UnexpectedResponse(Exception):
    """Raised for a response that is not the expected one."""


class Load:
    """The requests to send, and the port to send them to."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._port = int(plan["port"])
        self._expect = plan["expect"].encode()
        self._status = b"http/1.1 %d " % plan["status"]
        self._requests = [_request(one) for one in plan["requests"]]
        self._unique = time.time_ns()

    async def closed(self, *, calls: int, connections: int) -> dict[str, float]:
        """Run a closed loop: as fast as the server responds."""
        numbers = count()
        began = time.perf_counter()
        await asyncio.gather(*(self._run_closed(numbers, calls) for _ in range(connections)))
        return {"seconds": time.perf_counter() - began}

    async def open(self, *, calls: int, connections: int, rate: float) -> dict[str, float]:
        """Run an open loop at `rate` calls a second."""
        due: asyncio.Queue[tuple[int, float] | None] = asyncio.Queue()
        taken: list[float] = []
        loop = asyncio.get_running_loop()
        workers = [asyncio.create_task(self._run_open(due, taken)) for _ in range(connections)]
        await asyncio.sleep(0.1)

        def pace() -> None:
            # uvloop's timers have a resolution of milliseconds.
            began = time.perf_counter()
            for number in range(calls):
                at = began + number / rate
                while (wait := at - time.perf_counter()) > 0:
                    time.sleep(wait)
                loop.call_soon_threadsafe(due.put_nowait, (number, at))
            for _ in range(connections):
                loop.call_soon_threadsafe(due.put_nowait, None)

        thread = threading.Thread(target=pace, daemon=True)
        thread.start()
        await asyncio.gather(*workers)
        taken.sort()
        return {
            "p50": taken[len(taken) // 2] * 1e3,
            "p99": taken[min(len(taken) - 1, len(taken) * 99 // 100)] * 1e3,
            "longest": taken[-1] * 1e3,
        }

    async def _run_closed(self, numbers: Any, calls: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        for number in numbers:
            if number >= calls:
                break
            await self._call(reader, writer, number)
        writer.close()

    async def _run_open(self, due: "asyncio.Queue[tuple[int, float] | None]", taken: list[float]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        while (one := await due.get()) is not None:
            number, at = one
            await self._call(reader, writer, number)
            taken.append(time.perf_counter() - at)
        writer.close()

    async def _call(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        request = self._requests[number % len(self._requests)]
        if _UNIQUE in request:
            self._unique += 1
            request = request.replace(_UNIQUE, b"%0*d" % (len(_UNIQUE), self._unique))
        writer.write(request)
        head, body = await _read_response(reader)
        if not head.startswith(self._status) or self._expect not in body:
            raise UnexpectedResponse(f"{head.decode()}{body[:2000].decode(errors='replace')}")


async def _read_response(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return a complete response: its head in lower case, and its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = head.find(b"content-length:")
    if length >= 0:
        return head, await reader.readexactly(int(head[length + 15 : head.index(b"\r\n", length)]))
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return head, body


def _request(one: dict[str, Any]) -> bytes:
    has_body = one["method"] != "GET"
    body = orjson.dumps(one["body"]) if has_body else b""
    lines = [
        f"{one['method']} {one['target']} HTTP/1.1",
        *(f"{name}: {value}" for name, value in one["headers"].items()),
        "Host: 127.0.0.1",
    ]
    if has_body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def main() -> None:
    """Carry out orders until standard input ends."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    load = Load(orjson.loads(sys.stdin.readline()))
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = orjson.loads(line)
        done = await (load.open(**order) if "rate" in order else load.closed(**order))
        print(orjson.dumps(done).decode(), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
