"""Conversion of an introspected schema into a manual: each field of the root types is a tool."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from graphql import (
    GraphQLError,
    GraphQLField,
    GraphQLObjectType,
    build_client_schema,
    get_introspection_query,
)

from app.core import exact_json
from app.core.errors import UpstreamMalformed
from app.protocols.graphql.chosen_fields import FIELDS_ARGUMENT, fields_schema
from app.protocols.graphql.inputs import Schema, arguments_schema
from app.protocols.graphql.selections import Selector, response_schema, selection_text
from app.protocols.graphql.types import root_type, variable_type

INTROSPECTION: Final = get_introspection_query(descriptions=True)
_KINDS: Final = ("query", "mutation", "subscription")


def build_manual(data: Any, *, placed: Mapping[str, bool]) -> bytes:
    """Return the manual of an introspected schema, as JSON.

    `placed` are the arguments of every call that go into the URL or headers, and whether they are required.
    Raise UpstreamMalformed for a schema that cannot be read.
    """
    try:
        schema = build_client_schema(data)
        selector = Selector(schema)
        tools: dict[str, dict[str, Any]] = {}
        for kind in _KINDS:
            for tool in _tools(kind, root_type(schema, kind), selector, placed):
                name = tool["name"]
                tool["name"] = name if name not in tools else f"{name}_{kind}"
                tools[tool["name"]] = tool
    except (GraphQLError, TypeError, ValueError, KeyError, AttributeError, RecursionError):
        raise UpstreamMalformed("The upstream's schema cannot be read.") from None
    return exact_json.dumps({"utcp_version": "1.0.1", "tools": list(tools.values())})


def _tools(
    kind: str, root: GraphQLObjectType | None, selector: Selector, placed: Mapping[str, bool]
) -> Iterator[dict[str, Any]]:
    for name, field in root.fields.items() if root is not None else ():
        nodes = selector.select(field.type)
        may_choose = bool(nodes) and FIELDS_ARGUMENT not in {*field.args, *placed}
        inputs = _with_placed(arguments_schema(field.args), placed)
        if may_choose:
            inputs["properties"][FIELDS_ARGUMENT] = fields_schema(nodes)
        types = {argument: variable_type(one) for argument, one in field.args.items()}
        yield {
            "name": name,
            "description": _description(field),
            "inputs": inputs,
            "outputs": {"type": "object", "properties": {name: response_schema(field.type, nodes)}},
            "tags": [kind],
            "tool_call_template": {
                "call_template_type": "graphql",
                "operation_type": kind,
                "operation_name": name,
                "query": _document(kind, name, types, selection_text(nodes)),
                "variable_types": types,
                **({"fields_argument": FIELDS_ARGUMENT} if may_choose else {}),
            },
        }


def _document(kind: str, name: str, types: Mapping[str, str], selection: str) -> str:
    return f"{kind} {name}{_declared(types)} {{ {name}{_passed(types)}{selection} }}"


def _declared(types: Mapping[str, str]) -> str:
    return f"({', '.join(f'${name}: {kind}' for name, kind in types.items())})" if types else ""


def _passed(types: Mapping[str, str]) -> str:
    return f"({', '.join(f'{name}: ${name}' for name in types)})" if types else ""


def _description(field: GraphQLField) -> str:
    text = field.description or ""
    if field.deprecation_reason is not None:
        text = f"{text}\n\nDeprecated: {field.deprecation_reason}".strip()
    return text


def _with_placed(schema: Schema, placed: Mapping[str, bool]) -> Schema:
    for name, required in placed.items():
        schema["properties"].setdefault(name, {"type": ["string", "integer", "number", "boolean"]})
        if required and name not in schema["required"]:
            schema["required"].append(name)
    return schema
