"""Verifying API keys: a bounded cache of digests in front of the table of keys.

A hit is synchronous and costs a few microseconds: the keyed BLAKE2 digest of the text that was sent, under a
key of this process, is compared with that of the text that matched the stored digest (an HMAC by OpenSSL
takes five times as long). Neither the text nor anything that another process could use is stored. An entry is
fresh for `KeyCachePolicy.fresh_seconds`; after that it is read again. While PostgreSQL is unavailable, an
entry is used for up to `stale_seconds` after it was read. The change feed removes revoked keys.

A miss is looked up (`lookups`). Ids that exist according to `key_ids` go before unknown ids; for an address
that has sent too many invalid keys (`failures`), unknown ids are no longer looked up:

    cached                                         --> no look-up
    id exists                                      --> look-up before all unknown ids
    unknown, address within its limit              --> look-up that may have to wait
    unknown, address beyond its limit              --> 401 with Retry-After, after a delay in which the change
                                                       feed is read: the id of a new key is then looked up

PostgreSQL is considered unavailable only because of its own behaviour: a failed connection, or a statement
without a response. Waiting in this process does not count.
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

from app.access.failures import KeyFailureLimiter
from app.access.key_ids import KeyIds
from app.access.lookups import KeyLookups, LookupPriority, LookupTimeout
from app.access.repository import list_key_ids, record_last_used
from app.catalog.feed import ChangeFeed, ChangeNotice
from app.core.background import LoopMessages, cancel_tasks, run_periodically
from app.core.errors import Overloaded, Unauthenticated, Unavailable
from app.core.rate_limit import RateLimit
from app.core.upstream_mode import UpstreamMode
from app.security.keys import ID_SLICE, KEY_LENGTH, digest, parse
from app.security.principal import REPAIR_MODES, SCHEMA_FORMS, Principal
from app.security.vault import Vault
from app.storage.database import Database, DatabasePoolExhausted
from app.storage.models import Key

_log = structlog.get_logger(__name__)

_NEGATIVE_CACHE_SECONDS = 10.0
_PROBE_SECONDS = 1.0
# Longer than a look-up takes to detect that PostgreSQL is unavailable.
_LOOKUP_SECONDS = 5.0
_CLOSE_SECONDS = 3.0
_ID_PAGE_SIZE = 5_000
_RELOAD_SECONDS = 1.0
# How long an address beyond its limit waits for each 401; at most `_DELAYED_PER_SECOND` of these are sent,
# however many connections there are.
_DELAY_SECONDS = 0.5
# The part of that delay in which the change feed may report the key; after it, the changes are read, at most
# five times per second.
_FEED_WAIT_SECONDS = 0.2
_DELAYED_PER_SECOND = 500
_MAX_DELAYED = 2_000
_FLUSH_SECONDS = 60.0
_FLUSHING = LoopMessages(
    unavailable="the times of last use of keys are stored later: the database is unavailable",
    failed="the times of last use of keys could not be stored",
)
_LOADING = LoopMessages(
    unavailable="the ids of keys are read later: the database is unavailable",
    failed="the ids of keys could not be read",
)
_NO_DIGEST = bytes(32)
_NOT_VALID = "The API key is not valid."
_TOO_MANY = "The API key is not valid, and too many invalid keys were sent from your address."
_TOO_MANY_TOKENS = "The access token is not valid, and too many invalid ones were sent from your address."


@dataclass(slots=True)
class _CachedKey:
    principal: Principal
    digest: bytes = field(repr=False)
    expires_at: float
    """Seconds since the epoch; infinity for a key that does not expire."""
    read_at: float
    """When its row was read (`time.monotonic()`)."""
    verified_fingerprint: bytes = field(default=b"", repr=False)
    """This process's keyed fingerprint of the text that matched the digest; b"" before."""


@dataclass(frozen=True, slots=True)
class KeyCachePolicy:
    """For how many seconds a cached key is used without reading it again, and how many keys are cached.

    `fresh_seconds` applies while PostgreSQL is available, `stale_seconds` while it is not; both count from
    when the key was read.
    """

    fresh_seconds: float = 60.0
    stale_seconds: float = 900.0
    capacity: int = 10_000


_DEFAULT_CACHE_POLICY = KeyCachePolicy()


class KeyVerifier:
    """Verifies the text of an API key and returns its principal. One per worker.

    `default_rate_limit` applies to keys without a rate limit of their own, `failure_limit` to the invalid
    keys that one client address may send; None is no limit. In `feed`, new keys of other workers are searched
    for before an unknown key is rejected because of that limit. The ids of keys are read `id_page_size` at a
    time.
    """

    def __init__(
        self,
        database: Database,
        vault: Vault,
        *,
        cache_policy: KeyCachePolicy = _DEFAULT_CACHE_POLICY,
        default_rate_limit: RateLimit | None = None,
        failure_limit: RateLimit | None = None,
        feed: ChangeFeed | None = None,
        id_page_size: int = _ID_PAGE_SIZE,
    ) -> None:
        self._database = database
        self._vault = vault
        self._feed = feed
        self._default_rate_limit = default_rate_limit
        self._failures = KeyFailureLimiter(failure_limit)
        self._policy = cache_policy
        self._fingerprint_key = os.urandom(32)
        self._cached: OrderedDict[str, _CachedKey] = OrderedDict()
        self._absent: OrderedDict[str, float] = OrderedDict()
        self._reads: dict[str, asyncio.Task[_CachedKey | None]] = {}
        self._all_reads: set[asyncio.Task[_CachedKey | None]] = set()
        self._lookups = KeyLookups(database)
        self._ids = KeyIds()
        self._id_page_size = id_page_size
        self._loading: list[asyncio.Task[None]] = []
        self._delayed = 0
        self._expected: dict[str, asyncio.Event] = {}
        self._feed_read_at = 0.0
        self._feed_lock = asyncio.Lock()
        self._generation = 0
        self._is_database_down = False
        self._probe_at = 0.0
        self._used: dict[str, float] = {}
        self._flusher: asyncio.Task[None] | None = None
        self.hits = 0
        """Requests whose key was in the cache, since the start."""
        self.misses = 0
        """Requests whose key was not in the cache, since the start."""
        self.rejected = 0
        """Requests with an invalid key from an address beyond its limit of them, since the start."""
        self.unverified_calls = 0
        """Calls in progress whose key is being looked up, and is not yet verified."""

    def __len__(self) -> int:
        """Return the number of cached keys."""
        return len(self._cached)

    def verify_cached(self, text: str) -> Principal | None:
        """Return the principal if the key is cached, correct and not expired; if None, call `verify`."""
        known = self._cached.get(text[ID_SLICE])
        if known is None or len(text) != KEY_LENGTH:
            return None
        now = time.monotonic()
        if now - known.read_at >= self._policy.fresh_seconds and not self._is_usable(known, now):
            return None
        fingerprint = blake2b(text.encode("utf-8", "surrogatepass"), key=self._fingerprint_key).digest()
        if not hmac.compare_digest(known.verified_fingerprint, fingerprint):
            if not hmac.compare_digest(known.digest, digest(text, vault=self._vault)):
                return None
            known.verified_fingerprint = fingerprint
        at = time.time()
        if at >= known.expires_at:
            return None
        key_id = known.principal.key_id
        self._cached.move_to_end(key_id)
        self._used[key_id] = at
        self.hits += 1
        return known.principal

    async def verify(self, text: str, *, host: str = "", is_call: bool = False) -> Principal:
        """Return the principal of a key; `host` is the client's address, `is_call`: for a call of a tool.

        Raise Unauthenticated for a key that is malformed, unknown, revoked or expired, with Retry-After where
        too many such keys came from the same address; Unavailable when the key is not cached and PostgreSQL
        is unavailable; Overloaded when the key could not be looked up in time.
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
            return await self._verify_uncached(text, parts.key_id, host)
        finally:
            self.unverified_calls -= is_call

    async def principal_by_id(self, key_id: str) -> Principal | None:
        """Return what the key of an id may do, for a client that was verified in another way (a session of
        the console); None where it does not exist, is revoked or has expired. The key counts as used.

        Raise Unavailable when the key is not cached and PostgreSQL is unavailable; Overloaded when the key
        could not be looked up in time.
        """
        at = time.monotonic()
        known = self._cached.get(key_id)
        if known is not None and self._is_usable(known, at):
            self._cached.move_to_end(key_id)
            self.hits += 1
        elif self._absent.get(key_id, 0.0) > at:
            return None
        elif known is None and self._is_database_down and at < self._probe_at:
            raise _unavailable()
        else:
            self.misses += 1
            known = await asyncio.shield(self._shared_read(key_id))
        moment = time.time()
        if known is None or moment >= known.expires_at:
            return None
        self._used[key_id] = moment
        return known.principal

    async def renew(self, principal: Principal) -> Principal:
        """Return what the key of a principal may do now, for what goes on after its request. An access token
        says the same until it expires.

        Raise Unauthenticated for a key that was revoked or has expired, and what `principal_by_id` raises.
        """
        if principal.token is not None:
            if principal.expires_at is not None and principal.expires_at <= datetime.now(UTC):
                raise Unauthenticated("The access token has expired.")
            return principal
        renewed = await self.principal_by_id(principal.key_id)
        if renewed is None:
            raise Unauthenticated("The API key was revoked or has expired.")
        return renewed

    async def _verify_uncached(self, text: str, key_id: str, host: str) -> Principal:
        is_counted, known = await self._find(key_id, host)
        sent_digest = digest(text, vault=self._vault)
        # Compared also where there is no such key: the response time must not reveal which ids exist.
        is_correct = hmac.compare_digest(_NO_DIGEST if known is None else known.digest, sent_digest)
        if known is None or not is_correct:
            if not is_counted and not self._failures.try_consume(host):
                await self._delay(key_id, self._rejection_delay())
                raise self._too_many(host)
            raise Unauthenticated(_NOT_VALID)
        if is_counted:
            self._failures.refund(host)
        at = time.time()
        if at >= known.expires_at:
            raise Unauthenticated("The API key has expired.")
        self._used[key_id] = at
        return known.principal

    async def rejected_token(
        self, error: Unauthenticated, *, host: str, beyond_limit: str = _TOO_MANY_TOKENS
    ) -> Unauthenticated:
        """Count an invalid access token, or another text in place of a key, of the client at `host`, and
        return the error to raise: beyond the limit of invalid keys, after the same delay, one with
        Retry-After and the detail `beyond_limit`.

        Raise Overloaded where too many requests wait.
        """
        if self._failures.try_consume(host):
            return error
        await self._delay("", self._rejection_delay())
        return self._too_many(host, beyond_limit)

    async def on_changes(self, changes: list[ChangeNotice]) -> None:
        """Remove changed keys from the cache and add the ids of new ones; a subscriber of the change feed."""
        for change in changes:
            if change.kind == "all":
                self._cached.clear()
                self._absent.clear()
                self._reads.clear()
                self._reload_ids()
            elif change.kind == "key":
                self._cached.pop(change.object_id, None)
                self._absent.pop(change.object_id, None)
                self._reads.pop(change.object_id, None)
                self._ids.add(change.object_id)
                self._lookups.promote(change.object_id)
                if change.object_id in self._expected:
                    self._expected[change.object_id].set()
            else:
                continue
            # A read in progress may have read the row before the change: its result is not cached, and later
            # requests start another read.
            self._generation += 1

    def principal_of(self, row: Key) -> Principal:
        """Return the principal of a stored key, whether or not the key is valid."""
        return _cached_key(row, 0.0, self._default_rate_limit).principal

    @property
    def lookups(self) -> KeyLookups:
        """The look-ups of keys that are not cached."""
        return self._lookups

    @property
    def known_id_count(self) -> int:
        """The number of ids of keys that exist, or have existed since the start."""
        return len(self._ids)

    async def start(self) -> None:
        """Read the ids of all keys, and start the task that stores once a minute when keys were last used.

        The change feed must have been started before, so that no key is missed. Raise Unavailable.
        """
        await self._load_ids()
        flushing = run_periodically(self.flush, interval=_FLUSH_SECONDS, messages=_FLUSHING)
        self._flusher = asyncio.create_task(flushing, name="keys-last-used")

    async def aclose(self) -> None:
        """Stop the background tasks, and store when keys were last used."""
        await cancel_tasks(self._loading)
        tasks = [*self._all_reads, *([self._flusher] if self._flusher else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._lookups.aclose()
        with contextlib.suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.flush()

    async def flush(self) -> None:
        """Store when keys were last used; after an error, the times are stored by the next flush."""
        await self._database.store_noted(self._used, record_last_used)

    def _is_usable(self, known: _CachedKey, at: float) -> bool:
        age = at - known.read_at
        if age < self._policy.fresh_seconds:
            return True
        if not self._is_database_down or age > self._policy.stale_seconds:
            return False
        if at >= self._probe_at:
            # Requests with a cached key do not wait for an unavailable server.
            self._probe_at = at + _PROBE_SECONDS
            self._shared_read(known.principal.key_id)
        return True

    async def _find(self, key_id: str, host: str) -> tuple[bool, _CachedKey | None]:
        """Return whether a failure of `host` was counted for the look-up of an id, and its cached key, or
        None.
        """
        at = time.monotonic()
        known = self._cached.get(key_id)
        if known is not None and self._is_usable(known, at):
            return False, known
        if self._absent.get(key_id, 0.0) > at:
            return False, None
        if known is None and self._is_database_down and at < self._probe_at:
            raise _unavailable()
        if known is not None or key_id in self._ids:
            return False, await asyncio.shield(self._shared_read(key_id))
        # While the set of ids may be incomplete, an unknown id does not count as a failure.
        is_counted = self._ids.is_complete
        if is_counted and not self._failures.try_consume(host):
            if await self._appears_in_feed(key_id):
                return False, await asyncio.shield(self._shared_read(key_id))
            raise self._too_many(host)
        try:
            return is_counted, await asyncio.shield(self._shared_read(key_id))
        except Unavailable:
            # Whether the key is valid was not determined.
            if is_counted:
                self._failures.refund(host)
            raise

    def _shared_read(self, key_id: str) -> asyncio.Task[_CachedKey | None]:
        """Return the shared read of a key; start one if none has begun since the latest change of the key."""
        task = self._reads.get(key_id)
        if task is None:
            task = asyncio.create_task(self._read(key_id), name="key-read")
            self._reads[key_id] = task
            self._all_reads.add(task)
            task.add_done_callback(lambda done: self._read_done(key_id, done))
        return task

    def _read_done(self, key_id: str, task: asyncio.Task[_CachedKey | None]) -> None:
        self._all_reads.discard(task)
        if self._reads.get(key_id) is task:
            del self._reads[key_id]
        if not task.cancelled():
            # Mark the exception as retrieved, so that asyncio does not log it where no request waits.
            task.exception()

    async def _read(self, key_id: str) -> _CachedKey | None:
        known = self._cached.get(key_id)
        generation = self._generation
        began = time.monotonic()
        priority: LookupPriority = "known" if known is not None or key_id in self._ids else "unknown"
        try:
            row, read_at = await self._lookups.look_up(key_id, priority, timeout=_LOOKUP_SECONDS)
        except LookupTimeout:
            raise LookupTimeout from None
        except DatabasePoolExhausted:
            self._is_database_down = False
            raise DatabasePoolExhausted from None
        except Unavailable:
            self._is_database_down = True
            self._probe_at = time.monotonic() + _PROBE_SECONDS
            # The change feed may have reported the key in the meantime.
            is_replaced = self._cached.get(key_id) is not known
            if known is None or is_replaced or began - known.read_at > self._policy.stale_seconds:
                raise _unavailable() from None
            return known
        self._is_database_down = False
        found = (
            None
            if row is None or row.revoked_at is not None
            else _cached_key(row, read_at, self._default_rate_limit)
        )
        if found is not None:
            self._ids.add(key_id)
        if generation == self._generation:
            self._cache_result(key_id, found, read_at)
        return found

    def _too_many(self, host: str, detail: str = _TOO_MANY) -> Unauthenticated:
        self.rejected += 1
        return Unauthenticated(detail, retry_after=self._failures.retry_after(host))

    def _rejection_delay(self) -> float:
        """Return how many seconds a client beyond its limit waits for its response."""
        return max(_DELAY_SECONDS, self._delayed / _DELAYED_PER_SECOND)

    async def _delay(self, key_id: str, seconds: float) -> None:
        """Wait for so many seconds, or until the change feed reports the key; raise Overloaded where too many
        requests wait.
        """
        if self._delayed >= _MAX_DELAYED:
            raise Overloaded("Too many invalid API keys were sent; try again later.")
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

    async def _appears_in_feed(self, key_id: str) -> bool:
        """Return whether the change feed reports the id: another worker may just have created its key.

        For that, the changes are read once after the request arrived, for all requests that wait. An id that
        is not reported has then waited as long as a client beyond its limit has to.
        """
        received_at = time.monotonic()
        await self._delay(key_id, _FEED_WAIT_SECONDS)
        if key_id not in self._ids and self._feed is not None:
            await self._read_changes(self._feed, received_at)
        if key_id not in self._ids and self._ids.is_complete:
            await self._delay(key_id, self._rejection_delay() - _FEED_WAIT_SECONDS)
        return key_id in self._ids or not self._ids.is_complete

    async def _read_changes(self, feed: ChangeFeed, since: float) -> None:
        """Read the change feed unless a read began after `since` (monotonic), or raise LookupTimeout."""
        async with self._feed_lock:
            if self._feed_read_at < since:
                began = time.monotonic()
                if not await feed.catch_up():
                    # PostgreSQL may be unavailable, or the pool exhausted.
                    raise LookupTimeout
                self._feed_read_at = began

    def _reload_ids(self) -> None:
        self._ids.is_complete = False
        for task in self._loading:
            task.cancel()
        loading = run_periodically(
            self._reload_missed, interval=_RELOAD_SECONDS, messages=_LOADING, run_immediately=True
        )
        self._loading = [asyncio.create_task(loading, name="key-ids")]

    async def _reload_missed(self) -> None:
        if not self._ids.is_complete:
            await self._load_ids()

    async def _load_ids(self) -> None:
        after = None
        while True:
            async with self._database.read_session() as session:
                page = await list_key_ids(session, after=after, limit=self._id_page_size)
            for _, key_id in page:
                self._ids.add(key_id)
            if len(page) < self._id_page_size:
                break
            after = page[-1][0]
        self._ids.is_complete = True

    def _cache_result(self, key_id: str, found: _CachedKey | None, at: float) -> None:
        if found is not None:
            self._cached[key_id] = found
            self._cached.move_to_end(key_id)
            while len(self._cached) > self._policy.capacity:
                self._cached.popitem(last=False)
            return
        self._cached.pop(key_id, None)
        self._absent[key_id] = at + min(_NEGATIVE_CACHE_SECONDS, self._policy.fresh_seconds)
        self._absent.move_to_end(key_id)
        while len(self._absent) > self._policy.capacity:
            self._absent.popitem(last=False)


def principal_of(row: Key, default_rate_limit: RateLimit | None) -> Principal:
    """Return what the key of a row may do, whether or not it is valid; `default_rate_limit` is that of keys
    without a rate limit of their own.
    """
    principal = Principal(
        key_id=row.key_id,
        name=row.name,
        tenant_id=row.tenant_id,
        scopes=frozenset(row.scopes),
        providers=None if row.providers is None else frozenset(row.providers),
        tags=None if row.tags is None else frozenset(row.tags),
        expires_at=row.expires_at,
        rate_limit=RateLimit.from_stored(row.rate_limit) or default_rate_limit,
        rate_limit_id=row.rate_limit_id or "",
        argument_repair=REPAIR_MODES.get(row.argument_repair or ""),
        upstream=UpstreamMode.from_stored(row.upstream),
        schemas=SCHEMA_FORMS.get(row.schemas or ""),
    )
    return principal.limited_to_toolsets(row.toolsets)


def _cached_key(row: Key, at: float, default_rate_limit: RateLimit | None) -> _CachedKey:
    principal = principal_of(row, default_rate_limit)
    expires_at = math.inf if row.expires_at is None else row.expires_at.timestamp()
    return _CachedKey(principal=principal, digest=row.digest, expires_at=expires_at, read_at=at)


def _unavailable() -> Unavailable:
    return Unavailable("The API key cannot be verified, because the database cannot be reached.")
