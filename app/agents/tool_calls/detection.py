"""Which dialect a request is written in, by its shape."""

from typing import Any, Final

from app.agents.tool_calls.model import Dialect

_RESPONSES_ITEMS: Final = frozenset(
    {"function_call", "custom_tool_call", "reasoning", "function_call_output", "message"}
)
_BLOCKS: Final = frozenset({"tool_use", "thinking", "redacted_thinking", "server_tool_use"})
_ITEMS_EXAMINED: Final = 1_000


def detect(value: Any) -> Dialect | None:
    """Return the dialect of a response, an assistant message, a list of blocks or calls, or one of these;
    None for what has the shape of none.
    """
    if isinstance(value, str):
        return "json-prompt"
    if isinstance(value, list):
        found = (detect_item(item) for item in value[:_ITEMS_EXAMINED])
        return next((dialect for dialect in found if dialect is not None), None)
    if not isinstance(value, dict):
        return None
    return _response(value) or _message(value) or detect_item(value)


def _response(value: dict[str, Any]) -> Dialect | None:
    """Return the dialect of a whole response."""
    if isinstance(value.get("choices"), list):
        return "openai-chat"
    if value.get("object") == "response" or isinstance(value.get("output"), list):
        return "openai-responses"
    if isinstance(value.get("candidates"), list):
        return "gemini"
    output, message = value.get("output"), value.get("message")
    if isinstance(output, dict) and isinstance(output.get("message"), dict):
        return "bedrock"
    if isinstance(value.get("toolCalls"), list):
        return "ai-sdk"
    if isinstance(value.get("lc"), int) or (
        value.get("type") == "ai" and isinstance(value.get("data"), dict)
    ):
        return "langchain"
    if isinstance(message, dict):
        if "done" in value or "done_reason" in value:
            return "ollama"
        if "finish_reason" in value:
            return "cohere"
        return detect(message)
    return None


def _message(value: dict[str, Any]) -> Dialect | None:
    """Return the dialect of an assistant message."""
    calls, content = value.get("tool_calls"), value.get("content")
    if value.get("type") in ("ai", "AIMessageChunk") or isinstance(value.get("invalid_tool_calls"), list):
        return "langchain"
    if isinstance(calls, list) and calls:
        return detect(calls) or "openai-chat"
    if isinstance(value.get("parts"), list):
        return "gemini"
    if isinstance(value.get("function_call"), dict) and "role" in value:
        return "openai-chat"
    if isinstance(content, list):
        if "stop_reason" in value or value.get("type") == "message":
            return "anthropic"
        return detect(content) or ("openai-chat" if "role" in value else None)
    return "openai-chat" if "role" in value and value.get("role") == "assistant" else None


def detect_item(item: Any) -> Dialect | None:
    """Return the dialect of one block, part, item or call."""
    if not isinstance(item, dict):
        return None
    kind = item.get("type")
    function = item.get("function")
    if item.get("jsonrpc") == "2.0":
        return "mcp"
    if kind == "tool-call" or "toolCallId" in item:
        return "ai-sdk"
    if "toolUse" in item or "toolUseId" in item:
        return "bedrock"
    if isinstance(kind, str) and kind in _BLOCKS:
        return "anthropic"
    if "functionCall" in item or isinstance(item.get("function_call"), dict):
        return "gemini"
    if isinstance(function, dict):
        without_id = item.get("id") is None and isinstance(function.get("arguments"), dict)
        return "ollama" if without_id else "openai-chat"
    if kind == "custom" and isinstance(item.get("custom"), dict):
        return "openai-chat"
    if isinstance(kind, str) and kind in _RESPONSES_ITEMS:
        return "openai-responses"
    if "tool_name" in item:
        return "utcp"
    if "name" in item and "args" in item:
        return "langchain" if kind == "tool_call" or "id" in item else "gemini"
    return "utcp" if "name" in item and "arguments" in item else None
