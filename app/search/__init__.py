"""Finding tools: an index in the memory of each worker, kept in step by the change feed.

The index holds what a hit shows and what decides who may see it, so a search asks nobody. It knows of a
change when calls do: as soon as the feed has told this worker, which is before the change is answered here.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any
from uuid import UUID

import orjson
import structlog
from sqlalchemy import ColumnElement
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.background import end_tasks
from app.catalog.feed import Change
from app.catalog.tools import (
    ToolView,
    Viewer,
    call_url,
    has_tag,
    is_enabled,
    principal_filter,
    tool_select,
    view,
)
from app.database import Database
from app.errors import Unavailable
from app.models import Provider, Tool
from app.search.entries import Hit, body, entry
from app.search.index import Filters, Match, ToolIndex
from app.search.rows import Scope, indexed, provider_facts, stamps, tool_rows

__all__ = ["Filters", "Hit", "SearchIndex", "body"]

_LONGEST_WAIT = 10.0
# More tools than this are read as all in scope, and those that have not changed left out.
_MOST_NAMED = 1_000
_log = structlog.get_logger(__name__)


class SearchIndex:
    """Make it, subscribe `on_changes` to the feed, start the feed, then `start()` this."""

    def __init__(self, database: Database, *, base_url: str) -> None:
        self._database = database
        self._base_url = base_url
        self._index = ToolIndex()
        self._stamps: dict[UUID, dict[UUID, str]] = {}
        """Of the tools in the index, by provider: what was read when they were indexed."""
        self._torn = True
        """Whether the index may hold other than the stamps say: it was written to, and not to the end."""
        self._turn = asyncio.Lock()
        self._loaded = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: list[Change] = []
        self._closed = False
        self.written = 0
        """Documents that were indexed so far."""

    def __len__(self) -> int:
        return len(self._index)

    async def start(self) -> None:
        """Begins to read all tools, in the background; searches wait for the end of it."""
        self._tasks.append(asyncio.create_task(self._load(), name="search-load"))

    async def loaded(self) -> None:
        """Waits until all tools are in the index; Unavailable after ten seconds."""
        if self._loaded.is_set():
            return
        try:
            async with asyncio.timeout(_LONGEST_WAIT):
                await self._loaded.wait()
        except TimeoutError:
            raise Unavailable("The search index is still being built.") from None

    async def aclose(self) -> None:
        """Ends the loading and the index's threads; changes are not looked at any more."""
        self._closed = True
        await end_tasks(self._tasks)
        async with self._turn:
            await asyncio.to_thread(self._index.close)

    async def search(
        self, text: str, *, principal: Viewer, filters: Filters | None = None, limit: int = 10
    ) -> list[Hit]:
        """The best `limit` tools that the principal may call. Any text is a legal query; an empty one lists
        tools by name.
        """
        filters = filters or Filters()
        if not text.strip():
            return await self._listed(principal, filters, limit)
        matches = await self.matches(text, principal=principal, filters=filters, limit=limit)
        return [Hit(match.name, match.score, match.entry) for match in matches]

    async def matches(
        self, text: str, *, principal: Viewer, filters: Filters | None = None, limit: int
    ) -> list[Match]:
        """Only which tools, in which order, as the index knows it."""
        await self.loaded()
        return await asyncio.to_thread(
            self._index.search, text, viewer=principal, filters=filters or Filters(), limit=limit
        )

    async def on_changes(self, changes: list[Change]) -> None:
        """Reads again what the changes touch; a subscriber of the feed."""
        relevant = [change for change in changes if change.kind in ("all", "provider", "tool")]
        if self._closed:
            return
        if not self._loaded.is_set():
            # The feed must not wait for the first load; that one looks here at its end.
            self._waiting += relevant
        elif relevant:
            await self._apply(relevant)

    async def _load(self) -> None:
        pause = 0.5
        while True:
            try:
                await self._apply([Change("all")])
                while self._waiting:
                    waiting, self._waiting = self._waiting, []
                    await self._apply(waiting)
                self._loaded.set()
            except Unavailable:
                _log.warning("the search index waits for the database")
            except Exception:  # noqa: BLE001 - the gateway serves calls without a search, and tries again.
                _log.exception("the search index could not be read")
            else:
                return
            self._waiting = []
            await asyncio.sleep(pause)
            pause = min(pause * 2, 10.0)

    async def _apply(self, changes: Sequence[Change]) -> None:
        everything = any(change.kind == "all" or change.provider_id is None for change in changes)
        tools = {change.tool_id: change.provider_id for change in changes if change.tool_id}
        providers = {change.provider_id for change in changes if change.provider_id and not change.tool_id}
        async with self._turn:
            scope = Scope(everything or self._torn, frozenset(providers), frozenset(tools))
            try:
                async with self._database.reading() as session:
                    await self._read_providers(session, scope)
                    known = self._known(scope, {owner for owner in tools.values() if owner})
                    await self._write(session, scope, known)
            except BaseException:
                self._index.rollback()
                raise

    async def _read_providers(self, session: AsyncSession, scope: Scope) -> None:
        """A provider that was disabled is hidden from here on, before any of its tools is looked at."""
        if scope.everything:
            self._index.providers = await provider_facts(session, only=None)
        elif scope.providers:
            others = {
                key: facts for key, facts in self._index.providers.items() if key not in scope.providers
            }
            self._index.providers = others | await provider_facts(session, only=scope.providers)

    def _known(self, scope: Scope, owners: set[UUID]) -> dict[UUID, dict[UUID, str]]:
        """Stamps of what is in the index and in scope; `owners` are the providers of single tools."""
        if scope.everything:
            return {owner: dict(held) for owner, held in self._stamps.items() if held}
        known = {owner: dict(self._stamps[owner]) for owner in scope.providers if self._stamps.get(owner)}
        for owner in owners - scope.providers:
            held = self._stamps.get(owner, {})
            known[owner] = {tool: held[tool] for tool in scope.tools if tool in held}
        return {owner: held for owner, held in known.items() if held}

    async def _write(self, session: AsyncSession, scope: Scope, known: dict[UUID, dict[UUID, str]]) -> None:
        """Brings the index to what is stored, and writes nothing where that is the same."""
        if self._torn:
            self._index.delete_all()
            known = {}
        found = await stamps(session, scope) if known else {}
        same = {
            tool
            for owner, held in known.items()
            for tool, stamp in held.items()
            if found.get(owner, {}).get(tool) == stamp
        }
        gone = [tool for held in known.values() for tool in held if tool not in same]
        fresh = {tool for held in found.values() for tool in held if tool not in same}
        if known and not gone and not fresh:
            return
        self._torn = True
        await _to_its_end(self._index.delete_tools, gone)
        added: dict[UUID, dict[UUID, str]] = {}
        if fresh or not known:
            chosen = Scope(tools=frozenset(fresh)) if known and len(fresh) <= _MOST_NAMED else scope
            added = await self._add_all(session, chosen, same)
        await _to_its_end(self._index.commit)
        self._remember(gone=gone, known=known, added=added)
        self._torn = False

    def _remember(
        self,
        *,
        gone: Collection[UUID],
        known: dict[UUID, dict[UUID, str]],
        added: dict[UUID, dict[UUID, str]],
    ) -> None:
        if len(gone) > 0:
            left = set(gone)
            for owner in known:
                self._stamps[owner] = {k: v for k, v in self._stamps[owner].items() if k not in left}
        for owner, held in added.items():
            self._stamps.setdefault(owner, {}).update(held)

    async def _add_all(
        self, session: AsyncSession, scope: Scope, same: Collection[UUID]
    ) -> dict[UUID, dict[UUID, str]]:
        """Adds what is in scope and not the `same`; gives the stamps with which that was read."""
        added: dict[UUID, dict[UUID, str]] = {}
        async for rows in tool_rows(session, scope):
            chosen = [row for row in rows if row.id not in same]
            for row in chosen:
                added.setdefault(row.provider_id, {})[row.id] = row.stamp
            self.written += len(chosen)
            await _to_its_end(self._add, chosen)
        return added

    def _add(self, rows: Sequence[Any]) -> None:
        self._index.add(indexed(row, base_url=self._base_url) for row in rows)

    async def _listed(self, principal: Viewer, filters: Filters, limit: int) -> list[Hit]:
        where: list[ColumnElement[bool]] = []
        if filters.provider is not None:
            where.append(col(Provider.name) == filters.provider)
        if filters.tag is not None:
            where.append(has_tag(filters.tag))
        statement = tool_select().where(is_enabled(), principal_filter(principal), *where)
        async with self._database.reading() as session:
            rows = (await session.execute(statement.order_by(col(Tool.name)).limit(limit))).all()
        return [self._hit(view(row)) for row in rows]

    def _hit(self, tool: ToolView) -> Hit:
        shown = entry(
            name=tool.name,
            alias=tool.alias,
            provider=tool.provider,
            description=tool.description,
            inputs=orjson.dumps(tool.inputs).decode(),
            tags=tool.tags,
            call_url=call_url(self._base_url, tool.alias),
        )
        return Hit(tool.name, 0.0, shown)


async def _to_its_end(write: Callable[..., None], *arguments: Any) -> None:
    """Runs `write` in a thread, and waits for its end even when cancelled: only one thread may write."""
    running = asyncio.ensure_future(asyncio.to_thread(write, *arguments))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
