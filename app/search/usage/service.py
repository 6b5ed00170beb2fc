"""What is learned from use, in one worker: it notes searches, matches them with calls, and gives their
priors.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import structlog

from app.catalog.feed import ChangeNotice, record_change
from app.core.background import LoopMessages, cancel_tasks, run_periodically
from app.core.errors import Unavailable
from app.core.settings.search_usage import UsageMode
from app.core.uuid7 import uuid7
from app.search.signals import SearchScope
from app.search.usage.counts import UsageCounts
from app.search.usage.digests import UsageDigests
from app.search.usage.observed import MAX_STEMS, ObservedSearch, SearchQueue
from app.search.usage.store import (
    FOLLOW_MINUTES,
    FORGOTTEN,
    UsageLimits,
    delete_of_lost_keys,
    delete_old,
    has_key_beyond,
    lock_state,
    match_calls,
    read_labels,
    read_rotated_keys,
    store_searches,
)
from app.security.masking import Masker
from app.security.principal import Principal
from app.security.vault import Vault
from app.storage.database import Database
from app.storage.models import now

_KEY_SHARE: Final = 20
_SLACK: Final = 2
"""With so many times its share of the counts, those of a key are deleted at once, not only every hour."""
_MAX_QUERY: Final = 2_000
_RELOAD: Final = timedelta(hours=1)
_MAINTAIN: Final = timedelta(hours=1)
# So long after its last search a worker looks for calls that follow.
_MATCHES_FOR: Final = timedelta(minutes=FOLLOW_MINUTES + 6)
_LEARNING: Final = LoopMessages(
    unavailable="searches are matched with calls later: the database is unavailable",
    failed="searches could not be matched with calls",
)
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class UsageOptions:
    """The settings SEARCH_USAGE*. `max_counts` is how many counts are stored, and are in memory."""

    mode: UsageMode = "key"
    seconds: float = 10.0
    half_life_days: float = 30.0
    retention_days: int = 90
    max_counts: int = 100_000
    stores_queries: bool = False


class SearchUsage:
    """Learns from use; one instance per worker, a `UsagePrior`. Subscribe `on_changes` to the change feed.

    With the mode `off` it stores and returns nothing.
    """

    def __init__(self, database: Database, vault: Vault, masker: Masker, *, options: UsageOptions) -> None:
        self.database = database
        self.options = options
        self.digests = UsageDigests(vault)
        self.searches = SearchQueue()
        self._masker = masker
        self._counts = self._create_counts()
        self._rotated: Mapping[str, str] = {}
        self._last_search: datetime | None = None
        self._read_until: datetime | None = None
        self._must_reload = True
        """Whether all is read next time, because something was deleted."""
        self._reload_at = now()
        self._maintain_at = now()
        self._keys_changed = self._may_have_lost_keys = True
        self._lock = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_on(self) -> bool:
        """Whether anything is learned and used."""
        return self.options.mode != "off"

    @property
    def stems(self) -> int:
        """The number of stems in memory."""
        return len(self._counts)

    async def start(self) -> None:
        """Start the task that matches searches with calls, and reads what was learned. With the mode `off` it
        only deletes what was learned before and is not retained any longer.
        """
        interval = self.options.seconds if self.is_on else _MAINTAIN.total_seconds()
        learning = run_periodically(self.learn, interval=interval, messages=_LEARNING, run_immediately=True)
        self._tasks.append(asyncio.create_task(learning, name="search-usage"))

    async def aclose(self) -> None:
        """Stop the task, and store the searches that wait."""
        await cancel_tasks(self._tasks)
        searches = len(self.searches)
        try:
            await self._store_searches()
        except Unavailable:
            _log.warning("searches were not stored: the database is unavailable", searches=searches)

    def on_search(self, principal: Principal, text: str, stems: Sequence[str], tools: Sequence[UUID]) -> None:
        """Note a search (`app.search.OnSearch`): that takes microseconds. Those of anonymous readers, and of
        keys whose calls do not reach their upstreams, are not noted.
        """
        upstream = principal.upstream
        if self.is_on and not principal.anonymous and (upstream is None or not upstream.is_offline):
            self.searches.add(principal, text, stems, tools)

    def get_priors(self, stems: Sequence[str], scope: SearchScope) -> Mapping[UUID, float]:
        """Return the prior of each tool that was called after searches for such stems (`UsagePrior`)."""
        counts = self._counts
        if not len(counts):
            return {}
        owner = self.digests.digest_key(self.get_owner(scope.key_id), scope.tenant_id)
        return counts.get_priors(self.digests.digest_stems(stems[:MAX_STEMS], scope.tenant_id), owner)

    def get_owner(self, key_id: str) -> str:
        """Return the first key of the chain of rotations of a key, under which its labels are stored."""
        return self._rotated.get(key_id, key_id)

    async def on_changes(self, changes: Sequence[ChangeNotice]) -> None:
        """Read everything again after a deletion; a subscriber of the feed."""
        if any(change.kind in ("all", "key") for change in changes):
            # Perhaps one was revoked, or has a successor.
            self._keys_changed = self._may_have_lost_keys = True
        deletions = [change for change in changes if change.kind in ("all", "search-usage")]
        if any(change.object_id == FORGOTTEN for change in deletions):
            self.searches.take()
        if deletions and self.is_on:
            # A reload that is running may have read what is deleted, and sets the time of the next one.
            self._must_reload = True
            await self.refresh()

    async def learn(self) -> None:
        """Store the searches that wait, match searches with calls, and read what is new; raise
        Unavailable.
        """
        await self._store_searches()
        await self._match()
        if self.is_on:
            await self.refresh()

    async def refresh(self) -> None:
        """Read what was learned since the last time, or all of it once an hour and after deletions."""
        async with self._lock:
            everything = self._must_reload or now() >= self._reload_at
            self._must_reload = False
            keys_changed, self._keys_changed = self._keys_changed, False
            try:
                async with self.database.read_session() as session:
                    since = None if everything else self._read_until
                    counts, until = await read_labels(session, since=since, most=self.options.max_counts)
                    if keys_changed:
                        self._rotated = await read_rotated_keys(session)
            except BaseException:
                self._keys_changed = self._keys_changed or keys_changed
                self._must_reload = self._must_reload or everything
                raise
            if everything:
                fresh = self._create_counts()
                await asyncio.to_thread(fresh.merge, counts)
                self._counts = fresh
                self._reload_at = now() + _RELOAD
            elif counts:
                await asyncio.to_thread(self._counts.merge, counts)
            self._read_until = until

    async def _store_searches(self) -> None:
        taken = self.searches.take()
        if not taken:
            return
        self._last_search = now()
        searches, queries = await asyncio.to_thread(self._build_rows, taken)
        async with self.database.transaction() as session:
            await store_searches(session, searches, queries)

    def _build_rows(
        self, taken: Sequence[ObservedSearch]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        searches, queries = [], []
        for observed in taken:
            principal = observed.principal
            members = {
                "id": uuid7(),
                "tenant_id": principal.tenant_id,
                "key_id": principal.key_id,
                "tools": list(observed.tools),
                "called": [],
                "at": observed.at,
            }
            searches.append(
                members | {"stems": self.digests.digest_stems(observed.stems, principal.tenant_id)}
            )
            if self.options.stores_queries:
                # PostgreSQL has no NUL characters and no lone surrogates.
                text = observed.text.encode("utf-8", "replace").decode().replace("\0", "")
                masked = self._masker.mask(text)[:_MAX_QUERY]
                queries.append(members | {"query": masked, "toolset": principal.toolset or ""})
        return searches, queries

    async def _match(self) -> None:
        """Match searches with calls where this worker has had searches lately, and delete what is too old."""
        searched = self._last_search is not None and self._last_search > now() - _MATCHES_FOR
        maintains = now() >= self._maintain_at
        if not (searched or maintains or self._may_have_lost_keys):
            return
        deleted = 0
        async with self.database.transaction() as session:
            state = await lock_state(session)
            if state is None:
                return
            if self.is_on and await match_calls(
                session, state, self.digests, half_life_days=self.options.half_life_days
            ):
                # A key with very many searches does not fill the table until the next hour.
                most = _SLACK * self._limits.most_of_key
                maintains = maintains or await has_key_beyond(session, state, most=most)
            if maintains:
                deleted += await delete_old(session, self._limits)
            if maintains or self._may_have_lost_keys:
                deleted += await delete_of_lost_keys(session, self.digests)
            if deleted:
                await record_change(session, kind="search-usage")
        self._may_have_lost_keys = False
        if maintains:
            self._maintain_at = now() + _MAINTAIN

    @property
    def _limits(self) -> UsageLimits:
        most = self.options.max_counts
        return UsageLimits(self.options.retention_days, most, max(1, most // _KEY_SHARE))

    def _create_counts(self) -> UsageCounts:
        return UsageCounts(
            half_life_days=self.options.half_life_days, across_keys=self.options.mode == "tenant"
        )
