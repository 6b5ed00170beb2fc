"""Tool search: an index in the memory of each worker, updated by the change feed.

The index contains all that a hit shows and all that decides who may see it, so that a search reads no
database. It reflects a change at the same time as calls do: once the feed has delivered it to this worker;
for a change made through this worker, before its response.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from typing import Any, Literal
from uuid import UUID

import structlog
from sqlalchemy import ColumnElement, false, or_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.catalog.annotations import Annotations, effects
from app.catalog.availability import executor_command
from app.catalog.feed import ChangeNotice
from app.catalog.tools import (
    ToolView,
    Viewer,
    call_url,
    has_tag,
    is_enabled,
    principal_filter,
    tool_select,
    tool_view,
)
from app.core import exact_json
from app.core.background import cancel_tasks
from app.core.errors import Unavailable
from app.core.suggestions import find_similar
from app.search.advice import Advice, SeeTool, is_weak
from app.search.hits import ExecutorCommand, Hit, ShownTool, json_members
from app.search.index import Filters, IndexQuery, Match, Matches, ToolIndex
from app.search.rows import RowScope, make_indexed_tool, read_providers, read_stamps, stream_tool_rows
from app.search.signals import SearchScope, Signals
from app.security.principal import Principal
from app.security.requirements import slot_alternatives
from app.storage.database import Database
from app.storage.models import Provider, Tool

Ranking = Literal["words", "words+vectors"]
"""By what hits were ranked; the latter only where a model is installed, and was fast enough."""
OnSearch = Callable[[Principal, str, Sequence[str], Sequence[UUID]], None]
"""Is told of each text of a search: whose search it was, the text, its stems, and the tools that were found
for it and shown, best first. It must not block.
"""

_LOAD_TIMEOUT = 10.0
# Up to this many tools are read by id; for more, all in scope are read and the unchanged ones skipped.
_MAX_NAMED = 1_000
# Suggestions for an unknown name of at most this many characters are chosen among this many matches.
_MAX_NAME = 200
_MAX_SIMILAR = 30
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class QueryReport:
    """What is known of one text of a search.

    `coverage` is the share of its words, by weight, that the best hit has; `cosine` the cosine of the best
    hit, None without vectors; `is_named`: the best hit is pinned for the text, or the text is its name.
    """

    text: str
    stems: Sequence[str]
    unknown_words: Sequence[str]
    synonyms: Mapping[str, Sequence[str]]
    coverage: float
    cosine: float | None
    is_named: bool


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hits of a search, best first, and what is known of its texts: none for a list by name."""

    hits: Sequence[Hit]
    ranking: Ranking = "words"
    queries: Sequence[QueryReport] = ()

    @property
    def weak_texts(self) -> Sequence[str]:
        """The texts whose best hit may well be the wrong tool."""
        return [
            one.text
            for one in self.queries
            if is_weak(coverage=one.coverage, cosine=one.cosine, is_named=one.is_named, words=len(one.stems))
        ]


class SearchIndex:
    """The search index of this worker. Subscribe `on_changes` to the feed, start the feed, then `start()`
    this.
    """

    def __init__(self, database: Database, *, base_url: str, signals: Signals | None = None) -> None:
        self._database = database
        self._base_url = base_url
        self._signals = signals or Signals()
        self._index = ToolIndex(self._signals)
        self.on_search: OnSearch | None = None
        """Is told of each search; None: nothing is."""
        self._stamps: dict[UUID, dict[UUID, str]] = {}
        """The stamps of the tools in the index, by provider and tool, as read when they were indexed."""
        self._inconsistent = True
        """Whether the index may differ from the stamps, because a write to it did not complete."""
        self._lock = asyncio.Lock()
        self._loaded = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._postponed: list[ChangeNotice] = []
        self._closed = False
        self.documents_indexed = 0
        """Number of documents indexed so far."""

    def __len__(self) -> int:
        return len(self._index)

    async def start(self) -> None:
        """Begin to read all tools in the background; searches wait until that is done."""
        self._tasks.append(asyncio.create_task(self._load(), name="search-load"))

    async def wait_loaded(self) -> None:
        """Wait until all tools are in the index; raise Unavailable after ten seconds."""
        if self._loaded.is_set():
            return
        try:
            async with asyncio.timeout(_LOAD_TIMEOUT):
                await self._loaded.wait()
        except TimeoutError:
            raise Unavailable("The search index is still being built.") from None

    async def aclose(self) -> None:
        """End the loading and the index's threads; later changes are ignored."""
        self._closed = True
        await cancel_tasks(self._tasks)
        async with self._lock:
            await asyncio.to_thread(self._index.close)

    async def find(
        self,
        texts: Sequence[str],
        *,
        principal: Principal,
        filters: Filters | None = None,
        limit: int = 10,
        toolset: str | None = None,
        explain: bool = False,
    ) -> SearchResult:
        """Return the best `limit` matches of up to four texts among the tools that the principal may call.

        `toolset` is the one at whose address the search is; its members are those of `filters`. Nothing is
        learned from searches that are explained.

        Best first; of several texts, the matches of each are taken in turn, and each tool once. Any text is a
        valid query. Empty ones are left out; where all are, tools are listed by name. Raises Unavailable.
        """
        filters = filters or Filters()
        wanted = [text for text in dict.fromkeys(texts) if text.strip()]
        if not wanted:
            return SearchResult(await self._list_by_name(principal, filters, limit))
        await self.wait_loaded()
        vectors = await asyncio.gather(*map(self._signals.vectors.encode, wanted))
        scope = SearchScope.of(principal, toolset=toolset)
        queries = [
            IndexQuery(text, scope, vector, explain) for text, vector in zip(wanted, vectors, strict=True)
        ]
        all_matches = [
            await asyncio.to_thread(self._index.search, query, viewer=principal, filters=filters, limit=limit)
            for query in queries
        ]
        unique: dict[UUID, Match] = {}
        for match in chain.from_iterable(zip_longest(*(matches.items for matches in all_matches))):
            if match is not None:
                unique.setdefault(match.tool_id, match)
        chosen = list(islice(unique.values(), limit))
        if self.on_search is not None and not explain:
            shown = {match.tool_id for match in chosen}
            for text, matches in zip(wanted, all_matches, strict=True):
                of_text = [match.tool_id for match in matches.items if match.tool_id in shown]
                self.on_search(principal, text, matches.stems, of_text)
        with_vectors = any(vector is not None for vector in vectors)
        return SearchResult(
            [_convert_match(match) for match in chosen],
            "words+vectors" if with_vectors else "words",
            [_report(text, matches) for text, matches in zip(wanted, all_matches, strict=True)],
        )

    async def advise(
        self,
        result: SearchResult,
        *,
        principal: Principal,
        filters: Filters | None = None,
        see: SeeTool | None = None,
    ) -> Advice | None:
        """Return what to search for next, where a text of a search has weak hits; None where none has.

        `principal` and `filters` are those of the search. It reads only what this principal may see; `see`
        returns a tool as it is shown (None: as the registry has it).
        """
        weak = result.weak_texts
        if not weak:
            return None
        return await asyncio.to_thread(
            self._index.advise,
            weak,
            [hit.json_members for hit in result.hits],
            viewer=principal,
            filters=filters or Filters(),
            see=see,
        )

    async def search(
        self, text: str, *, principal: Principal, filters: Filters | None = None, limit: int = 10
    ) -> Sequence[Hit]:
        """Return the hits of one text, as `find` does."""
        return (await self.find([text], principal=principal, filters=filters, limit=limit)).hits

    async def suggest_tools(self, name: str, *, principal: Principal) -> list[str]:
        """Return up to three names of tools similar to an unknown name, of those that the principal may call.

        Without the scope `tools:read`, and while the index is being built, there are none. Costs one search.
        """
        if not principal.has_scope("tools:read") or not self._loaded.is_set():
            return []
        suggestions = await asyncio.to_thread(
            self._index.search,
            IndexQuery(name[:_MAX_NAME]),
            viewer=principal,
            filters=Filters(),
            limit=_MAX_SIMILAR,
        )
        return find_similar(name, [match.name for match in suggestions.items], limit=3)

    def suggest_providers(self, name: str, *, principal: Principal) -> list[str]:
        """Return up to three names of providers similar to an unknown name, of those whose tools the
        principal may call. Without the scope `tools:read` there are none.
        """
        if not principal.has_scope("tools:read"):
            return []
        visible = (
            one.name
            for one in self._index.providers.values()
            if one.enabled and principal.may_use(one.name, one.tags)
        )
        return find_similar(name, visible, limit=3)

    async def on_changes(self, changes: list[ChangeNotice]) -> None:
        """Index again what the changes affect; a subscriber of the feed."""
        relevant = [change for change in changes if change.kind in ("all", "provider", "tool")]
        if self._closed:
            return
        if not self._loaded.is_set():
            # The feed must not wait for the first load, which applies these changes at its end.
            self._postponed += relevant
        elif relevant:
            await self._apply(relevant)

    async def _load(self) -> None:
        backoff = 0.5
        while True:
            try:
                await self._apply([ChangeNotice("all")])
                while self._postponed:
                    postponed, self._postponed = self._postponed, []
                    await self._apply(postponed)
                self._loaded.set()
            except Unavailable:
                _log.warning("the search index is waiting for the database")
            except Exception:  # noqa: BLE001 - the gateway serves calls without search, and loads again.
                _log.exception("the search index could not be loaded")
            else:
                return
            self._postponed = []
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, 10.0)

    async def _apply(self, changes: Sequence[ChangeNotice]) -> None:
        everything = any(change.kind == "all" or change.provider_id is None for change in changes)
        tools = {change.tool_id: change.provider_id for change in changes if change.tool_id}
        providers = {change.provider_id for change in changes if change.provider_id and not change.tool_id}
        async with self._lock:
            scope = RowScope(everything or self._inconsistent, frozenset(providers), frozenset(tools))
            try:
                async with self._database.read_session() as session:
                    await self._read_providers(session, scope)
                    indexed_before = self._list_indexed_stamps(
                        scope, {owner for owner in tools.values() if owner}
                    )
                    await self._write(session, scope, indexed_before)
            except BaseException:
                self._index.roll_back()
                raise

    async def _read_providers(self, session: AsyncSession, scope: RowScope) -> None:
        """Read the providers in scope. One that was disabled is hidden from here on, before its tools are
        read.
        """
        if scope.everything:
            self._index.providers = await read_providers(session, only=None)
        elif scope.providers:
            others = {
                key: provider for key, provider in self._index.providers.items() if key not in scope.providers
            }
            self._index.providers = others | await read_providers(session, only=scope.providers)

    def _list_indexed_stamps(self, scope: RowScope, owners: set[UUID]) -> dict[UUID, dict[UUID, str]]:
        """Return the stamps of the tools that are indexed and in scope; `owners` are the providers of
        single tools.
        """
        if scope.everything:
            return {owner: dict(tool_stamps) for owner, tool_stamps in self._stamps.items() if tool_stamps}
        indexed_before = {
            owner: dict(self._stamps[owner]) for owner in scope.providers if self._stamps.get(owner)
        }
        for owner in owners - scope.providers:
            tool_stamps = self._stamps.get(owner, {})
            indexed_before[owner] = {tool: tool_stamps[tool] for tool in scope.tools if tool in tool_stamps}
        return {owner: tool_stamps for owner, tool_stamps in indexed_before.items() if tool_stamps}

    async def _write(
        self, session: AsyncSession, scope: RowScope, indexed_before: dict[UUID, dict[UUID, str]]
    ) -> None:
        """Update the index to what is stored; write nothing where they agree."""
        if self._inconsistent:
            self._index.delete_all()
            indexed_before = {}
        new_stamps = await read_stamps(session, scope) if indexed_before else {}
        unchanged = {
            tool
            for owner, tool_stamps in indexed_before.items()
            for tool, stamp in tool_stamps.items()
            if new_stamps.get(owner, {}).get(tool) == stamp
        }
        outdated = [
            tool for tool_stamps in indexed_before.values() for tool in tool_stamps if tool not in unchanged
        ]
        to_add = {
            tool for tool_stamps in new_stamps.values() for tool in tool_stamps if tool not in unchanged
        }
        if indexed_before and not outdated and not to_add:
            return
        self._inconsistent = True
        await _run_to_completion(self._index.delete_tools, outdated)
        added: dict[UUID, dict[UUID, str]] = {}
        if to_add or not indexed_before:
            chosen = (
                RowScope(tools=frozenset(to_add)) if indexed_before and len(to_add) <= _MAX_NAMED else scope
            )
            added = await self._add_all(session, chosen, unchanged)
        await _run_to_completion(self._index.commit)
        self._update_stamps(outdated=outdated, indexed_before=indexed_before, added=added)
        self._inconsistent = False

    def _update_stamps(
        self,
        *,
        outdated: Collection[UUID],
        indexed_before: dict[UUID, dict[UUID, str]],
        added: dict[UUID, dict[UUID, str]],
    ) -> None:
        if len(outdated) > 0:
            left = set(outdated)
            for owner in indexed_before:
                self._stamps[owner] = {k: v for k, v in self._stamps[owner].items() if k not in left}
        for owner, tool_stamps in added.items():
            self._stamps.setdefault(owner, {}).update(tool_stamps)

    async def _add_all(
        self, session: AsyncSession, scope: RowScope, unchanged: Collection[UUID]
    ) -> dict[UUID, dict[UUID, str]]:
        """Add the tools in scope but the unchanged ones; return the stamps with which they were read."""
        added: dict[UUID, dict[UUID, str]] = {}
        async for rows in stream_tool_rows(session, scope):
            chosen = [row for row in rows if row.id not in unchanged]
            for row in chosen:
                added.setdefault(row.provider_id, {})[row.id] = row.stamp
            self.documents_indexed += len(chosen)
            await _run_to_completion(self._add, chosen)
        return added

    def _add(self, rows: Sequence[Any]) -> None:
        self._index.add(make_indexed_tool(row, base_url=self._base_url) for row in rows)

    async def _list_by_name(self, principal: Viewer, filters: Filters, limit: int) -> list[Hit]:
        where: list[ColumnElement[bool]] = []
        if filters.provider is not None:
            where.append(col(Provider.name) == filters.provider)
        if filters.tag is not None:
            where.append(has_tag(filters.tag))
        if filters.any_tag is not None:
            where.append(or_(false(), *(has_tag(tag) for tag in sorted(filters.any_tag))))
        if filters.tools is not None:
            where.append(col(Tool.id).in_(filters.tools))
        statement = tool_select().where(is_enabled(), principal_filter(principal), *where)
        async with self._database.read_session() as session:
            rows = (await session.execute(statement.order_by(col(Tool.name)).limit(limit))).all()
        return [self._make_hit(tool_view(row)) for row in rows]

    def _make_hit(self, tool: ToolView) -> Hit:
        known = Annotations.of_template(tool.call_template).overridden(tool.annotations)
        members = json_members(
            ShownTool(
                name=tool.name,
                alias=tool.alias,
                provider=tool.provider,
                description=tool.description,
                schema=tool.inputs,
                inputs=exact_json.dumps(tool.inputs).decode(),
                effects=effects(known, requires_approval=tool.requires_approval, deprecated=tool.deprecated),
                average_response_size=tool.average_response_size,
                tags=tool.tags,
                call_url=call_url(self._base_url, tool.alias),
            )
        )
        command_name = executor_command(tool.call_template)
        command = None if command_name is None else ExecutorCommand(tool.provider, command_name)
        slots = slot_alternatives(tool.security)
        return Hit(tool.name, 0.0, members, command, tool_id=tool.id, credential_slots=slots)


def _convert_match(match: Match) -> Hit:
    return Hit(
        match.name,
        match.score,
        match.json_members,
        match.executor_command,
        tool_id=match.tool_id,
        explanation=match.explanation,
        credential_slots=match.credential_slots,
    )


def _report(text: str, matches: Matches) -> QueryReport:
    return QueryReport(
        text=text,
        stems=matches.stems,
        unknown_words=matches.unknown_words,
        synonyms=matches.synonyms or {},
        coverage=matches.coverage,
        cosine=matches.cosine,
        is_named=matches.is_named,
    )


async def _run_to_completion(write: Callable[..., None], *arguments: Any) -> None:
    """Run `write` in a thread, and wait for its end even when cancelled: only one thread may write."""
    running = asyncio.ensure_future(asyncio.to_thread(write, *arguments))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
