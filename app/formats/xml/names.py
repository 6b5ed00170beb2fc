"""Names, characters and texts of XML 1.0 (fifth edition), for writing and for reading documents.

The patterns are compiled when they are first used: their large sets of characters take 30 ms.
"""

import re
from functools import cache
from typing import Final

_START: Final = (
    "A-Z_a-z\xc0-\xd6\xd8-\xf6\xf8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NC_NAME: Final = f"[{_START}][{_START}0-9.\xb7\u0300-\u036f\u203f-\u2040-]*"
XML: Final = "http://www.w3.org/XML/1998/namespace"
XSI: Final = "http://www.w3.org/2001/XMLSchema-instance"

_TEXT: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_ATTRIBUTE: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
)


@cache
def _compile_forbidden() -> re.Pattern[str]:
    return re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@cache
def _compile_q_name() -> re.Pattern[str]:
    return re.compile(f"{_NC_NAME}(:{_NC_NAME})?")


def find_forbidden(text: str) -> str | None:
    """Return the first character that XML 1.0 cannot write, not even as a reference (production [2] Char)."""
    match = _compile_forbidden().search(text)
    return None if match is None else match.group()


def is_q_name(text: str) -> bool:
    """Return whether a text is a name, with or without a prefix (Namespaces in XML 1.0, production [7])."""
    return _compile_q_name().fullmatch(text) is not None


def escape_text(text: str) -> str:
    """Return the text as character data: a parser reads back exactly the same characters."""
    return text.translate(_TEXT)


def escape_attribute(text: str) -> str:
    """Return the text as the value of an attribute in double quotes, line breaks and tabs included."""
    return text.translate(_ATTRIBUTE)


def strip_prefix(name: str) -> str:
    """Return a name without its prefix."""
    return name.rpartition(":")[2]
