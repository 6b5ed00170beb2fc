"""A real PostgreSQL with the tables of the gateway, emptied before each test."""

import pytest

from app.database import Database, migrate
from app.models import new_id


@pytest.fixture(scope="session")
def own_database_url(servers):
    """A database of its own, because other tests may use the given one at the same time."""
    dsn = servers.create_database(migrated=False)
    yield dsn
    servers.drop_database(dsn)


@pytest.fixture
async def database(own_database_url):
    await migrate(own_database_url)
    database = Database(own_database_url, pool_size=4)
    yield database
    await database.aclose()
    await migrate(own_database_url, revision="base", reverts=True)


@pytest.fixture
def call_id():
    return new_id
