"""Folders that are short enough for sockets and closed to others, and clients of the started servers."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest
from redis import Redis

from app.cli.embedded import EmbeddedUrls


@pytest.fixture
def place() -> Iterator[Path]:
    """A new 0700 folder with a short path; pytest's own are longer than a socket's path may be."""
    path = Path(tempfile.mkdtemp(prefix="gw"))
    yield path
    shutil.rmtree(path)


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
