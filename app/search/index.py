"""The tantivy index of one worker, in memory. All methods are synchronous; one thread at a time may write."""

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson
import tantivy
from tantivy import Occur, Query

from app.catalog.tools import Viewer
from app.core import exact_json
from app.search.advice import Advice, SeeTool, VisibleTerms, advise
from app.search.explanation import Explanation
from app.search.hits import ExecutorCommand
from app.search.lexical import ANALYZER, FIELDS, LexicalQuery
from app.search.ranking import CANDIDATES, NEAREST, Candidate, RankingSignals, make_candidate, rank
from app.search.signals import SearchScope, Signals, Vector, make_tool_key
from app.search.text_analysis import (
    build_analyzer,
    choose_stemmer,
    extract_name_text,
    extract_parameter_text,
    has_several_clauses,
    list_exact_forms,
    list_significant_stems,
    prepare_prose,
    select_significant,
    split_query,
    stem_in_language,
    take_first_sentence,
)
from app.security.requirements import SlotAlternatives

# Each time the heap is full a segment is written, and every search reads every segment.
_HEAP_BYTES = 60_000_000
# Hits of equal score have no defined order: this many more are read, so that they can be sorted by name.
_TIES = 100
_MAX_COMPARED = 2_000
"""Of so few tools that may be hits, all vectors are compared."""
_NEAREST_RESTRICTED = 8
"""How many times more of the nearest tools are read where some of them may not be hits."""


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
    """A match: the tool's id and canonical name, its score (`ranking.rank`), and the JSON of its hit
    (`search.hits`). `executor_command` is None for a tool that no executor executes, `explanation` where none
    is wanted.
    """

    tool_id: UUID
    name: str
    score: float
    json_members: bytes
    executor_command: ExecutorCommand | None = None
    explanation: Explanation | None = None
    credential_slots: SlotAlternatives = ()


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """A text to search by: whose search it is, the vector of the text where there is one, and whether hits
    are explained.
    """

    text: str
    scope: SearchScope | None = None
    """None: without an operator's words and without what was learned from use."""
    vector: Vector | None = None
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Matches:
    """The matches of a text, best first, and what is known of the text."""

    items: Sequence[Match] = ()
    stems: Sequence[str] = ()
    """The stems of its words."""
    unknown_words: Sequence[str] = ()
    """The words that no tool has."""
    synonyms: Mapping[str, Sequence[str]] | None = None
    """The synonyms that were searched, by the term that they stand for."""
    coverage: float = 0.0
    """The share of the words, by weight, that the best match has (`LexicalQuery.coverage`)."""
    cosine: float | None = None
    """The cosine of the best match; None where there are no vectors."""
    is_named: bool = False
    """Whether the best match is pinned, or the text is its name."""


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
    keywords: Collection[str] = ()
    """Words by which it is found besides its own texts."""
    language: str | None = None
    """The language of its texts, as a language tag (BCP 47)."""
    provider_title: str = ""
    command_name: str | None = None
    """The command that executors of its provider execute; None where none does."""
    credential_slots: SlotAlternatives = ()
    """The slots of each alternative of credentials that its calls need."""


class ToolIndex:
    """Documents by tool id, ranked by their words and further signals.

    Each search reads `providers`: the tools of a disabled one are not found, and its tags count as theirs.
    """

    def __init__(self, signals: Signals | None = None) -> None:
        self.signals = signals or Signals()
        self._words = build_analyzer()
        self._schema = _build_schema()
        self._index = tantivy.Index(self._schema)
        self._index.register_tokenizer(ANALYZER, self._words)
        self._writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        self.providers: Mapping[UUID, IndexedProvider] = {}
        self._languages: Counter[str] = Counter()
        """How many documents were added in each language; English ones are not counted."""

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
            language = choose_stemmer(tool.language)
            if language is not None:
                self._languages[language] += 1
            self._writer.add_document(_build_document(tool, language))

    def commit(self) -> None:
        """Make visible all that was written since the last commit."""
        self._writer.commit()
        self._index.reload()

    def roll_back(self) -> None:
        """Discard what was written since the last commit."""
        self._writer.rollback()

    def search(self, query: IndexQuery, *, viewer: Viewer, filters: Filters, limit: int) -> Matches:
        """Return the best `limit` matches that the viewer may see, best first; equal scores by name."""
        searcher = self._index.searcher()
        words = split_query(query.text, self._words, languages=self._languages)
        stems = list_significant_stems(words)
        synonyms = {} if query.scope is None else self.signals.operator_words.get_synonyms(query.scope)
        restrictions = self._build_restrictions(viewer, filters)
        is_restricted = not (viewer.providers is None and viewer.tags is None and filters.tools is None)
        lexical = LexicalQuery(
            query.text,
            words,
            synonyms,
            searcher=searcher,
            schema=self._schema,
            restrictions=restrictions if is_restricted else (),
        )
        ranked = lexical.build_query()
        if ranked is None:
            return Matches()
        signals = self._gather_signals(query, stems, self._find_nearest(query, searcher, restrictions))
        candidates = self._find_candidates(searcher, ranked, restrictions, signals, limit=limit)
        ordered = rank(candidates, signals)
        matches = self._read(searcher, ordered, limit=limit, explain=lexical if query.explain else None)
        first = ordered[0] if ordered else None
        return Matches(
            items=[match for match, _ in matches],
            stems=stems,
            unknown_words=lexical.unknown_words,
            synonyms=lexical.synonyms,
            coverage=0.0 if not matches else lexical.measure_coverage(matches[0][1].address),
            cosine=None if first is None else first.cosine,
            is_named=first is not None and (first.exact or first.pin is not None),
        )

    def advise(
        self,
        texts: Sequence[str],
        hits: Sequence[bytes],
        *,
        viewer: Viewer,
        filters: Filters,
        see: SeeTool | None,
    ) -> Advice:
        """Return what to search for next after weak hits of these texts; `hits` are their `json_members`."""
        restrictions = self._build_restrictions(viewer, filters)
        terms = VisibleTerms(self._index.searcher(), self._schema, restrictions, see=see)
        words = [
            select_significant(split_query(text, self._words, languages=self._languages)) for text in texts
        ]
        return advise(words, hits, terms, stem=self._words.analyze)

    def close(self) -> None:
        """Wait for the threads that merge segments, and end them."""
        self._writer.wait_merging_threads()

    def _find_nearest(
        self, query: IndexQuery, searcher: tantivy.Searcher, restrictions: Sequence[tuple[Occur, Query]]
    ) -> Sequence[int]:
        """Return the keys of the tools whose vectors are the nearest among those that may be hits."""
        if query.vector is None:
            return ()
        vectors = self.signals.vectors
        if not restrictions:
            return vectors.find_nearest(query.vector, NEAREST)
        permitted = Query.boolean_query([(Occur.Must, Query.all_query()), *restrictions])
        permitted_hits = searcher.search(permitted, limit=_MAX_COMPARED + 1, count=False).hits
        if len(permitted_hits) > _MAX_COMPARED:
            # Of more, those that may not be hits are left out later.
            return vectors.find_nearest(query.vector, NEAREST * _NEAREST_RESTRICTED)
        addresses = [address for _, address in permitted_hits]
        keys = [int(key or 0) for key in searcher.fast_field_values("key", addresses)]
        cosines = vectors.compute_cosines(query.vector, keys)
        known = [(cosine, key) for cosine, key in zip(cosines, keys, strict=True) if cosine is not None]
        return [key for _, key in heapq.nlargest(NEAREST, known)]

    def _gather_signals(
        self, query: IndexQuery, stems: Sequence[str], nearest: Sequence[int]
    ) -> RankingSignals:
        vectors = self.signals.vectors
        several = query.vector is not None and has_several_clauses(query.text)
        if query.scope is None:
            return RankingSignals({}, {}, query.vector, vectors, nearest, several)
        pins = self.signals.operator_words.get_pins(stems, query.scope)
        priors = self.signals.usage.get_priors(stems, query.scope)
        return RankingSignals(
            {make_tool_key(tool): position for position, tool in enumerate(dict.fromkeys(pins))},
            {make_tool_key(tool): prior for tool, prior in priors.items()},
            query.vector,
            vectors,
            nearest,
            several,
        )

    def _find_candidates(
        self,
        searcher: tantivy.Searcher,
        ranked: Query,
        restrictions: list[tuple[Occur, Query]],
        signals: RankingSignals,
        *,
        limit: int,
    ) -> list[Candidate]:
        """Return the best candidates by words, with those that score as the last one; where there are further
        signals more of them, with their keys, and the tools that the signals name, which no word may match.
        """
        query = Query.boolean_query([(Occur.Must, ranked), *restrictions]) if restrictions else ranked
        if signals.are_empty:
            hits = _search_hits(searcher, query, limit + _TIES)
            last = hits[min(limit, len(hits)) - 1][0] if hits else 0.0
            return [make_candidate(address, score) for score, address in hits if score >= last]
        hits = _search_hits(searcher, query, max(limit + _TIES, CANDIDATES))
        candidates = [make_candidate(address, score) for score, address in hits]
        if signals.tools:
            # For so few terms four times faster than a query of a set.
            keys_of_named = [Query.term_query(self._schema, "key", key) for key in sorted(signals.tools)]
            named = Query.const_score_query(
                Query.boolean_query([(Occur.Should, term) for term in keys_of_named]), 0.0
            )
            known = {
                (candidate_hit.address.segment_ord, candidate_hit.address.doc) for candidate_hit in candidates
            }
            others = _search_hits(
                searcher,
                Query.boolean_query([(Occur.Must, named), (Occur.Should, ranked), *restrictions]),
                len(signals.tools),
            )
            candidates += [
                make_candidate(address, score)
                for score, address in others
                if (address.segment_ord, address.doc) not in known
            ]
        keys = searcher.fast_field_values("key", [candidate_hit.address for candidate_hit in candidates])
        for candidate_hit, key in zip(candidates, keys, strict=True):
            candidate_hit.key = int(key or 0)
        return candidates

    def _read(
        self,
        searcher: tantivy.Searcher,
        ordered: Sequence[Candidate],
        *,
        limit: int,
        explain: LexicalQuery | None,
    ) -> list[tuple[Match, Candidate]]:
        """Return the best candidates as matches; those of equal score by name."""
        read: list[tuple[Candidate, str, tantivy.Document]] = []
        for rank_number, ranked_hit in enumerate(ordered):
            # Reading a document takes as long as ranking a hundred, so only those that can still qualify are
            # read.
            if rank_number >= limit and ranked_hit.score < ordered[limit - 1].score:
                break
            document = searcher.doc(ranked_hit.address)
            read.append((ranked_hit, str(document.get_first("exact_name")), document))
        read.sort(key=lambda entry: (-entry[0].score, entry[1]))
        best = max((ranked_hit.words for ranked_hit in ordered), default=0.0) or 1.0
        matches = []
        for ranked_hit, name, document in read[:limit]:
            explanation = None
            if explain is not None:
                explanation = Explanation(
                    words=explain.explain(ranked_hit.address),
                    words_score=round(ranked_hit.words, 4),
                    words_share=round(ranked_hit.words / best, 4),
                    cosine=ranked_hit.cosine,
                    vector_share=round(ranked_hit.vector_share, 4),
                    prior=ranked_hit.prior,
                    prior_share=round(ranked_hit.prior_share, 4),
                    exact=ranked_hit.exact,
                    pinned=ranked_hit.pin is not None,
                )
            match = Match(
                UUID(str(document.get_first("id"))),
                name,
                ranked_hit.score,
                bytes(document.get_first("json_members") or b""),
                _read_executor_command(document.get_first("executor_command")),
                explanation,
                _read_credential_slots(document.get_first("credential_slots")),
            )
            matches.append((match, ranked_hit))
        return matches

    def _build_restrictions(self, viewer: Viewer, filters: Filters) -> list[tuple[Occur, Query]]:
        restrictions: list[tuple[Occur, Query]] = []
        if viewer.providers is not None:
            allowed = viewer.providers
            restrictions.append(
                (Occur.Must, self._require_provider(lambda provider: provider.name in allowed))
            )
        if filters.provider is not None:
            restrictions.append(
                (Occur.Must, self._require_provider(lambda provider: provider.name == filters.provider))
            )
        if viewer.tags is not None:
            restrictions.append((Occur.Must, self._require_tag("registrar_tag", viewer.tags)))
        if filters.tag is not None:
            restrictions.append((Occur.Must, self._require_tag("tag", frozenset({filters.tag}))))
        if filters.any_tag is not None:
            restrictions.append((Occur.Must, self._require_tag("tag", filters.any_tag)))
        if filters.tools is not None:
            restrictions.append(
                (Occur.Must, self._require_one_of("id", [tool.hex for tool in filters.tools]))
            )
        if not all(provider.enabled for provider in self.providers.values()):
            restrictions.append(
                (Occur.MustNot, self._require_provider(lambda provider: not provider.enabled))
            )
        return restrictions

    def _require_provider(self, chosen: Callable[[IndexedProvider], bool]) -> Query:
        """Return the query for the tools of the providers that `chosen` accepts."""
        return self._require_one_of(
            "provider_id", [key.hex for key, provider in self.providers.items() if chosen(provider)]
        )

    def _require_tag(self, field: str, tags: frozenset[str]) -> Query:
        """Return the query for tools that have one of the tags, or whose provider has."""
        either = [
            self._require_one_of(field, tags),
            self._require_provider(lambda provider: not tags.isdisjoint(provider.tags)),
        ]
        return Query.boolean_query([(Occur.Should, query) for query in either])

    def _require_one_of(self, field: str, values: Iterable[str]) -> Query:
        return Query.const_score_query(Query.term_set_query(self._schema, field, sorted(values)), 0.0)


def _search_hits(
    searcher: tantivy.Searcher, query: Query, limit: int
) -> list[tuple[float, tantivy.DocAddress]]:
    return [
        (float(score), address) for score, address in searcher.search(query, limit=limit, count=False).hits
    ]


def _build_schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for name in ("id", "exact_name"):
        builder.add_text_field(name, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_bytes_field("json_members", stored=True, indexed=False)
    builder.add_bytes_field("executor_command", stored=True, indexed=False)
    builder.add_bytes_field("credential_slots", stored=True, indexed=False)
    # Its `make_tool_key`: read for hundreds of candidates, of which few are read as documents.
    builder.add_integer_field("key", indexed=True, fast=True)
    for name in ("provider_id", "tag", "registrar_tag", "exact"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in FIELDS:
        builder.add_text_field(name, tokenizer_name=ANALYZER, index_option="freq")
    return builder.build()


def _read_executor_command(stored: Any) -> ExecutorCommand | None:
    """Return the command of a document, which is stored as `<provider>/<command>`."""
    if stored is None:
        return None
    # Names of providers have no slash.
    provider, _, command_name = bytes(stored).decode().partition("/")
    return ExecutorCommand(provider, command_name)


def _read_credential_slots(stored: Any) -> SlotAlternatives:
    """Return the slots of a document, which are stored as JSON."""
    return () if stored is None else tuple(map(tuple, orjson.loads(bytes(stored))))


def _build_document(tool: IndexedTool, language: str | None) -> tantivy.Document:
    # One call for all fields: a call for each takes half as long again.
    stored = {}
    if tool.command_name is not None:
        stored["executor_command"] = f"{tool.provider}/{tool.command_name}".encode()
    if tool.credential_slots:
        stored["credential_slots"] = exact_json.dumps(tool.credential_slots)
    names = (tool.name.removeprefix(f"{tool.provider}."), tool.provider, *tool.tags, *tool.keywords)
    summary = stem_in_language(prepare_prose(take_first_sentence(tool.description)), language)
    return tantivy.Document(
        **stored,
        id=tool.id.hex,
        key=make_tool_key(tool.id),
        exact_name=tool.name,
        json_members=tool.json_members,
        provider_id=tool.provider_id.hex,
        exact=list_exact_forms(tool.provider, tool.name, tool.alias),
        tag=list(tool.tags),
        registrar_tag=list(tool.registrar_tags),
        head=" ".join((*map(extract_name_text, names), summary)),
        body=stem_in_language(
            f"{prepare_prose(tool.description)} {extract_parameter_text(tool.inputs)}", language
        ),
        provider_words=" ".join((extract_name_text(tool.provider), prepare_prose(tool.provider_title))),
    )
