"""Listing and deciding approvals, and the task that lets them expire."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text as sql
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col, select

from app.calls.approvals.approved_call import RequestedCall
from app.calls.approvals.call_store import CallApprovalStore, ShownCall
from app.calls.approvals.kinds import (
    DECIDING_SCOPES,
    ApprovalCounts,
    ApprovalDecisionName,
    ApprovalHandler,
    ApprovalKind,
    Decision,
    decidable_kinds,
)
from app.calls.approvals.records import (
    approval_json,
    create_decided_error,
    decide,
    find_pending_changes_of,
    find_visible,
    is_overdue,
    read_page_of_approvals,
    record_approval_event,
)
from app.calls.arguments.shown import Shown
from app.core import exact_json
from app.core.background import LoopMessages, cancel_tasks, run_periodically
from app.core.errors import Conflict, NotFound, OwnApproval, scopes_missing
from app.core.pagination import Page, PageRequest
from app.security.principal import Principal, ToolVisibility
from app.storage.database import Database
from app.storage.models import Approval, now

_SWEEP_SECONDS: Final = 60.0
_BATCH: Final = 500
_GATEWAY: Final = "gateway"
_SWEEPING: Final = LoopMessages(
    unavailable="approvals expire later: the database is unavailable", failed="approvals could not be swept"
)
# The keys behind a key: those that created it (the actors of the events of its creation), those that it
# succeeds or that succeed it by rotation, and the keys behind these.
_KEYS_BEHIND: Final = sql(
    "WITH RECURSIVE line(key_id) AS (SELECT CAST(:key AS text) UNION"
    " SELECT behind.key_id FROM line CROSS JOIN LATERAL ("
    "  SELECT events.actor FROM events WHERE events.tenant_id = :tenant AND events.object_type = 'key'"
    "   AND events.object_name = line.key_id AND events.action = 'created'"
    "  UNION ALL SELECT keys.rotated_from FROM keys"
    "   WHERE keys.key_id = line.key_id AND keys.rotated_from IS NOT NULL"
    "  UNION ALL SELECT keys.successor_id FROM keys"
    "   WHERE keys.key_id = line.key_id AND keys.successor_id IS NOT NULL"
    " ) AS behind(key_id))"
    " SELECT key_id FROM line WHERE key_id = ANY(CAST(:others AS text[]))"
)
_EXPIRE: Final = sql(
    "UPDATE approvals SET state = 'expired', ended_at = now(), sealed_request = NULL WHERE id IN"
    " (SELECT id FROM approvals WHERE state = 'pending' AND expires_at <= now()"
    " LIMIT 500 FOR UPDATE SKIP LOCKED) RETURNING id"
)
# Longer than a call can take.
_INTERRUPT: Final = sql(
    "UPDATE approvals SET state = 'failed', ended_at = now(), sealed_request = NULL,"
    " failure = CAST(:failure AS jsonb) WHERE id IN"
    " (SELECT id FROM approvals WHERE state = 'approved' AND decided_at <= now() - interval '1 hour'"
    " LIMIT 500 FOR UPDATE SKIP LOCKED) RETURNING id"
)
_INTERRUPTED: Final = {
    "type": "urn:utcp-gateway:problem:internal-error",
    "title": "Interrupted",
    "status": 500,
    "detail": "The process ended while the call was made: whether the upstream has processed it is unknown. "
    "It is "
    "not made again.",
}
_DROP_RESULTS: Final = sql(
    "UPDATE approvals SET sealed_result = NULL"
    " WHERE sealed_result IS NOT NULL AND ended_at <= now() - make_interval(secs => :seconds)"
)
_FREE_KEYS: Final = sql(
    "UPDATE approvals SET idempotency_digest = NULL WHERE idempotency_digest IS NOT NULL"
    " AND ended_at IS NOT NULL AND requested_at <= now() - make_interval(secs => :seconds)"
)
_DELETE_OLD: Final = sql("DELETE FROM approvals WHERE ended_at <= now() - make_interval(days => :days)")
_COUNT_PENDING: Final = sql("SELECT kind, count(*) FROM approvals WHERE state = 'pending' GROUP BY kind")


@dataclass(frozen=True, slots=True)
class ApprovalRetention:
    """How long what belongs to approvals is retained: results and idempotency keys in seconds, rows in
    days.
    """

    result_seconds: float
    idempotency_seconds: float
    days: int


@dataclass(frozen=True, slots=True)
class ApprovedResult:
    """The result of an approved call: its `body`, or the `problem` that it failed with."""

    call_id: UUID | None
    upstream_status: int | None
    media_type: str
    body: bytes
    problem: dict[str, Any] | None
    headers: Sequence[tuple[str, str]] = ()
    """Those of the upstream's response that may be passed on."""


class ApprovalService:
    """Lists and decides approvals. One per worker; `pending` are the numbers of pending ones by kind, as they
    were at the last sweep.
    """

    def __init__(
        self,
        database: Database,
        store: CallApprovalStore,
        handlers: Mapping[ApprovalKind, ApprovalHandler],
        *,
        retention: ApprovalRetention,
        visibility: ToolVisibility,
    ) -> None:
        self._database = database
        self._store = store
        self._handlers = handlers
        self._retention = retention
        self._visibility = visibility
        self._tasks: list[asyncio.Task[None]] = []
        self.pending: dict[str, int] = {}

    @property
    def counts(self) -> ApprovalCounts:
        """How many approvals of a kind have come into a state in this process."""
        return self._store.counts

    async def start(self) -> None:
        """Start the task that lets approvals expire."""
        sweeping = run_periodically(self.sweep, interval=_SWEEP_SECONDS, messages=_SWEEPING)
        self._tasks.append(asyncio.create_task(sweeping, name="approvals-sweep"))

    async def aclose(self) -> None:
        """Stop the task, and wait for approved calls that are being made."""
        await cancel_tasks(self._tasks)
        for handler in {id(one): one for one in self._handlers.values()}.values():
            await handler.aclose()

    async def page(
        self,
        page: PageRequest,
        *,
        principal: Principal,
        kind: str | None,
        state: str | None,
        provider: str | None,
        q: str | None,
    ) -> Page[Approval]:
        """Return a page of the approvals that the key may see: see `read_page_of_approvals`."""
        async with self._database.read_session() as session:
            return await read_page_of_approvals(
                session, page, principal=principal, kind=kind, state=state, provider=provider, q=q
            )

    async def get(self, approval_id: UUID, *, principal: Principal) -> Approval:
        """Return an approval; raise NotFound where there is none that the key may see."""
        async with self._database.read_session() as session:
            row = await find_visible(session, approval_id, principal=principal)
        if row is None:
            raise NotFound(f"There is no approval {approval_id}.")
        return row

    async def decisions(
        self, rows: Sequence[Approval], *, principal: Principal
    ) -> list[tuple[ApprovalDecisionName, ...]]:
        """Return for each approval which decisions `approve` and `reject` would take from the key now."""
        moment = now()
        decidable = decidable_kinds(principal)
        pending = [row for row in rows if row.state == "pending" and row.expires_at > moment]
        others = {row.requested_by for row in pending if row.kind in decidable} - {principal.key_id}
        behind = await self._find_keys_behind(others, principal) if others else frozenset[str]()
        decisions_by_id: dict[UUID, tuple[ApprovalDecisionName, ...]] = {}
        for row in pending:
            is_own = row.requested_by == principal.key_id
            if row.kind in decidable and not is_own and row.requested_by not in behind:
                decisions_by_id[row.id] = ("approve", "reject")
            elif row.kind in decidable or is_own:
                decisions_by_id[row.id] = ("reject",)
        return [decisions_by_id.get(row.id, ()) for row in rows]

    def shown_call(self, row: Approval, *, principal: Principal) -> ShownCall | None:
        """Return the arguments of the call of an approval as they are shown; None for other kinds. Who only
        requested it does not see those that a toolset has set.
        """
        return self._store.open_arguments(row, with_presets=principal.has_scope("approvals:decide"))

    async def describe_request(self, approval_id: UUID, *, principal: Principal) -> Shown:
        """Return the request that would be sent if a call were approved now, with secrets as `***`, and
        listed.

        Raise NotFound, also where nothing would be sent; Forbidden without the scope for its kind; Conflict
        where it is not pending; and ApprovalOutdated where approving it would fail.
        """
        row = await self.get(approval_id, principal=principal)
        _require_scope(row, principal)
        if row.state != "pending" or is_overdue(row):
            raise create_decided_error(row)
        kind: ApprovalKind = row.kind  # type: ignore[assignment]
        return await self._handlers[kind].describe(row)

    async def pending_changes(self, provider: str, *, principal: Principal) -> Approval:
        """Return the approval of a provider's pending changes; raise Conflict where none are pending."""
        async with self._database.read_session() as session:
            row = await find_pending_changes_of(session, provider, principal=principal)
        if row is None:
            raise Conflict(f"The provider {provider!r} has no pending changes.")
        return row

    async def approve(self, approval_id: UUID, decision: Decision) -> Approval:
        """Do what an approval asks for, and return it as it is afterwards.

        Raise NotFound; Forbidden without the scope for its kind; OwnApproval; Conflict where it is not
        pending; PreconditionFailed; and ApprovalOutdated where it can no longer be done.
        """
        row = await self._require_decidable(approval_id, decision.principal)
        kind: ApprovalKind = row.kind  # type: ignore[assignment]
        return await self._handlers[kind].approve(row, decision)

    async def reject(self, approval_id: UUID, decision: Decision) -> Approval:
        """Reject what an approval asks for, and return it; raise as `approve` does.

        The key that requested it may reject it, too: it takes its request back.
        """
        row = await self._require_decidable(approval_id, decision.principal, may_be_own=True)
        kind: ApprovalKind = row.kind  # type: ignore[assignment]
        async with self._database.transaction() as session:
            decided = await decide(session, approval_id, state="rejected", decision=decision)
            await self._handlers[kind].discard(session, decided)
            await record_approval_event(session, decided, "rejected", actor=decision.principal.key_id)
        self.counts[kind, "rejected"] += 1
        return decided

    async def result(self, approval_id: UUID, *, principal: Principal) -> ApprovedResult:
        """Return the result of the call of an approval, for the key that requested it.

        Raise NotFound for any other key, and where no result is stored any more; Conflict before it has
        ended.
        """
        row = await self._get_requested(approval_id, principal)
        if row.ended_at is None and not is_overdue(row):
            raise Conflict(
                f"There is no result yet: the approval is {row.state}.",
                hint="Wait until `state` of GET /approvals/{id} is executed or failed.",
                extra={"state": row.state},
            )
        stored = self._store.open_outcome(row)
        if stored is None:
            state = approval_json(row)["state"]
            raise NotFound(f"There is no stored result: the approval is {state}.")
        members, body = stored
        return ApprovedResult(
            call_id=row.call_id,
            upstream_status=members.get("upstream_status"),
            media_type=members.get("media_type", ""),
            body=body,
            problem=members.get("problem"),
            headers=members.get("headers", ()),
        )

    async def read_call(self, approval_id: UUID, *, principal: Principal) -> RequestedCall:
        """Return the call of an approval, with how it ended, for the key that requested it; raise NotFound
        for any other key.
        """
        row = await self._get_requested(approval_id, principal)
        return await asyncio.to_thread(self._store.requested_call, row)

    async def _get_requested(self, approval_id: UUID, principal: Principal) -> Approval:
        """Return the approval of a call that the key requested; raise NotFound for any other key, and for the
        result of a tool that the key may not use any more. Of a failure, it has what anybody may know then.
        """
        row = await self.get(approval_id, principal=principal)
        if row.kind != "call" or row.requested_by != principal.key_id:
            raise NotFound("Only the key that requested a call gets its result.")
        if row.sealed_result is not None and not await self._visibility.may_see(
            row.subject_name, principal=principal
        ):
            if row.failure is None:
                raise NotFound("The key may not use the tool any more, and does not get the result.")
            row.sealed_result = None
        return row

    async def sweep(self) -> None:
        """Let approvals expire, delete what is not retained any more, and count those that are pending.

        Raise Unavailable without PostgreSQL.
        """
        while True:
            async with self._database.transaction() as session:
                expired = [row[0] for row in await session.execute(_EXPIRE)]
                await self._end(session, expired, "expired")
            async with self._database.transaction() as session:
                failure = exact_json.dumps(_INTERRUPTED).decode()
                interrupted = [row[0] for row in await session.execute(_INTERRUPT, {"failure": failure})]
                await self._end(session, interrupted, "failed")
            if max(len(expired), len(interrupted)) < _BATCH:
                break
        async with self._database.transaction() as session:
            await session.execute(_DROP_RESULTS, {"seconds": self._retention.result_seconds})
            await session.execute(_FREE_KEYS, {"seconds": self._retention.idempotency_seconds})
            await session.execute(_DELETE_OLD, {"days": self._retention.days})
            self.pending = {row[0]: row[1] for row in await session.execute(_COUNT_PENDING)}

    async def _end(self, session: AsyncSession, ids: Sequence[UUID], action: str) -> None:
        """Discard what belongs to approvals that have ended by themselves, and record that."""
        if not ids:
            return
        for row in (await session.scalars(select(Approval).where(col(Approval.id).in_(ids)))).all():
            kind: ApprovalKind = row.kind  # type: ignore[assignment]
            if action == "expired":
                await self._handlers[kind].discard(session, row)
            await record_approval_event(session, row, action, actor=_GATEWAY)
            self.counts[kind, action] += 1

    async def _require_decidable(
        self, approval_id: UUID, principal: Principal, *, may_be_own: bool = False
    ) -> Approval:
        row = await self.get(approval_id, principal=principal)
        is_own = row.requested_by == principal.key_id
        if not (is_own and may_be_own):
            _require_scope(row, principal)
            if is_own:
                raise OwnApproval("This key has requested it: another key has to approve it.")
            if not may_be_own and await self._find_keys_behind({row.requested_by}, principal):
                raise OwnApproval(
                    f"The key {row.requested_by}, which requested it, has created this key, or one of them "
                    "succeeds the other by rotation: another key has to approve it."
                )
        if row.state != "pending" or is_overdue(row):
            raise create_decided_error(row)
        return row

    async def _find_keys_behind(self, others: Collection[str], principal: Principal) -> frozenset[str]:
        """Return which of the keys `others` are behind the key of a principal: they have created it, directly
        or through other keys, or are of one chain of rotations with it.
        """
        values = {"key": principal.key_id, "others": sorted(others), "tenant": principal.tenant_id}
        async with self._database.read_session() as session:
            return frozenset((await session.execute(_KEYS_BEHIND, values)).scalars())


def _require_scope(row: Approval, principal: Principal) -> None:
    """Raise Forbidden where the scopes of a key do not let it decide about an approval."""
    kind: ApprovalKind = row.kind  # type: ignore[assignment]
    scope = DECIDING_SCOPES[kind]
    if not principal.has_scope(scope):
        detail = f"The API key lacks the scope `{scope}`, which decides about the kind {kind}."
        raise scopes_missing(detail, [scope])
