"""The outcomes of calls with an Idempotency-Key (draft-ietf-httpapi-idempotency-key-header).

    begin ---> IdempotencyLease   the call may be made; then call store(), release() or neither
          |--> StoredOutcome      the call was made earlier, and this is its outcome
          '--> an error           the call is running, its outcome is unknown, or its key was another call's

The rows are in PostgreSQL, so that they survive a restart of all other components. A process that ends during
a call leaves a row without an outcome. Once the lease of such a call has expired, it is unknown whether the
upstream processed the call, and only a safe tool is called again. All times are those of PostgreSQL's clock.
"""

import asyncio
import math
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text as sql

from app.calls.idempotency.table import IdempotencyTable, LeaseCompletion, LeaseRequest, RowKey
from app.calls.log.entries import CallLogEntry
from app.core.background import LoopMessages, TaskSet, cancel_tasks, run_periodically
from app.core.errors import (
    DeadlineExceeded,
    IdempotencyMismatch,
    IdempotencyRunning,
    IdempotencyUnknown,
)
from app.security.vault import Vault
from app.storage.database import Database

# Added to the call's duration in its lease: for storing the outcome, and for differences between clocks.
_GRACE_SECONDS: Final = 15.0
_SWEEP_SECONDS: Final = 300.0
_STOP_SECONDS: Final = 30.0
_MAX_RETRY_AFTER: Final = 5
_SWEEPING: Final = LoopMessages(
    unavailable="expired idempotency keys are deleted later: the database is unavailable",
    failed="expired idempotency keys could not be deleted",
)

_SWEEP = sql(
    "DELETE FROM idempotency_keys WHERE id IN"
    " (SELECT id FROM idempotency_keys WHERE expires_at <= now() LIMIT 5000 FOR UPDATE SKIP LOCKED)"
)


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """A call with an idempotency key.

    `text` is the key as the client sent it, within the API key `key_id`. `content` (tool and arguments) must
    be the same each time that the key is used. The call takes at most `seconds`; `safe` says that its tool
    has no side effects.

    `operation` is "" for a call; a request of the control plane names its operation, and has keys of its own.
    Its outcome is stored for `retention_seconds`, where that is not None. Calls of different namespaces have
    keys of their own, too.
    """

    tenant: UUID
    key_id: str
    text: str
    content: bytes = field(repr=False)
    call_id: UUID
    seconds: float
    safe: bool
    operation: str = ""
    namespace: str = ""
    retention_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class IdempotencyLease:
    """The right to make the call until `expires_at` (`loop.time()`)."""

    request: IdempotentRequest
    expires_at: float
    row_key: RowKey


@dataclass(frozen=True, slots=True)
class StoredOutcome:
    """The outcome of the call `call_id`, as the bytes that were passed to `store`."""

    call_id: UUID
    outcome: bytes = field(repr=False)


class IdempotencyStore:
    """Leases for calls with an idempotency key, and their stored outcomes.

    An outcome is stored until `retention_seconds` after the call began. `begun`, `replayed` and `rejected`
    count since the start.
    """

    def __init__(self, database: Database, vault: Vault, *, retention_seconds: float = 86_400.0) -> None:
        self._database = database
        self._vault = vault
        self._retention_seconds = retention_seconds
        self._watched = TaskSet()
        self._tasks: list[asyncio.Task[None]] = []
        self.table = IdempotencyTable(database.dsn, watched=self._watched)
        self.begun = 0
        self.replayed = 0
        self.rejected = 0
        """Requests with the key of another call, of a running call, or of one with an unknown outcome."""

    @property
    def lost(self) -> int:
        """Outcomes that could not be stored, since the start."""
        return self.table.lost

    async def begin(
        self, request: IdempotentRequest, *, record: CallLogEntry | None = None
    ) -> IdempotencyLease | StoredOutcome:
        """Acquire the key for a call, or return the outcome of the call that acquired it earlier.

        `record` is stored in the same transaction as the lease, and only with it. Raise IdempotencyMismatch;
        IdempotencyRunning or IdempotencyUnknown, with the `call_id` of the earlier call; Unavailable without
        PostgreSQL; Overloaded where too many calls wait for it; and DeadlineExceeded where `request.seconds`
        pass before the key is acquired. After an error, the call must not be made.
        """
        if request.seconds <= 0:
            raise _create_deadline_error()
        lease_seconds = request.seconds + _GRACE_SECONDS
        row_key = self._derive_row_key(request)
        retention = request.retention_seconds or self._retention_seconds
        lease_request = LeaseRequest(
            row_key,
            self._digest_content(request),
            request.call_id,
            lease_seconds=lease_seconds,
            ttl_seconds=max(retention, lease_seconds),
            safe=request.safe,
            record=record,
        )
        expires_at = asyncio.get_running_loop().time() + lease_seconds
        try:
            if await self.table.acquire(lease_request, seconds=request.seconds):
                self.begun += 1
                return IdempotencyLease(request, expires_at, row_key)
            row = await self.table.read(row_key, seconds=request.seconds)
        except TimeoutError:
            raise _create_deadline_error() from None
        if row is None:
            # The key was released between the two statements.
            self.rejected += 1
            raise _create_running_error(request, None, 1.0)
        return self._read_outcome(request, row, lease_request.fingerprint)

    async def store(
        self, lease: IdempotencyLease, outcome: bytes, *, record: CallLogEntry | None = None
    ) -> bool:
        """Store the outcome of the call together with its `record`; return whether both are stored.

        Where they are not, storing the outcome is retried in the background, without the record, until the
        lease expires.
        """
        request = lease.request
        sealed = self._vault.seal(outcome, context=_build_context(lease.row_key, request.call_id))
        return await self.table.complete(
            LeaseCompletion(lease.row_key, request.call_id, sealed, lease.expires_at, record)
        )

    async def release(self, lease: IdempotencyLease, *, record: CallLogEntry | None = None) -> bool:
        """Release the key of a call that was not processed; return as `store` does."""
        return await self.table.complete(
            LeaseCompletion(lease.row_key, lease.request.call_id, None, lease.expires_at, record)
        )

    def derive_upstream_key(self, request: IdempotentRequest, provider_id: UUID) -> str:
        """Return the idempotency key that is sent to the upstream: a UUID, the same in each attempt.

        It is a keyed digest, so that the client's own key cannot be derived from it.
        """
        parts = (request.tenant.bytes, request.key_id.encode(), provider_id.bytes, request.text.encode())
        return str(UUID(bytes=self._vault.digest("idempotency-upstream", *parts)[:16], version=4))

    def watch(self, task: "asyncio.Task[Any]") -> None:
        """Hold a reference to a task until it ends, though nothing waits for it; `aclose` waits for it."""
        self._watched.add(task)

    def __len__(self) -> int:
        """Return the number of watched tasks, and of rows that are being read or written."""
        return len(self._watched) + len(self.table)

    async def start(self) -> None:
        """Start the task that deletes expired rows."""
        sweeping = run_periodically(self.sweep, interval=_SWEEP_SECONDS, messages=_SWEEPING)
        self._tasks.append(asyncio.create_task(sweeping, name="idempotency-sweep"))

    async def aclose(self) -> None:
        """Wait for calls in progress and for storing their outcomes, for at most 30 seconds."""
        await cancel_tasks(self._tasks)
        await self.table.settle()
        await self._watched.aclose(timeout=_STOP_SECONDS)
        await self.table.aclose()

    async def sweep(self) -> int:
        """Delete expired rows and return their number; raise Unavailable without PostgreSQL."""
        total = 0
        while True:
            async with self._database.transaction() as session:
                number = int((await session.execute(_SWEEP)).rowcount)  # type: ignore[attr-defined]
            total += number
            if number < 5000:
                return total

    def _read_outcome(self, request: IdempotentRequest, row: Any, fingerprint: bytes) -> StoredOutcome:
        """Return the outcome in the row of an earlier call; raise the errors of `begin` where it has none."""
        if row["fingerprint"] != fingerprint:
            self.rejected += 1
            other = "with another body" if request.operation else "for another tool or other arguments"
            raise IdempotencyMismatch(f"This Idempotency-Key was used {other}: use a new one.")
        call_id = UUID(int=row["call_id"].int)
        if row["sealed"] is not None:
            row_key = self._derive_row_key(request)
            opened = self._vault.open(row["sealed"], context=_build_context(row_key, call_id))
            self.replayed += 1
            return StoredOutcome(call_id, opened)
        self.rejected += 1
        if row["lease_seconds_left"] > 0:
            raise _create_running_error(request, call_id, row["lease_seconds_left"])
        if request.safe:
            # The lease expired between the two statements: the next request acquires the key.
            raise _create_running_error(request, call_id, 1.0)
        if request.operation:
            raise IdempotencyUnknown(
                "The request with this Idempotency-Key was interrupted; it is unknown whether it was "
                "processed. Read what there is; to send the request in any case, use a new key."
            )
        raise IdempotencyUnknown(
            "The call with this Idempotency-Key was interrupted; it is unknown whether it was processed. "
            "Check at the upstream; to make the call in any case, use a new key.",
            extra={"call_id": str(call_id)},
        )

    def _derive_row_key(self, request: IdempotentRequest) -> RowKey:
        text = request.text.encode()
        if request.operation:
            digest = self._vault.digest("idempotency-operation", request.operation.encode(), text)
        elif request.namespace:
            digest = self._vault.digest("idempotency-namespace", request.namespace.encode(), text)
        else:
            digest = self._vault.digest("idempotency-key", text)
        return RowKey(request.tenant, request.key_id, digest)

    def _digest_content(self, request: IdempotentRequest) -> bytes:
        return self._vault.digest("idempotency-content", request.content)


def _build_context(row_key: RowKey, call_id: UUID) -> tuple[str, ...]:
    return ("outcome", row_key.tenant.hex, row_key.key_id, row_key.digest.hex(), call_id.hex)


def _create_deadline_error() -> DeadlineExceeded:
    return DeadlineExceeded("The call's deadline passed while its Idempotency-Key was looked up.")


def _create_running_error(
    request: IdempotentRequest, call_id: UUID | None, seconds_left: float
) -> IdempotencyRunning:
    retry_after = min(max(math.ceil(seconds_left), 1), _MAX_RETRY_AFTER)
    what = "request" if request.operation else "call"
    return IdempotencyRunning(
        f"The {what} with this Idempotency-Key is still running: repeat the request with the same key later.",
        headers={"Retry-After": str(retry_after)},
        extra={} if call_id is None or request.operation else {"call_id": str(call_id)},
    )
