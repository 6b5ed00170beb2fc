"""A query of a benchmark, and what it must find."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Query:
    """A text to search by. Each of `needs` is a part of the task: the names of the tools that do it, of which
    any one suffices.

    `subsets` are the names of the groups that it counts for, beside the whole set.
    """

    text: str
    needs: tuple[frozenset[str], ...]
    subsets: tuple[str, ...] = ()
