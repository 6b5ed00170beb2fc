"""Models behind the Messages API of Anthropic."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from utcp_gateway_client.loop.model import (
    CallAnswer,
    Dialect,
    Finish,
    Message,
    ModelRequest,
    ModelTurn,
    Respond,
    ToolCall,
    ToolDefinition,
    Usage,
)

_FINISH: Final[dict[str | None, Finish]] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
}


@dataclass(frozen=True)
class Anthropic:
    """A model of the Messages API. Needs the extra `anthropic`.

    Without `api_key` and `base_url`, the SDK reads them from its environment variables. `options` are further
    members of each request, `client_options` arguments of `anthropic.AsyncAnthropic`.
    """

    name: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    options: dict[str, Any] = field(default_factory=dict)
    client_options: dict[str, Any] = field(default_factory=dict, repr=False)
    max_tokens: int = 4096
    provider: str = field(default="anthropic", init=False)
    dialect: Dialect = field(default="anthropic", init=False)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Respond]:
        from anthropic import AsyncAnthropic  # noqa: PLC0415 - an extra

        async with AsyncAnthropic(
            api_key=self.api_key, base_url=self.base_url, **self.client_options
        ) as client:

            async def respond(request: ModelRequest) -> ModelTurn:
                return await self._respond(client, request)

            yield respond

    async def _respond(self, client: Any, request: ModelRequest) -> ModelTurn:
        body: dict[str, Any] = {
            "model": self.name,
            "messages": _joined(request.history),
            "max_tokens": self.max_tokens,
        } | self.options
        if request.system is not None:
            body["system"] = request.system
        if request.tools:
            body["tools"] = [each.entry or _definition(each) for each in request.tools]
        if request.on_text is None:
            response = await client.messages.create(**body)
        else:
            async with client.messages.stream(**body) as stream:
                async for piece in stream.text_stream:
                    request.on_text(piece)
                response = await stream.get_final_message()
        blocks = [
            each.model_dump(mode="json", exclude_none=True, warnings=False) for each in response.content
        ]
        calls = [
            ToolCall(each["id"], each["name"], each["input"]) for each in blocks if each["type"] == "tool_use"
        ]
        text = "".join(each["text"] for each in blocks if each["type"] == "text")
        finish = _FINISH.get(response.stop_reason, "done")
        used = response.usage
        usage = Usage(used.input_tokens or 0, used.output_tokens or 0) if used else Usage()
        # A message without content is rejected when it is sent back.
        messages = [{"role": "assistant", "content": blocks}] if blocks else []
        return ModelTurn(messages, text, calls, finish, response.stop_reason, usage)

    def user_message(self, text: str) -> Message:
        return {"role": "user", "content": [{"type": "text", "text": text}]}

    def result_messages(self, calls: Sequence[ToolCall], answers: Sequence[CallAnswer]) -> list[Message]:
        blocks = []
        for call, answer in zip(calls, answers, strict=True):
            block: Message = {"type": "tool_result", "tool_use_id": call.id, "content": answer.text}
            blocks.append(answer.part or (block | {"is_error": True} if answer.is_error else block))
        return [{"role": "user", "content": blocks}]

    def calls_body(self, calls: Sequence[ToolCall]) -> Any:
        blocks = [
            {"type": "tool_use", "id": each.id, "name": each.name, "input": each.arguments} for each in calls
        ]
        return {"role": "assistant", "content": blocks}


def _joined(history: Sequence[Message]) -> list[Message]:
    """Return the history in which adjacent messages of the user are one: results, and a next prompt."""
    joined: list[Message] = []
    for each in history:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last["role"] == each["role"] == "user"
            and isinstance(last["content"], list)
            and isinstance(each["content"], list)
        ):
            joined[-1] = last | {"content": [*last["content"], *each["content"]]}
        else:
            joined.append(each)
    return joined


def _definition(tool: ToolDefinition) -> Message:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
