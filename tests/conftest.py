"""Fixtures that every test shares. Nothing is started before a test asks for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair, pair
from tests.harness.time_limit import (
    pytest_configure,
    pytest_runtest_protocol,
    pytest_runtest_setup,
    pytest_sessionfinish,
)

__all__ = ["pytest_configure", "pytest_runtest_protocol", "pytest_runtest_setup", "pytest_sessionfinish"]


@pytest.fixture(scope="session")
def servers() -> Iterator[Pair]:
    """PostgreSQL and Redis for the whole run."""
    with pair() as running:
        yield running


@pytest.fixture(scope="session")
def redis_url(servers: Pair) -> str:
    """A Redis that may be flushed by nobody: tests use keys of their own."""
    return servers.redis_url


@pytest.fixture(scope="module")
def database_url(servers: Pair) -> Iterator[str]:
    """A migrated database for one test module."""
    dsn = servers.create_database()
    yield dsn
    servers.drop_database(dsn)


@pytest.fixture(scope="session")
def gateway(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """One gateway process for all tests that only use its API."""
    with serve(servers, tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture(scope="session")
def repository_root() -> Path:
    """The checkout."""
    return Path(__file__).parent.parent
