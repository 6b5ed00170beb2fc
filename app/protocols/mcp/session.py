"""One session with an MCP server, owned by a task of its own: the SDK's task groups must be exited in the
task that entered them.
"""

import asyncio
import contextlib
import contextvars
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar, cast

import httpx2
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from pydantic import TypeAdapter, ValidationError

from app.core.deadlines import Timer
from app.core.errors import (
    GatewayError,
    InvalidInput,
    UpstreamError,
    UpstreamMalformed,
    UpstreamTimeout,
    UpstreamUnreachable,
    clone_error,
)
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.protocols.mcp.http_transport import McpTransport, closed_early
from app.protocols.mcp.pending_request import CURRENT, PendingRequest
from app.protocols.mcp.program_transport import ServerProgram, program_streams, with_program_output
from app.protocols.mcp.sanitize import sanitized_tools
from app.protocols.mcp.server import ErrorReply, McpServerSettings
from app.protocols.shared.programs import ProgramRules
from app.security.masking import Masker

# These loggers write whole messages and URLs with their queries.
for _name in ("mcp", "client"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)

_Response = TypeVar("_Response")

_CLIENT: Final = types.Implementation(name="utcp-gateway", version="1")
_MAX_PAGES: Final = 1000
_RESULT: Final[TypeAdapter[Any]] = TypeAdapter(types.CallToolResult | types.InputRequiredResult)
_RESOURCE: Final[TypeAdapter[Any]] = TypeAdapter(types.ReadResourceResult | types.InputRequiredResult)
HEADER_MISMATCH: Final = types.HEADER_MISMATCH


_PING: Final = "ping"
_METHOD: Final = re.compile(r"[A-Za-z0-9_/.-]{1,64}")


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    """The SDK's dispatcher, which sanitises listed tools and records that it has ended.

    Requests of the server (sampling, elicitation, roots) get the error -32601, since the gateway declares no
    such capability (MCP, Lifecycle); `on_refusal` is called with their method.
    """

    is_closed = False
    on_refusal: Callable[[str], None] | None = None

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
    ) -> dict[str, Any]:
        raw = await super().send_raw_request(method, params, opts, **more)
        return sanitized_tools(raw) if method == "tools/list" else raw

    async def run(self, on_request: Any, *handlers: Any, **more: Any) -> None:
        async def respond(context: Any, method: str, params: Any) -> Any:
            if method == _PING:
                return await on_request(context, method, params)
            if self.on_refusal is not None and _METHOD.fullmatch(method):
                self.on_refusal(method)
            raise MCPError(types.METHOD_NOT_FOUND, "The client, a gateway, does not support this.", method)

        try:
            await super().run(respond, *handlers, **more)
        finally:
            self.is_closed = True


class McpSession:
    """A session. `open` it, await `wait_opened`, use it, `close` it."""

    def __init__(
        self, server: McpServerSettings, engine: Engine, rules: ProgramRules, masker: Masker
    ) -> None:
        self.server = server
        self.users = 0
        self.idle_timer: Timer | None = None
        self._engine = engine
        self._rules = rules
        self._masker = masker
        self._dispatcher: _Dispatcher | None = None
        self._session: ClientSession | None = None
        self._end = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner: asyncio.Task[None] | None = None
        self._attempts: set[PendingRequest] = set()
        self._program: ServerProgram | None = None

    def open(self, limits: Limits, seconds: float) -> None:
        """Start opening the session, for at most `seconds`; return at once.

        The SDK's tasks get a context without this call's attempt.
        """
        opening = PendingRequest(asyncio.get_running_loop().time() + seconds, limits)
        owning = self._run(opening)
        self._owner = asyncio.create_task(owning, context=contextvars.Context())

    @property
    def is_usable(self) -> bool:
        """Whether the session is open or being opened."""
        if self._end.is_set() or (self._ready.done() and self._session is None):
            return False
        return self._dispatcher is None or not self._dispatcher.is_closed

    async def wait_opened(self) -> None:
        """Wait until the session is open; raise the error of opening it, `request_sent` False."""
        try:
            await asyncio.shield(self._ready)
        except GatewayError as error:
            raise clone_error(error) from None

    def close(self) -> None:
        """End the session, with notice to the server where the transport has one. Idempotent."""
        self._end.set()
        if self._owner is not None and not self._ready.done():
            self._owner.cancel()

    async def wait_closed(self) -> None:
        """Wait until the session's task has ended; cancel it after 10 seconds."""
        if self._owner is not None:
            await asyncio.wait([self._owner], timeout=10)
            self._owner.cancel()
            await asyncio.gather(self._owner, return_exceptions=True)

    async def tools(self, attempt: PendingRequest) -> list[dict[str, Any]]:
        """Return the server's tools, each as JSON."""
        return await self._list_pages(attempt, "tools", lambda session, page: session.list_tools(params=page))

    async def resources(self, attempt: PendingRequest) -> list[dict[str, Any]]:
        """Return the server's resources, each as JSON."""
        return await self._list_pages(
            attempt, "resources", lambda session, page: session.list_resources(params=page)
        )

    async def resource_templates(self, attempt: PendingRequest) -> list[dict[str, Any]]:
        """Return the server's resource templates, each as JSON."""
        return await self._list_pages(
            attempt, "resource_templates", lambda session, page: session.list_resource_templates(params=page)
        )

    async def call(
        self, name: str, arguments: dict[str, Any], attempt: PendingRequest, progress: ProgressFnT | None
    ) -> dict[str, Any]:
        """Return a tool's result as JSON."""
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        request = types.CallToolRequest(params=params)

        async def send(session: ClientSession) -> Any:
            try:
                return await session.send_request(request, _RESULT, progress_callback=progress)
            except MCPError as error:
                if error.code != HEADER_MISMATCH:
                    raise
            # The server requires headers that only its list names (MCP 2026-07-28, x-mcp-header).
            await session.list_tools()
            return await session.send_request(request, _RESULT, progress_callback=progress)

        return _as_json(await self._send(attempt, send))

    async def read(self, uri: str, attempt: PendingRequest) -> dict[str, Any]:
        """Return a resource's contents as JSON."""
        request = types.ReadResourceRequest(params=types.ReadResourceRequestParams(uri=uri))
        return _as_json(await self._send(attempt, lambda session: session.send_request(request, _RESOURCE)))

    async def _list_pages(
        self, attempt: PendingRequest, kind: str, page: Callable[[ClientSession, Any], Awaitable[Any]]
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            params = None if cursor is None else types.PaginatedRequestParams(cursor=cursor)
            result = await self._send(attempt, lambda session, params=params: page(session, params))  # type: ignore[misc]
            found += (_as_json(entry) for entry in getattr(result, kind))
            if not result.next_cursor or result.next_cursor == cursor:
                break
            cursor = result.next_cursor
        return found

    async def _send(
        self, attempt: PendingRequest, operation: Callable[[ClientSession], Awaitable[_Response]]
    ) -> _Response:
        """Return the server's response; raise ErrorReply, and what a call raises."""
        if self._session is None:
            raise closed_early(request_sent=False)
        token = CURRENT.set(attempt)
        self._attempts.add(attempt)
        request_task: asyncio.Future[Any] = asyncio.ensure_future(operation(self._session))
        failure_task: asyncio.Future[Any] = asyncio.ensure_future(attempt.failed.wait())
        try:
            await asyncio.wait([request_task, failure_task], return_when=asyncio.FIRST_COMPLETED)
            if attempt.failure is not None:
                raise attempt.failure
            return cast("_Response", request_task.result())
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                raise await with_program_output(closed_early(), self._program, self._masker) from None
            raise ErrorReply(error.code, error.message, error.data) from None
        except ValidationError:
            raise UpstreamMalformed("The MCP server's response is not what its protocol says.") from None
        finally:
            CURRENT.reset(token)
            self._attempts.discard(attempt)
            failure_task.cancel()
            request_task.cancel()
            # The server is notified of the cancellation before its connection is closed.
            await asyncio.gather(request_task, failure_task, return_exceptions=True)
            attempt.close()

    async def _run(self, opening: PendingRequest) -> None:
        CURRENT.set(None)
        try:
            async with self._streams(opening) as (reading, writing):
                dispatcher = _Dispatcher(reading, writing)
                dispatcher.on_refusal = self._refused
                async with ClientSession(dispatcher=dispatcher, client_info=_CLIENT) as session:
                    async with asyncio.timeout_at(opening.deadline):
                        await self._negotiate(session, opening)
                    opening.failed.clear()
                    opening.failure = None
                    self._dispatcher, self._session = dispatcher, session
                    self._ready.set_result(None)
                    await self._end.wait()
        except asyncio.CancelledError:
            self._fail(UpstreamUnreachable("The session with the MCP server was closed.", request_sent=False))
        except Exception as error:  # noqa: BLE001  (whatever the SDK's groups of tasks raise ends here)
            failure = opening.failure or _cause(error)
            self._fail(await with_program_output(failure, self._program, self._masker))
        finally:
            self._end.set()

    async def _negotiate(self, session: ClientSession, opening: PendingRequest) -> None:
        if self.server.transport == "sse":
            # The SDK does not notice an error of this transport.
            negotiating = asyncio.ensure_future(session.initialize())
            failure_task = asyncio.ensure_future(opening.failed.wait())
            try:
                await asyncio.wait([negotiating, failure_task], return_when=asyncio.FIRST_COMPLETED)
                if opening.failure is not None:
                    raise opening.failure
                negotiating.result()
            finally:
                negotiating.cancel()
                failure_task.cancel()
                await asyncio.gather(negotiating, failure_task, return_exceptions=True)
        else:
            try:
                await session.discover()
            except (MCPError, RuntimeError, ValidationError):
                # Whatever its response to the discovery of 2026-07-28, it may support the earlier handshake.
                if self._program is None:
                    opening.failure = None
                    opening.failed.clear()
                elif opening.failure is not None:
                    raise opening.failure from None
                await session.initialize()

    def _streams(self, opening: PendingRequest) -> contextlib.AbstractAsyncContextManager[Any]:
        server = self.server
        if server.command is not None:
            self._program = ServerProgram(server.command, self._rules)
            return program_streams(
                self._program, max_line_bytes=opening.limits.response_bytes, opening=opening
            )

        def client(*_: Any, **__: Any) -> httpx2.AsyncClient:
            transport = McpTransport(
                self._engine, egress=server.egress, masker=self._masker, opening=opening, scope=server.scope
            )
            return httpx2.AsyncClient(transport=transport, headers=list(server.headers), trust_env=False)

        if server.transport == "sse":
            return sse_client(server.url, httpx_client_factory=client)
        return self._over_http(client, opening.limits.response_bytes)

    @contextlib.asynccontextmanager
    async def _over_http(
        self, create_client: Callable[[], httpx2.AsyncClient], max_message_bytes: int
    ) -> AsyncIterator[Any]:
        async with (
            create_client() as client,
            streamable_http_client(
                self.server.url,
                http_client=client,
                terminate_on_close=self.server.terminate_on_close,
                max_sse_event_size=max_message_bytes,
            ) as streams,
        ):
            yield streams

    def _refused(self, method: str) -> None:
        for attempt in self._attempts:
            attempt.refused.append(method)

    def _fail(self, error: GatewayError) -> None:
        if not self._ready.done():
            if isinstance(error, UpstreamError):
                error.request_sent = False
            self._ready.set_exception(error)
            # Nobody may be waiting for it any more.
            self._ready.exception()


def _cause(error: BaseException) -> GatewayError:
    """Return the gateway's own error within what the SDK raised."""
    if isinstance(error, GatewayError):
        return error
    if isinstance(error, TimeoutError):
        return UpstreamTimeout("The MCP server did not open a session in time.", request_sent=False)
    if isinstance(error, httpx2.InvalidURL):
        return InvalidInput("The URL of the MCP server cannot be called.")
    if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
        return closed_early()
    for inner in getattr(error, "exceptions", ()):
        if isinstance(found := _cause(inner), GatewayError) and found.slug != "upstream-malformed":
            return found
    return UpstreamMalformed(
        "The MCP server did not open a session as its protocol says.", request_sent=False
    )


def _as_json(result: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dumped
