"""The table of idempotency keys: leases are acquired, read and completed in group commits.

It uses two connections outside the pool: one on which keys are acquired and read, and one on which leases are
completed, so that a call that ends does not wait for calls that begin. A call costs two commits, each shared
with concurrent calls; with CALL_LOG_MODE=strict, the records of the call are stored in the same two commits.
All batches lock rows in the same order, so that concurrent batches of several replicas cannot deadlock.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
from uuid import UUID

import structlog
from asyncpg.exceptions import PostgresError

from app.calls.log.entries import CallLogEntry
from app.calls.log.store import build_recording_statement, insert_statement, records_json
from app.core.background import TaskSet
from app.core.deadlines import Deadline, get_timer_queue
from app.core.errors import Unavailable
from app.core.uuid7 import uuid7
from app.storage.database.group_commit import CommitConnection, CommitQueue, DatabaseUnavailable

_log = structlog.get_logger(__name__)

_WAIT_SECONDS: Final = 2.0
"""How long a commit is waited for. After that, a call that begins is rejected; for a call that ends, the
outcome is stored in the background.
"""
_STATEMENT_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.5
# A statement that was sent to a frozen server may be executed once that resumes: keys are released again.
_SECOND_RELEASE_SECONDS: Final = 5.0
_MAX_BATCH: Final = 256
# Of the outcomes in a batch; one has up to IDEMPOTENCY_MAX_RESPONSE_BYTES.
_MAX_BYTES: Final = 4 << 20
_MAX_READ: Final = 16
_FAILED: Final = object()

_ACQUIRE: Final = (
    "INSERT INTO idempotency_keys AS stored (id, tenant_id, key_id, digest, fingerprint, call_id,"
    " leased_until, expires_at, created_at)"
    " SELECT a.id, a.tenant_id, a.key_id, a.digest, a.fingerprint, a.call_id,"
    " now() + make_interval(secs => a.lease_seconds), now() + make_interval(secs => a.ttl_seconds), now()"
    " FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[], $5::bytea[], $6::uuid[], $7::float8[],"
    " $8::float8[]) AS a(id, tenant_id, key_id, digest, fingerprint, call_id, lease_seconds,"
    " ttl_seconds)"
    " ON CONFLICT (tenant_id, key_id, digest) DO UPDATE SET fingerprint = excluded.fingerprint,"
    " call_id = excluded.call_id, sealed = NULL, leased_until = excluded.leased_until,"
    " expires_at = excluded.expires_at, created_at = excluded.created_at"
    " WHERE stored.expires_at <= now()"
    # This statement is executed again, because it was not confirmed that its first execution was committed.
    " OR (stored.call_id = excluded.call_id AND stored.sealed IS NULL)"
    # $9 are the calls of safe tools.
    " OR (excluded.call_id = ANY($9::uuid[]) AND stored.sealed IS NULL AND stored.leased_until <= now()"
    " AND stored.fingerprint = excluded.fingerprint)"
    " RETURNING stored.call_id"
)
_RECORD_ACQUIRED: Final = insert_statement(first=10, condition="r.id IN (SELECT call_id FROM acquired)")
_ACQUIRE_AND_RECORD: Final = (
    f"WITH acquired AS ({_ACQUIRE}), recorded AS ({_RECORD_ACQUIRED}) SELECT call_id FROM acquired"  # noqa: S608
)
_READ: Final = (
    "SELECT k.tenant_id, k.key_id, k.digest, k.fingerprint, k.call_id, k.sealed,"
    " extract(epoch FROM k.leased_until - now())::float8 AS lease_seconds_left"
    " FROM unnest($1::uuid[], $2::text[], $3::bytea[]) AS a(tenant_id, key_id, digest)"
    " JOIN idempotency_keys k USING (tenant_id, key_id, digest)"
)
_COMPLETION: Final = (
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
_END: Final = f"{_COMPLETION} SELECT 1"
_COMPLETE_AND_RECORD: Final = build_recording_statement(first=6, after=f"{_COMPLETION},")


class RowKey(NamedTuple):
    """The key of a row: the keyed digest of the client's idempotency key, within an API key of a tenant."""

    tenant: UUID
    key_id: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """A request for the lease of a key; `record` is stored if the lease is granted.

    The lease expires after `lease_seconds`, the row after `ttl_seconds`. `safe` says that the call has no
    side effects, so that it may be made again after its lease has expired.
    """

    key: RowKey
    fingerprint: bytes = field(repr=False)
    call_id: UUID
    lease_seconds: float
    ttl_seconds: float
    safe: bool
    record: CallLogEntry | None = None


@dataclass(frozen=True, slots=True)
class LeaseCompletion:
    """The end of a lease: the sealed outcome of the call, or None, which releases the key.

    Storing it is retried until `lease_expires_at` (`loop.time()`).
    """

    key: RowKey
    call_id: UUID
    outcome: bytes | None = field(repr=False)
    lease_expires_at: float
    record: CallLogEntry | None = None


class IdempotencyTable:
    """The table in the database at `dsn`.

    `lost` counts the outcomes that could not be stored before their lease expired. `begins`, `reads` and
    `ends` are the queues of the commits. Background tasks are added to `watched`.
    """

    def __init__(self, dsn: str, *, watched: TaskSet) -> None:
        self._acquiring = CommitConnection(
            dsn, statement_timeout=_STATEMENT_SECONDS, purpose="idempotency keys"
        )
        self._completing = CommitConnection(
            dsn, statement_timeout=_STATEMENT_SECONDS, purpose="idempotency outcomes"
        )
        self.begins: CommitQueue[LeaseRequest, bool | None] = CommitQueue(
            self._acquire_batch, failed=None, max_batch=_MAX_BATCH, on_abandoned=self._abandon
        )
        self.reads: CommitQueue[RowKey, Any] = CommitQueue(self._read, failed=_FAILED, max_batch=_MAX_READ)
        self.ends: CommitQueue[LeaseCompletion, bool] = CommitQueue(
            self._complete_batch,
            failed=False,
            max_batch=_MAX_BATCH,
            max_bytes=_MAX_BYTES,
            size_of=_measure_outcome,
        )
        self._watched = watched
        self._pending_retries: list[tuple[float, LeaseCompletion]] = []
        self._retrying: asyncio.Task[None] | None = None
        self.lost = 0

    def __len__(self) -> int:
        """Return the number of rows that are being read or written."""
        return len(self.begins) + len(self.reads) + len(self.ends)

    async def acquire(self, request: LeaseRequest, *, seconds: float) -> bool:
        """Return whether the lease was granted; wait for that for at most `seconds`.

        Raise Overloaded and Unavailable, and TimeoutError where that is not known after `seconds`. After an
        error the call must not be made, and the key is released if it was acquired.
        """
        acquired: bool | None = await self._await_result(self.begins, request, seconds=seconds)
        if acquired is None:
            raise _create_unavailable_error()
        return acquired

    async def read(self, key: RowKey, *, seconds: float) -> Any:
        """Return the row of a key, None where there is none; raise what `acquire` raises."""
        row = await self._await_result(self.reads, key, seconds=seconds)
        if row is _FAILED:
            raise _create_unavailable_error()
        return row

    async def complete(self, completion: LeaseCompletion) -> bool:
        """Return whether the completion was stored within two seconds; if not, it is stored later."""
        future = self.ends.add(completion)
        await asyncio.wait((future,), timeout=_WAIT_SECONDS)
        return future.done() and future.result()

    async def settle(self) -> None:
        """Wait until the queued items have been committed, or have failed."""
        for queue in (self.begins, self.reads, self.ends):
            await queue.drain()

    async def aclose(self) -> None:
        """Close the connections."""
        await self.settle()
        await self._acquiring.aclose()
        await self._completing.aclose()

    async def _await_result(self, queue: CommitQueue[Any, Any], item: Any, *, seconds: float) -> Any:
        wait = min(seconds, _WAIT_SECONDS)
        clock = get_timer_queue()
        future = queue.add(item, max_wait=wait)
        try:
            with Deadline(clock, clock.loop.time() + wait):
                return await future
        except BaseException as error:
            queue.withdraw(item, future)
            if not isinstance(error, TimeoutError) or seconds <= _WAIT_SECONDS:
                raise
            raise _create_unavailable_error() from None

    async def _acquire_batch(self, batch: list[LeaseRequest]) -> Sequence[bool | None]:
        """Request each key only for the first of its concurrent calls; the others read its row."""
        first: dict[RowKey, LeaseRequest] = {}
        for request in batch:
            first.setdefault(request.key, request)
        requests = [first[key] for key in sorted(first)]
        try:
            acquired = await self._acquire(requests)
        except DatabaseUnavailable as error:
            if error.maybe_committed:
                self._release(requests, after=(0.0, _SECOND_RELEASE_SECONDS))
            raise
        return [
            None if request.call_id in acquired.failed else request.call_id in acquired.calls
            for request in batch
        ]

    async def _acquire(self, requests: list[LeaseRequest]) -> "_Acquired":
        try:
            return _Acquired(await self._insert(requests), frozenset())
        except PostgresError as error:
            if len(requests) == 1:
                _log.error(
                    "an idempotency key could not be acquired", sqlstate=getattr(error, "sqlstate", "")
                )
        # A request that PostgreSQL rejects must not affect the others; and a record whose partition was
        # created in the meantime can be stored now.
        calls: set[UUID] = set()
        failed: set[UUID] = set()
        for request in requests:
            try:
                calls |= await self._insert([request])
            except PostgresError:
                failed.add(request.call_id)
            except DatabaseUnavailable as error:
                # The keys of the requests before it were acquired.
                raise DatabaseUnavailable(maybe_committed=error.maybe_committed or bool(calls)) from error
        return _Acquired(calls, failed)

    async def _insert(self, requests: list[LeaseRequest]) -> set[UUID]:
        values = (
            [uuid7() for _ in requests],
            [one.key.tenant for one in requests],
            [one.key.key_id for one in requests],
            [one.key.digest for one in requests],
            [one.fingerprint for one in requests],
            [one.call_id for one in requests],
            [one.lease_seconds for one in requests],
            [one.ttl_seconds for one in requests],
            [one.call_id for one in requests if one.safe],
        )
        records = [one.record for one in requests if one.record is not None]
        if records:
            rows = await self._acquiring.run(_ACQUIRE_AND_RECORD, *values, records_json(records))
        else:
            rows = await self._acquiring.run(_ACQUIRE, *values)
        return {row[0] for row in rows}

    async def _read(self, batch: list[RowKey]) -> Sequence[Any]:
        keys = sorted(set(batch))
        rows = await self._acquiring.run(
            _READ, [key.tenant for key in keys], [key.key_id for key in keys],
            [key.digest for key in keys],
        )  # fmt: skip
        rows_by_key = {RowKey(row["tenant_id"], row["key_id"], row["digest"]): row for row in rows}
        return [rows_by_key.get(key) for key in batch]

    async def _complete_batch(self, batch: list[LeaseCompletion]) -> Sequence[bool]:
        """Store a batch; retry later what cannot be stored, without the records, which the calls store."""
        try:
            stored = await self._store_each(batch)
        except DatabaseUnavailable:
            stored = [False] * len(batch)
        failed = [one for one, done in zip(batch, stored, strict=True) if not done]
        if failed:
            self._retry_later(failed, after=_RETRY_SECONDS)
        return stored

    async def _store_each(self, batch: list[LeaseCompletion]) -> list[bool]:
        try:
            await self._store(batch)
        except PostgresError as error:
            if len(batch) == 1:
                _log.error(
                    "the outcome of an idempotent call was rejected by the database",
                    sqlstate=getattr(error, "sqlstate", ""),
                )
                return [False]
            return [(await self._store_each([one]))[0] for one in batch]
        return [True] * len(batch)

    async def _store(self, batch: list[LeaseCompletion]) -> None:
        latest = {(one.key, one.call_id): one for one in batch}
        completions = [latest[key] for key in sorted(latest)]
        values = (
            [one.key.tenant for one in completions],
            [one.key.key_id for one in completions],
            [one.key.digest for one in completions],
            [one.call_id for one in completions],
            [one.outcome for one in completions],
        )
        records = [one.record for one in batch if one.record is not None]
        if records:
            await self._completing.run(_COMPLETE_AND_RECORD, *values, records_json(records))
        else:
            await self._completing.run(_END, *values)

    def _abandon(self, request: LeaseRequest, result: bool | None) -> None:
        """Release a key that was acquired for a call that no longer waits for it, and was not made."""
        if result:
            self._release([request], after=(0.0,))

    def _release(self, requests: Iterable[LeaseRequest], *, after: Iterable[float]) -> None:
        """Release keys that may have been acquired, after each of these numbers of seconds."""
        now = asyncio.get_running_loop().time()
        completions = [
            LeaseCompletion(one.key, one.call_id, None, now + one.lease_seconds) for one in requests
        ]
        for seconds in after:
            self._retry_later(completions, after=seconds)

    def _retry_later(self, completions: Iterable[LeaseCompletion], *, after: float) -> None:
        due_at = asyncio.get_running_loop().time() + after
        self._pending_retries += [
            (due_at, completion if completion.record is None else replace(completion, record=None))
            for completion in completions
        ]
        if self._retrying is None:
            self._retrying = asyncio.create_task(self._retry(), name="idempotency-retry")
            self._watched.add(self._retrying)

    async def _retry(self) -> None:
        """Retry all failed completions in one task: a task for each would be a load of its own."""
        loop = asyncio.get_running_loop()
        try:
            while self._pending_retries:
                now = loop.time()
                due = [completion for due_at, completion in self._pending_retries if due_at <= now]
                self._pending_retries = [
                    (due_at, completion) for due_at, completion in self._pending_retries if due_at > now
                ]
                for completion in (completion for completion in due if completion.lease_expires_at <= now):
                    self.lost += 1
                    _log.error(
                        "the outcome of an idempotent call could not be stored",
                        call_id=str(completion.call_id),
                    )
                waiting = [
                    self.ends.add(completion) for completion in due if completion.lease_expires_at > now
                ]
                if waiting:
                    await asyncio.wait(waiting)
                if self._pending_retries:
                    await asyncio.sleep(_RETRY_SECONDS)
        finally:
            self._retrying = None


class _Acquired(NamedTuple):
    """The ids of the calls that acquired their keys, and of those for which that failed."""

    calls: set[UUID]
    failed: "frozenset[UUID] | set[UUID]"


def _measure_outcome(completion: LeaseCompletion) -> int:
    return 0 if completion.outcome is None else len(completion.outcome)


def _create_unavailable_error() -> Unavailable:
    return Unavailable("The database does not respond, so calls with an Idempotency-Key cannot be made.")
