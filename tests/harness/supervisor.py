"""The process around a run of the tests: it ends what the run leaves behind, however the run ends."""

import ctypes
import os
import signal
import sys
from contextlib import suppress

import psutil
import pytest

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def supervise() -> None:
    """Go on in a child process. This one waits for it, ends all its descendants, and exits with its status (Linux).

    A worker that dies cannot end what it started: gateways, servers, other programs. As they lose their parent, they become children of
    this process (PR_SET_CHILD_SUBREAPER), in whichever session or process group they are.
    """
    if sys.platform != "linux":
        return
    system = ctypes.CDLL(None)
    system.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    child = os.fork()
    if child == 0:
        system.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        return
    # The terminal sends SIGINT to both processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: _send_signal(child, number))
    ended = 0
    while ended != child:
        ended, status = os.wait()
    _end_descendants()
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _send_signal(process: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)


def _end_descendants() -> None:
    while True:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        try:
            # Where the children of one of them are now ours, they are next.
            os.wait()
        except ChildProcessError:
            return


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        supervise()
