"""Readers of the dialects: from what a model responded to its calls, in their order.

Each reader takes a whole response, an assistant message, a list of blocks or calls, or one of these. Members
that it does not know stay as they are. The forms are those of the released SDKs' types: openai, anthropic,
google-genai, botocore, mistralai, cohere, ollama, the AI SDK and LangChain.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from app.agents.tool_calls.arguments import read_arguments
from app.agents.tool_calls.detection import detect
from app.agents.tool_calls.model import (
    ArgumentError,
    Dialect,
    Intake,
    Shape,
    ToolCall,
)
from app.agents.tool_calls.prompt_text import find_call, name_in, text_of
from app.core.errors import FieldError, InvalidInput
from app.core.text import pointer

_CUT: Final = frozenset(
    {
        "length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded",
        "content_filter", "content-filter", "content_filtered", "guardrail_intervened", "refusal", "safety",
        "recitation", "blocklist", "prohibited_content", "spii", "malformed_function_call",
        "malformed_tool_use", "malformed_model_output", "incomplete", "error", "timeout", "failed",
        "cancelled",
    }
)  # fmt: skip
"""Reasons for which a model's output ends that leave a call incomplete, in lower case."""
_LEGACY: Final = "call_0"
Item = tuple[str, Any]
"""A JSON pointer and what is there."""


class _Reading:
    """Reads the calls of one request; `limit` is that of `parse_arguments`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.calls: list[ToolCall] = []

    def add(
        self,
        at: str,
        *,
        name: Any,
        arguments: Any,
        call_id: Any,
        shape: Shape = "function",
        problem: str = "",
    ) -> None:
        """Add a call; `problem` says why it cannot be used, "" where it can."""
        index = len(self.calls)
        has_id = (isinstance(call_id, str) and call_id != "") or type(call_id) is int
        repairs: tuple[str, ...] = ()
        if problem:
            arguments = ArgumentError(problem)
        else:
            arguments, repairs = read_arguments(arguments, limit=self._limit)
        if not isinstance(name, str) or not name:
            name, arguments = "", ArgumentError("The call does not name a tool.")
        identifier = call_id if has_id else f"call_{index}"
        self.calls.append(ToolCall(identifier, name, arguments, at, index, has_id, shape, repairs))

    def add_whole(self, at: str, text: str) -> None:
        """Add a call that is one JSON text, with the members `tool_name` and `arguments`."""
        whole, repairs = read_arguments(text, limit=self._limit)
        if isinstance(whole, ArgumentError):
            self.add(at, name=name_in(text), arguments=None, call_id=None, problem=whole.detail)
            return
        self.add(at, name=whole.get("tool_name"), arguments=whole.get("arguments"), call_id=None)
        self.calls[-1].repairs = (*repairs, *self.calls[-1].repairs)


def read_intake(value: Any, dialect: Dialect | None, *, limit: int) -> Intake:
    """Return the calls in the parsed body of a request, by the dialect or else by the shape.

    `limit` is that of `parse_arguments`. Raise InvalidInput, with a pointer, for what has another shape.
    """
    chosen = dialect or detect(value)
    if chosen is None:
        detail = (
            "Send a model's response, its assistant message, or its tool calls in one of the dialects of "
            "`format`."
        )
        raise InvalidInput("The dialect of the body is not known.", errors=[FieldError("", detail)])
    reading = _Reading(limit)
    turn, cut = _READERS[chosen](value, reading)
    if cut:
        sentence = (
            f"The output of the model ended early ({cut}), so that this call may be incomplete. Write "
            "the whole call again."
        )
        for call in reading.calls:
            call.arguments, call.repairs = ArgumentError(sentence), ()
    return Intake(chosen, reading.calls, turn, cut)


def cut_reason(reason: Any) -> str:
    """Return a reason for which the output ended where that leaves calls incomplete, else ""."""
    return reason if isinstance(reason, str) and reason.lower() in _CUT else ""


def _read_chat(value: Any, reading: _Reading) -> tuple[Sequence[Any], str]:
    """Read OpenAI's Chat Completions, and what is like them: Mistral, Cohere v2 and Ollama."""
    at, cut = "", ""
    if isinstance(value, dict):
        if "choices" in value:
            at, value = _member(_member((at, value), "choices"), 0)
            cut = cut_reason(_mapping(at, value).get("finish_reason"))
        else:
            cut = cut_reason(value.get("finish_reason")) or cut_reason(value.get("done_reason"))
        if isinstance(_mapping(at, value).get("message"), dict):
            at, value = _member((at, value), "message")
    if isinstance(value, dict) and ("role" in value or "tool_calls" in value or "content" in value):
        for where, call in _items((at, value), "tool_calls"):
            _add_chat_call(where, call, reading)
        legacy = value.get("function_call")
        if isinstance(legacy, dict):
            _add_legacy(pointer(at, "function_call"), legacy, reading)
        return [value], cut
    for where, call in _listed((at, value)):
        _add_chat_call(where, call, reading)
    return [], cut


def _add_chat_call(at: str, call: dict[str, Any], reading: _Reading) -> None:
    custom, function = call.get("custom"), call.get("function")
    if isinstance(custom, dict):
        reading.add(
            at,
            name=custom.get("name"),
            arguments=custom.get("input"),
            call_id=call.get("id"),
            shape="custom",
        )
    elif isinstance(function, dict):
        reading.add(
            at, name=function.get("name"), arguments=function.get("arguments"), call_id=call.get("id")
        )
    elif "name" in call and "arguments" in call:
        _add_legacy(at, call, reading)
    else:
        raise _invalid(pointer(at, "function"), "Give the call as an object with `function`.")


def _add_legacy(at: str, call: dict[str, Any], reading: _Reading) -> None:
    reading.add(at, name=call.get("name"), arguments=call.get("arguments"), call_id=_LEGACY, shape="legacy")
    reading.calls[-1].has_id = False


def _read_responses(value: Any, reading: _Reading) -> tuple[Sequence[Any], str]:
    """Read OpenAI's Responses: items, of which reasoning and others are only repeated."""
    turn: Sequence[Any] = []
    cut = ""
    if isinstance(value, dict) and "output" in value:
        cut = cut_reason(value.get("status"))
        details = value.get("incomplete_details")
        if cut and isinstance(details, dict) and isinstance(details.get("reason"), str):
            cut = details["reason"]
        found = list(_items(("", value), "output"))
        turn = [item for _, item in found]
    else:
        found = list(_listed(("", value)))
        turn = [item for _, item in found] if isinstance(value, list) else []
    for at, item in found:
        kind = item.get("type")
        if kind not in ("function_call", "custom_tool_call"):
            continue
        incomplete = cut_reason(item.get("status"))
        reading.add(
            at,
            name=item.get("name"),
            arguments=item.get("arguments" if kind == "function_call" else "input"),
            call_id=item.get("call_id"),
            shape="function" if kind == "function_call" else "custom",
            problem=f"The call is {incomplete}: write it again." if incomplete else "",
        )
    return turn, cut


def _read_anthropic(value: Any, reading: _Reading) -> tuple[Sequence[Any], str]:
    turn: Sequence[Any] = []
    cut = ""
    blocks = _listed(("", value))
    if isinstance(value, dict) and "content" in value:
        cut = cut_reason(value.get("stop_reason"))
        turn = [{"role": "assistant", "content": value["content"]}]
        blocks = _items(("", value), "content")
    for at, block in blocks:
        if block.get("type") == "tool_use":
            reading.add(at, name=block.get("name"), arguments=block.get("input"), call_id=block.get("id"))
    return turn, cut


def _read_gemini(value: Any, reading: _Reading) -> tuple[Sequence[Any], str]:
    """Read Gemini's content; a call is an object by the name of the REST API, or of the Python SDK."""
    at, cut = "", ""
    turn: Sequence[Any] = []
    if isinstance(value, dict) and "candidates" in value:
        at, value = _member(_member((at, value), "candidates"), 0)
        candidate = _mapping(at, value)
        cut = cut_reason(candidate.get("finishReason") or candidate.get("finish_reason"))
        if candidate.get("content") is None:
            return [], cut
        at, value = _member((at, value), "content")
    if isinstance(value, dict) and "parts" in value:
        turn = [value]
        parts = _items((at, value), "parts")
    else:
        parts = _listed((at, value))
    for where, part in parts:
        call = part.get("functionCall") or part.get("function_call")
        if call is None and "name" in part:
            call = part
        if isinstance(call, dict):
            partial = call.get("willContinue") or call.get("will_continue")
            reading.add(
                where,
                name=call.get("name"),
                arguments=call.get("args"),
                call_id=call.get("id"),
                problem="The call is not complete: write it again." if partial else "",
            )
    return turn, cut


def _read_bedrock(value: Any, reading: _Reading) -> tuple[Sequence[Any], str]:
    at, cut = "", ""
    turn: Sequence[Any] = []
    if isinstance(value, dict) and "output" in value:
        cut = cut_reason(value.get("stopReason"))
        at, value = _member(_member((at, value), "output"), "message")
    if isinstance(value, dict) and "content" in value:
        turn = [value]
        blocks = _items((at, value), "content")
    else:
        blocks = _listed((at, value))
    for where, block in blocks:
        use = block.get("toolUse", block if "toolUseId" in block else None)
        if isinstance(use, dict) and use.get("type") != "server_tool_use":
            reading.add(where, name=use.get("name"), arguments=use.get("input"), call_id=use.get("toolUseId"))
    return turn, cut


def _read_ai_sdk(value: Any, reading: _Reading) -> tuple[Sequence[Any], str]:
    turn: Sequence[Any] = []
    cut = ""
    parts = _listed(("", value))
    if isinstance(value, dict) and "toolCalls" in value:
        cut = cut_reason(value.get("finishReason"))
        response = value.get("response")
        messages = response.get("messages") if isinstance(response, dict) else None
        turn = messages if isinstance(messages, list) else []
        parts = _items(("", value), "toolCalls")
    elif isinstance(value, dict) and "content" in value:
        turn = [value]
        parts = _items(("", value), "content")
    for at, part in parts:
        executed = part.get("providerExecuted")
        if (part.get("type") in (None, "tool-call") or "toolCallId" in part) and not executed:
            arguments = part.get("input", part.get("args"))
            reading.add(at, name=part.get("toolName"), arguments=arguments, call_id=part.get("toolCallId"))
    return turn, cut


def _read_langchain(value: Any, reading: _Reading) -> tuple[Sequence[Any], str]:
    """Read a LangChain AIMessage as `model_dump`, `message_to_dict` or `dumpd` write it, or its calls."""
    at, cut = "", ""
    turn: Sequence[Any] = []
    for wrapper in ("kwargs", "data"):
        if isinstance(value, dict) and isinstance(value.get(wrapper), dict):
            turn = [value]
            at, value = _member((at, value), wrapper)
    if isinstance(value, dict) and ("tool_calls" in value or "content" in value):
        turn = turn or [value]
        metadata = value.get("response_metadata")
        if isinstance(metadata, dict):
            names = ("finish_reason", "stop_reason", "stopReason", "done_reason")
            cut = next((found for name in names if (found := cut_reason(metadata.get(name)))), "")
        calls = [*_items((at, value), "tool_calls"), *_items((at, value), "invalid_tool_calls")]
    else:
        calls = list(_listed((at, value)))
    for where, call in calls:
        reading.add(where, name=call.get("name"), arguments=call.get("args"), call_id=call.get("id"))
    return turn, cut


def _read_mcp(value: Any, reading: _Reading) -> tuple[Sequence[Any], str]:
    for at, request in _listed(("", value)):
        params = request.get("params")
        if request.get("method") != "tools/call" or not isinstance(params, dict):
            raise _invalid(pointer(at, "method"), "Give a JSON-RPC request of the method tools/call.")
        reading.add(at, name=params.get("name"), arguments=params.get("arguments"), call_id=request.get("id"))
    return [], ""


def _read_utcp(value: Any, reading: _Reading) -> tuple[Sequence[Any], str]:
    for at, call in _listed(("", value)):
        names = ("arguments", "tool_args", "args")
        arguments = next((call[name] for name in names if name in call), None)
        reading.add(
            at, name=call.get("tool_name", call.get("name")), arguments=arguments, call_id=call.get("id")
        )
    return [], ""


def _read_prompt(value: Any, reading: _Reading) -> tuple[Sequence[Any], str]:
    """Read the first object `{"tool_name": ..., "arguments": {...}}` in the text of a model without tools."""
    at, text = text_of(value)
    if text is None:
        raise _invalid("", "Give the text of the model, or a response or message that has it.")
    found = find_call(text)
    if found is not None:
        reading.add_whole(at, found)
    return [{"role": "assistant", "content": text}], ""


_READERS: Final[Mapping[Dialect, Callable[[Any, _Reading], tuple[Sequence[Any], str]]]] = {
    "openai-chat": _read_chat,
    "mistral": _read_chat,
    "cohere": _read_chat,
    "ollama": _read_chat,
    "openai-responses": _read_responses,
    "anthropic": _read_anthropic,
    "gemini": _read_gemini,
    "bedrock": _read_bedrock,
    "ai-sdk": _read_ai_sdk,
    "langchain": _read_langchain,
    "mcp": _read_mcp,
    "utcp": _read_utcp,
    "json-prompt": _read_prompt,
}


def _invalid(at: str, detail: str) -> InvalidInput:
    return InvalidInput("The body is not in this dialect.", errors=[FieldError(at, detail)])


def _mapping(at: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _invalid(at, "Give an object.")
    return value


def _member(item: Item, key: str | int) -> Item:
    """Return a member of an object or list; raise InvalidInput."""
    at, value = item
    where = pointer(at, key)
    if isinstance(key, int):
        if not isinstance(value, list) or len(value) <= key:
            raise _invalid(at, "Give a list that is not empty.")
        return where, value[key]
    if key not in _mapping(at, value):
        raise _invalid(where, "This member is missing.")
    return where, value[key]


def _items(item: Item, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of the list that is a member; none where it is missing, null or a text."""
    at, value = item
    members = value.get(key)
    if members is None or isinstance(members, str):
        return iter(())
    if not isinstance(members, list):
        raise _invalid(pointer(at, key), "Give a list.")
    return _listed((pointer(at, key), members))


def _listed(item: Item) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a list, or the only one in its place."""
    at, value = item
    if not isinstance(value, list):
        yield at, _mapping(at, value)
        return
    for index, member in enumerate(value):
        yield pointer(at, index), _mapping(pointer(at, index), member)
