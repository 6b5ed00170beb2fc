"""A process that has imported the converter and forks itself for each document: `worker_process.ForkServer`.

Its standard input is a Unix socket. Each message is one byte with two sockets (SCM_RIGHTS): over the first,
the forked process speaks the protocol of `worker.py`; over the second, the exit code of that process is sent
as a line once it has been reaped. A gateway that shuts that one down has the process killed.

The process itself never reads a document, so that no document can change what later ones meet.
"""

import contextlib
import gc
import os
import selectors
import signal
import socket
from dataclasses import dataclass, field
from typing import Final

from app.openapi.process.child import limit_files, main

_NULL: Final = os.devnull


@dataclass(slots=True)
class _Forks:
    """The forked processes that were not reaped yet, by process id, with the socket for their exit code."""

    control: socket.socket
    wake: tuple[int, int]
    selector: selectors.BaseSelector = field(default_factory=selectors.PollSelector)
    running: dict[int, socket.socket] = field(default_factory=dict)

    def serve(self) -> None:
        """Fork, kill and reap until the gateway closes its end of the control socket."""
        self.selector.register(self.control, selectors.EVENT_READ)
        self.selector.register(self.wake[0], selectors.EVENT_READ)
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.control:
                    if not self._accept():
                        return
                elif key.data is not None:
                    self._kill(key.data)
                else:
                    os.read(self.wake[0], 4096)
            self._reap()

    def end(self) -> None:
        """Kill all processes."""
        for pid in self.running:
            os.kill(pid, signal.SIGKILL)

    def _accept(self) -> bool:
        """Fork a process for the next document; return False at the end of the control socket."""
        message, descriptors, _, _ = socket.recv_fds(self.control, 1, 2)
        if not message:
            return False
        if len(descriptors) < 2:
            for descriptor in descriptors:
                os.close(descriptor)
            return True
        data, status = descriptors
        try:
            pid = os.fork()
        except OSError:
            # Without a process there is no exit code: the gateway reads the end of the stream.
            os.close(data)
            os.close(status)
            return True
        if pid == 0:
            self._convert(data, status)
        os.close(data)
        self.running[pid] = socket.socket(fileno=status)
        self.selector.register(self.running[pid], selectors.EVENT_READ, data=pid)
        return True

    def _convert(self, data: int, status: int) -> None:
        """Convert one document in the forked process, and end it. Of all descriptors it keeps `data` only."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for descriptor in (status, *self.wake):
                os.close(descriptor)
            self.control.close()
            for other in self.running.values():
                other.close()
            with os.fdopen(data, "rb", closefd=False) as incoming, os.fdopen(data, "wb") as outgoing:
                main(incoming, outgoing)
            code = 0
        finally:
            # Never back into the loop of the server.
            os._exit(code)

    def _kill(self, pid: int) -> None:
        """Kill a process that is not needed any more, or whose exit code nobody reads."""
        if pid in self.running:
            self.selector.unregister(self.running[pid])
            os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        while self.running:
            pid, wait_status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            status = self.running.pop(pid)
            if status in self.selector.get_map():
                self.selector.unregister(status)
            # It may be that nobody waits for it any more.
            with contextlib.suppress(OSError):
                status.send(b"%d\n" % os.waitstatus_to_exitcode(wait_status))
            status.close()


def serve() -> None:
    """Serve the control socket that is standard input."""
    limit_files()
    # With uvloop a process inherits whatever was not marked otherwise.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    control = socket.socket(fileno=os.dup(0))
    null = os.open(_NULL, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.close(null)
    wake = os.pipe()
    for end in wake:
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake[1], warn_on_full_buffer=False)
    # Without a handler, the signal is ignored and wakes nothing.
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    gc.collect()
    # The collector writes into every object it visits; unvisited, they stay shared with the forked processes.
    gc.freeze()
    forks = _Forks(control, wake)
    try:
        forks.serve()
    finally:
        forks.end()


if __name__ == "__main__":
    serve()
