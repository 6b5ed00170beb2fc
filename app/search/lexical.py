"""The lexical ranking: the query of a text over the indexed words of tools, and what each word adds.

Each word counts with its best field, and a little with the others; words are summed (BM25).
Synonyms of an operator count nearly as much as the words that they stand for.
"""

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson
import tantivy
from tantivy import Occur, Query

from app.search.explanation import WordScore
from app.search.signals import MAX_QUERY_SYNONYMS, MAX_SYNONYMS, MAX_TERM_WORDS, Stems
from app.search.text_analysis import QueryWord, normalize_exact, select_significant

FIELDS: Final[Mapping[str, float]] = {"head": 1.0, "body": 0.7, "provider_words": 1.3}
"""The fields of words with their boosts: what names and sums up a tool, its other texts, its provider."""
EXACT_SCORE: Final = 10_000.0
"""What a document scores more whose name the query is: more than any sum of words, and little enough for the
words to be told from it (scores are 32-bit floats).
"""
ANALYZER: Final = "words"
"""The name by which the analyzer of the fields is registered in the index."""
_TIE_BREAKER: Final = 0.3
_FUZZY_FIELDS: Final = ("head", "body")
_FUZZY_BOOST: Final = 0.4
_MIN_FUZZY_LENGTH: Final = 4
_SYNONYM_BOOST: Final = 0.9
_MAX_WORDS: Final = 32


@dataclass(frozen=True, slots=True)
class _Term:
    """Words that count as a whole: one word of the query, or a term that has synonyms, with these."""

    words: tuple[QueryWord, ...]
    synonyms: tuple[Stems, ...] = ()

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    def compute_boost(self, synonym: Stems) -> float:
        """Return the boost of each word of a synonym, so that one of more words does not count more."""
        return _SYNONYM_BOOST * len(self.words) / max(len(synonym), len(self.words))


class LexicalQuery:
    """The query of one text; it is built from terms, never parsed: any text is valid.

    `restrictions` are the clauses for the tools that a restricted client may see: a word that only others
    have is to it a word that no tool has.
    """

    def __init__(
        self,
        text: str,
        words: Sequence[QueryWord],
        synonyms: Mapping[Stems, Sequence[Stems]],
        *,
        searcher: tantivy.Searcher,
        schema: tantivy.Schema,
        restrictions: Sequence[tuple[Occur, Query]] = (),
    ) -> None:
        self._searcher = searcher
        self._schema = schema
        self._restrictions = restrictions
        self._known: dict[Stems, bool] = {}
        chosen = self._choose_distinctive(words)
        self.words: Sequence[QueryWord] = chosen
        """The words that are searched: at most 32."""
        self._terms = _group_terms(chosen, synonyms)
        self._exact = normalize_exact(text.encode("utf-8", "replace").decode())

    @property
    def unknown_words(self) -> list[str]:
        """The words that no tool has, as they were written."""
        return [word.text for word in select_significant(self.words) if not self._count_frequency(word.stems)]

    @property
    def synonyms(self) -> dict[str, list[str]]:
        """The synonyms that are searched, as stems, by the term of the query."""
        return {
            term.text: [" ".join(stems) for stems in term.synonyms] for term in self._terms if term.synonyms
        }

    def build_query(self) -> Query | None:
        """Return the query; None where the text contains no word."""
        clauses = [(Occur.Should, self._build_term_query(term)) for term in self._terms]
        if self._exact:
            exact = Query.term_query(self._schema, "exact", self._exact)
            clauses.append((Occur.Should, Query.const_score_query(exact, EXACT_SCORE)))
        return Query.boolean_query(clauses) if clauses else None

    def explain(self, address: tantivy.DocAddress) -> list[WordScore]:
        """Return what each word contributes to the score of a document, in the order of the query."""
        scores: list[WordScore] = []
        for term in self._terms:
            term_scores = [
                self._score_word(word.text, word.stems, address, boost=word.weight) for word in term.words
            ]
            best = [score for score in term_scores if score is not None]
            for synonym in term.synonyms:
                scored = [
                    self._score_word(
                        stem, (stem,), address, boost=term.compute_boost(synonym), synonym_of=term.text
                    )
                    for stem in synonym
                ]
                other = [score for score in scored if score is not None]
                if sum(score.score for score in other) > sum(score.score for score in best):
                    best = other
            scores += best
        return scores

    def measure_coverage(self, address: tantivy.DocAddress) -> float:
        """Return the share of the query's words that a document matches, from 0 to 1; rare words weigh more,
        and those that no tool has weigh most. A word that is only like one of the document counts half.
        """
        matched = total = 0.0
        contributing = self.explain(address)
        known = {score.word for score in contributing}
        synonymous = {score.synonym_of for score in contributing}
        for term in self._terms:
            for word in term.words:
                weight = self._compute_weight(word.stems) * word.weight
                total += weight
                if term.text in synonymous or (word.text in known and self._count_frequency(word.stems)):
                    matched += weight
                elif word.text in known:
                    matched += weight / 2
        return matched / total if total else 0.0

    def _compute_weight(self, stems: Stems) -> float:
        """Return the inverse document frequency of a word, as BM25 weighs it."""
        frequency, documents = self._count_frequency(stems), self._searcher.num_docs
        return math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))

    def _count_frequency(self, stems: Stems) -> int:
        """Return how many tools have a word; 0 where none has that the client may see."""
        if not self._is_known(stems):
            return 0
        return max(self._searcher.doc_freq(name, stem) for name in FIELDS for stem in stems)

    def _is_known(self, stems: Stems) -> bool:
        known = self._known.get(stems)
        if known is None:
            terms = [
                (Occur.Should, Query.term_query(self._schema, name, stem))
                for name in FIELDS
                for stem in stems
                if self._searcher.doc_freq(name, stem)
            ]
            known = bool(terms)
            if known and self._restrictions:
                query = Query.boolean_query([(Occur.Must, Query.boolean_query(terms)), *self._restrictions])
                known = bool(self._searcher.search(query, limit=1, count=False).hits)
            self._known[stems] = known
        return known

    def _choose_distinctive(self, words: Sequence[QueryWord]) -> Sequence[QueryWord]:
        """Return at most 32 of the words, in their order: of more, those that are in the fewest documents,
        and words that are in no document last.
        """
        if len(words) <= _MAX_WORDS:
            return words
        counts = {word: self._count_frequency(word.stems) for word in words}
        chosen = frozenset(
            heapq.nsmallest(_MAX_WORDS, words, key=lambda word: (counts[word] == 0, counts[word]))
        )
        return [word for word in words if word in chosen]

    def _build_term_query(self, term: _Term) -> Query:
        word_query = self._add_queries(
            [self._build_word_query(word.stems, word.weight) for word in term.words]
        )
        if not term.synonyms:
            return word_query
        others = [
            Query.boost_query(
                self._add_queries([self._build_word_query((stem,)) for stem in stems]),
                term.compute_boost(stems),
            )
            for stems in term.synonyms
        ]
        return Query.disjunction_max_query([word_query, *others])

    def _add_queries(self, queries: Sequence[Query]) -> Query:
        if len(queries) == 1:
            return queries[0]
        return Query.boolean_query([(Occur.Should, query) for query in queries])

    def _build_word_query(self, stems: Stems, weight: float = 1.0) -> Query:
        """Return the query of a word: the score of its best field, plus 0.3 of those of the others."""
        fields = [query for _, query in self._build_field_queries(stems, fuzzy=weight == 1)]
        if not fields:
            return Query.empty_query()
        best_field = Query.disjunction_max_query(fields, _TIE_BREAKER)
        return best_field if weight == 1 else Query.boost_query(best_field, weight)

    def _build_field_queries(self, stems: Stems, *, fuzzy: bool) -> list[tuple[str, Query]]:
        queries = [
            (name, Query.boost_query(Query.term_query(self._schema, name, stem), boost))
            for name, boost in FIELDS.items()
            for stem in stems
            if self._is_known(stems) and self._searcher.doc_freq(name, stem)
        ]
        if not queries and fuzzy and len(stems[0]) >= _MIN_FUZZY_LENGTH:
            # The word is in no document: it may be misspelt, or the beginning of a word.
            queries = [
                (
                    name,
                    Query.boost_query(
                        Query.fuzzy_term_query(self._schema, name, stems[0], distance=1, prefix=True),
                        _FUZZY_BOOST * FIELDS[name],
                    ),
                )
                for name in _FUZZY_FIELDS
            ]
        return queries

    def _score_word(
        self,
        text: str,
        stems: Stems,
        address: tantivy.DocAddress,
        *,
        boost: float = 1.0,
        synonym_of: str | None = None,
    ) -> WordScore | None:
        scores = {
            name: value * boost
            for name, query in self._build_field_queries(stems, fuzzy=boost == 1 or synonym_of is not None)
            if (value := self._explain_score(query, address)) is not None
        }
        if not scores:
            return None
        best = max(scores, key=lambda name: scores[name])
        total = (1 - _TIE_BREAKER) * scores[best] + _TIE_BREAKER * sum(scores.values())
        return WordScore(text, best, round(total, 4), synonym_of)

    def _explain_score(self, query: Query, address: tantivy.DocAddress) -> float | None:
        try:
            explanation = query.explain(self._searcher, address)
        except ValueError:
            # The document does not match.
            return None
        return float(orjson.loads(explanation.to_json())["value"])


def _group_terms(words: Sequence[QueryWord], synonyms: Mapping[Stems, Sequence[Stems]]) -> list[_Term]:
    """Return the words of a query as terms: the longest that have synonyms, else single words."""
    if not synonyms:
        return [_Term((word,)) for word in words]
    terms: list[_Term] = []
    position, left = 0, MAX_QUERY_SYNONYMS
    while position < len(words):
        term = _Term((words[position],))
        for length in range(min(MAX_TERM_WORDS, len(words) - position), 0, -1):
            candidate = tuple(words[position : position + length])
            others = synonyms.get(tuple(word.stem for word in candidate))
            if others:
                term = _Term(candidate, tuple(others[: min(MAX_SYNONYMS, left)]))
                left -= len(term.synonyms)
                break
        terms.append(term)
        position += len(term.words)
    return terms
