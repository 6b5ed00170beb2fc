"""Fixtures of more than one package. A folder may have its own of the same name."""

import pytest
import structlog

from app.storage.database import Database
from tests.stored import clear


@pytest.fixture(autouse=True)
def _all_is_logged() -> None:
    """Reset the level of logs, which an application of another file may have left, so that a test sees warnings."""
    structlog.reset_defaults()


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
