"""Starts the processes of `worker.py`: a new interpreter for a document, or a fork of one that is ready.

Starting an interpreter and importing the converter takes longer than converting a small document. A fork
server has done both, and has seen no document; its forks convert one document each, within the same limits
as a new process.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import structlog

import app
from app.core.background import await_uncancelled
from app.core.processes import run_child_process

_log = structlog.get_logger(__name__)
_ROOT = str(Path(app.__file__).parent.parent)
# The child gets no settings, keys or proxies, so it cannot leak any.
_PASSED_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT", "TZ", "VIRTUAL_ENV")
_STREAM_LIMIT: Final = 64 * 1024
# As for any killed process: it ends within milliseconds, unless it is stuck in the kernel.
_REAP_SECONDS: Final = 10.0


class WorkerProcess(Protocol):
    """What a conversion needs of a process: its input, its output, and its exit code."""

    @property
    def stdin(self) -> asyncio.StreamWriter | None:
        """The input."""

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        """The output."""

    async def wait(self) -> int:
        """Return the exit code once the process has been reaped; that of a signal is negative."""


WorkerStarter = Callable[[], AbstractAsyncContextManager[WorkerProcess]]
"""Returns a block that runs in possession of a process, which ends with the block, however that ends."""


def start_worker() -> AbstractAsyncContextManager[WorkerProcess]:
    """Return a block that starts a new interpreter, and ends it as `run_child_process` does."""
    return run_child_process(
        *_build_command("app.openapi.process.child"),
        env=_build_environment(os.environ),
        stdin=asyncio.subprocess.PIPE,
    )


@dataclass(slots=True)
class _Server:
    process: asyncio.subprocess.Process
    control: socket.socket
    stack: AsyncExitStack

    async def aclose(self) -> None:
        """End the server and its forks."""
        self.control.close()
        await self.stack.aclose()


@dataclass(slots=True)
class _Fork:
    """A forked process; `status` is the socket over which the server tells its exit code."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    status: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    code: int | None = None

    async def wait(self) -> int:
        """Return the exit code; that of SIGKILL where the server has ended before it told one."""
        if self.code is None:
            line = await self.status[0].readline()
            self.code = int(line) if line else -signal.SIGKILL
        return self.code

    async def end(self) -> None:
        """Kill the process unless it has ended, and wait until it has been reaped."""
        self.stdin.transport.abort()
        if self.code is None:
            with contextlib.suppress(OSError):
                self.status[1].write_eof()
            try:
                async with asyncio.timeout(_REAP_SECONDS):
                    await self.wait()
            except TimeoutError:
                _log.error("a killed conversion process has not ended")
        self.status[1].transport.abort()


class ForkServer:
    """Keeps a process of `fork_server.py`, and forks it for each document.

    While there is none (it is still being started, or somebody has ended it), documents get new interpreters.
    """

    def __init__(self) -> None:
        self._server: _Server | None = None
        self._starting: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process id of the server, None where there is none."""
        return None if self._server is None else self._server.process.pid

    async def start(self) -> None:
        """Start the server, unless there is one or it is being started; raise OSError where that fails."""
        if self._closed or self._server is not None:
            return
        control, for_server = socket.socketpair()
        control.setblocking(False)
        stack = AsyncExitStack()
        command = _build_command("app.openapi.process.server")
        try:
            with for_server:
                process = await stack.enter_async_context(
                    run_child_process(*command, env=_build_environment(os.environ), stdin=for_server.fileno())
                )
        except BaseException:
            control.close()
            raise
        self._server = _Server(process, control, stack)

    def prepare(self) -> None:
        """Start the server in the background, unless there is one or it is being started."""
        if self._closed or self._server is not None or self._starting is not None:
            return
        self._starting = asyncio.create_task(self.start())
        self._starting.add_done_callback(self._on_started)

    @asynccontextmanager
    async def process(self) -> AsyncIterator[WorkerProcess]:
        """Run the block in possession of a process for one document, which ends with the block."""
        sockets = await self._fork()
        if sockets is None:
            async with start_worker() as process:
                yield process
            return
        fork = await _connect(*sockets)
        try:
            yield fork
        finally:
            await await_uncancelled(asyncio.create_task(fork.end()))

    async def aclose(self) -> None:
        """End the server; start no further one."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        server, self._server = self._server, None
        if server is not None:
            await server.aclose()

    async def _fork(self) -> tuple[socket.socket, socket.socket] | None:
        """Return the sockets of a new fork: that of its document, and that of its exit code."""
        server = self._server
        if server is None:
            self.prepare()
            return None
        data, forks_data = socket.socketpair()
        status, forks_status = socket.socketpair()
        with forks_data, forks_status:
            try:
                if server.process.returncode is not None:
                    raise BrokenPipeError
                socket.send_fds(server.control, [b"\0"], [forks_data.fileno(), forks_status.fileno()])
            except OSError:
                data.close()
                status.close()
                await self._replace(server)
                return None
        return data, status

    async def _replace(self, server: _Server) -> None:
        """Forget a server that does not respond, and start another in the background."""
        if self._server is server:
            self._server = None
            _log.warning("the fork server of conversions has ended; another is started")
            self.prepare()
            await await_uncancelled(asyncio.create_task(server.aclose()))

    def _on_started(self, task: "asyncio.Task[None]") -> None:
        self._starting = None
        if not task.cancelled() and (error := task.exception()) is not None:
            # Conversions start new interpreters, and report such an error.
            _log.warning("the fork server of conversions cannot be started", error=type(error).__name__)


async def _connect(data: socket.socket, status: socket.socket) -> _Fork:
    """Return the streams of a fork's sockets, which are closed where this is cancelled."""
    writers: list[asyncio.StreamWriter] = []
    try:
        stdout, stdin = await _open_streams(data)
        writers.append(stdin)
        return _Fork(stdin, stdout, await _open_streams(status))
    except BaseException:
        for writer in writers:
            writer.transport.abort()
        data.close()
        status.close()
        raise


async def _open_streams(end: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    end.setblocking(False)
    return await asyncio.open_unix_connection(sock=end, limit=_STREAM_LIMIT)


def _build_command(module: str) -> tuple[str, ...]:
    return sys.executable, "-m", module


def _build_environment(ours: Mapping[str, str]) -> dict[str, str]:
    passed = {name: ours[name] for name in _PASSED_ENVIRONMENT if name in ours}
    paths = [_ROOT, *(path for path in sys.path if path and path != _ROOT)]
    return {**passed, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
