"""A TCP proxy that injects faults on request, modelled on the toxics of Shopify's toxiproxy, which is not on PyPI.

A `Toxic` begins after a number of bytes in its direction, so that a proxy can break a connection while it is opened,
within a request, within the headers of a response, or within its body. Changes apply to open connections, too.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

Kind = Literal["latency", "bandwidth", "slicer", "limit_data", "slow_close", "timeout", "reset_peer", "down"]
Direction = Literal["up", "down"]

KINDS: tuple[Kind, ...] = (
    "latency", "bandwidth", "slicer", "limit_data", "slow_close", "timeout", "reset_peer", "down",
)  # fmt: skip

_CHUNK = 64 << 10
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing sends RST."""


@dataclass(frozen=True, slots=True)
class Toxic:
    """A fault of the bytes in one direction (`up`: to the server) after the first `after` bytes of a connection.

    `value`: seconds for latency and slow_close; bytes a second for bandwidth; bytes of a chunk for slicer; bytes that
    still pass for limit_data. `timeout` holds all data back; `reset_peer` sends RST in both directions; `down` does so,
    and refuses new connections from then on.
    """

    kind: Kind
    direction: Direction = "down"
    after: int = 0
    value: float = 0.0


class FaultProxy:
    """Listens on a port of 127.0.0.1 and forwards to `target`: a host and a port, or the path of a Unix socket."""

    def __init__(self, target: tuple[str, int] | str) -> None:
        self.target = target
        self.port = 0
        self.accepted = 0
        """The number of connections since the start."""
        self._toxic: Toxic | None = None
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}

    def __len__(self) -> int:
        """Return the number of open connections."""
        return len(self._open)

    @property
    def address(self) -> str:
        """`127.0.0.1:<port>`."""
        return f"127.0.0.1:{self.port}"

    def poison(self, toxic: Toxic | None) -> None:
        """Apply a toxic from now on; None removes it, and forwards the data that was held back."""
        self._toxic = toxic
        self._changed.set()
        self._changed = asyncio.Event()

    async def start(self) -> None:
        """Start listening, on the same port as before if there was one."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=1024)
            self.port = int(self._server.sockets[0].getsockname()[1])

    async def refuse(self) -> None:
        """Stop listening: new connections are refused. Open ones stay open."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    async def cut(self) -> None:
        """Refuse new connections and reset open ones."""
        await self.refuse()
        self.reset()

    async def heal(self) -> None:
        """Remove the toxic and listen again."""
        self.poison(None)
        await self.start()

    def reset(self) -> None:
        """Reset every open connection at both ends."""
        for writers in list(self._open.values()):
            for writer in writers:
                _reset(writer)

    async def aclose(self) -> None:
        """Stop listening, reset all connections and wait until they are closed."""
        await self.cut()
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        ends = self._open[task] = [writer]
        pumps: list[asyncio.Task[None]] = []
        try:
            toxic = self._toxic
            if toxic is not None and toxic.after == 0 and toxic.kind in ("reset_peer", "down", "timeout"):
                await self._break(toxic, ends)
            server_reader, server_writer = await self._dial()
            ends.append(server_writer)
            pumps = [
                asyncio.ensure_future(self._pump("up", reader, server_writer, ends)),
                asyncio.ensure_future(self._pump("down", server_reader, writer, ends)),
            ]
            await asyncio.gather(*pumps)
        except _EndOfConnection:
            pass
        except (OSError, RuntimeError, asyncio.CancelledError):
            for end in ends:
                _reset(end)
        finally:
            for pump in pumps:
                pump.cancel()
            for end in ends:
                end.close()
            del self._open[task]

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self.target, str):
            return await asyncio.open_unix_connection(self.target)
        return await asyncio.open_connection(*self.target)

    async def _pump(
        self,
        direction: Direction,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ends: list[asyncio.StreamWriter],
    ) -> None:
        """Forward data; the current toxic may delay or hold it back, or break the connection."""
        passed = 0
        while data := await reader.read(_CHUNK):
            toxic = self._toxic if self._toxic is not None and self._toxic.direction == direction else None
            clean = len(data) if toxic is None else min(len(data), max(0, toxic.after - passed))
            if clean:
                writer.write(data[:clean])
                await writer.drain()
                passed += clean
            if toxic is not None and passed >= toxic.after:
                rest = data[clean:]
                await self._apply(toxic, rest, writer, ends, over=passed - toxic.after)
                passed += len(rest)
        toxic = self._toxic
        if toxic is not None and toxic.direction == direction and toxic.kind == "slow_close":
            await asyncio.sleep(toxic.value)
        if writer.can_write_eof():
            writer.write_eof()

    async def _apply(
        self,
        toxic: Toxic,
        data: bytes,
        writer: asyncio.StreamWriter,
        ends: list[asyncio.StreamWriter],
        *,
        over: int,
    ) -> None:
        """Send `data`, which begins `over` bytes after the point where the toxic starts, as the toxic prescribes."""
        if toxic.kind == "limit_data":
            writer.write(data[: max(0, int(toxic.value) - over)])
            await writer.drain()
            if over + len(data) >= toxic.value:
                raise _EndOfConnection
            return
        if toxic.kind in ("timeout", "reset_peer", "down"):
            await self._break(toxic, ends)
        elif toxic.kind == "latency" and data:
            await asyncio.sleep(toxic.value)
        step = {"bandwidth": toxic.value / 20, "slicer": toxic.value}.get(toxic.kind, _CHUNK)
        pause = {"bandwidth": 1 / 20, "slicer": 0.001}.get(toxic.kind, 0.0)
        size = max(1, int(step))
        for begin in range(0, len(data), size):
            writer.write(data[begin : begin + size])
            await writer.drain()
            if pause and self._toxic is toxic:
                await asyncio.sleep(pause)

    async def _break(self, toxic: Toxic, ends: list[asyncio.StreamWriter]) -> None:
        if toxic.kind == "timeout":
            while self._toxic is toxic:
                await self._changed.wait()
            return
        if toxic.kind == "down":
            await self.refuse()
        for end in ends:
            _reset(end)
        raise ConnectionResetError


class _EndOfConnection(Exception):
    """Raised to close both sides of the connection without RST."""


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None and not writer.is_closing():
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


@asynccontextmanager
async def proxied(target: tuple[str, int] | str, toxic: Toxic | None = None) -> AsyncIterator[FaultProxy]:
    """Run a proxy until the block ends."""
    proxy = FaultProxy(target)
    proxy.poison(toxic)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.aclose()
