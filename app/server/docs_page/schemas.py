"""JSON Schemas (2020-12) as views for a reader: a type, its constraints, its properties."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup, escape

_REFERENCE: Final = "#/components/schemas/"
_DEPTH_MAX: Final = 12
_CONSTRAINTS: Final = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "format": "format {}",
}
_CONSTRAINTS_AS_CODE: Final = {"pattern": "matches", "const": "always", "default": "default"}
_OBJECT: Final = Markup("object")


@dataclass(frozen=True, slots=True)
class SchemaView:
    """What a reader sees of a schema. `alternatives` are the schemas of a union that have properties."""

    type: Markup
    constraints: tuple[Markup, ...] = ()
    description: str = ""
    properties: tuple["PropertyView", ...] = ()
    alternatives: tuple["SchemaView", ...] = ()


@dataclass(frozen=True, slots=True)
class PropertyView:
    """A property of an object."""

    name: str
    is_required: bool
    schema: SchemaView


def build_schema_view(schema: Mapping[str, Any], *, depth: int = 0) -> SchemaView:
    """Return the view of a schema, with its properties to a depth of 12; a `$ref` becomes a link."""
    members = _list_members(schema)
    if len(members) == 1 and "anyOf" in schema:
        # A union with null has the constraints and properties of its one schema.
        inner = build_schema_view(members[0], depth=depth)
        constraints = (*inner.constraints, *_list_constraints(schema))
        description = schema.get("description") or inner.description
        return SchemaView(_write_type(schema), constraints, description, inner.properties, inner.alternatives)
    is_deep = depth >= _DEPTH_MAX
    return SchemaView(
        type=_write_type(schema),
        constraints=tuple(_list_constraints(schema)),
        description=schema.get("description", ""),
        properties=() if is_deep else tuple(_list_properties(schema, depth)),
        alternatives=()
        if is_deep
        else tuple(
            build_schema_view(member, depth=depth + 1) for member in members if _has_properties(member)
        ),
    )


def _list_members(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the schemas of a union, without null."""
    members = schema.get("anyOf") or schema.get("oneOf") or ()
    return [member for member in members if member != {"type": "null"}]


def _has_properties(schema: Mapping[str, Any]) -> bool:
    return "properties" in _get_items(schema)


def _get_items(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of the elements of an array of arrays, and any other schema itself."""
    while isinstance(schema.get("items"), Mapping):
        schema = schema["items"]
    return schema


def _list_properties(schema: Mapping[str, Any], depth: int) -> Iterator[PropertyView]:
    described = _get_items(schema)
    if described is not schema and _list_members(described):
        for member in _list_members(described):
            yield from _list_properties(member, depth)
    required = described.get("required", ())
    for name, inner in described.get("properties", {}).items():
        yield PropertyView(name, name in required, build_schema_view(inner, depth=depth + 1))


def _write_type(schema: Mapping[str, Any]) -> Markup:
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REFERENCE)
        return Markup('<a href="#schema-{0}">{0}</a>').format(name)
    if "allOf" in schema:
        return Markup(" and ").join(_write_type(member) for member in schema["allOf"])
    union = schema.get("anyOf") or schema.get("oneOf")
    if union:
        return Markup(" or ").join(dict.fromkeys(_write_type(member) for member in union))
    if schema.get("type") == "array":
        return Markup("array of {}").format(_write_type(schema.get("items", {})))
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return (
            Markup("object of {}").format(_write_type(values))
            if isinstance(values, dict) and values
            else _OBJECT
        )
    kinds = schema.get("type", "any")
    return escape(" or ".join(kinds) if isinstance(kinds, list) else kinds)


def _list_constraints(schema: Mapping[str, Any]) -> Iterator[Markup]:
    for keyword, text in _CONSTRAINTS.items():
        if keyword in schema:
            yield escape(text.format(schema[keyword]))
    for keyword, text in _CONSTRAINTS_AS_CODE.items():
        if keyword in schema and schema[keyword] is not None:
            value = schema[keyword] if keyword == "pattern" else json.dumps(schema[keyword])
            yield Markup("{} <code>{}</code>").format(text, value)
    if "enum" in schema:
        values = Markup(", ").join(Markup("<code>{}</code>").format(one) for one in schema["enum"])
        yield Markup("one of {}").format(values)
    if "items" in schema:
        for constraint in _list_constraints(schema["items"]):
            yield Markup("each {}").format(constraint)
