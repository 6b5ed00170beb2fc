"""Reads tools and renders them for manuals: at first all of a provider, later only those that have
changed.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, func, select
from sqlmodel import col

from app.agents.utcp.provider_manuals import ProviderManual, RenderedTool, render_tools
from app.catalog.tools import is_enabled, tool_select, tool_view, version_stamp
from app.formats.utcp.render import ManualVersion
from app.storage.database import Database
from app.storage.models import TENANT, Override, Provider, Tool

# Tools rendered by one call in a thread.
_BATCH: Final = 100
_STAMPS_AT_ONCE: Final = 1_000
# Up to this many tools are read by id; for more, all tools of the provider are read.
_MAX_NAMED: Final = 1_000


def _stamp() -> ColumnElement[Any]:
    """Return a text that changes whenever a manual's entry of the tool may: with its version, its override,
    or its provider's tags.
    """
    return version_stamp(col(Tool.version), func.array_to_string(col(Provider.tags), ","))


class Renderer:
    """Renders provider manuals, in threads and small batches; `base_url` is where tools are called."""

    def __init__(self, database: Database, *, base_url: str, identity: str = "") -> None:
        self._database = database
        self._base_url = base_url
        self._identity = identity

    async def providers(self, names: dict[UUID, str], version: ManualVersion) -> dict[UUID, ProviderManual]:
        """Return the rendered manuals of providers by id; `names` maps ids to names. Raises Unavailable."""
        found = await self._rendered(col(Tool.provider_id).in_(names), version)
        provider_manuals: dict[UUID, list[RenderedTool]] = {provider: [] for provider in names}
        for tool in found:
            provider_manuals[tool.provider_id].append(tool)
        return {
            provider: await asyncio.to_thread(_provider_manual, names[provider], tools)
            for provider, tools in provider_manuals.items()
        }

    async def refreshed(
        self,
        provider_manual: ProviderManual,
        key: tuple[UUID, ManualVersion],
        marked: Collection[UUID] | None,
    ) -> ProviderManual:
        """Return the provider manual with those of the `marked` tools (None: of all tools) rendered again
        that have changed; the same object where none has. Raises Unavailable.
        """
        provider, version = key
        stamps = await self._stamps(provider, marked)
        unchanged, changed = await asyncio.to_thread(_partition, provider_manual, stamps, marked)
        rendered: list[RenderedTool] = []
        if len(changed) > _MAX_NAMED:
            rendered = await self._rendered(col(Tool.provider_id) == provider, version, only=changed)
        elif changed:
            rendered = await self._rendered(col(Tool.id).in_(changed), version)
        if not rendered and len(unchanged) == len(provider_manual.tools):
            return provider_manual
        return await asyncio.to_thread(_provider_manual, provider_manual.provider, [*unchanged, *rendered])

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
        async with self._database.read_session() as session:
            stream = await session.stream(statement.execution_options(yield_per=_STAMPS_AT_ONCE))
            async for rows in stream.partitions(_STAMPS_AT_ONCE):
                stamps.update((row[0], row[1]) for row in rows)
        return stamps

    async def _rendered(
        self, where: ColumnElement[bool], version: ManualVersion, *, only: Collection[UUID] | None = None
    ) -> list[RenderedTool]:
        statement = tool_select().add_columns(_stamp()).where(where, is_enabled())
        rendered: list[RenderedTool] = []
        async with self._database.read_session() as session:
            stream = await session.stream(statement.execution_options(yield_per=_BATCH))
            async for rows in stream.partitions(_BATCH):
                chosen = rows if only is None else [row for row in rows if row.id in only]
                rendered += await asyncio.to_thread(self._render, chosen, version)
        return rendered

    def _render(self, rows: Sequence[Any], version: ManualVersion) -> list[RenderedTool]:
        stamps = {row.id: row.stamp for row in rows}
        views = [tool_view(row) for row in rows]
        return render_tools(
            views, version=version, base_url=self._base_url, stamps=stamps, identity=self._identity
        )


def _partition(
    provider_manual: ProviderManual, stamps: dict[UUID, str], marked: Collection[UUID] | None
) -> tuple[list[RenderedTool], set[UUID]]:
    """Return the tools of a provider manual that are unchanged, and the ids of those to be rendered."""
    unchanged = [
        tool
        for tool in provider_manual.tools
        if (marked is not None and tool.tool_id not in marked) or stamps.get(tool.tool_id) == tool.stamp
    ]
    return unchanged, stamps.keys() - {tool.tool_id for tool in unchanged}


def _provider_manual(provider: str, tools: Iterable[RenderedTool]) -> ProviderManual:
    return ProviderManual(provider, tuple(sorted(tools, key=lambda tool: tool.name)))
