"""Fixtures of more than one room. A folder may have its own of the same name."""

import pytest

from app.database import Database
from tests.stored import clear


@pytest.fixture(scope="module")
async def database(database_url):
    database = Database(database_url, pool_size=5)
    yield database
    await database.aclose()


@pytest.fixture
async def registry(database):
    await clear(database)
    yield database
    await clear(database)
