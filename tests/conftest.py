"""Fixtures that every test shares. Nothing is started before a test asks for it."""

import gc
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest

from tests.harness import programs, supervisor, time_limit
from tests.harness.application import close_fork_server
from tests.harness.cases import PlantedViolations
from tests.harness.distribution import DurationRecorder, sort_items
from tests.harness.gateway import RunningGateway, serve
from tests.harness.profile import ProfilePlugin
from tests.harness.profiles import Applications
from tests.harness.servers import Pair, pair


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--profile", action="store_true", help="print the CPU time by file and marker")
    parser.addoption(
        "--plant-violations", action="store_true", help="break two cases of each test of many cases"
    )
    parser.addoption("--record-durations", action="store_true", help="write tests/durations.txt anew")
    time_limit.pytest_addoption(parser)


def pytest_configure(config: pytest.Config) -> None:
    supervisor.pytest_configure(config)
    time_limit.pytest_configure(config)
    config.pluginmanager.register(programs)
    if config.getoption("profile"):
        config.pluginmanager.register(ProfilePlugin(config))
    if config.getoption("plant_violations"):
        config.pluginmanager.register(PlantedViolations())
    if config.getoption("record_durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(DurationRecorder())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what is imported and collected out of every garbage collection: nothing of it is ever freed."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    sort_items(items)


@pytest.fixture(scope="session")
def servers() -> Iterator[Pair]:
    """PostgreSQL and Redis for the whole run."""
    with pair() as running:
        yield running


@pytest.fixture(scope="session")
def redis_url(servers: Pair) -> str:
    """A Redis that may be flushed by nobody: tests use keys of their own."""
    return servers.redis_url


@pytest.fixture(scope="session", autouse=True)
async def _fork_server() -> AsyncIterator[None]:
    """Ends the process that the applications of this process share."""
    yield
    await close_fork_server()


@pytest.fixture(scope="session")
async def applications(servers: Pair) -> AsyncIterator[Applications]:
    """The applications in this process, one for each set of settings that modules ask for."""
    running = Applications(servers)
    yield running
    await running.aclose()


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
