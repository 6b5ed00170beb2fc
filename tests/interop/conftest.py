"""The filled registry, which all files of a worker share, and what several files use."""

from collections.abc import Iterator

import pytest

from app.cli.sample import serve_sample_api
from tests.harness.beside import beside, web_server
from tests.harness.gateway import RunningGateway
from tests.harness.servers import Pair
from tests.interop.clients import close_programs
from tests.interop.filled_registry import FilledRegistry, filled_registry
from tests.interop.model_providers import providers


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep each file with one worker, and all that use the filled registry with the same one, since filling it takes long."""
    used = {item.path for item in items if "large_registry" in getattr(item, "fixturenames", ())}
    for item in items:
        group = "large_registry" if item.path in used else item.path.stem
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session", autouse=True)
def _programs() -> Iterator[None]:
    """End the clients that have stayed running for several tests."""
    yield
    close_programs()


@pytest.fixture(scope="session")
def large_registry(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledRegistry]:
    """The filled registry, of which each module has a gateway on a copy."""
    with filled_registry(servers, tmp_path_factory.mktemp("registry")) as filled:
        yield filled


@pytest.fixture(scope="module")
def library(gateway: RunningGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The sample API, registered as `interop`."""
    with (
        serve_sample_api(tmp_path_factory.mktemp("sample"), port=0) as registration,
        gateway.client() as client,
    ):
        made = client.post("/providers", json=registration | {"name": "interop"})
        assert made.status_code == 201, made.text
        yield "interop"
        client.delete("/providers/interop")


@pytest.fixture(scope="module")
def provider_url() -> Iterator[str]:
    """The servers with the wire formats of the providers."""
    with beside(web_server(providers())) as url:
        yield url
