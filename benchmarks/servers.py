"""Server processes to measure: started on a free port of 127.0.0.1, waited for, and stopped."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

_START_SECONDS = 60


class NotStarted(Exception):
    """Raised where a process exited, or did not listen in time; the text ends with its last output."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process has used: CPU seconds of itself and of its descendants, and its resident bytes."""

    own: float
    others: float
    resident: int


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running server."""

    port: int
    process: psutil.Process
    log: Path

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def cost(self) -> Cost:
        """Return the user and system time so far, and the resident memory."""
        own = self.process.cpu_times()
        others = 0.0
        for child in self.process.children(recursive=True):
            try:
                times = child.cpu_times()
            except psutil.Error:
                continue
            others += times.user + times.system
        # Children that have exited are counted in their parent.
        others += own.children_user + own.children_system
        return Cost(own.user + own.system, others, self.process.memory_info().rss)


@dataclass(frozen=True, slots=True)
class ServerWithPeer(ServerProcess):
    """A server that does a part of its work in another one: the cost is that of both."""

    peer: ServerProcess

    def cost(self) -> Cost:
        """Return the sums of both servers."""
        costs = ServerProcess.cost(self), self.peer.cost()
        return Cost(*(sum(getattr(one, name) for one in costs) for name in ("own", "others", "resident")))


def free_port() -> int:
    """Return a port on which no process listens at the moment."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@contextmanager
def start_server(
    arguments: Sequence[str],
    *,
    port: int,
    environment: Mapping[str, str] | None = None,
    folder: Path,
    program: str = sys.executable,
) -> Iterator[ServerProcess]:
    """Run `PROGRAM ARGUMENTS...` until the block ends, this Python by default. Raises NotStarted."""
    log = folder / f"{port}.log"
    command = [program, *arguments]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, stdout=sink, stderr=sink, env={**os.environ, **(environment or {})}, cwd=Path.cwd()
        )
    try:
        _await_port(process, port, log)
        yield ServerProcess(port, psutil.Process(process.pid), log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    lines = log.read_text(errors="replace").strip().splitlines()
    raise NotStarted(lines[-1] if lines else f"it ended with {process.poll()}")
