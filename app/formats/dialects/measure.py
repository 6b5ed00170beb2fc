"""Counts what dialects limit in strict schemas."""

from dataclasses import dataclass
from typing import Any, Final

_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_MANY_STRINGS: Final = 250
"""The number of strings of an `enum` above which OpenAI limits their characters."""


@dataclass(slots=True)
class SchemaSize:
    """Numbers of a schema with its definitions: levels of objects and lists, properties, values of `enum`,
    characters of names and values, those of the strings of the largest `enum` with more than 250 of them,
    properties that are not required, and unions (`anyOf`, lists of types).
    """

    depth: int = 0
    properties: int = 0
    enum_values: int = 0
    characters: int = 0
    enum_characters: int = 0
    optional: int = 0
    unions: int = 0


def measure(schema: dict[str, Any]) -> SchemaSize:
    """Return the size of a schema."""
    size = SchemaSize()
    _count(schema, 1, size)
    for name, definition in schema.get("$defs", {}).items():
        size.characters += len(name)
        _count(definition, 1, size)
    return size


def _count(node: Any, depth: int, size: SchemaSize) -> None:
    if not isinstance(node, dict):
        return
    values = node.get("enum", []) + ([node["const"]] if "const" in node else [])
    size.enum_values += len(values)
    strings = [value for value in values if isinstance(value, str)]
    characters = sum(map(len, strings))
    size.characters += characters
    if len(strings) > _MANY_STRINGS:
        size.enum_characters = max(size.enum_characters, characters)
    size.unions += "anyOf" in node or isinstance(node.get("type"), list)
    properties = node.get("properties", {})
    if properties or "items" in node:
        size.depth = max(size.depth, depth)
    size.properties += len(properties)
    size.characters += sum(map(len, properties))
    size.optional += len(properties.keys() - set(node.get("required", ())))
    for member in properties.values():
        _count(member, depth + 1, size)
    for key in ("items", "additionalProperties"):
        _count(node.get(key), depth + 1, size)
    for key in _LISTS:
        for branch in node.get(key, ()):
            _count(branch, depth, size)
