"""Verifying API keys: a bounded cache of digests in front of the table of keys.

A hit is synchronous and costs a few microseconds: one keyed BLAKE2 of what was shown, under a key of this
process, is compared with that of the text which had the stored digest (an HMAC by OpenSSL takes five times
as long). Neither the text nor anything that another process could use is kept. An entry is fresh for
`cache_seconds`; after that it is read again. While PostgreSQL is away it is believed up to `stale_seconds`
since it was last read. The change feed drops what was revoked.
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

from app.access.repository import find_key, touch
from app.catalog.feed import Change
from app.database import Database
from app.errors import Unauthenticated, Unavailable
from app.models import Key
from app.rates import RateLimit
from app.security.keys import ID_PLACE, KEY_LENGTH, digest, parse
from app.security.principal import Principal
from app.security.vault import Vault
from app.tasks import Reports, repeat

_log = structlog.get_logger(__name__)

_CAPACITY = 10_000
_MISSING_SECONDS = 10.0
_PROBE_SECONDS = 1.0
_READ_SECONDS = 3.0
_QUICK_READ_SECONDS = 1.0
# Random ids with a right checksum cost a read each; they must not take all connections of the pool.
_STRANGERS_AT_ONCE = 3
_FLUSH_SECONDS = 60.0
_FLUSHING = Reports(
    away="when keys were last used is written later: the database is away",
    failed="when keys were last used could not be written",
)
_NOBODY = bytes(32)
_NOT_VALID = "The API key is not valid."


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
    ) -> None:
        self._database = database
        self._vault = vault
        self._rate = rate
        self._cache_seconds = cache_seconds
        self._stale_seconds = stale_seconds
        self._capacity = capacity
        self._fingerprints = os.urandom(32)
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._missing: OrderedDict[str, float] = OrderedDict()
        self._reads: dict[str, asyncio.Task[_Known | None]] = {}
        self._strangers = asyncio.Semaphore(_STRANGERS_AT_ONCE)
        self._generation = 0
        self._away = False
        self._probe_at = 0.0
        self._used: dict[str, float] = {}
        self._flusher: asyncio.Task[None] | None = None
        self.hits = 0
        """Requests whose key was remembered, since the start."""
        self.misses = 0
        """Requests whose key was not."""

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

    async def verify(self, text: str) -> Principal:
        """The principal of a key.

        Raises `Unauthenticated` for a key that is malformed, unknown, revoked or expired, `Unavailable` when
        it is not remembered and PostgreSQL is away.
        """
        principal = self.verify_cached(text)
        if principal is not None:
            return principal
        self.misses += 1
        parts = parse(text)
        if parts is None:
            raise Unauthenticated(_NOT_VALID)
        known = await self._find(parts.key_id)
        shown = digest(text, vault=self._vault)
        # Compared where there is no such key, too: the time must not tell which ids exist.
        right = hmac.compare_digest(_NOBODY if known is None else known.digest, shown)
        if known is None or not right:
            raise Unauthenticated(_NOT_VALID)
        at = time.time()
        if at >= known.expires_at:
            raise Unauthenticated("The API key has expired.")
        self._used[parts.key_id] = at
        return known.principal

    async def on_changes(self, changes: list[Change]) -> None:
        """Forgets the keys that changed; a subscriber of the change feed."""
        for change in changes:
            if change.kind == "all":
                self._known.clear()
                self._missing.clear()
            elif change.kind == "key":
                self._known.pop(change.object_id, None)
                self._missing.pop(change.object_id, None)
            else:
                continue
            # What is being read right now may have been read before the change.
            self._generation += 1

    async def start(self) -> None:
        """Starts writing when keys were last used, at most once a minute."""
        flushing = repeat(self.flush, every=_FLUSH_SECONDS, reports=_FLUSHING)
        self._flusher = asyncio.create_task(flushing, name="keys-last-used")

    async def aclose(self) -> None:
        """Ends the background tasks and writes what is left."""
        tasks = [*self._reads.values(), *([self._flusher] if self._flusher else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(_READ_SECONDS):
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

    async def _find(self, key_id: str) -> _Known | None:
        at = time.monotonic()
        known = self._known.get(key_id)
        if known is not None and self._is_usable(known, at):
            return known
        if self._missing.get(key_id, 0.0) > at:
            return None
        if known is None and self._away and at < self._probe_at:
            raise _away()
        return await asyncio.shield(self._reading(key_id))

    def _reading(self, key_id: str) -> asyncio.Task[_Known | None]:
        """The one read of a key that is under way, which it begins if there is none."""
        task = self._reads.get(key_id)
        if task is None:
            task = asyncio.create_task(self._read(key_id), name="key-read")
            self._reads[key_id] = task
            task.add_done_callback(lambda done: self._finished(key_id, done))
        return task

    def _finished(self, key_id: str, task: asyncio.Task[_Known | None]) -> None:
        self._reads.pop(key_id, None)
        if not task.cancelled():
            # Whoever waited has it; when all of them have left, nobody else will look at it.
            task.exception()

    async def _read(self, key_id: str) -> _Known | None:
        known = self._known.get(key_id)
        generation = self._generation
        at = time.monotonic()
        gate = self._strangers if known is None else contextlib.nullcontext()
        seconds = _QUICK_READ_SECONDS if self._away or known is not None else _READ_SECONDS
        try:
            async with asyncio.timeout(seconds), gate:
                row = await self._database.read(lambda session: find_key(session, key_id))
        except (Unavailable, TimeoutError):
            self._away = True
            self._probe_at = time.monotonic() + _PROBE_SECONDS
            if known is None or at - known.read_at > self._stale_seconds:
                raise _away() from None
            return known
        self._away = False
        found = None if row is None or row.revoked_at is not None else _known(row, at, self._rate)
        if generation == self._generation:
            self._remember(key_id, found, at)
        return found

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
