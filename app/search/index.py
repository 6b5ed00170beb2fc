"""The tantivy index of one worker, in memory. All methods are synchronous; one thread at a time may write."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import tantivy
from tantivy import Occur, Query

from app.catalog.tools import Viewer
from app.search.words import (
    analyzer,
    exact_form,
    exact_forms,
    name_text,
    parameter_text,
    query_words,
    spaced,
)

_WORDS = "words"
# A name says most; a description of a parameter says least, and there are many.
_BOOSTS = {"name": 3.0, "tags": 1.6, "description": 1.2, "provider_words": 1.0, "parameters": 0.6}
_FUZZY_FIELDS = ("name", "tags", "description")
_FUZZY_BOOST = 0.4
_SHORTEST_FUZZY = 4
_EXACT_SCORE = 100.0
# Each time it is full a segment is written, and every search looks into each segment.
_HEAP_BYTES = 60_000_000
# Hits of equal score have no order of their own: this many more are read, so that names decide.
_TIES = 100


@dataclass(frozen=True, slots=True)
class Filters:
    """Narrow the hits to one provider or one tag."""

    provider: str | None = None
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """A hit: the tool's id and canonical name, its score (BM25; 100 more where the name was meant), and what
    an answer shows of it (`search.entries`).
    """

    tool_id: UUID
    name: str
    score: float
    entry: bytes


@dataclass(frozen=True, slots=True)
class ProviderFacts:
    """What of a provider decides who finds its tools; beside the index, so that a change writes nothing."""

    name: str
    enabled: bool
    tags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Indexed:
    """What of a tool can be found, narrows a search or is shown; `set_tags` are those a registrar set."""

    id: UUID
    provider_id: UUID
    provider: str
    name: str
    alias: str
    description: str
    inputs: Mapping[str, Any]
    tags: Collection[str]
    set_tags: Collection[str]
    entry: bytes


class ToolIndex:
    """Documents by tool id, ranked by BM25 over name, tags, description, provider and parameters.

    `providers` are looked at by each search: tools of a disabled one are not found, and its tags are theirs.
    """

    def __init__(self) -> None:
        self._words = analyzer()
        self._schema = _schema()
        self._index = tantivy.Index(self._schema)
        self._index.register_tokenizer(_WORDS, self._words)
        self._writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        self.providers: Mapping[UUID, ProviderFacts] = {}

    def __len__(self) -> int:
        return int(self._index.searcher().num_docs)

    def delete_all(self) -> None:
        """Forgets every document, at the next commit."""
        self._writer.delete_all_documents()

    def delete_tools(self, tool_ids: Iterable[UUID]) -> None:
        """Forgets tools, at the next commit."""
        for tool_id in tool_ids:
            self._writer.delete_documents_by_term("id", tool_id.hex)

    def add(self, tools: Iterable[Indexed]) -> None:
        """Adds documents, to be seen after the next commit."""
        for tool in tools:
            self._writer.add_document(_document(tool))

    def commit(self) -> None:
        """Shows all that was written since the last commit."""
        self._writer.commit()
        self._index.reload()

    def rollback(self) -> None:
        """Forgets what was written since the last commit."""
        self._writer.rollback()

    def search(self, text: str, *, viewer: Viewer, filters: Filters, limit: int) -> list[Match]:
        """The best `limit` tools that the viewer may use; equal scores in the order of names."""
        ranked = self._ranked(text)
        if ranked is None:
            return []
        restrictions = self._restrictions(viewer, filters)
        query = Query.boolean_query([(Occur.Must, ranked), *restrictions]) if restrictions else ranked
        searcher = self._index.searcher()
        hits = searcher.search(query, limit=limit + _TIES, count=False).hits
        matches: list[Match] = []
        for place, (found, address) in enumerate(hits):
            score = round(float(found), 4)
            # To read a document takes as long as to rank a hundred, so only those that could still win are.
            if place >= limit and score < matches[limit - 1].score:
                break
            document = searcher.doc(address)
            name, shown = str(document.get_first("exact_name")), bytes(document.get_first("entry") or b"")
            matches.append(Match(UUID(str(document.get_first("id"))), name, score, shown))
        matches.sort(key=lambda match: (-match.score, match.name))
        return matches[:limit]

    def close(self) -> None:
        """Ends the threads that merge segments."""
        self._writer.wait_merging_threads()

    def _ranked(self, text: str) -> Query | None:
        """Built from terms, never parsed: any text is a legal query. None where no word is in it."""
        words = query_words(text, self._words)
        clauses = [(Occur.Should, self._word(word)) for word in words]
        whole = exact_form(text.encode("utf-8", "replace").decode())
        if whole:
            exact = Query.term_query(self._schema, "exact", whole)
            clauses.append((Occur.Should, Query.const_score_query(exact, _EXACT_SCORE)))
        return Query.boolean_query(clauses) if clauses else None

    def _word(self, word: str) -> Query:
        """The field where a word counts most decides; the others add a little."""
        searcher = self._index.searcher()
        fields = [name for name in _BOOSTS if searcher.doc_freq(name, word)]
        terms = [
            Query.boost_query(Query.term_query(self._schema, name, word), _BOOSTS[name]) for name in fields
        ]
        if not terms and len(word) >= _SHORTEST_FUZZY:
            # In no document: perhaps misspelt, or the beginning of a word.
            terms = [
                Query.boost_query(
                    Query.fuzzy_term_query(self._schema, name, word, distance=1, prefix=True),
                    _FUZZY_BOOST * _BOOSTS[name],
                )
                for name in _FUZZY_FIELDS
            ]
        return Query.disjunction_max_query(terms, 0.3) if terms else Query.empty_query()

    def _restrictions(self, viewer: Viewer, filters: Filters) -> list[tuple[Occur, Query]]:
        found: list[tuple[Occur, Query]] = []
        if viewer.providers is not None:
            allowed = viewer.providers
            found.append((Occur.Must, self._of(lambda facts: facts.name in allowed)))
        if filters.provider is not None:
            found.append((Occur.Must, self._of(lambda facts: facts.name == filters.provider)))
        if viewer.tags is not None:
            found.append((Occur.Must, self._tagged("set_tag", viewer.tags)))
        if filters.tag is not None:
            found.append((Occur.Must, self._tagged("tag", frozenset({filters.tag}))))
        if not all(facts.enabled for facts in self.providers.values()):
            found.append((Occur.MustNot, self._of(lambda facts: not facts.enabled)))
        return found

    def _of(self, chosen: Callable[[ProviderFacts], bool]) -> Query:
        """The tools of some providers."""
        return self._one_of(
            "provider_id", [key.hex for key, facts in self.providers.items() if chosen(facts)]
        )

    def _tagged(self, field: str, tags: frozenset[str]) -> Query:
        """The tools that have one of the tags, or whose provider has."""
        either = [self._one_of(field, tags), self._of(lambda facts: not tags.isdisjoint(facts.tags))]
        return Query.boolean_query([(Occur.Should, query) for query in either])

    def _one_of(self, field: str, values: Iterable[str]) -> Query:
        return Query.const_score_query(Query.term_set_query(self._schema, field, sorted(values)), 0.0)


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for name in ("id", "exact_name"):
        builder.add_text_field(name, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_bytes_field("entry", stored=True, indexed=False)
    for name in ("provider_id", "tag", "set_tag", "exact"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in _BOOSTS:
        builder.add_text_field(name, tokenizer_name=_WORDS, index_option="freq")
    return builder.build()


def _document(tool: Indexed) -> tantivy.Document:
    # Made in one call: one for each field takes half as long again.
    return tantivy.Document(
        id=tool.id.hex,
        exact_name=tool.name,
        entry=tool.entry,
        provider_id=tool.provider_id.hex,
        exact=exact_forms(tool.provider, tool.name, tool.alias),
        tag=list(tool.tags),
        set_tag=list(tool.set_tags),
        name=name_text(tool.name.removeprefix(f"{tool.provider}.")),
        provider_words=name_text(tool.provider),
        tags=" ".join(name_text(tag) for tag in tool.tags),
        description=spaced(tool.description),
        parameters=parameter_text(tool.inputs),
    )
