"""Attacks on an HTTP server with data before, around and after requests, in a process of their own.

`python -m tests.faults.edge_attacks NAME HOST PORT SECONDS` runs one for SECONDS. They come from
127.0.0.2 and the addresses after it, which are not trusted proxies.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Awaitable, Callable, Iterator

_BLOCK = 1 << 20
_AT_ONCE = 4
_PAUSE = 0.05
_CONNECTIONS = 3000
# Connections that are opened per second: the attack is that they stay open.
_RATE = 750
_HEAD = b"GET /health/live HTTP/1.1\r\nHost: x\r\n"
_CHUNKED = b"POST /tools/none/call HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
_SMALL = b"".join(b"a%05d: b\r\n" % number for number in range(_BLOCK // 11))


def _value() -> Iterator[bytes]:
    yield _HEAD + b"A: "
    yield from [b"v" * _BLOCK] * 64


def _headers() -> Iterator[bytes]:
    yield _HEAD
    yield from [_SMALL] * 48


def _url() -> Iterator[bytes]:
    yield b"GET /"
    yield from [b"u" * _BLOCK] * 48


def _trailers() -> Iterator[bytes]:
    yield _CHUNKED + b"0\r\n"
    yield from [_SMALL] * 48


def _extension() -> Iterator[bytes]:
    yield _CHUNKED + b"1;"
    yield from [b"e" * _BLOCK] * 48


def _chunks() -> Iterator[bytes]:
    yield _CHUNKED
    yield from [b"1\r\n0\r\n" * (_BLOCK // 6)] * 48


def _pipelined() -> Iterator[bytes]:
    yield from [(_HEAD + b"\r\n") * (_BLOCK // 40)] * 48


def _late_body() -> Iterator[bytes]:
    yield b"POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 900000000\r\n\r\n"
    yield from [b"z" * _BLOCK] * 48


_SENT: dict[str, Callable[[], Iterator[bytes]]] = {
    "64 MB header value": _value,
    "48 MB of small headers": _headers,
    "48 MB URL": _url,
    "48 MB of trailers": _trailers,
    "48 MB chunk extension": _extension,
    "48 MB in chunks of one byte": _chunks,
    "48 MB of pipelined requests": _pipelined,
    "48 MB of body after its response": _late_body,
}


class Attack:
    """One attack on a server, which has sent `sent` bytes over `opened` connections."""

    def __init__(self, host: str, port: int, seconds: float) -> None:
        self._host, self._port = host, port
        self._end = time.monotonic() + seconds
        self.opened = self.sent = 0

    async def run(self, name: str) -> None:
        """Attack until the time has passed."""
        connections: dict[str, Callable[[int], Awaitable[None]]] = {
            "3,000 unfinished heads": self._unfinished,
            "3,000 idle connections": self._idle,
            "3,000 silent connections": self._silent,
        }
        if name in connections:
            await asyncio.gather(*(connections[name](number) for number in range(_CONNECTIONS)))
        else:
            await asyncio.gather(*(self._flood(name) for _ in range(_AT_ONCE)))

    async def _open(self, number: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        source = (f"127.0.0.{2 + number // 1000}", 0)
        self.opened += 1
        return await asyncio.open_connection(self._host, self._port, local_addr=source)

    async def _flood(self, name: str) -> None:
        while time.monotonic() < self._end:
            with contextlib.suppress(ConnectionError):
                _, writer = await self._open()
                try:
                    for piece in _SENT[name]():
                        writer.write(piece)
                        # A server that does not read blocks us here.
                        async with asyncio.timeout(max(self._end - time.monotonic(), 0.01)):
                            await writer.drain()
                        self.sent += len(piece)
                except (ConnectionError, TimeoutError):
                    pass
                finally:
                    writer.transport.abort()
            await asyncio.sleep(_PAUSE)

    async def _hold(self, number: int, first: bytes, more: bytes) -> None:
        """Open a connection repeatedly, and send a byte a second over it."""
        await asyncio.sleep(number / _RATE)
        while time.monotonic() < self._end:
            with contextlib.suppress(OSError):
                reader, writer = await self._open(number)
                try:
                    writer.write(first)
                    while not more and time.monotonic() < self._end and not reader.at_eof():
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(max(self._end - time.monotonic(), 0.01)):
                                await reader.read(4096)
                    while more and time.monotonic() < self._end and not reader.at_eof():
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(1):
                                await reader.read(4096)
                        writer.write(more)
                        self.sent += len(more)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(1)

    async def _unfinished(self, number: int) -> None:
        await self._hold(number, _HEAD + b"A: " + b"v" * 1000, b"v")

    async def _idle(self, number: int) -> None:
        await self._hold(number, _HEAD + b"\r\n", b"")

    async def _silent(self, number: int) -> None:
        await self._hold(number, b"", b"")


ATTACKS = (
    *_SENT,
    "3,000 unfinished heads",
    "3,000 idle connections",
    "3,000 silent connections",
)
"""The names of the attacks."""


if __name__ == "__main__":
    attack = Attack(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    asyncio.run(attack.run(sys.argv[1]))
    print(f"{attack.opened} connections, {attack.sent >> 20} MB", flush=True)
