"""A real PostgreSQL with the tables of the gateway, emptied before each test."""

import os
import uuid

import asyncpg
import pytest

from app.database import Database, migrate
from app.models import new_id

_SERVER = os.environ.get("TEST_DATABASE_URL", "postgresql://postgres@127.0.0.1:5432/postgres")


@pytest.fixture(scope="session")
async def own_database_url():
    """A database of its own, because other tests may use the given one at the same time."""
    name = f"gateway_audit_{uuid.uuid4().hex[:8]}"
    connection = await asyncpg.connect(_SERVER)
    await connection.execute(f"CREATE DATABASE {name}")
    base, _, _ = _SERVER.rpartition("/")
    yield f"{base}/{name}"
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()


@pytest.fixture
async def database(own_database_url):
    await migrate(own_database_url)
    database = Database(own_database_url, pool_size=4)
    yield database
    await database.aclose()
    await migrate(own_database_url, revision="base")


@pytest.fixture
def call_id():
    return new_id
