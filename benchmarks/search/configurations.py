"""The configurations of the ranking that `make search` compares."""

from typing import Final

from benchmarks.search.measurement import PublicSet
from benchmarks.search.ranking import Ranking
from benchmarks.search.vectors import encoded

AS_SHIPPED: Final = "2 vectors, 300 candidates and the nearest"
"""The configuration of the gateway."""


def vector_rankings(one: PublicSet) -> dict[str, Ranking]:
    """Return the rankings with vectors for a set, by name. Raises NoModelError."""
    both = encoded(one.name, one.tools)
    first = both.of_first_texts()
    return {
        name: Ranking(name, vectors)
        for name, vectors in (
            ("1 vector, 100 candidates", first.limited(100)),
            ("2 vectors, 100 candidates", both.limited(100)),
            ("1 vector, 300 candidates", first.limited(300)),
            ("2 vectors, 300 candidates", both.limited(300)),
            ("1 vector, 300 candidates and the nearest", first),
            (AS_SHIPPED, both),
        )
    }
