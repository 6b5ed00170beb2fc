"""A call with an idempotency key: carried out once, to its end, and its outcome stored for repetitions.

    begin --> lease --> the call, in a task of its own --> stored --> returned
       |                     | nothing was sent
       |                     '--> key released --> error
       '--> stored already --> returned again, with the id of the first call

A client that leaves does not end such a call: its outcome is what the client will request again. The deadline
of the call bounds it. Stored is whatever reached the upstream, errors too, but for 401 and 429, which say
that nothing was carried out. The result is taken whole and never as events; one that is larger than
`max_bytes` is passed on to the first client only.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import orjson

from app.calls.arguments import LARGE
from app.calls.context import CallContext
from app.calls.idempotency_store import IdempotencyLease, IdempotencyStore, IdempotentRequest, StoredOutcome
from app.catalog.plan import Plan
from app.errors import FieldError, GatewayError, IdempotencyNotStored, UpstreamError
from app.protocols.base import Result

_NOT_CARRIED_OUT: Final = frozenset({401, 429})


class ReplayedError(GatewayError):
    """The stored error of an earlier call with the same idempotency key."""

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self.status: int = stored["status"]  # type: ignore[misc]
        self.slug: str = stored["slug"]  # type: ignore[misc]
        self.title: str = stored["title"]  # type: ignore[misc]
        super().__init__(
            stored["detail"],
            errors=[FieldError(*fault) for fault in stored["errors"]],
            headers=stored["headers"],
            extra=stored["extra"],
        )


class IdempotentCall:
    """Carries one call out once; `perform` makes it, `max_bytes` bounds the result that is stored."""

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
        """Return the result of the call under `key`, or of the call that was made under it before.

        `seconds` is how long the call may take. Raises what `perform` raises, the errors of
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
            content=await _content(plan, context.request.arguments, large=recorder.request_bytes > LARGE),
            call_id=recorder.id,
            seconds=seconds,
            safe=plan.safe,
        )
        intent = recorder.intent(seconds) if recorder.durable and not plan.safe else None
        try:
            begun = await self._store.begin(request, record=intent)
        except GatewayError as error:
            if "call_id" in error.extra:
                recorder.call_id = error.extra["call_id"]
            raise
        if not isinstance(begun, IdempotencyLease):
            return _replayed(begun, context)
        if intent is not None:
            recorder.intent_recorded(intent)
        if plan.idempotency_header is not None:
            upstream_key = self._store.upstream_key(request, plan.provider_id)
            context.headers += ((plan.idempotency_header, upstream_key),)
            context.is_repeatable = True
        call = asyncio.create_task(self._carry_out(begun), name="idempotent-call")
        self._store.watch(call)
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            context.detached = not call.done()
            call.add_done_callback(self._close_unread)
            raise

    def _close_unread(self, call: "asyncio.Task[Result]") -> None:
        """Nobody is there any more to whom the rest of a large response could be passed on."""
        if call.cancelled() or call.exception() is not None:
            return
        result = call.result()
        if result.stream is not None:
            self._context.fail(asyncio.CancelledError(), upstream_status=result.status)
            self._store.watch(asyncio.create_task(result.aclose()))

    async def _carry_out(self, lease: IdempotencyLease) -> Result:
        context = self._context
        recorder = context.recorder
        try:
            result = await self._perform()
            recorder.begin_result(result.media_type)
            try:
                whole = await result.read_up_to(self._max_bytes)
                if not whole:
                    # What is passed on as it arrives may break off: only that it was begun can be stored.
                    recorder.stop_holding()
                    await self._store.store(lease, _packed({"kind": "too-large", "status": result.status}))
            except BaseException:
                await result.aclose()
                raise
        except GatewayError as error:
            context.fail(error)
            await self._end(lease, _packed_error(error) if _carried_out(error, context) else None)
            raise
        except BaseException as error:
            context.fail(error)
            if not recorder.tries:
                await self._end(lease, None)
            recorder.stop_holding()
            raise
        if result.stream is None:
            body = result.body or b""
            recorder.add_result(body)
            context.complete(upstream_status=result.status, response_bytes=len(body))
            await recorder.wait_recorded()
        if whole:
            await self._end(lease, _packed_result(result))
            recorder.stop_holding()
        return result

    async def _end(self, lease: IdempotencyLease, outcome: bytes | None) -> None:
        """Store the outcome, or release the key, and with it the record of the call's end."""
        recorder = self._context.recorder
        record = recorder.take_held()
        if outcome is None:
            stored = await self._store.release(lease, record=record)
        else:
            stored = await self._store.store(lease, outcome, record=record)
        if record is not None and not stored:
            recorder.record(record)
            await recorder.wait_recorded()


def _carried_out(error: GatewayError, context: CallContext) -> bool:
    """Whether the upstream may have done something."""
    if not context.recorder.tries or not isinstance(error, UpstreamError):
        return False
    if error.response is not None and error.response.status in _NOT_CARRIED_OUT:
        return False
    return error.request_sent


async def _content(plan: Plan, arguments: Any, *, large: bool) -> bytes:
    """The tool and its arguments, whatever the order of their members."""
    name = plan.name.encode() + b"\n"
    if large:
        return name + await asyncio.to_thread(orjson.dumps, arguments, None, orjson.OPT_SORT_KEYS)
    return name + orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)


def _packed(head: Mapping[str, Any], body: bytes = b"") -> bytes:
    return orjson.dumps(head) + b"\n" + body


def _packed_result(result: Result) -> bytes:
    head = {
        "kind": "result",
        "status": result.status,
        "headers": result.headers,
        "media_type": result.media_type,
        "masked": result.is_masked,
    }
    return _packed(head, result.body or b"")


def _packed_error(error: GatewayError) -> bytes:
    head: dict[str, Any] = {
        "kind": "error",
        "status": error.status,
        "slug": error.slug,
        "title": error.title,
        "detail": error.detail,
        "headers": error.headers,
        "errors": [(fault.pointer, fault.detail, fault.expected) for fault in error.errors],
        "extra": error.extra,
    }
    try:
        return _packed(head)
    except TypeError:
        # What an upstream sent may hold numbers and text that no JSON of ours can.
        return _packed({**head, "extra": {}, "errors": []})


def _replayed(stored: StoredOutcome, context: CallContext) -> Result:
    """The result of the call that was made before; raises its error."""
    head, _, body = stored.outcome.partition(b"\n")
    outcome = orjson.loads(head)
    context.recorder.call_id = str(stored.call_id)
    if outcome["kind"] == "result":
        context.replay(200, response_bytes=len(body))
        return Result(
            status=outcome["status"],
            headers=[(name, value) for name, value in outcome["headers"]],
            media_type=outcome["media_type"],
            body=body,
            is_masked=outcome["masked"],
        )
    if outcome["kind"] == "error":
        context.replay(outcome["status"], response_bytes=0)
        raise ReplayedError(outcome)
    context.replay(IdempotencyNotStored.status, response_bytes=0)
    raise IdempotencyNotStored(
        "The call with this Idempotency-Key was carried out and answered, but its response was too large to"
        " be stored. It is not made again.",
        extra={"upstream_status": outcome["status"]},
    )
