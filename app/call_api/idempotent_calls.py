"""Calls with an Idempotency-Key: carried out once, to their end, and answered again from what was kept.

    begin --> lease --> the call, in a task of its own --> kept --> answered
       |                     | nothing was sent
       |                     '--> key given free --> error
       '--> kept already --> answered again, with the id of the first call

A caller that leaves does not end such a call: its outcome is what the caller will ask for. The call's own
deadline bounds it. Kept is whatever reached the upstream, errors too, but for 401 and 429, which say that
nothing was carried out. The answer is taken whole and never as events; one that is larger than `most` is
passed on to the first caller only.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from uuid import UUID

import orjson

from app.call_api.responses import Answer, Streamed
from app.calls.idempotency_store import Asked, Lease, Outcomes
from app.calls.recording import Attempt
from app.catalog.plan import Plan
from app.errors import BadRequest, Fault, GatewayError, IdempotencyUnkept, UpstreamError
from app.protocols.base import Result
from app.security.principal import Principal

HEADER: Final = b"idempotency-key"
_BARE: Final = re.compile(r"[!#-~][!-~]{0,254}")
_QUOTED: Final = re.compile(r'"((?:[!#-\[\]-~]|\\["\\]){1,510})"')
_NOT_CARRIED_OUT: Final = frozenset({401, 429})
_QUICK: Final = 256 << 10
_REPLAYED: Final = (b"idempotency-replayed", b"true")
_NOT_KEPT: Final = frozenset({b"server-timing"})


class Replayed(GatewayError):
    """A problem that was answered before."""

    def __init__(self, kept: Mapping[str, Any]) -> None:
        self.status: int = kept["status"]  # type: ignore[misc]
        self.slug: str = kept["slug"]  # type: ignore[misc]
        self.title: str = kept["title"]  # type: ignore[misc]
        super().__init__(
            kept["detail"],
            errors=[Fault(*fault) for fault in kept["errors"]],
            headers={**kept["headers"], "Idempotency-Replayed": "true"},
            extra=kept["extra"],
        )


def read_key(value: bytes) -> str:
    """The key in a header's value: bare, or a string of RFC 9651 in quotes; the same text is the same key.

    Raises BadRequest for anything but 1 to 255 characters of visible ASCII.
    """
    text = value.decode("latin-1").strip(" \t")
    quoted = _QUOTED.fullmatch(text)
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted is not None else text
    if len(key) > 255 or (quoted is None and _BARE.fullmatch(text) is None):
        detail = "Give one key of 1 to 255 visible ASCII characters, in double quotes or without."
        fault = Fault("#/header/Idempotency-Key", detail)
        raise BadRequest("The Idempotency-Key is not valid.", errors=[fault])
    return key


class Once:
    """Carries calls out once. `most` is the largest answer, in bytes, that is kept."""

    def __init__(self, outcomes: Outcomes, *, most: int) -> None:
        self._outcomes = outcomes
        self._most = most

    async def answer(
        self,
        key: str,
        arguments: Any,
        *,
        plan: Plan,
        principal: Principal,
        attempt: Attempt,
        seconds: float,
        perform: Callable[[], Awaitable[Result]],
        respond: Callable[[Result], Awaitable[Any]],
    ) -> Any:
        """The answer of `respond` to what `perform` gives, or of the call that was made before.

        `seconds` is how long `perform` may take. Raises what both raise, the errors of `Outcomes.begin`, and
        a problem that was answered before as Replayed.
        """
        asked = Asked(
            tenant=principal.tenant_id,
            key_id=principal.key_id,
            text=key,
            content=await _content(plan, arguments, large=attempt.request_bytes > _QUICK),
            call_id=attempt.id,
            seconds=seconds,
            safe=plan.safe,
        )
        intent = attempt.intent(seconds) if attempt.durable and not plan.safe else None
        try:
            begun = await self._outcomes.begin(asked, record=intent)
        except GatewayError as error:
            if "call_id" in error.extra:
                attempt.call_id = error.extra["call_id"]
            raise
        if not isinstance(begun, Lease):
            return _again(begun.outcome, begun.call_id, attempt)
        if intent is not None:
            attempt.intended(intent)
        if plan.idempotency_header is not None:
            theirs = self._outcomes.upstream_key(asked, plan.provider_id)
            attempt.headers += ((plan.idempotency_header, theirs),)
            attempt.repeatable = True
        call = asyncio.create_task(
            self._carry_out(begun, attempt, perform=perform, respond=respond), name="call-once"
        )
        self._outcomes.watch(call)
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            attempt.detached = not call.done()
            call.add_done_callback(self._let_go)
            raise

    def _let_go(self, call: "asyncio.Task[Any]") -> None:
        """Nobody is there any more to whom the rest of a large answer could be passed on."""
        if call.cancelled() or call.exception() is not None:
            return
        answer = call.result()
        if isinstance(answer, Streamed):
            answer.attempt.fail(asyncio.CancelledError(), upstream_status=answer.result.status)
            self._outcomes.watch(asyncio.create_task(answer.result.aclose()))

    async def _carry_out(
        self,
        lease: Lease,
        attempt: Attempt,
        *,
        perform: Callable[[], Awaitable[Result]],
        respond: Callable[[Result], Awaitable[Any]],
    ) -> Any:
        try:
            result = await perform()
            try:
                whole = await result.gather(self._most)
                if not whole:
                    # What is passed on as it arrives may break off: it can only be kept that it was begun.
                    attempt.let_go()
                    await self._outcomes.keep(lease, _packed({"kind": "unkept", "status": result.status}))
                answer = await respond(result)
            except BaseException:
                await result.aclose()
                raise
        except GatewayError as error:
            attempt.fail(error)
            await self._ended(lease, attempt, _problem(error) if _carried_out(error, attempt) else None)
            raise
        except BaseException as error:
            attempt.fail(error)
            if not attempt.attempts:
                await self._ended(lease, attempt, None)
            attempt.let_go()
            raise
        if whole and isinstance(answer, Answer):
            await self._ended(lease, attempt, _answer(answer))
        attempt.let_go()
        return answer

    async def _ended(self, lease: Lease, attempt: Attempt, outcome: bytes | None) -> None:
        """Stores the outcome, or releases the key, and the record of the call's end with it."""
        record = attempt.take_held()
        outcomes = self._outcomes
        if outcome is None:
            stored = await outcomes.release(lease, record=record)
        else:
            stored = await outcomes.keep(lease, outcome, record=record)
        if record is not None and not stored:
            attempt.record(record)
            await attempt.kept()


def _carried_out(error: GatewayError, attempt: Attempt) -> bool:
    """Whether the upstream may have done something."""
    if not attempt.attempts or not isinstance(error, UpstreamError):
        return False
    if error.answer is not None and error.answer.status in _NOT_CARRIED_OUT:
        return False
    return error.sent


async def _content(plan: Plan, arguments: Any, *, large: bool) -> bytes:
    """The tool and its arguments, whatever the order of their members."""
    name = plan.name.encode() + b"\n"
    if large:
        return name + await asyncio.to_thread(orjson.dumps, arguments, None, orjson.OPT_SORT_KEYS)
    return name + orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)


def _packed(told: Mapping[str, Any], body: bytes = b"") -> bytes:
    return orjson.dumps(told) + b"\n" + body


def _answer(answer: Answer) -> bytes:
    headers = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in answer.headers
        if name not in _NOT_KEPT
    ]
    return _packed({"kind": "answer", "headers": headers}, answer.body)


def _problem(error: GatewayError) -> bytes:
    told: dict[str, Any] = {
        "kind": "problem",
        "status": error.status,
        "slug": error.slug,
        "title": error.title,
        "detail": error.detail,
        "headers": error.headers,
        "errors": [(fault.pointer, fault.detail, fault.expected) for fault in error.errors],
        "extra": error.extra,
    }
    try:
        return _packed(told)
    except TypeError:
        # What an upstream said may hold numbers and text that no JSON of ours can.
        return _packed({**told, "extra": {}, "errors": []})


def _again(outcome: bytes, call_id: UUID, attempt: Attempt) -> Answer:
    """What was answered before."""
    head, _, body = outcome.partition(b"\n")
    kept = orjson.loads(head)
    attempt.call_id = str(call_id)
    if kept["kind"] == "answer":
        attempt.replay(200, response_bytes=len(body))
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in kept["headers"]]
        return Answer(body, [*headers, _REPLAYED])
    if kept["kind"] == "problem":
        attempt.replay(kept["status"], response_bytes=0)
        raise Replayed(kept)
    attempt.replay(IdempotencyUnkept.status, response_bytes=0)
    raise IdempotencyUnkept(
        "The call with this Idempotency-Key was carried out and answered, but its answer was too large to be "
        "kept. It is not made again.",
        headers={"Idempotency-Replayed": "true"},
        extra={"upstream_status": kept["status"]},
    )
