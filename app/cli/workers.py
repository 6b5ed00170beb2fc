"""Several worker processes under one parent: uvicorn's supervisor, with the shutdown of `server.Server`.

On Linux they are forked from a process that has imported the gateway, so that a further worker costs neither
the time nor the memory of its imports, and one that is restarted serves within a second. Elsewhere, where
forking is less safe, each is an interpreter of its own.
"""

import contextlib
import gc
import multiprocessing
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from typing import Final

import structlog
import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from app.cli.listener import Listener
from app.cli.server import GatewayServer
from app.cli.work_threads import EXIT_SECONDS, end_within
from app.security.core_dumps import disable_core_dumps

_log = structlog.get_logger(__name__)


def _choose_start() -> ForkServerContext | SpawnContext:
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["app.cli.worker_imports"])
    return context


START: Final = _choose_start()
"""How worker processes are started."""

_POLL_SECONDS = 0.1
_PONG_SECONDS = 0.1
_UNRESPONSIVE_SECONDS = 10.0
_START_SECONDS = 120.0
_BACKOFF_MAX = 30.0
_KILL_SECONDS = 5.0
# For the last flush of the call log, which a worker bounds itself.
_LEEWAY_SECONDS = 15.0


@contextmanager
def _restrict_modules() -> Iterator[None]:
    """Let an interpreter that is started meanwhile import the gateway that runs here, and nothing from the
    current directory, which may have an `app` of its own.
    """
    root = str(Path(__file__).parents[2])
    set_here = {
        "PYTHONSAFEPATH": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH")))),
    }
    before = {name: os.environ.get(name) for name in set_here}
    os.environ |= set_here
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class Worker(Process):
    """One worker process. SIGTERM stops it gracefully, SIGQUIT cancels its calls at once.

    Whether it runs is asked of the kernel (pidfd_open(2)): what `multiprocessing` knows comes from the fork
    server, and a worker may outlive that one.
    """

    def __init__(
        self, config: uvicorn.Config, sockets: list[Listener], *, grace: float, seconds: float
    ) -> None:
        self._seconds = (grace, seconds)
        self._responded_at = time.monotonic()
        self._ping_pending = self._was_ready = False
        self._pidfd: int | None = None
        super().__init__(config, sockets)
        # In place of uvicorn's, which is always a new interpreter.
        self.process = START.Process(target=self.target, kwargs={"sockets": sockets})  # type: ignore[assignment]

    @property
    def server(self) -> GatewayServer:
        """The server, created in the worker process itself."""
        if not isinstance(self._server, GatewayServer):
            grace, seconds = self._seconds
            self._server = GatewayServer(
                self.config, grace_seconds=grace, shutdown_timeout=seconds, supervised=True
            )
        return self._server

    def target(self, sockets: list[Listener] | None = None) -> None:
        """Run in the worker process: serve until a signal."""
        gc.disable()
        disable_core_dumps()
        # Of its own pair of ends, so that it notices the end of the parent process.
        self.parent_conn.close()
        for listener in sockets or []:
            # It was inherited by this process, and must not be by the programs that this process starts.
            listener.set_inheritable(False)
        for number in (signal.SIGTERM, signal.SIGHUP):
            # In place of the handler of the fork server; uvicorn sends the signal once more at its end.
            signal.signal(number, signal.SIG_DFL)
        # The parent process has blocked it for the imports, see `Workers._new`; it stops this process itself.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGQUIT, lambda *_: self.server.stop_now())
        code = 0
        try:
            super().target(sockets)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
            raise
        finally:
            # A thread may still run, for which the end of the process would wait.
            end_within(EXIT_SECONDS, code)

    def start(self) -> None:
        """Start the process; where that fails, it is one that has ended."""
        try:
            if isinstance(START, ForkServerContext):
                with _restrict_modules():
                    forkserver.ensure_running()
            super().start()
            if self.process.pid is not None and hasattr(os, "pidfd_open"):
                self._pidfd = os.pidfd_open(self.process.pid)
        except (OSError, EOFError) as error:
            _log.warning("a worker could not be started", error=type(error).__name__)

    def is_running(self) -> bool:
        """Return whether the process runs."""
        return not self._wait_for_end(0)

    def _wait_for_end(self, seconds: float) -> bool:
        """Wait for at most so long, and return whether the process has ended."""
        if self._pidfd is None:
            if self.process.pid is not None:
                self.process.join(seconds)
            return self.process.pid is None or not self.process.is_alive()
        ended = select.poll()
        ended.register(self._pidfd, select.POLLIN)
        return bool(ended.poll(seconds * 1_000))

    def end(self) -> None:
        """Kill the process, if it runs, and wait for its end for at most 5 seconds."""
        if self.is_running():
            self.send(signal.SIGKILL)
            self._wait_for_end(_KILL_SECONDS)
        if self.process.pid is not None:
            self.process.join(_KILL_SECONDS)
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def always_pong(self) -> None:
        """Respond to pings, and stop once the parent process has ended: nothing else would stop this one."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                self.pong()
        os.kill(os.getpid(), signal.SIGTERM)

    def is_responsive(self) -> bool:
        """Return whether the process runs and responds to pings.

        A starting one gets more time: on a busy machine its imports alone take longer than a ping may take.
        """
        if not self.is_running():
            return False
        now = time.monotonic()
        with contextlib.suppress(OSError, EOFError):
            # One ping at a time: the responses to those sent while it started would all be late.
            if not self._ping_pending:
                self.parent_conn.send(b"ping")
                self._ping_pending = True
            if self.parent_conn.poll(_PONG_SECONDS):
                self._was_ready = bool(self.parent_conn.recv()) or self._was_ready
                self._ping_pending = False
                self._responded_at = now
        return now - self._responded_at < (_UNRESPONSIVE_SECONDS if self._was_ready else _START_SECONDS)

    @property
    def was_ready(self) -> bool:
        """Whether it was ever ready."""
        return self._was_ready

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if the process still runs."""
        if self._pidfd is not None and hasattr(signal, "pidfd_send_signal"):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)
        elif self.pid is not None and self.process.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


@dataclass(slots=True)
class _Backoff:
    """The backoff of restarts, in seconds: a worker that cannot start must not use the others' CPU time."""

    seconds: float = 0.0
    next_restart: float = 0.0
    missing: set[int] = field(default_factory=set)

    def failed(self) -> None:
        self.seconds = min(max(self.seconds * 2, 1.0), _BACKOFF_MAX)
        self.next_restart = time.monotonic() + self.seconds


class Workers(Multiprocess):
    """Starts the workers, restarts those that end, and stops all of them together."""

    def __init__(
        self, config: uvicorn.Config, sockets: list[Listener], *, grace: float, seconds: float
    ) -> None:
        super().__init__(config, sockets)
        self._grace = grace
        self._seconds = seconds
        self._backoff = _Backoff()
        self._was_ready = False
        self.started = True
        """Whether the first workers could start."""

    def init_processes(self) -> None:
        """Start as many worker processes as configured."""
        self.processes = [self._new() for _ in range(self.processes_num)]

    def run(self) -> None:
        """Run until all workers have ended."""
        self.init_processes()
        checked_at = time.monotonic()
        while not self.should_exit.wait(_POLL_SECONDS):
            self.handle_signals()
            if time.monotonic() - checked_at >= 0.5:
                self.keep_subprocess_alive()
                checked_at = time.monotonic()
        self._stop()

    def keep_subprocess_alive(self) -> None:
        """Restart workers that have ended or do not respond.

        Where the first ones cannot start, the gateway ends; later, a server that they need may come back.
        """
        for index, process in enumerate(self._workers()):
            if self.should_exit.is_set():
                return
            if index not in self._backoff.missing:
                if process.is_responsive():
                    self._was_ready = self._was_ready or process.was_ready
                    continue
                self._reap(index)
            if time.monotonic() >= self._backoff.next_restart and not self.should_exit.is_set():
                self._backoff.missing.discard(index)
                self.processes[index] = self._new()

    def _reap(self, index: int) -> None:
        process = self._workers()[index]
        process.end()
        _log.warning("a worker has ended and is restarted", process=process.pid, code=process.exitcode)
        self._backoff.missing.add(index)
        if process.exitcode == STARTUP_FAILURE and not self._was_ready:
            self.started = False
            self.should_exit.set()
        elif process.exitcode == STARTUP_FAILURE or not process.was_ready:
            self._backoff.failed()
        else:
            self._backoff.seconds = 0.0

    def handle_hup(self) -> None:
        """Ignore SIGHUP: replicas are replaced one by one, workers are not."""

    handle_ttin = handle_ttou = handle_hup

    def _new(self) -> Worker:
        worker = Worker(self.config, self.sockets, grace=self._grace, seconds=self._seconds)
        # Its own start ends with SIGINT unblocked (multiprocessing.resource_tracker), so it comes first.
        resource_tracker.ensure_running()
        # Ctrl-C reaches all processes of a terminal: one that is importing would end with a traceback.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            worker.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return worker

    def _stop(self) -> None:
        self.signal_queue.clear()
        self._send(signal.SIGTERM)
        now = time.monotonic()
        self._wait(deadline=now + self._grace)
        # The workers have closed theirs: the kernel must refuse connections now, not queue them.
        for listener in self.sockets:
            listener.close()
        self._wait(deadline=now + self._grace + self._seconds + _LEEWAY_SECONDS)
        for process in self._workers():
            if process.is_running():
                _log.warning("a worker did not end in time and is killed", process=process.pid)
            process.end()

    def _send(self, number: signal.Signals) -> None:
        for process in self._workers():
            process.send(number)

    def _workers(self) -> list[Worker]:
        return [process for process in self.processes if isinstance(process, Worker)]

    def _wait(self, *, deadline: float) -> None:
        """Wait for the end of all workers, at most until `deadline`; pass on a second signal."""
        while time.monotonic() < deadline and any(one.is_running() for one in self._workers()):
            if self.signal_queue:
                self.signal_queue.clear()
                self._send(signal.SIGQUIT)
            time.sleep(_POLL_SECONDS)
