"""Fixtures of more than one package. A folder may have its own of the same name."""

import pytest

from app.storage.database import Database
from tests.stored import clear
from tests.unit.conftest import _all_is_logged

__all__ = ["_all_is_logged", "database", "registry"]


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
