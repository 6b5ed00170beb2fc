"""Cleans texts of a document that a model will read: removes hidden characters, and bounds their length."""

import re
from typing import Any

#: Controls (but tab and newline), zero-width and soft hyphens, bidirectional overrides, tag characters and
#: variation selectors, lone surrogates: characters that people do not see and models read (OWASP MCP03).
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_LINES = re.compile("\r\n?|[\u2028\u2029\x85]")

TOOL_TEXT = 4_000
SCHEMA_TEXT = 2_000
LABEL = 200


def clean(value: Any, *, max_length: int) -> tuple[str, bool]:
    """Return the text of `value` ("" if not a string) in at most `max_length` characters, and whether it
    was cut.
    """
    if not isinstance(value, str):
        return "", False
    # Cutting before cleaning bounds the work on a text that many operations share.
    text = _HIDDEN.sub("", _LINES.sub("\n", value[: 4 * max_length + 1_000])).strip()
    if len(text) <= max_length:
        return text, len(value) > 4 * max_length + 1_000
    return text[: max_length - 1].rstrip() + "…", True


def label(value: Any) -> str:
    """Return a short text on one line: a title, a tag, a version. A number becomes its text, as in YAML."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    return " ".join(clean(value, max_length=LABEL)[0].split())
