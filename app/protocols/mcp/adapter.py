"""UTCP's `mcp`: tools and resources of MCP servers over Streamable HTTP, SSE and stdio."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final

from app.core import exact_json
from app.core.errors import (
    FieldError,
    InvalidArguments,
    UpstreamErrorResponse,
    UpstreamRejected,
    UpstreamTimeout,
)
from app.formats.utcp.percent import escape
from app.outbound.error_bodies import sanitize_error_body
from app.outbound.framing import StreamEvent
from app.protocols.base import (
    AdapterContext,
    Call,
    ChecksUpstream,
    Discovered,
    GivesEvidence,
    Result,
    SendsOnce,
)
from app.protocols.mcp.calls import McpCall, send_request
from app.protocols.mcp.compiling import McpTarget, compile_mcp, describe_server, server_arguments
from app.protocols.mcp.listing import fill_uri, resource_entries, template_entries, tool_entries, uri_names
from app.protocols.mcp.results import (
    has_content_blocks,
    input_methods,
    resource_value,
    tool_error_value,
    tool_value,
)
from app.protocols.mcp.server import ErrorReply
from app.protocols.mcp.session_pool import SessionPool
from app.protocols.shared.programs import ProgramRules
from app.protocols.shared.results import JSON, check_size, time_limit, value_result

_CLIENT_ERROR_CODES: Final = frozenset({-32600, -32601, -32602, -32042, -32002})
_ERROR_BODY: Final = 64 * 1024
_MAX_NAMED: Final = 20


class McpAdapter(ChecksUpstream, GivesEvidence, SendsOnce):
    """The adapter for MCP servers; sessions are pooled."""

    name: ClassVar[str] = "mcp"

    def __init__(self, context: AdapterContext) -> None:
        self._masker = context.masker
        self._rules = ProgramRules(context.settings)
        self._sessions = SessionPool(
            context.engine,
            self._rules,
            context.masker,
            max_sessions=context.settings.mcp_sessions,
            idle_seconds=context.settings.mcp_idle_seconds,
        )

    def prepare(self, template: Mapping[str, Any]) -> McpTarget:
        """Compile a template of `call_template_type` mcp that names one server; raise InvalidInput."""
        return compile_mcp(template, self._rules)

    def origin(self, target: McpTarget) -> str:
        """Return the origin of the server's URL, or `stdio://` and its command."""
        return target.origin

    def is_safe(self, target: McpTarget) -> bool:
        """Return whether a resource is read; hints of servers about tools (readOnlyHint) are not trusted."""
        return target.uri is not None

    def is_idempotent(self, target: McpTarget) -> bool:
        """Return whether a resource is read."""
        return target.uri is not None

    def is_sent_once(self, target: McpTarget) -> bool:
        """Return whether a tool of a program is called, which gets no headers."""
        return target.program is not None and target.uri is None

    def request_identity(self, call: Call[McpTarget]) -> bytes | None:  # noqa: ARG002 - the contract's.
        """Return None: responses may depend on the session."""
        return None

    def method(self, target: McpTarget) -> str:
        """Return the method of MCP: `resources/read` or `tools/call`."""
        return "resources/read" if target.uri is not None else "tools/call"

    async def call(self, call: Call[McpTarget]) -> Result:
        """Call the tool or read the resource and return its value.

        Reports of progress go to the call's `on_progress`; where it takes events, they are events named
        `progress`. Raise UpstreamRejected
        for an error of the server or the tool, and what the session raises.
        """
        target = call.target
        sent = McpCall(call)
        if target.uri is not None:
            uri = _resource_uri(target.uri, call.arguments)
            pending = self._request(sent, lambda session: session.read(uri, sent.attempt))
        else:
            tool, arguments = _tool_name(target), server_arguments(target, call.arguments)
            wants_progress = call.stream_deadline is not None or call.on_progress is not None
            on_progress = sent.on_progress if wants_progress else None
            pending = self._request(
                sent, lambda session: session.call(tool, arguments, sent.attempt, on_progress)
            )
        if call.stream_deadline is None:
            return self._result(await pending, sent, call)
        task = asyncio.create_task(pending)
        # Where the client disconnects early, the exception is never retrieved.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await self._stream(task, sent, call)

    async def discover(self, call: Call[McpTarget]) -> Discovered:
        """Return a manual of the server's tools, with `register_resources_as_tools` of its resources, too."""
        target = call.target
        tools = tool_entries(target.name, await self._list(call, "tools"))
        if target.resources:
            for kind, entries in (("resources", resource_entries), ("resource_templates", template_entries)):
                try:
                    tools += entries(target.name, await self._list(call, kind))
                except UpstreamRejected:
                    # A server may have tools and no resources.
                    continue
        raw = exact_json.dumps({"utcp_version": "1.0.1", "tools": tools})
        check_size(len(raw), call.limits.response_bytes)
        return Discovered(raw=raw, media_type=JSON, url=target.origin, is_generated=True)

    async def check(self, call: Call[McpTarget]) -> None:
        """Initialize a session, or use an open one, and list the server's tools."""
        await self._list(call, "tools")

    def describe(self, call: Call[McpTarget]) -> dict[str, Any]:
        """Return the request of MCP and the server's URL or command, secrets masked as `***`."""
        target = call.target
        if target.uri is not None:
            params: dict[str, Any] = {"uri": _resource_uri(target.uri, call.arguments)}
        else:
            params = {"name": _tool_name(target), "arguments": server_arguments(target, call.arguments)}
        server = describe_server(call)
        body = {"method": self.method(target), "params": params}
        settings = {key: value for key, value in server.items() if key not in ("url", "headers")}
        return {
            "method": "MCP",
            "url": server["url"],
            "headers": server["headers"],
            "body": {**body, **settings},
        }

    def evidence(self, call: Call[McpTarget]) -> dict[str, Any]:
        """Return the server and the tool as the command, and these with the tool's arguments."""
        target = call.target
        tool = target.tool or target.uri or ""
        return {
            "command": f"mcp://{target.name}/{tool}",
            "mcp_server": target.name,
            "mcp_tool": tool,
            "mcp_args": server_arguments(target, call.arguments),
        }

    async def aclose(self) -> None:
        """Close all sessions, and kill the servers that are programs."""
        if self._sessions is not None:
            await self._sessions.aclose()

    async def _list(self, call: Call[McpTarget], kind: str) -> list[dict[str, Any]]:
        sent = McpCall(call)
        found: list[dict[str, Any]] = await self._request(
            sent, lambda session: getattr(session, kind)(sent.attempt)
        )
        return found

    async def _request(self, sent: "McpCall", operation: Any) -> Any:
        try:
            return await send_request(self._sessions, sent, operation)
        except ErrorReply as error:
            details = {"code": error.code, "message": error.message, "data": error.data}
            body = self._masked({key: value for key, value in details.items() if value is not None})
            status = 422 if error.code in _CLIENT_ERROR_CODES else 500
            response = UpstreamErrorResponse(status=status, body=body)
            detail = f"The MCP server responded with error {error.code}."
            raise UpstreamRejected(detail + _refusals(sent), response=response) from None
        except UpstreamTimeout as error:
            error.detail += _refusals(sent)
            raise

    def _result(self, answer: Any, sent: "McpCall", call: Call[McpTarget]) -> Result:
        """Return the result for the answer of the server, as `_value` reads it."""
        result = value_result(self._value(answer, sent), call)
        result.has_content_blocks = call.target.uri is None and has_content_blocks(answer)
        return result

    def _value(self, result: dict[str, Any], sent: "McpCall") -> Any:
        """Return the value of a result; raise UpstreamRejected for that of a tool that failed."""
        if result.get("resultType") == "input_required" or "inputRequests" in result:
            response = UpstreamErrorResponse(status=422, body=None)
            kinds = ", ".join(input_methods(result))
            detail = f"The MCP server requests further input{f' ({kinds})' if kinds else ''}"
            raise UpstreamRejected(f"{detail}, which the gateway does not support.", response=response)
        if sent.call.target.uri is not None:
            return resource_value(result)
        if result.get("isError"):
            response = UpstreamErrorResponse(status=422, body=self._masked(tool_error_value(result)))
            detail = f"The MCP server's tool reported an error.{_refusals(sent)}"
            raise UpstreamRejected(detail, response=response)
        return tool_value(result)

    def _masked(self, value: Any) -> Any:
        raw = exact_json.dumps(value)
        return sanitize_error_body(
            raw, JSON, masker=self._masker, limit=_ERROR_BODY, complete=len(raw) <= _ERROR_BODY
        )

    async def _stream(self, pending: "asyncio.Task[Any]", sent: "McpCall", call: Call[McpTarget]) -> Result:
        """Return a result with events once there is progress, or the complete result."""
        try:
            with time_limit(call.deadline):
                await sent.wait_for_progress(pending)
        except BaseException:
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)
            raise
        if pending.done() and not sent.progress:
            final = self._result(pending.result(), sent, call)
            check_size(len(final.body or b""), call.limits.event_bytes)
            return final
        result = Result(status=200, headers=[], media_type=JSON, body=None)
        result.events = self._events(pending, sent, call, result)
        result.close_with(partial(_cancel, pending))
        return result

    async def _events(
        self, pending: "asyncio.Task[Any]", sent: "McpCall", call: Call[McpTarget], result: Result
    ) -> AsyncGenerator[StreamEvent, None]:
        deadline = call.stream_deadline or call.deadline
        try:
            while not pending.done() or sent.progress:
                while sent.progress:
                    yield StreamEvent(sent.progress.popleft(), name="progress")
                with time_limit(deadline, "The MCP server's tool did not end in its time."):
                    await sent.wait_for_progress(pending)
            final = self._result(pending.result(), sent, replace(call, stream_deadline=None))
            check_size(len(final.body or b""), call.limits.event_bytes)
            result.has_content_blocks = final.has_content_blocks
            yield StreamEvent(final.body or b"", "json")
        finally:
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)


def _refusals(sent: McpCall) -> str:
    """Return a sentence about the requests of the server that were refused during the call, "" for none."""
    if not sent.attempt.refused:
        return ""
    names = ", ".join(dict.fromkeys(sent.attempt.refused[:_MAX_NAMED]))
    return f" Before, it requested {names} of its client, which the gateway does not support."


def _cancel(pending: "asyncio.Task[Any]") -> None:
    pending.cancel()


def _tool_name(target: McpTarget) -> str:
    if target.tool is None:
        # Custom tools may have no `tool_name`.
        field_error = FieldError("/tool_name", "Give the name of the server's tool.")
        raise InvalidArguments("The call template names no tool of the server.", errors=[field_error])
    return target.tool


def _resource_uri(uri: str, arguments: Mapping[str, Any]) -> str:
    values = {}
    for name in uri_names(uri):
        if name not in arguments:
            field_error = FieldError(f"/{name}", "The URI of this resource needs it.")
            raise InvalidArguments("An argument is missing.", errors=[field_error])
        value = arguments[name]
        values[name] = escape(value if isinstance(value, str) else exact_json.dumps(value).decode())
    return fill_uri(uri, values)
