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

_LEGACY: Final = "call_0"
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
        if not response.choices:
            raise RuntimeError("The model has failed: its response has no choice.")
        choice = response.choices[0]
        message = choice.message.model_dump(mode="json", exclude_none=True, warnings=False)
        calls = _calls(message, turn=len(request.history))
        if not calls:
            # A message without content and calls is rejected when it is sent back.
            message.setdefault("content", "")
        refusal = message.get("refusal")
        finish = "refusal" if refusal else _FINISH.get(choice.finish_reason, "done")
        used = response.usage
        usage = Usage(used.prompt_tokens or 0, used.completion_tokens or 0) if used else Usage()
        text = message.get("content") or refusal or ""
        return ModelTurn([message], text, calls, finish, choice.finish_reason, usage)

    def user_message(self, text: str) -> Message:
        return {"role": "user", "content": text}

    def result_messages(self, calls: Sequence[ToolCall], answers: Sequence[CallAnswer]) -> list[Message]:
        return [answer.part or _result(call, answer) for call, answer in zip(calls, answers, strict=True)]

    def calls_body(self, calls: Sequence[ToolCall]) -> Any:
        message: Message = {"role": "assistant"}
        if calls[0].shape == "legacy":
            return message | {"function_call": _function(calls[0])}
        return message | {"tool_calls": [_body(each) for each in calls]}


def _calls(message: Message, *, turn: int) -> list[ToolCall]:
    """Return the calls of a message. One without an id, or with that of an earlier one, gets another in the
    message, which its result needs: some servers give none.
    """
    calls = []
    ids = set()
    for index, each in enumerate(message.get("tool_calls", ())):
        # The position in a stream is no member of a message.
        each.pop("index", None)
        has_id = bool(each.get("id")) and each["id"] not in ids
        if not has_id:
            each["id"] = f"call_{turn}_{index}"
        ids.add(each["id"])
        if custom := each.get("custom"):
            name, arguments = custom.get("name", ""), custom.get("input")
            calls.append(ToolCall(each["id"], name, arguments, has_id, "custom"))
        else:
            each.setdefault("type", "function")
            function = each.setdefault("function", {})
            function.pop("parsed_arguments", None)
            calls.append(ToolCall(each["id"], function.get("name", ""), function.get("arguments"), has_id))
    if not calls and (function := message.get("function_call")):
        function.pop("parsed_arguments", None)
        name, arguments = function.get("name", ""), function.get("arguments")
        calls.append(ToolCall(_LEGACY, name, arguments, has_id=False, shape="legacy"))
    return calls


def _result(call: ToolCall, answer: CallAnswer) -> Message:
    if call.shape == "legacy":
        return {"role": "function", "name": call.name, "content": error_text(answer)}
    return {"role": "tool", "tool_call_id": call.id, "content": error_text(answer)}


def _function(call: ToolCall) -> Message:
    return {"name": call.name, "arguments": call.arguments}


def _body(call: ToolCall) -> Message:
    if call.shape == "custom":
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    return {"id": call.id, "type": "function", "function": _function(call)}


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
