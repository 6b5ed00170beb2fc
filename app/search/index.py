"""The tantivy index of one worker, in memory. All methods are synchronous; one thread at a time may write."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from uuid import UUID

import tantivy
from tantivy import Occur, Query

from app.catalog.tools import ToolView, Viewer
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
_HEAP_BYTES = 20_000_000
# Hits of equal score have no order of their own: this many more are read, so that names decide.
_TIES = 100


@dataclass(frozen=True, slots=True)
class Filters:
    """Narrow the hits to one provider or one tag."""

    provider: str | None = None
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """A hit: the tool's id and canonical name, and its score (BM25; 100 more where the name was meant)."""

    tool_id: UUID
    name: str
    score: float


class ToolIndex:
    """Documents by tool id, ranked by BM25 over name, tags, description, provider and parameters."""

    def __init__(self) -> None:
        self._words = analyzer()
        self._schema = _schema()
        self._index = tantivy.Index(self._schema)
        self._index.register_tokenizer(_WORDS, self._words)
        self._writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=1)

    def __len__(self) -> int:
        return int(self._index.searcher().num_docs)

    def delete_all(self) -> None:
        """Forgets every document, at the next commit."""
        self._writer.delete_all_documents()

    def delete_provider(self, provider_id: UUID) -> None:
        """Forgets the tools of a provider, at the next commit."""
        self._writer.delete_documents_by_term("provider_id", provider_id.hex)

    def delete_tool(self, tool_id: UUID) -> None:
        """Forgets one tool, at the next commit."""
        self._writer.delete_documents_by_term("id", tool_id.hex)

    def add(self, tools: Iterable[ToolView]) -> None:
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
        query = Query.boolean_query([(Occur.Must, ranked), *self._restrictions(viewer, filters)])
        searcher = self._index.searcher()
        found = searcher.search(query, limit=limit + _TIES, count=False)
        matches = []
        for score, address in found.hits:
            document = searcher.doc(address)
            tool_id, name = str(document.get_first("id")), str(document.get_first("exact_name"))
            matches.append(Match(UUID(tool_id), name, round(float(score), 4)))
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
        wanted: list[tuple[str, Collection[str] | None]] = [
            ("provider", viewer.providers),
            ("registrar_tag", viewer.tags),
            ("provider", None if filters.provider is None else [filters.provider]),
            ("tag", None if filters.tag is None else [filters.tag]),
        ]
        return [
            (
                Occur.Must,
                Query.const_score_query(Query.term_set_query(self._schema, field, sorted(values)), 0.0),
            )
            for field, values in wanted
            if values is not None
        ]


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for name in ("id", "exact_name"):
        builder.add_text_field(name, stored=True, tokenizer_name="raw", index_option="basic")
    for name in ("provider_id", "provider", "tag", "registrar_tag", "exact"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in _BOOSTS:
        builder.add_text_field(name, tokenizer_name=_WORDS, index_option="freq")
    return builder.build()


def _document(tool: ToolView) -> tantivy.Document:
    document = tantivy.Document()
    document.add_text("id", tool.id.hex)
    document.add_text("exact_name", tool.name)
    document.add_text("provider_id", tool.provider_id.hex)
    document.add_text("provider", tool.provider)
    for form in exact_forms(tool.provider, tool.name, tool.alias):
        document.add_text("exact", form)
    for tag in {*tool.tags, *tool.registrar_tags}:
        document.add_text("tag", tag)
    for tag in tool.registrar_tags:
        document.add_text("registrar_tag", tag)
    document.add_text("name", name_text(tool.name.removeprefix(f"{tool.provider}.")))
    document.add_text("provider_words", name_text(tool.provider))
    document.add_text("tags", " ".join(name_text(tag) for tag in tool.tags))
    document.add_text("description", spaced(tool.description))
    document.add_text("parameters", parameter_text(tool.inputs))
    return document
