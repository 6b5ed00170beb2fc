"""The directory of a worker: all enabled tools as agents see them, in memory, updated by the change feed.

It is filled at the first request, and then reads only what has changed, so that a request reads no database
where nothing has. A change that was made through this worker is marked by the feed before its response.
"""

import asyncio
import hashlib
import sys
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Select, Text, cast, false, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.catalog.feed import ChangeNotice
from app.catalog.tools import Viewer, is_enabled, tool_select, tool_view, version_stamp
from app.storage.database import Database
from app.storage.models import TENANT, Override, Provider, Tool
from app.toolsets.agent_tool import AgentTool, agent_tool

_BATCH: Final = 250
_STAMP_BATCH: Final = 2_000
# Up to this many tools are read by id; for more, all in scope are read and the unchanged ones skipped.
_MAX_NAMED: Final = 1_000
_MAX_CACHED_LISTINGS: Final = 64
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools that one client sees at one address, by name, and a stamp that differs whenever one does."""

    tools: tuple[AgentTool, ...]
    stamp: str

    @classmethod
    def of(cls, tools: Iterable[AgentTool]) -> "Listing":
        """Return the listing of tools in any order."""
        ordered = tuple(sorted(tools, key=lambda tool: tool.name))
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        for tool in ordered:
            digest.update(tool.stamp.encode())
        return cls(ordered, digest.hexdigest())


@dataclass(frozen=True, slots=True)
class _Entry:
    tool: AgentTool
    provider_id: UUID
    row_stamp: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All enabled tools at one time. `by_name` has each by agent name, alias and canonical name."""

    tools: tuple[AgentTool, ...] = ()
    by_name: Mapping[str, AgentTool] = field(default_factory=dict, repr=False)
    _listings: "OrderedDict[Any, Listing]" = field(default_factory=OrderedDict, repr=False)

    @classmethod
    def of(cls, tools: Iterable[AgentTool]) -> "Snapshot":
        """Return the snapshot of tools in any order."""
        ordered = tuple(sorted(tools, key=lambda tool: tool.name))
        names = {tool.alias: tool for tool in ordered}
        names |= {tool.tool: tool for tool in ordered}
        names |= {tool.name: tool for tool in ordered}
        return cls(ordered, names)

    def listing(self, viewer: Viewer) -> Listing:
        """Return the tools that the viewer may call."""
        key = (viewer.providers, viewer.tags)
        found = self._listings.get(key)
        if found is None:
            found = self._listings[key] = Listing.of(tool for tool in self.tools if may_see(viewer, tool))
            while len(self._listings) > _MAX_CACHED_LISTINGS:
                self._listings.popitem(last=False)
        return found


def may_see(viewer: Viewer, tool: AgentTool) -> bool:
    """Return whether the viewer may call a tool: the rule of `Principal.may_use`."""
    if viewer.providers is not None and tool.provider not in viewer.providers:
        return False
    return viewer.tags is None or not viewer.tags.isdisjoint(tool.registrar_tags)


@dataclass(slots=True)
class _Stale:
    """What may have changed since it was read."""

    everything: bool = False
    providers: set[UUID] = field(default_factory=set)
    tools: set[UUID] = field(default_factory=set)

    def __bool__(self) -> bool:
        return self.everything or bool(self.providers or self.tools)

    def add(self, change: ChangeNotice) -> None:
        if change.kind == "all" or change.provider_id is None:
            self.everything = True
        elif change.tool_id is not None:
            self.tools.add(change.tool_id)
        else:
            self.providers.add(change.provider_id)

    def merge(self, other: "_Stale") -> None:
        self.everything = self.everything or other.everything
        self.providers |= other.providers
        self.tools |= other.tools

    def where(self) -> ColumnElement[bool]:
        if self.everything:
            return is_enabled()
        return is_enabled() & or_(
            col(Tool.provider_id).in_(self.providers) if self.providers else false(),
            col(Tool.id).in_(self.tools) if self.tools else false(),
        )

    def includes(self, tool_id: UUID, entry: _Entry) -> bool:
        return self.everything or entry.provider_id in self.providers or tool_id in self.tools


class ToolDirectory:
    """The directory of this worker. Subscribe `on_changes` to the change feed before the feed starts."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._entries: dict[UUID, _Entry] = {}
        self._stale = _Stale(everything=True)
        self._snapshot = Snapshot()
        self._lock = asyncio.Lock()
        self.tools_read = 0
        """Number of tools read from the database so far."""

    async def on_changes(self, changes: Sequence[ChangeNotice]) -> None:
        """Mark what the changes affect, to be read at the next request; a subscriber of the feed."""
        for change in changes:
            if change.kind in ("all", "provider", "tool"):
                self._stale.add(change)

    async def snapshot(self) -> Snapshot:
        """Return all enabled tools as they are now. Raises Unavailable."""
        # What another request is reading is neither stale nor in the snapshot yet.
        if not self._stale and not self._lock.locked():
            return self._snapshot
        async with self._lock:
            while self._stale:
                stale, self._stale = self._stale, _Stale()
                try:
                    await self._refresh(stale)
                except BaseException:
                    self._stale.merge(stale)
                    raise
            return self._snapshot

    async def _refresh(self, stale: _Stale) -> None:
        """Read what has changed within the scope; where nothing has, the snapshot stays the same object."""
        before = {key for key, entry in self._entries.items() if stale.includes(key, entry)}
        async with self._database.read_session() as session:
            stamps = await _stamps(session, stale) if before else None
            if stamps is None:
                read = await self._read(session, stale.where(), only=None)
                removed: set[UUID] = set()
            else:
                changed = {key for key, stamp in stamps.items() if self._row_stamp(key) != stamp}
                removed = before - stamps.keys()
                if not changed and not removed:
                    return
                where = (
                    stale.where() if len(changed) > _MAX_NAMED else is_enabled() & col(Tool.id).in_(changed)
                )
                read = await self._read(session, where, only=changed) if changed else {}
                removed |= changed - read.keys()
        if not read and not removed and self._snapshot.tools:
            return
        entries = {key: entry for key, entry in self._entries.items() if key not in removed} | read
        self._snapshot = await asyncio.to_thread(Snapshot.of, [entry.tool for entry in entries.values()])
        self._entries = entries

    def _row_stamp(self, key: UUID) -> str | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.row_stamp

    async def _read(
        self, session: AsyncSession, where: ColumnElement[bool], *, only: Collection[UUID] | None
    ) -> dict[UUID, _Entry]:
        statement = _select().where(where).execution_options(yield_per=_BATCH)
        found: dict[UUID, _Entry] = {}
        stream = await session.stream(statement)
        async for rows in stream.partitions(_BATCH):
            chosen = rows if only is None else [row for row in rows if row.id in only]
            self.tools_read += len(chosen)
            found |= await asyncio.to_thread(lambda part: dict(_entries(part)), chosen)
        return found


def _select() -> Select[Any]:
    found = tool_select()
    columns = [one for one in found.selected_columns if one.key not in ("inputs", "outputs", "security")]
    texts = [cast(found.selected_columns[name], Text).label(name) for name in ("inputs", "outputs")]
    return found.with_only_columns(*columns, *texts, col(Tool.security).label("security"), _stamp())


def _stamp() -> ColumnElement[Any]:
    """Return a text that changes whenever an entry may: with the tool's version, its override, or its
    provider's tags.
    """
    return version_stamp(col(Tool.version), func.array_to_string(col(Provider.tags), ","))


async def _stamps(session: AsyncSession, stale: _Stale) -> dict[UUID, str]:
    statement = (
        select(col(Tool.id), _stamp())
        .select_from(Tool)
        .join(Provider, col(Provider.id) == col(Tool.provider_id))
        .outerjoin(Override, col(Override.tool_id) == col(Tool.id))
        .where(col(Tool.tenant_id) == TENANT, stale.where())
        .execution_options(yield_per=_STAMP_BATCH)
    )
    found: dict[UUID, str] = {}
    stream = await session.stream(statement)
    async for rows in stream.partitions(_STAMP_BATCH):
        found.update((row[0], row[1]) for row in rows)
    return found


def _entries(rows: Sequence[Any]) -> Iterator[tuple[UUID, _Entry]]:
    for row in rows:
        tool = agent_tool(
            tool_view(row),
            inputs_json=row.inputs.encode(),
            outputs_json=row.outputs.encode(),
        )
        yield row.id, _Entry(tool, row.provider_id, sys.intern(row.stamp))
