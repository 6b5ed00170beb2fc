"""Conversion of results of MCP into JSON values, as in UTCP's own client."""

import contextlib
import re
from typing import Any, Final

import orjson

_METHOD: Final = re.compile(r"[A-Za-z0-9_/.-]{1,64}")
_MAX_METHODS: Final = 20
_BLOCKS: Final = frozenset({"image", "audio", "resource"})


def tool_value(result: dict[str, Any]) -> Any:
    """Return the value of a `CallToolResult`: its structured content, else its content.

    `{"result": x}`, in which servers wrap values that are not objects, becomes x. One item of content is the
    value, several are a list. Text is parsed where it is JSON; images, sounds and resources are objects.
    """
    structured = result.get("structuredContent")
    if structured is not None:
        if isinstance(structured, dict) and set(structured) == {"result"}:
            inner = structured["result"]
            return structured if isinstance(inner, dict) else inner
        return structured
    values = [_item(item) for item in result.get("content") or []]
    return values[0] if len(values) == 1 else values


def has_content_blocks(result: Any) -> bool:
    """Return whether the value of a `CallToolResult` is content with images, sounds or resources."""
    if not isinstance(result, dict) or result.get("structuredContent") is not None:
        return False
    return any(item.get("type") in _BLOCKS for item in result.get("content") or [])


def resource_value(result: dict[str, Any]) -> Any:
    """Return the value of a `ReadResourceResult`: one text is JSON or text, everything else objects."""
    contents = result.get("contents") or []
    values = [_text(item["text"]) if isinstance(item.get("text"), str) else item for item in contents]
    return values[0] if len(values) == 1 else values


def input_methods(result: dict[str, Any]) -> list[str]:
    """Return the methods of the requests in an `InputRequiredResult`, each once, where they are legible."""
    requests = result.get("inputRequests")
    listed = requests.values() if isinstance(requests, dict) else ()
    named = [one.get("method") for one in listed if isinstance(one, dict)]
    legible = [name for name in named if isinstance(name, str) and _METHOD.fullmatch(name)]
    return list(dict.fromkeys(legible))[:_MAX_METHODS]


def tool_error_value(result: dict[str, Any]) -> Any:
    """Return the value of the `CallToolResult` of a failed tool, without empty structured content."""
    return tool_value({key: value for key, value in result.items() if key != "structuredContent" or value})


def _item(item: dict[str, Any]) -> Any:
    text = item.get("text")
    return _text(text) if item.get("type") == "text" and isinstance(text, str) else item


def _text(text: str) -> Any:
    if text.strip()[:1] in ("{", "[") or _is_number(text):
        with contextlib.suppress(orjson.JSONDecodeError):
            return orjson.loads(text)
    return text


def _is_number(text: str) -> bool:
    return text[:1] in "-0123456789" and len(text) < 32
