"""Requests with invalid API keys, without a pause, on many connections, in a process of its own so that it does not delay
the fault proxies and the measurement. After SIGTERM it prints the statuses that it got as JSON.

    python -m tests.faults.invalid_key_load '{"host": "127.0.0.1", "port": 8000, "connections": 300, "addresses": 1, "key_id": ""}'

`addresses` is from how many addresses of 127.1.0.0/16 the connections come (0: from 127.0.0.1), `key_id` the id that all
keys have (empty: a new one each time). Format and checksum of all keys are correct.
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


def invalid_key(key_id: str) -> str:
    """Return a key that was never created, with a correct format and checksum."""
    body = f"{PREFIX}_{key_id or _letters(ID_LENGTH)}_{_letters(SECRET_LENGTH)}"
    return body + _checksum(body)


def _letters(number: int) -> str:
    return "".join(random.choices(ALPHABET, k=number))


class InvalidKeyLoad:
    """The connections and the statuses of their responses."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.statuses: Counter[str] = Counter()
        self.delayed = 0
        """Responses with Retry-After."""
        self._options = options

    async def connection(self, number: int) -> None:
        """Open one connection after the other, each until the server closes it."""
        addresses = self._options["addresses"]
        index = number % addresses if addresses else 0
        local = (f"127.1.{index // 250}.{index % 250 + 1}", 0) if addresses else None
        while True:
            try:
                reader, writer = await asyncio.open_connection(
                    self._options["host"], self._options["port"], local_addr=local
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
        key = invalid_key(self._options["key_id"])
        writer.write(
            f"POST /tools/s.read/call HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {key}\r\n"
            "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}".encode()
        )
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        self.statuses[head[9:12].decode()] += 1
        self.delayed += b"\r\nretry-after:" in head
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)


async def main(options: dict[str, Any]) -> None:
    """Send requests until SIGTERM, then print the result."""
    invalid_key_load = InvalidKeyLoad(options)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    began = time.monotonic()
    tasks = [
        asyncio.create_task(invalid_key_load.connection(number)) for number in range(options["connections"])
    ]
    print("started", flush=True)
    await stop.wait()
    seconds = time.monotonic() - began
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(
        json.dumps(
            {"statuses": invalid_key_load.statuses, "delayed": invalid_key_load.delayed, "seconds": seconds}
        )
    )


if __name__ == "__main__":
    uvloop.run(main(json.loads(sys.argv[1])))
