"""The manuals of this worker: each tool is rendered once per UTCP version, and again when it has changed."""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import select
from sqlmodel import col

from app.agents.utcp.provider_manuals import ManualSelection, ProviderManual, Representation, compose
from app.agents.utcp.rendering import Renderer
from app.catalog.feed import ChangeNotice
from app.formats.utcp.render import ManualVersion
from app.security.principal import Principal
from app.storage.database import Database
from app.storage.models import TENANT, Provider

_VERSIONS: Final[tuple[ManualVersion, ...]] = (0, 1)
_MAX_CACHE_BYTES: Final = 128 << 20
_MAX_CACHED: Final = 64
# Changed tools recorded per provider; beyond this number all tools of the provider are checked.
_MAX_MARKED: Final = 1_000
# Below this, composing in a thread costs more than composing.
_COMPOSE_INLINE_MAX: Final = 50

_Key = tuple[UUID, ManualVersion]


@dataclass(frozen=True, slots=True)
class _CachedManual:
    """A manual, the provider manuals it was composed of, and the generation at which these were current."""

    representation: Representation
    provider_manuals: tuple[ProviderManual, ...]
    generation: int


class Manuals:
    """Composes and caches manuals of what a principal may call.

    `base_url` is the gateway's public address; `identity` names this gateway in call templates, which
    prevents call loops between gateways. Subscribe `on_changes` to the change feed before the feed
    starts.
    """

    def __init__(self, database: Database, *, base_url: str, identity: str = "") -> None:
        self._database = database
        self._renderer = Renderer(database, base_url=base_url, identity=identity)
        self._provider_manuals: dict[_Key, ProviderManual] = {}
        self._stale: dict[_Key, set[UUID] | None] = {}
        """Tools of a provider manual that may have changed; None: any of them."""
        self._rendering: set[_Key] = set()
        self._names: list[tuple[str, UUID]] | None = None
        self._cache: OrderedDict[Any, _CachedManual] = OrderedDict()
        self._generation = 0
        self._lock = asyncio.Lock()

    async def on_changes(self, changes: list[ChangeNotice]) -> None:
        """Mark what the changes affect, to be rendered again at the next request; a subscriber of the
        feed.
        """
        relevant = [change for change in changes if change.kind in ("all", "provider", "tool")]
        if not relevant:
            return
        self._generation += 1
        self._names = None
        for change in relevant:
            if change.provider_id is None:
                self._stale = dict.fromkeys({*self._provider_manuals, *self._rendering})
                return
            for version in _VERSIONS:
                self._mark((change.provider_id, version), change.tool_id)

    def _mark(self, key: _Key, tool: UUID | None) -> None:
        if key not in self._provider_manuals and key not in self._rendering:
            return
        marked = self._stale.setdefault(key, set())
        if marked is not None and tool is not None and len(marked) < _MAX_MARKED:
            marked.add(tool)
        else:
            self._stale[key] = None

    async def manual(
        self, selection: ManualSelection, *, principal: Principal, compressed: bool = False
    ) -> Representation:
        """Return the manual of the selected tools that the principal may call; with `compressed`, make sure
        that its gzip form is computed. Raises Unavailable.
        """
        chosen = (selection.version, selection.provider, selection.tag, selection.streaming)
        key = (*chosen, principal.providers, principal.tags)
        cached = self._cache.get(key) if selection.matching is None else None
        if cached is not None and cached.generation == self._generation:
            self._cache.move_to_end(key)
            found = cached.representation
        else:
            generation = self._generation
            provider_manuals = await self._read(selection, principal)
            if cached is not None and _same(cached.provider_manuals, provider_manuals):
                found = cached.representation
            elif (
                sum(len(provider_manual.tools) for provider_manual in provider_manuals) <= _COMPOSE_INLINE_MAX
            ):
                found = compose(provider_manuals, selection=selection, principal=principal)
            else:
                found = await asyncio.to_thread(
                    compose, provider_manuals, selection=selection, principal=principal
                )
            if selection.matching is None:
                self._store(key, _CachedManual(found, provider_manuals, generation))
        if compressed and not found.is_compressed:
            await asyncio.to_thread(found.compressed)
        return found

    async def _read(self, selection: ManualSelection, principal: Principal) -> tuple[ProviderManual, ...]:
        """Return the selected provider manuals, by provider name; render those that are missing or stale."""
        async with self._lock:
            names = {
                provider: name
                for name, provider in await self._providers()
                if selection.provider in (None, name)
                and (principal.providers is None or name in principal.providers)
            }
            keys = [(provider, selection.version) for provider in names]
            missing = [key for key in keys if key not in self._provider_manuals]
            for key in keys:
                if key in self._stale and key in self._provider_manuals:
                    await self._refresh(key)
            if missing:
                await self._fill(missing, names)
            return tuple(self._provider_manuals[key] for key in keys if key in self._provider_manuals)

    async def _providers(self) -> list[tuple[str, UUID]]:
        if self._names is not None:
            return self._names
        generation = self._generation
        statement = select(col(Provider.name), col(Provider.id)).where(
            col(Provider.tenant_id) == TENANT, col(Provider.enabled)
        )
        async with self._database.read_session() as session:
            names = sorted((row[0], row[1]) for row in (await session.execute(statement)).all())
        if generation == self._generation:
            self._names = names
            self._forget({provider for _, provider in names})
        return names

    def _forget(self, existing: Collection[UUID]) -> None:
        for key in [key for key in self._provider_manuals if key[0] not in existing]:
            del self._provider_manuals[key]
            self._stale.pop(key, None)

    async def _fill(self, keys: list[_Key], names: dict[UUID, str]) -> None:
        """Render all tools of some providers; tools that change meanwhile stay marked and are rendered
        again.
        """
        self._rendering.update(keys)
        try:
            version = keys[0][1]
            made = await self._renderer.providers({key[0]: names[key[0]] for key in keys}, version)
            self._provider_manuals |= {
                (provider, version): provider_manual for provider, provider_manual in made.items()
            }
        finally:
            self._rendering.difference_update(keys)
            for key in keys:
                if key not in self._provider_manuals:
                    self._stale.pop(key, None)

    async def _refresh(self, key: _Key) -> None:
        """Render what has changed in a provider manual; where nothing has, it stays the same object."""
        marked = self._stale.pop(key)
        try:
            self._provider_manuals[key] = await self._renderer.refreshed(
                self._provider_manuals[key], key, marked
            )
        except BaseException:
            self._stale[key] = None
            raise

    def _store(self, key: Any, cached: _CachedManual) -> None:
        self._cache[key] = cached
        self._cache.move_to_end(key)
        size = sum(cached.representation.size for cached in self._cache.values())
        while len(self._cache) > 1 and (len(self._cache) > _MAX_CACHED or size > _MAX_CACHE_BYTES):
            _, oldest = self._cache.popitem(last=False)
            size -= oldest.representation.size


def _same(before: tuple[ProviderManual, ...], after: Iterable[ProviderManual]) -> bool:
    after = tuple(after)
    return len(before) == len(after) and all(one is other for one, other in zip(before, after, strict=True))
