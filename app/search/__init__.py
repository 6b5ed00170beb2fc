"""Finding tools: an index in the memory of each worker, kept in step by the change feed.

The index decides which tools and in which order; what a hit shows is read from Postgres at that moment, under
the limits of the caller, so that a lagging index can show less but never something stale or hidden.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import ColumnElement, and_, or_
from sqlmodel import col

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
from app.search.index import Filters, Match, ToolIndex

__all__ = ["Filters", "Hit", "SearchIndex"]

_BATCH = 500
_LONGEST_WAIT = 10.0
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool that was found, where it is called, and its score; 0 in a list that no words were asked for."""

    tool: ToolView
    score: float
    call_url: str


class SearchIndex:
    """Make it, subscribe `on_changes` to the feed, start the feed, then `start()` this."""

    def __init__(self, database: Database, *, base_url: str) -> None:
        self._database = database
        self._base_url = base_url
        self._index = ToolIndex()
        self._turn = asyncio.Lock()
        self._loaded = asyncio.Event()
        self._loading: asyncio.Task[None] | None = None
        self._waiting: list[Change] = []
        self._closed = False

    def __len__(self) -> int:
        return len(self._index)

    async def start(self) -> None:
        """Begins to read all tools, in the background; searches wait for the end of it."""
        self._loading = asyncio.create_task(self._load(), name="search-load")

    async def loaded(self) -> None:
        """Waits until all tools are in the index; Unavailable after ten seconds."""
        try:
            async with asyncio.timeout(_LONGEST_WAIT):
                await self._loaded.wait()
        except TimeoutError:
            raise Unavailable("The search index is still being built.") from None

    async def aclose(self) -> None:
        """Ends the loading and the index's threads; changes are not looked at any more."""
        self._closed = True
        if self._loading is not None:
            self._loading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._loading
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
        if not matches:
            return []
        ids = [match.tool_id for match in matches]
        tools = {tool.id: tool for tool in await self._read(principal, col(Tool.id).in_(ids))}
        return [self._hit(tools[match.tool_id], match.score) for match in matches if match.tool_id in tools]

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
            except Exception:  # noqa: BLE001 - the gateway serves calls without a search, and tries again.
                _log.exception("the search index could not be read")
                self._waiting = []
            else:
                return
            await asyncio.sleep(pause)
            pause = min(pause * 2, 10.0)

    async def _apply(self, changes: Sequence[Change]) -> None:
        everything = any(change.kind == "all" or change.provider_id is None for change in changes)
        tools = {UUID(change.object_id) for change in changes if _is_one_tool(change)}
        providers = {
            change.provider_id for change in changes if change.provider_id and not _is_one_tool(change)
        }
        async with self._turn:
            try:
                if everything:
                    await self._replace(is_enabled(), delete_all=True)
                elif providers or tools:
                    where = or_(col(Tool.provider_id).in_(providers), col(Tool.id).in_(tools))
                    await self._replace(and_(where, is_enabled()), providers=providers, tools=tools)
                await _to_its_end(self._index.commit)
            except BaseException:
                self._index.rollback()
                raise

    async def _replace(
        self,
        where: ColumnElement[bool],
        *,
        delete_all: bool = False,
        providers: set[UUID] | frozenset[UUID] = frozenset(),
        tools: set[UUID] | frozenset[UUID] = frozenset(),
    ) -> None:
        if delete_all:
            self._index.delete_all()
        for provider in providers:
            self._index.delete_provider(provider)
        for tool in tools:
            self._index.delete_tool(tool)
        statement = tool_select().where(where).execution_options(yield_per=_BATCH)
        async with self._database.reading() as session:
            stream = await session.stream(statement)
            async for rows in stream.partitions(_BATCH):
                await _to_its_end(self._add, rows)

    def _add(self, rows: Sequence[Any]) -> None:
        self._index.add(view(row) for row in rows)

    async def _listed(self, principal: Viewer, filters: Filters, limit: int) -> list[Hit]:
        where: list[ColumnElement[bool]] = []
        if filters.provider is not None:
            where.append(col(Provider.name) == filters.provider)
        if filters.tag is not None:
            where.append(has_tag(filters.tag))
        return [self._hit(tool, 0.0) for tool in await self._read(principal, *where, limit=limit)]

    def _hit(self, tool: ToolView, score: float) -> Hit:
        return Hit(tool, score, call_url(self._base_url, tool.alias))

    async def _read(
        self, principal: Viewer, *where: ColumnElement[bool], limit: int | None = None
    ) -> list[ToolView]:
        statement = tool_select().where(is_enabled(), principal_filter(principal), *where)
        if limit is not None:
            statement = statement.order_by(col(Tool.name)).limit(limit)
        async with self._database.reading() as session:
            return [view(row) for row in (await session.execute(statement)).all()]


async def _to_its_end(write: Callable[..., None], *arguments: Any) -> None:
    """Runs `write` in a thread, and waits for its end even when cancelled: only one thread may write."""
    running = asyncio.ensure_future(asyncio.to_thread(write, *arguments))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


def _is_one_tool(change: Change) -> bool:
    if change.kind != "tool" or not change.object_id:
        return False
    try:
        UUID(change.object_id)
    except ValueError:
        return False
    return True
