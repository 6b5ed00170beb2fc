"""The request body -> the arguments, as exact as JSON is."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

from app.errors import BadRequest, Fault, InvalidArguments
from app.utcp.text import pointer

# Every digit as 0 and all else as a blank: 1 ns a byte, where a regular expression takes 30.
_DIGITS: Final = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))
_LONG: Final = b"0" * 19
_INTEGER: Final = re.compile(rb"(?:^|[\[:,\s])(-?[1-9]\d{18,})(?![\d.eE])")
_MOST_FAULTS: Final = 50
_TOO_LARGE: Final = object()


def parse_arguments(body: bytes) -> Any:
    """The JSON value of the body, `{}` for an empty one.

    Raises BadRequest for what is not JSON, and InvalidArguments with pointers for integers that do not fit
    64 bits: orjson would make other numbers of them without a word.
    """
    if not body:
        return {}
    try:
        arguments = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise BadRequest(
            f"The body is not valid JSON ({place}).",
            errors=[Fault("", f"The JSON cannot be read at {place}.")],
        ) from None
    if _LONG in body.translate(_DIGITS) and any(_beyond(found[1]) for found in _INTEGER.finditer(body)):
        _refuse_large_integers(body)
    return arguments


def _beyond(digits: bytes | str) -> bool:
    return len(digits) > 20 or not -(2**63) <= int(digits) < 2**64


def _refuse_large_integers(body: bytes) -> None:
    """Raises InvalidArguments unless the large integers only stand in strings."""
    try:
        parsed = json.loads(body, parse_int=lambda digits: _TOO_LARGE if _beyond(digits) else 0)
    except RecursionError:
        places = [""]
    else:
        places = [place for place, _ in zip(_places(parsed), range(_MOST_FAULTS), strict=False)]
    if places:
        faults = [Fault(place, "Give an integer of 64 bits, or text.", "integer") for place in places]
        raise InvalidArguments("An integer does not fit 64 bits, and would be altered.", errors=faults)


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
