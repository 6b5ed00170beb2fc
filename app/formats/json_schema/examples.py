"""Examples of values for a part of a schema, for errors of arguments: the schema's own, or the simplest."""

from collections.abc import Mapping
from typing import Any, Final

from app.core import exact_json
from app.formats.json_schema.references import resolve

_MAX_BYTES: Final = 200
_MAX_REFERENCES: Final = 8
_BY_FORMAT: Final[Mapping[str, str]] = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "name@example.com",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "uri": "https://example.com/",
    "ipv4": "192.0.2.1",
}
_BY_TYPE: Final[Mapping[str, Any]] = {
    "string": "text", "boolean": True, "number": 1.5, "integer": 1,
}  # fmt: skip
_COMPOUND: Final = frozenset(
    {"properties", "additionalProperties", "patternProperties", "items", "prefixItems"}
    | {"allOf", "anyOf", "oneOf", "not", "if", "$ref", "$defs"}
)
"""Keywords of schemas that are too large to be tried on an example for each error."""
_NO_EXAMPLE: Final = frozenset({"pattern", "minLength", "maxLength", "multipleOf"})
"""Keywords that the simplest value of a type may violate."""


def find_schema(root: Mapping[str, Any], location: str) -> Any:
    """Return the schema that the value at a JSON pointer into an instance has; None where it is not known.

    Properties, items and local references are followed; alternatives are not.
    """
    schema: Any = _resolve_references(root, root)
    for token in location.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if not isinstance(schema, Mapping):
            return None
        listed, first = schema.get("properties"), schema.get("prefixItems")
        if isinstance(listed, Mapping) and key in listed:
            schema = listed[key]
        elif key.isdecimal() and isinstance(first, list) and int(key) < len(first):
            schema = first[int(key)]
        elif key.isdecimal() and "items" in schema:
            schema = schema["items"]
        else:
            schema = schema.get("additionalProperties")
        schema = _resolve_references(root, schema)
    return schema


def choose_example(schema: Any) -> Any:
    """Return an example of at most 200 bytes that the schema of a single value states, or the simplest value
    of its type; None where there is none.
    """
    if not isinstance(schema, Mapping) or not _COMPOUND.isdisjoint(schema):
        return None
    for word in ("examples", "enum"):
        listed = schema.get(word)
        if isinstance(listed, list) and listed:
            return _keep_short(listed[0])
    for word in ("const", "default"):
        if schema.get(word) is not None:
            return _keep_short(schema[word])
    if not _NO_EXAMPLE.isdisjoint(schema):
        return None
    kinds = schema.get("type")
    kind = next((one for one in kinds if one != "null"), None) if isinstance(kinds, list) else kinds
    if kind == "string" and schema.get("format") in _BY_FORMAT:
        return _BY_FORMAT[schema["format"]]
    if kind in ("integer", "number"):
        return _choose_number(schema, is_integer=kind == "integer")
    return _BY_TYPE.get(kind) if isinstance(kind, str) else None


def name_type(value: Any) -> str:
    """Return the name of a JSON value's type."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "number"


def _choose_number(schema: Mapping[str, Any], *, is_integer: bool) -> Any:
    low, high = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema or "exclusiveMaximum" in schema:
        return None
    bound = low if low is not None else high
    if isinstance(bound, int | float) and not isinstance(bound, bool):
        return int(bound) if is_integer and float(bound).is_integer() else None if is_integer else bound
    return _BY_TYPE["integer" if is_integer else "number"]


def _resolve_references(root: Mapping[str, Any], schema: Any) -> Any:
    for _ in range(_MAX_REFERENCES):
        if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
            return schema
        try:
            schema = resolve(root, schema["$ref"])
        except LookupError:
            return None
    return None


def _keep_short(value: Any) -> Any:
    try:
        return value if len(exact_json.dumps(value)) <= _MAX_BYTES else None
    except TypeError:
        return None
