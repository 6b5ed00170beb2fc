"""Validation of a value against a schema as written in the document: OpenAPI 3.0 and 3.1, for requests.

Annotations (`format`, `discriminator`) assert nothing. A read-only property is not required (OAS Schema
Object). What is malformed asserts nothing, either.
"""

import math
import re
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from benchmarks.corpus.inputs import compiles
from benchmarks.corpus.reading import Json, Reading, UnresolvedError

_MAX_DEPTH = 40


@lru_cache(maxsize=20_000)
def pattern_of(text: str) -> re.Pattern[str] | None:
    r"""Return the compiled pattern; None unless every engine supports it (M6). `\w` and `\d` are ASCII."""
    if not compiles(text):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return re.compile(text, re.ASCII)


def equal(one: Any, other: Any) -> bool:
    """Return JSON Schema's equality: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return bool(one == other)


def _is(value: Any, kind: str) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return {
        "null": value is None,
        "boolean": isinstance(value, bool),
        "string": isinstance(value, str),
        "object": isinstance(value, dict),
        "array": isinstance(value, list),
        "number": number,
        "integer": number and float(value).is_integer(),
    }.get(kind, True)


def valid(
    reading: Reading, schema: Any, value: Any, depth: int = 0, hidden: frozenset[str] = frozenset()
) -> bool:
    """Return whether a value is valid. Raises UnresolvedError for a dangling reference."""
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, dict):
        return True
    if depth > _MAX_DEPTH:
        raise UnresolvedError("too deep")
    if isinstance(schema.get("$ref"), str):
        if not valid(reading, reading.at(schema["$ref"]), value, depth + 1, hidden):
            return False
        if not reading.v31:
            return True
    if "allOf" in schema or "properties" in schema:
        hidden = hidden | _read_only_names(reading, schema)
    if schema.get("nullable") is True and value is None and not reading.v31 and "enum" not in schema:
        kinds = schema.get("type")
        if isinstance(kinds, str):
            return True
    return (
        _typed(schema, value)
        and _combined(reading, schema, value, depth, hidden)
        and _sized(schema, value)
        and _members(reading, schema, value, depth, hidden)
    )


def _read_only_names(reading: Reading, schema: Json) -> frozenset[str]:
    return frozenset(
        name
        for part in reading.parts(schema)
        if isinstance(part.get("properties"), dict)
        for name, one in part["properties"].items()
        if reading.read_only(one)
    )


def _typed(schema: Json, value: Any) -> bool:
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if isinstance(kinds, list) and kinds and not any(_is(value, str(kind)) for kind in kinds):
        return False
    choices = schema.get("enum")
    if isinstance(choices, list) and choices and not any(equal(value, one) for one in choices):
        return False
    return "const" not in schema or equal(value, schema["const"])


def _combined(reading: Reading, schema: Json, value: Any, depth: int, hidden: frozenset[str]) -> bool:
    def holds(one: Any, names: frozenset[str] = frozenset()) -> bool:
        return valid(reading, one, value, depth + 1, names)

    rules: dict[str, Callable[[list[Any]], bool]] = {
        "allOf": lambda parts: all(holds(part, hidden) for part in parts),
        "anyOf": lambda parts: any(map(holds, parts)),
        "oneOf": lambda parts: sum(map(holds, parts)) == 1,
    }
    for word, rule in rules.items():
        parts = schema.get(word)
        if isinstance(parts, list) and parts and not rule(parts):
            return False
    return not (isinstance(schema.get("not"), dict) and holds(schema["not"]))


def _count(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _within(schema: Json, size: float, least: str, most: str) -> bool:
    low, high = _count(schema.get(least)), _count(schema.get(most))
    return (low is None or size >= low) and (high is None or size <= high)


def _sized(schema: Json, value: Any) -> bool:
    if isinstance(value, str):
        found = schema.get("pattern")
        compiled = pattern_of(found) if isinstance(found, str) else None
        if compiled is not None and not compiled.search(value):
            return False
        return _within(schema, len(value), "minLength", "maxLength")
    if isinstance(value, list):
        if schema.get("uniqueItems") is True and any(
            equal(a, b) for i, a in enumerate(value) for b in value[:i]
        ):
            return False
        return _within(schema, len(value), "minItems", "maxItems")
    if isinstance(value, dict):
        return _within(schema, len(value), "minProperties", "maxProperties")
    if isinstance(value, bool) or value is None:
        return True
    for bound, exclusive, sign in (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)):
        at, beyond = _count(schema.get(bound)), _count(schema.get(exclusive))
        if at is not None and (sign * value < sign * at or (schema.get(exclusive) is True and value == at)):
            return False
        if beyond is not None and sign * value <= sign * beyond:
            return False
    step = _count(schema.get("multipleOf"))
    return not step or step < 0 or math.isclose(value / step, round(value / step), abs_tol=1e-9)


def _members(reading: Reading, schema: Json, value: Any, depth: int, hidden: frozenset[str]) -> bool:
    if isinstance(value, list):
        items = schema.get("items")
        return not isinstance(items, dict | bool) or all(
            valid(reading, items, one, depth + 1) for one in value
        )
    if not isinstance(value, dict):
        return True
    required = schema.get("required")
    if isinstance(required, list) and any(
        isinstance(name, str) and name not in value and name not in hidden for name in required
    ):
        return False
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    rest = schema.get("additionalProperties", True)
    patterns = schema.get("patternProperties") if reading.v31 else None
    for name, one in value.items():
        if name in properties:
            if not valid(reading, properties[name], one, depth + 1):
                return False
        elif isinstance(patterns, dict) and patterns:
            continue
        elif isinstance(rest, dict | bool) and not valid(reading, rest, one, depth + 1):
            return False
    return True
