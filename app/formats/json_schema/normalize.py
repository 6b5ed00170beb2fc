"""Normalises tools' schemas to valid JSON Schema 2020-12 that strict UTCP clients accept.

The reference clients (utcp 1.2, @utcp/sdk 1.1) reject a whole manual for one boolean subschema, null, draft-4
`required: true`, fractional `minLength` or unknown `type`; so the results contain none of these.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from app.core import exact_json
from app.core.errors import FieldError, InvalidDocument
from app.core.text import MAX_DEPTH, clean_text
from app.formats.json_schema.references import MAPS, VALUES, drop_dangling

Schema = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
TYPES: Final = ("null", "boolean", "object", "array", "number", "string", "integer")
_SYNONYMS: Final = {
    "int": "integer", "long": "integer", "float": "number", "double": "number", "bool": "boolean",
    "str": "string", "text": "string", "file": "string", "date": "string", "datetime": "string",
    "list": "array", "tuple": "array", "dict": "object", "map": "object", "none": "null",
}  # fmt: skip
_SUBSCHEMAS: Final = frozenset(
    {"items", "not", "if", "then", "else", "contains", "propertyNames", "contentSchema"}
)
_BOOLEAN_OR_SCHEMA: Final = frozenset(
    {"additionalProperties", "unevaluatedProperties", "unevaluatedItems", "additionalItems"}
)
_SCHEMA_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_COUNTS: Final = frozenset(
    {
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "minContains",
        "maxContains",
    }
)
_NUMBERS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_TEXTS: Final = frozenset({"title", "description", "$comment"})
_STRINGS: Final = frozenset({"format", "pattern", "contentEncoding", "contentMediaType", "$ref"})
_FLAGS: Final = frozenset({"uniqueItems", "deprecated", "readOnly", "writeOnly"})
# `$id` and `$schema` would change what `#/...` and the keywords mean once the schema is part of another one;
# the others have no meaning for clients.
_DROPPED: Final = frozenset({
    "$id", "id", "$schema", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor",
    "$vocabulary", "nullable", "xml", "externalDocs", "discriminator",
})  # fmt: skip
_OLD_DEFINITIONS: Final = "#/definitions/"
# What is no keyword of JSON Schema 2020-12, or means something else there. `x-mcp-header` tells proxies what
# to read from arguments: the author of a document must not.
_NOT_2020_12: Final = frozenset({
    "$id", "id", "$recursiveRef", "$recursiveAnchor", "$vocabulary", "nullable", "xml", "externalDocs",
    "discriminator", "x-mcp-header",
})  # fmt: skip
_ANCHOR: Final = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*")
_DROP: Final = object()


@dataclass(frozen=True, slots=True)
class _Form:
    """What schemas are converted to: without nulls (`publish`), the keywords in `dropped`, and extensions.

    `renames` gives keywords of older drafts their names of 2020-12.
    """

    publish: bool = False
    dropped: frozenset[str] = _DROPPED
    drops_extensions: bool = True
    renames: bool = False
    renames_definitions: bool = False


# UTCP clients know no anchors, so a reference never needs one; they stay for clients that show the schema.
_STORED: Final = _Form(dropped=_DROPPED - {"$anchor"})
_PUBLISHED: Final = _Form(publish=True)
_VERBATIM: Final = _Form(dropped=_NOT_2020_12, drops_extensions=False, renames=True)


def normalize_schema(raw: Any, *, location: str = "") -> tuple[Schema, tuple[str, ...]]:
    """Return a schema of any dialect as valid JSON Schema 2020-12 whose references all resolve, and notes on
    references that were dropped. `$schema` of 2020-12 at the root, and `$anchor`, stay.

    Raises InvalidDocument, which names `location`, for a value that is not a schema, or is nested deeper
    than `MAX_DEPTH`.
    """
    if not isinstance(raw, (dict, bool)) and raw is not None:
        raise InvalidDocument(
            "A schema must be an object", errors=[FieldError(location, "Must be a JSON Schema object.")]
        )
    try:
        schema = _normalize_node(raw, 0, form=_STORED)
    except _TooDeep:
        errors = [FieldError(location, f"Nested more than {MAX_DEPTH} levels deep.")]
        raise InvalidDocument("The schema is nested too deeply", errors=errors) from None
    base = raw.get("$id") if isinstance(raw, dict) else None
    lost = drop_dangling(schema, base=base if isinstance(base, str) else "", keeps_anchors=False)
    if isinstance(raw, dict) and raw.get("$schema") == DIALECT:
        schema = {"$schema": DIALECT, **schema}
    return schema, tuple(f"The reference {ref} cannot be resolved and was dropped." for ref in lost)


def normalize_inputs(raw: Any, *, location: str = "") -> tuple[Schema, tuple[str, ...]]:
    """Normalise a schema of arguments, as `normalize_schema` does, with a root of type object.

    Raises InvalidDocument also where the schema excludes objects.
    """
    schema, notes = normalize_schema(raw, location=location)
    root = schema.get("type", "object")
    if root != "object":
        if "object" not in root and "properties" not in schema:
            raise InvalidDocument(
                "Inputs must be an object", errors=[FieldError(location, "Use type object.", "object")]
            )
        schema["type"] = "object"
    return {"type": "object", **schema}, notes


def to_2020_12(raw: Any, *, location: str = "") -> Schema:
    """Return a schema of any dialect as valid JSON Schema 2020-12 that is otherwise unchanged: keywords that
    2020-12 knows, and extensions, stay as they are.

    Unlike `normalize_schema` it keeps anchors, and leaves references alone; `definitions` and `dependencies`
    of older drafts get their new names. Raises InvalidDocument like `normalize_schema`.
    """
    if not isinstance(raw, (dict, bool)):
        raise InvalidDocument(
            "A schema must be an object", errors=[FieldError(location, "Must be a JSON Schema object.")]
        )
    try:
        # Where a schema has both, each name could stand for two definitions.
        renames = isinstance(raw, dict) and not isinstance(raw.get("$defs"), dict)
        return _normalize_node(raw, 0, form=replace(_VERBATIM, renames_definitions=renames))
    except _TooDeep:
        errors = [FieldError(location, f"Nested more than {MAX_DEPTH} levels deep.")]
        raise InvalidDocument("The schema is nested too deeply", errors=errors) from None


def _rename_keywords(node: Schema, depth: int, *, form: _Form) -> Schema:
    """Return the schema with the keywords of drafts 4 to 7 under their names of 2020-12."""
    result = dict(node)
    reference = result.get("$ref")
    if isinstance(reference, str) and reference.startswith(_OLD_DEFINITIONS) and form.renames_definitions:
        result["$ref"] = "#/$defs/" + reference.removeprefix(_OLD_DEFINITIONS)
    if depth == 0 and form.renames_definitions:
        result.pop("$defs", None)
        result = {"$defs" if key == "definitions" else key: value for key, value in result.items()}
    dependencies = result.pop("dependencies", None)
    for name, needed in dependencies.items() if isinstance(dependencies, dict) else ():
        key = "dependentRequired" if isinstance(needed, list) else "dependentSchemas"
        known = result.get(key)
        value = _normalize_names(needed) if isinstance(needed, list) else needed
        result[key] = {**(known if isinstance(known, dict) else {}), str(name): value}
    return result


def make_publishable(schema: Any) -> Schema:
    """Return the schema in the form that strict clients accept: without nulls and annotations that they
    reject.

    An `enum` with null becomes `anyOf` of the enum and `{"type": "null"}`; `const: null` becomes that type;
    defaults and examples that contain null are annotations, and are dropped. Beyond `MAX_DEPTH` levels a
    schema becomes `{}`.
    """
    return _normalize_node(schema, 0, form=_PUBLISHED)


class _TooDeep(Exception):
    pass


def _normalize_node(node: Any, depth: int, *, form: _Form) -> Schema:
    if node is False:
        return {"not": {}}
    if not isinstance(node, dict):
        return {}
    if depth > MAX_DEPTH:
        if form.publish:
            return {}
        raise _TooDeep
    if form.renames:
        node = _rename_keywords(node, depth, form=form)
    result: Schema = {}
    for key, value in node.items():
        member = _normalize_keyword(str(key), value, depth, form=form)
        if member is not _DROP:
            result[str(key)] = member
    _repair_required(node, result)
    _repair_draft_4(node, result, depth, form=form)
    if form.publish:
        _repair_nulls(node, result)
    return result


def _normalize_keyword(key: str, value: Any, depth: int, *, form: _Form) -> Any:
    if key in VALUES:
        return _KEYWORDS[key](value)
    if value is None or key in form.dropped or (form.drops_extensions and key.startswith("x-")):
        return _DROP
    if key == "$anchor" and form.drops_extensions:
        return _normalize_anchor(value)
    if key in MAPS:
        if not isinstance(value, dict):
            return _DROP
        return {str(name): _normalize_node(member, depth + 1, form=form) for name, member in value.items()}
    if key in _SCHEMA_LISTS:
        members = value if isinstance(value, list) else []
        return [_normalize_node(member, depth + 1, form=form) for member in members] or _DROP
    if key in _SUBSCHEMAS:
        return _DROP if isinstance(value, list) else _normalize_node(value, depth + 1, form=form)
    if key in _BOOLEAN_OR_SCHEMA:
        return value if isinstance(value, bool) else _normalize_node(value, depth + 1, form=form)
    return _KEYWORDS.get(key, _normalize_other)(value)


def _normalize_types(value: Any) -> Any:
    listed = value if isinstance(value, list) else [value]
    names = [_SYNONYMS.get(name.lower(), name.lower()) for name in listed if isinstance(name, str)]
    result = list(dict.fromkeys(name for name in names if name in TYPES))
    return _DROP if not result else result[0] if len(result) == 1 else result


def _normalize_names(value: Any) -> Any:
    return list(dict.fromkeys(v for v in value if isinstance(v, str))) if isinstance(value, list) else _DROP


def _count(value: Any) -> Any:
    whole = _normalize_number(value)
    return int(whole) if whole is not _DROP and whole >= 0 and whole == int(whole) else _DROP


def _normalize_number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return _DROP
    # orjson writes integers of 64 bits and no more.
    return value if isinstance(value, float) or -(2**63) <= value < 2**64 else float(value)


def _normalize_divisor(value: Any) -> Any:
    number = _normalize_number(value)
    return number if number is not _DROP and number > 0 else _DROP


def _normalize_text(value: Any) -> Any:
    return (
        clean_text(value)
        if isinstance(value, str)
        else str(value)
        if _normalize_number(value) is not _DROP
        else _DROP
    )


def _normalize_anchor(value: Any) -> Any:
    return value if isinstance(value, str) and _ANCHOR.fullmatch(value) else _DROP


def _normalize_string(value: Any) -> Any:
    return value if isinstance(value, str) else _DROP


def _normalize_flag(value: Any) -> Any:
    return value if isinstance(value, bool) else _DROP


def _normalize_values(value: Any) -> Any:
    members = list(value.values()) if isinstance(value, dict) else value
    return [convert_to_json(member) for member in members] if isinstance(members, list) and members else _DROP


def _normalize_enum(value: Any) -> Any:
    return (
        exact_json.drop_duplicates(map(convert_to_json, value))
        if isinstance(value, list) and value
        else _DROP
    )


def _normalize_dependent_required(value: Any) -> Any:
    if not isinstance(value, dict):
        return _DROP
    return {str(name): _normalize_names(needed) for name, needed in value.items() if isinstance(needed, list)}


def _normalize_other(value: Any) -> Any:
    return convert_to_json(value)


def convert_to_json(value: Any, depth: int = 0) -> Any:
    """Return the value as JSON: without NaN and integers beyond 64 bits, with string keys, and dates as
    text.
    """
    if depth > MAX_DEPTH:
        return None
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, dict):
        return {str(key): convert_to_json(member, depth + 1) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [convert_to_json(member, depth + 1) for member in value]
    if isinstance(value, (int, float)):
        number = _normalize_number(value)
        return str(value) if number is _DROP else number
    return str(value)


_KEYWORDS: Final[dict[str, Callable[[Any], Any]]] = {
    "type": _normalize_types,
    "required": _normalize_names,
    "dependentRequired": _normalize_dependent_required,
    "enum": _normalize_enum,
    "examples": _normalize_values,
    "const": convert_to_json,
    "default": convert_to_json,
    **dict.fromkeys(_COUNTS, _count),
    **dict.fromkeys(_NUMBERS, _normalize_number),
    "multipleOf": _normalize_divisor,
    **dict.fromkeys(_TEXTS, _normalize_text),
    **dict.fromkeys(_STRINGS, _normalize_string),
    **dict.fromkeys(_FLAGS, _normalize_flag),
}


def _repair_required(node: Schema, result: Schema) -> None:
    # Draft 3 and many hand-written schemas say `required: true` inside the property.
    properties = node.get("properties")
    for name, member in properties.items() if isinstance(properties, dict) else ():
        if isinstance(member, dict) and member.get("required") is True:
            result["required"] = list(dict.fromkeys([*result.get("required", []), str(name)]))


def _repair_draft_4(node: Schema, result: Schema, depth: int, *, form: _Form) -> None:
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if node.get(exclusive) is True and bound in result:
            result[exclusive] = result.pop(bound)
    if isinstance(node.get("items"), list) and "prefixItems" not in result:
        if node["items"]:
            result["prefixItems"] = [
                _normalize_node(member, depth + 1, form=form) for member in node["items"]
            ]
        rest = result.pop("additionalItems", True)
        if rest is not True:
            result["items"] = {"not": {}} if rest is False else rest
    if node.get("nullable") is True and isinstance(result.get("type"), str) and result["type"] != "null":
        result["type"] = [result["type"], "null"]


def _repair_nulls(node: Schema, result: Schema) -> None:
    if "const" in node and node["const"] is None:
        result["type"] = "null"
    for key in ("const", "default"):
        if key in result and _holds_null(result[key]):
            del result[key]
    if "examples" in result:
        result["examples"] = [value for value in result["examples"] if not _holds_null(value)]
    choices = result.get("enum", [])
    if _holds_null(choices):
        result["enum"] = [value for value in choices if not _holds_null(value)]
        if None in choices and not result["enum"]:
            result["type"] = "null"
        elif None in choices:
            either = [{"enum": result.pop("enum")}, {"type": "null"}]
            if "anyOf" in result:
                result["allOf"] = [*result.get("allOf", []), {"anyOf": either}]
            else:
                result["anyOf"] = either
    for key in [key for key, value in result.items() if value in ([], {}) and key in ("examples", "enum")]:
        del result[key]
    for key in [
        key for key in result if key == "example" or (key not in _TYPED and _holds_null(result[key]))
    ]:
        del result[key]


_TYPED: Final = frozenset(_KEYWORDS) | _SUBSCHEMAS | _BOOLEAN_OR_SCHEMA | MAPS | _SCHEMA_LISTS


def _holds_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_null(member) for member in value.values())
    return any(_holds_null(member) for member in value) if isinstance(value, list) else value is None
