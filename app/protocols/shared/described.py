"""Requests as JSON, as `describe` returns them: so that different requests are never described alike.

A body is shown parsed only where its bytes are exactly what is written for the parsed value. Everything else
is its own text: duplicate names, other blanks and numbers with other digits are seen as they are sent.
"""

import base64
import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from app.core import exact_json
from app.protocols.base import LargeBody
from app.protocols.shared.messages import json_text

_MAX_BODY: Final = 64 * 1024
_BASE64: Final = "base64"
_BYTES: Final = "bytes"


def describe_body(body: bytes) -> Any:
    """Return a body as JSON, or as its text.

    One that is neither is `{"base64": ...}`, one above 64 KiB is `LargeBody`, `{"bytes": size}`. JSON that
    looks like one of these, and JSON that is null or a single text, is shown as its text.
    """
    if len(body) > _MAX_BODY:
        return LargeBody(bytes=len(body))
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {_BASE64: base64.b64encode(body).decode()}
    value = _parse_compact(text)
    is_marker = isinstance(value, dict) and value.keys() in ({_BASE64}, {_BYTES})
    return text if value is None or is_marker else value


def describe_message(text: str) -> Any:
    """Return a message of text as JSON where it is compact or as the released clients write it, else its
    text.
    """
    value = _parse_compact(text)
    if value is None:
        value = _parse_exactly(text, json.loads, json_text)
    return text if value is None else value


def describe_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str | list[str]]:
    """Return headers by name; of a name that is there several times, the list of its values."""
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name, []).append(value)
    return {name: found[0] if len(found) == 1 else found for name, found in values.items()}


def _parse_compact(text: str) -> Any:
    return _parse_exactly(text, lambda one: exact_json.load_exactly(one.encode()), _write_compact)


def _write_compact(value: Any) -> str:
    return exact_json.dumps(value).decode()


def _parse_exactly(text: str, parse: Callable[[str], Any], write: Callable[[Any], str]) -> Any:
    """Return the value of JSON text that `write` gives for it; None for a text, null, and anything else."""
    try:
        value = parse(text)
        if isinstance(value, str) or write(value) != text:
            return None
        # What describes a request has more levels around it.
        exact_json.dumps([[[[value]]]], surrogates="refuse")
    except (ValueError, TypeError, RecursionError):
        return None
    return value
