"""The rows of calls under an Idempotency-Key: acquired, read, and ended, many in one commit.

Two connections beside the pool: on one keys are acquired and read, on the other calls end, which must not
wait behind those that begin. A call costs two commits, each shared with what comes at the same time; where
the audit promises a record (CALL_LOG_MODE=strict), it lies in the same two. Batches of several replicas lock
rows in one order, so that they cannot wait for each other.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
from uuid import UUID

import structlog
from asyncpg.exceptions import PostgresError

from app.background import TaskSet
from app.call_log.entries import CallLogEntry
from app.call_log.store import column_values, insert_statement
from app.database.group_commit import CommitConnection, CommitQueue, DatabaseUnavailable
from app.deadlines import Deadline, timer_queue
from app.errors import Unavailable
from app.models import new_id

_log = structlog.get_logger(__name__)

_WAIT_SECONDS: Final = 2.0
"""For a commit; a call that begins is then rejected, one that ends goes on while its outcome is stored."""
_STATEMENT_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.5
# A statement that was sent to a server which then fell silent may be carried out when that goes on.
_SECOND_RELEASE_SECONDS: Final = 5.0
_MAX_BATCH: Final = 256
# Outcomes are up to IDEMPOTENCY_MAX_RESPONSE_BYTES long.
_MAX_BYTES: Final = 4 << 20
_MAX_READ: Final = 16
_FAILED: Final = object()

_TAKE: Final = (
    "INSERT INTO idempotency_keys AS stored (id, tenant_id, key_id, digest, fingerprint, call_id,"
    " leased_until, expires_at, created_at)"
    " SELECT a.id, a.tenant_id, a.key_id, a.digest, a.fingerprint, a.call_id,"
    " now() + make_interval(secs => a.lease), now() + make_interval(secs => a.life), now()"
    " FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[], $5::bytea[], $6::uuid[], $7::float8[],"
    " $8::float8[]) AS a(id, tenant_id, key_id, digest, fingerprint, call_id, lease, life)"
    " ON CONFLICT (tenant_id, key_id, digest) DO UPDATE SET fingerprint = excluded.fingerprint,"
    " call_id = excluded.call_id, sealed = NULL, leased_until = excluded.leased_until,"
    " expires_at = excluded.expires_at, created_at = excluded.created_at"
    " WHERE stored.expires_at <= now()"
    # The same statement a second time, because nobody said that the first was committed.
    " OR (stored.call_id = excluded.call_id AND stored.sealed IS NULL)"
    # $9 are the calls of tools without effects.
    " OR (excluded.call_id = ANY($9::uuid[]) AND stored.sealed IS NULL AND stored.leased_until <= now()"
    " AND stored.fingerprint = excluded.fingerprint)"
    " RETURNING stored.call_id"
)
_RECORD_TAKEN: Final = insert_statement(first=10, condition="r.id IN (SELECT call_id FROM taken)")
_TAKE_AND_RECORD: Final = f"WITH taken AS ({_TAKE}), recorded AS ({_RECORD_TAKEN}) SELECT call_id FROM taken"  # noqa: S608
_READ: Final = (
    "SELECT k.tenant_id, k.key_id, k.digest, k.fingerprint, k.call_id, k.sealed,"
    " extract(epoch FROM k.leased_until - now())::float8 AS left"
    " FROM unnest($1::uuid[], $2::text[], $3::bytea[]) AS a(tenant_id, key_id, digest)"
    " JOIN idempotency_keys k USING (tenant_id, key_id, digest)"
)
_ENDED: Final = (
    "WITH locked AS MATERIALIZED (SELECT k.id, k.call_id, a.outcome"
    " FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::uuid[], $5::bytea[])"
    " AS a(tenant_id, key_id, digest, call_id, outcome)"
    " JOIN idempotency_keys k USING (tenant_id, key_id, digest) WHERE k.call_id = a.call_id"
    ' ORDER BY k.tenant_id, k.key_id COLLATE "C", k.digest FOR UPDATE OF k),'
    " stored AS (UPDATE idempotency_keys k SET sealed = l.outcome FROM locked l"
    " WHERE k.id = l.id AND k.call_id = l.call_id AND l.outcome IS NOT NULL),"
    " released AS (DELETE FROM idempotency_keys k USING locked l"
    " WHERE k.id = l.id AND k.call_id = l.call_id AND l.outcome IS NULL AND k.sealed IS NULL)"
)
_END: Final = f"{_ENDED} SELECT 1"
_END_AND_RECORD: Final = f"{_ENDED} {insert_statement(first=6)}"


class RowKey(NamedTuple):
    """Which row: the client's key text as a keyed digest, within an API key of a tenant."""

    tenant: UUID
    key_id: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """A call that requests the key. `lease` and `life` are seconds; `record` is stored with the key only."""

    key: RowKey
    fingerprint: bytes = field(repr=False)
    call_id: UUID
    lease: float
    life: float
    safe: bool
    record: CallLogEntry | None = None


@dataclass(frozen=True, slots=True)
class LeaseEnd:
    """The sealed outcome of a call, None where the key is released; tried until `until` (`loop.time()`)."""

    key: RowKey
    call_id: UUID
    outcome: bytes | None = field(repr=False)
    until: float
    record: CallLogEntry | None = None


class IdempotencyTable:
    """The rows in PostgreSQL at `dsn`. `lost` counts outcomes that could not be stored in their time.

    `begins`, `reads` and `ends` are the queues. Tasks that nobody waits for go to `watched`.
    """

    def __init__(self, dsn: str, *, watched: TaskSet) -> None:
        self._beginning = CommitConnection(
            dsn, statement_timeout=_STATEMENT_SECONDS, purpose="idempotency keys"
        )
        self._ending = CommitConnection(
            dsn, statement_timeout=_STATEMENT_SECONDS, purpose="idempotency outcomes"
        )
        self.begins: CommitQueue[LeaseRequest, bool | None] = CommitQueue(
            self._acquire_batch, failed=None, max_batch=_MAX_BATCH, on_abandoned=self._abandon
        )
        self.reads: CommitQueue[RowKey, Any] = CommitQueue(self._read, failed=_FAILED, max_batch=_MAX_READ)
        self.ends: CommitQueue[LeaseEnd, bool] = CommitQueue(
            self._end, failed=False, max_batch=_MAX_BATCH, max_bytes=_MAX_BYTES, size_of=_bytes
        )
        self._watched = watched
        self._late: list[tuple[float, LeaseEnd]] = []
        self._retrying: asyncio.Task[None] | None = None
        self.lost = 0

    def __len__(self) -> int:
        """Rows that are being read or written."""
        return len(self.begins) + len(self.reads) + len(self.ends)

    async def acquire(self, request: LeaseRequest, *, seconds: float) -> bool:
        """Return whether the key is this call's now.

        Raises Overloaded and Unavailable, and TimeoutError where `seconds` are over before that is known. In
        all these cases nothing may be sent, and the key is released where it was taken.
        """
        taken: bool | None = await self._result(self.begins, request, seconds=seconds)
        if taken is None:
            raise _unavailable()
        return taken

    async def read(self, key: RowKey, *, seconds: float) -> Any:
        """Return the row of a key, None where there is none; raises what `acquire` raises."""
        found = await self._result(self.reads, key, seconds=seconds)
        if found is _FAILED:
            raise _unavailable()
        return found

    async def end(self, lease_end: LeaseEnd) -> bool:
        """Return whether it was stored within two seconds; otherwise it is retried until its time is over."""
        future = self.ends.add(lease_end)
        await asyncio.wait((future,), timeout=_WAIT_SECONDS)
        return future.done() and future.result()

    async def settle(self) -> None:
        """Wait for the batches under way, and for those behind them."""
        for queue in (self.begins, self.reads, self.ends):
            await queue.drain()

    async def aclose(self) -> None:
        """Close the connections."""
        await self.settle()
        await self._beginning.aclose()
        await self._ending.aclose()

    async def _result(self, queue: CommitQueue[Any, Any], item: Any, *, seconds: float) -> Any:
        wait = min(seconds, _WAIT_SECONDS)
        clock = timer_queue()
        future = queue.add(item, max_wait=wait)
        try:
            with Deadline(clock, clock.loop.time() + wait):
                return await future
        except BaseException as error:
            queue.withdraw(item, future)
            if not isinstance(error, TimeoutError) or seconds <= _WAIT_SECONDS:
                raise
            raise _unavailable() from None

    async def _acquire_batch(self, batch: list[LeaseRequest]) -> Sequence[bool | None]:
        """Of calls under one key only the first requests it; the others will read what became of that."""
        first: dict[RowKey, LeaseRequest] = {}
        for one in batch:
            first.setdefault(one.key, one)
        requests = [first[key] for key in sorted(first)]
        try:
            taken = await self._acquire(requests)
        except DatabaseUnavailable as error:
            if error.maybe_committed:
                self._release(requests, after=(0.0, _SECOND_RELEASE_SECONDS))
            raise
        return [None if one.call_id in taken.failed else one.call_id in taken.calls for one in batch]

    async def _acquire(self, requests: list[LeaseRequest]) -> "_Acquired":
        try:
            return _Acquired(await self._insert(requests), frozenset())
        except PostgresError as error:
            if len(requests) == 1:
                _log.error("an idempotency key could not be taken", sqlstate=getattr(error, "sqlstate", ""))
        # One that PostgreSQL rejects must not keep the others out; and a record whose partition was made
        # meanwhile finds it now.
        calls: set[UUID] = set()
        failed: set[UUID] = set()
        for one in requests:
            try:
                calls |= await self._insert([one])
            except PostgresError:
                failed.add(one.call_id)
            except DatabaseUnavailable as error:
                # Those before it were taken.
                raise DatabaseUnavailable(maybe_committed=error.maybe_committed or bool(calls)) from error
        return _Acquired(calls, failed)

    async def _insert(self, requests: list[LeaseRequest]) -> set[UUID]:
        values = (
            [new_id() for _ in requests],
            [one.key.tenant for one in requests],
            [one.key.key_id for one in requests],
            [one.key.digest for one in requests],
            [one.fingerprint for one in requests],
            [one.call_id for one in requests],
            [one.lease for one in requests],
            [one.life for one in requests],
            [one.call_id for one in requests if one.safe],
        )
        records = [one.record for one in requests if one.record is not None]
        if records:
            rows = await self._beginning.run(_TAKE_AND_RECORD, *values, *column_values(records).values())
        else:
            rows = await self._beginning.run(_TAKE, *values)
        return {row[0] for row in rows}

    async def _read(self, batch: list[RowKey]) -> Sequence[Any]:
        keys = sorted(set(batch))
        rows = await self._beginning.run(
            _READ, [one.tenant for one in keys], [one.key_id for one in keys],
            [one.digest for one in keys],
        )  # fmt: skip
        found = {RowKey(row["tenant_id"], row["key_id"], row["digest"]): row for row in rows}
        return [found.get(key) for key in batch]

    async def _end(self, batch: list[LeaseEnd]) -> Sequence[bool]:
        """What cannot be stored now is tried again later, without its record, which goes another way."""
        try:
            stored = await self._stored(batch)
        except DatabaseUnavailable:
            stored = [False] * len(batch)
        late = [one for one, done in zip(batch, stored, strict=True) if not done]
        if late:
            self._retry_later(late, after=_RETRY_SECONDS)
        return stored

    async def _stored(self, batch: list[LeaseEnd]) -> list[bool]:
        try:
            await self._store(batch)
        except PostgresError as error:
            if len(batch) == 1:
                _log.error("an outcome was rejected by the database", sqlstate=getattr(error, "sqlstate", ""))
                return [False]
            return [(await self._stored([one]))[0] for one in batch]
        return [True] * len(batch)

    async def _store(self, batch: list[LeaseEnd]) -> None:
        latest = {(one.key, one.call_id): one for one in batch}
        lease_ends = [latest[which] for which in sorted(latest)]
        values = (
            [one.key.tenant for one in lease_ends],
            [one.key.key_id for one in lease_ends],
            [one.key.digest for one in lease_ends],
            [one.call_id for one in lease_ends],
            [one.outcome for one in lease_ends],
        )
        records = [one.record for one in batch if one.record is not None]
        if records:
            await self._ending.run(_END_AND_RECORD, *values, *column_values(records).values())
        else:
            await self._ending.run(_END, *values)

    def _abandon(self, request: LeaseRequest, result: bool | None) -> None:
        """The client has left before it knew that its key was taken: nothing was sent."""
        if result:
            self._release([request], after=(0.0,))

    def _release(self, requests: Iterable[LeaseRequest], *, after: Iterable[float]) -> None:
        """Releases keys that may have been taken, so many seconds from now."""
        now = asyncio.get_running_loop().time()
        lease_ends = [LeaseEnd(one.key, one.call_id, None, now + one.lease) for one in requests]
        for seconds in after:
            self._retry_later(lease_ends, after=seconds)

    def _retry_later(self, lease_ends: Iterable[LeaseEnd], *, after: float) -> None:
        at = asyncio.get_running_loop().time() + after
        self._late += [(at, one if one.record is None else replace(one, record=None)) for one in lease_ends]
        if self._retrying is None:
            self._retrying = asyncio.create_task(self._retry(), name="idempotency-retry")
            self._watched.add(self._retrying)

    async def _retry(self) -> None:
        """One task for all that is late: many that try by themselves would be a load of their own."""
        loop = asyncio.get_running_loop()
        try:
            while self._late:
                now = loop.time()
                due = [one for at, one in self._late if at <= now]
                self._late = [(at, one) for at, one in self._late if at > now]
                over = [one for one in due if one.until <= now]
                for one in over:
                    self.lost += 1
                    _log.error("an outcome could not be stored", call_id=str(one.call_id))
                waiting = [self.ends.add(one) for one in due if one.until > now]
                if waiting:
                    await asyncio.wait(waiting)
                if self._late:
                    await asyncio.sleep(_RETRY_SECONDS)
        finally:
            self._retrying = None


class _Acquired(NamedTuple):
    """The calls that have their keys, and those whose keys could not be acquired."""

    calls: set[UUID]
    failed: "frozenset[UUID] | set[UUID]"


def _bytes(lease_end: LeaseEnd) -> int:
    return 0 if lease_end.outcome is None else len(lease_end.outcome)


def _unavailable() -> Unavailable:
    return Unavailable("The database does not respond, so no call can be made exactly once.")
