"""JSON whose numbers keep their digits: a number that a double would alter is a `decimal.Decimal`.

A double has 15 to 17 significant digits, and magnitudes from 5e-324 to 1.8e308 (IEEE 754 binary64). orjson
reads every number with a point or an exponent as a double; the few that are altered by this are read again.
"""

import json
import math
import re
from collections.abc import Callable, Hashable, Iterable
from decimal import Decimal
from functools import partial
from typing import Any, Final, Literal

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
_MIN_INTEGER: Final = -(2**63)
_MAX_INTEGER: Final = 2**64
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_RECURSION: Final = "Recursion limit"
_SMALL_EXPONENT: Final = re.compile(rb"[0-9][eE]-[0-9]{3}")


class BeyondDouble:
    """What `parse_float` returns for a number whose magnitude no double has, or of too many digits."""


BEYOND_DOUBLE: Final = BeyondDouble()


class NestedTooDeeply(RecursionError, orjson.JSONEncodeError):
    """A value has more levels than can be written as JSON: a fault of the input, as in parsing it."""

    def __init__(self) -> None:
        super().__init__("The value is nested too deeply to be written as JSON.")


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
    position = numeric.find(_LONG)
    while position >= 0:
        run = _RUN.match(numeric, position)
        end = position + len(_LONG) if run is None else run.end()
        number = _NUMBER.match(body, position)
        if number is not None and not number[0].isdigit():
            text = number[0].decode()
            if not isinstance(parse_float(text), float):
                return True
        position = numeric.find(_LONG, end)
    return False


def has_long_integer(body: bytes) -> bool:
    """Return whether JSON text has 19 digits in a row, as integers of 64 bits and more do."""
    return _LONG_INTEGER.search(body) is not None


def loads(body: bytes) -> Any:
    """Return the value of JSON text that `dumps` wrote; raise json.JSONDecodeError."""
    return json.loads(body, parse_float=parse_float) if may_be_inexact(body) else orjson.loads(body)


def load_exactly(body: bytes) -> Any:
    """Return the value of JSON text of others; raise ValueError or RecursionError.

    A number that a double or 64 bits would alter is a `decimal.Decimal`, whatever its magnitude.
    """
    value = orjson.loads(body)
    if not may_be_inexact(body) and _LONG_INTEGER.search(body) is None:
        return value
    return json.loads(body, parse_float=_parse_exact_float, parse_int=_parse_exact_integer)


def _parse_exact_float(text: str) -> float | Decimal:
    number = parse_float(text)
    return Decimal(text) if isinstance(number, BeyondDouble) else number


def _parse_exact_integer(text: str) -> int | Decimal:
    return Decimal(text) if len(text) > 20 or not -(2**63) <= int(text) < 2**64 else int(text)


def dumps(
    value: Any,
    option: int | None = None,
    *,
    default: Callable[[Any], Any] | None = None,
    surrogates: Literal["replace", "refuse"] = "replace",
) -> bytes:
    """Return a value as compact JSON in UTF-8, decimals and integers of any size with their digits.

    `option` and `default` are passed on to orjson. UTF-8 has no lone surrogates: one becomes U+FFFD, or, with
    `surrogates="refuse"`, is an error, because an upstream must get exactly what was given. So this function
    writes whatever a JSON parser returned, and everything in `app` that writes JSON uses it.

    Raise NestedTooDeeply for more than 254 levels, and orjson.JSONEncodeError for a value that is not JSON or
    an integer of more than 4,300 digits.
    """
    write_other = _write_decimal if default is None else partial(_write_decimal_or, default)
    try:
        return orjson.dumps(value, default=write_other, option=option)
    except TypeError as error:
        # orjson does not ask `default` about integers and texts, and has no error classes of their own.
        if _RECURSION in str(error):
            raise NestedTooDeeply from None
    try:
        if surrogates == "refuse" and _has_surrogate(value):
            raise orjson.JSONEncodeError("str is not valid UTF-8: surrogates not allowed")
        return orjson.dumps(_make_writable(value), default=write_other, option=option)
    except RecursionError:
        # From the copy, which is made before orjson counts the levels.
        raise NestedTooDeeply from None
    except TypeError as error:
        if _RECURSION in str(error):
            raise NestedTooDeeply from None
        raise


def dump_strictly(value: Any) -> bytes:
    """Return a value as compact JSON in UTF-8; refuse what a parser of 64-bit numbers would alter.

    Raise orjson.JSONEncodeError for an integer beyond 64 bits, a decimal, a lone surrogate, more than 254
    levels, and for a value that is no JSON.
    """
    return orjson.dumps(value)


def on_one_line(text: bytes) -> bytes:
    """Return JSON text without the line breaks between its tokens, for formats with one value a line."""
    return text.replace(b"\n", b"").replace(b"\r", b"") if b"\n" in text or b"\r" in text else text


def are_equal(value: Any, other: Any) -> bool:
    """Return whether two JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    return bool(_identify(value) == _identify(other))


def drop_duplicates(values: Iterable[Any]) -> list[Any]:
    """Return the values without those that equal an earlier one."""
    first: dict[Hashable, Any] = {}
    for value in values:
        first.setdefault(_identify(value), value)
    return list(first.values())


def keep_common(values: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """Return the values that equal one of the others."""
    known = set(map(_identify, others))
    return [value for value in values if _identify(value) in known]


def _identify(value: Any) -> Hashable:
    """Return a key that two JSON values share if, and only if, they are equal."""
    if isinstance(value, bool):
        return bool, value
    if isinstance(value, list | tuple):
        return list, tuple(map(_identify, value))
    if isinstance(value, dict):
        return dict, frozenset((key, _identify(member)) for key, member in value.items())
    number_or_text: Hashable = value
    return number_or_text


def without_decimals(value: Any) -> Any:
    """Return the value itself where it has no decimals, else a copy with doubles in their place."""
    try:
        orjson.dumps(value)
    except TypeError:
        return _with_doubles(value)
    return value


def _has_surrogate(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_surrogate, value)) or any(map(_has_surrogate, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_surrogate, value))
    return isinstance(value, str) and _SURROGATE.search(value) is not None


def _make_writable(value: Any) -> Any:
    """Return a copy with integers beyond 64 bits as their digits, and without lone surrogates."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_make_key_writable(key): _make_writable(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_make_writable(member) for member in value]
    if type(value) is int and not _MIN_INTEGER <= value < _MAX_INTEGER:
        return orjson.Fragment(_write_digits(value))
    return value


def _write_digits(value: int) -> str:
    """Return the digits of an integer; raise orjson.JSONEncodeError for more than Python converts (4,300)."""
    try:
        return str(value)
    except ValueError:
        raise orjson.JSONEncodeError("int has too many digits to be written") from None


def _make_key_writable(key: Any) -> Any:
    # Other keys are written, or not, by the option OPT_NON_STR_KEYS.
    is_large = type(key) is int and not _MIN_INTEGER <= key < _MAX_INTEGER
    return _write_digits(key) if is_large else _SURROGATE.sub("\ufffd", key) if isinstance(key, str) else key


def _write_decimal_or(default: Callable[[Any], Any], value: Any) -> Any:
    return (
        _write_decimal(value)
        if type(value) is Decimal and value.is_finite()
        else _make_writable(default(value))
    )


def _write_decimal(value: Any) -> orjson.Fragment:
    if type(value) is Decimal and value.is_finite():
        return orjson.Fragment(str(value))
    raise TypeError(f"{type(value).__name__} is not JSON")


def _with_doubles(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_doubles(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_with_doubles(member) for member in value]
    return float(value) if type(value) is Decimal else value
