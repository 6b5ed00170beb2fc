"""The toolsets in the memory of a worker, read again when the change feed names one."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final
from uuid import UUID

from sqlalchemy import select
from sqlmodel import col

from app.catalog.feed import ChangeNotice
from app.storage.database import Database
from app.storage.models import TENANT, ToolsetRow
from app.toolsets.definition import StoredDefinition
from app.toolsets.directory import Snapshot
from app.toolsets.members import Members, resolve_members

_INLINE_MAX: Final = 200


@dataclass(slots=True)
class Toolset:
    """A stored toolset, and its members at the last snapshot for which they were resolved."""

    id: UUID
    name: str
    title: str
    description: str
    version: int
    definition: StoredDefinition = field(repr=False)
    _snapshot: Snapshot | None = field(default=None, repr=False)
    _members: Members | None = field(default=None, repr=False)

    @classmethod
    def of(cls, row: ToolsetRow) -> "Toolset":
        """Return a stored row as a toolset."""
        definition = StoredDefinition.model_validate(row.definition)
        return cls(row.id, row.name, row.title, row.description, row.version, definition)

    async def members(self, snapshot: Snapshot) -> Members:
        """Return the members among the tools of a snapshot."""
        if self._members is None or self._snapshot is not snapshot:
            if len(snapshot.tools) <= _INLINE_MAX:
                members = resolve_members(self.definition, snapshot)
            else:
                members = await asyncio.to_thread(resolve_members, self.definition, snapshot)
            self._snapshot, self._members = snapshot, members
            return members
        return self._members


class ToolsetStore:
    """The toolsets of this worker. Subscribe `on_changes` to the change feed before the feed starts."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._toolsets: Mapping[str, Toolset] = MappingProxyType({})
        self._stale = True
        self._lock = asyncio.Lock()

    async def on_changes(self, changes: Sequence[ChangeNotice]) -> None:
        """Mark the toolsets to be read again; a subscriber of the feed."""
        if any(change.kind in ("all", "toolset") for change in changes):
            self._stale = True

    async def all(self) -> Mapping[str, Toolset]:
        """Return all toolsets by name, as they are now. Raises Unavailable."""
        # What another request is reading is neither stale nor here yet.
        if not self._stale and not self._lock.locked():
            return self._toolsets
        async with self._lock:
            while self._stale:
                self._stale = False
                try:
                    await self._read()
                except BaseException:
                    self._stale = True
                    raise
            return self._toolsets

    async def _read(self) -> None:
        statement = select(ToolsetRow).where(col(ToolsetRow.tenant_id) == TENANT)
        async with self._database.read_session() as session:
            rows = (await session.execute(statement)).scalars().all()
        before = {one.id: one for one in self._toolsets.values()}
        toolsets = {}
        for row in rows:
            known = before.get(row.id)
            # One that has not changed keeps its members.
            toolsets[row.name] = known if known and known.version == row.version else Toolset.of(row)
        self._toolsets = MappingProxyType(toolsets)
