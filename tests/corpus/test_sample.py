"""A seeded sample of the public corpus: 150 of 2,639 documents, measured by M1 to M18."""

import os
from pathlib import Path

import pytest

from benchmarks.corpus.__main__ import assess_all, selected
from benchmarks.corpus.assessment import Extent
from benchmarks.corpus.download import CorpusUnavailableError, corpus
from benchmarks.corpus.limits import differing
from benchmarks.corpus.records import Scores
from benchmarks.corpus.strata import assess_strata
from benchmarks.corpus.tables import GRAPH, Total

SEED = "2026"
SIZE = 150
_METRICS = tuple(f"M{number}" for number in range(2, 17))


@pytest.fixture(scope="module")
def files() -> list[Path]:
    try:
        documents = [file for file in corpus() if GRAPH not in str(file)]
    except CorpusUnavailableError as problem:
        reason = f"The corpus of public APIs cannot be downloaded: {problem}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return selected(documents, sample=SIZE, seed=SEED)


def test_the_sample_meets_the_targets(files: list[Path]) -> None:
    results = list(assess_all(files, Extent(seed=SEED, executions=100), jobs=2))
    total = Total.of(results)
    found = [line for one in results for line in one.lines()][:20]
    assert total.specs == SIZE
    assert total.operations > 3_000
    assert total.scores.percent("M1") == 100, found
    for metric in _METRICS:
        share = total.scores.percent(metric)
        assert share is not None
        assert share >= 99.9, (metric, found)
    assert total.scores.percent("M16") == 100, found
    assert total.scores.percent("M18") == 100, found
    assert total.perfect / total.specs >= 0.995, found


def test_names_and_bytes_do_not_depend_on_the_hash_seed(files: list[Path]) -> None:
    assert differing(files[::5]) == []


def test_every_stratum_of_the_wire_is_exact() -> None:
    scores, findings = Scores(), []
    for record in assess_strata(SEED, 25):
        scores.add(record)
        findings.extend(record.findings)
    assert findings == []
    assert scores.cases["M16"] >= 600
