"""A gateway in a process of its own, with the tools of the sample API."""

from collections.abc import Iterator

import pytest

from tests.browser.console.population import Upstreams, upstreams
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstreams]:
    """The sample API, in a process of its own."""
    with upstreams(tmp_path_factory.mktemp("sample")) as running:
        yield running


@pytest.fixture(scope="session")
def library(
    servers: Pair, sample: Upstreams, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGateway]:
    """A gateway with the provider `library`."""
    with serve(servers, tmp_path_factory.mktemp("library"), CALL_LOG_BODIES="all") as gateway:
        with gateway.client() as client:
            made = client.post("/providers", json=sample.library)
            assert made.status_code == 201, made.text
        yield gateway
