"""The quality of rankings on the public sets."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Final, TypeAlias

from app.search.index import IndexedTool
from benchmarks.search import bfcl
from benchmarks.search.evaluation import Outcome, by_subset, evaluate
from benchmarks.search.pool import real_operations
from benchmarks.search.queries import Query
from benchmarks.search.ranking import WORDS, Ranking, indexed, search_of
from benchmarks.search.sentences import sentences

BFCL: Final = "BFCL"
SENTENCES: Final = "sentences"

QualityFigures: TypeAlias = dict[str, dict[str, dict[str, Any]]]
"""Members of `Quality` by set and subset."""


@dataclass(frozen=True, slots=True)
class PublicSet:
    """Queries, and the tools among which they are searched."""

    name: str
    tools: Sequence[IndexedTool]
    queries: Sequence[Query]


@dataclass(frozen=True, slots=True)
class Point:
    """A configuration of the ranking: recall@5 by set, and mean CPU milliseconds of a query for 300 hits."""

    ranking: str
    recall_5: Mapping[str, float]
    cpu: Mapping[str, float]


def public_sets() -> list[PublicSet]:
    """Return the public sets. Raises CorpusUnavailableError, InstallError."""
    folder = bfcl.data_folder()
    return [
        PublicSet(BFCL, bfcl.functions(folder), bfcl.queries(folder)),
        PublicSet(SENTENCES, real_operations(), sentences()),
    ]


def outcomes(one: PublicSet, ranking: Ranking = WORDS) -> list[Outcome]:
    """Return what a ranking finds for the queries of a set."""
    index = indexed(one.tools, ranking)
    try:
        return evaluate(one.queries, search_of(index, ranking))
    finally:
        index.close()


def quality_figures(found: Mapping[str, Sequence[Outcome]]) -> QualityFigures:
    """Return the figures of the outcomes of each set."""
    return {
        name: {subset: asdict(quality) for subset, quality in by_subset(some).items()}
        for name, some in found.items()
    }


def point(ranking: str, found: Mapping[str, Sequence[Outcome]]) -> Point:
    """Return what a ranking brings and costs, from its outcomes of each set."""
    return Point(
        ranking,
        {name: round(fmean(one.recall_5 for one in some), 4) for name, some in found.items()},
        {name: round(fmean(one.milliseconds for one in some), 2) for name, some in found.items()},
    )


def pareto_front(points: Sequence[Point], name: str) -> set[str]:
    """Return the rankings that no other one equals or excels on a set in both recall and CPU time."""
    return {
        one.ranking
        for one in points
        if not any(
            other.recall_5[name] >= one.recall_5[name] and other.cpu[name] <= one.cpu[name]
            for other in points
            if other is not one
        )
    }
