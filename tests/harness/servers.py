"""A PostgreSQL and a Redis for the whole run: the embedded servers, or TEST_DATABASE_URL and TEST_REDIS_URL."""

import asyncio
import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from app.database import asyncpg_dsn, migrate
from app.embedded import EmbeddedServers


@dataclass(frozen=True, slots=True)
class Pair:
    """The DSNs of the two servers."""

    database_url: str
    redis_url: str

    def create_database(self, *, migrated: bool = True) -> str:
        """Create a database on the server and return its DSN."""
        name = f"t_{uuid.uuid4().hex[:16]}"
        asyncio.run(_execute(self.database_url, f'CREATE DATABASE "{name}"'))
        dsn = with_database(self.database_url, name)
        if migrated:
            asyncio.run(migrate(dsn))
        return dsn

    def drop_database(self, dsn: str) -> None:
        """Drop a database, even while clients are connected."""
        name = urlsplit(dsn).path.lstrip("/")
        asyncio.run(_execute(self.database_url, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'))


def with_database(dsn: str, name: str) -> str:
    """Return the DSN of another database on the same server."""
    parts = urlsplit(dsn)
    rest = urlunsplit(("", parts.netloc, f"/{name}", parts.query, ""))
    return f"{parts.scheme}:{rest if rest.startswith('//') else '//' + rest}"


async def _execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(asyncpg_dsn(dsn))
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@contextmanager
def pair() -> Iterator[Pair]:
    """Return the servers of the environment, else run embedded ones in a temporary folder."""
    named = os.environ.get("TEST_DATABASE_URL"), os.environ.get("TEST_REDIS_URL")
    if named[0] and named[1]:
        yield Pair(named[0], named[1])
        return
    if any(named):
        message = "Set both TEST_DATABASE_URL and TEST_REDIS_URL, or neither."
        raise RuntimeError(message)
    with (
        tempfile.TemporaryDirectory(prefix="ugw-tests-") as folder,
        EmbeddedServers(Path(folder) / "data") as running,
    ):
        yield Pair(running.database_url, running.redis_url)
