"""JSON whose numbers keep their digits: a number that a double would alter is a `decimal.Decimal`.

A double has 15 to 17 significant digits, and magnitudes from 5e-324 to 1.8e308 (IEEE 754 binary64). orjson
reads every number with a point or an exponent as a double; the few that are altered by this are read again.
"""

import json
import math
import re
from decimal import Decimal
from typing import Any, Final

import orjson

MAX_DIGITS: Final = 1_000
"""The maximum length in characters of a number that is read with all of its digits."""

# Maps digits and the point to 0, all else to a blank: 1 ns per byte, where a regular expression takes 30 ns.
_NUMERIC: Final = bytes(0x30 if chr(byte) in "0123456789." else 0x20 for byte in range(256))
# 16 digits and a point: every number of fewer digits is the same once it was a double.
_LONG: Final = b"0" * 17
_RUN: Final = re.compile(rb"0+")
_NUMBER: Final = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LONG_INTEGER: Final = re.compile(rb"[0-9]{19}")
_SMALL_EXPONENT: Final = re.compile(rb"[0-9][eE]-[0-9]{3}")


class BeyondDouble:
    """What `parse_float` returns for a number whose magnitude no double has, or of too many digits."""


BEYOND_DOUBLE: Final = BeyondDouble()


def parse_float(text: str) -> float | Decimal | BeyondDouble:
    """Return the number that JSON text with a point or an exponent means."""
    number = float(text)
    if math.isinf(number) or len(text) > MAX_DIGITS:
        return BEYOND_DOUBLE
    if repr(number) == text:
        return number
    exact = Decimal(text)
    if number == 0 and exact != 0:
        return BEYOND_DOUBLE
    return number if exact == Decimal(repr(number)) else exact


def may_be_inexact(body: bytes) -> bool:
    """Return whether JSON text has a number with a point or an exponent that a double would alter, possibly
    within a string.
    """
    if (b"e-" in body or b"E-" in body) and _SMALL_EXPONENT.search(body):
        return True
    numeric = body.translate(_NUMERIC)
    at = numeric.find(_LONG)
    while at >= 0:
        run = _RUN.match(numeric, at)
        end = at + len(_LONG) if run is None else run.end()
        found = _NUMBER.match(body, at)
        if found is not None and not found[0].isdigit():
            text = found[0].decode()
            if not isinstance(parse_float(text), float):
                return True
        at = numeric.find(_LONG, end)
    return False


def has_long_integer(body: bytes) -> bool:
    """Return whether JSON text has 19 digits in a row, as integers of 64 bits and more do."""
    return _LONG_INTEGER.search(body) is not None


def loads(body: bytes) -> Any:
    """Return the value of JSON text that `dumps` wrote; raise json.JSONDecodeError."""
    return json.loads(body, parse_float=parse_float) if may_be_inexact(body) else orjson.loads(body)


def loads_exactly(body: bytes) -> Any:
    """Return the value of JSON text of others; raise ValueError or RecursionError.

    A number that a double or 64 bits would alter is a `decimal.Decimal`, whatever its magnitude.
    """
    value = orjson.loads(body)
    if not may_be_inexact(body) and _LONG_INTEGER.search(body) is None:
        return value
    return json.loads(body, parse_float=_exact_float, parse_int=_exact_integer)


def _exact_float(text: str) -> float | Decimal:
    number = parse_float(text)
    return Decimal(text) if isinstance(number, BeyondDouble) else number


def _exact_integer(text: str) -> int | Decimal:
    return Decimal(text) if len(text) > 20 or not -(2**63) <= int(text) < 2**64 else int(text)


def dumps(value: Any, option: int | None = None) -> bytes:
    """Return a value as compact JSON in UTF-8, decimals with their digits; raise orjson.JSONEncodeError."""
    return orjson.dumps(value, default=_decimal, option=option)


def on_one_line(text: bytes) -> bytes:
    """Return JSON text without its line breaks, which stand only between tokens: for formats of lines."""
    return text.replace(b"\n", b"").replace(b"\r", b"") if b"\n" in text or b"\r" in text else text


def without_decimals(value: Any) -> Any:
    """Return the value itself where it has no decimals, else a copy with doubles in their place."""
    try:
        orjson.dumps(value)
    except TypeError:
        return _with_doubles(value)
    return value


def _decimal(value: Any) -> orjson.Fragment:
    if type(value) is Decimal and value.is_finite():
        return orjson.Fragment(str(value))
    raise TypeError(f"{type(value).__name__} is not JSON")


def _with_doubles(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_doubles(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_with_doubles(member) for member in value]
    return float(value) if type(value) is Decimal else value
