"""What was learned, in memory: the labels by stem, key and tool, and the prior of tools that they give.

A label is a call of a tool that a search had shown, by the same key, soon after it; it counts for each stem
of the search. A label counts half after a half-life. The prior of a tool for a query is

    sum over the query's stems of  idf(stem) * share(stem, tool) * confidence(stem, tool)
    -------------------------------------------------------------------------------------
                        sum over the query's stems of  idf(stem)

where `share` is the tool's part of the labels of a stem, and `confidence` rises with their number to 1. A
stem after which many tools were called says little; one that was never searched for takes its share of the
denominator. So the prior is from 0 to 1.

In the labels of all keys each key has one vote for a stem, which it divides among tools, and a tool has a
prior only where three keys have called it after the same stem. That prior is at most `SHARED_MAX`.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Final, NamedTuple
from uuid import UUID

MAX_WEIGHT: Final = 50.0
"""The weight of a stem, tool and key at most: a habit that has ended is forgotten after a few half-lives."""
MIN_KEYS: Final = 3
"""How many keys must have called a tool after a stem before this has an effect on the searches of others."""
SHARED_MAX: Final = 0.5
"""The prior at most that the labels of other keys give."""
MAX_PRIORS: Final = 50
# Of a stem after which more tools were called, the others have shares that change no order.
_BEST: Final = 20
# The number of labels that gives half of the confidence. With 0.3, 0.5 and 1, hit@1 of
# `benchmarks.search.usage` is the same within its interval; a single label may be a wrong call.
_SATURATION: Final = 0.5
# A single label counts only where stems of so much of the query's weight have it: 0.3 finds more than 0.5,
# and 0.2 no more.
_MIN_SHARE: Final = 0.3
_MIN_LABELS: Final = 2
_DAY: Final = 86_400.0
_MAX_HALF_LIVES: Final = 500.0


class LabelCount(NamedTuple):
    """The labels of a stem, tool and key: how many, and their weight at a moment (seconds since the
    epoch).
    """

    stem: bytes
    tool_id: UUID
    key: bytes
    weight: float
    labels: int
    at: float


class _Count(NamedTuple):
    """A weight as it would be at the model's epoch, and the number of labels."""

    weight: float
    labels: int


@dataclass(frozen=True, slots=True)
class _Called:
    """The labels of a stem and key: by tool, the best of them, and the sum of their weights."""

    counts: Mapping[UUID, _Count]
    best: Sequence[tuple[UUID, _Count]]
    total: float

    @classmethod
    def of(cls, counts: Mapping[UUID, _Count]) -> "_Called":
        """Return the labels with their sum."""
        best = nlargest(_BEST, counts.items(), key=lambda item: item[1].weight)
        return cls(counts, best, sum(count.weight for count in counts.values()))


@dataclass(frozen=True, slots=True)
class _Stem:
    """The labels of a stem: by key and tool, and the shares of tools in the votes of all keys."""

    own: Mapping[bytes, _Called]
    shared: Mapping[UUID, float]
    """Share times confidence, of the tools that enough keys have called."""


class UsageCounts:
    """The labels in memory. One thread at a time may add labels; others may read meanwhile. To remove some,
    make another one.

    With `across_keys`, searches also get what the labels of other keys give. `clock` returns the seconds
    since the epoch.
    """

    def __init__(
        self, *, half_life_days: float, across_keys: bool = False, clock: Callable[[], float] = time.time
    ) -> None:
        self._half_life = half_life_days * _DAY
        self._across_keys = across_keys
        self._clock = clock
        self._epoch = clock()
        self._stems: dict[bytes, _Stem] = {}
        self._tools_of: dict[bytes, frozenset[UUID]] = {}
        self._shared_tools: frozenset[UUID] = frozenset()

    def __len__(self) -> int:
        """Return the number of stems."""
        return len(self._stems)

    def merge(self, counts: Iterable[LabelCount]) -> None:
        """Replace the labels of these stems, tools and keys, and leave the others."""
        by_stem: dict[bytes, dict[bytes, dict[UUID, _Count]]] = {}
        tools_of: dict[bytes, set[UUID]] = {}
        for count in counts:
            weight = count.weight * _raise_two((count.at - self._epoch) / self._half_life)
            of_key = by_stem.setdefault(count.stem, {}).setdefault(count.key, {})
            of_key[count.tool_id] = _Count(weight, count.labels)
            tools_of.setdefault(count.key, set()).add(count.tool_id)
        for key, tools in tools_of.items():
            self._tools_of[key] = self._tools_of.get(key, frozenset()) | tools
        for stem, keys in by_stem.items():
            old = self._stems.get(stem)
            merged_own = {} if old is None else dict(old.own)
            for key, called in keys.items():
                before = merged_own[key].counts if key in merged_own else {}
                merged_own[key] = _Called.of({**before, **called})
            shared = self._compute_shares(merged_own) if self._across_keys else {}
            self._shared_tools |= shared.keys()
            self._stems[stem] = _Stem(merged_own, shared)

    def get_priors(self, stems: Sequence[bytes], key: bytes) -> Mapping[UUID, float]:
        """Return the priors of at most `MAX_PRIORS` tools for a query of these stems by a key."""
        priors_by_tool = self._compute_own_priors(stems, key)
        if self._across_keys:
            for tool, prior in self._compute_shared_priors(stems).items():
                priors_by_tool[tool] = max(prior, priors_by_tool.get(tool, 0.0))
        if len(priors_by_tool) <= MAX_PRIORS:
            return priors_by_tool
        return dict(nlargest(MAX_PRIORS, priors_by_tool.items(), key=lambda item: item[1]))

    def _compute_own_priors(self, stems: Sequence[bytes], key: bytes) -> dict[UUID, float]:
        tools = len(self._tools_of.get(key, ()))
        if not tools:
            return {}
        total = 0.0
        matched: dict[UUID, float] = {}
        scores: dict[UUID, float] = {}
        labels: dict[UUID, int] = {}
        decay = self._compute_decay(self._clock())
        for stem in stems:
            entry = self._stems.get(stem)
            called = None if entry is None else entry.own.get(key)
            idf = _compute_idf(tools, 1 if called is None else len(called.counts))
            total += idf
            if called is None:
                continue
            for tool, count in called.best:
                weight = count.weight * decay
                share = count.weight / called.total
                scores[tool] = scores.get(tool, 0.0) + idf * share * weight / (weight + _SATURATION)
                matched[tool] = matched.get(tool, 0.0) + idf
                labels[tool] = max(labels.get(tool, 0), count.labels)
        return {
            tool: score / total
            for tool, score in scores.items()
            if labels[tool] >= _MIN_LABELS or matched[tool] >= _MIN_SHARE * total
        }

    def _compute_shared_priors(self, stems: Sequence[bytes]) -> dict[UUID, float]:
        tools = len(self._shared_tools)
        if not tools:
            return {}
        total = 0.0
        scores: dict[UUID, float] = {}
        for stem in stems:
            entry = self._stems.get(stem)
            shared = {} if entry is None else entry.shared
            idf = _compute_idf(tools, len(shared) or 1)
            total += idf
            for tool, score in shared.items():
                scores[tool] = scores.get(tool, 0.0) + idf * score
        return {tool: min(score / total, SHARED_MAX) for tool, score in scores.items()}

    def _compute_shares(self, own: Mapping[bytes, _Called]) -> Mapping[UUID, float]:
        """Return share times confidence of the tools that enough keys have called. The others have no part of
        the votes: a key alone cannot lower the shares of tools either.

        The votes are those of this moment: they are counted again when a label is added, and every hour.
        """
        decay = self._compute_decay(self._clock())
        votes: dict[UUID, float] = {}
        voters: dict[UUID, int] = {}
        for called in own.values():
            whole = called.total * decay + _SATURATION
            for tool, count in called.counts.items():
                votes[tool] = votes.get(tool, 0.0) + count.weight * decay / whole
                voters[tool] = voters.get(tool, 0) + 1
        counted = {tool: vote for tool, vote in votes.items() if voters[tool] >= MIN_KEYS and vote > 0}
        total = sum(counted.values())
        best = nlargest(_BEST, counted.items(), key=lambda item: item[1])
        return {tool: vote / total * vote / (vote + _SATURATION) for tool, vote in best}

    def _compute_decay(self, moment: float) -> float:
        return _raise_two((self._epoch - moment) / self._half_life)


def decay_weight(weight: float, *, seconds: float, half_life_days: float) -> float:
    """Return a weight after so many seconds."""
    return weight * _raise_two(-seconds / (half_life_days * _DAY))


def _raise_two(exponent: float) -> float:
    """Return 2 to the power of a number of half-lives, of which there may be thousands in a retention period:
    no weight becomes zero, by which a share would be divided, or infinite.
    """
    return float(2 ** max(-_MAX_HALF_LIVES, min(exponent, _MAX_HALF_LIVES)))


def _compute_idf(tools: int, called: int) -> float:
    """Return how much a stem says after which `called` of `tools` tools were called."""
    return math.log1p(tools / called)
