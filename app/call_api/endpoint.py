"""`POST /tools/{name}/call`, the route of calls: plain Starlette, no model, no dependency.

Measured in the design: a bare Starlette route costs 36 us a request, one of FastAPI with a body model and
three dependencies 169 us. It calls the same `authorise()` as every other route, and is described in
`operation.py`. What it does itself is to read the request into a CallRequest, and to write the CallOutcome.
"""

import asyncio
import re
from collections.abc import Mapping
from functools import partial
from typing import Final

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route

from app.access import authorise
from app.call_api.connection import MAX_PIECE, Headers, until_disconnected
from app.call_api.content_negotiation import AcceptedTypes, parse_accept
from app.call_api.event_stream import EventStreamResponse
from app.call_api.responses import BytesResponse, StreamedResponse, respond
from app.calls import CallOutcome, CallRequest, ClientDisconnected, describe, execute
from app.calls.arguments import LARGE, parse_arguments
from app.calls.disconnect import DisconnectWatch
from app.calls.rate_limiter import RateLimitState
from app.calls.streams import StreamRegistry
from app.deadlines import Deadline
from app.errors import (
    BadRequest,
    ClientTimeout,
    FieldError,
    GatewayError,
    InvalidInput,
    TooLarge,
    UnsupportedMediaType,
)
from app.protocols.base import Result
from app.services import Services

_JSON: Final = b"application/json"
_MILLISECONDS: Final = re.compile(rb"0*[1-9][0-9]{0,8}")
_TRUE: Final = frozenset({"true", "1"})
_FALSE: Final = frozenset({"false", "0", ""})
_BARE_KEY: Final = re.compile(r"[!#-~][!-~]{0,254}")
_QUOTED_KEY: Final = re.compile(r'"((?:[!#-\[\]-~]|\\["\\]){1,510})"')
# An upstream's own fields of these names speak about its limits towards the gateway; a client would take them
# for those of the server that it talks to. Where we have a limit, ours are sent and the upstream's are not.
_RATE_LIMIT_HEADERS: Final = frozenset(
    {"ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"}
)
_RATE_LIMIT_HEADERS_IN_BYTES: Final = frozenset(name.encode() for name in _RATE_LIMIT_HEADERS)

Response = BytesResponse | StreamedResponse | EventStreamResponse


async def call_tool(request: Request) -> Response:
    """Call a tool with the body as its arguments object; raises GatewayErrors with the id of the call."""
    principal = await authorise(request, "tools:call")
    scope = request.scope
    # The mapping behind request.state, whose attributes cost ten times as much to get.
    services: Services = scope["state"]["services"]
    head = read_head(scope["headers"])
    accept = parse_accept(head.get(b"accept", b"*/*").decode("latin-1"))
    call = CallRequest(
        principal,
        scope["path_params"]["name"],
        CALL_ROUTE.path,
        accepts_events=bool(accept.events),
        cache_control=head.get(b"cache-control", head.get(b"pragma", b"")).decode("latin-1"),
        cdn_loop=head.get(b"cdn-loop", b""),
        trace_headers=head,
        read=partial(_read, request, head, services),
        disconnected=partial(until_disconnected, request.receive),
    )
    if scope["query_string"] and _dry_run(request):
        return await _describe(call, services)
    outcome = await execute(call, services.calls)
    if outcome.result is None:
        return _failed(request, outcome, outcome.error or GatewayError())
    try:
        response = await _respond(request, outcome.result, accept, outcome, services.streams)
    except Exception as error:  # noqa: BLE001 - raised again, with the id of the call.
        return _failed(request, outcome, error)
    if outcome.rate_limit_state is not None:
        _add_rate_limits(response.headers, outcome.rate_limit_state)
    return response


call_tool.scope = "tools:call"  # type: ignore[attr-defined]

CALL_ROUTE = Route("/tools/{name}/call", endpoint=call_tool, methods=["POST"], name="callTool")


async def _describe(call: CallRequest, services: Services) -> BytesResponse:
    """The response to `?dry_run=true`."""
    try:
        described = await describe(call, services.calls)
    except ClientDisconnected:
        return _unread()
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    return BytesResponse(orjson.dumps(described), headers)


async def _respond(
    request: Request, result: Result, accept: AcceptedTypes, outcome: CallOutcome, streams: StreamRegistry
) -> Response:
    """The response of `respond`; where that fails, the result is closed and the failure recorded."""
    if result.stream is None and result.events is None:
        return await respond(result, accept=accept, outcome=outcome, streams=streams)
    try:
        with DisconnectWatch(partial(until_disconnected, request.receive), streams.clock) as watch:
            watch.begin()
            return await respond(result, accept=accept, outcome=outcome, streams=streams)
    except BaseException as error:
        await result.aclose()
        await outcome.fail(error)
        raise


def _failed(request: Request, outcome: CallOutcome, error: Exception) -> BytesResponse:
    """Raise the error with what the client is to know of its call; a client that left is told nothing."""
    request.state.call_id = outcome.call_id
    if isinstance(error, ClientDisconnected):
        return _unread()
    if isinstance(error, GatewayError):
        error.headers["X-Call-Id"] = outcome.call_id
        if outcome.replayed:
            error.headers["Idempotency-Replayed"] = "true"
        state = outcome.rate_limit_state
        if state is not None:
            others = {
                name: value
                for name, value in error.headers.items()
                if name.lower() not in _RATE_LIMIT_HEADERS
            }
            error.headers = others | state.headers()
    raise error


def _unread() -> BytesResponse:
    """A response that nobody reads; its status is counted."""
    return BytesResponse(b"", [], status_code=499)


def _add_rate_limits(headers: Headers, state: RateLimitState) -> None:
    """Add what the rate limits leave to the headers of a response."""
    headers[:] = [pair for pair in headers if pair[0] not in _RATE_LIMIT_HEADERS_IN_BYTES]
    headers += [(name.lower().encode(), value.encode()) for name, value in state.headers().items()]


async def _read(request: Request, head: Mapping[bytes, bytes], services: Services, call: CallRequest) -> None:
    """Read what else the call needs: its arguments, how long its client waits, and its idempotency key."""
    settings = services.settings
    seconds = _seconds(head[b"x-timeout-ms"]) if b"x-timeout-ms" in head else None
    body = call.body = await _body(request, head, limit=settings.max_request_bytes, streams=services.streams)
    if len(body) <= LARGE:
        call.arguments = parse_arguments(body, settings.max_argument_values)
    else:
        call.arguments = await asyncio.to_thread(parse_arguments, body, settings.max_argument_values)
    if b"idempotency-key" in head:
        call.idempotency_key = read_idempotency_key(head[b"idempotency-key"])
    if seconds is not None:
        # Counts from the end of the request: what limits and keys take is the client's time, too.
        call.deadline = services.calls.clock.loop.time() + seconds


async def _body(
    request: Request, head: Mapping[bytes, bytes], *, limit: int, streams: StreamRegistry
) -> bytes:
    """The request body. A missing content type counts as JSON. As long as it takes, the call counts as one of
    those under way: for each 64 KiB there is no more time than for reading as much of a response.
    """
    pieces: list[bytes] = []
    size = 0
    more = True
    began = streams.clock.loop.time()
    while more:
        try:
            with Deadline(streams.clock, began + streams.stall * (1 + size // MAX_PIECE)):
                message = await request.receive()
        except TimeoutError:
            why = "The client stopped sending its arguments."
            raise ClientTimeout(why, headers={"Connection": "close"}) from None
        except ClientDisconnect:
            raise ClientDisconnected from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
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
    """Return a request's headers by name in lower case, repeated ones as one (RFC 9110 section 5.3)."""
    head = dict(headers)
    if len(head) < len(headers):
        head = {name: b", ".join(value for other, value in headers if other == name) for name in head}
    return head


def read_idempotency_key(value: bytes) -> str:
    """Return the key in a header's value: bare, or a string of RFC 9651 in quotes, which is the same key.

    Raises BadRequest for anything but 1 to 255 characters of visible ASCII.
    """
    text = value.decode("latin-1").strip(" \t")
    quoted = _QUOTED_KEY.fullmatch(text)
    key = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted is not None else text
    if len(key) > 255 or (quoted is None and _BARE_KEY.fullmatch(text) is None):
        detail = "Give one key of 1 to 255 visible ASCII characters, in double quotes or without."
        raise BadRequest(
            "The Idempotency-Key is not valid.", errors=[FieldError("#/header/Idempotency-Key", detail)]
        )
    return key


def _seconds(value: bytes) -> float:
    """What X-Timeout-Ms leaves for the call."""
    if _MILLISECONDS.fullmatch(value) is None:
        fault = FieldError("#/header/X-Timeout-Ms", "Give a whole number of milliseconds, from 1.", "integer")
        raise InvalidInput("A header is not valid.", errors=[fault])
    return int(value) / 1000


def _dry_run(request: Request) -> bool:
    values = request.query_params.getlist("dry_run")
    if not values or (len(values) == 1 and values[0].lower() in _FALSE):
        return False
    if len(values) == 1 and values[0].lower() in _TRUE:
        return True
    # Which of several values counts differs from program to program, and a wrong guess calls the tool.
    fault = FieldError("#/query/dry_run", "Give true or false, once.", "boolean")
    raise InvalidInput("A query parameter is not valid.", errors=[fault])
