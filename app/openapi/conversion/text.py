"""Cleans texts of a document that a model will read: removes hidden characters, and bounds their length."""

import re
from typing import Any

from app.core.text import HIDDEN

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
    text = HIDDEN.sub("", _LINES.sub("\n", value[: 4 * max_length + 1_000])).strip()
    if len(text) <= max_length:
        return text, len(value) > 4 * max_length + 1_000
    return text[: max_length - 1].rstrip() + "…", True


def label(value: Any) -> str:
    """Return a short text on one line: a title, a tag, a version. A number becomes its text, as in YAML."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    return " ".join(clean(value, max_length=LABEL)[0].split())
