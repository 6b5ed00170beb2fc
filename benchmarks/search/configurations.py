"""The configurations of the ranking that `make search` compares."""

from typing import Final

from benchmarks.search.measurement import PublicSet
from benchmarks.search.ranking import Ranking
from benchmarks.search.vectors import encoded

AS_SHIPPED: Final = "300 candidates, 2 vectors"
"""The configuration of the gateway."""


def vector_rankings(one: PublicSet) -> dict[str, Ranking]:
    """Return the rankings with vectors for a set, by name. Raises NoModelError."""
    both = encoded(one.name, one.tools)
    first = both.of_first_texts()
    return {
        name: Ranking(name, vectors)
        for name, vectors in (
            ("100 candidates, 1 vector", first.limited(100)),
            ("100 candidates, 2 vectors", both.limited(100)),
            ("300 candidates, 1 vector", first),
            (AS_SHIPPED, both),
        )
    }
