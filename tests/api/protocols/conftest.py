"""What the tests of several protocols share."""

from collections.abc import Iterator

import httpx2
import pytest

from tests.harness.gateway import RunningGateway


@pytest.fixture(scope="module")
def client(gateway: RunningGateway) -> Iterator[httpx2.Client]:
    """A client of the shared gateway with its first key."""
    with gateway.client() as made:
        yield made
