"""Requests with keys that are not valid, without a pause, on many connections: in a process of its own, so that the fault
proxies and whoever measures do not wait for it. Ended by SIGTERM, it says as JSON which statuses it got.

    python -m tests.faults.hammer '{"host": "127.0.0.1", "port": 8000, "connections": 300, "addresses": 1, "key_id": ""}'

`addresses` is from how many addresses of 127.1.0.0/16 the connections come (0: from 127.0.0.1), `key_id` the id that all
keys have (empty: another one each time). Format and checksum of all keys are right.
"""

import asyncio
import contextlib
import json
import random
import signal
import sys
import time
from collections import Counter
from typing import Any

import uvloop

from app.security.keys import ALPHABET, ID_LENGTH, PREFIX, SECRET_LENGTH, _checksum


def made_up(key_id: str) -> str:
    """A key that nobody has ever created."""
    body = f"{PREFIX}_{key_id or _letters(ID_LENGTH)}_{_letters(SECRET_LENGTH)}"
    return body + _checksum(body)


def _letters(number: int) -> str:
    return "".join(random.choices(ALPHABET, k=number))


class Hammer:
    """The connections."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.statuses: Counter[str] = Counter()
        self.delayed = 0
        """Responses with Retry-After."""
        self._order = order

    async def connection(self, number: int) -> None:
        """One connection after the other, each for as long as the server lets it live."""
        addresses = self._order["addresses"]
        place = number % addresses if addresses else 0
        local = (f"127.1.{place // 250}.{place % 250 + 1}", 0) if addresses else None
        while True:
            try:
                reader, writer = await asyncio.open_connection(
                    self._order["host"], self._order["port"], local_addr=local
                )
            except OSError:
                self.statuses["unreachable"] += 1
                await asyncio.sleep(0.2)
                continue
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while True:
                    await self._request(reader, writer)
            self.statuses["broken"] += 1
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        key = made_up(self._order["key_id"])
        writer.write(
            f"POST /tools/s.read/call HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {key}\r\n"
            "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}".encode()
        )
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        self.statuses[head[9:12].decode()] += 1
        self.delayed += b"\r\nretry-after:" in head
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)


async def main(order: dict[str, Any]) -> None:
    """Until SIGTERM."""
    hammer = Hammer(order)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    began = time.monotonic()
    tasks = [asyncio.create_task(hammer.connection(number)) for number in range(order["connections"])]
    print("begun", flush=True)
    await stop.wait()
    seconds = time.monotonic() - began
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(json.dumps({"statuses": hammer.statuses, "delayed": hammer.delayed, "seconds": seconds}))


if __name__ == "__main__":
    uvloop.run(main(json.loads(sys.argv[1])))
