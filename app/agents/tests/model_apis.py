"""The APIs of models: what a request is, and what a response says besides its calls.

The calls of a response are read by `app.agents.tool_calls`, like those of clients. The forms are those of
the SDKs `anthropic`, `openai` and `google-genai`; a base URL is what their parameter `base_url` is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import quote

from app.agents.tests.definition import ModelDialect
from app.agents.tests.models import ModelTarget

JsonObject = dict[str, Any]
Finish = Literal["done", "length", "refusal", "pause"]
"""Why a response has ended: by itself; at the limit of the output; refused or filtered; to be continued."""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens as the API of the model counts them."""

    input: int = 0
    output: int = 0

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(self.input + other.input, self.output + other.output)

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output


@dataclass(frozen=True, slots=True)
class Question:
    """What a model is asked: `history` are messages in its own form, `tools` the export in its dialect."""

    history: Sequence[Any] = field(repr=False)
    tools: Any = field(repr=False)
    system: str = field(repr=False)
    max_tokens: int
    temperature: float | None


@dataclass(frozen=True, slots=True)
class ModelMessage:
    """What a response says besides its calls; `reason` is the API's own word for `finish`."""

    text: str = field(repr=False)
    finish: Finish = "done"
    reason: str = ""
    usage: TokenUsage = TokenUsage()


@dataclass(frozen=True, slots=True)
class _Api:
    url: Callable[[ModelTarget], str]
    headers: Callable[[str], list[tuple[str, str]]]
    body: Callable[[ModelTarget, Question], JsonObject]
    user: Callable[[str], JsonObject]
    read: Callable[[JsonObject], ModelMessage]


def request_url(target: ModelTarget) -> str:
    """Return the URL of the requests to a model."""
    return _APIS[target.dialect].url(target)


def request_headers(target: ModelTarget) -> list[tuple[str, str]]:
    """Return the headers of the requests to a model, with its key where it has one."""
    headers = [("Content-Type", "application/json"), ("Accept", "application/json")]
    if target.dialect == "anthropic":
        headers.append(("anthropic-version", "2023-06-01"))
    key = target.api_key
    return headers if key is None else [*headers, *_APIS[target.dialect].headers(key.reveal())]


def request_body(target: ModelTarget, question: Question) -> JsonObject:
    """Return the body of a request to a model."""
    return _APIS[target.dialect].body(target, question)


def user_message(dialect: ModelDialect, text: str) -> JsonObject:
    """Return a message of the user."""
    return _APIS[dialect].user(text)


def read_message(dialect: ModelDialect, value: JsonObject) -> ModelMessage:
    """Return what a response says besides its calls; members of another form count as missing."""
    return _APIS[dialect].read(value)


def _anthropic_body(target: ModelTarget, question: Question) -> JsonObject:
    body: JsonObject = {
        **target.options,
        "model": target.model,
        "max_tokens": question.max_tokens,
        "messages": _joined(question.history),
    }
    if "temperature" not in target.options:
        body["temperature"] = _temperature(question)
    if question.system:
        body["system"] = question.system
    return body | ({"tools": question.tools} if question.tools else {})


def _chat_body(target: ModelTarget, question: Question) -> JsonObject:
    system = [{"role": "system", "content": question.system}] if question.system else []
    body: JsonObject = {
        **target.options,
        "model": target.model,
        "messages": [*system, *question.history],
    } | _sampling(target, question, "max_tokens" if target.takes_sampling else "max_completion_tokens")
    return body | ({"tools": question.tools} if question.tools else {})


def _prompted_body(target: ModelTarget, question: Question) -> JsonObject:
    # The tools are a part of the system prompt.
    body = _chat_body(target, question)
    body.pop("tools", None)
    return body


def _responses_body(target: ModelTarget, question: Question) -> JsonObject:
    # The whole history is sent each time, so that nothing has to be stored at the provider; other models than
    # those that reason reject `include`.
    reasoning = {} if target.takes_sampling else {"include": ["reasoning.encrypted_content"]}
    body: JsonObject = {
        "store": False,
        **reasoning,
        **target.options,
        "model": target.model,
        "input": list(question.history),
    } | _sampling(target, question, "max_output_tokens")
    if question.system:
        body["instructions"] = question.system
    return body | ({"tools": question.tools} if question.tools else {})


def _sampling(target: ModelTarget, question: Question, limit: str) -> JsonObject:
    found: JsonObject = {limit: question.max_tokens}
    is_given = question.temperature is not None
    if "temperature" not in target.options and (is_given or target.takes_sampling):
        found["temperature"] = _temperature(question)
    return found


def _gemini_body(target: ModelTarget, question: Question) -> JsonObject:
    config = {**target.options, "maxOutputTokens": question.max_tokens}
    config.setdefault("temperature", _temperature(question))
    body: JsonObject = {"contents": list(question.history), "generationConfig": config}
    if question.system:
        body["systemInstruction"] = {"parts": [{"text": question.system}]}
    return body | ({"tools": question.tools} if question.tools else {})


def _temperature(question: Question) -> float:
    return 0.0 if question.temperature is None else question.temperature


def _joined(history: Sequence[Any]) -> list[Any]:
    """Return the history without two messages of one role in a row: a turn that was paused goes on."""
    joined: list[Any] = []
    for message in history:
        last = joined[-1] if joined else None
        if last is not None and last["role"] == message["role"] == "assistant":
            joined[-1] = {"role": "assistant", "content": [*last["content"], *message["content"]]}
        else:
            joined.append(message)
    return joined


def _anthropic_message(value: JsonObject) -> ModelMessage:
    reason = _text(value.get("stop_reason"))
    finish = _ANTHROPIC_FINISH.get(reason, "done")
    used = _object(value.get("usage"))
    read = sum(
        _number(used.get(name))
        for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    )
    blocks = [block for block in _objects(value.get("content")) if block.get("type") == "text"]
    text = "".join(_text(block.get("text")) for block in blocks)
    return ModelMessage(text, finish, reason, TokenUsage(read, _number(used.get("output_tokens"))))


def _chat_message(value: JsonObject) -> ModelMessage:
    choice = next(iter(_objects(value.get("choices"))), {})
    message = _object(choice.get("message"))
    reason = _text(choice.get("finish_reason"))
    refusal = _text(message.get("refusal"))
    finish = "refusal" if refusal else _CHAT_FINISH.get(reason, "done")
    used = _object(value.get("usage"))
    content = message.get("content")
    text = (
        content
        if isinstance(content, str)
        else "".join(
            _text(part.get("text")) for part in _objects(content) if part.get("type") in (None, "text")
        )
    )
    usage = TokenUsage(_number(used.get("prompt_tokens")), _number(used.get("completion_tokens")))
    return ModelMessage(text or refusal, finish, "refusal" if refusal else reason, usage)


def _responses_message(value: JsonObject) -> ModelMessage:
    items = [item for item in _objects(value.get("output")) if item.get("type") == "message"]
    parts = [part for item in items for part in _objects(item.get("content"))]
    refusal = "".join(_text(part.get("refusal")) for part in parts if part.get("type") == "refusal")
    text = "".join(_text(part.get("text")) for part in parts if part.get("type") == "output_text")
    reason = _text(_object(value.get("incomplete_details")).get("reason"))
    finish: Finish = "done"
    if refusal or reason == "content_filter":
        finish = "refusal"
    elif value.get("status") == "incomplete":
        finish = "length"
    used = _object(value.get("usage"))
    usage = TokenUsage(_number(used.get("input_tokens")), _number(used.get("output_tokens")))
    return ModelMessage(text or refusal, finish, "refusal" if refusal else reason, usage)


def _gemini_message(value: JsonObject) -> ModelMessage:
    candidate = next(iter(_objects(value.get("candidates"))), {})
    parts = _objects(_object(candidate.get("content")).get("parts"))
    text = "".join(_text(part.get("text")) for part in parts if not part.get("thought"))
    blocked = _text(_object(value.get("promptFeedback")).get("blockReason"))
    reason = _text(candidate.get("finishReason")) or blocked
    finish: Finish = "done" if reason in ("", "STOP", "FINISH_REASON_UNSPECIFIED") else "refusal"
    if reason == "MAX_TOKENS":
        finish = "length"
    used = _object(value.get("usageMetadata"))
    output = _number(used.get("candidatesTokenCount")) + _number(used.get("thoughtsTokenCount"))
    return ModelMessage(text, finish, reason, TokenUsage(_number(used.get("promptTokenCount")), output))


def is_response(dialect: ModelDialect, value: Any) -> bool:
    """Return whether a JSON value has the member in which the API has what the model has written."""
    if not isinstance(value, dict):
        return False
    name = _CONTENT[dialect]
    found = value.get(name)
    if isinstance(found, list) and (found or dialect not in ("openai-chat", "json-prompt")):
        return True
    return dialect == "gemini" and isinstance(value.get("promptFeedback"), dict)


def complete_message(dialect: ModelDialect, value: JsonObject, *, turn: int) -> None:
    """Make the message of a chat completion one that can be sent back, in place: each call has an id of its
    own, which some servers do not give, and no member is null but the content beside calls.
    """
    if dialect != "openai-chat":
        return
    for choice in _objects(value.get("choices")):
        seen: set[Any] = set()
        message = _object(choice.get("message"))
        for name in [name for name, member in message.items() if member is None and name != "content"]:
            del message[name]
        for index, call in enumerate(_objects(message.get("tool_calls"))):
            given = call.get("id")
            if not isinstance(given, str) or not given or given in seen:
                call["id"] = f"call_{turn}_{index}"
            seen.add(call["id"])
            call.setdefault("type", "function")


_ANTHROPIC_FINISH: Final[Mapping[str, Finish]] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
}
_CHAT_FINISH: Final[Mapping[str, Finish]] = {"length": "length", "content_filter": "refusal"}
_CONTENT: Final[Mapping[ModelDialect, str]] = {
    "anthropic": "content",
    "openai-chat": "choices",
    "json-prompt": "choices",
    "openai-responses": "output",
    "gemini": "candidates",
}


def _bearer(key: str) -> list[tuple[str, str]]:
    return [("Authorization", f"Bearer {key}")]


def _plain_user(text: str) -> JsonObject:
    return {"role": "user", "content": text}


_CHAT: Final = _Api(
    lambda target: f"{target.base_url}/chat/completions", _bearer, _chat_body, _plain_user, _chat_message
)
_APIS: Final[Mapping[ModelDialect, _Api]] = {
    "anthropic": _Api(
        lambda target: f"{target.base_url}/v1/messages",
        lambda key: [("x-api-key", key)],
        _anthropic_body,
        _plain_user,
        _anthropic_message,
    ),
    "openai-chat": _CHAT,
    "json-prompt": _Api(_CHAT.url, _bearer, _prompted_body, _plain_user, _chat_message),
    "openai-responses": _Api(
        lambda target: f"{target.base_url}/responses",
        _bearer,
        _responses_body,
        _plain_user,
        _responses_message,
    ),
    "gemini": _Api(
        lambda target: f"{target.base_url}/v1beta/models/{quote(target.model, safe='')}:generateContent",
        lambda key: [("x-goog-api-key", key)],
        _gemini_body,
        lambda text: {"role": "user", "parts": [{"text": text}]},
        _gemini_message,
    ),
}


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[JsonObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0
