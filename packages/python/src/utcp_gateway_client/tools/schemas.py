"""JSON Schemas of arguments: without references, and in the strict form of OpenAI.

Sources: JSON Schema 2020-12; the Structured Outputs of OpenAI for what a strict schema may hold.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

Schema = dict[str, Any]

_DEFINITIONS: Final = "#/$defs/"
_MAPS: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE: Final = frozenset(
    {"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"}
)
_STRICT_KEYWORDS: Final = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "items", "minItems", "maxItems", "enum",
        "anyOf", "title", "description", "format", "pattern", "minimum", "maximum", "exclusiveMinimum",
        "exclusiveMaximum", "multipleOf",
    }
)  # fmt: skip
_STRICT_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
# Keywords whose loss has no effect on which arguments are accepted.
_ANNOTATIONS: Final = frozenset(
    {"default", "deprecated", "discriminator", "examples", "readOnly", "writeOnly"}
)


class _NotStrict(Exception):
    """A schema that has no strict form which accepts the same arguments."""


def no_arguments() -> Schema:
    """Return the schema of a function without parameters; model providers reject a missing or null one."""
    return {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def inlined(schema: Mapping[str, Any]) -> Schema:
    """Return a schema of pydantic with each `$ref` replaced by the definition that it names.

    Within itself a definition is replaced by its type alone, with a description that says so: a recursive
    model has no finite schema without references.
    """
    result: Schema = _inlined(schema, schema.get("$defs", {}), ())
    return result


def _inlined(schema: Any, definitions: Mapping[str, Any], enclosing: tuple[str, ...]) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith(_DEFINITIONS):
        name = reference.removeprefix(_DEFINITIONS)
        siblings = {key: value for key, value in schema.items() if key not in ("$ref", "$defs")}
        if name in enclosing:
            return _again(name, definitions[name]) | _inlined(siblings, definitions, enclosing)
        found = _inlined(definitions[name], definitions, (*enclosing, name))
        return found | _inlined(siblings, definitions, enclosing)
    result = mapped(
        {key: value for key, value in schema.items() if key != "$defs"},
        lambda each: _inlined(each, definitions, enclosing),
    )
    if isinstance(result.get("discriminator"), Mapping):
        # Its mapping names definitions, which are gone; each branch has its own constant.
        del result["discriminator"]
    return result


def _again(name: str, definition: Mapping[str, Any]) -> Schema:
    kept = {key: definition[key] for key in ("type", "title") if key in definition}
    return kept | {"description": f"Has the form of the enclosing {kept.get('title', name)}."}


def mapped(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> Schema:
    """Return the schema with `change` applied to each subschema."""
    result: Schema = {}
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, Mapping):
            result[key] = {name: change(each) for name, each in value.items()}
        elif key in _LISTS and isinstance(value, list):
            result[key] = [change(each) for each in value]
        elif key in _SINGLE:
            result[key] = change(value)
        else:
            result[key] = value
    return result


def strict_form(schema: Schema) -> Schema | None:
    """Return the schema in OpenAI's strict form: closed objects, all of whose properties are required.

    An optional property becomes one that may be null; `without_nulls` takes these nulls out of arguments.
    None where the strict form would accept other arguments, or cannot be written.
    """
    try:
        return _strict(schema)
    except _NotStrict:
        return None


def _strict(schema: Any) -> Schema:
    if not isinstance(schema, Mapping):
        raise _NotStrict
    result = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
    if "const" in result:
        result["enum"] = [result.pop("const")]
    if "oneOf" in result and "anyOf" not in result:
        result["anyOf"] = result.pop("oneOf")
    if result.get("format") not in _STRICT_FORMATS:
        result.pop("format", None)
    if not result.keys() <= _STRICT_KEYWORDS or not result.keys() & {"type", "enum", "anyOf"}:
        raise _NotStrict
    if "anyOf" in result:
        result["anyOf"] = [_strict(each) for each in result["anyOf"]]
    if result.get("type") == "object":
        return _strict_object(result)
    if result.get("type") == "array":
        result["items"] = _strict(result.get("items"))
    return result


def _strict_object(schema: Schema) -> Schema:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or schema.get("additionalProperties", False) is not False:
        raise _NotStrict
    required = schema.get("required", [])
    return schema | {
        "properties": {
            name: _strict(each) if name in required else _nullable(each) for name, each in properties.items()
        },
        "required": list(properties),
        "additionalProperties": False,
    }


def _nullable(schema: Any) -> Schema:
    """Return the strict form of an optional property; null stands for its absence."""
    result = _strict(schema)
    if accepts_null(schema):
        # Here null is a value. It may stand for absence only where that means the same.
        if schema.get("default", "") is not None:
            raise _NotStrict
        return result
    outer = {key: result.pop(key) for key in ("title", "description") if key in result}
    return {"anyOf": [result, {"type": "null"}]} | outer


def accepts_null(schema: Any) -> bool:
    """Return whether a schema without references accepts null."""
    if not isinstance(schema, Mapping):
        return schema is not False
    if "const" in schema or "enum" in schema:
        return None in schema.get("enum", [schema.get("const")])
    if "anyOf" in schema or "oneOf" in schema:
        return any(accepts_null(each) for each in schema.get("anyOf", schema.get("oneOf")))
    types = schema.get("type")
    return types is None or types == "null" or (isinstance(types, list) and "null" in types)


def without_nulls(value: Any, schema: Any) -> Any:
    """Return arguments without the nulls of optional properties that do not accept null.

    Models write them for a strict schema, and often for another. The result is `value` itself where there is
    none.
    """
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, list):
        items = [without_nulls(each, schema.get("items")) for each in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    branches = [each for each in schema.get("anyOf", schema.get("oneOf", ())) if each != {"type": "null"}]
    if len(branches) == 1:
        return without_nulls(value, branches[0])
    if not isinstance(value, dict):
        return value
    required = schema.get("required", [])
    properties = schema.get("properties", {})
    result = {}
    for name, member in value.items():
        if (
            member is None
            and name in properties
            and name not in required
            and not accepts_null(properties[name])
        ):
            continue
        result[name] = without_nulls(member, properties.get(name))
    unchanged = result.keys() == value.keys() and all(result[name] is value[name] for name in value)
    return value if unchanged else result
