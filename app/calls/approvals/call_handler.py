"""Making a call that was approved: at most once, by the key that requested it, with the stored arguments.

What holds then decides, and not what held when it was requested: the key, its restrictions, the tool and, for
a call by the address of a toolset, whether the tool is a member whose hidden inputs have the same values.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import orjson
import structlog
from sqlalchemy import func, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.repository import find_key, is_expired
from app.access.verifier import principal_of
from app.calls import CallContext, CallRequest, CallServices, describe, execute
from app.calls.approvals.approved_call import ApprovedCall
from app.calls.approvals.call_store import CallApprovalStore
from app.calls.approvals.kinds import ApprovalState, Decision
from app.calls.approvals.records import approval_json, decide, record_approval_event
from app.calls.approvals.token_requesters import restore_principal
from app.calls.arguments.presets import read_preset_values, with_presets, without_presets
from app.calls.arguments.shown import Shown, show_request
from app.calls.options import CallOptions
from app.core import exact_json
from app.core.background import TaskSet
from app.core.errors import (
    ApprovalOutdated,
    Forbidden,
    GatewayError,
    InvalidArguments,
    NotFound,
    ResponseTooLarge,
    Unauthenticated,
)
from app.core.rate_limit import RateLimit
from app.core.upstream_mode import UpstreamMode, choose_mode
from app.security.principal import Principal
from app.storage.database import Database
from app.storage.models import Approval

_log = structlog.get_logger(__name__)

INTERFACE: Final = "/approvals/{id}/approve"
REQUEST: Final = "/request"
"""The JSON pointer of the request in what describes a waiting call."""
_STOP_SECONDS: Final = 30.0
# The errors of a call that was not sent, because it is no longer permitted or possible.
_OUTDATED: Final = (ApprovalOutdated, Forbidden, InvalidArguments, NotFound, Unauthenticated)


class ToolsetPresets(Protocol):
    """Knows the members of toolsets."""

    async def presets(self, toolset: str, tool: str, *, principal: Principal) -> Mapping[str, Any]:
        """Return the arguments that a toolset sets for a member, by JSON pointer; `tool` is its canonical
        name. Raise NotFound where the principal may not use the toolset or the tool is no member, and
        Unavailable.
        """

    async def upstream_mode(self, toolset: str) -> UpstreamMode | None:
        """Return the upstream mode of a toolset, None where it has none. Raise Unavailable."""


@dataclass(frozen=True, slots=True)
class _Made:
    """How a call ended: `result` is what is sealed for the key that requested it."""

    state: ApprovalState
    result: bytes = field(repr=False)
    call_id: str | None = None
    error: GatewayError | None = None


@dataclass(frozen=True, slots=True)
class CallApprovalHandler:
    """Makes approved calls; handles the kind `call`.

    `default_rate_limit` is that of keys without one. `issuer` is that of the access tokens that are accepted,
    None where none are. `running` are the calls in progress: they go on when the
    client that approved them disconnects.
    """

    database: Database
    store: CallApprovalStore
    calls: CallServices
    default_rate_limit: RateLimit | None
    toolsets: ToolsetPresets
    issuer: str | None
    running: TaskSet = field(default_factory=TaskSet)

    async def approve(self, approval: Approval, decision: Decision) -> Approval:
        """See `ApprovalHandler`: the decision is committed first, so a crash never has the call made
        twice.
        """
        async with self.database.transaction() as session:
            decided = await decide(session, approval.id, state="approved", decision=decision)
            await record_approval_event(session, decided, "approved", actor=decision.principal.key_id)
        self.store.counts["call", "approved"] += 1
        task = asyncio.create_task(self._finish(decided), name="approved-call")
        self.running.add(task)
        row, error = await asyncio.shield(task)
        if isinstance(error, _OUTDATED):
            raise ApprovalOutdated(
                f"The call was not made: {error.detail}",
                extra={"approval": _convert_to_json(approval_json(row))},
            )
        return row

    async def discard(self, session: AsyncSession, approval: Approval) -> None:
        """See `ApprovalHandler`."""
        statement = update(Approval).where(col(Approval.id) == approval.id).values(sealed_request=None)
        await session.execute(statement)

    async def aclose(self) -> None:
        """Wait for the calls in progress, for at most 30 seconds."""
        await self.running.aclose(timeout=_STOP_SECONDS)

    async def _finish(self, row: Approval) -> tuple[Approval, GatewayError | None]:
        """Make the call of an approval, and store how it ended."""
        try:
            conclusion = await self._make(row)
        except GatewayError as error:
            conclusion = _create_failure(error)
        except Exception:  # noqa: BLE001 - it is logged, and stored as a failure.
            _log.exception("an approved call failed unexpectedly", approval=str(row.id))
            conclusion = _create_failure(GatewayError())
        failure = None if conclusion.error is None else describe_failure(conclusion.error)
        statement = (
            update(Approval)
            .where(col(Approval.id) == row.id, col(Approval.state) == "approved")
            .values(
                state=conclusion.state,
                ended_at=func.now(),
                failure=failure,
                call_id=conclusion.call_id,
                sealed_result=self.store.seal_result(row, conclusion.result),
                sealed_request=None,
            )
            .returning(Approval)
        )
        async with self.database.transaction() as session:
            ended = (await session.execute(statement)).scalar_one_or_none()
            if ended is not None:
                await record_approval_event(session, ended, conclusion.state, actor=row.decided_by or "")
        self.store.counts["call", conclusion.state] += 1
        return ended or row, conclusion.error

    async def describe(self, row: Approval) -> Shown:
        """See `ApprovalHandler`: made from the stored arguments, with secrets as `***`, and listed."""
        try:
            request = await self._request(row)
            arguments = with_presets(request.arguments, request.presets)
            described = await describe(request, self.calls)
            described.pop("requires_approval", None)
            plan = await self.calls.catalog.plan(row.subject_name)
            if request.approved is not None:
                request.approved.check(plan)
        except _OUTDATED as error:
            raise ApprovalOutdated(f"The call would not be made: {error.detail}") from None
        return await asyncio.to_thread(
            show_request, described, arguments, plan.inputs, self.store.masker, at=REQUEST
        )

    async def _make(self, row: Approval) -> _Made:
        outcome = await execute(await self._request(row), self.calls)
        if outcome.result is None:
            error = outcome.error
            return _create_failure(error if isinstance(error, GatewayError) else GatewayError(), outcome)
        return await self._read(outcome)

    async def _request(self, row: Approval) -> CallRequest:
        """Return the request of a stored call; raise where it may not be made any more."""
        stored = self.store.open_request(row)
        principal = await self._find_requester(row, stored)
        await self._check_toolset(row, stored, principal)
        upstream = await self._read_toolset_mode(stored)
        _check_mode(stored, choose_mode(principal.upstream, upstream))
        presets = read_preset_values(stored["arguments"], stored.get("presets") or ())
        digest = stored.get("description_digest")
        return CallRequest(
            principal,
            row.subject_name,
            INTERFACE,
            interface="approval",
            toolset=stored.get("toolset") or "",
            presets=presets,
            upstream=upstream,
            arguments=without_presets(stored["arguments"], presets),
            options=CallOptions(
                idempotency_key=stored["idempotency_key"],
                cdn_loop=stored["cdn_loop"].encode("latin-1"),
                recording_run=stored.get("recording_run") or "",
            ),
            approved=ApprovedCall(row.fingerprint or b"", None if digest is None else bytes.fromhex(digest)),
        )

    async def _find_requester(self, row: Approval, stored: dict[str, Any]) -> Principal:
        """Return the principal of the key that requested a call, as the key is now; for a key that is limited
        to toolsets, at the addresses of the one by which it did. For an access token, return what it
        permitted, as long as its issuer is accepted.
        """
        token = stored.get("token")
        if token is not None:
            if self.issuer is None or token["issuer"] != self.issuer:
                raise Unauthenticated("Access tokens of its issuer are not accepted any more.")
            return restore_principal(row.requested_by, token)
        async with self.database.read_session() as session:
            key = await find_key(session, row.requested_by)
        if key is None or key.revoked_at is not None:
            raise Unauthenticated(f"The key {row.requested_by}, which requested it, was revoked.")
        if is_expired(key):
            raise Unauthenticated(f"The key {row.requested_by}, which requested it, has expired.")
        principal = principal_of(key, self.default_rate_limit)
        if not principal.has_scope("tools:call"):
            raise Forbidden(f"The key {row.requested_by}, which requested it, may not call tools any more.")
        toolset = stored.get("toolset")
        within = principal if toolset is None else principal.within_toolset(toolset)
        if within is None:
            raise Forbidden(f"The key {row.requested_by} may not use the toolset {toolset} any more.")
        return within

    async def _check_toolset(self, row: Approval, stored: dict[str, Any], principal: Principal) -> None:
        """Raise ApprovalOutdated where the toolset by whose address a call came has changed since, so that
        the call would not be made like this now.
        """
        toolset = stored.get("toolset")
        if toolset is None:
            return
        try:
            presets = await self.toolsets.presets(toolset, row.subject_name, principal=principal)
        except NotFound:
            raise ApprovalOutdated(
                f"The tool {row.subject_name} is no longer in the toolset {toolset}, by which the call was "
                "requested, or the requester may no longer use it there."
            ) from None
        # Calls that were stored before presets were stored with them.
        before = stored.get("presets")
        if before is not None and _encode_canonically(before) != _encode_canonically(presets):
            raise ApprovalOutdated(
                f"The arguments that the toolset {toolset} sets for {row.subject_name} have changed since "
                "the call was requested."
            )

    async def _read_toolset_mode(self, stored: dict[str, Any]) -> UpstreamMode | None:
        toolset = stored.get("toolset")
        return None if toolset is None else await self.toolsets.upstream_mode(toolset)

    async def _read(self, outcome: CallContext) -> _Made:
        """Return the whole result of a call; an error where it is larger than may be stored, or breaks
        off.
        """
        result = outcome.result
        if result is None:
            raise GatewayError
        streamed = result.stream is not None
        limit = self.calls.max_stored_bytes
        try:
            complete = await result.read_up_to(limit)
        except BaseException as failed:
            await result.aclose()
            await outcome.conclude_failed(failed, upstream_status=result.status)
            if isinstance(failed, GatewayError):
                return _create_failure(failed, outcome)
            raise
        if not complete:
            error = ResponseTooLarge(
                f"The call was made. Its response has more than {limit} bytes and is not stored."
            )
            await result.aclose()
            await outcome.conclude_failed(error, upstream_status=result.status)
            return _create_failure(error, outcome)
        body = result.body or b""
        if streamed:
            outcome.add_result(body)
            await outcome.conclude(upstream_status=result.status, response_bytes=len(body))
        head = {
            "upstream_status": result.status,
            "media_type": result.media_type,
            "headers": result.headers,
            "masked": result.is_masked,
            "content_blocks": result.has_content_blocks,
        }
        if outcome.evidence is not None:
            head["evidence"] = outcome.evidence.to_json()
        return _Made("executed", exact_json.dumps(head) + b"\n" + body, outcome.call_id)


def _check_mode(stored: dict[str, Any], mode: UpstreamMode | None) -> None:
    """Raise ApprovalOutdated for a call that would get its response from elsewhere than when it was
    requested: nobody has approved a live call by approving one that was to be replayed.
    """
    before = UpstreamMode.from_stored(stored.get("upstream"))
    if before != mode:
        raise ApprovalOutdated("The upstream mode of the key or toolset has changed since the request.")


def _encode_canonically(presets: Mapping[str, Any]) -> bytes:
    # Read again, because numbers that were stored are compared with numbers that were not.
    text = exact_json.dumps(dict(presets))
    return exact_json.dumps(exact_json.loads(text), orjson.OPT_SORT_KEYS)


def describe_failure(error: GatewayError) -> dict[str, Any]:
    """Return what anybody who sees an approval may know of its failure: no text of an upstream."""
    problem = error.as_problem()
    return {name: problem[name] for name in ("type", "title", "status", "detail")}


def _create_failure(error: GatewayError, outcome: CallContext | None = None) -> _Made:
    call_id = None if outcome is None else outcome.call_id
    try:
        problem = exact_json.dumps({"problem": error.as_problem(call_id=call_id)})
    except TypeError:
        problem = exact_json.dumps({"problem": error.as_problem(call_id=call_id, without_extra=True)})
    return _Made("failed", problem + b"\n", call_id, error)


def _convert_to_json(public: dict[str, Any]) -> dict[str, Any]:
    json_members: dict[str, Any] = orjson.loads(exact_json.dumps(public))
    return json_members
