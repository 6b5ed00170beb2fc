"""The tables of `make search`."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from benchmarks.search.costs import Cost
from benchmarks.search.figures import TARGETS, VECTORS, WORDS
from benchmarks.search.measurement import BFCL, Point, QualityFigures, pareto_front

MEAN: Mapping[str, float] = {WORDS: 1.5, VECTORS: 15.0}
"""CPU milliseconds of a query at most, on average."""
P95: Mapping[str, float] = {WORDS: 4.0}


def quality_table(by_ranking: Mapping[str, QualityFigures]) -> Table:
    """Return a line for each set, subset and ranking."""
    table = Table(title="Quality")
    for column in (
        "set",
        "subset",
        "ranking",
        "queries",
        "recall@5 [95 %]",
        "hit@1 [95 %]",
        "MRR",
        "recall@100",
        "@300",
    ):
        table.add_column(column, justify="left" if column in ("set", "subset", "ranking") else "right")
    first = next(iter(by_ranking.values()))
    for name, subsets in first.items():
        for subset in subsets:
            for ranking, quality in by_ranking.items():
                found = quality[name][subset]
                targets = TARGETS.get(ranking, {}) if (name, subset) == (BFCL, "all") else {}
                table.add_row(
                    name,
                    subset,
                    ranking,
                    str(found["queries"]),
                    _with_interval(found, "recall_5", targets),
                    _with_interval(found, "hit_1", targets),
                    *(_number(found[figure]) for figure in ("mrr", "recall_100", "recall_300")),
                )
    return table


def front_table(points: Sequence[Point]) -> Table:
    """Return a line for each configuration; those of the Pareto front of a set are marked with *."""
    table = Table(title="Recall@5 and CPU ms of a query for 300 hits (*: no other is better and cheaper)")
    table.add_column("ranking")
    for name in points[0].recall_5:
        table.add_column(name, justify="right")
    for point in points:
        table.add_row(point.ranking, *(_point(points, point, name) for name in point.recall_5))
    return table


def cost_table(measured: Sequence[Cost]) -> Table:
    """Return a line for each ranking and size of the index."""
    table = Table(title="Cost of a query for 10 hits, and of the index")
    for column in ("tools", "ranking", "CPU ms, mean", "CPU ms, p95", "index, CPU s", "index, MB"):
        table.add_column(column, justify="left" if column == "ranking" else "right")
    for one in measured:
        table.add_row(
            f"{one.tools:,}",
            one.ranking,
            _at_most(one.mean, MEAN.get(one.ranking)),
            _at_most(one.p95, P95.get(one.ranking)),
            f"{one.index_seconds:.1f}",
            f"{one.index_megabytes:.0f}",
        )
    return table


def missed_costs(measured: Sequence[Cost]) -> list[str]:
    """Return a sentence for each target of the costs that is missed."""
    return [
        f"{one.ranking}, {one.tools:,} tools: {found} ms of CPU ({what}), more than the target {target}"
        for one in measured
        for what, found, target in (
            ("mean", one.mean, MEAN.get(one.ranking)),
            ("p95", one.p95, P95.get(one.ranking)),
        )
        if target is not None and found > target
    ]


def _point(points: Sequence[Point], one: Point, name: str) -> str:
    mark = "*" if one.ranking in pareto_front(points, name) else " "
    return f"{_number(one.recall_5[name])}, {one.cpu[name]:.1f} ms{mark}"


def _with_interval(found: Mapping[str, Any], figure: str, targets: Mapping[str, float]) -> str:
    low, high = found[f"{figure}_interval"]
    target = f" (>= {_number(targets[figure])})" if figure in targets else ""
    return f"{_number(found[figure])} [{_number(low)} {_number(high)}]{target}"


def _number(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def _at_most(value: float, target: float | None) -> str:
    return f"{value:.2f}" if target is None else f"{value:.2f} (<= {target:g})"
