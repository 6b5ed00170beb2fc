"""Gemini's older form of schemas (`parameters`) as JSON Schema, for validators and generators of values."""

from typing import Any

from app.formats.json_schema.references import transform


def json_schema_of(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with types in lower case, and null as a type in place of `nullable`."""

    def change(node: dict[str, Any]) -> dict[str, Any]:
        result = {key: value for key, value in node.items() if key != "nullable"}
        if isinstance(result.get("type"), str):
            result["type"] = result["type"].lower()
        if not node.get("nullable"):
            return result
        if "anyOf" in result:
            return {**result, "anyOf": [*result["anyOf"], {"type": "null"}]}
        if "enum" in result:
            result["enum"] = [*result["enum"], None]
        return {**result, "type": [result["type"], "null"]}

    return transform(schema, change)
