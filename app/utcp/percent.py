"""Percent-encoding (RFC 3986) and the text form of scalars, for paths, queries, cookies and forms."""

import re
from typing import Any, Final
from urllib.parse import quote, quote_plus

import orjson

# What RFC 6570's reserved expansion lets through, less what ends or splits a query (`#`, `&`) and what RFC
# 3986 does not allow in one (`[`, `]`): a value must never begin another parameter.
_RESERVED: Final = ":/?@!$'()*+,;="
_LITERAL: Final = "!$&'()*+,;=:@/?~%"
_STRAY_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_TRIPLE: Final = re.compile(r"(%[0-9A-Fa-f]{2})")
# Integers up to here are exact in a float (RFC 8259, section 6).
_EXACT: Final = 2**53


def escape(text: str) -> str:
    """Everything but the unreserved characters as UTF-8 triples."""
    return text if text.isascii() and text.isalnum() else quote(text, safe="")


def escape_form(text: str) -> str:
    """The same for `application/x-www-form-urlencoded`, where a space is `+`."""
    return text if text.isascii() and text.isalnum() else quote_plus(text, safe="")


def escape_reserved(text: str) -> str:
    """For `allowReserved`: reserved characters and triples stay, but for `#`, `&`, `[` and `]`."""
    return "".join(
        part if index % 2 else quote(part, safe=_RESERVED) for index, part in enumerate(_TRIPLE.split(text))
    )


def escape_literal(text: str) -> str:
    """The text of a URL template made legal: triples stay, a `%` that begins none becomes `%25`."""
    return quote(_STRAY_PERCENT.sub("%25", text), safe=_LITERAL)


def scalar(value: Any) -> str:
    """The text of a JSON scalar: `true`, `false`, `1` for 1.0; an object, a list or null as JSON text."""
    if isinstance(value, str):
        return value
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and value.is_integer() and -_EXACT <= value <= _EXACT:
        return str(int(value))
    return json_text(value)


def json_text(value: Any) -> str:
    """Compact JSON. Raises TypeError for what JSON cannot hold."""
    return orjson.dumps(value).decode()
