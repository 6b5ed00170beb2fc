"""The conditions of all tools, in the memory of a worker: their health, and whether credentials are missing.

A search reads them without SQL. While searches arrive they are read anew in the background: the health at
most every 30 seconds, the credentials then too, and after the change feed has told of a change to them.
"""

import asyncio
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from app.calls.stats.tool_health import ToolHealth, read_recent_health
from app.catalog.feed import ChangeNotice
from app.core.background import cancel_tasks
from app.core.errors import Unavailable
from app.search.conditions.stored_credentials import StoredCredentials, read_stored_credentials
from app.security.requirements import SlotAlternatives
from app.storage.database import Database

REFRESH_SECONDS: Final = 30.0
"""Seconds between two refreshes of everything."""
CREDENTIAL_SECONDS: Final = 1.0
"""Seconds between two refreshes of the credentials, after changes to them."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ToolCondition:
    """The condition of a tool. `health` is None where it had too few calls in the last hour;
    `missing_credential` is None where it is not known.
    """

    health: ToolHealth | None = None
    missing_credential: bool | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the members as JSON values."""
        return {
            "health": None if self.health is None else self.health.as_json(),
            "missing_credential": self.missing_credential,
        }


class ToolConditions:
    """The conditions as this worker knows them. Subscribe `on_changes` to the change feed, then `start()`.

    `environment` are the names of environment variables that credentials may name.
    """

    def __init__(
        self,
        database: Database,
        *,
        environment: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._environment = environment
        self._clock = clock
        self._health: Mapping[str, ToolHealth] = {}
        self._stored = StoredCredentials()
        self._unknown: frozenset[str] | None = None
        """Providers whose credentials may have changed since they were read; None: all."""
        self._changes = 0
        """Number of changes to credentials that the feed has told of."""
        self._read_changes = -1
        """How many of these were there when the credentials were read."""
        self._refreshed_at = -REFRESH_SECONDS
        self._credentials_at = -CREDENTIAL_SECONDS
        self._tasks: list[asyncio.Task[None]] = []
        self.refreshes = 0
        """Number of refreshes so far."""

    async def start(self) -> None:
        """Read the conditions in the background; until then they are not known."""
        self.refresh_if_due()

    async def aclose(self) -> None:
        """End a refresh that is under way."""
        await cancel_tasks(self._tasks)

    async def wait(self) -> None:
        """Wait for the end of a refresh that is running in the background."""
        await asyncio.gather(*self._tasks)

    def of(self, tool: str, *, provider: str, slots: SlotAlternatives) -> ToolCondition:
        """Return the condition of a tool by its canonical name; `slots` are those that its calls need."""
        return ToolCondition(self._health.get(tool), self._is_missing(provider, slots))

    def refresh_if_due(self) -> None:
        """Begin a refresh in the background where one is due and none is running; each search calls this."""
        if any(not task.done() for task in self._tasks) or not self._is_due():
            return
        self._tasks = [asyncio.create_task(self._try_refresh(), name="tool-conditions")]

    async def refresh(self, *, force: bool = False) -> None:
        """Read the credentials, and the health where it is due or with `force`; raise Unavailable without
        PostgreSQL.
        """
        now = self._clock()
        changes, self._credentials_at = self._changes, now
        everything = force or now - self._refreshed_at >= REFRESH_SECONDS
        if everything:
            self._refreshed_at = now
        async with self._database.read_session() as session:
            stored = await self.read_stored(session)
            health = await read_recent_health(session) if everything else self._health
        self._stored, self._health = stored, health
        self._read_changes = changes
        if changes == self._changes:
            self._unknown = frozenset()
        self.refreshes += 1

    async def read_stored(self, session: AsyncSession) -> StoredCredentials:
        """Return the slots that hold a credential now, as the database has them; raise Unavailable without
        PostgreSQL.
        """
        environment = {name: "" for name in self._environment if os.environ.get(name)}
        return await read_stored_credentials(session, environment=environment)

    async def on_changes(self, changes: Sequence[ChangeNotice]) -> None:
        """Forget the credentials that changes affect, until they are read anew; a subscriber of the feed."""
        relevant = [one for one in changes if one.kind in ("all", "provider", "credential", "variable")]
        if not relevant:
            return
        self._changes += len(relevant)
        names = {self._stored.providers.get(one.provider_id) for one in relevant if one.provider_id}
        if any(one.provider_id is None for one in relevant):
            self._unknown = None
        elif self._unknown is not None:
            # A provider that is not known yet has no credentials here that could be outdated.
            self._unknown |= {name for name in names if name is not None}

    def _is_due(self) -> bool:
        now = self._clock()
        if now - self._refreshed_at >= REFRESH_SECONDS:
            return True
        return self._read_changes != self._changes and now - self._credentials_at >= CREDENTIAL_SECONDS

    async def _try_refresh(self) -> None:
        try:
            await self.refresh()
        except Unavailable:
            _log.warning("the conditions of tools are not read: the database is not available")
        except Exception:  # noqa: BLE001 - searches work without, and the next one tries again.
            _log.exception("the conditions of tools could not be read")

    def _is_missing(self, provider: str, slots: SlotAlternatives) -> bool | None:
        if not slots:
            return False
        stored = self._stored.slots.get(provider)
        if stored is None or self._unknown is None or provider in self._unknown:
            return None
        return not any(stored.issuperset(alternative) for alternative in slots)
