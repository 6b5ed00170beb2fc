"""Merges schemas that apply together into one, for dialects without `allOf`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from app.core import exact_json

Schema = dict[str, Any]
Contradiction = Callable[[str, Any], None]
"""Is told a keyword, and the value that the merged schema does not have."""

_LARGER: Final = frozenset(
    {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"}
)
_SMALLER: Final = frozenset(
    {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"}
)
_MAPS: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties"})
_FIRST: Final = frozenset(
    {"title", "default", "examples", "example", "$comment", "$id", "$anchor", "$schema"}
)
_MAX_DESCRIPTION: Final = 20_000
"""Characters of a description that others are joined to: otherwise merging would double it at each step."""
_TYPES: Final = ("null", "boolean", "object", "array", "number", "string", "integer")


def merge_all(schemas: Sequence[Mapping[str, Any]], lost: Contradiction) -> Schema:
    """Return a schema of the values that all schemas accept.

    Where two keywords cannot be united the first stays, and `lost` is told the other. `$ref` must have been
    replaced.
    """
    result: Schema = {}
    for schema in schemas:
        for key, value in schema.items():
            result[key] = _unite_keyword(key, result[key], value, lost) if key in result else value
    for schema in schemas:
        closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
        if closed and result.get("properties", {}).keys() - schema.get("properties", {}).keys():
            lost("additionalProperties", False)
    return result


def unite_objects(branches: Sequence[Mapping[str, Any]]) -> Schema:
    """Return an object schema that accepts what any of these object schemas accepts.

    It has the union of their properties, of which those are required that each of them requires.
    """
    properties: Schema = {}
    for branch in branches:
        for name, member in branch.get("properties", {}).items():
            known = properties.get(name)
            if known is None or known == member:
                properties[name] = member
            elif set(known) == {"anyOf"} and member in known["anyOf"]:
                continue
            else:
                either = known["anyOf"] if set(known) == {"anyOf"} else [known]
                properties[name] = {"anyOf": [*either, member]}
    required = [
        name
        for name in branches[0].get("required", [])
        if all(name in branch.get("required", []) for branch in branches)
    ]
    result: Schema = {"type": "object", "properties": properties}
    if all(branch.get("additionalProperties") is False for branch in branches):
        result["additionalProperties"] = False
    return result | ({"required": required} if required else {})


def _unite_keyword(key: str, first: Any, other: Any, lost: Contradiction) -> Any:
    if first == other and type(first) is type(other):
        return first
    if key in ("properties", "patternProperties"):
        shared = {
            name: {"allOf": [first[name], other[name]]}
            for name in first
            if name in other and first[name] != other[name]
        }
        return {**first, **{name: value for name, value in other.items() if name not in first}, **shared}
    if key in _MAPS:
        return {**other, **first}
    if key == "required":
        return list(dict.fromkeys([*first, *other]))
    if key in _LARGER:
        return max(first, other)
    if key in _SMALLER:
        return min(first, other)
    if key == "description":
        return f"{first} {other}" if len(first) + len(other) <= _MAX_DESCRIPTION else first
    if key in ("items", "additionalProperties") and isinstance(first, dict) and isinstance(other, dict):
        return {"allOf": [first, other]}
    if key in _FIRST:
        return first
    return _narrow_keyword(key, first, other, lost)


def _narrow_keyword(key: str, first: Any, other: Any, lost: Contradiction) -> Any:
    united: Any = None
    if key == "enum":
        united = exact_json.keep_common(first, other)
    elif key == "type":
        united = _intersect_types(first, other)
    elif key == "additionalProperties" and isinstance(first, bool):
        # `true` says nothing; `false` would exclude the properties of the other schema.
        return other if first else first
    elif key == "additionalProperties" and other is True:
        return first
    elif key == "uniqueItems":
        return first or other
    if united:
        return united
    lost(key, other)
    return first


def _intersect_types(left: Any, other: Any) -> Any:
    first, second = ([value] if isinstance(value, str) else list(value) for value in (left, other))
    both = [
        name
        for name in _TYPES
        if (name in first or (name == "integer" and "number" in first))
        and (name in second or (name == "integer" and "number" in second))
    ]
    if "number" in both and "integer" in both:
        both.remove("integer")
    return both[0] if len(both) == 1 else both
