"""Definitions of tools in UBP and their JSON Schemas, in both directions."""

import pytest

from app.core.errors import InvalidInput
from app.formats.ubp.definitions import (
    build_flat_definition,
    build_registration_payload,
    encode_registration,
    read_defined_tools,
)
from app.formats.ubp.model import REGISTER_TOOLS, JsonPayload, WirePayload
from app.formats.ubp.v1 import tools_pb2
from tests.harness.cases import for_each

ORDER = {
    "name": "get_order_status",
    "description": "Return the status of an order.",
    "parameters": [{"name": "order_id", "type": "integer", "description": "Its number.", "required": True}],
}
ORDER_INPUTS = {
    "type": "object",
    "properties": {"order_id": {"type": "integer", "description": "Its number."}},
    "required": ["order_id"],
    "additionalProperties": False,
}


def registered(*tools):
    return JsonPayload({"@type": REGISTER_TOOLS, "tools": list(tools)})


def test_a_flat_definition_becomes_a_json_schema():
    [tool] = read_defined_tools(registered(ORDER))
    assert (tool.name, tool.description, tool.inputs) == (
        "get_order_status",
        "Return the status of an order.",
        ORDER_INPUTS,
    )


def test_the_seeds_own_messages_are_read():
    arguments = tools_pb2.RegisterToolsArguments(
        tools=[
            tools_pb2.ToolDefinition(
                name=ORDER["name"],
                description=ORDER["description"],
                parameters=[tools_pb2.ToolParameter(**one) for one in ORDER["parameters"]],
            )
        ]
    )
    [tool] = read_defined_tools(WirePayload(REGISTER_TOOLS, arguments.SerializeToString()))
    assert tool.inputs == ORDER_INPUTS


def test_a_struct_with_the_same_members_is_read():
    assert read_defined_tools(JsonPayload({"tools": [ORDER]})) == read_defined_tools(registered(ORDER))


@for_each(
    ("kind", "expected"),
    [
        ("int", "integer"),
        ("Boolean", "boolean"),
        ("float", "number"),
        ("list", "array"),
        ("object", "object"),
    ],
)
def test_common_names_of_types_are_understood(kind, expected):
    [tool] = read_defined_tools(registered({"name": "t", "parameters": [{"name": "p", "type": kind}]}))
    assert tool.inputs["properties"]["p"] == {"type": expected}
    assert not tool.notes


def test_an_unknown_type_takes_any_value_and_is_noted():
    [tool] = read_defined_tools(registered({"name": "t", "parameters": [{"name": "p", "type": "Money"}]}))
    assert tool.inputs["properties"]["p"] == {}
    assert tool.notes == (
        "The type 'Money' at /tools/0/parameters/0 is not one of JSON Schema: any value is taken.",
    )


def test_whole_schemas_take_precedence():
    nested = '{"type":"array","items":{"type":"string"}}'
    [tool] = read_defined_tools(
        registered({"name": "t", "parameters": [{"name": "p", "type": "array", "jsonSchema": nested}]})
    )
    assert tool.inputs["properties"]["p"] == {"type": "array", "items": {"type": "string"}}
    [tool] = read_defined_tools(registered({"name": "t", "json_schema": '{"properties":{"a":{"const":1}}}'}))
    assert tool.inputs == {"type": "object", "properties": {"a": {"const": 1}}}


def test_a_definition_goes_out_flat_and_comes_back_whole():
    inputs = {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "minimum": 1},
            "kind": {"enum": ["a", "b"]},
            "where": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
        "required": ["id"],
        "minProperties": 1,
    }
    flat = build_flat_definition("t", "Does it.", inputs)
    assert [(loss.pointer, loss.detail) for loss in flat.losses] == [
        ("/properties/id", "Without the field json_schema these are lost: minimum."),
        ("/properties/kind", "Its values are not of one type; it is sent as string."),
        ("/properties/kind", "Without the field json_schema these are lost: enum."),
        ("/properties/where", "Without the field json_schema these are lost: properties."),
        ("", "Without the field json_schema these are lost: minProperties."),
    ]
    payload = build_registration_payload([flat.definition])
    for form in (payload, encode_registration(payload)):
        [tool] = read_defined_tools(form)
        assert (tool.name, tool.description, tool.inputs) == ("t", "Does it.", inputs)
    parameters = (
        tools_pb2.RegisterToolsArguments.FromString(encode_registration(payload).value).tools[0].parameters
    )
    assert [(one.name, one.type, one.required) for one in parameters] == [
        ("id", "integer", True),
        ("kind", "string", False),
        ("where", "object", False),
    ]


@for_each(
    ("tools", "at"),
    [
        ([{}], "/tools/0/name"),
        ([{"name": 1}], "/tools/0/name"),
        ([ORDER, ORDER], "/tools/1/name"),
        ([{"name": "t", "parameters": {}}], "/tools/0/parameters"),
        ([{"name": "t", "parameters": [{"type": "string"}]}], "/tools/0/parameters/0/name"),
        ([{"name": "t", "jsonSchema": "{"}], "/tools/0/jsonSchema"),
        ([{"name": "t", "jsonSchema": "[]"}], "/tools/0/jsonSchema"),
        ([{"name": "t", "jsonSchema": '{"type":"string"}'}], "/tools/0/jsonSchema"),
        ([1], "/tools/0"),
        ([{"name": "t"}] * 1001, "/tools"),
    ],
)
def test_what_is_wrong_is_named(tools, at):
    with pytest.raises(InvalidInput) as caught:
        read_defined_tools(registered(*tools))
    assert [error.pointer for error in caught.value.errors] == [at]
