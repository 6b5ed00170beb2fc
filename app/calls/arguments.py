"""JSON text -> the arguments of a call, as exact as JSON is."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

from app.errors import BadRequest, FieldError, InvalidArguments, TooLarge
from app.text import pointer

# Every digit as 0 and all else as a blank: 1 ns a byte, where a regular expression takes 30.
_DIGITS: Final = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))
_LONG: Final = b"0" * 19
_RUN: Final = re.compile(rb"0+")
_BEFORE_NUMBER: Final = frozenset(b"[:, \t\n\r\f\v")
_AFTER_FLOAT: Final = frozenset(b".eE")
LARGE: Final = 256 << 10
"""Bytes of arguments that are parsed in some milliseconds; more are handled beside the loop."""
# Fewer bytes hold too little to count.
_SMALL: Final = 64 << 10
# Measured: a number takes 0.1 us to make, a list or an object 0.2 more, a member with its name 0.7.
_CONTAINER_COST: Final = 4
_MEMBER_COST: Final = 6
_MAX_ERRORS: Final = 50
_TOO_LARGE: Final = object()


def parse_arguments(body: bytes, limit: int = 400_000) -> Any:
    """Return the JSON value of the body, `{}` for an empty one.

    Raises TooLarge for more values than `limit` (a list or an object counts as 5, a member of an object as
    7), BadRequest for what is not JSON, and InvalidArguments with pointers for integers that do not fit
    64 bits: orjson would make other numbers of them without a word.
    """
    if not body:
        return {}
    if len(body) > _SMALL and _exceeds(body, limit):
        raise TooLarge(
            f"The arguments may have at most {limit} values; a list or an object counts as 5, a member of an"
            " object as 7.",
            extra={"limit": limit},
        )
    try:
        arguments = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise BadRequest(
            f"The body is not valid JSON ({place}).",
            errors=[FieldError("", f"The JSON cannot be read at {place}.")],
        ) from None
    if _has_large_integer(body):
        _reject_large_integers(body)
    return arguments


def _exceeds(body: bytes, limit: int) -> bool:
    """Whether there are more values than `limit`; a parser holds the interpreter until it has made them all.

    The separators are counted first with those in strings, some milliseconds a megabyte, and exactly
    only where these are too many.
    """
    if _cost(body, 0, len(body)) <= limit:
        return False
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    cost = at = 0
    while cost <= limit:
        begin = plain.find(b'"', at)
        cost += _cost(plain, at, len(plain) if begin < 0 else begin)
        end = plain.find(b'"', begin + 1) if begin >= 0 else -1
        if end < 0:
            return cost > limit
        at = end + 1
    return True


def _cost(body: bytes, start: int, end: int) -> int:
    containers = body.count(b"[", start, end) + body.count(b"{", start, end)
    members = body.count(b":", start, end)
    return body.count(b",", start, end) + _CONTAINER_COST * containers + _MEMBER_COST * members


def _has_large_integer(body: bytes) -> bool:
    """Whether something looks like an integer beyond 64 bits; it may stand in a string."""
    digits = body.translate(_DIGITS)
    at = digits.find(_LONG)
    while at >= 0:
        run = _RUN.match(digits, at)
        end = at + len(_LONG) if run is None else run.end()
        start = at - 1 if body[at - 1 : at] == b"-" else at
        is_number = start == 0 or body[start - 1] in _BEFORE_NUMBER
        is_integer = end == len(body) or body[end] not in _AFTER_FLOAT
        if is_number and is_integer and body[at] != 0x30 and _beyond(body[start:end]):
            return True
        at = digits.find(_LONG, end)
    return False


def _beyond(digits: bytes | str) -> bool:
    return len(digits) > 20 or not -(2**63) <= int(digits) < 2**64


def _reject_large_integers(body: bytes) -> None:
    """Raise InvalidArguments unless the large integers only stand in strings."""
    try:
        parsed = json.loads(body, parse_int=lambda digits: _TOO_LARGE if _beyond(digits) else 0)
    except RecursionError:
        places = [""]
    else:
        places = [place for place, _ in zip(_places(parsed), range(_MAX_ERRORS), strict=False)]
    if places:
        errors = [FieldError(place, "Give an integer of 64 bits, or text.", "integer") for place in places]
        raise InvalidArguments("An integer does not fit 64 bits, and would be altered.", errors=errors)


def _places(value: Any) -> Iterator[str]:
    """JSON pointers to the integers that are too large."""
    waiting = [("", value)]
    while waiting:
        at, node = waiting.pop()
        if node is _TOO_LARGE:
            yield at
        elif isinstance(node, dict):
            waiting += [(pointer(at, key), member) for key, member in node.items()]
        elif isinstance(node, list):
            waiting += [(pointer(at, index), member) for index, member in enumerate(node)]
