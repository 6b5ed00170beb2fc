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
from app.formats.ubp.values import read_value

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


def read_defined_tools(payload: Payload | None, *, location: str = "") -> list[DefinedTool]:
    """Return the tools of the arguments of `agent.register_tools`, as RegisterToolsArguments or a Struct.

    Raise InvalidInput, with pointers below `location`, for arguments of another form, more than MAX_TOOLS
    tools, a tool without a name, and a name that is given twice.
    """
    value = _read_registered_value(payload, location)
    tools = value.get("tools", []) if isinstance(value, Mapping) else None
    if not isinstance(tools, list) or len(tools) > MAX_TOOLS:
        raise _reject_tools(pointer(location, "tools"), f"This must be a list of at most {MAX_TOOLS} tools.")
    tools_by_name: dict[str, DefinedTool] = {}
    for index, tool in enumerate(tools):
        where = pointer(location, "tools", index)
        defined = _read_defined_tool(tool, where)
        if defined.name in tools_by_name:
            raise _reject_tools(pointer(where, "name"), "There are two tools of this name.")
        tools_by_name[defined.name] = defined
    return list(tools_by_name.values())


def build_flat_definition(name: str, description: str, inputs: Mapping[str, Any]) -> FlatDefinition:
    """Return the definition of a tool with flat parameters, and the whole schema beside them."""
    properties = inputs.get("properties")
    required = inputs.get("required", ())
    losses: list[FieldError] = []
    parameters = [
        _build_flat_parameter(parameter, schema, parameter in required, losses)
        for parameter, schema in (properties if isinstance(properties, Mapping) else {}).items()
    ]
    _report_unseen(inputs, _FLAT_OF_TOOL, "", losses)
    whole = {
        "name": name,
        "description": description,
        "parameters": parameters,
        "jsonSchema": _write_json(inputs),
    }
    return FlatDefinition(whole, tuple(losses))


def _build_flat_parameter(name: str, schema: Any, required: bool, losses: list[FieldError]) -> dict[str, Any]:
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
        "jsonSchema": _write_json(known),
    }


def _report_unseen(
    schema: Mapping[str, Any], seen: frozenset[str], location: str, losses: list[FieldError]
) -> None:
    unseen = sorted(schema.keys() - seen)
    if unseen:
        detail = f"Without the field json_schema these are lost: {', '.join(unseen)}."
        losses.append(FieldError(location, detail))


def build_registration_payload(definitions: Sequence[Mapping[str, Any]]) -> JsonPayload:
    """Return definitions, in JSON, as the arguments of `agent.register_tools`."""
    return JsonPayload({"@type": REGISTER_TOOLS, "tools": list(definitions)})


def encode_registration(payload: JsonPayload) -> WirePayload:
    """Return a payload of `registration_payload` in protocol buffers."""
    message = tools_pb2.RegisterToolsArguments()
    for tool in payload.members["tools"]:
        definition = message.tools.add(
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
    return WirePayload(REGISTER_TOOLS, message.SerializeToString())


def _read_registered_value(payload: Payload | None, location: str) -> Any:
    if isinstance(payload, WirePayload) and payload.type_url == REGISTER_TOOLS:
        try:
            message = tools_pb2.RegisterToolsArguments.FromString(payload.value)
        except DecodeError:
            raise _reject_tools(pointer(location, "value"), "This is no RegisterToolsArguments.") from None
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
                for tool in message.tools
            ]
        }
    return read_value(payload, location=location)


def _read_defined_tool(tool: Any, location: str) -> DefinedTool:
    if not isinstance(tool, Mapping):
        raise _reject_tools(location, "This must be an object.")
    name = _read_text(tool, "name", location)
    if not name:
        raise _reject_tools(pointer(location, "name"), "A tool has a name.")
    description = _read_text(tool, "description", location)
    whole = _read_schema(tool, location)
    parameters = [] if tool.get("parameters") is None else tool["parameters"]
    if not isinstance(parameters, list):
        raise _reject_tools(pointer(location, "parameters"), "This must be a list.")
    if whole is not None:
        if whole.get("type", "object") != "object":
            raise _reject_tools(
                pointer(location, "jsonSchema"), "The schema of arguments has the type object."
            )
        return DefinedTool(name, description, {"type": "object", **whole})
    notes: list[str] = []
    properties: dict[str, Any] = {}
    required: list[str] = []
    for index, parameter in enumerate(parameters):
        where = pointer(location, "parameters", index)
        if not isinstance(parameter, Mapping):
            raise _reject_tools(where, "This must be an object.")
        parameter_name = _read_text(parameter, "name", where)
        if not parameter_name or parameter_name in properties:
            raise _reject_tools(pointer(where, "name"), "A parameter has a name of its own.")
        properties[parameter_name] = _read_parameter_schema(parameter, where, notes)
        if parameter.get("required") is True:
            required.append(parameter_name)
    inputs: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    return DefinedTool(name, description, inputs | {"additionalProperties": False}, tuple(notes))


def _read_parameter_schema(parameter: Mapping[str, Any], location: str, notes: list[str]) -> dict[str, Any]:
    schema = _read_schema(parameter, location)
    if schema is None:
        kind = _read_text(parameter, "type", location).strip()
        known = _TYPES.get(kind.lower())
        if known is None and kind:
            notes.append(
                f"The type {kind[:40]!r} at {location} is not one of JSON Schema: any value is taken."
            )
        schema = {} if known is None else {"type": known}
    description = _read_text(parameter, "description", location)
    return {**schema, "description": description} if description else schema


def _read_schema(members: Mapping[str, Any], location: str) -> dict[str, Any] | None:
    """Return the member `json_schema`, JSON text or an object; None where it is empty."""
    name = "jsonSchema" if "jsonSchema" in members else "json_schema"
    value = members.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            raise _reject_tools(pointer(location, name), "This must be a JSON Schema as JSON text.") from None
    if not isinstance(value, dict):
        raise _reject_tools(pointer(location, name), "This must be a JSON Schema that is an object.")
    return value


def _read_text(members: Mapping[str, Any], name: str, location: str) -> str:
    value = members.get(name) or ""
    if not isinstance(value, str):
        raise _reject_tools(pointer(location, name), "This must be a text.")
    return value


def _is_enum_of_text(schema: Mapping[str, Any]) -> bool:
    values = schema.get("enum")
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _write_json(value: Mapping[str, Any]) -> str:
    return exact_json.dumps(value).decode()


def _reject_tools(location: str, detail: str) -> InvalidInput:
    return InvalidInput("The tools are not valid.", errors=[FieldError(location, detail)])
