"""`POST /tool-calls` and `POST /toolsets/{name}/tool-calls`: plain Starlette, like the route of single calls.

They read what a model responded, run its calls by the one execution of calls, and respond with the messages
that the client appends to its conversation. They are described in `operation.py`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.routing import Route

from app.access import authorise
from app.agents.http_messages import BytesResponse, read_body, read_head
from app.agents.tool_calls.answers import result_messages
from app.agents.tool_calls.arguments import find_repeated_names
from app.agents.tool_calls.model import CallAnswer, Intake, JsonObject
from app.agents.tool_calls.query import NAMES, ToolCallsQuery, read_query
from app.agents.tool_calls.readers import read_intake
from app.agents.tool_calls.runner import BatchOptions, CallBatch
from app.agents.tool_calls.stream import AnswerStream
from app.api.streams.connection import until_disconnected
from app.calls import ClientDisconnected
from app.calls.arguments.parsing import LARGE_ARGUMENTS_BYTES, parse_arguments
from app.calls.disconnect import DisconnectWatch
from app.calls.options import CallOptions
from app.calls.results import ResultBudget
from app.core import exact_json
from app.core.errors import BadRequest, FieldError, TooLarge
from app.services import Services
from app.toolsets import CollectionOptions, ToolCollection

MAX_CALLS: Final = 128
"""Calls of one request: as many as the tools that most providers take."""
_HEADERS: Final = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]

Response = BytesResponse | AnswerStream


async def run_tool_calls(request: Request) -> Response:
    """Run the calls of a model among all tools of the registry."""
    principal = await authorise(request, "tools:call")
    services: Services = request.scope["state"]["services"]
    return await _respond(request, services, await services.collections.open_view(principal))


async def run_toolset_tool_calls(request: Request) -> Response:
    """Run the calls of a model among the tools of a toolset; raise NotFound without such a toolset."""
    principal = await authorise(request, "tools:call")
    services: Services = request.scope["state"]["services"]
    name = request.scope["path_params"]["name"]
    return await _respond(request, services, await services.collections.toolset(name, principal))


for _endpoint in (run_tool_calls, run_toolset_tool_calls):
    _endpoint.scope = "tools:call"  # type: ignore[attr-defined]
    _endpoint.query_parameters = frozenset(NAMES)  # type: ignore[attr-defined]

TOOL_CALLS_ROUTE: Final = Route("/tool-calls", endpoint=run_tool_calls, methods=["POST"], name="runToolCalls")
TOOLSET_TOOL_CALLS_ROUTE: Final = Route(
    "/toolsets/{name}/tool-calls",
    endpoint=run_toolset_tool_calls,
    methods=["POST"],
    name="runToolsetToolCalls",
)


async def _respond(request: Request, services: Services, collection: ToolCollection) -> Response:
    scope = request.scope
    head = read_head(scope["headers"])
    query = read_query(scope["query_string"])
    settings = services.settings
    try:
        body = await read_body(request, head, limit=settings.max_request_bytes, streams=services.streams)
    except ClientDisconnected:
        return _unread()
    read = partial(_read, body, query, settings.max_argument_values)
    intake = read() if len(body) <= LARGE_ARGUMENTS_BYTES else await asyncio.to_thread(read)
    if len(intake.calls) > MAX_CALLS:
        raise TooLarge(f"A request may have at most {MAX_CALLS} calls.", extra={"limit": MAX_CALLS})
    batch = CallBatch(
        intake.calls,
        collection,
        services,
        _options(head, services, query, intake, route=scope["route"].path),
        parallel=settings.tool_calls_parallel,
    )
    if query.stream:
        accept = head.get(b"accept", b"").decode("latin-1")
        return AnswerStream(batch, intake, partial(_body, query=query), services.streams, accept=accept)
    try:
        with DisconnectWatch(partial(until_disconnected, request.receive), services.calls.clock):
            answers = await batch.run()
    except ClientDisconnected:
        return _unread()
    return BytesResponse(exact_json.dumps(_body(intake, answers, query=query)), list(_HEADERS))


def _read(body: bytes, query: ToolCallsQuery, limit: int) -> Intake:
    """Return the calls of a body; raise BadRequest, InvalidInput and TooLarge."""
    if not body:
        error = FieldError("", "Send what the model responded, or its tool calls.")
        raise BadRequest("The request has no body.", errors=[error])
    value = parse_arguments(body, limit)
    repeated = find_repeated_names(body, value)
    return read_intake(value if repeated is None else repeated, query.dialect, limit=limit)


def _options(
    head: Mapping[bytes, bytes],
    services: Services,
    query: ToolCallsQuery,
    intake: Intake,
    *,
    route: str,
) -> BatchOptions:
    call = CallOptions.from_headers(head)
    # What a model reads is always decoded, and has no place for violations.
    call.preferences = None

    def budget(defaults: CollectionOptions) -> ResultBudget:
        return query.budget(
            max_bytes=defaults.max_bytes, max_tokens=defaults.max_tokens, calls=len(intake.calls)
        )

    return BatchOptions(
        route,
        budget,
        deadline=None if call.timeout is None else services.calls.clock.loop.time() + call.timeout,
        call=call,
        form=query.form or intake.dialect,
        strict=query.strict,
    )


def _body(intake: Intake, answers: Sequence[CallAnswer], *, query: ToolCallsQuery) -> JsonObject:
    """Return the response to a request, or the last event of a stream."""
    messages: list[Any] = result_messages(intake.dialect, answers)
    if query.assistant:
        messages = [*intake.turn, *messages]
    return {
        "format": intake.dialect,
        "messages": messages,
        "results": [answer.as_json() for answer in answers],
        "cut": intake.cut or None,
    }


def _unread() -> BytesResponse:
    """Return the response to a client that has disconnected: only its status is used, for the metrics."""
    return BytesResponse(b"", [], status_code=499)
