"""A call with an idempotency key: executed once, and its outcome stored for repeated requests.

    begin --> lease --> the call, in a task of its own --> outcome stored --> returned
       |                     | nothing was processed
       |                     '--> key released --> error
       '--> a stored outcome --> replayed, with the id of the first call

The call continues after its client has disconnected, until its deadline: the client will request its outcome
again. The outcome of every call that reached the upstream is stored, errors included, except for 401 and 429,
with which nothing was processed. The result is read completely, and never as events; one that is larger than
`max_bytes` is passed on to the first client only.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import orjson

from app.calls.arguments.parsing import LARGE_ARGUMENTS_BYTES
from app.calls.context import CallContext
from app.calls.idempotency.store import IdempotencyLease, IdempotencyStore, IdempotentRequest, StoredOutcome
from app.catalog.plan import Plan
from app.core import exact_json
from app.core.errors import FieldError, GatewayError, IdempotencyNotStored, UpstreamError
from app.core.upstream_mode import UpstreamMode
from app.formats.toolclad.envelope import Evidence
from app.protocols.base import Result

_UNPROCESSED_STATUSES: Final = frozenset({401, 429})


class ReplayedError(GatewayError):
    """The stored error of an earlier call with the same idempotency key."""

    hint = "The same Idempotency-Key always gets this outcome; a new key makes a new call."

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self.status: int = stored["status"]  # type: ignore[misc]
        self.slug: str = stored["slug"]  # type: ignore[misc]
        self.title: str = stored["title"]  # type: ignore[misc]
        super().__init__(
            stored["detail"],
            errors=[FieldError(*members) for members in stored["errors"]],
            headers=stored["headers"],
            extra=stored["extra"],
        )


class IdempotentCall:
    """Executes one call at most once: `perform` makes it; a result of more than `max_bytes` is not stored."""

    def __init__(
        self,
        context: CallContext,
        store: IdempotencyStore,
        *,
        perform: Callable[[], Awaitable[Result]],
        max_bytes: int,
    ) -> None:
        self._context = context
        self._store = store
        self._perform = perform
        self._max_bytes = max_bytes

    async def result(self, key: str, *, seconds: float) -> Result:
        """Return the result of the call with the client's idempotency key `key`, made now or earlier.

        `seconds` is how long the call may take. Raise what `perform` raises, the errors of
        `IdempotencyStore.begin`, ReplayedError, and IdempotencyNotStored. Unless the result has a stream, the
        end of the call has been recorded.
        """
        context = self._context
        recorder = context.recorder
        plan = context.plan
        principal = context.request.principal
        request = IdempotentRequest(
            tenant=principal.tenant_id,
            key_id=principal.key_id,
            text=key,
            content=await _serialise_request(
                plan, context.request.arguments, large=recorder.request_bytes > LARGE_ARGUMENTS_BYTES
            ),
            call_id=recorder.id,
            seconds=seconds,
            safe=plan.safe,
            namespace=derive_idempotency_namespace(context.upstream, context.request.options.recording_run),
        )
        intent = recorder.build_intent_entry(seconds) if recorder.durable and not plan.safe else None
        try:
            begun = await self._store.begin(request, record=intent)
        except GatewayError as error:
            if "call_id" in error.extra:
                recorder.call_id = error.extra["call_id"]
            raise
        if not isinstance(begun, IdempotencyLease):
            return _replay_outcome(begun, context)
        if intent is not None:
            recorder.set_intent_recorded(intent)
        if plan.idempotency_header is not None:
            upstream_key = self._store.derive_upstream_key(request, plan.provider_id)
            context.headers += ((plan.idempotency_header, upstream_key),)
            context.is_repeatable = True
        call = asyncio.create_task(self._execute(begun), name="idempotent-call")
        self._store.watch(call)
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            context.detached = not call.done()
            call.add_done_callback(self._close_unread)
            raise

    def _close_unread(self, call: "asyncio.Task[Result]") -> None:
        """Close the result where its body was not read completely: the client has disconnected."""
        if call.cancelled() or call.exception() is not None:
            return
        result = call.result()
        if result.stream is not None:
            self._context.fail(asyncio.CancelledError(), upstream_status=result.status)
            self._store.watch(asyncio.create_task(result.aclose()))

    async def _execute(self, lease: IdempotencyLease) -> Result:
        context = self._context
        recorder = context.recorder
        try:
            result = await self._perform()
            recorder.begin_result(result.media_type)
            try:
                whole = await result.read_up_to(self._max_bytes)
                if not whole:
                    # The stream may be truncated, so only the status of the response can be stored.
                    recorder.stop_deferring()
                    await self._store.store(lease, _serialise({"kind": "too-large", "status": result.status}))
            except BaseException:
                await result.aclose()
                raise
        except GatewayError as error:
            context.fail(error)
            await self._end(
                lease,
                _serialise_error(error, context.evidence) if _may_be_processed(error, context) else None,
            )
            raise
        except BaseException as error:
            context.fail(error)
            if not recorder.attempts:
                await self._end(lease, None)
            recorder.stop_deferring()
            raise
        if result.stream is None:
            body = result.body or b""
            recorder.add_result(body)
            context.complete(upstream_status=result.status, response_bytes=len(body))
            await recorder.wait_recorded()
        if whole:
            await self._end(lease, _serialise_result(result, context.evidence))
            recorder.stop_deferring()
        return result

    async def _end(self, lease: IdempotencyLease, outcome: bytes | None) -> None:
        """Store the outcome with the record of the call's end; release the key where the outcome is None."""
        recorder = self._context.recorder
        record = recorder.take_deferred_record()
        if outcome is None:
            stored = await self._store.release(lease, record=record)
        else:
            stored = await self._store.store(lease, outcome, record=record)
        if record is not None and not stored:
            recorder.record(record)
            await recorder.wait_recorded()


def _may_be_processed(error: GatewayError, context: CallContext) -> bool:
    """Return whether the upstream may have processed the call."""
    if not isinstance(error, UpstreamError):
        return False
    if not context.recorder.attempts and (context.upstream is None or not context.upstream.is_offline):
        return False
    status = 0 if error.response is None else error.response.status
    if status in _UNPROCESSED_STATUSES and not error.response_begun:
        return False
    return error.request_sent


def derive_idempotency_namespace(mode: UpstreamMode | None, recording_run: str) -> str:
    """Return the namespace of the idempotency keys of calls in a mode: no call gets the outcome of one in
    another mode, recording, run or with another seed. That of live calls is "".
    """
    if mode is None:
        return ""
    run = recording_run if mode.is_offline else ""
    return f"{mode.mode}:{mode.recording or ''}:{mode.seed}:{run}"


async def _serialise_request(plan: Plan, arguments: Any, *, large: bool) -> bytes:
    """Return the tool's name and the arguments as bytes, which do not depend on the order of members."""
    name = plan.name.encode() + b"\n"
    if large:
        return name + await asyncio.to_thread(exact_json.dumps, arguments, orjson.OPT_SORT_KEYS)
    return name + exact_json.dumps(arguments, orjson.OPT_SORT_KEYS)


def _serialise(head: Mapping[str, Any], body: bytes = b"") -> bytes:
    return exact_json.dumps(head) + b"\n" + body


def _serialise_result(result: Result, evidence: Evidence | None) -> bytes:
    head: dict[str, Any] = {
        "kind": "result",
        "status": result.status,
        "headers": result.headers,
        "media_type": result.media_type,
        "masked": result.is_masked,
        "content_blocks": result.has_content_blocks,
        **_serialise_evidence(evidence),
    }
    return _serialise(head, result.body or b"")


def _serialise_evidence(evidence: Evidence | None) -> dict[str, Any]:
    return {} if evidence is None else {"evidence": evidence.to_json()}


def _serialise_error(error: GatewayError, evidence: Evidence | None) -> bytes:
    head: dict[str, Any] = {
        "kind": "error",
        "status": error.status,
        "slug": error.slug,
        "title": error.title,
        "detail": error.problem_detail,
        "headers": error.headers,
        "errors": [(one.pointer, one.detail, one.expected) for one in error.errors],
        "extra": error.extra,
        **_serialise_evidence(evidence),
    }
    try:
        return _serialise(head)
    except TypeError:
        # The upstream's response may contain numbers and text that orjson cannot serialise.
        return _serialise({**head, "extra": {}, "errors": []})


def _replay_outcome(stored: StoredOutcome, context: CallContext) -> Result:
    """Return the stored result of an earlier call, or raise its stored error."""
    head, _, body = stored.outcome.partition(b"\n")
    outcome = orjson.loads(head)
    context.recorder.call_id = str(stored.call_id)
    if "evidence" in outcome:
        context.evidence = Evidence.from_json(outcome["evidence"])
    if outcome["kind"] == "result":
        context.replay(200, response_bytes=len(body))
        return Result(
            status=outcome["status"],
            headers=[(name, value) for name, value in outcome["headers"]],
            media_type=outcome["media_type"],
            body=body,
            is_masked=outcome["masked"],
            has_content_blocks=outcome.get("content_blocks", False),
        )
    if outcome["kind"] == "error":
        context.replay(outcome["status"], response_bytes=0)
        raise ReplayedError(outcome)
    context.replay(IdempotencyNotStored.status, response_bytes=0)
    raise IdempotencyNotStored(
        "The call with this Idempotency-Key was made, but the upstream's response was too large to be stored."
        " The call is not made again.",
        extra={"upstream_status": outcome["status"]},
    )
