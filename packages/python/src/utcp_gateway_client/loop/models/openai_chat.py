"""Models behind the Chat Completions API of OpenAI, which many other servers have, too."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from utcp_gateway_client.loop.model import (
    CallAnswer,
    Dialect,
    Finish,
    Message,
    ModelRequest,
    ModelTurn,
    ToolCall,
    ToolDefinition,
    Usage,
)
from utcp_gateway_client.loop.models.openai_client import OpenAIModel, error_text

_FINISH: Final[dict[str | None, Finish]] = {"length": "length", "content_filter": "refusal"}


@dataclass(frozen=True)
class OpenAIChat(OpenAIModel):
    """A model of the Chat Completions API. Needs the extra `openai`.

    Without `api_key` and `base_url`, the SDK reads them from its environment variables. `options` are further
    members of each request (`temperature`, ...), `client_options` arguments of `openai.AsyncOpenAI`.
    """

    dialect: Dialect = field(default="openai-chat", init=False)

    async def _respond(self, client: Any, request: ModelRequest) -> ModelTurn:
        system = [] if request.system is None else [{"role": "system", "content": request.system}]
        body: dict[str, Any] = {"model": self.name, "messages": [*system, *request.history]} | self.options
        if request.tools:
            body["tools"] = [each.entry or _definition(each) for each in request.tools]
        if request.on_text is None:
            response = await client.chat.completions.create(**body)
        else:
            response = await _streamed(client, body, request)
        choice = response.choices[0]
        message = choice.message.model_dump(mode="json", exclude_none=True)
        calls = []
        for each in message.get("tool_calls", ()):
            # The position in a stream is no member of a message.
            each.pop("index", None)
            if each["type"] == "custom":
                calls.append(ToolCall(each["id"], each["custom"]["name"], each["custom"].get("input")))
            else:
                each["function"].pop("parsed_arguments", None)
                calls.append(
                    ToolCall(each["id"], each["function"]["name"], each["function"].get("arguments"))
                )
        refusal = message.get("refusal")
        finish = "refusal" if refusal else _FINISH.get(choice.finish_reason, "done")
        used = response.usage
        usage = Usage(used.prompt_tokens, used.completion_tokens) if used else Usage()
        text = message.get("content") or refusal or ""
        return ModelTurn([message], text, calls, finish, choice.finish_reason, usage)

    def user_message(self, text: str) -> Message:
        return {"role": "user", "content": text}

    def result_messages(self, calls: Sequence[ToolCall], answers: Sequence[CallAnswer]) -> list[Message]:
        return [
            answer.part or {"role": "tool", "tool_call_id": call.id, "content": error_text(answer)}
            for call, answer in zip(calls, answers, strict=True)
        ]

    def calls_body(self, calls: Sequence[ToolCall]) -> Any:
        return {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": each.id,
                    "type": "function",
                    "function": {"name": each.name, "arguments": each.arguments},
                }
                for each in calls
            ],
        }


def _definition(tool: ToolDefinition) -> Message:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }


async def _streamed(client: Any, body: dict[str, Any], request: ModelRequest) -> Any:
    from openai.lib.streaming.chat import ChatCompletionStreamState  # noqa: PLC0415 - an extra

    # Not every server knows the option that adds the usage; `options` can set it.
    body = {"stream_options": {"include_usage": True}} | body
    state: Any = ChatCompletionStreamState()
    async with await client.chat.completions.create(**body, stream=True) as chunks:
        async for chunk in chunks:
            state.handle_chunk(chunk)
            for choice in chunk.choices:
                if choice.delta.content and request.on_text is not None:
                    request.on_text(choice.delta.content)
    return state.current_completion_snapshot
