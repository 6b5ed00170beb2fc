"""`POST /tools/{name}/call`, the one hot route: plain Starlette, no model, no dependency.

Measured in the design: a bare Starlette route costs 36 us a request, one of FastAPI with a body model and
three dependencies 169 us. It calls the same `authorise()` as every other route, and is described by hand in
`operation.py`.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route

from app.access import authorise
from app.call_api.content_negotiation import Accepted, accepted
from app.call_api.idempotent_calls import HEADER, Once, read_key
from app.call_api.responses import Answer, Streamed, respond
from app.calls.arguments import LARGE, parse_arguments
from app.calls.connection import MOST_AT_ONCE, cancel_when_gone, gone
from app.calls.event_stream import EventStream, Streams
from app.calls.execution import Rooms, admitted, begin, call, describe
from app.calls.rate_limits import tell, tell_with
from app.calls.recording import Attempt
from app.catalog.plan import Plan
from app.deadlines import Bound, Timer, Timers
from app.errors import (
    CallerStalled,
    Fault,
    GatewayError,
    InvalidInput,
    NotFound,
    TooLarge,
    UnsupportedMediaType,
)
from app.schemas import TOOL_NAME
from app.security.identity import LOOP, travelled
from app.security.principal import Principal

_NAME: Final = re.compile(TOOL_NAME)
# Most calls are over by then, and never pay for a task that watches the connection.
_WATCH_AFTER: Final = 0.1
_JSON: Final = b"application/json"
_MILLISECONDS: Final = re.compile(rb"0*[1-9][0-9]{0,8}")
_TRUE: Final = frozenset({"true", "1"})
_FALSE: Final = frozenset({"false", "0", ""})

Response = Answer | Streamed | EventStream


async def call_tool(request: Request) -> Response:
    """Call a tool with the body as its arguments object; errors are GatewayErrors with the call's id."""
    principal = await authorise(request, "tools:call")
    scope = request.scope
    # The mapping behind request.state, whose attributes cost ten times as much to get.
    rooms: Rooms = scope["state"]["rooms"]
    name: str = scope["path_params"]["name"]
    head = read_head(scope["headers"])
    dry_run = bool(scope["query_string"]) and _dry_run(request)
    attempt = None if dry_run else begin(name, principal, rooms=rooms, head=head)
    if rooms.tracer is not None and attempt is not None:
        attempt.trace = rooms.tracer.begin(head, route=CALL_ROUTE.path, call_id=attempt.call_id)
    watch = _Watch(request, rooms.clock)
    try:
        _refuse_impossible(name)
        seconds = _seconds(head[b"x-timeout-ms"]) if b"x-timeout-ms" in head else None
        body = await _body(request, head, limit=rooms.body_bytes, streams=rooms.streams)
        if len(body) <= LARGE:
            arguments = parse_arguments(body, rooms.argument_values)
        else:
            arguments = await asyncio.to_thread(parse_arguments, body, rooms.argument_values)
        if attempt is None:
            described = await describe(name, arguments, principal=principal, rooms=rooms)
            return _described(described)
        attempt.request_bytes = len(body)
        if LOOP in head:
            attempt.headers = travelled(head[LOOP], rooms.identity)
        if attempt.bodies is not None:
            attempt.bodies.arguments.add(body)
        watch.begin()
        # Counts from the end of the request: what limits and keys take is the caller's time, too.
        by = None if seconds is None else rooms.clock.loop.time() + seconds
        plan = await admitted(name, arguments, principal=principal, rooms=rooms, attempt=attempt)
        ask = _Asked(plan, arguments, principal, rooms, attempt, by, accepted(_accept(head)))
        answer = await (_once(ask, head[HEADER]) if HEADER in head else _answered(ask))
    except BaseException as error:  # noqa: BLE001 - it is recorded, and raised again.
        return await _failed(error, request, attempt, watch)
    finally:
        watch.end()
    if attempt.standing is not None:
        tell(answer.headers, attempt.standing)
    return answer


call_tool.scope = "tools:call"  # type: ignore[attr-defined]

CALL_ROUTE = Route("/tools/{name}/call", endpoint=call_tool, methods=["POST"], name="callTool")


class _Asked(NamedTuple):
    """A call that may be made."""

    plan: Plan
    arguments: dict[str, Any]
    principal: Principal
    rooms: Rooms
    attempt: Attempt
    by: float | None
    accept: Accepted


async def _answered(asked: _Asked) -> Response:
    plan, arguments, principal, rooms, attempt, by, accept = asked
    result = await call(
        plan, arguments, principal=principal, rooms=rooms, attempt=attempt, by=by,
        events=bool(accept.events),
    )  # fmt: skip
    try:
        return await respond(result, accept=accept, attempt=attempt, streams=rooms.streams)
    except BaseException:
        await result.aclose()
        raise


async def _once(asked: _Asked, header: bytes) -> Response:
    """The answer of a call with an Idempotency-Key; it comes whole, not as events."""
    plan, arguments, principal, rooms, attempt, by, accept = asked
    total = plan.limits.total
    seconds = total if by is None else min(max(by - rooms.clock.loop.time(), 0.0), total)
    perform = partial(call, plan, arguments, principal=principal, rooms=rooms, attempt=attempt, by=by)
    quota = rooms.quota
    answer: Response = await Once(quota.outcomes, most=quota.largest).answer(
        read_key(header),
        arguments,
        plan=plan,
        principal=principal,
        attempt=attempt,
        seconds=seconds,
        perform=perform,
        respond=partial(respond, accept=replace(accept, events=""), attempt=attempt, streams=rooms.streams),
    )
    return answer


class _Watch:
    """Cancels the request's task when the caller leaves while its answer is being waited for."""

    __slots__ = ("_clock", "_request", "_task", "_timer", "watcher")

    def __init__(self, request: Request, clock: Timers) -> None:
        self._request = request
        self._clock = clock
        self._task: asyncio.Task[Any] | None = None
        self._timer: Timer | None = None
        self.watcher: asyncio.Task[bool] | None = None

    def begin(self) -> None:
        """The body has been read: from now on, what is received is the end of the connection."""
        clock = self._clock
        self._task = asyncio.current_task(clock.loop)
        self._timer = clock.at(clock.loop.time() + _WATCH_AFTER, self._watch)

    def end(self) -> None:
        """The answer is there."""
        if self._timer is not None:
            self._timer.cancel()
        if self.watcher is not None:
            self.watcher.cancel()

    def _watch(self) -> None:
        self.watcher = self._clock.loop.create_task(cancel_when_gone(self._request.receive, self._task))


async def _failed(error: BaseException, request: Request, attempt: Attempt | None, watch: _Watch) -> Answer:
    """Records how the call ended and raises the error again; nothing is left to say to a caller that left."""
    if attempt is not None:
        if not attempt.detached:
            attempt.fail(error)
        request.state.call_id = attempt.call_id
        if isinstance(error, GatewayError):
            error.headers["X-Call-Id"] = attempt.call_id
            if attempt.standing is not None:
                tell_with(error, attempt.standing)
            if attempt.stored is not None:
                await attempt.kept()
    left = isinstance(error, asyncio.CancelledError) and watch.watcher is not None and gone(watch.watcher)
    if left or isinstance(error, ClientDisconnect):
        return Answer(b"", [], status_code=499)
    raise error


def _refuse_impossible(name: str) -> None:
    """No tool has such a name, and PostgreSQL could not even be asked for some of them."""
    if _NAME.fullmatch(name) is None:
        raise NotFound("There is no tool of this name.")


async def _body(request: Request, head: Mapping[bytes, bytes], *, limit: int, streams: Streams) -> bytes:
    """The request body. A missing content type counts as JSON. As long as it takes, the call counts as one of
    those under way: for each 64 KiB there is no more time than for taking as much of an answer.
    """
    pieces: list[bytes] = []
    size = 0
    more = True
    began = streams.clock.loop.time()
    while more:
        try:
            with Bound(streams.clock, began + streams.stall * (1 + size // MOST_AT_ONCE)):
                message = await request.receive()
        except TimeoutError:
            why = "The caller stopped sending its arguments."
            raise CallerStalled(why, headers={"Connection": "close"}) from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise TooLarge(f"The arguments may have at most {limit} bytes.", extra={"limit": limit})
        pieces.append(piece)
        more = message.get("more_body", False)
    body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if body and head.get(b"content-type", _JSON) != _JSON:
        media = head[b"content-type"].partition(b";")[0].strip().lower()
        if media and media != _JSON and not media.endswith(b"+json"):
            raise UnsupportedMediaType("Send the arguments as application/json.")
    return body


def read_head(headers: list[tuple[bytes, bytes]]) -> Mapping[bytes, bytes]:
    """The request's headers by name, in lower case as ASGI has them; repeated ones as one (RFC 9110, 5.3)."""
    head = dict(headers)
    if len(head) < len(headers):
        head = {name: b", ".join(value for other, value in headers if other == name) for name in head}
    return head


def _seconds(value: bytes) -> float:
    """What X-Timeout-Ms leaves for the call."""
    if _MILLISECONDS.fullmatch(value) is None:
        fault = Fault("#/header/X-Timeout-Ms", "Give a whole number of milliseconds, from 1.", "integer")
        raise InvalidInput("A header is not valid.", errors=[fault])
    return int(value) / 1000


def _dry_run(request: Request) -> bool:
    values = request.query_params.getlist("dry_run")
    if not values or (len(values) == 1 and values[0].lower() in _FALSE):
        return False
    if len(values) == 1 and values[0].lower() in _TRUE:
        return True
    # Which of several values counts differs from program to program, and a wrong guess calls the tool.
    fault = Fault("#/query/dry_run", "Give true or false, once.", "boolean")
    raise InvalidInput("A query parameter is not valid.", errors=[fault])


def _described(described: dict[str, Any]) -> Answer:
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    return Answer(orjson.dumps(described), headers)


def _accept(head: Mapping[bytes, bytes]) -> str:
    """What is accepted; no header means everything."""
    return head.get(b"accept", b"*/*").decode("latin-1")
