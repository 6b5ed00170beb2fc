"""Calls that wait for approval: what they are made with is sealed with the id of their approval."""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import orjson
from sqlalchemy import select
from sqlalchemy import text as sql
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.calls.approvals.approved_call import EndedCall, RequestedCall, WaitingCall, describe_comment
from app.calls.approvals.kinds import ApprovalCounts
from app.calls.approvals.records import approval_json, record_approval_event
from app.calls.approvals.token_requesters import serialise_rights
from app.calls.arguments.presets import without_presets
from app.calls.arguments.shown import HiddenPart, show_arguments, without_hidden_at
from app.calls.idempotency.call import ReplayedError, derive_idempotency_namespace
from app.core import exact_json
from app.core.errors import (
    PROBLEM_TYPE,
    Conflict,
    IdempotencyMismatch,
    InvalidArguments,
    RateLimited,
)
from app.core.uuid7 import uuid7
from app.formats.toolclad.envelope import Evidence
from app.protocols.base import Result
from app.security.masking import Masker
from app.security.vault import SealBroken, Vault
from app.storage.database import Database
from app.storage.models import Approval, now

_RETRY_AFTER: Final = "60"
_NO_RESULT: Final[Mapping[str, tuple[str, str]]] = {
    "rejected": (
        "The call was rejected, and was not made.",
        "Do not repeat the call as it is: ask whoever rejected it what to change.",
    ),
    "expired": (
        "Nobody has decided about the call in time, and it was not made.",
        "Make the call again to ask anew, with another idempotency key where it has one.",
    ),
    "executed": (
        "The call was approved and made. Its result is not stored any more.",
        "Do not repeat the call, unless it is to be made a second time: read its effect from the upstream.",
    ),
    "failed": (
        "The call was approved, and has failed. Its problem is not stored any more.",
        "Find out whether the call had its effect before you make it again.",
    ),
}
"""What is known of a call that has ended, by its state, where no result is stored, and what to do next."""
_PROBLEM_MEMBERS: Final = frozenset(
    {"type", "title", "status", "detail", "hint", "retryable", "documentation_url", "errors", "call_id"}
)
# The member of `detail` with the sealed list of what is hidden, in base64.
_HIDDEN: Final = "hidden"
ARGUMENTS: Final = "/arguments"
"""The JSON pointer of the arguments in an approval."""
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
class ShownCall:
    """The arguments of a call as they are shown. `hidden` is None where it is not known what is hidden: of a
    call of an earlier release that is decided.
    """

    arguments: dict[str, Any] = field(repr=False)
    hidden: tuple[HiddenPart, ...] | None


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

    async def request(self, call: WaitingCall) -> RequestedCall:
        """See `CallApprovals`."""
        try:
            row = await asyncio.to_thread(self._build_row, call)
        except (orjson.JSONEncodeError, RecursionError):
            raise InvalidArguments("The arguments are nested too deeply.") from None
        async with self.database.transaction() as session:
            stored = await self._find_stored(session, row)
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
        if is_new:
            self.counts["call", "pending"] += 1
        return await asyncio.to_thread(self.requested_call, stored)

    def requested_call(self, row: Approval) -> RequestedCall:
        """Return the call of an approval for the key that requested it, with how it ended."""
        shown = self.open_arguments(row, with_presets=False)
        hidden = None if shown is None else shown.hidden
        public = approval_json(row)
        public["hidden"] = None if hidden is None else [asdict(part) for part in hidden]
        ended = None if public["ended_at"] is None else self._read_ended_call(row, public)
        return RequestedCall(row.subject_name, public, ended)

    def _read_ended_call(self, row: Approval, public: dict[str, Any]) -> EndedCall:
        call_id = None if row.call_id is None else str(row.call_id)
        stored = self.open_outcome(row)
        if stored is None:
            detail, hint = _NO_RESULT[public["state"]]
            detail += describe_comment(row.comment)
            public = orjson.loads(exact_json.dumps(public))
            return EndedCall(None, error=Conflict(detail, hint=hint, extra={"approval": public}))
        members, body = stored
        evidence = Evidence.from_json(members["evidence"]) if "evidence" in members else None
        if members.get("problem") is not None:
            return EndedCall(call_id, error=_restore_error(members["problem"]), evidence=evidence)
        result = Result(
            status=members["upstream_status"],
            headers=[(name, value) for name, value in members.get("headers", ())],
            media_type=members["media_type"],
            body=body,
            is_masked=members.get("masked", False),
            has_content_blocks=members.get("content_blocks", False),
        )
        return EndedCall(call_id, result, evidence=evidence)

    def open_outcome(self, row: Approval) -> tuple[dict[str, Any], bytes] | None:
        """Return how a call ended: `problem`, or the members of its result and the body; None where that is
        not stored, or not any more. Of a failure, what anybody may know of it is always stored.
        """
        stored = self._open_result(row)
        if stored is None:
            return None if row.failure is None else ({"problem": row.failure}, b"")
        head, _, body = stored.partition(b"\n")
        return orjson.loads(head), body

    def open_request(self, row: Approval) -> dict[str, Any]:
        """Return the members `arguments`, `idempotency_key`, `cdn_loop`, `toolset`, `presets`, `token`,
        `upstream`, `recording_run` and `description_digest` of a stored call; those that were stored by
        release 0.2 have none of the last six.
        """
        call_members: dict[str, Any] = exact_json.loads(
            self.vault.open(row.sealed_request or b"", context=_build_context(row.id, "request"))
        )
        return call_members

    def open_arguments(self, row: Approval, *, with_presets: bool) -> ShownCall | None:
        """Return the arguments of a call as they are shown, and what of them is hidden; None where there are
        none. Without `with_presets`, those that a toolset has set are left out.
        """
        if row.sealed_arguments is None:
            return None
        presets: Sequence[str] = ()
        try:
            opened = self.vault.open(row.sealed_arguments, context=_build_context(row.id, "arguments"))
            arguments = exact_json.loads(opened)
        except SealBroken:
            # Those of a call with presets are sealed for another context, with the pointers to these.
            context = _build_context(row.id, "arguments-and-presets")
            arguments, presets = exact_json.loads(self.vault.open(row.sealed_arguments, context=context))
        hidden = self._list_hidden(row, arguments)
        if with_presets:
            return ShownCall(arguments, hidden)
        if hidden is not None:
            hidden = without_hidden_at(hidden, [ARGUMENTS + one for one in presets])
        return ShownCall(without_presets(arguments, presets), hidden)

    def _list_hidden(self, row: Approval, arguments: dict[str, Any]) -> tuple[HiddenPart, ...] | None:
        """Return what of the arguments is hidden; None where an earlier release has stored the call, which
        did not list it, and the arguments that were sent are deleted.
        """
        listed = row.detail.get(_HIDDEN)
        if listed is not None:
            opened = self.vault.open(base64.b64decode(listed), context=_build_context(row.id, _HIDDEN))
            return tuple(HiddenPart(**part) for part in exact_json.loads(opened))
        if row.sealed_request is None:
            return None
        sent = self.open_request(row)["arguments"]
        size = len(exact_json.dumps(sent))
        return () if sent == arguments else (HiddenPart(ARGUMENTS, "earlier-release", size),)

    def seal_result(self, row: Approval, result: bytes) -> bytes:
        """Return the result of a call, sealed with the id of its approval."""
        return self.vault.seal(result, context=_build_context(row.id, "result"))

    def _open_result(self, row: Approval) -> bytes | None:
        if row.sealed_result is None:
            return None
        return self.vault.open(row.sealed_result, context=_build_context(row.id, "result"))

    def _build_row(self, call: WaitingCall) -> Approval:
        approval_id = uuid7()
        plan = call.plan
        token = call.principal.token
        members = {
            "arguments": call.arguments,
            "idempotency_key": call.idempotency_key,
            "cdn_loop": call.cdn_loop.decode("latin-1"),
            "toolset": call.toolset,
            "presets": dict(call.presets),
            "token": serialise_rights(call.principal),
            "upstream": None if call.upstream is None else call.upstream.to_stored(),
            "recording_run": call.recording_run,
            "description_digest": plan.description_digest.hex(),
        }
        shown = show_arguments(call.arguments, plan.inputs, self.masker, at=ARGUMENTS)
        # In the form of the release before, whose workers may decide about it during an upgrade: they do not
        # know the list.
        part, seen = "arguments", shown.value
        if call.presets:
            part, seen = "arguments-and-presets", [shown.value, sorted(call.presets)]
        listed = exact_json.dumps([asdict(one) for one in shown.hidden])
        sealed_list = self.vault.seal(listed, context=_build_context(approval_id, _HIDDEN))
        detail: dict[str, Any] = {_HIDDEN: base64.b64encode(sealed_list).decode()}
        if token is not None:
            detail["requester"] = token.as_json()
        content = exact_json.dumps(call.arguments, orjson.OPT_SORT_KEYS)
        digest = None
        if call.idempotency_key is not None:
            namespace = derive_idempotency_namespace(call.upstream, call.recording_run)
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
            detail=detail,
            expires_at=now() + timedelta(seconds=self.seconds),
            sealed_request=self.vault.seal(
                exact_json.dumps(members), context=_build_context(approval_id, "request")
            ),
            sealed_arguments=self.vault.seal(
                exact_json.dumps(seen), context=_build_context(approval_id, part)
            ),
            fingerprint=plan.fingerprint,
            idempotency_digest=digest,
            content_digest=self.vault.digest("approval-content", plan.name.encode(), content),
        )

    async def _find_stored(self, session: AsyncSession, row: Approval) -> Approval | None:
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
        stored = await self._find_stored(session, row) if inserted is None else None
        return row if stored is None else stored

    async def _require_room(self, session: AsyncSession, call: WaitingCall) -> None:
        values = {"key": call.principal.key_id, "tenant": call.principal.tenant_id}
        if int((await session.execute(_COUNT_WAITING, values)).scalar_one()) >= self.max_pending:
            raise RateLimited(
                f"{self.max_pending} calls of this API key wait for approval: wait until they are decided.",
                headers={"Retry-After": _RETRY_AFTER},
                extra={"limit": self.max_pending},
            )


def _restore_error(problem: Mapping[str, Any]) -> ReplayedError:
    """Return the error of a stored problem."""
    stored = {
        "status": problem["status"],
        "slug": str(problem["type"]).removeprefix(PROBLEM_TYPE),
        "title": problem["title"],
        "detail": problem["detail"],
        "headers": {},
        "errors": [(one["pointer"], one["detail"], one.get("expected")) for one in problem.get("errors", ())],
        "extra": {name: value for name, value in problem.items() if name not in _PROBLEM_MEMBERS},
    }
    error = ReplayedError(stored)
    error.hint = problem.get("hint", error.hint)
    return error


def _build_context(approval_id: UUID, part: str) -> tuple[str, ...]:
    return ("approval", str(approval_id), part)
