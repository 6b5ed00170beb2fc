"""Sanitising of untrusted text, and JSON pointers (RFC 6901) to where it was found.

Tool descriptions are read by models: invisible characters can smuggle instructions past a human reviewer, so
they are removed. PostgreSQL can store neither U+0000 nor lone surrogates in text or jsonb.
"""

import json
import re
from typing import Any, Final, NoReturn

import orjson

from app.core.errors import FieldError, InvalidDocument

NAME_LIMIT: Final = 512
TEXT_LIMIT: Final = 16_384
PREVIEW_BYTES: Final = 500
"""Bytes of UTF-8 of a value that is shown in short."""
MAX_DEPTH: Final = 100
# orjson's limit is 1,024 levels.
_PARSER_DEPTH: Final = 1_000

HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters that people do not see and models read (OWASP MCP03).

Controls but tab and line feed, zero-width characters, fillers, soft hyphens, bidirectional controls,
invisible operators, tag characters, variation selectors but that of emoji (U+FE0F), and lone surrogates.
"""
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def pointer(base: str, *keys: str | int) -> str:
    """Return the JSON pointer `base` extended by keys or indices, escaped as in RFC 6901 section 3."""
    return base + "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys)


def split_pointer(pointer: str) -> list[str]:
    """Return the keys of a JSON pointer that begins with a slash (RFC 6901 section 4)."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def split_input_path(name: str) -> tuple[str, ...]:
    """Return the property names that lead to an input: `name` is that of one, or a JSON pointer."""
    return tuple(split_pointer(name)) if name.startswith("/") else (name,)


def clean_text(value: str, *, pointer: str = "", limit: int = TEXT_LIMIT) -> str:
    """Return the text without invisible characters, truncated to `limit` characters.

    Raise InvalidDocument, which names `pointer`, for U+0000: it is never there by accident.
    """
    if value.isascii() and value.isprintable() and len(value) <= limit:
        return value
    if "\x00" in value:
        raise InvalidDocument(
            "The text contains a NUL character", errors=[FieldError(pointer, "Must not contain U+0000.")]
        )
    cleaned = HIDDEN.sub("", value.replace("\r\n", "\n").replace("\r", "\n"))
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "…"


def preview(value: str | bytes, *, limit: int = PREVIEW_BYTES) -> str:
    """Return a text; of one with more than `limit` bytes of UTF-8 its beginning and how many bytes it has.

    It is cut between two characters. What is not UTF-8 is replaced.
    """
    content = value.encode(errors="replace") if isinstance(value, str) else value
    if len(content) <= limit:
        return content.decode(errors="replace")
    end = limit
    # Bytes 10xxxxxx continue a character of UTF-8, which has at most four.
    while end > limit - 4 and end > 0 and content[end] & 0xC0 == 0x80:
        end -= 1
    return f"{content[:end].decode(errors='replace')}... ({len(content)} bytes)"


def load_json(text: bytes) -> Any:
    """Return the value of JSON text, also where strings contain lone surrogates; raise json.JSONDecodeError.

    These are grammatical (RFC 8259 section 8.2), and Python writes them: in a manual, a fault of one tool.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if not _SURROGATE.search(text):
            raise
        try:
            return json.loads(text, parse_constant=_reject_constant)
        except (ValueError, RecursionError):
            raise error from None


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(name)


def describe_json_error(subject: str, document: bytes, position: int, message: str = "") -> str:
    """Return a sentence that says what is wrong with a document that is not JSON, and where.

    `subject` names the document, `position` is the offset at which the parser gave up, and `message` the
    parser's. Nothing of the document is repeated.
    """
    try:
        text = document.decode()
    except UnicodeDecodeError as error:
        return f"{subject} is not UTF-8: see byte {error.start + 1}."
    before = text[:position].rstrip()
    if "recursion" in message.lower() or _count_open_brackets(before) >= _PARSER_DEPTH:
        return f"{subject} is nested too deeply."
    rest = text[position:].lstrip()
    reason = ""
    if rest.startswith(",") and rest[1:].lstrip()[:1] in ("}", "]"):
        before, reason = text[:position], ": there is a comma before the closing bracket"
    elif before.endswith(",") and rest[:1] in ("}", "]"):
        before, reason = before[:-1], ": there is a comma before the closing bracket"
    elif rest.startswith("'"):
        before, reason = text[:position], ": strings and names need double quotes"
    elif rest.startswith(("//", "/*", "#")):
        before, reason = text[:position], ": JSON has no comments"
    else:
        before = text[:position]
    line = before.count("\n") + 1
    column = len(before) - before.rfind("\n")
    return f"{subject} is not valid JSON (line {line}, column {column}){reason}."


def _count_open_brackets(text: str) -> int:
    """Return how many brackets are open at the end of the text, roughly: those in strings count, too."""
    return text.count("[") + text.count("{") - text.count("]") - text.count("}")


def remove_unstorable(value: str) -> str:
    """Return the text without U+0000 and lone surrogates."""
    return _UNSTORABLE.sub("", value)


def reject_unstorable(value: Any, *, location: str = "", depth: int = 0) -> None:
    """Raise InvalidDocument for a JSON value that has U+0000 or lone surrogates, or is nested too deeply."""
    if depth > MAX_DEPTH:
        raise InvalidDocument(
            "The value is nested too deeply",
            errors=[FieldError(location, f"Nested more than {MAX_DEPTH} levels deep.")],
        )
    if isinstance(value, str):
        if _UNSTORABLE.search(value):
            raise InvalidDocument(
                "The text cannot be stored",
                errors=[FieldError(location, "Must not contain U+0000 or lone surrogates.")],
            )
    elif isinstance(value, dict):
        for key, member in value.items():
            reject_unstorable(key, location=location, depth=depth)
            reject_unstorable(member, location=pointer(location, key), depth=depth + 1)
    elif isinstance(value, list):
        for index, member in enumerate(value):
            reject_unstorable(member, location=pointer(location, index), depth=depth + 1)
