"""The keywords of a schema without subschemas: each value is checked and copied, or dropped with a
warning.
"""

import json
import math
from collections.abc import Callable
from typing import Any

from app.core import exact_json
from app.openapi.conversion.text import SCHEMA_TEXT, clean
from app.openapi.model import Json

Warn = Callable[[str, str], None]
Copy = Callable[[Json, str, Any, str, Warn], None]

TYPES = frozenset({"null", "boolean", "object", "array", "number", "string", "integer"})
# Types that authors write and JSON Schema does not have.
_OTHER_TYPES: dict[str, Json] = {
    "float": {"type": "number"}, "double": {"type": "number"}, "decimal": {"type": "number"},
    "int": {"type": "integer"}, "int32": {"type": "integer"}, "int64": {"type": "integer"},
    "long": {"type": "integer"}, "bool": {"type": "boolean"}, "str": {"type": "string"},
    "text": {"type": "string"}, "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "date-time": {"type": "string", "format": "date-time"}, "uuid": {"type": "string", "format": "uuid"},
    "list": {"type": "array"}, "map": {"type": "object"}, "dict": {"type": "object"},
    "file": {"type": "string", "contentEncoding": "base64"}, "any": {}, "mixed": {},
}  # fmt: skip
_MAX_VALUE_SIZE = 1_000
_MAX_EXAMPLES = 3
_MAX_LISTED = 20
_MAX_COUNT = 2**53


def fits(value: Any, kind: str) -> bool:
    """Return whether a JSON value has the given JSON Schema type."""
    match value:
        case None:
            return kind == "null"
        case bool():
            return kind == "boolean"
        case str():
            return kind == "string"
        case dict():
            return kind == "object"
        case list():
            return kind == "array"
        case float():
            return kind == "number" or (kind == "integer" and value.is_integer())
        case _:
            return kind in {"number", "integer"}


def _copy_type(out: Json, keyword: str, value: Any, location: str, warn: Warn) -> None:
    known: dict[str, None] = {}
    for type_name in value if isinstance(value, list) else [value]:
        word = type_name.lower() if isinstance(type_name, str) else ""
        other = _OTHER_TYPES.get(word)
        if word in TYPES:
            known[word] = None
        elif other is not None:
            if other:
                known[other["type"]] = None
            out.update({name: setting for name, setting in other.items() if name != "type"})
        else:
            warn(location, "a type that JSON Schema does not have was left out")
    if known:
        out[keyword] = next(iter(known)) if len(known) == 1 else list(known)


def _copy_text(out: Json, keyword: str, value: Any, location: str, warn: Warn) -> None:
    text, cut = clean(value, max_length=SCHEMA_TEXT)
    if cut:
        warn(location, f"a text was cut at {SCHEMA_TEXT} characters")
    if text:
        out[keyword] = text


def _copy_word(out: Json, keyword: str, value: Any, _location: str, _warn: Warn) -> None:
    if isinstance(value, str) and value:
        out.setdefault(keyword, value[:_MAX_VALUE_SIZE])


def _copy_flag(out: Json, keyword: str, value: Any, _location: str, _warn: Warn) -> None:
    if value is True:
        out[keyword] = True


def _copy_count(out: Json, keyword: str, value: Any, location: str, warn: Warn) -> None:
    number = _read_number(value)
    if number is None or not 0 <= number <= _MAX_COUNT or number != int(number):
        warn(location, f"`{keyword}` is not a whole number and was left out")
    else:
        out[keyword] = int(number)


def _copy_bound(out: Json, keyword: str, value: Any, location: str, warn: Warn) -> None:
    if isinstance(value, bool) and keyword.startswith("exclusive"):
        return
    number = _read_number(value)
    if number is None or (keyword == "multipleOf" and number <= 0):
        warn(location, f"`{keyword}` is not a usable number and was left out")
    else:
        out[keyword] = number


def _read_number(value: Any) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            number = float(value) if len(value) < 40 else math.nan
        except ValueError:
            return None
        if not math.isfinite(number):
            return None
        return int(number) if number.is_integer() and abs(number) <= _MAX_COUNT else number
    return value if isinstance(value, int | float) else None


def _copy_enum(out: Json, keyword: str, value: Any, location: str, warn: Warn) -> None:
    if isinstance(value, list) and value:
        out[keyword] = exact_json.drop_duplicates(value)
    else:
        warn(location, "an `enum` without values was left out")


def _copy_const(out: Json, keyword: str, value: Any, _location: str, _warn: Warn) -> None:
    out[keyword] = value


def _copy_default(out: Json, keyword: str, value: Any, _location: str, _warn: Warn) -> None:
    if is_small(value):
        out[keyword] = value


def _copy_examples(out: Json, keyword: str, value: Any, _location: str, _warn: Warn) -> None:
    if keyword == "example":
        value = [value]
    elif isinstance(value, dict):
        # A misplaced map of Example Objects, which belongs into a Media Type Object.
        value = [one.get("value", one) if isinstance(one, dict) else one for one in value.values()]
    if isinstance(value, list) and "examples" not in out:
        # By their JSON: true and 1 are different examples, and equal in Python.
        small = {
            json.dumps(one, sort_keys=True, default=str): one for one in value[:_MAX_LISTED] if is_small(one)
        }
        if small:
            out["examples"] = list(small.values())[:_MAX_EXAMPLES]


def is_small(value: Any, limit: int = _MAX_VALUE_SIZE) -> bool:
    """Return whether a value has less than about `limit` bytes, without serialising it: examples can be
    megabytes.
    """
    stack, size = [value], 0
    while stack:
        part = stack.pop()
        size += len(part) if isinstance(part, str | list) else 4 * len(part) if isinstance(part, dict) else 1
        if size > limit:
            return False
        if isinstance(part, dict):
            stack.extend(part.values())
        elif isinstance(part, list):
            stack.extend(part)
    return True


def copy_dependent_required(out: Json, keyword: str, value: Any, _location: str, _warn: Warn) -> None:
    """Copy `dependentRequired`, or the lists of draft 4's `dependencies`, to `out[keyword]`."""
    if not isinstance(value, dict):
        return
    lists = {
        name: list(dict.fromkeys(one for one in names if isinstance(one, str)))
        for name, names in value.items()
        if isinstance(names, list)
    }
    if lists:
        out[keyword] = lists


#: Keyword -> its copying rule.
PLAIN: dict[str, Copy] = {
    "type": _copy_type,
    "title": _copy_text,
    "description": _copy_text,
    "enum": _copy_enum,
    "const": _copy_const,
    "default": _copy_default,
    "example": _copy_examples,
    "examples": _copy_examples,
    "dependentRequired": copy_dependent_required,
    **dict.fromkeys(("format", "contentEncoding", "contentMediaType"), _copy_word),
    **dict.fromkeys(("deprecated", "uniqueItems"), _copy_flag),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties"), _copy_count),
    **dict.fromkeys(("maxProperties", "minContains", "maxContains"), _copy_count),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _copy_bound
    ),
}
