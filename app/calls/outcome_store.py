"""The rows of calls under an Idempotency-Key: taken, read, and ended, many in one commit.

Two connections beside the pool: on one keys are taken and read, on the other calls end, which must not wait
behind those that begin. A call costs two commits, each shared with what comes at the same time; where the
audit promises a record (AUDIT_MODE=strict), it lies in the same two. Batches of several replicas lock rows in
one order, so that they cannot wait for each other.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
from uuid import UUID

import structlog
from asyncpg.exceptions import PostgresError

from app.background import Watched
from app.call_log.entries import CallEntry
from app.call_log.store import columns, insertion
from app.database.commits import CommitConnection, CommitQueue, DatabaseAway
from app.deadlines import Bound, timers
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
# Outcomes are up to IDEMPOTENCY_BYTES long.
_MAX_BYTES: Final = 4 << 20
_MAX_READ: Final = 16
_FAILED: Final = object()

_TAKE: Final = (
    "INSERT INTO idempotency_keys AS kept (id, tenant_id, key_id, digest, fingerprint, call_id, leased_until,"
    " expires_at, created_at)"
    " SELECT a.id, a.tenant_id, a.key_id, a.digest, a.fingerprint, a.call_id,"
    " now() + make_interval(secs => a.lease), now() + make_interval(secs => a.life), now()"
    " FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[], $5::bytea[], $6::uuid[], $7::float8[],"
    " $8::float8[]) AS a(id, tenant_id, key_id, digest, fingerprint, call_id, lease, life)"
    " ON CONFLICT (tenant_id, key_id, digest) DO UPDATE SET fingerprint = excluded.fingerprint,"
    " call_id = excluded.call_id, sealed = NULL, leased_until = excluded.leased_until,"
    " expires_at = excluded.expires_at, created_at = excluded.created_at"
    " WHERE kept.expires_at <= now()"
    # The same statement a second time, because nobody said that the first was committed.
    " OR (kept.call_id = excluded.call_id AND kept.sealed IS NULL)"
    # $9 are the calls of tools without effects.
    " OR (excluded.call_id = ANY($9::uuid[]) AND kept.sealed IS NULL AND kept.leased_until <= now()"
    " AND kept.fingerprint = excluded.fingerprint)"
    " RETURNING kept.call_id"
)
_RECORD_TAKEN: Final = insertion(first=10, condition="r.id IN (SELECT call_id FROM taken)")
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
_END_AND_RECORD: Final = f"{_ENDED} {insertion(first=6)}"


class Place(NamedTuple):
    """Which row: the caller's key text as a keyed digest, within an API key of a tenant."""

    tenant: UUID
    key_id: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Beginning:
    """A call that asks for the key. `lease` and `life` are seconds; `record` is stored with the key only."""

    place: Place
    fingerprint: bytes = field(repr=False)
    call_id: UUID
    lease: float
    life: float
    safe: bool
    record: CallEntry | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """The sealed outcome of a call, None where the key is released; tried until `until` (`loop.time()`)."""

    place: Place
    call_id: UUID
    outcome: bytes | None = field(repr=False)
    until: float
    record: CallEntry | None = None


class OutcomeStore:
    """The rows in PostgreSQL at `dsn`. `lost` counts endings that could not be stored in their time.

    `begins`, `reads` and `ends` are the queues. Tasks that nobody waits for go to `watched`.
    """

    def __init__(self, dsn: str, *, watched: Watched) -> None:
        self._beginning = CommitConnection(dsn, seconds=_STATEMENT_SECONDS, purpose="idempotency keys")
        self._ending = CommitConnection(dsn, seconds=_STATEMENT_SECONDS, purpose="idempotency outcomes")
        self.begins: CommitQueue[Beginning, bool | None] = CommitQueue(
            self._take, failed=None, max_batch=_MAX_BATCH, abandoned=self._abandon
        )
        self.reads: CommitQueue[Place, Any] = CommitQueue(self._read, failed=_FAILED, max_batch=_MAX_READ)
        self.ends: CommitQueue[Ending, bool] = CommitQueue(
            self._end, failed=False, max_batch=_MAX_BATCH, max_bytes=_MAX_BYTES, weigh=_bytes
        )
        self._watched = watched
        self._late: list[tuple[float, Ending]] = []
        self._retrying: asyncio.Task[None] | None = None
        self.lost = 0

    def __len__(self) -> int:
        """Rows that are being read or written."""
        return len(self.begins) + len(self.reads) + len(self.ends)

    async def take(self, beginning: Beginning, *, seconds: float) -> bool:
        """Whether the key is this call's now.

        Raises Overloaded and Unavailable, and TimeoutError where `seconds` are over before that is known. In
        all these cases nothing may be sent, and the key is released where it was taken.
        """
        taken: bool | None = await self._result(self.begins, beginning, seconds=seconds)
        if taken is None:
            raise _away()
        return taken

    async def read(self, place: Place, *, seconds: float) -> Any:
        """The row at a place, None where there is none; raises what `take` raises."""
        found = await self._result(self.reads, place, seconds=seconds)
        if found is _FAILED:
            raise _away()
        return found

    async def end(self, ending: Ending) -> bool:
        """Whether it was stored within two seconds; otherwise it is tried beside until its time is over."""
        future = self.ends.add(ending)
        await asyncio.wait((future,), timeout=_WAIT_SECONDS)
        return future.done() and future.result()

    async def settle(self) -> None:
        """Waits for the batches under way, and for those behind them."""
        for queue in (self.begins, self.reads, self.ends):
            await queue.settle()

    async def aclose(self) -> None:
        """Closes the connections."""
        await self.settle()
        await self._beginning.aclose()
        await self._ending.aclose()

    async def _result(self, queue: CommitQueue[Any, Any], item: Any, *, seconds: float) -> Any:
        wait = min(seconds, _WAIT_SECONDS)
        clock = timers()
        future = queue.add(item, seconds=wait)
        try:
            with Bound(clock, clock.loop.time() + wait):
                return await future
        except BaseException as error:
            queue.withdraw(item, future)
            if not isinstance(error, TimeoutError) or seconds <= _WAIT_SECONDS:
                raise
            raise _away() from None

    async def _take(self, batch: list[Beginning]) -> Sequence[bool | None]:
        """Of calls under one key only the first asks for it; the others will read what became of that."""
        first: dict[Place, Beginning] = {}
        for one in batch:
            first.setdefault(one.place, one)
        asking = [first[place] for place in sorted(first)]
        try:
            taken = await self._taken(asking)
        except DatabaseAway as error:
            if error.sent:
                self._release(asking, after=(0.0, _SECOND_RELEASE_SECONDS))
            raise
        return [None if one.call_id in taken.failed else one.call_id in taken.calls for one in batch]

    async def _taken(self, asking: list[Beginning]) -> "_Taken":
        try:
            return _Taken(await self._ask(asking), frozenset())
        except PostgresError as error:
            if len(asking) == 1:
                _log.error("an idempotency key could not be taken", sqlstate=getattr(error, "sqlstate", ""))
        # One that PostgreSQL rejects must not keep the others out; and a record whose partition was made
        # meanwhile finds it now.
        calls: set[UUID] = set()
        failed: set[UUID] = set()
        for one in asking:
            try:
                calls |= await self._ask([one])
            except PostgresError:
                failed.add(one.call_id)
            except DatabaseAway as error:
                # Those before it were taken.
                raise DatabaseAway(sent=error.sent or bool(calls)) from error
        return _Taken(calls, failed)

    async def _ask(self, asking: list[Beginning]) -> set[UUID]:
        values = (
            [new_id() for _ in asking],
            [one.place.tenant for one in asking],
            [one.place.key_id for one in asking],
            [one.place.digest for one in asking],
            [one.fingerprint for one in asking],
            [one.call_id for one in asking],
            [one.lease for one in asking],
            [one.life for one in asking],
            [one.call_id for one in asking if one.safe],
        )
        records = [one.record for one in asking if one.record is not None]
        if records:
            rows = await self._beginning.run(_TAKE_AND_RECORD, *values, *columns(records).values())
        else:
            rows = await self._beginning.run(_TAKE, *values)
        return {row[0] for row in rows}

    async def _read(self, batch: list[Place]) -> Sequence[Any]:
        places = sorted(set(batch))
        rows = await self._beginning.run(
            _READ, [one.tenant for one in places], [one.key_id for one in places],
            [one.digest for one in places],
        )  # fmt: skip
        found = {Place(row["tenant_id"], row["key_id"], row["digest"]): row for row in rows}
        return [found.get(place) for place in batch]

    async def _end(self, batch: list[Ending]) -> Sequence[bool]:
        """What cannot be stored now is tried again later, without its record, which goes another way."""
        try:
            stored = await self._stored(batch)
        except DatabaseAway:
            stored = [False] * len(batch)
        late = [one for one, done in zip(batch, stored, strict=True) if not done]
        if late:
            self._later(late, after=_RETRY_SECONDS)
        return stored

    async def _stored(self, batch: list[Ending]) -> list[bool]:
        try:
            await self._store(batch)
        except PostgresError as error:
            if len(batch) == 1:
                _log.error("an outcome was rejected by the database", sqlstate=getattr(error, "sqlstate", ""))
                return [False]
            return [(await self._stored([one]))[0] for one in batch]
        return [True] * len(batch)

    async def _store(self, batch: list[Ending]) -> None:
        latest = {(one.place, one.call_id): one for one in batch}
        ending = [latest[which] for which in sorted(latest)]
        values = (
            [one.place.tenant for one in ending],
            [one.place.key_id for one in ending],
            [one.place.digest for one in ending],
            [one.call_id for one in ending],
            [one.outcome for one in ending],
        )
        records = [one.record for one in batch if one.record is not None]
        if records:
            await self._ending.run(_END_AND_RECORD, *values, *columns(records).values())
        else:
            await self._ending.run(_END, *values)

    def _abandon(self, beginning: Beginning, result: bool | None) -> None:
        """The caller has gone before it knew that its key was taken: nothing was sent."""
        if result:
            self._release([beginning], after=(0.0,))

    def _release(self, beginnings: Iterable[Beginning], *, after: Iterable[float]) -> None:
        """Releases keys that may have been taken, so many seconds from now."""
        now = asyncio.get_running_loop().time()
        endings = [Ending(one.place, one.call_id, None, now + one.lease) for one in beginnings]
        for seconds in after:
            self._later(endings, after=seconds)

    def _later(self, endings: Iterable[Ending], *, after: float) -> None:
        at = asyncio.get_running_loop().time() + after
        self._late += [(at, one if one.record is None else replace(one, record=None)) for one in endings]
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


class _Taken(NamedTuple):
    """The calls that have their keys, and those whose keys could not be asked for."""

    calls: set[UUID]
    failed: "frozenset[UUID] | set[UUID]"


def _bytes(ending: Ending) -> int:
    return 0 if ending.outcome is None else len(ending.outcome)


def _away() -> Unavailable:
    return Unavailable("The database does not answer, so no call can be made only once.")
