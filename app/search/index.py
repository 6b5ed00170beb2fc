"""The tantivy index of one worker, in memory. All methods are synchronous; one thread at a time may write."""

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
import tantivy
from tantivy import Occur, Query

from app.catalog.tools import Viewer
from app.search.hits import ExecutorCommand
from app.search.text_analysis import (
    analyzer,
    exact_form,
    exact_forms,
    name_text,
    parameter_text,
    prose_text,
    query_words,
)
from app.security.requirements import SlotAlternatives

_WORDS = "words"
# A match in the name counts most; one in a parameter's description least, because there are many.
_BOOSTS = {"name": 3.0, "tags": 1.6, "description": 1.2, "provider_words": 1.0, "parameters": 0.6}
_FUZZY_FIELDS = ("name", "tags", "description")
_FUZZY_BOOST = 0.4
_MIN_FUZZY_LENGTH = 4
_EXACT_SCORE = 100.0
# Each time the heap is full a segment is written, and every search reads every segment.
_HEAP_BYTES = 60_000_000
# Hits of equal score have no defined order: this many more are read, so that they can be sorted by name.
_TIES = 100
_MAX_WORDS = 32


@dataclass(frozen=True, slots=True)
class Filters:
    """Restricts the hits; a tool must match every one that is given.

    `any_tag`: tools with at least one of these tags. `tools`: the ids of the only tools that are searched,
    e.g. those of a toolset.
    """

    provider: str | None = None
    tag: str | None = None
    any_tag: frozenset[str] | None = None
    tools: frozenset[UUID] | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """A match: the tool's id and canonical name, its score (BM25; plus 100 where the query is the tool's
    name), and the JSON of its hit (`search.hits`). `executor_command` is None for a tool that no executor
    executes.
    """

    tool_id: UUID
    name: str
    score: float
    json_members: bytes
    executor_command: ExecutorCommand | None = None
    provider: str = ""
    credential_slots: SlotAlternatives = ()


@dataclass(frozen=True, slots=True)
class IndexedProvider:
    """The fields of a provider that decide who finds its tools.

    They are stored outside of the index, so that a change to them writes no documents.
    """

    name: str
    enabled: bool
    tags: frozenset[str]


@dataclass(frozen=True, slots=True)
class IndexedTool:
    """The fields of a tool that are searched, filtered by or shown; `registrar_tags` are those a
    registrar set.
    """

    id: UUID
    provider_id: UUID
    provider: str
    name: str
    alias: str
    description: str
    inputs: Mapping[str, Any]
    tags: Collection[str]
    registrar_tags: Collection[str]
    json_members: bytes
    command_name: str | None = None
    """The command that executors of its provider execute; None where none does."""
    credential_slots: SlotAlternatives = ()
    """The slots of each alternative of credentials that its calls need."""


class ToolIndex:
    """Documents by tool id, ranked by BM25 over name, tags, description, provider and parameters.

    Each search reads `providers`: the tools of a disabled one are not found, and its tags count as theirs.
    """

    def __init__(self) -> None:
        self._words = analyzer()
        self._schema = _schema()
        self._index = tantivy.Index(self._schema)
        self._index.register_tokenizer(_WORDS, self._words)
        self._writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        self.providers: Mapping[UUID, IndexedProvider] = {}

    def __len__(self) -> int:
        return int(self._index.searcher().num_docs)

    def delete_all(self) -> None:
        """Delete every document at the next commit."""
        self._writer.delete_all_documents()

    def delete_tools(self, tool_ids: Iterable[UUID]) -> None:
        """Delete tools at the next commit."""
        for tool_id in tool_ids:
            self._writer.delete_documents_by_term("id", tool_id.hex)

    def add(self, tools: Iterable[IndexedTool]) -> None:
        """Add documents; searches see them after the next commit."""
        for tool in tools:
            self._writer.add_document(_document(tool))

    def commit(self) -> None:
        """Make visible all that was written since the last commit."""
        self._writer.commit()
        self._index.reload()

    def rollback(self) -> None:
        """Discard what was written since the last commit."""
        self._writer.rollback()

    def search(self, text: str, *, viewer: Viewer, filters: Filters, limit: int) -> list[Match]:
        """Return the best `limit` matches that the viewer may see, best first; equal scores by name."""
        ranked = self._ranking_query(text)
        if ranked is None:
            return []
        restrictions = self._restrictions(viewer, filters)
        query = Query.boolean_query([(Occur.Must, ranked), *restrictions]) if restrictions else ranked
        searcher = self._index.searcher()
        hits = searcher.search(query, limit=limit + _TIES, count=False).hits
        matches: list[Match] = []
        for rank, (found, address) in enumerate(hits):
            score = round(float(found), 4)
            # Reading a document takes as long as ranking a hundred, so only those that can still qualify are
            # read.
            if rank >= limit and score < matches[limit - 1].score:
                break
            document = searcher.doc(address)
            name, members = (
                str(document.get_first("exact_name")),
                bytes(document.get_first("json_members") or b""),
            )
            command = _executor_command(document.get_first("executor_command"))
            slots = _credential_slots(document.get_first("credential_slots"))
            provider = name.partition(".")[0]
            matches.append(
                Match(UUID(str(document.get_first("id"))), name, score, members, command, provider, slots)
            )
        matches.sort(key=lambda match: (-match.score, match.name))
        return matches[:limit]

    def close(self) -> None:
        """Wait for the threads that merge segments, and end them."""
        self._writer.wait_merging_threads()

    def _ranking_query(self, text: str) -> Query | None:
        """Return the query of a text, None where it contains no word. It is built from terms, never parsed:
        any text is a valid query.
        """
        words = self._distinctive(query_words(text, self._words))
        clauses = [(Occur.Should, self._word_query(word)) for word in words]
        whole = exact_form(text.encode("utf-8", "replace").decode())
        if whole:
            exact = Query.term_query(self._schema, "exact", whole)
            clauses.append((Occur.Should, Query.const_score_query(exact, _EXACT_SCORE)))
        return Query.boolean_query(clauses) if clauses else None

    def _distinctive(self, words: list[str]) -> list[str]:
        """Return at most 32 of the words, in their order: of more, those that are in the fewest documents,
        and words that are in no document last.
        """
        if len(words) <= _MAX_WORDS:
            return words
        searcher = self._index.searcher()
        counts = {word: max(searcher.doc_freq(name, word) for name in _BOOSTS) for word in words}
        chosen = frozenset(
            heapq.nsmallest(_MAX_WORDS, words, key=lambda word: (counts[word] == 0, counts[word]))
        )
        return [word for word in words if word in chosen]

    def _word_query(self, word: str) -> Query:
        """Return the query of one word: the score of its best field, plus 0.3 of those of the others."""
        searcher = self._index.searcher()
        fields = [name for name in _BOOSTS if searcher.doc_freq(name, word)]
        terms = [
            Query.boost_query(Query.term_query(self._schema, name, word), _BOOSTS[name]) for name in fields
        ]
        if not terms and len(word) >= _MIN_FUZZY_LENGTH:
            # The word is in no document: it may be misspelt, or the beginning of a word.
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
            found.append((Occur.Must, self._of_providers(lambda provider: provider.name in allowed)))
        if filters.provider is not None:
            found.append((Occur.Must, self._of_providers(lambda provider: provider.name == filters.provider)))
        if viewer.tags is not None:
            found.append((Occur.Must, self._tagged("registrar_tag", viewer.tags)))
        if filters.tag is not None:
            found.append((Occur.Must, self._tagged("tag", frozenset({filters.tag}))))
        if filters.any_tag is not None:
            found.append((Occur.Must, self._tagged("tag", filters.any_tag)))
        if filters.tools is not None:
            found.append((Occur.Must, self._one_of("id", [tool.hex for tool in filters.tools])))
        if not all(provider.enabled for provider in self.providers.values()):
            found.append((Occur.MustNot, self._of_providers(lambda provider: not provider.enabled)))
        return found

    def _of_providers(self, chosen: Callable[[IndexedProvider], bool]) -> Query:
        """Return the query for the tools of the providers that `chosen` accepts."""
        return self._one_of(
            "provider_id", [key.hex for key, provider in self.providers.items() if chosen(provider)]
        )

    def _tagged(self, field: str, tags: frozenset[str]) -> Query:
        """Return the query for tools that have one of the tags, or whose provider has."""
        either = [
            self._one_of(field, tags),
            self._of_providers(lambda provider: not tags.isdisjoint(provider.tags)),
        ]
        return Query.boolean_query([(Occur.Should, query) for query in either])

    def _one_of(self, field: str, values: Iterable[str]) -> Query:
        return Query.const_score_query(Query.term_set_query(self._schema, field, sorted(values)), 0.0)


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for name in ("id", "exact_name"):
        builder.add_text_field(name, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_bytes_field("json_members", stored=True, indexed=False)
    builder.add_bytes_field("executor_command", stored=True, indexed=False)
    builder.add_bytes_field("credential_slots", stored=True, indexed=False)
    for name in ("provider_id", "tag", "registrar_tag", "exact"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in _BOOSTS:
        builder.add_text_field(name, tokenizer_name=_WORDS, index_option="freq")
    return builder.build()


def _executor_command(stored: Any) -> ExecutorCommand | None:
    """Return the command of a document, which is stored as `<provider>/<command>`."""
    if stored is None:
        return None
    # Names of providers have no slash.
    provider, _, command_name = bytes(stored).decode().partition("/")
    return ExecutorCommand(provider, command_name)


def _credential_slots(stored: Any) -> SlotAlternatives:
    """Return the slots of a document, which are stored as JSON."""
    return () if stored is None else tuple(map(tuple, orjson.loads(bytes(stored))))


def _document(tool: IndexedTool) -> tantivy.Document:
    # One call for all fields: a call for each takes half as long again.
    stored = {}
    if tool.command_name is not None:
        stored["executor_command"] = f"{tool.provider}/{tool.command_name}".encode()
    if tool.credential_slots:
        stored["credential_slots"] = orjson.dumps(tool.credential_slots)
    return tantivy.Document(
        **stored,
        id=tool.id.hex,
        exact_name=tool.name,
        json_members=tool.json_members,
        provider_id=tool.provider_id.hex,
        exact=exact_forms(tool.provider, tool.name, tool.alias),
        tag=list(tool.tags),
        registrar_tag=list(tool.registrar_tags),
        name=name_text(tool.name.removeprefix(f"{tool.provider}.")),
        provider_words=name_text(tool.provider),
        tags=" ".join(name_text(tag) for tag in tool.tags),
        description=prose_text(tool.description),
        parameters=parameter_text(tool.inputs),
    )
