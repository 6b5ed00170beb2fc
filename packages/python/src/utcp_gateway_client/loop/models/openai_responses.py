"""Models behind the Responses API of OpenAI."""

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

_OUTPUT: Final = {"function": "function_call_output", "custom": "custom_tool_call_output"}


@dataclass(frozen=True)
class OpenAIResponses(OpenAIModel):
    """A model of the Responses API. Needs the extra `openai`; the arguments are those of OpenAIChat.

    The whole history is sent with each request, with its reasoning items; where the provider stores no
    responses, `options` has `{"store": False, "include": ["reasoning.encrypted_content"]}`.
    """

    dialect: Dialect = field(default="openai-responses", init=False)

    async def _respond(self, client: Any, request: ModelRequest) -> ModelTurn:
        body: dict[str, Any] = {"model": self.name, "input": list(request.history)} | self.options
        if request.system is not None:
            body["instructions"] = request.system
        if request.tools:
            body["tools"] = [each.entry or _definition(each) for each in request.tools]
        if request.on_text is None:
            response = await client.responses.create(**body)
        else:
            response = await _streamed(client, body, request)
        if response.error is not None:
            raise RuntimeError(f"The model has failed: {response.error.code}: {response.error.message}")
        items = [each.model_dump(mode="json", exclude_none=True, warnings=False) for each in response.output]
        parts = [part for item in items if item["type"] == "message" for part in item["content"]]
        refusal = "".join(part["refusal"] for part in parts if part["type"] == "refusal")
        calls = [
            ToolCall(item["call_id"], item["name"], item.get("input"), shape="custom")
            if item["type"] == "custom_tool_call"
            else ToolCall(item["call_id"], item["name"], item.get("arguments"))
            for item in items
            if item["type"] in ("function_call", "custom_tool_call")
        ]
        reason = response.incomplete_details.reason if response.incomplete_details else None
        finish: Finish = "done"
        if refusal or reason == "content_filter":
            finish = "refusal"
        elif response.status == "incomplete":
            finish = "length"
        used = response.usage
        usage = Usage(used.input_tokens or 0, used.output_tokens or 0) if used else Usage()
        return ModelTurn(items, response.output_text or refusal, calls, finish, reason, usage)

    def user_message(self, text: str) -> Message:
        return {"role": "user", "content": text}

    def result_messages(self, calls: Sequence[ToolCall], answers: Sequence[CallAnswer]) -> list[Message]:
        return [
            answer.part or {"type": _OUTPUT[call.shape], "call_id": call.id, "output": error_text(answer)}
            for call, answer in zip(calls, answers, strict=True)
        ]

    def calls_body(self, calls: Sequence[ToolCall]) -> Any:
        return [
            {"type": "custom_tool_call", "call_id": each.id, "name": each.name, "input": each.arguments}
            if each.shape == "custom"
            else {"type": "function_call", "call_id": each.id, "name": each.name, "arguments": each.arguments}
            for each in calls
        ]


def _definition(tool: ToolDefinition) -> Message:
    # The API makes schemas strict where nothing is said.
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


async def _streamed(client: Any, body: dict[str, Any], request: ModelRequest) -> Any:
    async with await client.responses.create(**body, stream=True) as events:
        async for event in events:
            if event.type == "response.output_text.delta" and request.on_text is not None:
                request.on_text(event.delta)
            elif event.type in ("response.completed", "response.incomplete", "response.failed"):
                return event.response
    raise RuntimeError("The stream of the model has ended without a response.")
