"""Launcher of programs: `python -I -S launch.py OPTIONS PROGRAM ARGUMENT...` restricts itself, then replaces
itself with the program (execve(2)).

`OPTIONS` is JSON: `limits` (names of `resource` without `RLIMIT_`, numbers), `processes` (added to those that
the user has), `user` and `group` (ids or null), `folder`, and `report`, a file descriptor to which the reason
is written where the program could not be started; it is closed where it could.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any

_PDEATHSIG = 1
_NO_NEW_PRIVILEGES = 38


def main() -> None:
    """Restrict this process and execute the program; never return."""
    options: dict[str, Any] = json.loads(sys.argv[1])
    report = options["report"]
    os.set_inheritable(report, False)
    # uvloop hands on all descriptors that are not marked otherwise, also those that the gateway inherited.
    os.closerange(3, report)
    os.closerange(report + 1, os.sysconf("SC_OPEN_MAX"))
    try:
        _restrict(options)
        os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - there is no shell.
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "limits"
        os.write(report, str(reason).encode())
    os._exit(127)


def _restrict(options: dict[str, Any]) -> None:
    user = options["user"]
    if user is not None:
        os.setgroups([])
        os.setgid(options["group"])
        os.setuid(user)
    _set_process_flags()
    for name, number in options["limits"].items():
        _limit(getattr(resource, f"RLIMIT_{name}"), number)
    _limit(resource.RLIMIT_NPROC, options["processes"] + _threads_of(os.getuid()))
    os.umask(0o077)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        # Python ignores these, and what is ignored stays so.
        signal.signal(number, signal.SIG_DFL)
    os.chdir(options["folder"])
    # A link in the path may have been moved since the gateway looked.
    if os.path.realpath(options["folder"]) != options["folder"] or os.getcwd() != options["folder"]:  # noqa: PTH109
        raise PermissionError(1, "The folder was replaced after it was checked")


def _set_process_flags() -> None:
    """Have the kernel kill the program with the gateway, and ignore setuid files (prctl(2))."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        library.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _limit(resource_id: int, number: int) -> None:
    hard = resource.getrlimit(resource_id)[1]
    number = number if hard == resource.RLIM_INFINITY else min(number, hard)
    resource.setrlimit(resource_id, (number, number))


def _threads_of(user: int) -> int:
    """Return the number of threads of a user, all of which count for RLIMIT_NPROC, the gateway's own, too."""
    count = 0
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():  # noqa: PTH208, PTH112
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == user:  # noqa: PTH116
                count += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208
        except OSError:
            continue
    return count


if __name__ == "__main__":
    main()
