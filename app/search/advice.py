"""What a client does next after a search whose best hit may be the wrong tool: other words, or providers.

Everything is read from tools that the client may see: a word that only others have is never named.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

import orjson
import tantivy
from tantivy import Occur, Query

from app.core.suggestions import find_similar
from app.search.lexical import FIELDS
from app.search.text_analysis import QueryWord, list_plain_words, take_first_sentence

FEW_WORDS: Final = 3
"""A text of up to so many words says little besides the thing itself."""
WEAK_COVERAGE: Final = 0.3
"""With a smaller share of the words of a text, by weight, its best hit is weak; see decision 111."""
WEAK_COVERAGE_OF_FEW: Final = 0.5
"""The same for a text of few words."""
ENOUGH_WORDS: Final = 4.0
"""A hit with so many words, by weight, is not weak: of a whole task, no tool has a large share."""
STRONG_COSINE: Final = 0.5
"""From this cosine on, the best hit of a text means the same whatever its words are."""
_MAX_CHECKED: Final = 12
"""Words of a text that are looked up."""
_MAX_UNKNOWN: Final = 3
_MAX_SUGGESTED: Final = 3
_MAX_SIMILAR: Final = 20
"""Tools that are read for words like an unknown one."""
_MAX_HITS: Final = 5
_MIN_FUZZY: Final = 4
_MAX_ENDING: Final = 6
"""Letters at the end of a word that stemming may remove."""
_LONG_WORD: Final = 7
_MIN_WORD: Final = 3


def is_weak(*, coverage: float, cosine: float | None, is_named: bool, words: int) -> bool:
    """Return whether the best hit of a text of `words` distinct words may well be the wrong tool.

    `coverage` is the share of its words that the hit has, by weight (0 where there is no hit), `cosine` None
    without vectors, `is_named`: the text is the tool's name, or the tool is pinned for it.
    """
    if is_named or (cosine is not None and cosine >= STRONG_COSINE):
        return False
    least = WEAK_COVERAGE_OF_FEW if words <= FEW_WORDS else WEAK_COVERAGE
    return coverage < least and coverage * words < ENOUGH_WORDS


@dataclass(frozen=True, slots=True)
class SeenTool:
    """The texts of a tool as the client sees them. `local_name` is its name without that of the provider;
    `inputs` are the names of its inputs.
    """

    provider: str
    local_name: str
    description: str
    tags: Sequence[str] = ()
    inputs: Sequence[str] = ()

    @property
    def words(self) -> list[str]:
        """All words, in lower case."""
        return list_plain_words(" ".join((self.local_name, self.description, *self.tags, *self.inputs)))


SeeTool = Callable[[str], SeenTool | None]
"""Returns a tool by its canonical name as the client sees it; None where it does not see the tool."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to search for next, where the hits are weak.

    `unknown_words` are words of the texts that no visible tool has, `did_you_mean` words of visible tools
    that are spelt like these, `providers` the names of those whose tools are nearest, `words` others to
    search by.
    """

    unknown_words: Sequence[str] = ()
    did_you_mean: Sequence[tuple[str, str]] = ()
    """Pairs of an unknown word and the one that was probably meant."""
    providers: Sequence[str] = ()
    words: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the members as JSON values."""
        return {
            "unknown_words": list(self.unknown_words),
            "did_you_mean": [{"word": word, "suggestion": other} for word, other in self.did_you_mean],
            "providers": list(self.providers),
            "words": list(self.words),
        }


class VisibleTerms:
    """Looks words up in the tools that a client may see: `restrictions` are the clauses for these."""

    def __init__(
        self,
        searcher: tantivy.Searcher,
        schema: tantivy.Schema,
        restrictions: Sequence[tuple[Occur, Query]],
        *,
        see: SeeTool | None = None,
    ) -> None:
        self._searcher = searcher
        self._schema = schema
        self._restrictions = restrictions
        self._see = see

    def has(self, word: QueryWord) -> bool:
        """Return whether a visible tool has the word."""
        queries = [
            Query.term_query(self._schema, name, stem)
            for name in FIELDS
            for stem in word.stems
            if self._searcher.doc_freq(name, stem)
        ]
        return bool(queries) and bool(self._search(queries, 1))

    def find_similar_tools(self, word: QueryWord) -> list[SeenTool]:
        """Return visible tools with a word that is spelt like this one."""
        # Of a misspelt word, stemming leaves the ending: its beginnings are searched, too.
        shortest = max(_MIN_FUZZY, len(word.stem) - _MAX_ENDING)
        queries = [
            Query.boost_query(
                Query.fuzzy_term_query(
                    self._schema, name, word.stem[:length], distance=2 if length >= _LONG_WORD else 1
                ),
                float(length),
            )
            for length in range(len(word.stem), shortest - 1, -1)
            for name in FIELDS
        ]
        if not queries:
            return []
        return self.list_seen_tools(
            bytes(self._searcher.doc(address).get_first("json_members") or b"")
            for _, address in self._search(queries, _MAX_SIMILAR)
        )

    def list_seen_tools(self, hits: Iterable[bytes]) -> list[SeenTool]:
        """Return the tools of hits, given as their `json_members`, as the client sees them."""
        seen_tools = []
        for members in hits:
            shown = orjson.loads(b"{" + members)
            tool = _of_members(shown) if self._see is None else self._see(shown["name"])
            if tool is not None:
                seen_tools.append(tool)
        return seen_tools

    def _search(self, queries: Sequence[Query], limit: int) -> Sequence[tuple[Any, tantivy.DocAddress]]:
        either = Query.boolean_query([(Occur.Should, query) for query in queries])
        query = Query.boolean_query([(Occur.Must, either), *self._restrictions])
        return self._searcher.search(query, limit=limit, count=False).hits


def advise(
    texts: Sequence[Sequence[QueryWord]],
    hits: Sequence[bytes],
    terms: VisibleTerms,
    *,
    stem: Callable[[str], Sequence[str]],
) -> Advice:
    """Return what to search for next after weak hits of these texts, given as their words.

    `hits` are the `json_members` of the hits, best first; `stem` gives the stems of a text.
    """
    asked = [word for words in texts for word in islice(words, _MAX_CHECKED)]
    unknown = [word for word in dict.fromkeys(asked) if not terms.has(word)][:_MAX_UNKNOWN]
    shown = terms.list_seen_tools(hits[:_MAX_HITS])
    meant: list[tuple[str, str]] = []
    providers: list[str] = []
    for word in unknown:
        near = terms.find_similar_tools(word)
        names = list(dict.fromkeys(tool.provider for tool in near))
        similar = find_similar(word.text, dict.fromkeys(chain.from_iterable(tool.words for tool in near)))
        meant += [(word.text, other) for other in similar]
        providers += [tool.provider for tool in near if similar and similar[0] in tool.words][:1]
        providers += find_similar(word.text, names)
    providers += [tool.provider for tool in shown]
    stems = {one for words in texts for word in words for one in word.stems}
    return Advice(
        unknown_words=[word.text for word in unknown],
        did_you_mean=meant,
        providers=list(dict.fromkeys(providers))[:_MAX_SUGGESTED],
        words=_find_other_words(shown, stems, stem),
    )


def _find_other_words(
    shown: Sequence[SeenTool], stems: Iterable[str], stem: Callable[[str], Sequence[str]]
) -> list[str]:
    """Return words of the first hits that were not searched for: those that most of them have come first."""
    known = set(stems)
    counts: Counter[str] = Counter()
    for tool in shown:
        counts.update(list_plain_words(f"{tool.local_name} {take_first_sentence(tool.description)}"))
    others = [
        word
        for word, _ in sorted(counts.items(), key=lambda pair: -pair[1])
        if len(word) >= _MIN_WORD and word.isalpha() and known.isdisjoint(stem(word))
    ]
    return others[:_MAX_SUGGESTED]


def _of_members(members: Mapping[str, Any]) -> SeenTool:
    return SeenTool(
        provider=members["provider"],
        local_name=members["name"].removeprefix(f"{members['provider']}."),
        description=members["description"],
        tags=members["tags"],
        inputs=list(members["inputs"].get("properties") or ()),
    )
