"""The tools of gateways in a run: what a model is offered of them, and the requests that run its calls."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from pydantic import ValidationError

from utcp_gateway_client.gateway import AsyncGateway, CallOptions, Gateway, GatewayError
from utcp_gateway_client.gateway.errors import (
    ApprovalDenied,
    GatewayTimeout,
    GatewayUnreachable,
    StreamBroken,
    UnexpectedResponse,
)
from utcp_gateway_client.gateway.models import ApprovalSummary, ToolCallResult
from utcp_gateway_client.loop.model import CallAnswer, ChatModel, Message, ToolCall, ToolDefinition
from utcp_gateway_client.tools import preview

_log = logging.getLogger(__name__)
_MAX_QUERY_BYTES: Final = 4_000
"""Bytes of a search as a part of a URL, which proxies limit; a longer prompt is searched by its beginning."""
_MAX_RESULT_BYTES: Final = 100_000
"""What the gateway, too, gives a model of one result."""
MAX_CALLS: Final = 128
"""Calls of one request to a gateway."""
_GRACE_SECONDS: Final = 1.0
_INDEX: Final = re.compile(r"/(\d+)(?=/|$)")
_FLAG: Final = "Error: "
"""What the text of an error begins with, in dialects without a flag for it."""
_UNANSWERED: Final = CallAnswer("The gateway has not answered this call.", is_error=True)


@dataclass(frozen=True, slots=True)
class GatewayTools:
    """Tools of a gateway: those with `names`; those that a search for `query` finds; without `search`, all.
    Otherwise the search is for the prompt of the run. `limit` bounds how many there are.

    A gateway that is bound to a toolset has the tools of this toolset.
    """

    gateway: Gateway | AsyncGateway
    names: Sequence[str] | None = None
    query: str | None = None
    search: bool = True
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A call of a gateway that was not made: somebody has to approve it first.

    `url` is where the state of the approval is, `answer` what the model is told about it.
    """

    call: ToolCall
    approval: ApprovalSummary
    url: str
    answer: CallAnswer = field(repr=False)
    _gateway: AsyncGateway = field(repr=False)

    @property
    def id(self) -> str:
        """Id of the approval."""
        return str(self.approval.id)

    async def approve(self, comment: str = "") -> None:
        """Approve the call, which makes it; raise PermissionDenied, as for the key that requested it.

        With another key, this is `approve(pending.id)` of its client.
        """
        await self._gateway.approve(self.id, comment=comment)

    async def reject(self, comment: str = "") -> None:
        """Reject the call, which the key that requested it may do; raise GatewayError."""
        await self._gateway.reject(self.id, comment=comment)

    async def wait(self, timeout: float | None = None) -> CallAnswer:
        """Wait for the decision, and return the result of the call, or the error that it was not approved.

        After `timeout` seconds without a decision, return `answer`. Errors of the gateway are results, too.
        """
        try:
            result = await self._gateway.wait_for_approval(self.id, timeout=timeout)
        except TimeoutError:
            return self.answer
        except ApprovalDenied as error:
            return CallAnswer(str(error), is_error=True)
        except GatewayError as error:
            _log.warning("The result of the approval %s cannot be read: %s", self.id, type(error).__name__)
            return CallAnswer(str(error), is_error=True)
        if isinstance(result.value, bytes):
            return CallAnswer(f"{len(result.value)} bytes of {result.media_type}")
        return CallAnswer(preview(_text(result.value), limit=_MAX_RESULT_BYTES))


class GatewayConnections:
    """The async clients of the gateways of one run. Those of blocking ones are closed with the run."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._clients: dict[int, AsyncGateway] = {}

    async def client(self, gateway: Gateway | AsyncGateway) -> AsyncGateway:
        """Return the async client of a gateway."""
        if isinstance(gateway, AsyncGateway):
            return gateway
        client = self._clients.get(id(gateway))
        if client is None:
            client = await self._stack.enter_async_context(gateway.as_async())
            self._clients[id(gateway)] = client
        return client


async def gateway_definitions(
    source: GatewayTools, client: AsyncGateway, prompt: str | None, model: ChatModel
) -> list[ToolDefinition]:
    """Return the tools of a source in the model's dialect; raise ValueError for a search without words, and
    GatewayError.
    """
    wanted: str | Sequence[str] | None = source.names
    if wanted is None and source.search:
        wanted = _beginning(source.query or prompt or "")
        if not wanted:
            raise ValueError("Without a prompt, name the tools of the gateway, or give a query.")
    entries = await client.tools(wanted, format=model.dialect, limit=source.limit)
    found = []
    for entry in entries:
        # Gemini has the declarations of all functions in one member.
        for each in entry.get("functionDeclarations", [entry]):
            name = each["function"]["name"] if "function" in each else each["name"]
            found.append(ToolDefinition(name, "", {}, entry=each))
    return found


@dataclass(frozen=True, slots=True)
class RemoteAnswer:
    """The answer to one of the calls of a request, by its index, with the approval that it waits for."""

    index: int
    answer: CallAnswer = field(repr=False)
    pending: PendingApproval | None = None


async def run_remote(
    client: AsyncGateway, calls: Sequence[ToolCall], model: ChatModel, *, seconds: float
) -> AsyncGenerator[RemoteAnswer]:
    """Let a gateway run calls as one request, and yield the answer of each as soon as it has ended.

    What has no answer after `seconds`, or when the gateway fails, gets an error as its answer. Closing this
    ends the request, and the gateway cancels its calls.
    """
    left = set(range(len(calls)))
    deadline = asyncio.get_running_loop().time() + seconds
    # The deadline of the gateway is a little later, so that this one decides which calls are in time.
    options = CallOptions(timeout=seconds + _GRACE_SECONDS)
    failure = _UNANSWERED
    try:
        async with asyncio.timeout_at(deadline):
            stream = await client.run_stream(model.calls_body(calls), format=model.dialect, options=options)
        async with stream:
            while left:
                async with asyncio.timeout_at(deadline):
                    result = await anext(stream.__aiter__(), None)
                if result is None:
                    break
                index = _index(result)
                if index in left:
                    left.remove(index)
                    yield _remote_answer(index, calls[index], result, client)
    except TimeoutError:
        failure = timed_out(seconds)
    except GatewayError as error:
        _log.warning("The gateway has failed to run %d calls: %s", len(left), type(error).__name__)
        unknown = " The call may have been made." if _may_have_run(error) else ""
        failure = CallAnswer(f"The gateway has failed. {error}{unknown}", is_error=True)
    except ValueError:
        failure = CallAnswer("The arguments have no JSON form.", is_error=True)
    for index in sorted(left):
        yield RemoteAnswer(index, failure)


def _may_have_run(error: GatewayError) -> bool:
    """Return whether calls may have been made, although the gateway did not say so."""
    if isinstance(error, GatewayUnreachable | GatewayTimeout):
        return error.sent
    return isinstance(error, StreamBroken | UnexpectedResponse)


def _beginning(text: str) -> str:
    text = text.strip()
    size = 0
    for index, character in enumerate(text):
        size += len(quote(character, errors="replace"))
        if size > _MAX_QUERY_BYTES:
            return text[:index]
    return text


def timed_out(seconds: float) -> CallAnswer:
    """Return the answer to a call that took too long."""
    return CallAnswer(f"timed out after {seconds:.3g} s", is_error=True)


def _index(result: ToolCallResult) -> int:
    """Return which call of the request a result answers; a request of one call may have no list."""
    found = _INDEX.findall(result.position)
    return int(found[-1]) if found else 0


def _remote_answer(index: int, call: ToolCall, result: ToolCallResult, client: AsyncGateway) -> RemoteAnswer:
    part = (result.model_extra or {}).get("message")
    if not isinstance(part, dict):
        return RemoteAnswer(index, _UNANSWERED)
    answer = CallAnswer(_part_text(part), result.is_error, part)
    error = result.error or {}
    if "approval" not in error:
        return RemoteAnswer(index, answer)
    try:
        approval = ApprovalSummary.model_validate(error["approval"])
    except ValidationError:
        return RemoteAnswer(index, answer)
    return RemoteAnswer(
        index, answer, PendingApproval(call, approval, str(error.get("url", "")), answer, client)
    )


def _part_text(part: Message) -> str:
    """Return the text of a result in the form of a dialect, without the flag of an error."""
    if "functionResponse" in part:
        response = part["functionResponse"]["response"]
        return _text(response["error"] if "error" in response else response.get("output"))
    if part.get("type") == "tool_result":
        return _text(part.get("content"))
    text = _text(part["output"] if "output" in part else part.get("content"))
    if part.get("role") == "user":
        # As JsonPrompt writes it: "The tool NAME returned:" or "failed:", and the text in the next line.
        return text.partition("\n")[2]
    return text.removeprefix(_FLAG)


def _text(content: Any) -> str:
    if isinstance(content, list):
        texts = [each["text"] for each in content if isinstance(each, dict) and "text" in each]
        if texts:
            return "\n".join(texts)
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
