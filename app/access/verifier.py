"""Verifying API keys: a bounded cache of digests in front of the table of keys.

A hit is synchronous and costs a few microseconds: one keyed BLAKE2 of what was shown, under a key of this
process, is compared with that of the text which had the stored digest (an HMAC by OpenSSL takes five times
as long). Neither the text nor anything that another process could use is kept. An entry is fresh for
`cache_seconds`; after that it is read again. While PostgreSQL is away it is believed up to `stale_seconds`
since it was last read. The change feed drops what was revoked.

A miss is looked up (`lookups`). Ids that exist, as far as `key_ids` knows, go before those of strangers; an
address that showed too many keys which are not valid (`failures`) has strangers looked up no more:

    cached                                         --> no look-up
    id exists                                      --> look-up before all strangers
    unknown, address within its limit              --> look-up that may have to wait
    unknown, address beyond its limit              --> 401 with Retry-After, after a moment in which the
                                                       change feed is read: a new key is looked up after all

Only what PostgreSQL itself did, or did not do with a statement that was sent, is taken for its absence; how
long something waited in this process is not.
"""

import asyncio
import contextlib
import hmac
import math
import os
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b

import structlog

from app.access.failures import FailureLimit
from app.access.key_ids import KeyIds
from app.access.lookups import KeyLookups, Lane, LookupTimeout
from app.access.repository import page_of_ids, touch
from app.background import Reports, end_tasks, repeat
from app.catalog.feed import Change, Feed
from app.database import Database, PoolBusy
from app.errors import Overloaded, Unauthenticated, Unavailable
from app.models import Key
from app.security.keys import ID_PLACE, KEY_LENGTH, digest, parse
from app.security.principal import Principal
from app.security.rate_limit import RateLimit
from app.security.vault import Vault

_log = structlog.get_logger(__name__)

_CAPACITY = 10_000
_MISSING_SECONDS = 10.0
_PROBE_SECONDS = 1.0
# Longer than a look-up takes to find out that PostgreSQL is away.
_LOOKUP_SECONDS = 5.0
_CLOSE_SECONDS = 3.0
_PAGE_OF_IDS = 5_000
_RELOAD_SECONDS = 1.0
# How long an address beyond its limit waits for each 401: so many of them a second, at most, whatever the
# number of its connections.
_DELAY_SECONDS = 0.5
# Of these, how long it waits to be told of the key before the changes are read: at most five times a second.
_TOLD_SECONDS = 0.2
_DELAYED_A_SECOND = 500
_MAX_DELAYED = 2_000
_FLUSH_SECONDS = 60.0
_FLUSHING = Reports(
    away="when keys were last used is written later: the database is away",
    failed="when keys were last used could not be written",
)
_LOADING = Reports(
    away="the ids of keys are read later: the database is away",
    failed="the ids of keys could not be read",
)
_NOBODY = bytes(32)
_NOT_VALID = "The API key is not valid."
_TOO_MANY = "The API key is not valid, and too many such keys came from your address."


@dataclass(slots=True)
class _Known:
    principal: Principal
    digest: bytes = field(repr=False)
    expires_at: float
    """Seconds since the epoch; infinity for a key that does not expire."""
    read_at: float
    """Monotonic."""
    passed: bytes = field(default=b"", repr=False)
    """This process's own fingerprint of the text that was found to have the digest."""


class KeyVerifier:
    """Turns the text of an API key into its principal. One per worker."""

    def __init__(
        self,
        database: Database,
        vault: Vault,
        *,
        cache_seconds: float = 60.0,
        stale_seconds: float = 900.0,
        capacity: int = _CAPACITY,
        rate: RateLimit | None = None,
        failures: RateLimit | None = None,
        feed: Feed | None = None,
    ) -> None:
        self._database = database
        self._vault = vault
        self._feed = feed
        self._rate = rate
        self._failures = FailureLimit(failures)
        self._cache_seconds = cache_seconds
        self._stale_seconds = stale_seconds
        self._capacity = capacity
        self._fingerprints = os.urandom(32)
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._missing: OrderedDict[str, float] = OrderedDict()
        self._reads: dict[str, asyncio.Task[_Known | None]] = {}
        self._all_reads: set[asyncio.Task[_Known | None]] = set()
        self._lookups = KeyLookups(database)
        self._ids = KeyIds()
        self._loading: list[asyncio.Task[None]] = []
        self._delayed = 0
        self._expected: dict[str, asyncio.Event] = {}
        self._feed_read_at = 0.0
        self._feed_turn = asyncio.Lock()
        self._generation = 0
        self._away = False
        self._probe_at = 0.0
        self._used: dict[str, float] = {}
        self._flusher: asyncio.Task[None] | None = None
        self.hits = 0
        """Requests whose key was remembered, since the start."""
        self.misses = 0
        """Requests whose key was not."""
        self.rejected = 0
        """Requests with a key that is not valid, from an address that had shown too many of them before."""
        self.unverified_calls = 0
        """Calls under way whose key is being looked up: nobody knows yet whose they are."""

    def __len__(self) -> int:
        """Keys that are remembered."""
        return len(self._known)

    def verify_cached(self, text: str) -> Principal | None:
        """The principal if the key is remembered, right and not expired; None means: ask `verify`."""
        known = self._known.get(text[ID_PLACE])
        if known is None or len(text) != KEY_LENGTH:
            return None
        if not self._is_usable(known, time.monotonic()):
            return None
        if not self._is_right(known, text):
            return None
        at = time.time()
        if at >= known.expires_at:
            return None
        key_id = known.principal.key_id
        self._known.move_to_end(key_id)
        self._used[key_id] = at
        self.hits += 1
        return known.principal

    async def verify(self, text: str, *, host: str = "", is_call: bool = False) -> Principal:
        """The principal of a key; `host` is the client's address, `is_call` says that it calls a tool.

        Raises `Unauthenticated` for a key that is malformed, unknown, revoked or expired, with Retry-After
        where too many such keys came from the same address; `Unavailable` when it is not remembered and
        PostgreSQL is away, `Overloaded` when it could not be looked up in time.
        """
        principal = self.verify_cached(text)
        if principal is not None:
            return principal
        self.misses += 1
        parts = parse(text)
        if parts is None:
            raise Unauthenticated(_NOT_VALID)
        self.unverified_calls += is_call
        try:
            return await self._verified(text, parts.key_id, host)
        finally:
            self.unverified_calls -= is_call

    async def _verified(self, text: str, key_id: str, host: str) -> Principal:
        is_counted, known = await self._find(key_id, host)
        shown = digest(text, vault=self._vault)
        # Compared where there is no such key, too: the time must not tell which ids exist.
        right = hmac.compare_digest(_NOBODY if known is None else known.digest, shown)
        if known is None or not right:
            if not is_counted and not self._failures.take(host):
                await self._delay(key_id, self._penalty())
                raise self._too_many(host)
            raise Unauthenticated(_NOT_VALID)
        if is_counted:
            self._failures.give_back(host)
        at = time.time()
        if at >= known.expires_at:
            raise Unauthenticated("The API key has expired.")
        self._used[key_id] = at
        return known.principal

    async def on_changes(self, changes: list[Change]) -> None:
        """Forgets the keys that changed, and knows the ids of new ones; a subscriber of the change feed."""
        for change in changes:
            if change.kind == "all":
                self._known.clear()
                self._missing.clear()
                self._reads.clear()
                self._reload_ids()
            elif change.kind == "key":
                self._known.pop(change.object_id, None)
                self._missing.pop(change.object_id, None)
                self._reads.pop(change.object_id, None)
                self._ids.add(change.object_id)
                self._lookups.promote(change.object_id)
                if change.object_id in self._expected:
                    self._expected[change.object_id].set()
            else:
                continue
            # What is being read right now may have been read before the change: it is not remembered, and who
            # comes from now on reads anew.
            self._generation += 1

    @property
    def lookups(self) -> KeyLookups:
        """The look-ups of keys that are not remembered."""
        return self._lookups

    @property
    def known_ids(self) -> int:
        """Ids of keys that are known to exist, or to have existed since the start."""
        return len(self._ids)

    async def start(self) -> None:
        """Reads the ids of all keys, and starts writing when keys were last used, at most once a minute.

        The change feed must have been started before, so that no key is missed. Raises `Unavailable`.
        """
        await self._load_ids()
        flushing = repeat(self.flush, every=_FLUSH_SECONDS, reports=_FLUSHING)
        self._flusher = asyncio.create_task(flushing, name="keys-last-used")

    async def aclose(self) -> None:
        """Ends the background tasks and writes what is left."""
        await end_tasks(self._loading)
        tasks = [*self._all_reads, *([self._flusher] if self._flusher else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._lookups.aclose()
        with contextlib.suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.flush()

    async def flush(self) -> None:
        """Writes when keys were last used; they are kept when that fails with `Unavailable`."""
        used, self._used = self._used, {}
        if not used:
            return
        written = False
        try:
            async with self._database.writing() as session:
                await touch(session, {key: datetime.fromtimestamp(at, UTC) for key, at in used.items()})
            written = True
        finally:
            if not written:
                self._used = used | self._used

    def _is_right(self, known: _Known, text: str) -> bool:
        shown = blake2b(text.encode("utf-8", "surrogatepass"), key=self._fingerprints).digest()
        if known.passed and hmac.compare_digest(known.passed, shown):
            return True
        if not hmac.compare_digest(known.digest, digest(text, vault=self._vault)):
            return False
        known.passed = shown
        return True

    def _is_usable(self, known: _Known, at: float) -> bool:
        age = at - known.read_at
        if age < self._cache_seconds:
            return True
        if not self._away or age > self._stale_seconds:
            return False
        if at >= self._probe_at:
            # Callers with a remembered key do not wait for a server that is not there.
            self._probe_at = at + _PROBE_SECONDS
            self._reading(known.principal.key_id)
        return True

    async def _find(self, key_id: str, host: str) -> tuple[bool, _Known | None]:
        """Whether a failure of `host` was counted for the look-up of an id, and what is known of the id."""
        at = time.monotonic()
        known = self._known.get(key_id)
        if known is not None and self._is_usable(known, at):
            return False, known
        if self._missing.get(key_id, 0.0) > at:
            return False, None
        if known is None and self._away and at < self._probe_at:
            raise _away()
        if known is not None or key_id in self._ids:
            return False, await asyncio.shield(self._reading(key_id))
        # While some ids may not be known, no key is taken for a stranger's.
        is_counted = self._ids.is_complete
        if is_counted and not self._failures.take(host):
            if await self._appears(key_id):
                return False, await asyncio.shield(self._reading(key_id))
            raise self._too_many(host)
        try:
            return is_counted, await asyncio.shield(self._reading(key_id))
        except Unavailable:
            # Nobody knows what it was.
            if is_counted:
                self._failures.give_back(host)
            raise

    def _reading(self, key_id: str) -> asyncio.Task[_Known | None]:
        """The one read of a key that began since its latest change, which it begins if there is none."""
        task = self._reads.get(key_id)
        if task is None:
            task = asyncio.create_task(self._read(key_id), name="key-read")
            self._reads[key_id] = task
            self._all_reads.add(task)
            task.add_done_callback(lambda done: self._finished(key_id, done))
        return task

    def _finished(self, key_id: str, task: asyncio.Task[_Known | None]) -> None:
        self._all_reads.discard(task)
        if self._reads.get(key_id) is task:
            del self._reads[key_id]
        if not task.cancelled():
            # Whoever waited has it; when all of them have left, nobody else will look at it.
            task.exception()

    async def _read(self, key_id: str) -> _Known | None:
        known = self._known.get(key_id)
        generation = self._generation
        began = time.monotonic()
        lane: Lane = "known" if known is not None or key_id in self._ids else "stranger"
        try:
            row, read_at = await self._lookups.find(key_id, lane, seconds=_LOOKUP_SECONDS)
        except LookupTimeout:
            raise LookupTimeout from None
        except PoolBusy:
            self._away = False
            raise PoolBusy from None
        except Unavailable:
            self._away = True
            self._probe_at = time.monotonic() + _PROBE_SECONDS
            # The change feed may have told of the key meanwhile.
            dropped = self._known.get(key_id) is not known
            if known is None or dropped or began - known.read_at > self._stale_seconds:
                raise _away() from None
            return known
        self._away = False
        found = None if row is None or row.revoked_at is not None else _known(row, read_at, self._rate)
        if found is not None:
            self._ids.add(key_id)
        if generation == self._generation:
            self._remember(key_id, found, read_at)
        return found

    def _too_many(self, host: str) -> Unauthenticated:
        self.rejected += 1
        return Unauthenticated(_TOO_MANY, retry_after=self._failures.retry_after(host))

    def _penalty(self) -> float:
        """How long a client beyond its limit waits for its response, in seconds."""
        return max(_DELAY_SECONDS, self._delayed / _DELAYED_A_SECOND)

    async def _delay(self, key_id: str, seconds: float) -> None:
        """Wait so long, or until the change feed tells of the key."""
        if self._delayed >= _MAX_DELAYED:
            raise Overloaded("Too many API keys that are not valid were sent; try again.")
        expected = self._expected.setdefault(key_id, asyncio.Event())
        self._delayed += 1
        try:
            async with asyncio.timeout(seconds):
                await expected.wait()
        except TimeoutError:
            pass
        finally:
            self._delayed -= 1
            self._expected.pop(key_id, None)

    async def _appears(self, key_id: str) -> bool:
        """Whether an id exists after all: its key may have been created at another worker a moment ago.

        That is known when the changes were read after the request came, which is done once for all that wait.
        One that does not appear has waited as long as a client beyond its limit has to.
        """
        came_at = time.monotonic()
        await self._delay(key_id, _TOLD_SECONDS)
        if key_id not in self._ids and self._feed is not None:
            await self._read_changes(self._feed, came_at)
        if key_id not in self._ids and self._ids.is_complete:
            await self._delay(key_id, self._penalty() - _TOLD_SECONDS)
        return key_id in self._ids or not self._ids.is_complete

    async def _read_changes(self, feed: Feed, since: float) -> None:
        """Read the change feed, if nobody began to since that moment; raise `LookupTimeout` if that fails."""
        async with self._feed_turn:
            if self._feed_read_at < since:
                began = time.monotonic()
                if not await feed.catch_up():
                    # PostgreSQL may be away, or the pool crowded: so nobody knows.
                    raise LookupTimeout
                self._feed_read_at = began

    def _reload_ids(self) -> None:
        self._ids.is_complete = False
        for task in self._loading:
            task.cancel()
        loading = repeat(self._reload_missed, every=_RELOAD_SECONDS, reports=_LOADING, at_once=True)
        self._loading = [asyncio.create_task(loading, name="key-ids")]

    async def _reload_missed(self) -> None:
        if not self._ids.is_complete:
            await self._load_ids()

    async def _load_ids(self) -> None:
        after = None
        while True:
            async with self._database.reading() as session:
                page = await page_of_ids(session, after=after, limit=_PAGE_OF_IDS)
            for _, key_id in page:
                self._ids.add(key_id)
            if len(page) < _PAGE_OF_IDS:
                break
            after = page[-1][0]
        self._ids.is_complete = True

    def _remember(self, key_id: str, found: _Known | None, at: float) -> None:
        if found is not None:
            self._known[key_id] = found
            self._known.move_to_end(key_id)
            while len(self._known) > self._capacity:
                self._known.popitem(last=False)
            return
        self._known.pop(key_id, None)
        self._missing[key_id] = at + min(_MISSING_SECONDS, self._cache_seconds)
        self._missing.move_to_end(key_id)
        while len(self._missing) > self._capacity:
            self._missing.popitem(last=False)


def _known(row: Key, at: float, usual: RateLimit | None) -> _Known:
    principal = Principal(
        key_id=row.key_id,
        name=row.name,
        tenant_id=row.tenant_id,
        scopes=frozenset(row.scopes),
        providers=None if row.providers is None else frozenset(row.providers),
        tags=None if row.tags is None else frozenset(row.tags),
        expires_at=row.expires_at,
        rate=RateLimit.of(row.rate_limit) or usual,
    )
    expires_at = math.inf if row.expires_at is None else row.expires_at.timestamp()
    return _Known(principal=principal, digest=row.digest, expires_at=expires_at, read_at=at)


def _away() -> Unavailable:
    return Unavailable("The API key cannot be verified, because the database cannot be reached.")
