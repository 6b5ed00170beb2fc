"""Folders that are short enough for sockets and closed to others, and clients of the started servers."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest
from redis import Redis

from app.cli.embedded import EmbeddedServers, EmbeddedUrls
from tests.harness.servers import find_fast_folder


@pytest.fixture
def place() -> Iterator[Path]:
    """A new 0700 folder with a short path; pytest's own are longer than a socket's path may be."""
    path = Path(tempfile.mkdtemp(prefix="gw", dir=find_fast_folder()))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def created_cluster() -> Iterator[Path]:
    """A PostgreSQL cluster that was created once, for copies; nothing runs on it."""
    folder = Path(tempfile.mkdtemp(prefix="gw", dir=find_fast_folder()))
    with EmbeddedServers(folder, durable=False):
        pass
    yield folder / "postgres"
    shutil.rmtree(folder)


@pytest.fixture
def used_place(place: Path, created_cluster: Path) -> Path:
    """A new folder like `place` that has a database already, for tests of what follows a first start.

    A copy takes a fifth of the time of creating one.
    """
    shutil.copytree(created_cluster, place / "postgres")
    return place


@pytest.fixture
def sql() -> Callable[..., object]:
    """Runs one statement on a started pair and answers with its first value."""

    async def run(running: EmbeddedUrls, statement: str) -> object:
        connection = await asyncpg.connect(running.database_url)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    return run


@pytest.fixture
def redis_of() -> Callable[[EmbeddedUrls], Redis]:
    return lambda running: Redis.from_url(running.redis_url, decode_responses=True)


@pytest.fixture
def children() -> Callable[[], list[psutil.Process]]:
    """The living processes below this one that were not there when the test began."""
    before = set(psutil.Process().children(recursive=True))

    def since() -> list[psutil.Process]:
        return [p for p in psutil.Process().children(recursive=True) if p not in before]

    return since
