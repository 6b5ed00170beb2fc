"""Definitions of tools in UBP, and their JSON Schemas.

A `ToolDefinition` is flat: names and types of parameters. The field `json_schema`, an addition, has the whole
schema; `flat_definition` reports what a reader that does not know it loses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from google.protobuf.message import DecodeError

from app.core import exact_json
from app.core.errors import FieldError, InvalidInput
from app.core.text import pointer
from app.formats.ubp.model import REGISTER_TOOLS, JsonPayload, Payload, WirePayload
from app.formats.ubp.v1 import tools_pb2
from app.formats.ubp.values import value_of

MAX_TOOLS: Final = 1_000
"""The tools of one registration."""

_TYPES: Final[Mapping[str, str]] = {
    **{name: name for name in ("string", "integer", "number", "boolean", "array", "object", "null")},
    "str": "string",
    "text": "string",
    "int": "integer",
    "int32": "integer",
    "int64": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
    "map": "object",
}
"""JSON Schema's name of a parameter's type, by how executors write it (in lower case)."""

_FLAT_OF_TOOL: Final = frozenset({"type", "properties", "required", "description", "title", "$schema"})
_FLAT_OF_PARAMETER: Final = frozenset({"type", "description", "title", "examples", "default", "deprecated"})
"""Keywords whose meaning a flat definition keeps, or that constrain nothing."""


@dataclass(frozen=True, slots=True)
class DefinedTool:
    """A tool as a peer declares it. `inputs` is the JSON Schema of its arguments, an object."""

    name: str
    description: str
    inputs: dict[str, Any] = field(repr=False)
    notes: tuple[str, ...] = ()
    """What of the definition is not used, each as one sentence."""


@dataclass(frozen=True, slots=True)
class FlatDefinition:
    """A definition for a peer, in JSON, and what one that reads only flat parameters loses."""

    definition: dict[str, Any] = field(repr=False)
    losses: tuple[FieldError, ...] = ()


def defined_tools(payload: Payload | None, *, at: str = "") -> list[DefinedTool]:
    """Return the tools of the arguments of `agent.register_tools`, as RegisterToolsArguments or a Struct.

    Raise InvalidInput, with pointers below `at`, for arguments of another form, more than MAX_TOOLS tools, a
    tool without a name, and a name that is given twice.
    """
    value = _registered_value(payload, at)
    tools = value.get("tools", []) if isinstance(value, Mapping) else None
    if not isinstance(tools, list) or len(tools) > MAX_TOOLS:
        raise _invalid(pointer(at, "tools"), f"This must be a list of at most {MAX_TOOLS} tools.")
    found: dict[str, DefinedTool] = {}
    for index, tool in enumerate(tools):
        where = pointer(at, "tools", index)
        one = _defined_tool(tool, where)
        if one.name in found:
            raise _invalid(pointer(where, "name"), "There are two tools of this name.")
        found[one.name] = one
    return list(found.values())


def flat_definition(name: str, description: str, inputs: Mapping[str, Any]) -> FlatDefinition:
    """Return the definition of a tool with flat parameters, and the whole schema beside them."""
    properties = inputs.get("properties")
    required = inputs.get("required", ())
    losses: list[FieldError] = []
    parameters = [
        _flat_parameter(parameter, schema, parameter in required, losses)
        for parameter, schema in (properties if isinstance(properties, Mapping) else {}).items()
    ]
    _report_unseen(inputs, _FLAT_OF_TOOL, "", losses)
    whole = {"name": name, "description": description, "parameters": parameters, "jsonSchema": _json(inputs)}
    return FlatDefinition(whole, tuple(losses))


def _flat_parameter(name: str, schema: Any, required: bool, losses: list[FieldError]) -> dict[str, Any]:
    """Return a ToolParameter in JSON; add what it does not say without its schema to `losses`."""
    where = pointer("/properties", name)
    known: Mapping[str, Any] = schema if isinstance(schema, Mapping) else {}
    kind = known.get("type")
    if not isinstance(kind, str):
        kind = "string" if _is_enum_of_text(known) else "object"
        losses.append(FieldError(where, f"Its values are not of one type; it is sent as {kind}."))
    _report_unseen(known, _FLAT_OF_PARAMETER, where, losses)
    description = str(known.get("description", ""))
    return {
        "name": name,
        "type": kind,
        "description": description,
        "required": required,
        "jsonSchema": _json(known),
    }


def _report_unseen(
    schema: Mapping[str, Any], seen: frozenset[str], at: str, losses: list[FieldError]
) -> None:
    unseen = sorted(schema.keys() - seen)
    if unseen:
        detail = f"Without the field json_schema these are lost: {', '.join(unseen)}."
        losses.append(FieldError(at, detail))


def registration_payload(definitions: Sequence[Mapping[str, Any]]) -> JsonPayload:
    """Return definitions, in JSON, as the arguments of `agent.register_tools`."""
    return JsonPayload({"@type": REGISTER_TOOLS, "tools": list(definitions)})


def registration_wire(payload: JsonPayload) -> WirePayload:
    """Return a payload of `registration_payload` in protocol buffers."""
    found = tools_pb2.RegisterToolsArguments()
    for tool in payload.members["tools"]:
        definition = found.tools.add(
            name=tool["name"], description=tool["description"], json_schema=tool["jsonSchema"]
        )
        for parameter in tool["parameters"]:
            definition.parameters.add(
                name=parameter["name"],
                type=parameter["type"],
                description=parameter["description"],
                required=parameter["required"],
                json_schema=parameter["jsonSchema"],
            )
    return WirePayload(REGISTER_TOOLS, found.SerializeToString())


def _registered_value(payload: Payload | None, at: str) -> Any:
    if isinstance(payload, WirePayload) and payload.type_url == REGISTER_TOOLS:
        try:
            found = tools_pb2.RegisterToolsArguments.FromString(payload.value)
        except DecodeError:
            raise _invalid(pointer(at, "value"), "This is no RegisterToolsArguments.") from None
        return {
            "tools": [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "json_schema": tool.json_schema,
                    "parameters": [
                        {
                            "name": parameter.name,
                            "type": parameter.type,
                            "description": parameter.description,
                            "required": parameter.required,
                            "json_schema": parameter.json_schema,
                        }
                        for parameter in tool.parameters
                    ],
                }
                for tool in found.tools
            ]
        }
    return value_of(payload, at=at)


def _defined_tool(tool: Any, at: str) -> DefinedTool:
    if not isinstance(tool, Mapping):
        raise _invalid(at, "This must be an object.")
    name = _text(tool, "name", at)
    if not name:
        raise _invalid(pointer(at, "name"), "A tool has a name.")
    description = _text(tool, "description", at)
    whole = _schema(tool, at)
    parameters = [] if tool.get("parameters") is None else tool["parameters"]
    if not isinstance(parameters, list):
        raise _invalid(pointer(at, "parameters"), "This must be a list.")
    if whole is not None:
        if whole.get("type", "object") != "object":
            raise _invalid(pointer(at, "jsonSchema"), "The schema of arguments has the type object.")
        return DefinedTool(name, description, {"type": "object", **whole})
    notes: list[str] = []
    properties: dict[str, Any] = {}
    required: list[str] = []
    for index, parameter in enumerate(parameters):
        where = pointer(at, "parameters", index)
        if not isinstance(parameter, Mapping):
            raise _invalid(where, "This must be an object.")
        parameter_name = _text(parameter, "name", where)
        if not parameter_name or parameter_name in properties:
            raise _invalid(pointer(where, "name"), "A parameter has a name of its own.")
        properties[parameter_name] = _parameter_schema(parameter, where, notes)
        if parameter.get("required") is True:
            required.append(parameter_name)
    inputs: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    return DefinedTool(name, description, inputs | {"additionalProperties": False}, tuple(notes))


def _parameter_schema(parameter: Mapping[str, Any], at: str, notes: list[str]) -> dict[str, Any]:
    schema = _schema(parameter, at)
    if schema is None:
        kind = _text(parameter, "type", at).strip()
        known = _TYPES.get(kind.lower())
        if known is None and kind:
            notes.append(f"The type {kind[:40]!r} at {at} is not one of JSON Schema: any value is taken.")
        schema = {} if known is None else {"type": known}
    description = _text(parameter, "description", at)
    return {**schema, "description": description} if description else schema


def _schema(members: Mapping[str, Any], at: str) -> dict[str, Any] | None:
    """Return the member `json_schema`, JSON text or an object; None where it is empty."""
    name = "jsonSchema" if "jsonSchema" in members else "json_schema"
    value = members.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            raise _invalid(pointer(at, name), "This must be a JSON Schema as JSON text.") from None
    if not isinstance(value, dict):
        raise _invalid(pointer(at, name), "This must be a JSON Schema that is an object.")
    return value


def _text(members: Mapping[str, Any], name: str, at: str) -> str:
    value = members.get(name) or ""
    if not isinstance(value, str):
        raise _invalid(pointer(at, name), "This must be a text.")
    return value


def _is_enum_of_text(schema: Mapping[str, Any]) -> bool:
    values = schema.get("enum")
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _json(value: Mapping[str, Any]) -> str:
    return exact_json.dumps(value).decode()


def _invalid(at: str, detail: str) -> InvalidInput:
    return InvalidInput("The tools are not valid.", errors=[FieldError(at, detail)])
