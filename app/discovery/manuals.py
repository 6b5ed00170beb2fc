"""The manuals of this worker: each tool is rendered once for each version, and again when it has changed."""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import select
from sqlmodel import col

from app.catalog.feed import Change
from app.database import Database
from app.discovery.rendering import Renderer
from app.discovery.shelves import Representation, Shelf, Wanted, compose
from app.models import TENANT, Provider
from app.security.principal import Principal
from app.utcp.render import ManualVersion

_VERSIONS: Final[tuple[ManualVersion, ...]] = (0, 1)
_MOST_BYTES: Final = 128 << 20
_MOST_KEPT: Final = 64
# Of one provider; beyond these all of its tools are looked at.
_MOST_MARKED: Final = 1_000
# Below this, composing in a thread costs more than composing.
_SMALL: Final = 50

_Key = tuple[UUID, ManualVersion]


@dataclass(frozen=True, slots=True)
class _Kept:
    """A representation, what it was put together from, and when that was known to be current."""

    representation: Representation
    shelves: tuple[Shelf, ...]
    generation: int


class Manuals:
    """Make it with the public address and the gateway's identity, and subscribe `on_changes` to the feed
    before that starts.
    """

    def __init__(self, database: Database, *, base_url: str, identity: str = "") -> None:
        self._database = database
        self._renderer = Renderer(database, base_url=base_url, identity=identity)
        self._shelves: dict[_Key, Shelf] = {}
        self._stale: dict[_Key, set[UUID] | None] = {}
        """Tools that may have changed on a shelf; None: any."""
        self._at_work: set[_Key] = set()
        self._names: list[tuple[str, UUID]] | None = None
        self._kept: OrderedDict[Any, _Kept] = OrderedDict()
        self._generation = 0
        self._turn = asyncio.Lock()

    async def on_changes(self, changes: list[Change]) -> None:
        """Marks what the changes touch, to be looked at when next asked for; a subscriber of the feed."""
        relevant = [change for change in changes if change.kind in ("all", "provider", "tool")]
        if not relevant:
            return
        self._generation += 1
        self._names = None
        for change in relevant:
            if change.provider_id is None:
                self._stale = dict.fromkeys({*self._shelves, *self._at_work})
                return
            for version in _VERSIONS:
                self._mark((change.provider_id, version), change.tool_id)

    def _mark(self, key: _Key, tool: UUID | None) -> None:
        if key not in self._shelves and key not in self._at_work:
            return
        marked = self._stale.setdefault(key, set())
        if marked is not None and tool is not None and len(marked) < _MOST_MARKED:
            marked.add(tool)
        else:
            self._stale[key] = None

    async def manual(
        self, wanted: Wanted, *, principal: Principal, compressed: bool = False
    ) -> Representation:
        """The manual of what the principal may call. Raises Unavailable."""
        key = (wanted.version, wanted.provider, wanted.tag, principal.providers, principal.tags)
        kept = self._kept.get(key) if wanted.matching is None else None
        if kept is not None and kept.generation == self._generation:
            self._kept.move_to_end(key)
            found = kept.representation
        else:
            generation = self._generation
            shelves = await self._read(wanted, principal)
            if kept is not None and _same(kept.shelves, shelves):
                found = kept.representation
            elif sum(len(shelf.tools) for shelf in shelves) <= _SMALL:
                found = compose(shelves, wanted=wanted, principal=principal)
            else:
                found = await asyncio.to_thread(compose, shelves, wanted=wanted, principal=principal)
            if wanted.matching is None:
                self._keep(key, _Kept(found, shelves, generation))
        if compressed and not found.is_compressed:
            await asyncio.to_thread(found.compressed)
        return found

    async def _read(self, wanted: Wanted, principal: Principal) -> tuple[Shelf, ...]:
        """The shelves in question, by provider name; those that are missing or stale are rendered."""
        async with self._turn:
            names = {
                provider: name
                for name, provider in await self._providers()
                if wanted.provider in (None, name)
                and (principal.providers is None or name in principal.providers)
            }
            keys = [(provider, wanted.version) for provider in names]
            missing = [key for key in keys if key not in self._shelves]
            for key in keys:
                if key in self._stale and key in self._shelves:
                    await self._look_at(key)
            if missing:
                await self._fill(missing, names)
            return tuple(self._shelves[key] for key in keys if key in self._shelves)

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
            self._forget({provider for _, provider in names})
        return names

    def _forget(self, existing: Collection[UUID]) -> None:
        for key in [key for key in self._shelves if key[0] not in existing]:
            del self._shelves[key]
            self._stale.pop(key, None)

    async def _fill(self, keys: list[_Key], names: dict[UUID, str]) -> None:
        """Renders whole providers; what changes meanwhile stays marked, and is looked at again."""
        self._at_work.update(keys)
        try:
            version = keys[0][1]
            made = await self._renderer.providers({key[0]: names[key[0]] for key in keys}, version)
            self._shelves |= {(provider, version): shelf for provider, shelf in made.items()}
        finally:
            self._at_work.difference_update(keys)
            for key in keys:
                if key not in self._shelves:
                    self._stale.pop(key, None)

    async def _look_at(self, key: _Key) -> None:
        """Renders what has changed on a shelf; one on which nothing has stays the same object."""
        marked = self._stale.pop(key)
        try:
            self._shelves[key] = await self._renderer.renewed(self._shelves[key], key, marked)
        except BaseException:
            self._stale[key] = None
            raise

    def _keep(self, key: Any, kept: _Kept) -> None:
        self._kept[key] = kept
        self._kept.move_to_end(key)
        size = sum(kept.representation.size for kept in self._kept.values())
        while len(self._kept) > 1 and (len(self._kept) > _MOST_KEPT or size > _MOST_BYTES):
            _, oldest = self._kept.popitem(last=False)
            size -= oldest.representation.size


def _same(held: tuple[Shelf, ...], now: Iterable[Shelf]) -> bool:
    now = tuple(now)
    return len(held) == len(now) and all(one is other for one, other in zip(held, now, strict=True))
