"""Outcomes under an Idempotency-Key (draft-ietf-httpapi-idempotency-key-header): a call is carried out once.

    begin ---> Lease      the call may be made; then keep(), release() or nothing
          |--> Kept       it was made: here is how it ended
          '--> an error   it runs, nobody knows how it ended, or the key was used for another call

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

from app.background import Reports, Watched, end_tasks, repeat
from app.call_log.entries import CallEntry
from app.calls.outcome_store import Beginning, Ending, OutcomeStore, Place
from app.database import Database
from app.errors import IdempotencyMismatch, IdempotencyRunning, IdempotencyUnknown, TimeOver
from app.security.vault import Vault

# Beyond the call's own deadline: for storing the outcome, and for the clocks' difference.
_GRACE_SECONDS: Final = 15.0
_SWEEP_SECONDS: Final = 300.0
_STOP_SECONDS: Final = 30.0
_LONGEST_PAUSE: Final = 5
_SWEEPING: Final = Reports(
    away="expired idempotency keys stay for now: the database is away",
    failed="expired idempotency keys could not be deleted",
)

_SWEEP = text(
    "DELETE FROM idempotency_keys WHERE id IN"
    " (SELECT id FROM idempotency_keys WHERE expires_at <= now() LIMIT 5000 FOR UPDATE SKIP LOCKED)"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A call under a key. `text` is the caller's own, `content` is what must be the same each time (tool and
    arguments), `seconds` is how long it may take."""

    tenant: UUID
    key_id: str
    text: str
    content: bytes = field(repr=False)
    call_id: UUID
    seconds: float
    safe: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to make the call. `until` is a `loop.time()`."""

    asked: Asked
    until: float
    place: Place


@dataclass(frozen=True, slots=True)
class Kept:
    """How the call `call_id` ended; `outcome` is what `keep` was given."""

    call_id: UUID
    outcome: bytes = field(repr=False)


class Outcomes:
    """The outcomes of this gateway, and the calls under way that will have one. `seconds` is how long each is
    kept from its beginning."""

    def __init__(self, database: Database, vault: Vault, *, seconds: float = 86_400.0) -> None:
        self._database = database
        self._vault = vault
        self._seconds = seconds
        self._watched = Watched()
        self._tasks: list[asyncio.Task[None]] = []
        self.store = OutcomeStore(database.dsn, watched=self._watched)
        self.begun = 0
        self.replayed = 0
        self.refused = 0
        """Keys of another call, of one that runs, and of one that nobody knows the end of. All count since
        the start."""

    @property
    def lost(self) -> int:
        """Outcomes that could not be stored, since the start."""
        return self.store.lost

    async def begin(self, asked: Asked, *, record: CallEntry | None = None) -> Lease | Kept:
        """Takes the key for a call, or tells how that one ended. With the key, and only with it, the call is
        put on `record`.

        Raises IdempotencyMismatch, IdempotencyRunning, IdempotencyUnknown (both with the `call_id` of that
        call), Unavailable without PostgreSQL, Overloaded where too many calls wait for it, or TimeOver where
        the call's own time is over first: then nothing may be sent.
        """
        if asked.seconds <= 0:
            raise _time_over()
        lasts = asked.seconds + _GRACE_SECONDS
        place = self._place(asked)
        beginning = Beginning(
            place, self._fingerprint(asked), asked.call_id, lease=lasts, life=max(self._seconds, lasts),
            safe=asked.safe, record=record,
        )  # fmt: skip
        until = asyncio.get_running_loop().time() + lasts
        try:
            if await self.store.take(beginning, seconds=asked.seconds):
                self.begun += 1
                return Lease(asked, until, place)
            found = await self.store.read(place, seconds=asked.seconds)
        except TimeoutError:
            raise _time_over() from None
        if found is None:
            # Released between the two statements.
            self.refused += 1
            raise _running(None, 1.0)
        return self._judge(asked, found, beginning.fingerprint)

    async def keep(self, lease: Lease, outcome: bytes, *, record: CallEntry | None = None) -> bool:
        """Stores how the call ended, with its `record`; says whether that is done. While PostgreSQL is away
        it goes on trying beside, without the record, for as long as the lease lasts."""
        asked = lease.asked
        sealed = self._vault.seal(outcome, context=_context(lease.place, asked.call_id))
        return await self.store.end(Ending(lease.place, asked.call_id, sealed, lease.until, record))

    async def release(self, lease: Lease, *, record: CallEntry | None = None) -> bool:
        """Gives the key free, since nothing was carried out; as `keep`."""
        return await self.store.end(Ending(lease.place, lease.asked.call_id, None, lease.until, record))

    def upstream_key(self, asked: Asked, provider_id: UUID) -> str:
        """The key under which an upstream may know the call: the same for each try, a UUID in form, and
        nothing by which one could guess the caller's own."""
        parts = (asked.tenant.bytes, asked.key_id.encode(), provider_id.bytes, asked.text.encode())
        return str(UUID(bytes=self._vault.digest("idempotency-upstream", *parts)[:16], version=4))

    def watch(self, task: "asyncio.Task[Any]") -> None:
        """Keeps a task that must come to its end though nobody waits for it."""
        self._watched.add(task)

    def __len__(self) -> int:
        """Tasks that are being watched, and rows that are being read or written."""
        return len(self._watched) + len(self.store)

    async def start(self) -> None:
        """Starts deleting what has expired."""
        sweeping = repeat(self.sweep, every=_SWEEP_SECONDS, reports=_SWEEPING)
        self._tasks.append(asyncio.create_task(sweeping, name="idempotency-sweep"))

    async def aclose(self) -> None:
        """Waits for the calls under way and their outcomes, for at most 30 seconds."""
        await end_tasks(self._tasks)
        await self.store.settle()
        await self._watched.aclose(seconds=_STOP_SECONDS)
        await self.store.aclose()

    async def sweep(self) -> int:
        """Deletes what has expired; gives the number. Raises Unavailable."""
        total = 0
        while True:
            async with self._database.writing() as session:
                number = int((await session.execute(_SWEEP)).rowcount)  # type: ignore[attr-defined]
            total += number
            if number < 5000:
                return total

    def _judge(self, asked: Asked, row: Any, fingerprint: bytes) -> Kept:
        if row["fingerprint"] != fingerprint:
            self.refused += 1
            raise IdempotencyMismatch(
                "This Idempotency-Key was used for another tool or other arguments: take a new one."
            )
        call_id = UUID(int=row["call_id"].int)
        if row["sealed"] is not None:
            place = self._place(asked)
            opened = self._vault.open(row["sealed"], context=_context(place, call_id))
            self.replayed += 1
            return Kept(call_id, opened)
        self.refused += 1
        if row["left"] > 0:
            raise _running(call_id, row["left"])
        if asked.safe:
            # It expired between the two statements, and the next try takes it over.
            raise _running(call_id, 1.0)
        raise IdempotencyUnknown(
            "The call with this Idempotency-Key was interrupted, and may or may not have been carried out. "
            "Find out at the upstream; to call again in any case, take a new key.",
            extra={"call_id": str(call_id)},
        )

    def _place(self, asked: Asked) -> Place:
        return Place(asked.tenant, asked.key_id, self._vault.digest("idempotency-key", asked.text.encode()))

    def _fingerprint(self, asked: Asked) -> bytes:
        return self._vault.digest("idempotency-content", asked.content)


def _context(place: Place, call_id: UUID) -> tuple[str, ...]:
    return ("outcome", place.tenant.hex, place.key_id, place.digest.hex(), call_id.hex)


def _time_over() -> TimeOver:
    return TimeOver("The call's time was over while its Idempotency-Key was looked up.")


def _running(call_id: UUID | None, left: float) -> IdempotencyRunning:
    pause = min(max(math.ceil(left), 1), _LONGEST_PAUSE)
    return IdempotencyRunning(
        "The call with this Idempotency-Key has not ended yet: ask again with the same key.",
        headers={"Retry-After": str(pause)},
        extra={} if call_id is None else {"call_id": str(call_id)},
    )
