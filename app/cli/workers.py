"""Several worker processes under one parent: uvicorn's supervisor, with the shutdown of `server.Server`.

It imports little, since each worker imports it before it can respond to a ping.
"""

import contextlib
import gc
import os
import signal
import time
from dataclasses import dataclass, field
from multiprocessing import resource_tracker

import structlog
import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from app.cli.listener import Listener
from app.cli.server import GatewayServer
from app.security.core_dumps import disable_core_dumps

_log = structlog.get_logger(__name__)

_POLL_SECONDS = 0.1
_PONG_SECONDS = 0.1
_UNRESPONSIVE_SECONDS = 10.0
_START_SECONDS = 120.0
_BACKOFF_MAX = 30.0
# For the last flush of the call log, which a worker bounds itself.
_LEEWAY_SECONDS = 15.0


class Worker(Process):
    """One worker process. SIGTERM stops it gracefully, SIGQUIT cancels its calls at once."""

    def __init__(
        self, config: uvicorn.Config, sockets: list[Listener], *, grace: float, seconds: float
    ) -> None:
        self._seconds = (grace, seconds)
        self._responded_at = time.monotonic()
        self._ping_pending = self._was_ready = False
        super().__init__(config, sockets)

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
        for listener in sockets or []:
            # It was inherited by this process, and must not be by the programs that this process starts.
            listener.set_inheritable(False)
        # The parent process has blocked it for the imports, see `Workers._new`; it stops this process itself.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGQUIT, lambda *_: self.server.stop_now())
        super().target(sockets)

    def is_responsive(self) -> bool:
        """Return whether the process runs and responds to pings.

        A starting one gets more time: on a busy machine its imports alone take longer than a ping may take.
        """
        if not self.process.is_alive():
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
        if self.pid is not None and self.process.is_alive():
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
        process = self.processes[index]
        process.kill()
        process.join()
        _log.warning("a worker has ended and is restarted", process=process.pid, code=process.exitcode)
        self._backoff.missing.add(index)
        if process.exitcode != STARTUP_FAILURE:
            self._backoff.seconds = 0.0
        elif self._was_ready:
            self._backoff.failed()
        else:
            self.started = False
            self.should_exit.set()

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
        for process in self.processes:
            if process.process.is_alive():
                _log.warning("a worker did not end in time and is killed", process=process.pid)
            process.kill()
            process.join()

    def _send(self, number: signal.Signals) -> None:
        for process in self._workers():
            process.send(number)

    def _workers(self) -> list[Worker]:
        return [process for process in self.processes if isinstance(process, Worker)]

    def _wait(self, *, deadline: float) -> None:
        """Wait for the end of all workers, at most until `deadline`; pass on a second signal."""
        while time.monotonic() < deadline and any(one.process.is_alive() for one in self.processes):
            if self.signal_queue:
                self.signal_queue.clear()
                self._send(signal.SIGQUIT)
            time.sleep(_POLL_SECONDS)
