"""Inputs that clients of MCP repeat in a header `Mcp-Param-<token>`, so that proxies can route by them.

An operator names them (decision 77); the schema that clients see marks each with the keyword `x-mcp-header`
(MCP 2026-07-28, "Streamable HTTP"). A client drops a tool whose mark is not valid, so only valid ones are
written.
"""

from collections.abc import Mapping
from typing import Any, Final

from app.core.text import split_input_path

Schema = dict[str, Any]

KEYWORD: Final = "x-mcp-header"
KINDS: Final = ("string", "integer", "boolean")
"""The values of `type` that a marked schema may have, each as a string."""


def explain_header_input(schema: Mapping[str, Any], name: str) -> str | None:
    """Return why an input cannot be repeated in a header, as a sentence; None where it can.

    `schema` is that of the arguments as clients see it, `name` the name of an input or a JSON pointer.
    """
    node: Any = schema
    for key in split_input_path(name):
        properties = node.get("properties") if isinstance(node, Mapping) else None
        if not isinstance(properties, Mapping) or key not in properties:
            return "The tool has no input of this name that is a property of an object."
        node = properties[key]
    if not isinstance(node, Mapping) or node.get("type") not in KINDS:
        return f"The input is not of a single type that is one of {', '.join(KINDS)}."
    return None


def find_invalid_header_inputs(schema: Mapping[str, Any], header_inputs: Mapping[str, str]) -> dict[str, str]:
    """Return the names that cannot be repeated in a header, each with the sentence why."""
    errors = {name: explain_header_input(schema, name) for name in header_inputs}
    return {name: error for name, error in errors.items() if error is not None}


def with_header_inputs(schema: Schema, header_inputs: Mapping[str, str]) -> Schema:
    """Return the schema with the marks of the inputs that can be repeated in a header; others have none.

    The schema itself is not changed.
    """
    marked = schema
    for name, token in header_inputs.items():
        if explain_header_input(marked, name) is None:
            marked = _mark_input(marked, split_input_path(name), token)
    return marked


def _mark_input(schema: Schema, path: tuple[str, ...], token: str) -> Schema:
    if not path:
        return {**schema, KEYWORD: token}
    name, *rest = path
    properties = schema["properties"]
    return {**schema, "properties": {**properties, name: _mark_input(properties[name], tuple(rest), token)}}
