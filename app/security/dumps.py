"""The memory of a process that holds secrets is not written to disk, neither by the kernel (core dumps) nor
by those whom it hands crashed processes to (systemd-coredump, apport), and no other process of the user may
read it.
"""

import ctypes
import resource
import sys
from typing import Final

_SET_DUMPABLE: Final = 4
"""PR_SET_DUMPABLE of prctl(2)."""


def disable_core_dumps() -> None:
    """For this process: no core file, whatever the service manager allows, and on Linux not dumpable.

    The limit (RLIMIT_CORE, hard) is inherited by everything that is started. Being not dumpable ends at an
    execve(2), so each process calls this for itself. It costs the user's own debuggers: attaching takes root
    (CAP_SYS_PTRACE), and the files in /proc/PID belong to root. May be called again; where the kernel does
    not know it, the limit remains.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
