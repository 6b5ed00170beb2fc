"""Prevents the memory of a process with secrets from being written to disk, by the kernel (core dumps) or by
crash handlers (systemd-coredump, apport), and from being read by other processes of the user.
"""

import ctypes
import resource
import sys
from typing import Final

_SET_DUMPABLE: Final = 4
"""The number of PR_SET_DUMPABLE, see prctl(2)."""


def disable_core_dumps() -> None:
    """Disable core dumps of this process, whatever the service manager allows; on Linux, make it not
    dumpable.

    The limit (RLIMIT_CORE, hard) is inherited by child processes. The attribute "not dumpable" is reset by
    execve(2), so each process calls this for itself. It also affects the user's own debuggers: attaching
    requires root (CAP_SYS_PTRACE), and the files in /proc/PID belong to root. Calling it again has no effect;
    where the kernel does not know the attribute, the limit applies alone.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
