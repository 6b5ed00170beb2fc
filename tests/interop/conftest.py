"""The filled registry, which all files of a worker share."""

from collections.abc import Iterator

import pytest

from tests.harness.servers import Pair
from tests.interop.filled_registry import FilledRegistry, filled_registry


@pytest.fixture(scope="session")
def large_registry(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledRegistry]:
    """The filled registry, of which each module has a gateway on a copy."""
    with filled_registry(servers, tmp_path_factory.mktemp("registry")) as filled:
        yield filled
