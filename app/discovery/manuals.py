"""The manuals of this worker: rendered once for each provider and version, and again when that changes."""

import asyncio
from collections import OrderedDict
from typing import Any, Final
from uuid import UUID

from sqlalchemy import select
from sqlmodel import col

from app.catalog.feed import Change
from app.catalog.tools import is_enabled, tool_select, view
from app.database import Database
from app.discovery.shelves import Prepared, Representation, Shelf, Wanted, compose, prepare
from app.models import TENANT, Provider, Tool
from app.security.principal import Principal
from app.utcp.render import ManualVersion

# Tools rendered in one go of a thread.
_BATCH: Final = 100
_MOST_BYTES: Final = 128 << 20
_MOST_KEPT: Final = 64
# Below this, composing in a thread costs more than composing.
_SMALL: Final = 50


class Manuals:
    """Make it with the public address, and subscribe `on_changes` to the feed before that starts."""

    def __init__(self, database: Database, *, base_url: str) -> None:
        self._database = database
        self._base_url = base_url
        self._shelves: dict[tuple[UUID, ManualVersion], Shelf] = {}
        self._names: list[tuple[str, UUID]] | None = None
        self._kept: OrderedDict[Any, Representation] = OrderedDict()
        self._generation = 0
        self._touched: dict[UUID | None, int] = {}
        self._turn = asyncio.Lock()

    async def on_changes(self, changes: list[Change]) -> None:
        """Forgets what the changes touch; a subscriber of the feed."""
        relevant = [change for change in changes if change.kind in ("all", "provider", "tool")]
        if not relevant:
            return
        self._generation += 1
        self._kept.clear()
        self._names = None
        providers = {change.provider_id for change in relevant}
        if None in providers:
            self._shelves.clear()
        for provider in providers:
            self._touched[provider] = self._generation
        for key in [key for key in self._shelves if key[0] in providers]:
            del self._shelves[key]

    async def manual(
        self, wanted: Wanted, *, principal: Principal, compressed: bool = False
    ) -> Representation:
        """The manual of what the principal may call. Raises Unavailable."""
        key = (wanted.version, wanted.provider, wanted.tag, principal.providers, principal.tags)
        found = self._kept.get(key) if wanted.matching is None else None
        if found is None:
            generation = self._generation
            shelves = await self._read(wanted, principal)
            if sum(len(shelf.tools) for shelf in shelves) <= _SMALL:
                found = compose(shelves, wanted=wanted, principal=principal)
            else:
                found = await asyncio.to_thread(compose, shelves, wanted=wanted, principal=principal)
            if wanted.matching is None and generation == self._generation:
                self._keep(key, found)
        else:
            self._kept.move_to_end(key)
        if compressed and not found.is_compressed:
            await asyncio.to_thread(found.compressed)
        return found

    async def _read(self, wanted: Wanted, principal: Principal) -> list[Shelf]:
        """The shelves in question, by provider name; those that are missing are rendered."""
        async with self._turn:
            names = [
                (name, provider)
                for name, provider in await self._providers()
                if wanted.provider in (None, name)
                and (principal.providers is None or name in principal.providers)
            ]
            missing = {
                provider: name for name, provider in names if (provider, wanted.version) not in self._shelves
            }
            made = await self._render(missing, wanted.version) if missing else {}
            known = {provider: self._shelves.get((provider, wanted.version)) for _, provider in names}
        found = (made.get(provider) or known[provider] for _, provider in names)
        return [shelf for shelf in found if shelf is not None]

    async def _providers(self) -> list[tuple[str, UUID]]:
        if self._names is not None:
            return self._names
        generation = self._generation
        statement = select(col(Provider.name), col(Provider.id)).where(
            col(Provider.tenant_id) == TENANT, col(Provider.enabled)
        )
        async with self._database.reading() as session:
            names = sorted((row[0], row[1]) for row in (await session.execute(statement)).all())
        if generation == self._generation:
            self._names = names
        return names

    async def _render(self, providers: dict[UUID, str], version: ManualVersion) -> dict[UUID, Shelf]:
        generation = self._generation
        tools: dict[UUID, list[Prepared]] = {provider: [] for provider in providers}
        statement = tool_select().where(col(Tool.provider_id).in_(providers), is_enabled())
        async with self._database.reading() as session:
            stream = await session.stream(statement.execution_options(yield_per=_BATCH))
            async for rows in stream.partitions(_BATCH):
                views = [view(row) for row in rows]
                prepared = await asyncio.to_thread(prepare, views, version=version, base_url=self._base_url)
                owners = {tool.id: tool.provider_id for tool in views}
                for tool in prepared:
                    tools[owners[tool.tool_id]].append(tool)
        shelves = {
            provider: Shelf(providers[provider], tuple(sorted(found, key=lambda tool: tool.name)))
            for provider, found in tools.items()
        }
        everything = self._touched.get(None, 0)
        for provider, shelf in shelves.items():
            # What changed while it was being read may be old already: it is shown once, and not kept.
            if max(everything, self._touched.get(provider, 0)) <= generation:
                self._shelves[provider, version] = shelf
        return shelves

    def _keep(self, key: Any, representation: Representation) -> None:
        self._kept[key] = representation
        size = sum(kept.size for kept in self._kept.values())
        while len(self._kept) > 1 and (len(self._kept) > _MOST_KEPT or size > _MOST_BYTES):
            _, oldest = self._kept.popitem(last=False)
            size -= oldest.size
