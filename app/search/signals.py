"""What the ranking of tools asks of other packages besides the words: the operator's words, use, and vectors.

All of it is in the memory of the worker: but for `QueryVectors.encode`, the methods are called while a search
runs in a thread, and read neither PostgreSQL nor Redis.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias
from uuid import UUID

from app.security.principal import Principal

Vector: TypeAlias = Any
"""A vector as its implementation of `QueryVectors` has it (a NumPy array)."""
Stems: TypeAlias = tuple[str, ...]
"""The stems of a term of one or more words, as `text_analysis.list_query_stems` gives them."""
MAX_TERM_WORDS: Final = 8
"""Stems of a term that has synonyms; the ranking looks for no longer ones."""
MAX_SYNONYMS: Final = 40
"""Synonyms of one term that are searched: as many as a set of an operator has, each in two forms."""
MAX_QUERY_SYNONYMS: Final = 120
"""Synonyms of all terms of a query that are searched, those of its first terms first."""

_KEY_BITS = 62


def make_tool_key(tool_id: UUID) -> int:
    """Return the key of a tool in the index: the low 62 bits of its id, which are random in a UUIDv7."""
    return tool_id.int & ((1 << _KEY_BITS) - 1)


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Whose search it is: the tenant, the key (`Principal.key_id`), and the toolset of its address."""

    tenant_id: UUID
    key_id: str
    toolset: str | None = None

    @classmethod
    def of(cls, principal: Principal, *, toolset: str | None = None) -> "SearchScope":
        """Return the scope of a principal's searches at the address of a toolset."""
        return cls(principal.tenant_id, principal.key_id, toolset or principal.toolset)


class OperatorWords(Protocol):
    """Synonyms and pinned results, as an operator has set them."""

    def get_synonyms(self, scope: SearchScope) -> Mapping[Stems, Sequence[Stems]]:
        """Return the terms that mean the same, by the stems of each term, of which none has more than
        `MAX_TERM_WORDS`.
        """

    def get_pins(self, stems: Sequence[str], scope: SearchScope) -> Sequence[UUID]:
        """Return the ids of the tools that come first in searches for exactly these stems, in order."""


class UsagePrior(Protocol):
    """What clients called after such searches."""

    def get_priors(self, stems: Sequence[str], scope: SearchScope) -> Mapping[UUID, float]:
        """Return the tools that were called after searches for such stems, each with its prior from 0 to 1;
        at most 50 of them.
        """


class QueryVectors(Protocol):
    """Vectors of texts, and of the tools whose texts were encoded."""

    async def encode(self, text: str) -> Vector | None:
        """Return the vector of a query; None where there is no model, or none within its time limit."""

    def compute_cosines(self, vector: Vector, keys: Sequence[int]) -> Sequence[float | None]:
        """Return the cosine of a query's vector with the vector of each tool, by its key (`make_tool_key`);
        None for a tool that has no vector yet.
        """

    def find_nearest(self, vector: Vector, limit: int) -> Sequence[int]:
        """Return the keys of the tools that are nearest to a query's vector, at most `limit`."""


class NoOperatorWords:
    """No synonyms and no pinned results."""

    def get_synonyms(self, scope: SearchScope) -> Mapping[Stems, Sequence[Stems]]:  # noqa: ARG002 - OperatorWords
        """Return none."""
        return {}

    def get_pins(self, stems: Sequence[str], scope: SearchScope) -> Sequence[UUID]:  # noqa: ARG002 - OperatorWords
        """Return none."""
        return ()


class NoUsagePrior:
    """Nothing was learned from use."""

    def get_priors(self, stems: Sequence[str], scope: SearchScope) -> Mapping[UUID, float]:  # noqa: ARG002 - UsagePrior
        """Return none."""
        return {}


class NoQueryVectors:
    """No model is installed."""

    async def encode(self, text: str) -> Vector | None:  # noqa: ARG002 - QueryVectors
        """Return None."""
        return None

    def compute_cosines(self, vector: Vector, keys: Sequence[int]) -> Sequence[float | None]:  # noqa: ARG002 - QueryVectors
        """Return None for each tool."""
        return [None] * len(keys)

    def find_nearest(self, vector: Vector, limit: int) -> Sequence[int]:  # noqa: ARG002 - QueryVectors
        """Return none."""
        return ()


@dataclass(frozen=True, slots=True)
class Signals:
    """The signals of a search index; by default none but the words."""

    operator_words: OperatorWords = field(default_factory=NoOperatorWords)
    usage: UsagePrior = field(default_factory=NoUsagePrior)
    vectors: QueryVectors = field(default_factory=NoQueryVectors)
