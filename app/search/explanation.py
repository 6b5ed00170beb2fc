"""Why a hit of a search has its score."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WordScore:
    """What one word of a query contributes to a hit: the field that it matched best, and its score.

    `synonym_of` is the term of the query whose synonym the word is.
    """

    word: str
    field: str
    score: float
    synonym_of: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a hit has its score: what each word contributes, and the signals.

    `words_score` is the sum of the words (BM25), `cosine` is None where there are no vectors.
    """

    words: Sequence[WordScore]
    words_score: float
    words_share: float
    """The part of the score that the words make: 1 for the best candidate by words."""
    cosine: float | None
    vector_share: float
    """The part of the score that the vectors make."""
    prior: float
    prior_share: float
    exact: bool
    pinned: bool
