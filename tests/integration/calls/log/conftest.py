"""A real PostgreSQL with the tables of the gateway, in a database of each test's own: some make and drop partitions."""

import pytest

from app.core.uuid7 import uuid7
from app.storage.database import Database


@pytest.fixture
def own_database_url(servers):
    dsn = servers.create_database()
    yield dsn
    servers.drop_database(dsn)


@pytest.fixture
async def database(own_database_url):
    database = Database(own_database_url, pool_size=4)
    yield database
    await database.aclose()


@pytest.fixture
def call_id():
    return uuid7
