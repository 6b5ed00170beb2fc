"""A PostgreSQL and a Redis for the whole run: the embedded servers, or TEST_DATABASE_URL and TEST_REDIS_URL."""

import asyncio
import os
import shutil
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from app.cli.embedded import EmbeddedServers
from app.storage.database import asyncpg_dsn, migrate

_MEMORY = Path("/dev/shm")
# More than the servers of several workers ever write: a full file system would fail tests.
_MIN_FREE_BYTES = 4 << 30


def find_fast_folder() -> str | None:
    """Return a folder in memory for the data of servers that a test starts, None where there is no room but on the disk.

    A database is created there in a third of the CPU time.
    """
    if os.access(_MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(_MEMORY).free >= _MIN_FREE_BYTES:
        return str(_MEMORY)
    return None


@dataclass(frozen=True, slots=True)
class Pair:
    """The DSNs of the two servers."""

    database_url: str
    redis_url: str
    _templates: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def create_database(self, *, migrated: bool = True) -> str:
        """Return the DSN of a new database; a migrated one is a copy of one that was migrated once."""
        template = self._template() if migrated else None
        return self._create(template)

    def copy_database(self, dsn: str) -> str:
        """Return the DSN of a new copy of a database, to which there must be no connections meanwhile."""
        return self._create(_name(dsn))

    def _template(self) -> str:
        """Return the name of the migrated database; it must have no connections while it is copied."""
        with self._lock:
            if not self._templates:
                dsn = self._create(None)
                asyncio.run(migrate(dsn))
                self._templates.append(_name(dsn))
            return self._templates[0]

    def _create(self, template: str | None) -> str:
        name = f"t_{uuid.uuid4().hex[:16]}"
        # Without FILE_COPY, each page of the copy is written to the log as well, which takes twice as long.
        copied = f' TEMPLATE "{template}" STRATEGY FILE_COPY' if template else ""
        asyncio.run(_execute(self.database_url, f'CREATE DATABASE "{name}"{copied}'))
        return with_database(self.database_url, name)

    def drop_database(self, dsn: str) -> None:
        """Drop a database, even while clients are connected."""
        asyncio.run(_execute(self.database_url, f'DROP DATABASE IF EXISTS "{_name(dsn)}" WITH (FORCE)'))

    def drop_template(self) -> None:
        """Drop the database that others were copied from."""
        for name in self._templates:
            self.drop_database(with_database(self.database_url, name))


def _name(dsn: str) -> str:
    return urlsplit(dsn).path.lstrip("/")


def with_database(dsn: str, name: str) -> str:
    """Return the DSN of another database on the same server."""
    parts = urlsplit(dsn)
    rest = urlunsplit(("", parts.netloc, f"/{name}", parts.query, ""))
    return f"{parts.scheme}:{rest if rest.startswith('//') else '//' + rest}"


async def _execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(asyncpg_dsn(dsn))  # type: ignore[no-untyped-call]
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@contextmanager
def pair() -> Iterator[Pair]:
    """Return the servers of the environment, else run embedded ones in a temporary folder."""
    named = os.environ.get("TEST_DATABASE_URL"), os.environ.get("TEST_REDIS_URL")
    if named[0] and named[1]:
        given = Pair(named[0], named[1])
        yield given
        given.drop_template()
        return
    if any(named):
        message = "Set both TEST_DATABASE_URL and TEST_REDIS_URL, or neither."
        raise RuntimeError(message)
    with (
        tempfile.TemporaryDirectory(prefix="ugw-tests-", dir=find_fast_folder()) as folder,
        # A test ends gateways, not this machine, so that nothing has to wait for the disk.
        EmbeddedServers(Path(folder) / "data", durable=False) as running,
    ):
        yield Pair(running.database_url, running.redis_url)
