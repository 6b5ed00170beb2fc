"""Reads tools and renders them for manuals: a provider's at first, later only those that have changed."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, func, select
from sqlmodel import col

from app.catalog.tools import is_enabled, stamp, tool_select, view
from app.database import Database
from app.discovery.shelves import Prepared, Shelf, prepare
from app.models import TENANT, Override, Provider, Tool
from app.utcp.render import ManualVersion

# Tools rendered in one go of a thread.
_BATCH: Final = 100
_STAMPS_AT_ONCE: Final = 1_000
# More tools than this are read as all of the provider.
_MOST_NAMED: Final = 1_000


def _stamp() -> ColumnElement[Any]:
    """Changes with what a manual shows of a tool: its version, the override's row, the provider's tags."""
    return stamp(col(Tool.version), func.array_to_string(col(Provider.tags), ","))


class Renderer:
    """Makes shelves, in threads and in small batches; `base_url` is where tools are called."""

    def __init__(self, database: Database, *, base_url: str, identity: str = "") -> None:
        self._database = database
        self._base_url = base_url
        self._identity = identity

    async def providers(self, names: dict[UUID, str], version: ManualVersion) -> dict[UUID, Shelf]:
        """The shelves of providers by id. Raises Unavailable."""
        found = await self._rendered(col(Tool.provider_id).in_(names), version)
        shelves: dict[UUID, list[Prepared]] = {provider: [] for provider in names}
        for tool in found:
            shelves[tool.provider_id].append(tool)
        return {
            provider: await asyncio.to_thread(_shelf, names[provider], tools)
            for provider, tools in shelves.items()
        }

    async def renewed(
        self, shelf: Shelf, key: tuple[UUID, ManualVersion], marked: Collection[UUID] | None
    ) -> Shelf:
        """The shelf with what has changed of the `marked` tools (None: of all); itself if nothing has.

        Raises Unavailable.
        """
        provider, version = key
        stamps = await self._stamps(provider, marked)
        kept, wanted = await asyncio.to_thread(_sorted_out, shelf, stamps, marked)
        made: list[Prepared] = []
        if len(wanted) > _MOST_NAMED:
            made = await self._rendered(col(Tool.provider_id) == provider, version, only=wanted)
        elif wanted:
            made = await self._rendered(col(Tool.id).in_(wanted), version)
        if not made and len(kept) == len(shelf.tools):
            return shelf
        return await asyncio.to_thread(_shelf, shelf.provider, [*kept, *made])

    async def _stamps(self, provider: UUID, marked: Collection[UUID] | None) -> dict[UUID, str]:
        statement = (
            select(col(Tool.id), _stamp())
            .select_from(Tool)
            .join(Provider, col(Provider.id) == col(Tool.provider_id))
            .outerjoin(Override, col(Override.tool_id) == col(Tool.id))
            .where(col(Tool.tenant_id) == TENANT, col(Tool.provider_id) == provider, is_enabled())
        )
        if marked is not None:
            statement = statement.where(col(Tool.id).in_(marked))
        stamps: dict[UUID, str] = {}
        async with self._database.reading() as session:
            stream = await session.stream(statement.execution_options(yield_per=_STAMPS_AT_ONCE))
            async for rows in stream.partitions(_STAMPS_AT_ONCE):
                stamps.update((row[0], row[1]) for row in rows)
        return stamps

    async def _rendered(
        self, where: ColumnElement[bool], version: ManualVersion, *, only: Collection[UUID] | None = None
    ) -> list[Prepared]:
        statement = tool_select().add_columns(_stamp()).where(where, is_enabled())
        made: list[Prepared] = []
        async with self._database.reading() as session:
            stream = await session.stream(statement.execution_options(yield_per=_BATCH))
            async for rows in stream.partitions(_BATCH):
                chosen = rows if only is None else [row for row in rows if row.id in only]
                made += await asyncio.to_thread(self._prepare, chosen, version)
        return made

    def _prepare(self, rows: Sequence[Any], version: ManualVersion) -> list[Prepared]:
        stamps = {row.id: row.stamp for row in rows}
        views = [view(row) for row in rows]
        return prepare(
            views, version=version, base_url=self._base_url, stamps=stamps, identity=self._identity
        )


def _sorted_out(
    shelf: Shelf, stamps: dict[UUID, str], marked: Collection[UUID] | None
) -> tuple[list[Prepared], set[UUID]]:
    """The tools of a shelf that stay as they are, and the ids of those to be rendered."""
    kept = [
        tool
        for tool in shelf.tools
        if (marked is not None and tool.tool_id not in marked) or stamps.get(tool.tool_id) == tool.stamp
    ]
    return kept, stamps.keys() - {tool.tool_id for tool in kept}


def _shelf(provider: str, tools: Iterable[Prepared]) -> Shelf:
    return Shelf(provider, tuple(sorted(tools, key=lambda tool: tool.name)))
