"""Models without tool calling: the tools are in the prompt, and a call is a JSON object in the text."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from utcp_gateway_client.loop.model import (
    CallAnswer,
    ChatModel,
    Dialect,
    Message,
    ModelRequest,
    ModelTurn,
    Respond,
    ToolCall,
    ToolDefinition,
)

PROMPT: Final = (
    "You can call these tools. To call one, answer with one JSON object and nothing else:\n"
    '{"tool_name": "<name of the tool>", "arguments": {...}}\n'
    "The arguments must fit the tool's parameters, which are JSON Schemas. "
    "Answer in words once you need no tool.\n\nTools, one per line:\n"
)
"""What the gateway writes for the dialect `json-prompt`, too."""
_CALL: Final = re.compile(r'\{\s*"(?:tool_name|arguments)"\s*:')
_NAME: Final = re.compile(r'"tool_name"\s*:\s*"([^"\\]{1,200})"')
_DECODER: Final = json.JSONDecoder()
_MAX_PLACES: Final = 50
_ID: Final = "call"


@dataclass(frozen=True)
class JsonPrompt:
    """Another model, without its tools: the system message has them, and results are messages of the user.

    The first call in a text is made; a turn has at most one.
    """

    model: ChatModel
    dialect: Dialect = field(default="json-prompt", init=False)

    @property
    def provider(self) -> str:
        return self.model.provider

    @property
    def name(self) -> str:
        return self.model.name

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Respond]:
        async with self.model.connect() as inner:

            async def respond(request: ModelRequest) -> ModelTurn:
                texts = [each for each in (request.system, tools_prompt(request.tools)) if each]
                turn = await inner(replace(request, tools=(), system="\n\n".join(texts) or None))
                call = find_call(turn.text) if turn.finish != "refusal" and request.tools else None
                return replace(turn, calls=() if call is None else (call,))

            yield respond

    def user_message(self, text: str) -> Message:
        return self.model.user_message(text)

    def result_messages(self, calls: Sequence[ToolCall], answers: Sequence[CallAnswer]) -> list[Message]:
        texts = []
        for call, answer in zip(calls, answers, strict=True):
            part = answer.part
            if part is not None:
                texts.append(part["content"])
            else:
                outcome = "failed" if answer.is_error else "returned"
                texts.append(f"The tool {call.name} {outcome}:\n{answer.text}")
        return [self.model.user_message("\n\n".join(texts))]

    def calls_body(self, calls: Sequence[ToolCall]) -> Any:
        (call,) = calls
        if isinstance(call.arguments, str) and _CALL.match(call.arguments):
            # A call that is no JSON: the gateway says where it is wrong.
            return {"text": call.arguments}
        return {"text": json.dumps({"tool_name": call.name, "arguments": call.arguments})}


def tools_prompt(tools: Sequence[ToolDefinition]) -> str:
    """Return the part of the system message that says which tools there are; "" for none."""
    if not tools:
        return ""
    entries = [
        each.entry or {"name": each.name, "description": each.description, "parameters": each.parameters}
        for each in tools
    ]
    return PROMPT + "\n".join(json.dumps(each, ensure_ascii=False) for each in entries)


def find_call(text: str) -> ToolCall | None:
    """Return the first call in a text; one that is no JSON has the text as its arguments. None without."""
    unreadable: ToolCall | None = None
    for place in list(_CALL.finditer(text))[:_MAX_PLACES]:
        rest = text[place.start() :]
        try:
            value, _ = _DECODER.raw_decode(rest)
        except (ValueError, RecursionError):
            if unreadable is None and (named := _NAME.search(rest)):
                unreadable = ToolCall(_ID, named[1], rest, has_id=False)
            continue
        if isinstance(value, dict) and isinstance(value.get("tool_name"), str):
            return ToolCall(_ID, value["tool_name"], value.get("arguments"), has_id=False)
    return unreadable
