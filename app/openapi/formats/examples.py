"""Schemas of values of which only examples are known, as in Postman collections.

Such a schema accepts more than the example: nothing is required, a whole number may become a fraction, and
null tells nothing.
"""

import re
from typing import Any, Final

import orjson

from app.core.secret_names import is_credential_name
from app.openapi.model import Json

_MAX_DEPTH: Final = 30
_MAX_MEMBERS: Final = 500
_MAX_ITEMS: Final = 10
_MAX_EXAMPLE: Final = 100
_VARIABLE: Final = re.compile(r"\{\{([^{}]{1,200})\}\}")
# A string, a variable or a comment: Postman reads JSON bodies with variables and comments in them.
_PARTS: Final = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|\{\{[^{}]{1,200}\}\}|//[^\n]*|/\*(?:[^*]|\*(?!/))*+\*/', re.DOTALL
)
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}\.[0-9]{1,15}")


def has_variable(text: str) -> bool:
    """Return whether a text of a collection names a variable (`{{name}}`)."""
    return _VARIABLE.search(text) is not None


def infer_schema(value: Any, depth: int = 0) -> Json:
    """Return a schema of an example value."""
    if depth >= _MAX_DEPTH:
        return {}
    match value:
        case dict():
            members = list(value.items())[:_MAX_MEMBERS]
            properties = {
                name: infer_secret_schema(one) if is_credential_name(name) else infer_schema(one, depth + 1)
                for name, one in members
            }
            return {"type": "object", "properties": properties}
        case list():
            items = [infer_schema(one, depth + 1) for one in value[:_MAX_ITEMS]]
            return {"type": "array", "items": _merge_schemas(items)}
        case bool():
            return {"type": "boolean"}
        case int() | float():
            return {"type": "number", "examples": [value]}
        case str():
            is_example = 0 < len(value) <= _MAX_EXAMPLE and not has_variable(value)
            return {"type": "string", **({"examples": [value]} if is_example else {})}
        case _:
            return {}


def infer_secret_schema(value: Any) -> Json:
    """Return a schema of a value that must not be shown as an example."""
    return {"type": "string"} if isinstance(value, str) else {}


def infer_text_schema(value: str) -> Json:
    """Return a schema of what is written in a URL or a header: `7` may be given as a number or as a text."""
    if not value or has_variable(value):
        return {"type": ["string", "number", "boolean"]}
    kinds = ["string"]
    if _INTEGER.fullmatch(value):
        kinds = ["integer", "string"]
    elif _NUMBER.fullmatch(value):
        kinds = ["number", "string"]
    elif value in ("true", "false"):
        kinds = ["boolean", "string"]
    schema: Json = {"type": kinds if len(kinds) > 1 else "string"}
    return {**schema, "examples": [value]} if len(value) <= _MAX_EXAMPLE else schema


def parse_json(text: str) -> Any:
    """Return the value of a JSON text in which variables stand for values; None where it is not JSON."""

    def replace_part(match: re.Match[str]) -> str:
        part = match[0]
        return part if part[0] == '"' else "null" if part[0] == "{" else ""

    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    try:
        return orjson.loads(_PARTS.sub(replace_part, text))
    except orjson.JSONDecodeError:
        return None


def _merge_schemas(schemas: list[Json]) -> Json:
    """Return a schema for items of several forms: that of all, with the properties of each."""
    if not schemas:
        return {}
    kinds = {schema.get("type") for schema in schemas}
    if len(kinds) > 1:
        return {}
    merged: Json = {}
    for schema in schemas:
        properties = {**merged.get("properties", {}), **schema.get("properties", {})}
        merged = {**schema, **merged, **({"properties": properties} if properties else {})}
    return merged
