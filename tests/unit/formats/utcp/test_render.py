"""The manuals that this gateway serves: the very JSON, and that nothing in a tool can spoil it."""

import jsonschema_rs
import orjson
import pytest

from app.formats.utcp.render import ManualToolEntry, render_manual, render_tool_v0, render_tool_v1
from app.protocols.manuals import read_manual

ENTRY = ManualToolEntry(
    name="weather_get",
    description="Weather of a city",
    inputs={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    outputs={"type": "object"},
    tags=("weather",),
    call_url="https://gw.example/tools/weather_get/call",
    provider="weather",
)
NASTY = {
    "type": ["object", "null"],
    "title": None,
    "properties": {
        "t": True,
        "f": False,
        "e": {"type": ["string", "null"], "enum": ["a", None]},
        "old": {"type": "file", "required": True},
        "m": {"minLength": 1.5, "examples": {"one": "x", "two": None}},
        "n": {"$ref": "#/$defs/Node"},
        "self": {"$ref": "#"},
        "p": {"$ref": "#/properties/t"},
        "big": {"type": ["string", "integer"], "maximum": 10**30, "minimum": float("nan")},
        "properties": {"$ref": "#/$defs/enum"},
    },
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/Node"}},
            "additionalProperties": False,
        },
        "enum": {"type": ["string", "null"], "pattern": "$x"},
    },
}


def entry(**changes):
    return ManualToolEntry(**{name: getattr(ENTRY, name) for name in ENTRY.__slots__} | changes)


TEMPLATE = {
    "name": "weather",
    "http_method": "POST",
    "url": "https://gw.example/tools/weather_get/call",
    "content_type": "application/json",
    "headers": {"Accept": "application/json", "X-Call-Interface": "utcp"},
    "body_field": "body",
    "auth": {
        "auth_type": "api_key",
        "api_key": "Bearer ${GATEWAY_TOKEN}",
        "var_name": "Authorization",
        "location": "header",
    },
}
COMMON = {
    "name": "weather_get",
    "description": "Weather of a city",
    "inputs": {"type": "object", "properties": {"body": ENTRY.inputs}, "required": ["body"]},
    "tags": ["weather"],
}


def test_a_manual_of_version_1():
    assert orjson.loads(render_manual(1, [render_tool_v1(ENTRY)])) == {
        "utcp_version": "1.0.1",
        "manual_version": "1.0.0",
        "tools": [
            {
                **COMMON,
                "outputs": {"type": "object"},
                "tool_call_template": {**TEMPLATE, "call_template_type": "http"},
            }
        ],
    }


def test_a_manual_of_version_0():
    assert orjson.loads(render_manual(0, [render_tool_v0(ENTRY)])) == {
        "version": "0.2.3",
        "tools": [
            {
                **COMMON,
                "outputs": {"type": "object", "properties": {}},
                "tool_provider": {**TEMPLATE, "provider_type": "http"},
            }
        ],
    }


@pytest.mark.parametrize(
    ("render", "key", "kind"),
    [
        (render_tool_v1, "tool_call_template", ("call_template_type", "streamable_http")),
        (render_tool_v0, "tool_provider", ("provider_type", "http_stream")),
    ],
)
def test_a_tool_that_streams_has_the_chunk_size_of_its_upstream(render, key, kind):
    template = orjson.loads(render(entry(as_stream=True, chunk_size=6)))[key]
    accept = "application/x-ndjson;form=values, application/octet-stream"
    assert template == {
        **TEMPLATE, kind[0]: kind[1], "headers": {"Accept": accept, "X-Call-Interface": "utcp"}, "timeout": 86_400_000, "chunk_size": 6,
    }  # fmt: skip
    assert "chunk_size" not in orjson.loads(render(entry(as_stream=True)))[key]


def test_empty_manuals():
    assert orjson.loads(render_manual(1, [])) == {
        "utcp_version": "1.0.1",
        "manual_version": "1.0.0",
        "tools": [],
    }
    assert orjson.loads(render_manual(0, [])) == {"version": "0.2.3", "tools": []}


def test_tools_keep_their_order():
    tools = [render_tool_v1(entry(name=name)) for name in "cab"]
    assert [tool["name"] for tool in orjson.loads(render_manual(1, tools))["tools"]] == ["c", "a", "b"]


def values(node):
    yield node
    for member in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from values(member)


@pytest.mark.parametrize("render", [render_tool_v0, render_tool_v1])
def test_there_is_no_null_and_no_boolean_subschema_whatever_the_tool(render):
    tool = orjson.loads(render(entry(inputs=NASTY, outputs=NASTY)))
    assert None not in list(values(tool))
    body = tool["inputs"]["properties"]["body"]
    assert body["properties"]["t"] == {}
    assert body["properties"]["f"] == {"not": {}}
    assert body["required"] == ["old"]
    assert body["properties"]["m"] == {"examples": ["x"]}
    for node in values(tool["inputs"]):
        if isinstance(node, dict) and isinstance(node.get("type"), str):
            assert node["type"] in {"null", "boolean", "object", "array", "number", "string", "integer"}


def test_references_of_version_1_still_resolve_under_body():
    inputs = orjson.loads(render_tool_v1(entry(inputs=NASTY)))["inputs"]
    validator = jsonschema_rs.validator_for(inputs)
    assert validator.is_valid(
        {"body": {"old": "x", "n": {"next": {"next": {}}}, "self": {"old": "y"}, "p": 1}}
    )
    assert not validator.is_valid({"body": {"old": "x", "n": {"next": {"other": 1}}}})
    assert not validator.is_valid({"body": {"old": "x", "self": {}}})
    assert validator.is_valid({"body": {"old": "x", "e": None}})
    assert not validator.is_valid({"body": {"old": "x", "e": "b"}})
    assert not validator.is_valid({})


def test_version_0_has_neither_references_nor_lists_of_types():
    text = render_tool_v0(
        entry(inputs=NASTY, outputs={**NASTY, "additionalProperties": False, "oneOf": [{}]})
    )
    assert b"$ref" not in text
    assert b"$defs" not in text
    tool = orjson.loads(text)
    assert not any(isinstance(node, dict) and isinstance(node.get("type"), list) for node in values(tool))
    assert tool["inputs"]["properties"]["body"]["type"] == "object"
    assert set(tool["outputs"]) == {"type", "properties", "required"}


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ({}, {"type": "object", "properties": {}}),
        (
            {"type": ["array", "null"], "items": {"type": "string"}},
            {"type": "array", "items": {"type": "string"}},
        ),
        ({"type": ["string", "integer"]}, {"type": "object", "properties": {}}),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}}}, {"type": "string"}),
    ],
)
def test_outputs_of_version_0_have_one_root_type(outputs, expected):
    assert orjson.loads(render_tool_v0(entry(outputs=outputs)))["outputs"] == expected


@pytest.mark.parametrize("render", [render_tool_v0, render_tool_v1])
def test_the_only_variable_is_the_token(render):
    tool = orjson.loads(
        render(
            entry(
                call_url="https://gw.example/$count/{x}/${KEY}", provider="my$gw{x}", description="costs $5"
            )
        )
    )
    template = tool.get("tool_provider") or tool["tool_call_template"]
    assert template["url"] == "https://gw.example/%24count/%7Bx%7D/%24%7BKEY%7D"
    assert orjson.dumps(template).count(b"$") == 1
    assert tool["description"] == "costs $5"


def test_what_a_person_cannot_see_is_not_published():
    assert orjson.loads(render_tool_v1(entry(description="a\x00b\u202e\u200bc")))["description"] == "abc"


@pytest.mark.parametrize(("version", "render"), [(0, render_tool_v0), (1, render_tool_v1)])
def test_we_can_read_what_we_write(version, render):
    manual = read_manual(orjson.loads(render_manual(version, [render(entry(inputs=NASTY))])))
    assert manual.rejected_tools == ()
    assert [tool.notes for tool in manual.tools] == [()]
