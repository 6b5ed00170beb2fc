"""Says which rules of a dialect's table an exported schema breaks: the provider's documented subset, as data."""

import re
from collections.abc import Iterator
from typing import Any

from app.core.text import pointer
from app.formats.dialects.dialects import Dialect, SchemaRules
from app.formats.dialects.measure import measure

_NO_KEYWORDS = frozenset({"nullable", "propertyOrdering"})


def broken_rules(dialect: Dialect, name: str, schema: dict[str, Any], *, strict: bool) -> list[str]:
    """Return the rules that a tool breaks in its dialect, each with a JSON pointer."""
    rules = dialect.strict if strict and dialect.strict is not None else dialect.plain
    found = [] if re.fullmatch(dialect.name_pattern, name) else [f"name {name}"]
    if dialect.verbatim:
        return found + ([] if schema.get("type") == "object" else ["root"])
    if str(schema.get("type", "")).lower() != "object":
        found.append("the root is no object")
    if schema.keys() & {"anyOf", "oneOf", "allOf", "enum", "const", "not"}:
        found.append("a composition at the root")
    found += _broken(schema, "", rules, dialect)
    for definition, member in schema.get("$defs", {}).items():
        found += _broken(member, pointer("/$defs", definition), rules, dialect)
    if strict:
        size, limits = measure(schema), dialect.limits
        for measured, limit in ((size.depth, limits.depth), (size.properties, limits.properties),
                                (size.enum_values, limits.enum_values), (size.characters, limits.characters)):  # fmt: skip
            if limit is not None and measured > limit:
                found.append(f"{measured} > {limit}")
    return found


def _broken(node: Any, at: str, rules: SchemaRules, dialect: Dialect) -> Iterator[str]:
    if not isinstance(node, dict):
        yield f"{at}: a schema that is no object"
        return
    types = node.get("type", [])
    types = [str(name).lower() for name in ([types] if isinstance(types, str) else types)]
    for key, value in node.items():
        if not rules.keeps(key) and key not in _NO_KEYWORDS:
            yield f"{at}: {key}"
        if key in rules.values and value not in rules.values[key]:
            yield f"{at}: {key} {value}"
    yield from _broken_values(node, at, rules, types)
    properties = node.get("properties", {})
    if dialect.property_pattern is not None:
        yield from (
            f"{at}: {name}" for name in properties if not re.fullmatch(dialect.property_pattern, name)
        )
    yield from _broken_objects(node, at, rules, types)
    if "array" in types and rules.items_required and "items" not in node:
        yield f"{at}: no items"
    for where, member in _members(node, at):
        yield from _broken(member, where, rules, dialect)


def _broken_objects(node: dict[str, Any], at: str, rules: SchemaRules, types: list[str]) -> Iterator[str]:
    if "object" not in types:
        return
    properties, required = node.get("properties", {}), set(node.get("required", []))
    if "propertyOrdering" in node and node["propertyOrdering"] != list(properties):
        yield f"{at}: the order of other properties"
    if rules.closed and node.get("additionalProperties") is not False:
        yield f"{at}: it is not closed"
    if rules.all_required and required != set(properties):
        yield f"{at}: not all properties are required"
    if not rules.empty_objects and at and not properties:
        yield f"{at}: an object without properties"
    if not rules.keeps("*") and required - set(properties):
        yield f"{at}: a required property is not declared"


def _members(node: dict[str, Any], at: str) -> Iterator[tuple[str, Any]]:
    """Yield the schemas in a schema, with their pointers."""
    for name, member in node.get("properties", {}).items():
        yield pointer(at, "properties", name), member
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield pointer(at, key), node[key]
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for index, member in enumerate(node.get(key, ())):
            yield pointer(at, key, index), member


def _broken_values(node: dict[str, Any], at: str, rules: SchemaRules, types: list[str]) -> Iterator[str]:
    if rules.formats is not None and node.get("format", next(iter(rules.formats))) not in rules.formats:
        yield f"{at}: format {node['format']}"
    if "$ref" in node and not rules.reference_siblings and len(node) > 1:
        yield f"{at}: keywords beside $ref"
    if rules.types == "nullable" and not isinstance(node.get("type", ""), str):
        yield f"{at}: a list of types"
    kinds: dict[str, tuple[type, ...]] = {"strings": (str,), "strings-and-numbers": (str, int, float)}
    kinds["primitives"] = (str, int, float, bool, type(None))
    if rules.enum in kinds and not all(
        isinstance(value, kinds[rules.enum]) for value in node.get("enum", [])
    ):
        yield f"{at}: enum {node['enum']}"
    if rules.free_form != "keep" and not node.keys() & {"$ref", "anyOf", "enum", "const", "type"}:
        yield f"{at}: a free-form value"
    if rules.closed and {"object", "array"} & set(types) and len(set(types) - {"null"}) > 1:
        yield f"{at}: types {types}"
