"""Types and values of schemas: which a dialect has, and which tell schemas apart."""

from typing import Any, Final

from app.formats.dialects.losses import shorten_json
from app.formats.json_schema.examples import name_type

Schema = dict[str, Any]

ANNOTATIONS: Final = frozenset({
    "title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
    "$comment", "$schema", "$id", "$anchor", "$defs", "definitions",
})  # fmt: skip
"""Keywords that say nothing about which values are valid."""
OBJECT_KEYWORDS: Final = ("properties", "required", "additionalProperties", "patternProperties")
ARRAY_KEYWORDS: Final = ("items", "prefixItems")


def accepts_enum(values: list[Any], form: str) -> bool:
    """Return whether a dialect has an `enum` of these values."""
    if form == "any":
        return True
    if form == "primitives":
        return not any(isinstance(value, (dict, list)) for value in values)
    if form == "strings-and-numbers":
        return all(isinstance(value, (str, int, float)) and not isinstance(value, bool) for value in values)
    return all(isinstance(value, str) for value in values)


def list_types_of_values(values: list[Any]) -> Any:
    names = list(dict.fromkeys(name_type(value) for value in values))
    if "number" in names and "integer" in names:
        names.remove("integer")
    return names[0] if len(names) == 1 else names


def split_types(node: Schema, types: tuple[str, ...]) -> Schema:
    """Return a schema of several types as a choice of schemas of one type."""
    outer = {key: value for key, value in node.items() if key in ANNOTATIONS}
    rest = {key: value for key, value in node.items() if key not in ANNOTATIONS and key != "type"}
    branches = [{"type": name, **_of_type(rest, name)} for name in types if _has_values(rest, name)]
    # Where no listed value is of a type, the schema accepts nothing, in whatever form.
    return {**outer, "anyOf": branches or [{"type": name, **rest} for name in types[:1]] or [rest]}


def _has_values(rest: Schema, name: str) -> bool:
    """Return whether one of the listed values is of a type; True where none is listed."""
    if "const" in rest:
        return _is_of_type(rest["const"], name)
    return "enum" not in rest or any(_is_of_type(value, name) for value in rest["enum"])


def _is_of_type(value: Any, name: str) -> bool:
    kind = name_type(value)
    return kind == name or (name == "number" and kind == "integer")


def _of_type(rest: Schema, name: str) -> Schema:
    """Return the keywords that say something about values of a type."""
    words: dict[str, tuple[str, ...]] = {
        "object": (
            *OBJECT_KEYWORDS, "minProperties", "maxProperties", "propertyNames", "dependentRequired",
            "dependentSchemas",
        ),
        "array": (
            *ARRAY_KEYWORDS, "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains",
        ),
        "string": ("minLength", "maxLength", "pattern", "contentEncoding", "contentMediaType"),
        "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    }  # fmt: skip
    words["integer"] = words["number"]
    others = {word for kind, listed in words.items() for word in listed} - set(words.get(name, ()))
    kept = {key: value for key, value in rest.items() if key not in others}
    if "enum" in kept:
        kept["enum"] = [value for value in kept["enum"] if _is_of_type(value, name)]
    if name == "null":
        # The type says it all.
        kept = {key: value for key, value in kept.items() if key not in ("enum", "const", "format")}
    return kept


def accept_null(schema: Schema) -> Schema:
    """Return the schema so that it accepts null, too."""
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    if "anyOf" in schema:
        if any(branch.get("type") == "null" for branch in schema["anyOf"]):
            return schema
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    names = schema.get("type", [])
    listed = [names] if isinstance(names, str) else names
    result = dict(schema)
    if listed and "null" not in listed:
        result["type"] = [*listed, "null"]
    if "const" in schema:
        result["enum"] = [result.pop("const")]
    if "enum" in result and None not in result["enum"]:
        result["enum"] = [*result["enum"], None]
    return result


def are_disjoint(branches: list[Schema]) -> bool:
    """Return whether no value can be of two branches: by their types, or by a property that differs."""
    types = [branch.get("type") for branch in branches]
    names = [name for one in types for name in ([one] if isinstance(one, str) else one or [])]
    known = all(types) and not {"integer", "number"} <= set(names)
    if known and len(names) == len(set(names)):
        return True
    shared = (
        set.intersection(*(set(branch.get("required", ())) for branch in branches)) if branches else set()
    )
    for name in sorted(shared):
        members = [branch.get("properties", {}).get(name, {}) for branch in branches]
        values = [one.get("enum", [one["const"]] if "const" in one else None) for one in members]
        texts = [shorten_json(value) for listed in values for value in listed or ()]
        if all(values) and len(texts) == len(set(texts)):
            return True
    return False


def find_exclusive_groups(branches: list[Schema]) -> list[frozenset[str]] | None:
    """Return the properties that each branch of `oneOf` excludes, where branches only say what is required.

    None where that is not all they say, or where no single property decides.
    """
    groups = [set(branch.get("required", ())) for branch in branches]
    if any(branch.keys() - {"required"} - ANNOTATIONS for branch in branches) or not all(groups):
        return None
    excluded = []
    for index, group in enumerate(groups):
        others = [other - group for place, other in enumerate(groups) if place != index]
        if any(len(other) != 1 for other in others):
            return None
        excluded.append(frozenset(name for other in others for name in other))
    return excluded
