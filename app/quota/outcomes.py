"""Outcomes under an Idempotency-Key (draft-ietf-httpapi-idempotency-key-header): a call is carried out once.

    begin ---> Lease      the call may be made; then keep(), release() or nothing
          |--> Kept       it was made: here is how it ended
          '--> an error   it runs, nobody knows how it ended, or the key was used for another call

Rows live in PostgreSQL, because the promise must outlast a restart of everything else. A process that dies in
the middle leaves a row without an outcome; when the call's time is over, nobody can know any more whether the
upstream carried it out, and only a tool without effects is called again. All times are PostgreSQL's.
"""

import asyncio
import contextlib
import math
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import structlog
from sqlalchemy import text

from app.database import Database
from app.errors import (
    GatewayError,
    IdempotencyMismatch,
    IdempotencyRunning,
    IdempotencyUnknown,
    TimeOver,
    Unavailable,
)
from app.models import new_id
from app.security.vault import Vault
from app.tasks import Reports, Watched, end_tasks, repeat

_log = structlog.get_logger(__name__)

_WAIT_SECONDS: Final = 2.0
# Beyond the call's own deadline: for storing the outcome, and for the clocks' difference.
_GRACE_SECONDS: Final = 15.0
_AGAIN_SECONDS: Final = 0.5
_SWEEP_SECONDS: Final = 300.0
_STOP_SECONDS: Final = 30.0
_LONGEST_PAUSE: Final = 5
_SWEEPING: Final = Reports(
    away="expired idempotency keys stay for now: the database is away",
    failed="expired idempotency keys could not be deleted",
)

_BEGIN = text(
    "INSERT INTO idempotency_keys AS kept (id, tenant_id, key_id, digest, fingerprint, call_id, leased_until,"
    " expires_at, created_at)"
    " VALUES (:id, :tenant, :key, :digest, :fingerprint, :call, now() + make_interval(secs => :lease),"
    " now() + make_interval(secs => :life), now())"
    " ON CONFLICT (tenant_id, key_id, digest) DO UPDATE SET fingerprint = excluded.fingerprint,"
    " call_id = excluded.call_id, sealed = NULL, leased_until = excluded.leased_until,"
    " expires_at = excluded.expires_at, created_at = excluded.created_at"
    " WHERE kept.expires_at <= now() OR (:safe AND kept.sealed IS NULL AND kept.leased_until <= now()"
    " AND kept.fingerprint = excluded.fingerprint)"
    " RETURNING kept.id"
)
_FIND = text(
    "SELECT id, fingerprint, call_id, sealed, extract(epoch FROM leased_until - now())::float8 AS left"
    " FROM idempotency_keys WHERE tenant_id = :tenant AND key_id = :key AND digest = :digest"
)
_KEEP = text("UPDATE idempotency_keys SET sealed = :sealed WHERE id = :id AND call_id = :call")
_RELEASE = text("DELETE FROM idempotency_keys WHERE id = :id AND call_id = :call AND sealed IS NULL")
_RETRACT = text(
    "DELETE FROM idempotency_keys WHERE tenant_id = :tenant AND key_id = :key AND digest = :digest"
    " AND call_id = :call AND sealed IS NULL"
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

    id: UUID
    asked: Asked
    until: float


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
        self.begun = 0
        self.replayed = 0
        self.refused = 0
        """Keys of another call, of one that runs, and of one that nobody knows the end of."""
        self.lost = 0
        """Outcomes that could not be stored. All count since the start."""

    async def begin(self, asked: Asked) -> Lease | Kept:
        """Takes the key for a call, or tells how that one ended.

        Raises IdempotencyMismatch, IdempotencyRunning, IdempotencyUnknown (both with the `call_id` of that
        call), and Unavailable without PostgreSQL, or TimeOver where the call's own time is over first: then
        nothing may be sent.
        """
        beginning = asyncio.create_task(self._begin(asked), name="idempotency-begin")
        try:
            await asyncio.wait((beginning,), timeout=max(asked.seconds, 0.001))
        finally:
            # Its connection is used again only when the transaction comes to its own end.
            if not beginning.done():
                self.watch(asyncio.create_task(self._give_back(beginning, asked)))
        if not beginning.done():
            raise TimeOver("The call's time was over while its Idempotency-Key was looked up.")
        return beginning.result()

    async def _begin(self, asked: Asked) -> Lease | Kept:
        row_id = new_id()
        until = asyncio.get_running_loop().time() + asked.seconds + _GRACE_SECONDS
        lease = Lease(row_id, asked, until)
        taken, found = None, None
        begun = False
        try:
            async with asyncio.timeout(_WAIT_SECONDS), self._database.writing() as session:
                taken = await session.scalar(_BEGIN, self._row(lease))
                if taken is None:
                    found = (await session.execute(_FIND, self._place(asked))).one_or_none()
            begun = True
        except TimeoutError:
            raise Unavailable("The database does not answer, so no call can be made only once.") from None
        finally:
            if taken is not None and not begun:
                # Its commit may have come through although nobody said so.
                self.watch(asyncio.create_task(self._retract(asked)))
        if taken is not None:
            self.begun += 1
            return Lease(taken, asked, until)
        if found is None:
            # Released between the two statements.
            self.refused += 1
            raise _running(None, 1.0)
        return self._judge(asked, found)

    async def keep(self, lease: Lease, outcome: bytes) -> None:
        """Stores how the call ended. While PostgreSQL is away it goes on trying beside, for as long as the
        lease lasts."""
        sealed = self._vault.seal(outcome, context=self._context(lease.asked, lease.asked.call_id))
        parameters = {"id": lease.id, "call": lease.asked.call_id, "sealed": sealed}
        if not await self._try(_KEEP, parameters):
            self.watch(asyncio.create_task(self._insist(_KEEP, parameters, lease.until)))

    async def release(self, lease: Lease) -> None:
        """Gives the key free: nothing was carried out."""
        parameters = {"id": lease.id, "call": lease.asked.call_id}
        if not await self._try(_RELEASE, parameters):
            self.watch(asyncio.create_task(self._insist(_RELEASE, parameters, lease.until)))

    def upstream_key(self, asked: Asked, provider_id: UUID) -> str:
        """The key under which an upstream may know the call: the same for each try, a UUID in form, and
        nothing by which one could guess the caller's own."""
        parts = (asked.tenant.bytes, asked.key_id.encode(), provider_id.bytes, asked.text.encode())
        return str(UUID(bytes=self._vault.digest("idempotency-upstream", *parts)[:16], version=4))

    def watch(self, task: "asyncio.Task[Any]") -> None:
        """Keeps a task that must come to its end though nobody waits for it."""
        self._watched.add(task)

    def __len__(self) -> int:
        """Tasks that are being watched."""
        return len(self._watched)

    async def start(self) -> None:
        """Starts deleting what has expired."""
        sweeping = repeat(self.sweep, every=_SWEEP_SECONDS, reports=_SWEEPING)
        self._tasks.append(asyncio.create_task(sweeping, name="idempotency-sweep"))

    async def aclose(self) -> None:
        """Waits for the calls under way and their outcomes, for at most 30 seconds."""
        await end_tasks(self._tasks)
        await self._watched.aclose(seconds=_STOP_SECONDS)

    async def sweep(self) -> int:
        """Deletes what has expired; gives the number. Raises Unavailable."""
        total = 0
        while True:
            async with self._database.writing() as session:
                number = int((await session.execute(_SWEEP)).rowcount)  # type: ignore[attr-defined]
            total += number
            if number < 5000:
                return total

    def _judge(self, asked: Asked, row: Any) -> Kept:
        if row.fingerprint != self._fingerprint(asked):
            self.refused += 1
            raise IdempotencyMismatch(
                "This Idempotency-Key was used for another tool or other arguments: take a new one."
            )
        if row.sealed is not None:
            opened = self._vault.open(bytes(row.sealed), context=self._context(asked, row.call_id))
            self.replayed += 1
            return Kept(row.call_id, opened)
        self.refused += 1
        if row.left > 0:
            raise _running(row.call_id, row.left)
        raise IdempotencyUnknown(
            "The call with this Idempotency-Key was interrupted, and may or may not have been carried out. "
            "Find out at the upstream; to call again in any case, take a new key.",
            extra={"call_id": str(row.call_id)},
        )

    def _row(self, lease: Lease) -> dict[str, Any]:
        asked = lease.asked
        return {
            **self._place(asked),
            "id": lease.id,
            "fingerprint": self._fingerprint(asked),
            "call": asked.call_id,
            "lease": asked.seconds + _GRACE_SECONDS,
            "life": max(self._seconds, asked.seconds + _GRACE_SECONDS),
            "safe": asked.safe,
        }

    def _place(self, asked: Asked) -> dict[str, Any]:
        digest = self._vault.digest("idempotency-key", asked.text.encode())
        return {"tenant": asked.tenant, "key": asked.key_id, "digest": digest}

    def _fingerprint(self, asked: Asked) -> bytes:
        return self._vault.digest("idempotency-content", asked.content)

    def _context(self, asked: Asked, call_id: UUID) -> tuple[str, ...]:
        digest = self._vault.digest("idempotency-key", asked.text.encode()).hex()
        return ("outcome", asked.tenant.hex, asked.key_id, digest, call_id.hex)

    async def _try(self, statement: Any, parameters: dict[str, Any]) -> bool:
        try:
            async with asyncio.timeout(_WAIT_SECONDS), self._database.writing() as session:
                await session.execute(statement, parameters)
        except (Unavailable, TimeoutError):
            return False
        return True

    async def _insist(self, statement: Any, parameters: dict[str, Any], until: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            await asyncio.sleep(_AGAIN_SECONDS)
            if await self._try(statement, parameters):
                return
        self.lost += 1
        _log.error("an outcome could not be stored", call_id=str(parameters["call"]))

    async def _give_back(self, beginning: "asyncio.Task[Lease | Kept]", asked: Asked) -> None:
        """Gives a key free that was taken for a call which nobody waits for any more."""
        with contextlib.suppress(GatewayError):
            if isinstance(await beginning, Lease):
                await self._retract(asked)

    async def _retract(self, asked: Asked) -> None:
        """Deletes what a `begin` that failed may have stored."""
        place = self._place(asked) | {"call": asked.call_id}
        until = asyncio.get_running_loop().time() + asked.seconds + _GRACE_SECONDS
        if not await self._try(_RETRACT, place):
            await self._insist(_RETRACT, place, until)


def _running(call_id: UUID | None, left: float) -> IdempotencyRunning:
    pause = min(max(math.ceil(left), 1), _LONGEST_PAUSE)
    return IdempotencyRunning(
        "The call with this Idempotency-Key has not ended yet: ask again with the same key.",
        headers={"Retry-After": str(pause)},
        extra={} if call_id is None else {"call_id": str(call_id)},
    )
