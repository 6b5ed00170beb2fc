"""JSON values whose numbers keep their digits, to be cut or projected and written again."""

import json
import re
from decimal import Decimal
from typing import Any, Final

import orjson

from app import exact_json

_LONG_INTEGER: Final = re.compile(rb"[0-9]{19}")


def parse(body: bytes) -> Any:
    """Return the value of JSON text; raise ValueError or RecursionError.

    A number that a double or 64 bits would alter is a `decimal.Decimal`.
    """
    value = orjson.loads(body)
    if not exact_json.may_be_inexact(body) and _LONG_INTEGER.search(body) is None:
        return value
    return json.loads(body, parse_float=_float, parse_int=_integer)


def write(value: Any) -> bytes:
    """Return a value of `parse` as compact JSON."""
    return exact_json.dumps(value)


def _float(text: str) -> float | Decimal:
    number = exact_json.parse_float(text)
    return Decimal(text) if isinstance(number, exact_json.BeyondDouble) else number


def _integer(text: str) -> int | Decimal:
    return Decimal(text) if len(text) > 20 or not -(2**63) <= int(text) < 2**64 else int(text)
