"""Gateways without the time of their imports: a process imports the gateway once, and forks one for each request.

A forked gateway is `utcp-gateway serve` with its own environment, folder, log and signals, but without the start of an interpreter and the
imports of the application, which take ten times as long as everything else of a start. So is the fork server of its workers, where there
are several. Tests of the start itself execute the program (`serve(..., execute=True)`).

Run as a program, it reads requests from standard input, a line of JSON each, and writes to standard output which process it forked
and which of them ended with which code. It ends, and kills what it forked, when standard input ends.
"""

import atexit
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from multiprocessing import util
from pathlib import Path
from typing import Any, NoReturn

from sqlalchemy.orm import configure_mappers

# What each gateway imports until it has responded to its first request.
_SHARED = (
    "app.main", "app.cli.main", "app.cli.root", "app.cli.serve", "app.access.access_tokens", "app.console.pages",
)  # fmt: skip


class ForkedProcess:
    """What tests use of `subprocess.Popen`, for a process that another one has forked."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = threading.Event()

    def end(self, code: int) -> None:
        """Note the exit code, or the negative number of the signal that ended the process."""
        self.returncode = code
        self._ended.set()

    def poll(self) -> int | None:
        """Return the exit code, None while the process runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code; raise subprocess.TimeoutExpired after `timeout` seconds."""
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("utcp-gateway", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if the process runs."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class GatewayForks:
    """The process that forks gateways."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.gateway_forks"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        self._lock = threading.Lock()
        self._forked = threading.Condition()
        self._running: dict[int, ForkedProcess] = {}
        self._newest: list[ForkedProcess] = []
        self._reader = threading.Thread(target=self._read, name="gateway forks", daemon=True)
        self._reader.start()
        atexit.register(self.close)

    def fork(
        self, arguments: Sequence[str], *, environment: Mapping[str, str], log: Path, folder: Path
    ) -> ForkedProcess:
        """Fork `utcp-gateway ARGUMENTS` with exactly this environment; it appends what it prints to `log`."""
        request = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "log": str(log),
            "folder": str(folder),
        }
        assert self._process.stdin is not None
        with self._lock, self._forked:
            self._newest.clear()
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            if not self._forked.wait_for(lambda: self._newest, timeout=120):
                message = "The process that forks gateways does not respond."
                raise RuntimeError(message)
            return self._newest[0]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            with self._forked:
                if "code" in event:
                    self._running.pop(event["pid"]).end(event["code"])
                else:
                    process = self._running[event["pid"]] = ForkedProcess(event["pid"])
                    self._newest.append(process)
                    self._forked.notify_all()

    def close(self) -> None:
        """End the process, and with it the gateways that still run."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()


@cache
def get_forks() -> GatewayForks:
    """Return the process of this test process that forks gateways; it is started at the first use."""
    return GatewayForks()


def _become_gateway(request: Mapping[str, Any]) -> NoReturn:
    """Run `utcp-gateway` in the forked process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    null, log = (
        os.open(os.devnull, os.O_RDONLY),
        os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    )
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.closerange(3, 64)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["utcp-gateway", *request["arguments"]]
    util.spawnv_passfds = _fork_python  # type: ignore[assignment]
    code = 70
    try:
        from app.cli.main import main

        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.stderr.flush()
        # Not the end of the interpreter, whose exit handlers are those of the parent.
        os._exit(code)
    raise AssertionError


def _fork_python(path: bytes, arguments: Sequence[str], descriptors: Sequence[int]) -> int:
    """Start `python -c CODE`, as `multiprocessing` does for its fork server and its resource tracker, and return its process id.

    It is forked, since the fork server would import the application once more.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        opened = {0, 1, 2, *descriptors}
        for descriptor in {int(entry.name) for entry in Path("/proc/self/fd").iterdir()} - opened:
            with suppress(OSError):
                os.close(descriptor)
        exec(arguments[-1], {"__name__": "__main__"})
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.stderr.flush()
        os._exit(code)
    raise AssertionError


def _serve_requests() -> None:
    # What a fork need not import. Nothing of it is garbage, and to search it would take a third of the time.
    gc.disable()
    for module in _SHARED:
        importlib.import_module(module)
    configure_mappers()
    gc.freeze()
    gc.enable()

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # Signals of a terminal and of a test run are for the gateways.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    running: set[int] = set()
    pending = b""
    while True:
        ready, _, _ = select.select([0, reader], [], [])
        if reader in ready:
            os.read(reader, 512)
            _report_ended(running)
        if 0 not in ready:
            continue
        read = os.read(0, 1 << 16)
        if not read:
            break
        *lines, pending = (pending + read).split(b"\n")
        for line in lines:
            pid = os.fork()
            if pid == 0:
                _become_gateway(json.loads(line))
            running.add(pid)
            _report({"pid": pid})
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def _report_ended(running: set[int]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        running.discard(pid)
        _report({"pid": pid, "code": os.waitstatus_to_exitcode(status)})


def _report(event: Mapping[str, int]) -> None:
    os.write(1, json.dumps(event).encode() + b"\n")


if __name__ == "__main__":
    _serve_requests()
