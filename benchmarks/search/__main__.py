"""`make search`: how well searches find the right tool on the public sets, and what they cost."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain, islice
from typing import Any

from rich.console import Console

from benchmarks.corpus.download import CorpusUnavailableError
from benchmarks.search import costs, tables
from benchmarks.search.evaluation import Outcome
from benchmarks.search.figures import BEFORE, VECTORS, WORDS, losses, missed_targets, record, recorded
from benchmarks.search.measurement import PublicSet, outcomes, point, public_sets, quality_figures
from benchmarks.search.misses import misses_report
from tests.interop.environments import InstallError


def _parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make search", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the figures into figures.json")
    parser.add_argument("--no-costs", action="store_true", help="measure only the quality")
    parser.add_argument("--no-vectors", action="store_true", help="measure only words, even with a model")
    parser.add_argument("--tools", type=int, default=costs.LARGE, help="of the large index")
    parser.add_argument("--misses", action="store_true", help="only list what the words miss, and why")
    parser.add_argument("--strict", action="store_true", help="fail when a target of the costs is missed")
    return parser.parse_args()


def main() -> int:
    """Print the tables; return 1 if a target of the quality is missed, or a figure is less than recorded."""
    arguments = _parsed_arguments()
    try:
        sets = public_sets()
    except (CorpusUnavailableError, InstallError) as problem:
        print(f"The public material is not available: {problem}")
        return 2
    words = {one.name: outcomes(one) for one in sets}
    if arguments.misses:
        for one in sets:
            print(misses_report(one, words[one.name]))
        return 0
    known = recorded()
    compared, shipped = ({}, None) if arguments.no_vectors else _with_vectors(sets)
    quality = {WORDS: quality_figures(words)}
    if shipped is not None:
        quality[VECTORS] = quality_figures(compared[shipped])
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(tables.quality_table({BEFORE: known["quality"][BEFORE], **quality}))
    points = [point(name, found) for name, found in {WORDS: words, **compared}.items()]
    console.print(tables.front_table(points))
    found: dict[str, Any] = {"quality": quality}
    if compared:
        found["front"] = [asdict(one) for one in points]
    slow: list[str] = []
    if not arguments.no_costs:
        measured = [*_costs(sets, arguments.tools, with_vectors=shipped is not None)]
        console.print(tables.cost_table(measured))
        slow = tables.missed_costs(measured)
        found["cost"] = [asdict(one) for one in measured]
    if arguments.record:
        record(found)
    failures = [
        *chain.from_iterable(missed_targets(name, one) for name, one in quality.items()),
        *chain.from_iterable(losses(name, one, recorded()["quality"]) for name, one in quality.items()),
    ]
    print(*failures, *slow, sep="\n")
    return 1 if failures or (arguments.strict and slow) else 0


def _with_vectors(
    sets: Sequence[PublicSet],
) -> tuple[dict[str, dict[str, list[Outcome]]], str | None]:
    """Return the outcomes of the rankings with vectors by name and set, and the name of the shipped one; none
    where there is no model, which is printed.
    """
    # Libraries of 60 MB, which a checkout without the extra does not have.
    try:
        from benchmarks.search.configurations import AS_SHIPPED, vector_rankings  # noqa: PLC0415
        from benchmarks.search.vectors import NoModelError  # noqa: PLC0415
    except ImportError as problem:
        print(f"Words only: {problem}", file=sys.stderr)
        return {}, None
    try:
        by_set = {one.name: vector_rankings(one) for one in sets}
    except NoModelError as problem:
        print(f"Words only: {problem}", file=sys.stderr)
        return {}, None
    names = next(iter(by_set.values()))
    found = {name: {one.name: outcomes(one, by_set[one.name][name]) for one in sets} for name in names}
    return found, AS_SHIPPED


def _costs(sets: Sequence[PublicSet], large: int, *, with_vectors: bool) -> Iterator[costs.Cost]:
    """Yield the costs of the queries of BFCL at its size, and of the sentences at `large` operations."""
    functions, operations = sets
    small = [*functions.tools, *islice(operations.tools, costs.SMALL - len(functions.tools))]
    for vectors in (False, True) if with_vectors else (False,):
        yield costs.cost(small, [query.text for query in functions.queries], with_vectors=vectors)
        yield costs.cost(
            costs.operations(large), [query.text for query in operations.queries], with_vectors=vectors
        )


if __name__ == "__main__":
    sys.exit(main())
