"""`POST /tools/{name}/call`, the one hot route: plain Starlette, no model, no dependency.

Measured in the design: a bare Starlette route costs 36 us a request, one of FastAPI with a body model and
three dependencies 169 us. It calls the same `authorise()` as every other route, and is described by hand in
`operation.py`.
"""

import asyncio
import re
from typing import Any, Final

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route

from app.access import authorise
from app.errors import Fault, GatewayError, InvalidInput, NotFound, TooLarge, UnsupportedMediaType
from app.outbound.timing import Timer, Timers
from app.schemas import TOOL_NAME
from app.tools.arguments import parse_arguments
from app.tools.call_records import Attempt
from app.tools.calls import Rooms, call, describe
from app.tools.responses import Answer, Streamed, cancel_when_gone, gone, respond

_NAME: Final = re.compile(TOOL_NAME)
# Most calls are over by then, and never pay for a task that watches the connection.
_WATCH_AFTER: Final = 0.1
# Bytes that are read in about a millisecond; more are read beside the loop.
_QUICK: Final = 256 << 10
_TRUE: Final = frozenset({"true", "1"})
_FALSE: Final = frozenset({"false", "0", ""})


async def call_tool(request: Request) -> Answer | Streamed:
    """Call a tool with the body as its arguments object; errors are GatewayErrors with the call's id."""
    principal = await authorise(request, "tools:call")
    # The mapping behind request.state, whose attributes cost ten times as much to get.
    state: dict[str, Any] = request.scope["state"]
    name: str = request.path_params["name"]
    dry_run = _dry_run(request)
    attempt = (
        Attempt(name, principal, calls=state["calls"], metrics=state["metrics"]) if not dry_run else None
    )
    clock: Timers = state["engine"].clock
    rooms = Rooms(state["catalog"], state["resolver"], clock)
    watch = _Watch(request, clock)
    try:
        _refuse_impossible(name)
        body = await _body(request, state["settings"].max_request_bytes)
        if len(body) <= _QUICK:
            arguments = parse_arguments(body)
        else:
            arguments = await asyncio.to_thread(parse_arguments, body)
        if attempt is None:
            described = await describe(name, arguments, principal=principal, rooms=rooms)
            return _described(described)
        attempt.request_bytes = len(body)
        watch.begin()
        result = await call(name, arguments, principal=principal, rooms=rooms, attempt=attempt)
        try:
            return await respond(result, accept=_accept(request), attempt=attempt)
        except BaseException:
            await result.aclose()
            raise
    except BaseException as error:  # noqa: BLE001 - it is recorded, and raised again.
        return _failed(error, request, attempt, watch)
    finally:
        watch.end()


call_tool.scope = "tools:call"  # type: ignore[attr-defined]

CALL_ROUTE = Route("/tools/{name}/call", endpoint=call_tool, methods=["POST"], name="callTool")


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


def _failed(error: BaseException, request: Request, attempt: Attempt | None, watch: _Watch) -> Answer:
    """Records how the call ended and raises the error again; nothing is left to say to a caller that left."""
    if attempt is not None:
        attempt.fail(error)
        request.state.call_id = attempt.call_id
        if isinstance(error, GatewayError):
            error.headers["X-Call-Id"] = attempt.call_id
    left = isinstance(error, asyncio.CancelledError) and watch.watcher is not None and gone(watch.watcher)
    if left or isinstance(error, ClientDisconnect):
        return Answer(b"", [], status_code=499)
    raise error


def _refuse_impossible(name: str) -> None:
    """No tool has such a name, and PostgreSQL could not even be asked for some of them."""
    if _NAME.fullmatch(name) is None:
        raise NotFound("There is no tool of this name.")


async def _body(request: Request, limit: int) -> bytes:
    """The request body. A missing content type counts as JSON."""
    pieces: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise TooLarge(f"The arguments may have at most {limit} bytes.", extra={"limit": limit})
        pieces.append(piece)
        more = message.get("more_body", False)
    body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if body:
        _refuse_other_media(request.scope["headers"])
    return body


def _refuse_other_media(headers: list[tuple[bytes, bytes]]) -> None:
    for name, value in headers:
        if name == b"content-type" and value != b"application/json":
            media = value.partition(b";")[0].strip().lower()
            if media and media != b"application/json" and not media.endswith(b"+json"):
                raise UnsupportedMediaType("Send the arguments as application/json.")


def _dry_run(request: Request) -> bool:
    if not request.scope["query_string"]:
        return False
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


def _accept(request: Request) -> str:
    """All Accept headers as one (RFC 9110 section 5.3); no header means that everything is accepted."""
    values = [value for name, value in request.scope["headers"] if name == b"accept"]
    return b",".join(values).decode("latin-1") if values else "*/*"
