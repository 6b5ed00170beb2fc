"""The providers that are being imported for the first time, by background imports of any worker."""

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from sqlalchemy import select
from sqlmodel import col

from app.catalog.feed import ChangeNotice
from app.providers.registration.jobs import HEARTBEAT_TIMEOUT_SECONDS
from app.security.principal import Principal
from app.storage.database import Database
from app.storage.models import TENANT, ImportJobRow, Provider, now

_KINDS: Final = frozenset({"all", "import", "provider"})


class FirstImports:
    """Which providers are being imported, of the worker it belongs to.

    Nothing is read where no import has begun or ended since; while one runs, again after a while, because a
    worker that has ended does not say so. Pass changes of the feed to `on_changes`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._providers: tuple[tuple[str, tuple[str, ...]], ...] = ()
        self._read_until = 0.0
        self._is_stale = True

    def on_changes(self, changes: Sequence[ChangeNotice]) -> None:
        """Mark what was read as outdated where imports or providers have changed."""
        for change in changes:
            # A provider that is stored is imported no longer; where none is, it is no news.
            if change.kind in _KINDS and (change.kind != "provider" or self._providers):
                self._is_stale = True

    async def any_for(self, principal: Principal) -> bool:
        """Return whether one of them is a provider that the principal may use. Raises Unavailable."""
        if self._is_stale or (self._providers and time.monotonic() >= self._read_until):
            self._is_stale = False
            try:
                self._providers = await self._read()
            except BaseException:
                self._is_stale = True
                raise
            self._read_until = time.monotonic() + HEARTBEAT_TIMEOUT_SECONDS
        return any(principal.may_use(name, tags) for name, tags in self._providers)

    async def _read(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        alive_since = (now() - timedelta(seconds=HEARTBEAT_TIMEOUT_SECONDS)).isoformat()
        running = select(col(ImportJobRow.result)).where(
            col(ImportJobRow.state) == "running", col(ImportJobRow.tenant_id) == TENANT
        )
        async with self._database.read_session() as session:
            states = [state or {} for state in (await session.execute(running)).scalars()]
            providers = {
                one["name"]: tuple(one["tags"])
                for state in states
                if state.get("beat", "") >= alive_since
                for one in state.get("providers", ())
            }
            if not providers:
                return ()
            named = select(col(Provider.name)).where(col(Provider.name).in_(list(providers)))
            stored = set((await session.execute(named)).scalars())
        return tuple((name, tags) for name, tags in sorted(providers.items()) if name not in stored)
