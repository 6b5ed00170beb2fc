"""The requests of swagger-client beside those that `benchmarks.corpus.wire` expects.

docs/openapi.md explains for each stratum that is listed here what it writes instead, and why we do not.
"""

import os
from pathlib import Path

import pytest

from benchmarks.corpus.download import CorpusUnavailableError, swagger_client
from benchmarks.corpus.strata import OWN_INPUTS, STRATA
from benchmarks.corpus.swagger_client import Agreement, agreements

SEED = "2026"
EACH = 20
DISAGREEING = {
    "query space delimited": Agreement(11, 0, 9),
    "query pipe delimited": Agreement(2, 8, 10),
    "query allowReserved": Agreement(16, 4, 0),
    "query content": Agreement(16, 4, 0),
    "path label": Agreement(11, 0, 9),
    "cookie": Agreement(7, 13, 0),
    "cookie exploded": Agreement(18, 2, 0),
    "JSON": Agreement(15, 0, 5),
    "urlencoded": Agreement(5, 0, 15),
    "multipart": Agreement(9, 0, 11),
    "multipart JSON parts": Agreement(17, 0, 3),
    "multipart files": Agreement(16, 0, 4),
    "2.0 collectionFormat path": Agreement(3, 17, 0),
}


def test_only_the_documented_strata_differ() -> None:
    try:
        found = agreements(SEED, EACH)
    except CorpusUnavailableError as problem:
        reason = f"swagger-client is not available: {problem}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    shared = [name for name in STRATA if name not in OWN_INPUTS]
    assert found == {name: DISAGREEING.get(name, Agreement(EACH, 0, 0)) for name in shared}


def test_without_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CorpusUnavailableError, match=r"Node.js is not installed"):
        agreements(SEED, 1)


def test_with_a_node_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        swagger_client()
    except CorpusUnavailableError as problem:
        pytest.skip(f"swagger-client cannot be downloaded: {problem}")
    node = tmp_path / "node"
    node.write_text("#!/bin/sh\necho SyntaxError >&2\nexit 1\n")
    node.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(CorpusUnavailableError, match=r"does not run on this Node.js: SyntaxError"):
        agreements(SEED, 1)
