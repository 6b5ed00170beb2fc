"""The pools, which are downloaded and converted once for all tests."""

import os
from collections.abc import Callable
from typing import TypeVar

import pytest

from app.search.index import IndexedTool
from benchmarks.corpus.download import CorpusUnavailableError
from benchmarks.search.pool import real_operations

Loaded = TypeVar("Loaded")


def available(load: Callable[[], Loaded]) -> Loaded:
    """Return what `load` returns; where it cannot be downloaded the test is skipped, and fails in CI."""
    try:
        return load()
    except CorpusUnavailableError as problem:
        reason = f"The public material of the search benchmark cannot be downloaded: {problem}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def operations() -> list[IndexedTool]:
    return available(real_operations)
