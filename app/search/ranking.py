"""The order of the candidates of a search: by words, the cosine of vectors, and what was learned from use."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import tantivy

from app.search.lexical import EXACT_SCORE
from app.search.signals import QueryVectors, Vector

CANDIDATES: Final = 300
"""How many of the best candidates by words are ranked by further signals."""
VECTOR_WEIGHT: Final = 1.2
_SEVERAL_CLAUSES: Final = 0.4
"""The share of the weight for a text of several clauses, whose one vector is near to the tools of one."""
_LEAST_COSINE: Final = 0.2
"""Cosines are compared with the best one, but not with a smaller one than this."""
NEAREST: Final = 50
"""How many tools are candidates because their vectors are the nearest, whatever their words."""
PRIOR_WEIGHT: Final = 0.3
"""The prior at most, of the score of the best candidate by words."""
NAME_SCORE: Final = 100.0
PIN_SCORE: Final = 200.0


@dataclass(slots=True)
class Candidate:
    """A tool that may be a hit. `words` is its BM25 score, without what an exact name adds."""

    address: tantivy.DocAddress
    words: float
    key: int = 0
    """Its `make_tool_key`; 0 where no further signal is used."""
    exact: bool = False
    pin: int | None = None
    """Its position among the pinned results."""
    cosine: float | None = None
    vector_share: float = 0.0
    """The part of its score that its vector makes."""
    prior: float = 0.0
    prior_share: float = 0.0
    score: float = 0.0


def make_candidate(address: tantivy.DocAddress, score: float) -> Candidate:
    """Return a hit of the index as a candidate."""
    if score < EXACT_SCORE:
        return Candidate(address, score)
    return Candidate(address, score - EXACT_SCORE, exact=True)


@dataclass(frozen=True, slots=True)
class RankingSignals:
    """The signals of one search; `vector` is that of its text."""

    pins: Mapping[int, int]
    """The positions of pinned results, by the tool's key."""
    priors: Mapping[int, float]
    vector: Vector | None = None
    vectors: QueryVectors | None = None
    nearest: Collection[int] = ()
    """The keys of the tools whose vectors are the nearest."""
    several_clauses: bool = False
    """Whether the text may ask for several tools (`text_analysis.has_several_clauses`)."""

    @property
    def vector_weight(self) -> float:
        """What the nearest vector adds to a score."""
        return VECTOR_WEIGHT * (_SEVERAL_CLAUSES if self.several_clauses else 1)

    @property
    def are_empty(self) -> bool:
        """Whether the words alone decide."""
        return not self.pins and not self.priors and self.vector is None

    @property
    def tools(self) -> frozenset[int]:
        """The keys of tools that are candidates whatever their words."""
        return frozenset(self.pins).union(self.priors, self.nearest)


def rank(candidates: Sequence[Candidate], signals: RankingSignals) -> list[Candidate]:
    """Return the candidates with their scores, best first.

    The score is `words / best words + weight * (max(0, cosine) / best cosine)^2 + 0.3 * prior`, with the
    weight 1.2, for a text of several clauses 0.48; the tool whose name the query is has 100 more, a pinned
    result 200 more. Candidates of equal score keep their order.
    """
    best = max((ranked.words for ranked in candidates), default=0.0) or 1.0
    cosines: Sequence[float | None] = [None] * len(candidates)
    if signals.vector is not None and signals.vectors is not None:
        cosines = signals.vectors.compute_cosines(signals.vector, [ranked.key for ranked in candidates])
    nearest = max((cosine for cosine in cosines if cosine is not None), default=0.0)
    nearest = max(nearest, _LEAST_COSINE)
    for ranked, cosine in zip(candidates, cosines, strict=True):
        ranked.cosine = cosine
        ranked.prior = signals.priors.get(ranked.key, 0.0)
        ranked.pin = signals.pins.get(ranked.key)
        ranked.prior_share = PRIOR_WEIGHT * ranked.prior
        if cosine is not None:
            ranked.vector_share = signals.vector_weight * (max(0.0, cosine) / nearest) ** 2
        score = ranked.words / best + ranked.vector_share + ranked.prior_share
        if ranked.pin is not None:
            score = PIN_SCORE + len(signals.pins) - ranked.pin
        elif ranked.exact:
            score += NAME_SCORE
        ranked.score = round(score, 4)
    return sorted(candidates, key=lambda ranked: -ranked.score)
