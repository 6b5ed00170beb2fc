"""`tools/call`: a call of the gateway's one execution, and its result as MCP has it."""

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Final

from app.access import authorise
from app.agents.http_messages import BytesResponse
from app.agents.mcp.exchange import Exchange, Response
from app.agents.mcp.header_values import check_mirrored
from app.agents.mcp.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    OWN_PREFIX,
    RpcError,
    result_envelope,
)
from app.agents.mcp.response_stream import ResponseStream
from app.agents.mcp.results import call_result
from app.agents.mcp.server import MODERN_META
from app.agents.mcp.tool_lists import RenderedTool
from app.api.streams.connection import until_disconnected
from app.calls import CallContext, CallRequest, ClientDisconnected, execute
from app.calls.disconnect import DisconnectWatch
from app.calls.options import CallOptions
from app.calls.results import ModelResult, ResultBudget, read_result
from app.core.errors import BadRequest, GatewayError, NotFound, scopes_missing
from app.core.telemetry.unexpected import log_unexpected_error
from app.security.lasting_rights import RightCheck, run_while_permitted, when_changed
from app.toolsets import (
    AgentTool,
    AmbiguousTool,
    CallTarget,
    CollectionOptions,
    schema_form,
    with_names_here,
)
from app.toolsets.meta_tools import META_TOOL_NAMES, call_meta_tool

IDEMPOTENCY_META: Final = f"{OWN_PREFIX}idempotencyKey"
"""The member of `_meta` that takes the place of the header Idempotency-Key."""
_TRACE: Final = ("traceparent", "tracestate", "baggage")
_OPTION_HEADERS: Final = (
    b"idempotency-key", b"cdn-loop", b"x-recording-run", *(name.encode() for name in _TRACE),
)  # fmt: skip
_DISCONNECTED: Final = 499


async def call_tool(exchange: Exchange) -> Response:
    """Return the response to `tools/call`; raise RpcError, and Forbidden without the scope `tools:call`."""
    params = exchange.rpc.params
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str):
        raise RpcError(INVALID_PARAMS, '"params.name" is a string.')
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise RpcError(INVALID_PARAMS, '"params.arguments" is an object.')
    if name not in META_TOOL_NAMES and not exchange.collection.principal.has_scope("tools:call"):
        raise scopes_missing("The API key lacks the scope `tools:call`.", ["tools:call"])
    stream = ResponseStream(exchange.request, exchange.services.streams, exchange.rpc.progress_token)
    stream.arm(exchange.server.slow_seconds)
    call = ToolCall(exchange, stream)
    try:
        try:
            result = await call.run(name, arguments)
        finally:
            if stream.disarm():
                await stream.end()
    except ClientDisconnected:
        # Only the status is used, for the metrics.
        return BytesResponse(b"", [], status_code=_DISCONNECTED)
    except Exception as error:
        if not stream.has_begun:
            raise
        return stream.finish(_convert_late_error(error).envelope(exchange.rpc.id))
    if stream.wants_progress:
        await stream.send_rest()
    message = result_envelope(exchange.rpc.id, result)
    if stream.has_begun:
        return stream.finish(message)
    return exchange.json_response(message, call.headers)


def _convert_late_error(error: Exception) -> RpcError:
    """Return the error to send where the response has begun."""
    if isinstance(error, RpcError):
        return error
    known = error if isinstance(error, GatewayError) else log_unexpected_error(error)
    return RpcError(INTERNAL_ERROR, known.detail)


class ToolCall:
    """One request `tools/call`. `headers` are those of its response."""

    def __init__(self, exchange: Exchange, stream: ResponseStream) -> None:
        self._exchange = exchange
        self._stream = stream
        self.headers: list[tuple[bytes, bytes]] = []

    async def run(self, name: str, arguments: dict[str, Any]) -> bytes:
        """Return the result as JSON; raise RpcError for an unknown tool."""
        collection = self._exchange.collection
        if name in META_TOOL_NAMES:
            result = await call_meta_tool(
                name,
                arguments,
                collection,
                call=self._call_found,
                rests=self._exchange.services.stored_rests,
                budget=self._find_budget,
                base_url=self._exchange.services.settings.base_url,
                aids=self._exchange.services.find_aids,
            )
            return result if isinstance(result, bytes) else self._render(result, None)
        try:
            tool = await collection.get(name)
        except NotFound:
            # The call gives the reason, and is recorded.
            return await self._call(await self._find_target(name), arguments, None, name=name)
        except AmbiguousTool as error:
            raise _reject_ambiguous(error) from None
        rendered = await self._exchange.server.lists.read(tool, schema_form(collection))
        if rendered.mirrored and self._exchange.rpc.is_modern:
            check_mirrored(rendered.mirrored, self._exchange.head, arguments)
        return await self._call(tool, _unwrap_arguments(rendered, arguments), rendered, name=name)

    async def _find_target(self, name: str) -> CallTarget:
        """Return what a call by a name executes; raise RpcError where a toolset does not have it."""
        try:
            return self._exchange.collection.target(name)
        except NotFound as error:
            raise await self._create_unknown_tool_error(name, error) from None

    async def _call_found(self, tool: AgentTool, arguments: dict[str, Any], budget: ResultBudget) -> bytes:
        """Return the result of a tool that a meta-tool calls, within the budget."""
        form = schema_form(self._exchange.collection)
        rendered: RenderedTool | None = await self._exchange.server.lists.read(tool, form)
        if rendered is not None and (rendered.json is None or budget.fields or budget.format):
            # Parts of a result, and tables, are not what an output schema describes.
            rendered = None
        return await self._call(tool, arguments, rendered, budget=budget)

    async def _call(
        self,
        target: AgentTool | CallTarget,
        arguments: dict[str, Any],
        rendered: RenderedTool | None,
        *,
        name: str | None = None,
        budget: ResultBudget | None = None,
    ) -> bytes:
        """Return the result of a call. `name` is that in the request, None where a meta-tool calls: a tool of
        this name that is unknown is an error of the protocol.
        """
        exchange = self._exchange
        route = target if isinstance(target, CallTarget) else exchange.collection.resolve(target)
        outcome = await execute(self._request(route, arguments), exchange.services.calls)
        if outcome.error is not None:
            if isinstance(outcome.error, ClientDisconnected):
                raise outcome.error
            if name is not None and isinstance(outcome.error, NotFound):
                raise await self._create_unknown_tool_error(name, outcome.error)
        self._add_headers(outcome)
        result = await self._read(outcome, route, budget or self._derive_budget(route.through.options))
        on_deviation = None
        if isinstance(target, AgentTool) and not outcome.replayed:
            deviations = exchange.services.output_deviations
            on_deviation = partial(deviations.report, target.id, target.outputs_json)
        return self._render(result, rendered, on_deviation)

    def _find_budget(self, tool: AgentTool | None) -> ResultBudget:
        """Return how large a result of a tool may be, and for None that of a meta-tool."""
        collection = self._exchange.collection
        return self._derive_budget((collection if tool is None else collection.resolve(tool).through).options)

    def _derive_budget(self, options: CollectionOptions) -> ResultBudget:
        """Return how large a result may be: as the toolset says, else as the setting does."""
        max_bytes = options.max_bytes or self._exchange.services.settings.mcp_result_max
        return _create_budget(max_bytes, options.max_tokens)

    def _read(self, outcome: CallContext, target: CallTarget, budget: ResultBudget) -> Awaitable[ModelResult]:
        """Return what reads the result of a call of a target. A modern client that disconnects meanwhile ends
        it; so does, for events, a key that may not call the tool any more.
        """
        exchange = self._exchange
        reading = read_result(
            outcome,
            budget=budget,
            continuations=exchange.services.continuations,
            base_url=exchange.services.settings.base_url,
            on_event=self._stream.on_event,
        )
        result = outcome.result
        if result is None or (result.stream is None and result.events is None):
            return reading
        if result.events is not None:
            reading = run_while_permitted(reading, self._create_right_check(target))
        return self._await_unless_disconnected(reading) if exchange.rpc.is_modern else reading

    def _create_right_check(self, target: CallTarget) -> RightCheck:
        """Return a check that raises what `authorise` raises, and NotFound where the key may not call the
        tool any more.
        """
        exchange = self._exchange
        services = exchange.services
        return when_changed(
            partial(authorise, exchange.request, "tools:call"),
            lambda: services.feed.position,
            partial(services.collections.require_tool, target.through.toolset, target.tool),
        )

    async def _await_unless_disconnected(self, reading: Awaitable[ModelResult]) -> ModelResult:
        exchange = self._exchange
        with DisconnectWatch(
            partial(until_disconnected, exchange.request.receive), exchange.services.streams.clock
        ):
            return await reading

    def _request(self, target: CallTarget, arguments: dict[str, Any]) -> CallRequest:
        exchange = self._exchange
        return CallRequest(
            target.through.principal,
            target.tool,
            exchange.route,
            interface="mcp",
            toolset=target.through.toolset or "",
            presets=target.presets,
            argument_repair=target.through.options.argument_repair,
            upstream=target.through.options.upstream,
            options=_read_options(exchange.head, exchange.rpc.meta),
            arguments=arguments,
            on_progress=self._stream.on_progress if self._stream.wants_progress else None,
            # The end of a connection is the cancellation of a modern client, but not of a legacy one.
            disconnected=(
                partial(until_disconnected, exchange.request.receive) if exchange.rpc.is_modern else None
            ),
        )

    async def _create_unknown_tool_error(self, name: str, error: NotFound) -> RpcError:
        named = await with_names_here(error, self._exchange.collection)
        data = {"detail": named.detail, "hint": named.hint, **named.extra}
        return RpcError(INVALID_PARAMS, f"Unknown tool: {name}", data=data)

    def _add_headers(self, outcome: CallContext) -> None:
        self.headers.append((b"x-call-id", outcome.call_id.encode()))
        if outcome.rate_limit_state is not None:
            limits = outcome.rate_limit_state.headers()
            self.headers += [(name.lower().encode(), value.encode()) for name, value in limits.items()]

    def _render(
        self,
        result: ModelResult,
        rendered: RenderedTool | None,
        on_deviation: Callable[[], None] | None = None,
    ) -> bytes:
        settings = self._exchange.services.settings
        is_modern = self._exchange.rpc.is_modern
        return call_result(
            result,
            rendered,
            is_modern=is_modern,
            structured_max=settings.mcp_structured_max,
            embedded_max=settings.mcp_embedded_max,
            resource_url=f"{settings.base_url}/calls/{result.call_id}",
            server_info=MODERN_META if is_modern else None,
            on_deviation=on_deviation,
        )


def _reject_ambiguous(error: AmbiguousTool) -> RpcError:
    """Return the error for a name of several tools, as of an unknown one."""
    return RpcError(INVALID_PARAMS, error.detail, data={"hint": error.hint, **error.extra})


@lru_cache(maxsize=1_000)
def _create_budget(max_bytes: int, max_tokens: int | None) -> ResultBudget:
    return ResultBudget(max_bytes=max_bytes, max_tokens=max_tokens)


def _unwrap_arguments(rendered: RenderedTool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by the tool's own schema, where the listed one has a property around it."""
    if rendered.inputs is None or not rendered.inputs.is_wrapped:
        return arguments
    inner = rendered.inputs.unwrap(arguments)
    return inner if isinstance(inner, dict) else arguments


def _read_options(head: Mapping[bytes, bytes], meta: Mapping[str, Any]) -> CallOptions:
    """Return the options of a call: those of the head, else those of `_meta`; raise RpcError.

    Other headers than these are those of the exchange, and say nothing of the call.
    """
    headers = {name: head[name] for name in _OPTION_HEADERS if name in head}
    if meta.get(IDEMPOTENCY_META) is not None:
        headers.setdefault(b"idempotency-key", str(meta[IDEMPOTENCY_META]).encode())
    if b"traceparent" not in headers:
        for name in _TRACE:
            headers.pop(name.encode(), None)
            if "traceparent" in meta and isinstance(meta.get(name), str):
                headers[name.encode()] = meta[name].encode("latin-1", "replace")
    try:
        return CallOptions.from_headers(headers)
    except BadRequest as error:
        raise RpcError(INVALID_PARAMS, f"{error.detail} {error.errors[0].detail}") from None
