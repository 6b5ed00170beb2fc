"""Inputs that clients of MCP repeat in a header."""

import copy

from app.formats.dialects.header_inputs import (
    explain_header_input,
    find_invalid_header_inputs,
    with_header_inputs,
)
from tests.harness.cases import for_each

SCHEMA = {
    "type": "object",
    "properties": {
        "tenant": {"type": "string", "description": "Whose."},
        "page": {"type": "object", "properties": {"n": {"type": "integer"}, "a/b": {"type": "boolean"}}},
        "number": {"type": "number"},
        "nullable": {"type": ["string", "null"]},
        "reference": {"$ref": "#/$defs/tenant"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}},
        "/slash": {"type": "string"},
        "any": True,
    },
    "anyOf": [{"properties": {"inner": {"type": "string"}}}],
    "$defs": {"tenant": {"type": "string"}},
}


@for_each("name", ["tenant", "/tenant", "/page/n", "/page/a~1b", "/~1slash"])
def test_properties_of_a_single_type_can_be_repeated(name):
    assert explain_header_input(SCHEMA, name) is None


@for_each(
    ("name", "reason"),
    [
        ("missing", "no input of this name"),
        ("page/n", "no input of this name"),
        ("inner", "no input of this name"),
        ("/list/items/x", "no input of this name"),
        ("/page/n/deeper", "no input of this name"),
        ("/slash", "no input of this name"),
        ("/", "no input of this name"),
        ("page", "not of a single type"),
        ("number", "not of a single type"),
        ("nullable", "not of a single type"),
        ("reference", "not of a single type"),
        ("any", "not of a single type"),
    ],
)
def test_other_inputs_cannot(name, reason):
    assert reason in explain_header_input(SCHEMA, name)
    assert set(find_invalid_header_inputs(SCHEMA, {name: "A", "tenant": "B"})) == {name}
    assert with_header_inputs(SCHEMA, {name: "A"}) == SCHEMA


def test_marks_are_written_into_a_copy():
    before = copy.deepcopy(SCHEMA)
    marked = with_header_inputs(SCHEMA, {"tenant": "Tenant", "/page/n": "Page", "missing": "Missing"})
    assert before == SCHEMA
    assert marked["properties"]["tenant"] == {
        "type": "string",
        "description": "Whose.",
        "x-mcp-header": "Tenant",
    }
    assert marked["properties"]["page"]["properties"]["n"] == {"type": "integer", "x-mcp-header": "Page"}
    assert str(marked).count("x-mcp-header") == 2
