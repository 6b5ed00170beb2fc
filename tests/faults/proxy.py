"""A TCP proxy that breaks on demand, after the toxics of Shopify's toxiproxy, of which no registry has a wheel.

A `Toxic` begins when so many bytes have gone its way, so that one proxy can break a connection while it is made,
within a request, within the headers of an answer, or within its body. Changes hold for open connections, too.
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
Way = Literal["up", "down"]

KINDS: tuple[Kind, ...] = (
    "latency", "bandwidth", "slicer", "limit_data", "slow_close", "timeout", "reset_peer", "down",
)  # fmt: skip

_PIECE = 64 << 10
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing sends RST."""


@dataclass(frozen=True, slots=True)
class Toxic:
    """What happens to the bytes that go `way` (`up`: to the server) after the first `after` of a connection.

    `value`: seconds for latency and slow_close; bytes a second for bandwidth; bytes a piece for slicer; bytes that
    still pass for limit_data. `timeout` keeps everything to itself; `reset_peer` sends RST both ways; `down` does so,
    and refuses new connections from then on.
    """

    kind: Kind
    way: Way = "down"
    after: int = 0
    value: float = 0.0


class FaultProxy:
    """Listens on a port of 127.0.0.1 and passes on to `target`: a host and a port, or the path of a Unix socket."""

    def __init__(self, target: tuple[str, int] | str) -> None:
        self.target = target
        self.port = 0
        self.accepted = 0
        """Connections since the start."""
        self._toxic: Toxic | None = None
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}

    def __len__(self) -> int:
        """Connections that are open."""
        return len(self._open)

    @property
    def address(self) -> str:
        """`127.0.0.1:<port>`."""
        return f"127.0.0.1:{self.port}"

    def poison(self, toxic: Toxic | None) -> None:
        """This from now on; None heals, and lets go what was held back."""
        self._toxic = toxic
        self._changed.set()
        self._changed = asyncio.Event()

    async def start(self) -> None:
        """Begins to listen, on the same port as before if there was one."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=1024)
            self.port = int(self._server.sockets[0].getsockname()[1])

    async def refuse(self) -> None:
        """Stops listening: new connections are refused. Open ones stay."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    async def cut(self) -> None:
        """Refuses, and resets what is open."""
        await self.refuse()
        self.reset()

    async def heal(self) -> None:
        """No toxic, and listening again."""
        self.poison(None)
        await self.start()

    def reset(self) -> None:
        """Resets every open connection, at both ends."""
        for writers in list(self._open.values()):
            for writer in writers:
                _reset(writer)

    async def aclose(self) -> None:
        """Resets everything and waits until it is gone."""
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
        except _Ended:
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
        way: Way,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ends: list[asyncio.StreamWriter],
    ) -> None:
        """Passes on what comes; the toxic of the moment may hold it back, thin it out or break the connection."""
        passed = 0
        while data := await reader.read(_PIECE):
            toxic = self._toxic if self._toxic is not None and self._toxic.way == way else None
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
        if toxic is not None and toxic.way == way and toxic.kind == "slow_close":
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
        """Sends `data`, which begins `over` bytes after the toxic did, in the toxic's way."""
        if toxic.kind == "limit_data":
            writer.write(data[: max(0, int(toxic.value) - over)])
            await writer.drain()
            if over + len(data) >= toxic.value:
                raise _Ended
            return
        if toxic.kind in ("timeout", "reset_peer", "down"):
            await self._break(toxic, ends)
        elif toxic.kind == "latency" and data:
            await asyncio.sleep(toxic.value)
        step = {"bandwidth": toxic.value / 20, "slicer": toxic.value}.get(toxic.kind, _PIECE)
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


class _Ended(Exception):
    """Both sides of the connection are to be closed in order."""


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None and not writer.is_closing():
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


@asynccontextmanager
async def proxied(target: tuple[str, int] | str, toxic: Toxic | None = None) -> AsyncIterator[FaultProxy]:
    """A running proxy, closed with the block."""
    proxy = FaultProxy(target)
    proxy.poison(toxic)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.aclose()
