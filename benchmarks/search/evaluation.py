"""Quality of a ranking over queries: recall, hit@1 and reciprocal rank, with bootstrap intervals."""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import Final, TypeAlias

from benchmarks.search.queries import Query

Search: TypeAlias = Callable[[str], Sequence[str]]
"""Returns the names of the best CANDIDATES tools for a text, best first."""

CANDIDATES: Final = 300
"""The rank up to which hits are read: a ranking can put first only what is among them."""
_SHOWN: Final = 5
_RESAMPLES: Final = 1_000
_SEED: Final = 16
_INTERVAL: Final = 0.95


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search found for a query. Recall is the share of its needs of which any tool is up to a rank."""

    query: Query
    found: Sequence[str]
    """Names of the first five hits."""
    recall_5: float
    recall_100: float
    recall_300: float
    hit_1: float
    reciprocal_rank: float
    milliseconds: float = 0.0
    """CPU time of the search."""


@dataclass(frozen=True, slots=True)
class Quality:
    """The means of some outcomes, and the bounds of two of them (95 %, bootstrap)."""

    queries: int
    recall_5: float
    recall_5_interval: tuple[float, float]
    hit_1: float
    hit_1_interval: tuple[float, float]
    mrr: float
    recall_100: float
    recall_300: float


def outcome(query: Query, names: Sequence[str], milliseconds: float = 0.0) -> Outcome:
    """Return what hits, best first, are worth for a query."""
    ranks = {name: rank for rank, name in enumerate(names)}
    missing = len(names) + CANDIDATES
    best = [min(ranks.get(name, missing) for name in need) for need in query.needs]

    def recall(limit: int) -> float:
        return fmean(rank < limit for rank in best)

    first = min(best)
    return Outcome(
        query,
        found=tuple(names[:_SHOWN]),
        recall_5=recall(_SHOWN),
        recall_100=recall(100),
        recall_300=recall(CANDIDATES),
        hit_1=float(first == 0),
        reciprocal_rank=0.0 if first >= missing else 1 / (first + 1),
        milliseconds=milliseconds,
    )


def evaluate(queries: Iterable[Query], search: Search) -> list[Outcome]:
    """Return the outcomes of all queries, in order."""
    return [_searched(query, search) for query in queries]


def _searched(query: Query, search: Search) -> Outcome:
    began = time.process_time()
    names = search(query.text)
    return outcome(query, names, (time.process_time() - began) * 1e3)


def quality(outcomes: Sequence[Outcome]) -> Quality:
    """Return the means of outcomes, of which there is at least one; each run gives the same intervals."""
    recalls, hits = [one.recall_5 for one in outcomes], [one.hit_1 for one in outcomes]
    return Quality(
        queries=len(outcomes),
        recall_5=_rounded(fmean(recalls)),
        recall_5_interval=_interval(recalls),
        hit_1=_rounded(fmean(hits)),
        hit_1_interval=_interval(hits),
        mrr=_rounded(fmean(one.reciprocal_rank for one in outcomes)),
        recall_100=_rounded(fmean(one.recall_100 for one in outcomes)),
        recall_300=_rounded(fmean(one.recall_300 for one in outcomes)),
    )


def by_subset(outcomes: Sequence[Outcome]) -> dict[str, Quality]:
    """Return the quality of all outcomes, as "all", and of each subset, in the order of the queries."""
    names = dict.fromkeys(chain.from_iterable(one.query.subsets for one in outcomes))
    subsets = {name: quality([one for one in outcomes if name in one.query.subsets]) for name in names}
    return {"all": quality(outcomes), **subsets}


def _interval(values: Sequence[float]) -> tuple[float, float]:
    chance = random.Random(_SEED)
    means = sorted(fmean(chance.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    outside = round((1 - _INTERVAL) / 2 * _RESAMPLES)
    return _rounded(means[outside]), _rounded(means[-outside - 1])


def _rounded(value: float) -> float:
    return round(value, 4)
