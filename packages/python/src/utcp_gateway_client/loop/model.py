"""What a model has responded, its calls and their answers, in one form for all providers."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Message = dict[str, Any]
"""An entry of a history, as JSON in the form of the provider."""
Dialect = Literal["openai-chat", "openai-responses", "anthropic", "gemini", "json-prompt"]
Finish = Literal["done", "length", "refusal", "pause"]
"""Why a turn has ended: by itself; at the limit of the output; refused or filtered; to be continued."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model has made. `arguments` is the JSON value, or JSON text, as the model wrote it."""

    id: str
    name: str
    arguments: Any
    has_id: bool = True
    """False where the provider gave no id, and the loop did."""
    shape: Literal["function", "custom", "legacy"] = "function"
    """OpenAI has calls of three forms: with JSON arguments, with a text, and the former `function_call`."""


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The result of a call. `part` is its message, item, block or part where a gateway has written it."""

    text: str = field(repr=False)
    is_error: bool = False
    part: Message | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or several requests, as the provider counts them."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """A response of a model. `messages` are the entries of the history that it is."""

    messages: Sequence[Message]
    text: str = ""
    calls: Sequence[ToolCall] = ()
    finish: Finish = "done"
    reason: str | None = None
    """The provider's own word for `finish`."""
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as a model sees it. `parameters` is a JSON Schema; `entry` the tool in the form of the dialect,
    where a gateway has written it.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    entry: Message | None = None


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What a model is sent. `on_text` is called with each piece of text, where the response is streamed."""

    history: Sequence[Message]
    tools: Sequence[ToolDefinition]
    system: str | None = None
    on_text: Callable[[str], None] | None = None


Respond = Callable[[ModelRequest], Awaitable[ModelTurn]]


class ChatModel(Protocol):
    """A model of a provider, and the form of its messages."""

    @property
    def provider(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def dialect(self) -> Dialect: ...

    def connect(self) -> AbstractAsyncContextManager[Respond]:
        """Open the client of the provider's SDK, which is closed at the end of the context."""

    def user_message(self, text: str) -> Message:
        """Return a message of the user."""

    def result_messages(self, calls: Sequence[ToolCall], answers: Sequence[CallAnswer]) -> list[Message]:
        """Return the messages with the answers of all calls of a turn, in their order."""

    def calls_body(self, calls: Sequence[ToolCall]) -> Any:
        """Return some of a turn's calls as the body of `POST /tool-calls` in this dialect."""
