"""Sessions of the console: a bounded cache per worker in front of the stored sessions.

A session has the rights of its API key, as the key has them at each request: it ends with the key. A cached
session is used for `SessionPolicy.fresh_seconds` without SQL; the change feed removes those that were ended
in another worker, and those of a key that was changed or revoked.
"""

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from app.access.events import record_event
from app.access.sessions import store, texts
from app.access.sessions.limits import FailedSignIns, SignInLimit
from app.access.sessions.model import (
    LINK_SECONDS,
    RECENT_SECONDS,
    NewSession,
    Session,
    SessionPolicy,
)
from app.access.verifier import KeyVerifier
from app.catalog.feed import ChangeFeed, ChangeNotice, record_change
from app.core.background import LoopMessages, cancel_tasks, run_periodically
from app.core.errors import Forbidden, Unauthenticated, Unavailable
from app.core.uuid7 import uuid7
from app.security.principal import Principal
from app.security.vault import Vault
from app.storage.database import Database
from app.storage.models import ConsoleSessionRow, now

_MAX_OF_KEY: Final = 100
_FLUSH_SECONDS: Final = 60.0
_SWEEP_SECONDS: Final = 600.0
_PROBE_SECONDS: Final = 1.0
_CLOSE_SECONDS: Final = 3.0
_FLUSHING: Final = LoopMessages(
    unavailable="the times of last use of sessions are stored later: the database is unavailable",
    failed="the times of last use of sessions could not be stored",
)
_SWEEPING: Final = LoopMessages(
    unavailable="ended sessions are deleted later: the database is unavailable",
    failed="ended sessions could not be deleted",
)
_DEFAULT_POLICY: Final = SessionPolicy()
_LINK_NOT_VALID: Final = "The sign-in link is not valid: it was used, or has expired."
_TOO_MANY_LINKS: Final = (
    "The sign-in link is not valid, and too many invalid links or keys were sent from your address."
)


@dataclass(slots=True)
class _CachedSession:
    id: UUID
    session: Session
    last_used_at: datetime
    read_at: float
    """When its row was read (`time.monotonic()`)."""


class Sessions:
    """Creates, finds and ends sessions. One per worker; subscribe `on_changes` to the change feed.

    `clock` returns the current time, aware, UTC.
    """

    def __init__(
        self,
        database: Database,
        vault: Vault,
        keys: KeyVerifier,
        feed: ChangeFeed,
        *,
        policy: SessionPolicy = _DEFAULT_POLICY,
        clock: Callable[[], datetime] = now,
    ) -> None:
        self._database = database
        self._vault = vault
        self._keys = keys
        self._feed = feed
        self._policy = policy
        self._clock = clock
        self._idle = timedelta(seconds=policy.idle_seconds)
        self._cached: OrderedDict[bytes, _CachedSession] = OrderedDict()
        self._absent: OrderedDict[bytes, None] = OrderedDict()
        self._reads: dict[bytes, asyncio.Task[_CachedSession | None]] = {}
        self._generation = 0
        self._probe_at = 0.0
        self._used: dict[UUID, datetime] = {}
        self._limit = SignInLimit()
        self._failures = FailedSignIns(database)
        self._tasks: list[asyncio.Task[None]] = []

    def __len__(self) -> int:
        """Return the number of cached sessions."""
        return len(self._cached)

    async def start(self) -> None:
        """Start the tasks that store when sessions were last used, and delete those that have ended."""
        for work, interval, messages, name in (
            (self.flush, _FLUSH_SECONDS, _FLUSHING, "sessions-last-used"),
            (self.sweep, _SWEEP_SECONDS, _SWEEPING, "sessions-sweep"),
        ):
            running = run_periodically(work, interval=interval, messages=messages)
            self._tasks.append(asyncio.create_task(running, name=name))

    async def aclose(self) -> None:
        """Stop the tasks, and store when sessions were last used."""
        await cancel_tasks(self._tasks)
        await asyncio.gather(*self._reads.values(), return_exceptions=True)
        with contextlib.suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.flush()

    async def sign_in(self, key: str, *, host: str) -> NewSession:
        """Create a session by the text of an API key; `host` is the client's address.

        Raise what `KeyVerifier.verify` raises, which limits the invalid keys of an address, and RateLimited.
        """
        return await self.create(await self._verify(key, host))

    async def sign_in_by_link(self, token: str, *, host: str) -> NewSession:
        """Create a session by the token of a sign-in link, which is used up; `host` is the client's address.

        Raise Unauthenticated for a token that is not valid, which counts as an invalid key does, and
        RateLimited.
        """
        return await self.create(await self._verify_link(token, host), method="link")

    async def confirm_or_sign_in_by_link(self, text: str, token: str, *, host: str) -> NewSession | None:
        """Use up the token of a sign-in link: where it is of the key of the session with this text, set that
        this key was presented now, and return None; otherwise create a session.

        Raise what `sign_in_by_link` raises.
        """
        session = await self.find(text)
        principal = await self._verify_link(token, host)
        if session is None or session.key_id != principal.key_id:
            return await self.create(principal, method="link")
        await self.reauthenticate(text)
        return None

    async def confirm(self, text: str, proof: str, *, host: str) -> None:
        """Set that the key of a session was presented now: by the text of that key, or by a sign-in link that
        was made with it (its URL or its token), which is used up.

        Raise Unauthenticated where the session has ended, or `proof` is not valid or that of another key; and
        what `KeyVerifier.verify` raises.
        """
        session = await self.find(text)
        if session is None:
            raise Unauthenticated("The session has ended: sign in again.")
        token = texts.link_token(proof)
        principal = await (self._verify(proof, host) if token is None else self._verify_link(token, host))
        if principal.key_id != session.key_id:
            what = "the key" if token is None else "a link of the key"
            raise Unauthenticated(f"This is not {what} with which the session was begun.")
        await self.reauthenticate(text)

    async def report_failure(self, host: str) -> None:
        """Count a failed sign-in of the client at `host`, which becomes an event."""
        await self._failures.report(host)

    async def create(self, principal: Principal, *, method: str = "key") -> NewSession:
        """Create a session with the rights of an API key; `method` is how it was presented, for the event.

        A key has at most 100 sessions: another one ends the one that was used longest ago. Raise Forbidden
        for access tokens and anonymous clients, and RateLimited for more than 30 sign-ins of a key within a
        minute.
        """
        _require_key(principal)
        self._limit.require(principal.key_id)
        text = texts.mint("session", vault=self._vault)
        at = self._clock()
        expires_at = at + timedelta(seconds=self._policy.max_seconds)
        if principal.expires_at is not None:
            expires_at = min(expires_at, principal.expires_at)
        row = ConsoleSessionRow(
            id=uuid7(),
            tenant_id=principal.tenant_id,
            digest=self._digest(text.reveal()) or b"",
            key_id=principal.key_id,
            created_at=at,
            authenticated_at=at,
            last_used_at=at,
            expires_at=expires_at,
        )
        async with self._database.transaction() as session:
            replaced = await store.delete_oldest_of(session, principal.key_id, retained=_MAX_OF_KEY - 1)
            session.add(row)
            detail = {"method": method, "expires_at": expires_at.isoformat()}
            await _record_event(session, "created", row.id, key_id=principal.key_id, detail=detail)
            if replaced:
                await record_change(session, kind="session", object_id=principal.key_id)
        if replaced:
            await self._feed.catch_up()
        return NewSession(text, expires_at)

    async def find(self, text: str) -> Session | None:
        """Return the session of the text of a cookie; None for one that does not exist, or has ended, also
        because its key was revoked or has expired. It counts as used.

        Raise Unavailable where it is not cached and PostgreSQL is unavailable.
        """
        digest = self._digest(text)
        known = None if digest is None else await self._find(digest)
        if known is None or not self._is_open(known):
            return None
        if await self._keys.principal_by_id(known.session.key_id) is None:
            return None
        known.last_used_at = self._used[known.id] = self._clock()
        return known.session

    async def is_recent(self, text: str) -> bool:
        """Return whether the key of a session was presented within the last five minutes.

        A session that does not look like it is read again: another worker may have asked for the key.
        """
        digest = self._digest(text)
        known = None if digest is None else await self._find(digest)
        if digest is not None and known is not None and not self._is_recent(known):
            self._forget(digest)
            known = await self._find(digest)
        return known is not None and self._is_open(known) and self._is_recent(known)

    async def end(self, text: str) -> bool:
        """End a session: at once on this worker, on the others as soon as they read the change feed. Return
        whether there was one.
        """
        digest = self._digest(text)
        if digest is None:
            return False
        async with self._database.transaction() as session:
            ended = await store.delete_session(session, digest)
            if ended is not None:
                session_id, key_id = ended
                await _record_event(session, "ended", session_id, key_id=key_id, detail={})
                await record_change(session, kind="session", object_id=str(session_id))
        self._forget(digest)
        if ended is not None:
            await self._feed.catch_up()
        return ended is not None

    async def end_all(self, key_id: str) -> int:
        """End all sessions of a key, as `end` does; return their number."""
        async with self._database.transaction() as session:
            ended = await store.delete_sessions_of(session, key_id)
            if ended:
                await _record_event(session, "ended", key_id, key_id=key_id, detail={"sessions": ended})
                await record_change(session, kind="session", object_id=key_id)
        if ended:
            self._drop(key_id)
            await self._feed.catch_up()
        return ended

    async def reauthenticate(self, text: str) -> None:
        """Set that the key of a session was presented now; nothing for a session that does not exist."""
        digest = self._digest(text)
        if digest is None:
            return
        async with self._database.transaction() as session:
            session_id = await store.set_authenticated(session, digest, self._clock())
            if session_id is not None:
                await record_change(session, kind="session", object_id=str(session_id))
        self._forget(digest)
        if session_id is not None:
            await self._feed.catch_up()

    async def create_sign_in_token(self, key_id: str, tenant_id: UUID) -> str:
        """Return the text of a new token that signs in with the rights of a key: once, within 60 seconds.

        Raise RateLimited for more than 30 of a key within a minute.
        """
        self._limit.require(key_id)
        expires_at = self._clock() + timedelta(seconds=LINK_SECONDS)
        async with self._database.transaction() as session:
            return store.add_token(
                session, self._vault, key_id=key_id, tenant_id=tenant_id, expires_at=expires_at
            )

    async def redeem(self, text: str) -> str | None:
        """Use up the token of a sign-in link; return the id of its key, None for one that does not exist, was
        used or has expired.
        """
        digest = texts.digest("sign-in-link", text, vault=self._vault)
        if digest is None:
            return None
        async with self._database.transaction() as session:
            found = await store.redeem_token(session, digest)
        return None if found is None or self._clock() >= found[1] else found[0]

    async def on_changes(self, changes: Sequence[ChangeNotice]) -> None:
        """Drop cached sessions that have changed, and those of changed keys; a subscriber of the feed."""
        relevant = [change for change in changes if change.kind in ("all", "key", "session")]
        if not relevant:
            return
        self._generation += 1
        self._reads.clear()
        if any(change.kind == "all" for change in relevant):
            self._cached.clear()
            return
        for change in relevant:
            self._drop(change.object_id)

    async def flush(self) -> None:
        """Store when sessions were last used, and the events of failed sign-ins; after an error, both are
        stored by the next flush.
        """
        await self._database.store_noted(self._used, store.record_last_used)
        await self._failures.flush()

    async def sweep(self) -> None:
        """Delete sessions and sign-in links that have ended."""
        at = self._clock()
        async with self._database.transaction() as session:
            await store.delete_ended(session, at=at, idle_since=at - self._idle)

    async def _verify(self, key: str, host: str) -> Principal:
        try:
            return await self._keys.verify(key, host=host)
        except Unauthenticated:
            await self._failures.report(host)
            raise

    async def _verify_link(self, token: str, host: str) -> Principal:
        """Use up the token of a sign-in link, and return the principal of its key."""
        key_id = await self.redeem(token)
        principal = None if key_id is None else await self._keys.principal_by_id(key_id)
        if principal is None:
            await self._failures.report(host)
            error = Unauthenticated(_LINK_NOT_VALID)
            error.hint = "Make another one with `utcp-gateway sign-in-link`, or use an API key."
            raise await self._keys.rejected_token(error, host=host, beyond_limit=_TOO_MANY_LINKS)
        return principal

    def _digest(self, text: str) -> bytes | None:
        return texts.digest("session", text, vault=self._vault)

    def _is_open(self, known: _CachedSession) -> bool:
        at = self._clock()
        return at < known.session.expires_at and at - known.last_used_at < self._idle

    def _is_recent(self, known: _CachedSession) -> bool:
        return self._clock() - known.session.authenticated_at < timedelta(seconds=RECENT_SECONDS)

    async def _find(self, digest: bytes) -> _CachedSession | None:
        """Return the session of a digest, from the cache where that is fresh enough."""
        known = self._cached.get(digest)
        at = time.monotonic()
        if known is not None:
            self._cached.move_to_end(digest)
            age = at - known.read_at
            if age < self._policy.fresh_seconds or (age < self._policy.stale_seconds and at < self._probe_at):
                return known
        elif digest in self._absent:
            return None
        try:
            return await asyncio.shield(self._shared_read(digest))
        except Unavailable:
            self._probe_at = time.monotonic() + _PROBE_SECONDS
            if known is None or at - known.read_at > self._policy.stale_seconds:
                raise
            return known

    def _shared_read(self, digest: bytes) -> asyncio.Task[_CachedSession | None]:
        """Return the shared read of a session; start one if none has begun since the latest change."""
        task = self._reads.get(digest)
        if task is None:
            task = asyncio.create_task(self._read(digest), name="session-read")
            self._reads[digest] = task
            task.add_done_callback(lambda done: self._read_done(digest, done))
        return task

    def _read_done(self, digest: bytes, task: asyncio.Task[_CachedSession | None]) -> None:
        if self._reads.get(digest) is task:
            del self._reads[digest]
        if not task.cancelled():
            # Mark the exception as retrieved, so that asyncio does not log it where no request waits.
            task.exception()

    async def _read(self, digest: bytes) -> _CachedSession | None:
        generation = self._generation
        read_at = time.monotonic()
        async with self._database.read_session() as session:
            row = await store.find_session(session, digest)
        if row is None:
            # It was created before anybody had its text, and ended ones do not come back.
            self._cached.pop(digest, None)
            self._absent[digest] = None
            while len(self._absent) > self._policy.capacity:
                self._absent.popitem(last=False)
            return None
        found = _CachedSession(
            row.id,
            Session(row.key_id, row.tenant_id, row.created_at, row.authenticated_at, row.expires_at),
            max(row.last_used_at, self._used.get(row.id, row.last_used_at)),
            read_at,
        )
        if generation == self._generation:
            self._cached[digest] = found
            self._cached.move_to_end(digest)
            while len(self._cached) > self._policy.capacity:
                self._cached.popitem(last=False)
        return found

    def _forget(self, digest: bytes) -> None:
        """Have a session read again: a read in progress may have read the row before the change."""
        self._generation += 1
        self._reads.pop(digest, None)
        self._cached.pop(digest, None)

    def _drop(self, object_id: str) -> None:
        """Drop the cached session with this id, or all of the key with this id."""
        dropped = [
            digest
            for digest, known in self._cached.items()
            if object_id in (known.session.key_id, str(known.id))
        ]
        for digest in dropped:
            del self._cached[digest]


def _require_key(principal: Principal) -> None:
    if principal.token is not None or principal.anonymous:
        raise Forbidden(
            "Only an API key can sign in, no access token.", hint="Sign in with an API key of the gateway."
        )


async def _record_event(
    session: AsyncSession, action: str, name: UUID | str, *, key_id: str, detail: dict[str, Any]
) -> None:
    await record_event(
        session, actor=key_id, action=action, object_type="session", object_name=str(name), detail=detail
    )
