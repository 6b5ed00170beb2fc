"""The requests of swagger-client beside those that `benchmarks.corpus.wire` expects.

docs/openapi.md says of each stratum that is listed here what it writes instead, and why we do not.
"""

import os
from pathlib import Path

import pytest

from benchmarks.corpus.download import CorpusUnavailableError, swagger_client
from benchmarks.corpus.strata import STRATA
from benchmarks.corpus.swagger_client import Verdict, verdicts

SEED = "2026"
EACH = 20
DISAGREEING = {
    "query space delimited": Verdict(11, 0, 9),
    "query pipe delimited": Verdict(2, 8, 10),
    "query allowReserved": Verdict(16, 4, 0),
    "query content": Verdict(16, 4, 0),
    "path label": Verdict(11, 0, 9),
    "cookie": Verdict(7, 13, 0),
    "cookie exploded": Verdict(18, 2, 0),
    "JSON": Verdict(15, 0, 5),
    "urlencoded": Verdict(5, 0, 15),
    "multipart": Verdict(9, 0, 11),
    "multipart JSON parts": Verdict(17, 0, 3),
    "multipart files": Verdict(16, 0, 4),
    "2.0 collectionFormat path": Verdict(3, 17, 0),
}


def test_only_what_is_explained_differs() -> None:
    try:
        found = verdicts(SEED, EACH)
    except CorpusUnavailableError as problem:
        reason = f"swagger-client cannot be asked: {problem}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    assert found == {name: DISAGREEING.get(name, Verdict(EACH, 0, 0)) for name in STRATA}


def test_without_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CorpusUnavailableError, match=r"Node.js is not installed"):
        verdicts(SEED, 1)


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
        verdicts(SEED, 1)
