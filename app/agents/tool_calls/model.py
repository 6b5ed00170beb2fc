"""Tool calls of a model and their results, whatever the dialect they came in."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from app.calls.results import ModelResult

Dialect = Literal[
    "openai-chat",
    "openai-responses",
    "anthropic",
    "gemini",
    "bedrock",
    "mistral",
    "cohere",
    "ollama",
    "ai-sdk",
    "langchain",
    "mcp",
    "utcp",
    "json-prompt",
]
"""The forms in which model providers and libraries write tool calls, and take their results."""

Shape = Literal["function", "custom", "legacy"]
"""The kind of a call, where a dialect has several: with JSON arguments, with free text, and the form of
OpenAI's `function_call`, which has no id.
"""

JsonObject = dict[str, Any]

DEFAULT_MAX_BYTES: Final = 100_000
"""The budget of a result in bytes, where neither the request nor the toolset says otherwise: about 25,000
tokens.
"""


@dataclass(frozen=True, slots=True)
class ArgumentError:
    """Why the arguments of a call cannot be used: a sentence or two for the model."""

    detail: str


@dataclass(slots=True)
class ToolCall:
    """One call of a model.

    `id` is that of the model, or made up where `has_id` is False. `position` is the JSON pointer to the call
    in the request. `repairs` are sentences on what was repaired to read the arguments.
    """

    id: str | int
    name: str
    arguments: Any | ArgumentError = field(repr=False)
    position: str
    index: int = 0
    has_id: bool = True
    shape: Shape = "function"
    repairs: tuple[str, ...] = ()


@dataclass(slots=True)
class Intake:
    """What was read of a request: the calls, and the model's own message as it came, to be repeated.

    `turn` are the items of the conversation that the calls are part of; it is empty where the request has
    only blocks or calls. `cut` says why the model's output is incomplete, "" where it is not.
    """

    dialect: Dialect
    calls: Sequence[ToolCall]
    turn: Sequence[Any] = ()
    cut: str = ""


@dataclass(slots=True)
class CallAnswer:
    """The result of one call.

    `status` is the HTTP status that the call route would respond with; None where the call was not made.
    `repeats` says that its id was answered before: it has no message.
    """

    call: ToolCall
    result: ModelResult
    status: int | None = None
    repeats: bool = False
    tool: str = ""
    """The canonical name of the tool, also of one that a meta-tool called; "" where there is none."""
    duplicate_of: str | int | None = None
    """The id of the identical call before it, which was made in place of this one."""

    def as_json(self) -> JsonObject:
        """Return the entry of `results` in a response."""
        call, result = self.call, self.result
        entry: JsonObject = {
            "id": call.id,
            "name": call.name,
            "tool": self.tool or None,
            "position": call.position,
            "is_error": result.is_error,
            "repairs": list(call.repairs),
            "notes": list(result.notes),
            "continuation": result.continuation,
            "call_id": result.call_id or None,
            "status": self.status,
        }
        if result.error is not None:
            entry["error"] = result.error
        if self.duplicate_of is not None:
            entry["duplicate_of"] = self.duplicate_of
        if result.retry_after is not None:
            entry["retry_after"] = result.retry_after
        return entry
