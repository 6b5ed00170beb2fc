"""The pools, which are downloaded and converted once for all tests."""

import os
from collections.abc import Callable
from typing import TypeVar

import pytest

from benchmarks.corpus.download import CorpusUnavailableError
from benchmarks.search.measurement import PublicSet, public_sets
from tests.interop.environments import InstallError

Loaded = TypeVar("Loaded")


def available(load: Callable[[], Loaded]) -> Loaded:
    """Return what `load` returns; where it cannot be downloaded the test is skipped, and fails in CI."""
    try:
        return load()
    except (CorpusUnavailableError, InstallError) as problem:
        reason = f"The public material of the search benchmark cannot be downloaded: {problem}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def sets() -> list[PublicSet]:
    return available(public_sets)
