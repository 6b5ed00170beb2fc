"""Calls in the text of models without tool calling: `{"tool_name": "...", "arguments": {...}}`."""

import json
import re
from typing import Any, Final

from app.agents.tool_calls.arguments import without_trailing_commas

_CALL: Final = re.compile(r'\{\s*"(?:tool_name|arguments)"\s*:')
_NAME: Final = re.compile(r'"tool_name"\s*:\s*"([^"\\]{1,200})"')
_DECODER: Final = json.JSONDecoder()
_MAX_PLACES: Final = 50
_PATHS: Final[tuple[tuple[str | int, ...], ...]] = (
    (),
    ("choices", 0, "message", "content"),
    ("message", "content"),
    ("output", "message", "content"),
    ("candidates", 0, "content", "parts"),
    ("parts",),
    ("output_text",),
    ("content",),
    ("text",),
    ("response",),
)


def text_of(value: Any) -> tuple[str, str | None]:
    """Return the JSON pointer to the text of a response or message, and the text; None where there is none.

    Several blocks of text become one.
    """
    for path in _PATHS:
        found = _at(value, path)
        if isinstance(found, list):
            texts = [part["text"] for part in found if isinstance(part, dict) and _has_text(part)]
            found = "\n".join(texts) if texts else None
        if isinstance(found, str):
            return "".join(f"/{key}" for key in path), found
    return "", None


def find_call(text: str) -> str | None:
    """Return the JSON text of the first call in a model's text, all that follows where it does not end; None
    where there is no call.
    """
    unreadable = None
    for place in list(_CALL.finditer(text))[:_MAX_PLACES]:
        rest = text[place.start() :]
        for candidate in (rest, without_trailing_commas(rest)):
            try:
                value, end = _DECODER.raw_decode(candidate)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict) and "tool_name" in value:
                # What was removed is reported where the text is read again.
                return rest if candidate is not rest and end == len(candidate) else candidate[:end]
            break
        else:
            unreadable = unreadable or (rest if _NAME.search(rest) else None)
    return unreadable


def name_in(text: str) -> str:
    """Return the name of the tool in the JSON text of a call, also where it cannot be parsed; "" without."""
    found = _NAME.search(text)
    return found[1] if found is not None else ""


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        if isinstance(key, int):
            value = value[key] if isinstance(value, list) and len(value) > key else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def _has_text(part: dict[str, Any]) -> bool:
    return isinstance(part.get("text"), str) and not part.get("thought")
