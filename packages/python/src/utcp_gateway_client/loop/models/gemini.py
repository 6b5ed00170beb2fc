"""Models behind the Gemini API of Google."""

import json
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

_DONE: Final = frozenset({"STOP", "FINISH_REASON_UNSPECIFIED"})
_LENGTH: Final = frozenset({"MAX_TOKENS"})


@dataclass(frozen=True)
class Gemini:
    """A model of the Gemini API. Needs the extra `gemini`.

    Without `api_key`, the SDK reads it from its environment variables. `options` are further members of the
    `GenerateContentConfig`, `client_options` arguments of `google.genai.Client`.
    """

    name: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    options: dict[str, Any] = field(default_factory=dict)
    client_options: dict[str, Any] = field(default_factory=dict, repr=False)
    api_version: str | None = None
    """The version in the path of the API, as `v1beta`; None for that of the SDK."""
    provider: str = field(default="gemini", init=False)
    dialect: Dialect = field(default="gemini", init=False)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Respond]:
        from google import genai  # noqa: PLC0415 - an extra
        from google.genai import types  # noqa: PLC0415

        options: dict[str, Any] = {}
        if self.base_url is not None or self.api_version is not None:
            options["http_options"] = types.HttpOptions(base_url=self.base_url, api_version=self.api_version)
        with genai.Client(api_key=self.api_key, **options | self.client_options) as client:
            async with client.aio as models:

                async def respond(request: ModelRequest) -> ModelTurn:
                    return await self._respond(models, request)

                yield respond

    async def _respond(self, client: Any, request: ModelRequest) -> ModelTurn:
        from google.genai import types  # noqa: PLC0415 - an extra

        config: dict[str, Any] = {"automatic_function_calling": {"disable": True}} | self.options
        if request.system is not None:
            config["system_instruction"] = request.system
        if request.tools:
            config["tools"] = _tools(request.tools)
        body: dict[str, Any] = {
            "model": self.name,
            # Signatures of thoughts are bytes, which only the JSON form of the types reads from base64.
            "contents": [types.Content.model_validate_json(json.dumps(each)) for each in request.history],
            "config": types.GenerateContentConfig.model_validate(config),
        }
        if request.on_text is None:
            return _turn([await client.models.generate_content(**body)])
        responses = []
        async for response in await client.models.generate_content_stream(**body):
            responses.append(response)
            for part in _parts(response):
                if part.text and not part.thought:
                    request.on_text(part.text)
        return _turn(responses)

    def user_message(self, text: str) -> Message:
        return {"role": "user", "parts": [{"text": text}]}

    def result_messages(self, calls: Sequence[ToolCall], answers: Sequence[CallAnswer]) -> list[Message]:
        parts = []
        for call, answer in zip(calls, answers, strict=True):
            response: Message = {
                "name": call.name,
                "response": {"error" if answer.is_error else "output": answer.text},
            }
            if call.has_id:
                response["id"] = call.id
            parts.append(answer.part or {"functionResponse": response})
        return [{"role": "user", "parts": parts}]

    def calls_body(self, calls: Sequence[ToolCall]) -> Any:
        parts = []
        for each in calls:
            function = {"name": each.name, "args": each.arguments}
            parts.append({"functionCall": function | ({"id": each.id} if each.has_id else {})})
        return {"role": "model", "parts": parts}


def _tools(tools: Sequence[ToolDefinition]) -> list[Message]:
    declarations = [each.entry or _definition(each) for each in tools]
    return [{"functionDeclarations": declarations}]


def _definition(tool: ToolDefinition) -> Message:
    definition: Message = {"name": tool.name, "description": tool.description}
    # An object without properties is rejected.
    if tool.parameters.get("properties"):
        definition["parametersJsonSchema"] = tool.parameters
    return definition


def _parts(response: Any) -> Sequence[Any]:
    content = response.candidates[0].content if response.candidates else None
    return (content.parts or ()) if content is not None else ()


def _turn(responses: Sequence[Any]) -> ModelTurn:
    """Return the turn that a response is, or those of a stream."""
    parts: list[Message] = []
    reason = None
    usage = Usage()
    for response in responses:
        for part in _parts(response):
            _append(parts, part.model_dump(mode="json", by_alias=True, exclude_none=True))
        if response.candidates and response.candidates[0].finish_reason:
            reason = response.candidates[0].finish_reason.value
        elif response.prompt_feedback and response.prompt_feedback.block_reason:
            reason = response.prompt_feedback.block_reason.value
        if used := response.usage_metadata:
            # In a stream, the last count is that of the whole.
            output = (used.candidates_token_count or 0) + (used.thoughts_token_count or 0)
            usage = Usage(used.prompt_token_count or 0, output)
    calls = []
    for number, part in enumerate(parts):
        if function := part.get("functionCall"):
            given = function.get("id")
            calls.append(
                ToolCall(given or f"call_{number}", function["name"], function.get("args"), given is not None)
            )
    text = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
    finish: Finish = "done" if reason is None or reason in _DONE else "refusal"
    if reason in _LENGTH:
        finish = "length"
    messages = [{"role": "model", "parts": parts}] if parts else []
    return ModelTurn(messages, text, calls, finish, reason, usage)


def _append(parts: list[Message], part: Message) -> None:
    """Add a part; a piece of text continues the text before it, where both are nothing else."""
    if parts and set(part) == set(parts[-1]) == {"text"}:
        parts[-1] = {"text": parts[-1]["text"] + part["text"]}
    else:
        parts.append(part)
