"""`POST /tools/{name}/call` and that of a toolset, the routes of calls: plain Starlette, no model, no
dependency.

Measured in the design: a bare Starlette route costs 36 us a request, one of FastAPI with a body model and
three dependencies 169 us. It calls the same `authorise()` as every other route, and is described in
`operation.py`. It only reads the request into a CallRequest and writes the CallContext as the response.
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
from app.agents.call.content_negotiation import AcceptedTypes, parse_accept
from app.agents.call.envelope import envelope_response
from app.agents.call.event_stream import EventStreamResponse
from app.agents.call.query import read_query
from app.agents.call.responses import StreamedResponse, respond
from app.agents.call.result_preferences import parse_result_preferences
from app.agents.http_messages import BytesResponse, read_body, read_head
from app.api.streams.connection import Headers, until_disconnected
from app.calls import CallContext, CallRequest, ClientDisconnected, describe, execute
from app.calls.arguments.parsing import LARGE_ARGUMENTS_BYTES, parse_arguments
from app.calls.disconnect import DisconnectWatch
from app.calls.options import CallOptions
from app.calls.rate_limiter import RateLimitState
from app.calls.response.streams import StreamRegistry
from app.calls.results import ResultBudget
from app.core import exact_json
from app.core.errors import Forbidden, GatewayError
from app.formats.utcp.render import INTERFACE_HEADER
from app.protocols.base import Result
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
        wants_envelope=accept.only_envelope,
        disconnected=partial(until_disconnected, request.receive),
    )
    if target is not None:
        _set_target(call, target)
    if head.get(_INTERFACE) == b"utcp":
        call.interface = "utcp"
    elif SESSION_PRINCIPAL in scope["state"]:
        call.interface = "console"
    budget = parse_result_preferences(head[b"prefer"].decode("latin-1")) if b"prefer" in head else None
    is_preview = bool(scope["query_string"]) and _set_query(call, scope["query_string"])
    try:
        call.options = CallOptions.from_headers(head)
        await _read_arguments(call, request, head, services)
    except Exception as error:  # noqa: BLE001 - the call fails with it, and is recorded.
        call.error = error
    if is_preview:
        return await _describe(call, services)
    outcome = await execute(call, services.calls)
    return await _respond(request, accept, call, outcome, budget)


async def _respond(
    request: Request,
    accept: AcceptedTypes,
    call: CallRequest,
    outcome: CallContext,
    budget: tuple[ResultBudget, str] | None,
) -> Response:
    """Return the response to a call; raise the error that it ended with."""
    scope = request.scope
    services: Services = scope["state"]["services"]
    if outcome.approval is not None:
        return _accepted(outcome, outcome.approval, root_path=scope.get("root_path", ""))
    if outcome.evidence is not None and (accept.envelope or call.wants_envelope):
        return _with_rate_limits(await envelope_response(outcome, outcome.evidence), outcome)
    if outcome.result is None:
        return _raise_failure(request, outcome, outcome.error or GatewayError())
    result = outcome.result
    try:
        making: Awaitable[Response]
        if budget is not None and can_be_budgeted(result):
            making = respond_within(
                *budget,
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
                check=_right_check(request, call.toolset or None, call.tool),
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


def _with_rate_limits(response: Response, outcome: CallContext) -> Response:
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


def _set_target(call: CallRequest, target: CallTarget) -> None:
    """Set what the address of the call says of it: a toolset, its presets and options."""
    through = target.through
    call.presets, call.toolset = target.presets, through.toolset or ""
    call.argument_repair, call.upstream = through.options.argument_repair, through.options.upstream


def _set_query(call: CallRequest, query_string: bytes) -> bool:
    """Set what the query string says of the call; return whether it asks for a preview (`dry_run`)."""
    query = read_query(query_string)
    call.text_arguments = query.arguments
    call.wants_envelope = call.wants_envelope or query.envelope
    if query.dry_run:
        _check_preview(call)
    return query.dry_run


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
    outcome: CallContext,
    result: Result,
    streams: StreamRegistry,
    making: Awaitable[Response],
) -> Response:
    """Return the response that is made of a result; where that fails, close the result and record the
    failure.
    """
    try:
        with DisconnectWatch(partial(until_disconnected, request.receive), streams.clock):
            return await making
    except BaseException as error:
        await result.aclose()
        await outcome.conclude_failed(error)
        raise


def _raise_failure(request: Request, outcome: CallContext, error: Exception) -> BytesResponse:
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


def _accepted(outcome: CallContext, approval: dict[str, Any], *, root_path: str) -> BytesResponse:
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


async def _read_arguments(
    call: CallRequest, request: Request, head: Mapping[bytes, bytes], services: Services
) -> None:
    """Set the arguments and the deadline of a call from the body of the request."""
    settings = services.settings
    body = call.body = await read_body(
        request, head, limit=settings.max_request_bytes, streams=services.streams
    )
    if len(body) <= LARGE_ARGUMENTS_BYTES:
        call.arguments = parse_arguments(body, settings.max_argument_values)
    else:
        call.arguments = await asyncio.to_thread(parse_arguments, body, settings.max_argument_values)
    if call.options.timeout is not None:
        # From the end of the request: waiting for rate limits or an idempotency key counts towards it.
        call.deadline = services.calls.clock.loop.time() + call.options.timeout
