"""The embedded Valkey: one socket, nothing written to disk."""

import signal
import socket
from functools import partial
from pathlib import Path

from app.cli.embedded.folder import ensure_own_folder
from app.cli.embedded.launch import LaunchPrefix, ServerProcess, open_log, stop_orphan

_READY_SECONDS = 20.0

_SHUTDOWN_SIGNALS = ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))


def start(valkey: Path, *, folder: Path, sockets: Path, prefix: LaunchPrefix) -> ServerProcess:
    """Start an empty server and return its process once it is ready.

    An orphan of a killed gateway is stopped first. Raises EmbeddedFailed.
    """
    log = open_log(folder / "logs" / "valkey.log")
    address, pid_file = sockets / "valkey.sock", sockets / "valkey.pid"
    stop_orphan(pid_file, words=("--unixsocket", str(address)), shutdown=_SHUTDOWN_SIGNALS)
    command = [
        *(str(valkey), "--port", "0", "--unixsocket", str(address), "--unixsocketperm", "700"),
        *("--save", "", "--appendonly", "no", "--daemonize", "no", "--pidfile", str(pid_file)),
        # Only keys with a time to live may be evicted: locks and counters have one, too, but are small.
        *("--maxmemory", "128mb", "--maxmemory-policy", "volatile-lru"),
        # An orphan is recognised by its command line.
        *("--set-proc-title", "no", "--loglevel", "notice"),
    ]
    cwd = ensure_own_folder(folder / "valkey", owners=(0, 65534))
    child = ServerProcess(command, name="Valkey", log=log, cwd=cwd, prefix=prefix, shutdown=_SHUTDOWN_SIGNALS)
    try:
        child.wait_for(partial(_is_ready, address), seconds=_READY_SECONDS)
    except BaseException:
        child.stop()
        raise
    return child


def _is_ready(address: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        try:
            client.connect(str(address))
            client.sendall(b"PING\r\n")
            return client.recv(16) == b"+PONG\r\n"
        except OSError:
            return False
