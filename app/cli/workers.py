"""Several worker processes under one parent: uvicorn's supervisor, with the stop of `server.Server`.

It imports little, since each worker loads this before it can say that it lives.
"""

import contextlib
import os
import signal
import time
from dataclasses import dataclass, field

import structlog
import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from app.cli.listener import Listener
from app.cli.server import Server
from app.security.dumps import disable_core_dumps

_log = structlog.get_logger(__name__)

_LOOK_SECONDS = 0.1
_ANSWER_SECONDS = 0.1
_SILENT_SECONDS = 10.0
_START_SECONDS = 120.0
_LONGEST_PAUSE = 30.0
# For the last flush of the audit, which a worker bounds itself.
_LEEWAY_SECONDS = 15.0


class Worker(Process):
    """One worker process. SIGTERM stops it, SIGQUIT ends its calls at once."""

    def __init__(
        self, config: uvicorn.Config, sockets: list[Listener], *, grace: float, seconds: float
    ) -> None:
        self._seconds = (grace, seconds)
        self._seen = time.monotonic()
        self._asked = self._served = False
        super().__init__(config, sockets)

    @property
    def server(self) -> Server:
        """The server, made in the worker itself."""
        if not isinstance(self._server, Server):
            grace, seconds = self._seconds
            self._server = Server(self.config, grace_seconds=grace, shutdown_seconds=seconds, supervised=True)
        return self._server

    def target(self, sockets: list[Listener] | None = None) -> None:
        """What the process does."""
        disable_core_dumps()
        signal.signal(signal.SIGQUIT, lambda *_: self.server.end_now())
        super().target(sockets)

    def lives(self) -> bool:
        """Whether it runs and answers. One that starts takes its time: on a busy machine its imports alone
        take longer than the answer of one that is at work may.
        """
        if not self.process.is_alive():
            return False
        now = time.monotonic()
        with contextlib.suppress(OSError, EOFError):
            # One question at a time: the answers to those that were put while it started would all be late.
            if not self._asked:
                self.parent_conn.send(b"ping")
                self._asked = True
            if self.parent_conn.poll(_ANSWER_SECONDS):
                self._served = bool(self.parent_conn.recv()) or self._served
                self._asked = False
                self._seen = now
        return now - self._seen < (_SILENT_SECONDS if self._served else _START_SECONDS)

    @property
    def served(self) -> bool:
        """Whether it was ever ready."""
        return self._served

    def send(self, number: signal.Signals) -> None:
        """Sends a signal, if the process still runs."""
        if self.pid is not None and self.process.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


@dataclass(slots=True)
class _Restarts:
    """Pauses before a worker is started again: one that cannot start must not take the others' time."""

    pause: float = 0.0
    due: float = 0.0
    missing: set[int] = field(default_factory=set)

    def failed(self) -> None:
        self.pause = min(max(self.pause * 2, 1.0), _LONGEST_PAUSE)
        self.due = time.monotonic() + self.pause


class Workers(Multiprocess):
    """Starts the workers, starts a lost one again, and stops them together."""

    def __init__(
        self, config: uvicorn.Config, sockets: list[Listener], *, grace: float, seconds: float
    ) -> None:
        super().__init__(config, sockets)
        self._grace = grace
        self._seconds = seconds
        self._restarts = _Restarts()
        self._served = False
        self.started = True
        """Whether the first workers could start."""

    def init_processes(self) -> None:
        """Starts all workers."""
        self.processes = [self._new() for _ in range(self.processes_num)]

    def run(self) -> None:
        """Returns when all workers have ended."""
        self.init_processes()
        looked = time.monotonic()
        while not self.should_exit.wait(_LOOK_SECONDS):
            self.handle_signals()
            if time.monotonic() - looked >= 0.5:
                self.keep_subprocess_alive()
                looked = time.monotonic()
        self._stop()

    def keep_subprocess_alive(self) -> None:
        """Starts workers again that have ended, or have not answered in time.

        When the first ones cannot start, all is over; later a server may be away that will come back.
        """
        for index, process in enumerate(self._workers()):
            if self.should_exit.is_set():
                return
            if index not in self._restarts.missing:
                if process.lives():
                    self._served = self._served or process.served
                    continue
                self._bury(index)
            if time.monotonic() >= self._restarts.due and not self.should_exit.is_set():
                self._restarts.missing.discard(index)
                self.processes[index] = self._new()

    def _bury(self, index: int) -> None:
        process = self.processes[index]
        process.kill()
        process.join()
        _log.warning("a worker has ended; it is started again", process=process.pid, code=process.exitcode)
        self._restarts.missing.add(index)
        if process.exitcode != STARTUP_FAILURE:
            self._restarts.pause = 0.0
        elif self._served:
            self._restarts.failed()
        else:
            self.started = False
            self.should_exit.set()

    def handle_hup(self) -> None:
        """Nothing: replicas are replaced one by one, workers are not."""

    handle_ttin = handle_ttou = handle_hup

    def _new(self) -> Worker:
        worker = Worker(self.config, self.sockets, grace=self._grace, seconds=self._seconds)
        worker.start()
        return worker

    def _stop(self) -> None:
        self.signal_queue.clear()
        self._send(signal.SIGTERM)
        now = time.monotonic()
        self._wait(until=now + self._grace)
        # The workers have closed theirs: a connection must be refused now, not left in a queue.
        for listener in self.sockets:
            listener.close()
        self._wait(until=now + self._grace + self._seconds + _LEEWAY_SECONDS)
        for process in self.processes:
            if process.process.is_alive():
                _log.warning("a worker did not end in its time; it is killed", process=process.pid)
            process.kill()
            process.join()

    def _send(self, number: signal.Signals) -> None:
        for process in self._workers():
            process.send(number)

    def _workers(self) -> list[Worker]:
        return [process for process in self.processes if isinstance(process, Worker)]

    def _wait(self, *, until: float) -> None:
        """For the end of all workers; a second signal is passed on."""
        while time.monotonic() < until and any(one.process.is_alive() for one in self.processes):
            if self.signal_queue:
                self.signal_queue.clear()
                self._send(signal.SIGQUIT)
            time.sleep(_LOOK_SECONDS)
