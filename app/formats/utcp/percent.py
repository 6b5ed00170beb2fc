"""Percent-encoding (RFC 3986) and the text form of scalars, for paths, queries, cookies and forms."""

import re
from typing import Any, Final
from urllib.parse import quote, quote_plus

from app.core import exact_json

# The characters that RFC 6570's reserved expansion leaves unencoded, less those that end or split a query
# (`#`, `&`) and those that RFC 3986 does not allow in one (`[`, `]`): a value must never begin another
# parameter.
_RESERVED: Final = ":/?@!$'()*+,;="
# Those that RFC 3986, section 3.3, allows within a segment of a path.
_RESERVED_IN_SEGMENT: Final = ":@!$&'()*+,;="
_LITERAL: Final = "!$&'()*+,;=:@/?~%"
_STRAY_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_TRIPLE: Final = re.compile(r"(%[0-9A-Fa-f]{2})")
# Integers up to here are exact in a float (RFC 8259, section 6).
_EXACT: Final = 2**53


def escape(text: str) -> str:
    """Return the text with all but the unreserved characters percent-encoded, as UTF-8 (RFC 3986, 2.3)."""
    return text if text.isascii() and text.isalnum() else quote(text, safe="")


def escape_form(text: str) -> str:
    """Percent-encode all but the unreserved characters for `application/x-www-form-urlencoded`: a space
    is `+`.
    """
    return text if text.isascii() and text.isalnum() else quote_plus(text, safe="")


def escape_reserved(text: str) -> str:
    """Percent-encode for `allowReserved`: reserved characters but `#`, `&`, `[` and `]`, and triples,
    stay.
    """
    return _escape_but_triples(text, _RESERVED)


def escape_reserved_in_segment(text: str) -> str:
    """Percent-encode for `allowReserved` of a path parameter: reserved characters but those that end the
    segment (`/`, `?`, `#`), `[` and `]`, and triples, stay.
    """
    return _escape_but_triples(text, _RESERVED_IN_SEGMENT)


def _escape_but_triples(text: str, safe: str) -> str:
    parts = _TRIPLE.split(text)
    return "".join(part if index % 2 else quote(part, safe=safe) for index, part in enumerate(parts))


def escape_literal(text: str) -> str:
    """Percent-encode the literal text of a URL template: triples stay, any other `%` becomes `%25`."""
    return quote(_STRAY_PERCENT.sub("%25", text), safe=_LITERAL)


def write_scalar(value: Any) -> str:
    """Return the text of a JSON scalar (`true`, `false`, `1` for 1.0); of an object, a list or null, its
    JSON.
    """
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
    return write_json(value)


def write_json(value: Any) -> str:
    """Return a value as compact JSON; raise TypeError where JSON cannot represent it."""
    return exact_json.dumps(value).decode()
