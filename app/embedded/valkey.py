"""The embedded Valkey: nothing is written to disk, one socket."""

import signal
import socket
from functools import partial
from pathlib import Path

from app.embedded.folder import own_folder
from app.embedded.launch import Child, Footing, end_orphan, open_log

_READY_SECONDS = 20.0

_ENDING = ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))


def start(valkey: Path, *, folder: Path, sockets: Path, footing: Footing) -> Child:
    """A running, empty server; an orphan of a killed owner is ended before."""
    log = open_log(folder / "logs" / "valkey.log")
    address, pid_file = sockets / "valkey.sock", sockets / "valkey.pid"
    end_orphan(pid_file, words=("--unixsocket", str(address)), ending=_ENDING)
    command = [
        *(str(valkey), "--port", "0", "--unixsocket", str(address), "--unixsocketperm", "700"),
        *("--save", "", "--appendonly", "no", "--daemonize", "no", "--pidfile", str(pid_file)),
        # Only what has a time to live may be pushed out: locks and counters have one, too, but are small.
        *("--maxmemory", "128mb", "--maxmemory-policy", "volatile-lru"),
        # The command line is how an orphan is recognised.
        *("--set-proc-title", "no", "--loglevel", "notice"),
    ]
    cwd = own_folder(folder / "valkey", owners=(0, 65534))
    child = Child(command, name="Valkey", log=log, cwd=cwd, footing=footing, ending=_ENDING)
    try:
        child.wait_for(partial(_answers, address), seconds=_READY_SECONDS)
    except BaseException:
        child.stop()
        raise
    return child


def _answers(address: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        try:
            client.connect(str(address))
            client.sendall(b"PING\r\n")
            return client.recv(16) == b"+PONG\r\n"
        except OSError:
            return False
