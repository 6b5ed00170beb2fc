"""Suggestions of the names that were probably meant: "did you mean". Used only where a name is unknown.

The cost is bounded: at most 2,000 candidates are compared by their pairs of letters, and the 10 likeliest by
`difflib`, which takes about 2 ms. A caller passes only the names that the client may see.
"""

import difflib
import heapq
from collections.abc import Iterable
from itertools import islice
from typing import Final

MAX_CANDIDATES: Final = 2_000
_MAX_LENGTH: Final = 100
_LIKELY: Final = 10
_CUTOFF: Final = 0.6
# Of several names, those that are much less similar than the first are left out.
_SPREAD: Final = 0.15


def find_similar(name: str, candidates: Iterable[str], *, limit: int = 1) -> list[str]:
    """Return up to `limit` of the candidates that are similar to `name`, the most similar first.

    Case and the separators `.`, `_`, `-`, `:` are ignored. Only the first 2,000 candidates are compared, and
    candidates of more than 100 characters are skipped.
    """
    wanted = _fold(name[:_MAX_LENGTH])
    if not wanted:
        return []
    pairs = _list_pairs(wanted)
    folded = (
        (_fold(candidate), candidate)
        for candidate in islice(candidates, MAX_CANDIDATES)
        if len(candidate) <= _MAX_LENGTH
    )
    likely = heapq.nlargest(
        _LIKELY, folded, key=lambda pair: len(pairs & _list_pairs(pair[0])) / (len(pair[0]) + 1)
    )
    matcher = difflib.SequenceMatcher(b=wanted)
    ranked = []
    for text, candidate in likely:
        matcher.set_seq1(text)
        ratio = matcher.ratio()
        if ratio >= _CUTOFF and candidate != name:
            ranked.append((-ratio, candidate))
    ranked.sort()
    return [candidate for ratio, candidate in ranked[:limit] if ratio <= ranked[0][0] + _SPREAD]


def did_you_mean(names: Iterable[str]) -> str:
    """Return the sentence that suggests these names, "" for none."""
    quoted = [f"`{name}`" for name in names]
    return f"Did you mean {' or '.join(quoted)}?" if quoted else ""


def _fold(text: str) -> str:
    return text.lower().translate(_SEPARATORS)


def _list_pairs(text: str) -> set[str]:
    return {text[index : index + 2] for index in range(len(text) - 1)} or {text}


_SEPARATORS: Final = str.maketrans(dict.fromkeys("-.:", "_"))
