"""Calls that wait for approval: what they are made with is sealed with the id of their approval."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import orjson
from sqlalchemy import select
from sqlalchemy import text as sql
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app import exact_json
from app.approvals.kinds import ApprovalCounts
from app.approvals.records import approval_json, record_approval_event
from app.approvals.token_requesters import stored_rights
from app.calls.approvals import WaitingCall
from app.calls.argument_masking import masked_arguments
from app.calls.idempotent_call import idempotency_namespace
from app.calls.presets import without_presets
from app.database import Database
from app.errors import IdempotencyMismatch, InvalidArguments, RateLimited
from app.models import Approval, now
from app.security.masking import Masker
from app.security.vault import SealBroken, Vault
from app.uuid7 import uuid7

_RETRY_AFTER: Final = "60"
# The calls of the keys that the key succeeds by rotation count, too: any key may rotate itself. The principal
# of an access token has no row.
_COUNT_WAITING: Final = sql(
    "WITH RECURSIVE chain(key_id, previous) AS ("
    " SELECT CAST(:key AS text), (SELECT rotated_from FROM keys WHERE key_id = :key)"
    " UNION SELECT keys.key_id, keys.rotated_from FROM keys JOIN chain ON keys.key_id = chain.previous)"
    " SELECT count(*) FROM approvals JOIN chain ON approvals.requested_by = chain.key_id"
    " WHERE approvals.tenant_id = :tenant AND approvals.state = 'pending' AND approvals.kind = 'call'"
)


@dataclass(frozen=True, slots=True)
class CallApprovalStore:
    """Stores calls that wait for approval, at most `max_pending` of a key, with those that it succeeds by
    rotation, at a time, for `seconds` each.

    `retention_seconds` is how long an idempotency key stands for its approval after the request.
    """

    database: Database
    vault: Vault
    masker: Masker
    counts: ApprovalCounts
    seconds: float
    max_pending: int

    async def request(self, call: WaitingCall) -> dict[str, Any]:
        """See `CallApprovals`."""
        try:
            row = await asyncio.to_thread(self._row, call)
        except orjson.JSONEncodeError:
            raise InvalidArguments("The arguments are nested too deeply.") from None
        async with self.database.transaction() as session:
            stored = await self._stored(session, row)
            if stored is None:
                await self._require_room(session, call)
                stored = await self._insert(session, row)
            if stored.content_digest != row.content_digest:
                raise IdempotencyMismatch(
                    "This Idempotency-Key was used for another tool or other arguments: use a new one."
                )
            is_new = stored.id == row.id
            if is_new:
                await record_approval_event(session, stored, "requested", actor=call.principal.key_id)
            public = approval_json(stored)
        if is_new:
            self.counts["call", "pending"] += 1
        return public

    def open_request(self, row: Approval) -> dict[str, Any]:
        """Return the members `arguments`, `idempotency_key`, `cdn_loop`, `toolset`, `presets`, `token`,
        `upstream` and `recording_run` of a stored call; those that were stored by release 0.2 have none of
        the last five.
        """
        found: dict[str, Any] = exact_json.loads(
            self.vault.open(row.sealed_request or b"", context=_context(row.id, "request"))
        )
        return found

    def open_arguments(self, row: Approval, *, with_presets: bool) -> dict[str, Any] | None:
        """Return the arguments of a call as they are shown, with secrets masked; None where there are
        none. Without `with_presets`, those that a toolset has set are left out.
        """
        if row.sealed_arguments is None:
            return None
        try:
            opened = self.vault.open(row.sealed_arguments, context=_context(row.id, "arguments"))
        except SealBroken:
            # Those of a call with presets are sealed for another context, with the pointers to these.
            opened = self.vault.open(row.sealed_arguments, context=_context(row.id, "arguments-and-presets"))
            arguments, presets = orjson.loads(opened)
            return arguments if with_presets else without_presets(arguments, presets)
        found: dict[str, Any] = orjson.loads(opened)
        return found

    def seal_result(self, row: Approval, result: bytes) -> bytes:
        """Return the result of a call, sealed with the id of its approval."""
        return self.vault.seal(result, context=_context(row.id, "result"))

    def open_result(self, row: Approval) -> bytes | None:
        """Return the result of a call; None where none is stored, or not any more."""
        if row.sealed_result is None:
            return None
        return self.vault.open(row.sealed_result, context=_context(row.id, "result"))

    def _row(self, call: WaitingCall) -> Approval:
        approval_id = uuid7()
        plan = call.plan
        token = call.principal.token
        members = {
            "arguments": call.arguments,
            "idempotency_key": call.idempotency_key,
            "cdn_loop": call.cdn_loop.decode("latin-1"),
            "toolset": call.toolset,
            "presets": dict(call.presets),
            "token": stored_rights(call.principal),
            "upstream": None if call.upstream is None else call.upstream.to_stored(),
            "recording_run": call.recording_run,
        }
        masked: Any = masked_arguments(call.arguments, plan.inputs, self.masker)
        kind = "arguments"
        if call.presets:
            masked, kind = [masked, sorted(call.presets)], "arguments-and-presets"
        content = exact_json.dumps(call.arguments, orjson.OPT_SORT_KEYS)
        digest = None
        if call.idempotency_key is not None:
            namespace = idempotency_namespace(call.upstream, call.recording_run)
            parts = (call.idempotency_key, namespace) if namespace else (call.idempotency_key,)
            digest = self.vault.digest("approval-key", *(part.encode() for part in parts))
        return Approval(
            id=approval_id,
            tenant_id=call.principal.tenant_id,
            kind="call",
            subject_type="tool",
            subject_name=plan.name,
            provider=plan.provider,
            provider_id=plan.provider_id,
            requested_by=call.principal.key_id,
            detail={} if token is None else {"requester": token.as_json()},
            expires_at=now() + timedelta(seconds=self.seconds),
            sealed_request=self.vault.seal(
                exact_json.dumps(members), context=_context(approval_id, "request")
            ),
            sealed_arguments=self.vault.seal(exact_json.dumps(masked), context=_context(approval_id, kind)),
            fingerprint=plan.fingerprint,
            idempotency_digest=digest,
            content_digest=self.vault.digest("approval-content", plan.name.encode(), content),
        )

    async def _stored(self, session: AsyncSession, row: Approval) -> Approval | None:
        """Return the approval that was requested earlier with the same idempotency key, if there is one."""
        if row.idempotency_digest is None:
            return None
        statement = select(Approval).where(
            col(Approval.tenant_id) == row.tenant_id,
            col(Approval.requested_by) == row.requested_by,
            col(Approval.idempotency_digest) == row.idempotency_digest,
        )
        return (await session.execute(statement)).scalar_one_or_none()

    async def _insert(self, session: AsyncSession, row: Approval) -> Approval:
        values = {column.name: getattr(row, column.name) for column in Approval.__table__.columns}  # type: ignore[attr-defined]
        # JSON null would be stored in place of NULL.
        values = {name: value for name, value in values.items() if value is not None}
        statement = insert(Approval).values(**values).on_conflict_do_nothing().returning(col(Approval.id))
        inserted = (await session.execute(statement)).scalar_one_or_none()
        stored = await self._stored(session, row) if inserted is None else None
        return row if stored is None else stored

    async def _require_room(self, session: AsyncSession, call: WaitingCall) -> None:
        values = {"key": call.principal.key_id, "tenant": call.principal.tenant_id}
        if int((await session.execute(_COUNT_WAITING, values)).scalar_one()) >= self.max_pending:
            raise RateLimited(
                f"{self.max_pending} calls of this API key wait for approval: wait until they are decided.",
                headers={"Retry-After": _RETRY_AFTER},
                extra={"limit": self.max_pending},
            )


def _context(approval_id: UUID, part: str) -> tuple[str, ...]:
    return ("approval", str(approval_id), part)
