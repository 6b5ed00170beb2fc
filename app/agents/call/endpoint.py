"""`POST /tools/{name}/call` and that of a toolset, the routes of calls: plain Starlette, no model, no
dependency.

Measured in the design: a bare Starlette route costs 36 us a request, one of FastAPI with a body model and
three dependencies 169 us. It calls the same `authorise()` as every other route, and is described in
`operation.py`. It only reads the request into a CallRequest and writes the CallOutcome as the response.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.routing import Route

from app.access import authorise
from app.access.authorise import SESSION_PRINCIPAL
from app.agents.call.budgeted import can_be_budgeted, respond_within
from app.agents.call.content_negotiation import parse_accept
from app.agents.call.envelope import envelope_response
from app.agents.call.event_stream import EventStreamResponse
from app.agents.call.query import read_query
from app.agents.call.responses import StreamedResponse, respond
from app.agents.call.result_preferences import parse_result_preferences
from app.api.streams.connection import Headers, until_disconnected
from app.api.streams.http_messages import BytesResponse, read_body, read_head, read_timeout
from app.calls import CallOutcome, CallRequest, ClientDisconnected, describe, execute
from app.calls.arguments.parsing import LARGE_ARGUMENTS_BYTES, parse_arguments
from app.calls.arguments.repairs import parse_repair_preference
from app.calls.disconnect import DisconnectWatch
from app.calls.idempotency.store import read_idempotency_key
from app.calls.rate_limiter import RateLimitState
from app.calls.recordings.runs import RUN_HEADER, parse_run
from app.calls.response.streams import StreamRegistry
from app.calls.results import ResultBudget
from app.core import exact_json
from app.core.errors import Forbidden, GatewayError
from app.formats.utcp.render import INTERFACE_HEADER
from app.protocols.base import Result
from app.protocols.responses.rule import parse_preferences
from app.security.lasting_rights import RightCheck, when_changed
from app.security.principal import Principal
from app.services import Services
from app.toolsets import CallTarget

_JSON: Final = b"application/json"
_INTERFACE: Final = INTERFACE_HEADER.lower().encode()
_RETRY_AFTER: Final = b"10"
"""Seconds after which a client reads the state of its approval."""
# An upstream's own headers of these names describe its limits for the gateway; a client would take them for
# limits of the gateway. Where the gateway has a limit, its own headers replace them.
_RATE_LIMIT_HEADERS: Final = frozenset(
    {"ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"}
)
_RATE_LIMIT_HEADERS_IN_BYTES: Final = frozenset(name.encode() for name in _RATE_LIMIT_HEADERS)

Response = BytesResponse | StreamedResponse | EventStreamResponse


async def call_tool(request: Request) -> Response:
    """Call a tool with the body as its arguments object; raises GatewayErrors with the id of the call."""
    principal = await authorise(request, "tools:call")
    name = request.scope["path_params"]["name"]
    if principal.toolsets is None:
        # What `open_view` would give, without its cost for each call.
        return await _call(request, CALL_ROUTE, principal, name)
    services: Services = request.scope["state"]["services"]
    view = await services.collections.open_view(principal)
    return await _call_target(request, CALL_ROUTE, view.target(name))


async def call_toolset_tool(request: Request) -> Response:
    """Call a tool by its name in a toolset, with the preset arguments; raises what `call_tool` raises."""
    principal = await authorise(request, "tools:call")
    services: Services = request.scope["state"]["services"]
    parameters = request.scope["path_params"]
    collection = await services.collections.toolset(parameters["name"], principal)
    return await _call_target(request, TOOLSET_CALL_ROUTE, collection.target(parameters["tool"]))


async def _call_target(request: Request, route: Route, target: CallTarget) -> Response:
    return await _call(request, route, target.through.principal, target.tool, target)


async def _call(
    request: Request, route: Route, principal: Principal, tool: str, target: CallTarget | None = None
) -> Response:
    """Call a tool with the arguments of the request, through the toolset of a target, and return the
    response.
    """
    scope = request.scope
    # The mapping behind request.state, whose attributes cost ten times as much to get.
    services: Services = scope["state"]["services"]
    head = read_head(scope["headers"])
    accept = parse_accept(head.get(b"accept", b"*/*").decode("latin-1"))
    call = CallRequest(
        principal,
        tool,
        route.path,
        accepts_events=bool(accept.events),
        cache_control=head.get(b"cache-control", head.get(b"pragma", b"")).decode("latin-1"),
        cdn_loop=head.get(b"cdn-loop", b""),
        trace_headers=head,
        read=partial(_read, request, head, services),
        disconnected=partial(until_disconnected, request.receive),
    )
    call.wants_envelope = accept.only_envelope
    wanted = _set_options(call, head, target, is_console=SESSION_PRINCIPAL in scope["state"])
    if scope["query_string"]:
        query = read_query(scope["query_string"])
        call.text_arguments = query.arguments
        if query.dry_run:
            _check_preview(call)
            return await _describe(call, services)
        call.wants_envelope = call.wants_envelope or query.envelope
    outcome = await execute(call, services.calls)
    if outcome.approval is not None:
        return _accepted(outcome, outcome.approval, root_path=scope.get("root_path", ""))
    if outcome.evidence is not None and (accept.envelope or call.wants_envelope):
        return _with_rate_limits(await envelope_response(outcome, outcome.evidence), outcome)
    if outcome.result is None:
        return _raise_failure(request, outcome, outcome.error or GatewayError())
    result = outcome.result
    try:
        making: Awaitable[Response]
        if wanted is not None and can_be_budgeted(result):
            making = respond_within(
                *wanted,
                result=result,
                outcome=outcome,
                services=services,
                root_path=scope.get("root_path", ""),
            )
        else:
            making = respond(
                result,
                accept=accept,
                outcome=outcome,
                streams=services.streams,
                check=_right_check(request, call.toolset or None, tool),
            )
        if result.stream is not None or result.events is not None:
            making = _watched(request, outcome, result, services.streams, making)
        response = await making
    except Exception as error:  # noqa: BLE001 - raised again, with the id of the call.
        return _raise_failure(request, outcome, error)
    return _with_rate_limits(response, outcome)


def _right_check(request: Request, toolset: str | None, tool: str) -> RightCheck:
    """Return a check that raises what `authorise` raises, and NotFound where the key may not call the tool
    any more.
    """
    services: Services = request.scope["state"]["services"]

    check = partial(services.collections.require_tool, toolset, tool)
    return when_changed(partial(authorise, request, "tools:call"), lambda: services.feed.position, check)


def _with_rate_limits(response: Response, outcome: CallOutcome) -> Response:
    if outcome.rate_limit_state is not None:
        _add_rate_limits(response.headers, outcome.rate_limit_state)
    return response


call_tool.scope = "tools:call"  # type: ignore[attr-defined]

call_toolset_tool.scope = "tools:call"  # type: ignore[attr-defined]

CALL_ROUTE = Route("/tools/{name}/call", endpoint=call_tool, methods=["POST"], name="callTool")
TOOLSET_CALL_ROUTE = Route(
    "/toolsets/{name}/tools/{tool}/call",
    endpoint=call_toolset_tool,
    methods=["POST"],
    name="callToolsetTool",
)


def _set_options(
    call: CallRequest, head: Mapping[bytes, bytes], target: CallTarget | None, *, is_console: bool
) -> tuple[ResultBudget, str] | None:
    """Set what toolset and headers say of a call, and return what its client prefers for the result."""
    if target is not None:
        through, call.presets = target.through, target.presets
        call.toolset = through.toolset or ""
        call.argument_repair, call.upstream = through.options.argument_repair, through.options.upstream
    if RUN_HEADER in head:
        call.recording_run = parse_run(head[RUN_HEADER])
    if head.get(_INTERFACE) == b"utcp":
        call.interface = "utcp"
    elif is_console:
        call.interface = "console"
    if b"prefer" not in head:
        return None
    prefer = head[b"prefer"].decode("latin-1")
    call.preferences = parse_preferences(prefer)
    call.repair_preference = parse_repair_preference(prefer)
    return parse_result_preferences(prefer)


def _check_preview(call: CallRequest) -> None:
    """Raise Forbidden where a preview would show preset arguments to a key that may not read them."""
    principal = call.principal
    is_restricted = principal.is_restricted or principal.toolset is not None
    if call.presets and (is_restricted or not principal.has_scope("providers:read")):
        raise Forbidden(
            "A preview of this call would show arguments that the toolset sets.",
            hint="Use a key without restrictions that has the scope `providers:read`.",
        )


async def _describe(call: CallRequest, services: Services) -> BytesResponse:
    """Return the response to `?dry_run=true`: the request that the call would send, as JSON."""
    try:
        described = await describe(call, services.calls)
    except ClientDisconnected:
        return _unread()
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    return BytesResponse(exact_json.dumps(described), headers)


async def _watched(
    request: Request,
    outcome: CallOutcome,
    result: Result,
    streams: StreamRegistry,
    making: Awaitable[Response],
) -> Response:
    """Return the response that is made of a result; where that fails, close the result and record the
    failure.
    """
    try:
        with DisconnectWatch(partial(until_disconnected, request.receive), streams.clock) as watch:
            watch.begin()
            return await making
    except BaseException as error:
        await result.aclose()
        await outcome.fail(error)
        raise


def _raise_failure(request: Request, outcome: CallOutcome, error: Exception) -> BytesResponse:
    """Raise the error with the headers of the call; return a response where the client has disconnected."""
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


def _accepted(outcome: CallOutcome, approval: dict[str, Any], *, root_path: str) -> BytesResponse:
    """Return the response to a call that waits for approval."""
    headers = [
        (b"content-type", _JSON),
        (b"cache-control", b"no-store"),
        (b"location", f"{root_path}/approvals/{approval['id']}".encode("latin-1")),
        (b"retry-after", _RETRY_AFTER),
        (b"x-call-id", outcome.call_id.encode()),
    ]
    if outcome.rate_limit_state is not None:
        _add_rate_limits(headers, outcome.rate_limit_state)
    return BytesResponse(exact_json.dumps({"approval": approval}), headers, status_code=outcome.status)


def _unread() -> BytesResponse:
    """Return the response to a client that has disconnected: only its status is used, for the metrics."""
    return BytesResponse(b"", [], status_code=499)


def _add_rate_limits(headers: Headers, state: RateLimitState) -> None:
    """Set the rate-limit headers of a response, in place of those of the upstream."""
    headers[:] = [pair for pair in headers if pair[0] not in _RATE_LIMIT_HEADERS_IN_BYTES]
    headers += [(name.lower().encode(), value.encode()) for name, value in state.headers().items()]


async def _read(request: Request, head: Mapping[bytes, bytes], services: Services, call: CallRequest) -> None:
    """Set the arguments, the deadline and the idempotency key of a call from the request."""
    settings = services.settings
    seconds = read_timeout(head[b"x-timeout-ms"]) if b"x-timeout-ms" in head else None
    body = call.body = await read_body(
        request, head, limit=settings.max_request_bytes, streams=services.streams
    )
    if len(body) <= LARGE_ARGUMENTS_BYTES:
        call.arguments = parse_arguments(body, settings.max_argument_values)
    else:
        call.arguments = await asyncio.to_thread(parse_arguments, body, settings.max_argument_values)
    if b"idempotency-key" in head:
        call.idempotency_key = read_idempotency_key(head[b"idempotency-key"])
    if seconds is not None:
        # From the end of the request: waiting for rate limits or an idempotency key counts towards it.
        call.deadline = services.calls.clock.loop.time() + seconds
