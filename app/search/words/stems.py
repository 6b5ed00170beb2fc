"""The stems of terms and queries, as the ranking has those of a query."""

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from app.core import exact_json
from app.search.signals import Stems
from app.search.text_analysis import build_analyzer, list_query_stems, split_identifier

_ANALYZER: Final = build_analyzer()
# One word with digits, such as k8s or EC2.
_CODE: Final = re.compile(r"[A-Za-z]*[0-9][A-Za-z0-9]*")


@lru_cache(maxsize=50_000)
def stem_query(text: str) -> Stems:
    """Return the stems of a query as the ranking has them, each once; empty where it has no word."""
    return tuple(list_query_stems(text, _ANALYZER))


@lru_cache(maxsize=50_000)
def stem_term(text: str) -> Stems:
    """Return the stems by which a term is found in a query, in order.

    The ranking has the parts of an identifier one after the other, and those with digits also whole, behind
    all others: `deploy k8s now` is `deploy k 8 s now k8s`. So `k8s` is found whole, and `giftCard` as
    `gift card`.
    """
    if _CODE.fullmatch(text):
        return tuple(_ANALYZER.analyze(text))
    return tuple(list_query_stems(split_identifier(text), _ANALYZER))


@lru_cache(maxsize=50_000)
def stem_target(text: str) -> tuple[Stems, ...]:
    """Return the stems to search by for a term: names of tools have them in parts, other texts whole."""
    parts = tuple(list_query_stems(split_identifier(text), _ANALYZER))
    return tuple(dict.fromkeys((stem_term(text), parts)))


def digest_synonyms(terms: Iterable[str], expand_to: Iterable[str] | None) -> bytes:
    """Return the SHA-256 digest of a set of synonyms, equal for terms in another order or with other
    endings.
    """
    targets = None if expand_to is None else sorted({stem_term(term) for term in expand_to})
    return _digest([sorted({stem_term(term) for term in terms}), targets])


def digest_query(query: str) -> bytes:
    """Return the SHA-256 digest of the stems of a query, equal for its words in another order."""
    return _digest(sorted(set(stem_query(query))))


def _digest(value: object) -> bytes:
    return hashlib.sha256(exact_json.dumps(value)).digest()
