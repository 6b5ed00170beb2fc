"""The async client of a gateway."""

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import httpx2

from utcp_gateway_client.gateway.approvals import AsyncApprovalPending, wait_for_approval
from utcp_gateway_client.gateway.exchange import Reply
from utcp_gateway_client.gateway.models import (
    ApprovalResult,
    ApprovalSummary,
    ApprovalView,
    ContinuationPart,
    MeView,
    Ready,
    ToolCallResult,
    ToolCallsResponse,
    ToolDetails,
    ToolExport,
    ToolHit,
    ToolsetHit,
    ToolsetSummary,
    ToolsetTool,
    ToolSummary,
)
from utcp_gateway_client.gateway.operations import CallOptions, Operations
from utcp_gateway_client.gateway.results import CallResult, Continued, continuation_of
from utcp_gateway_client.gateway.settings import Strict, read_settings
from utcp_gateway_client.gateway.streams import Decoder, StreamEvent, decode_call, decode_tool_calls
from utcp_gateway_client.gateway.transport import AsyncTransport, client_options, read_parts_async

if TYPE_CHECKING:
    from langchain_core.tools import StructuredTool
    from pydantic_ai import Tool

E = TypeVar("E")


class AsyncStream(Generic[E]):
    """Events as they arrive: iterate over it, or use it as a context manager to end it early.

    `end` is what the last event says; None until it has arrived: for a call a dict with `call_id`,
    `upstream_status`, `events` and `bytes`, for tool calls the whole ToolCallsResponse. Iteration raises the
    ProblemError that ends the stream, and StreamBroken where it is not complete.
    """

    def __init__(self, reply: Reply, decoder: Decoder[E]) -> None:
        self._response: httpx2.Response = reply.connection
        self._decoder = decoder
        self._events = self._read()

    @property
    def end(self) -> Any:
        """What the last event says."""
        return self._decoder.end

    def __aiter__(self) -> AsyncIterator[E]:
        """Return the events."""
        return self._events

    async def _read(self) -> AsyncIterator[E]:
        try:
            async for part in read_parts_async(self._response):
                for event in self._decoder.feed(part):
                    yield event
            self._decoder.finish()
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """End the stream; the gateway cancels the call."""
        await self._response.aclose()

    async def __aenter__(self) -> Self:
        """Return the stream."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the stream."""
        await self.aclose()


class AsyncGateway:
    """A gateway, for async code. One object keeps connections open and belongs to one event loop.

    `url` and `key` are those of the environment (`UTCP_GATEWAY_URL`, `UTCP_GATEWAY_KEY`) where they are not
    given. With `toolset`, tools are those of this toolset. `timeout` are the seconds of a request with all of
    its retries, of which there are at most `retries`. `strict` is the default of `tools` and `run`, which
    need the same value. `verify` is an SSL context, the file of an own certificate authority (PEM), or False;
    `proxy` (a URL), `trust_env` (proxies of the environment) and `limits` are those of httpx2. Raises
    ValueError.

    All methods raise GatewayError (`utcp_gateway_client.gateway.errors`).
    """

    def __init__(  # noqa: PLR0913 - each has a default
        self,
        url: str | None = None,
        key: str | None = None,
        toolset: str | None = None,
        *,
        timeout: float = 120.0,
        retries: int = 3,
        strict: Strict = "auto",
        verify: ssl.SSLContext | str | PathLike[str] | bool = True,
        proxy: str | None = None,
        trust_env: bool = True,
        limits: httpx2.Limits | None = None,
    ) -> None:
        settings = read_settings(url, key, toolset, timeout=timeout, retries=retries, strict=strict)
        options = client_options(settings, verify=verify, proxy=proxy, trust_env=trust_env, limits=limits)
        self._operations = Operations(settings, lambda approval: AsyncApprovalPending(approval, self))
        self._transport = AsyncTransport(httpx2.AsyncClient(**options))

    def __repr__(self) -> str:
        settings = self._operations.settings
        return f"AsyncGateway({settings.url!r}, toolset={settings.toolset!r})"

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.http.aclose()

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self.aclose()

    async def search(
        self, query: str, *, limit: int = 10, provider: str | None = None, tag: str | None = None
    ) -> list[ToolHit] | list[ToolsetHit]:
        """Return the tools that do what `query` describes, best match first."""
        return await self._transport.drive(self._operations.search(query, limit, provider, tag))

    async def tools(
        self,
        wanted: str | Sequence[str] | None = None,
        *,
        format: str = "openai-chat",  # noqa: A002 - the name in the API
        strict: Strict | None = None,
        limit: int | None = None,
        provider: str | None = None,
        tag: str | None = None,
    ) -> Any:
        """Return tools as a model's API takes them: the best matches of a text, those of these names, or all.

        `format` is a dialect of the gateway (docs/dialects.md). Raises UnknownTools for names without a tool.
        """
        export = await self.export(
            wanted, format=format, strict=strict, limit=limit, provider=provider, tag=tag
        )
        return export.tools

    async def export(
        self,
        wanted: str | Sequence[str] | None = None,
        *,
        format: str = "openai-chat",  # noqa: A002 - the name in the API
        strict: Strict | None = None,
        limit: int | None = None,
        provider: str | None = None,
        tag: str | None = None,
    ) -> ToolExport:
        """Return what `tools` returns, with a report, and the text of `json-prompt`."""
        steps = self._operations.export(wanted, format, strict, limit=limit, provider=provider, tag=tag)
        return await self._transport.drive(steps)

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, options: CallOptions | None = None
    ) -> Any:
        """Call a tool and return its value: JSON, text as str, no content as None, anything else as bytes.

        Raises AsyncApprovalPending where the call waits for an approval.
        """
        return (await self.call_result(name, arguments, options)).value

    async def call_result(
        self, name: str, arguments: Mapping[str, Any] | None = None, options: CallOptions | None = None
    ) -> CallResult:
        """Call a tool and return its value with what is known about it; raise as `call` does."""
        return await self._transport.drive(self._operations.call(name, arguments, options or CallOptions()))

    async def stream(
        self, name: str, arguments: Mapping[str, Any] | None = None, options: CallOptions | None = None
    ) -> AsyncStream[StreamEvent]:
        """Call a tool and return the events of its result, each as soon as the upstream sends it."""
        steps = self._operations.open_call(name, arguments, options or CallOptions())
        return AsyncStream(await self._transport.drive(steps), Decoder(decode_call))

    async def run(
        self,
        message: Any,
        *,
        format: str | None = None,  # noqa: A002 - the name in the API
        strict: Strict | None = None,
        assistant: bool = False,
        options: CallOptions | None = None,
    ) -> list[Any]:
        """Run the tool calls of a model's response, and return the messages to append to the conversation.

        `message` is the response or message as its SDK has it, or as JSON; `format` its dialect where its
        shape does
        not tell it. With `assistant`, the messages begin with the model's own. Errors of calls are their
        results.
        """
        response = await self.run_response(
            message, format=format, strict=strict, assistant=assistant, options=options
        )
        return response.messages

    async def langchain_tools(
        self,
        wanted: str | Sequence[str] | None = None,
        *,
        limit: int | None = None,
        provider: str | None = None,
        tag: str | None = None,
    ) -> list["StructuredTool"]:
        """Return tools for LangChain, chosen as by `tools`, which the gateway calls as `run` does.

        Errors of calls are results with `status="error"`. They are called by `ainvoke`.
        Raises ModuleNotFoundError without the extra `langchain`.
        """
        from utcp_gateway_client.gateway import langchain_tools as made  # noqa: PLC0415 - an extra

        definitions = await self.tools(
            wanted, format=made.DIALECT, strict=False, limit=limit, provider=provider, tag=tag
        )

        async def call(message: dict[str, Any]) -> ToolCallsResponse:
            return await self.run_response(message, format=made.DIALECT, strict=False)

        return made.langchain_tools(definitions, call_async=call)

    async def pydantic_ai_tools(
        self,
        wanted: str | Sequence[str] | None = None,
        *,
        limit: int | None = None,
        provider: str | None = None,
        tag: str | None = None,
    ) -> list["Tool[Any]"]:
        """Return tools for Pydantic AI, chosen as by `tools`, which the gateway calls as `run` does.

        Arguments that are not valid are a ModelRetry, other errors ToolFailed.
        Raises ModuleNotFoundError without the extra `pydantic-ai`.
        """
        from utcp_gateway_client.gateway import pydantic_ai_tools as made  # noqa: PLC0415 - an extra

        definitions = await self.tools(
            wanted, format=made.DIALECT, strict=False, limit=limit, provider=provider, tag=tag
        )

        async def call(message: dict[str, Any]) -> ToolCallsResponse:
            return await self.run_response(message, format=made.DIALECT, strict=False)

        return made.pydantic_ai_tools(definitions, call_async=call)

    async def run_response(
        self,
        message: Any,
        *,
        format: str | None = None,  # noqa: A002 - the name in the API
        strict: Strict | None = None,
        assistant: bool = False,
        options: CallOptions | None = None,
    ) -> ToolCallsResponse:
        """Run the tool calls as `run` does, and return the messages with what became of each call."""
        steps = self._operations.run(message, format, strict, options or CallOptions(), assistant=assistant)
        return await self._transport.drive(steps)

    async def run_stream(
        self,
        message: Any,
        *,
        format: str | None = None,  # noqa: A002 - the name in the API
        strict: Strict | None = None,
        assistant: bool = False,
        options: CallOptions | None = None,
    ) -> AsyncStream[ToolCallResult]:
        """Run the tool calls as `run` does, and return what became of each as soon as it has ended."""
        steps = self._operations.open_run(
            message, format, strict, options or CallOptions(), assistant=assistant
        )
        return AsyncStream(await self._transport.drive(steps), Decoder(decode_tool_calls))

    async def tool(self, name: str) -> ToolDetails:
        """Return a tool of the gateway, also with `toolset`; keys limited to toolsets do not see it."""
        return await self._transport.drive(self._operations.tool(name))

    async def list_tools(
        self, *, provider: str | None = None, tag: str | None = None
    ) -> AsyncIterator[ToolSummary | ToolsetTool]:
        """Return all tools that the key may see, page by page; with `toolset`, the tools of that.

        The list of a toolset has neither `provider` nor `tag`: ValueError.
        """
        if self._operations.settings.toolset is not None:
            for member in await self._transport.drive(self._operations.toolset_tools(provider, tag)):
                yield member
            return
        cursor: str | None = None
        while True:
            page = await self._transport.drive(self._operations.tool_page(cursor, provider, tag))
            for item in page.items:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return

    async def toolsets(self) -> AsyncIterator[ToolsetSummary]:
        """Return all toolsets that the key may see, page by page."""
        cursor: str | None = None
        while True:
            page = await self._transport.drive(self._operations.toolset_page(cursor))
            for item in page.items:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return

    async def me(self) -> MeView:
        """Return what the key may do."""
        return await self._transport.drive(self._operations.me())

    async def health(self) -> Ready:
        """Return whether the gateway is ready; raise Unavailable where it starts or stops."""
        return await self._transport.drive(self._operations.health())

    async def continuation(
        self,
        handle: str,
        *,
        max_bytes: int | None = None,
        max_tokens: int | None = None,
        format: str | None = None,  # noqa: A002 - the name in the API
    ) -> ContinuationPart:
        """Return the next part of a result that was cut; its `continuation` leads to the part after it."""
        steps = self._operations.continuation(handle, max_bytes, max_tokens, format)
        return await self._transport.drive(steps)

    async def read_more(
        self,
        result: Continued | str | None,
        *,
        max_bytes: int | None = None,
        max_tokens: int | None = None,
        format: str | None = None,  # noqa: A002 - the name in the API
    ) -> AsyncIterator[ContinuationPart]:
        """Return the rest of a result that was cut, part by part; nothing where it was not cut.

        `result` is a CallResult, an entry of `results` of tool calls, a part, or its handle. Each part has at
        most `max_bytes` or `max_tokens`. NotFound ten minutes after the call.
        """
        handle = continuation_of(result)
        while handle is not None:
            part = await self.continuation(handle, max_bytes=max_bytes, max_tokens=max_tokens, format=format)
            yield part
            handle = part.continuation

    async def approvals(
        self, *, state: str | None = None, kind: str | None = None, provider: str | None = None
    ) -> AsyncIterator[ApprovalSummary]:
        """Return the approvals that the key has requested or may decide, newest first, page by page."""
        cursor: str | None = None
        while True:
            page = await self._transport.drive(self._operations.approval_page(cursor, state, kind, provider))
            for item in page.items:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return

    async def approve(self, approval_id: str, *, comment: str = "") -> ApprovalView:
        """Approve a call, which makes it, or other changes; return the state afterwards.

        Raises PermissionDenied for keys without the scope and for the key that requested it, and Conflict
        where it does not wait any more.
        """
        return await self._transport.drive(self._operations.decide(approval_id, "approve", comment))

    async def reject(self, approval_id: str, *, comment: str = "") -> ApprovalView:
        """Reject a call or other changes; return and raise as `approve` does."""
        return await self._transport.drive(self._operations.decide(approval_id, "reject", comment))

    async def approval(self, approval_id: str) -> ApprovalView:
        """Return an approval."""
        return await self._transport.drive(self._operations.approval(approval_id))

    async def approval_result(self, approval_id: str) -> ApprovalResult:
        """Return the result of an approved call, or the problem that it failed with."""
        return await self._transport.drive(self._operations.approval_result(approval_id))

    async def wait_for_approval(self, approval_id: str, *, timeout: float | None = None) -> CallResult:
        """Wait until the call has been approved and made, and return its result.

        Raises ApprovalDenied, the ProblemError that the call failed with, and TimeoutError after `timeout`
        seconds.
        """
        return await self._transport.drive(wait_for_approval(self._operations, approval_id, timeout))
