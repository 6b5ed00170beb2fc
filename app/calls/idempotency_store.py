"""Calls under an Idempotency-Key (draft-ietf-httpapi-idempotency-key-header) are carried out once.

    begin ---> IdempotencyLease   the call may be made; then store(), release() or nothing
          |--> StoredOutcome      it was made: here is how it ended
          '--> an error           it runs, nobody knows how it ended, or the key was used for another call

Rows live in PostgreSQL, because the promise must outlast a restart of everything else. A process that dies in
the middle leaves a row without an outcome; when the call's time is over, nobody can know any more whether the
upstream carried it out, and only a tool without effects is called again. All times are PostgreSQL's.
"""

import asyncio
import math
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text

from app.background import LoopMessages, TaskSet, cancel_tasks, run_periodically
from app.call_log.entries import CallLogEntry
from app.calls.idempotency_table import IdempotencyTable, LeaseEnd, LeaseRequest, RowKey
from app.database import Database
from app.errors import DeadlineExceeded, IdempotencyMismatch, IdempotencyRunning, IdempotencyUnknown
from app.security.vault import Vault

# Beyond the call's own deadline: for storing the outcome, and for the clocks' difference.
_GRACE_SECONDS: Final = 15.0
_SWEEP_SECONDS: Final = 300.0
_STOP_SECONDS: Final = 30.0
_MAX_RETRY_AFTER: Final = 5
_SWEEPING: Final = LoopMessages(
    unavailable="expired idempotency keys stay for now: the database is away",
    failed="expired idempotency keys could not be deleted",
)

_SWEEP = text(
    "DELETE FROM idempotency_keys WHERE id IN"
    " (SELECT id FROM idempotency_keys WHERE expires_at <= now() LIMIT 5000 FOR UPDATE SKIP LOCKED)"
)


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """A call under a key. `text` is the client's own, `content` is what must be the same each time (tool and
    arguments), `seconds` is how long it may take."""

    tenant: UUID
    key_id: str
    text: str
    content: bytes = field(repr=False)
    call_id: UUID
    seconds: float
    safe: bool


@dataclass(frozen=True, slots=True)
class IdempotencyLease:
    """The right to make the call. `until` is a `loop.time()`."""

    request: IdempotentRequest
    until: float
    row_key: RowKey


@dataclass(frozen=True, slots=True)
class StoredOutcome:
    """How the call `call_id` ended; `outcome` is what `store` was given."""

    call_id: UUID
    outcome: bytes = field(repr=False)


class IdempotencyStore:
    """The outcomes of this gateway, and the calls under way that will have one. `seconds` is how long each is
    stored, from its beginning."""

    def __init__(self, database: Database, vault: Vault, *, seconds: float = 86_400.0) -> None:
        self._database = database
        self._vault = vault
        self._seconds = seconds
        self._watched = TaskSet()
        self._tasks: list[asyncio.Task[None]] = []
        self.table = IdempotencyTable(database.dsn, watched=self._watched)
        self.begun = 0
        self.replayed = 0
        self.rejected = 0
        """Keys of another call, of one that runs, and of one that nobody knows the end of. All count since
        the start."""

    @property
    def lost(self) -> int:
        """Outcomes that could not be stored, since the start."""
        return self.table.lost

    async def begin(
        self, request: IdempotentRequest, *, record: CallLogEntry | None = None
    ) -> IdempotencyLease | StoredOutcome:
        """Acquire the key for a call, or return how that one ended. With the key, and only with it, the
        `record` of the call is stored.

        Raises IdempotencyMismatch, IdempotencyRunning, IdempotencyUnknown (both with the `call_id` of that
        call), Unavailable without PostgreSQL, Overloaded where too many calls wait for it, or
        DeadlineExceeded where the call's own time is over first: then nothing may be sent.
        """
        if request.seconds <= 0:
            raise _deadline_exceeded()
        lasts = request.seconds + _GRACE_SECONDS
        row_key = self._row_key(request)
        lease_request = LeaseRequest(
            row_key, self._fingerprint(request), request.call_id, lease=lasts, life=max(self._seconds, lasts),
            safe=request.safe, record=record,
        )  # fmt: skip
        until = asyncio.get_running_loop().time() + lasts
        try:
            if await self.table.acquire(lease_request, seconds=request.seconds):
                self.begun += 1
                return IdempotencyLease(request, until, row_key)
            found = await self.table.read(row_key, seconds=request.seconds)
        except TimeoutError:
            raise _deadline_exceeded() from None
        if found is None:
            # Released between the two statements.
            self.rejected += 1
            raise _running(None, 1.0)
        return self._judge(request, found, lease_request.fingerprint)

    async def store(
        self, lease: IdempotencyLease, outcome: bytes, *, record: CallLogEntry | None = None
    ) -> bool:
        """Store how the call ended, with its `record`; return whether that is done. While PostgreSQL is away
        it is retried in the background, without the record, for as long as the lease lasts."""
        request = lease.request
        sealed = self._vault.seal(outcome, context=_context(lease.row_key, request.call_id))
        return await self.table.end(LeaseEnd(lease.row_key, request.call_id, sealed, lease.until, record))

    async def release(self, lease: IdempotencyLease, *, record: CallLogEntry | None = None) -> bool:
        """Release the key, since nothing was carried out; as `store`."""
        return await self.table.end(LeaseEnd(lease.row_key, lease.request.call_id, None, lease.until, record))

    def upstream_key(self, request: IdempotentRequest, provider_id: UUID) -> str:
        """Return the key under which an upstream may know the call: the same for each try, a UUID in form,
        and nothing by which one could guess the client's own."""
        parts = (request.tenant.bytes, request.key_id.encode(), provider_id.bytes, request.text.encode())
        return str(UUID(bytes=self._vault.digest("idempotency-upstream", *parts)[:16], version=4))

    def watch(self, task: "asyncio.Task[Any]") -> None:
        """Hold a task that must come to its end though nobody waits for it."""
        self._watched.add(task)

    def __len__(self) -> int:
        """Tasks that are being watched, and rows that are being read or written."""
        return len(self._watched) + len(self.table)

    async def start(self) -> None:
        """Start deleting what has expired."""
        sweeping = run_periodically(self.sweep, interval=_SWEEP_SECONDS, messages=_SWEEPING)
        self._tasks.append(asyncio.create_task(sweeping, name="idempotency-sweep"))

    async def aclose(self) -> None:
        """Wait for the calls under way and their outcomes, for at most 30 seconds."""
        await cancel_tasks(self._tasks)
        await self.table.settle()
        await self._watched.aclose(timeout=_STOP_SECONDS)
        await self.table.aclose()

    async def sweep(self) -> int:
        """Delete what has expired; return the number. Raises Unavailable."""
        total = 0
        while True:
            async with self._database.writing() as session:
                number = int((await session.execute(_SWEEP)).rowcount)  # type: ignore[attr-defined]
            total += number
            if number < 5000:
                return total

    def _judge(self, request: IdempotentRequest, row: Any, fingerprint: bytes) -> StoredOutcome:
        if row["fingerprint"] != fingerprint:
            self.rejected += 1
            raise IdempotencyMismatch(
                "This Idempotency-Key was used for another tool or other arguments: take a new one."
            )
        call_id = UUID(int=row["call_id"].int)
        if row["sealed"] is not None:
            row_key = self._row_key(request)
            opened = self._vault.open(row["sealed"], context=_context(row_key, call_id))
            self.replayed += 1
            return StoredOutcome(call_id, opened)
        self.rejected += 1
        if row["left"] > 0:
            raise _running(call_id, row["left"])
        if request.safe:
            # It expired between the two statements, and the next try takes it over.
            raise _running(call_id, 1.0)
        raise IdempotencyUnknown(
            "The call with this Idempotency-Key was interrupted, and may or may not have been carried out. "
            "Find out at the upstream; to call again in any case, take a new key.",
            extra={"call_id": str(call_id)},
        )

    def _row_key(self, request: IdempotentRequest) -> RowKey:
        return RowKey(
            request.tenant, request.key_id, self._vault.digest("idempotency-key", request.text.encode())
        )

    def _fingerprint(self, request: IdempotentRequest) -> bytes:
        return self._vault.digest("idempotency-content", request.content)


def _context(row_key: RowKey, call_id: UUID) -> tuple[str, ...]:
    return ("outcome", row_key.tenant.hex, row_key.key_id, row_key.digest.hex(), call_id.hex)


def _deadline_exceeded() -> DeadlineExceeded:
    return DeadlineExceeded("The call's time was over while its Idempotency-Key was looked up.")


def _running(call_id: UUID | None, left: float) -> IdempotencyRunning:
    retry_after = min(max(math.ceil(left), 1), _MAX_RETRY_AFTER)
    return IdempotencyRunning(
        "The call with this Idempotency-Key has not ended yet: ask again with the same key.",
        headers={"Retry-After": str(retry_after)},
        extra={} if call_id is None else {"call_id": str(call_id)},
    )
