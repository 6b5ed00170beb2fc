"""Schemas are repaired for the clients of MCP: one odd tool costs most of them the whole list."""

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.formats.dialects.sanitize import (
    UnusableSchema,
    choose_description,
    is_portable_pattern,
    sanitize_inputs,
    sanitize_outputs,
)
from tests.harness.cases import for_each
from tests.harness.examples import examples

CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}
A = {"type": "object", "properties": {"a": {"type": "string"}}}


@for_each(
    ("raw", "expected"),
    [
        ({}, {"type": "object"}),
        (True, {"type": "object"}),
        ({"type": "object", "properties": {}}, CLOSED),
        (CLOSED, CLOSED),
        ({"type": ["object", "null"], "properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": "array", "items": {"type": "integer"}},
         {"type": "object", "properties": {"body": {"type": "array", "items": {"type": "integer"}}},
          "required": ["body"]}),
        ({"anyOf": [A, {"type": "object"}]}, {"type": "object", "anyOf": [A, {"type": "object"}]}),
        ({"$ref": "#/$defs/A", "$defs": {"A": A}}, {**A, "$defs": {"A": A}}),
        ({"$ref": "#/definitions/A", "definitions": {"A": A}}, {**A, "$defs": {"A": A}}),
        ({"type": "object", "properties": {"a": True, "b": False}},
         {"type": "object", "properties": {"a": {}, "b": {"not": {}}}}),
        ({"type": "object", "required": True, "properties": {"a": {"required": True}}},
         {"type": "object", "properties": {"a": {}}, "required": ["a"]}),
        ({"type": "object", "required": None, "properties": {"a": {"minimum": 1, "exclusiveMinimum": True}}},
         {"type": "object", "properties": {"a": {"exclusiveMinimum": 1}}}),
        ({"type": "object", "properties": {"a": {"type": "string", "nullable": True, "discriminator": {}}}},
         {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}),
        ({"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "Host", "x-b": 1}}},
         {"type": "object", "properties": {"a": {"type": "string", "x-b": 1}}}),
        ({"type": "object", "properties": {"a": {"$ref": "https://x.example/s.json", "type": "string"}}},
         {"type": "object", "properties": {"a": {"type": "string"}}}),
        ({"$schema": "http://json-schema.org/draft-04/schema#", **A, "dependencies": {"a": ["b"], "b": A}},
         {**A, "dependentRequired": {"a": ["b"]}, "dependentSchemas": {"b": A}}),
        ({"type": "object", "properties": {"a": {"items": {"enum": [1, 1.0, "b", "b"]}}}},
         {"type": "object", "properties": {"a": {"items": {"enum": [1, "b"]}}}}),
    ],
    ids=["empty", "true", "no-properties", "closed", "nullable-root", "array", "root-any-of", "root-ref",
         "definitions", "boolean-subschemas", "required-flags", "draft-4-bounds", "openapi-keywords",
         "extensions", "remote-reference", "older-keywords", "repeated-values"],
)  # fmt: skip
def test_inputs_are_repaired(raw, expected):
    assert sanitize_inputs(raw).schema == expected


def test_what_is_valid_stays_verbatim():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "where", "type": "object", "properties": {"street": {"type": "string"}}}},
        "properties": {
            "to": {"$ref": "#where"},
            "by": {"type": "string", "format": "unheard-of", "x-y": [None], "default": None},
            "$ref": {"enum": [1, None]},
        },
        "allOf": [{"anyOf": [{"required": ["to"]}, {"required": ["by"]}]}],
        "if": {"required": ["to"]},
        "then": {"required": ["by"]},
        "else": {"not": {"required": ["by"]}},
        "additionalProperties": False,
    }  # fmt: skip
    found = sanitize_inputs(schema)
    assert found.schema == schema
    assert list(found.schema) == list(schema)
    assert found.changes == ()


def test_arguments_of_a_wrapped_schema_are_unwrapped_again():
    found = sanitize_inputs(
        {"type": "array", "items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "string"}}}
    )
    assert found.is_wrapped
    assert found.schema["$defs"] == {"A": {"type": "string"}}
    assert found.unwrap({"body": ["x"]}) == ["x"]
    assert sanitize_inputs(A).unwrap({"a": "x"}) == {"a": "x"}
    tree = sanitize_outputs({"type": "array", "items": {"$ref": "#"}})
    assert tree.schema["properties"]["result"]["items"] == {"$ref": "#/properties/result"}
    assert tree.wrap([[]]) == {"result": [[]]}


@for_each(
    ("raw", "reason"),
    [
        (None, "A schema must be an object."),
        (5, "A schema must be an object."),
        ([], "A schema must be an object."),
        (False, "The schema accepts no value."),
        ({"not": {}}, "The schema accepts no value."),
        ({"type": "object", "properties": {"a": {"$dynamicAnchor": "a", "$anchor": "1 2"}}},
         "The schema is not valid JSON Schema."),
    ],
    ids=["null", "number", "list", "false", "nothing", "invalid-anchor"],
)  # fmt: skip
def test_what_cannot_be_repaired_is_told(raw, reason):
    with pytest.raises(UnusableSchema) as error:
        sanitize_inputs(raw)
    assert error.value.reason == reason


def test_changes_name_their_places():
    changes = sanitize_inputs({"properties": {"a/b": {"type": "string", "nullable": True}}}).changes
    assert [(change.pointer, change.detail) for change in changes] == [
        ("/properties/a~1b/type", "The value was replaced by a valid one."),
        ("/properties/a~1b/nullable", "nullable was removed or renamed."),
        ("", "type was added."),
    ]


@for_each(
    ("pattern", "portable"),
    [
        ("^[a-z]{1,3}$", True), (r"\d+(?:\.\d+)?", True), (r"[\w\-]+", True), (r"a\-b", False),
        ("(?i)a", False), ("(?P<n>a)", False), (r"\Aa\Z", False), ("a{,3}", False), ("a}", False),
        ("[a", False), ("a++", False), ("(?=a)b", False), (r"\p{L}", True), ("", True),
    ],
)  # fmt: skip
def test_patterns_of_outputs_are_those_of_ecmascript(pattern, portable):
    assert is_portable_pattern(pattern) is portable
    schema = sanitize_outputs({"type": "object", "properties": {"a": {"pattern": pattern}}}).schema
    assert ("pattern" in schema["properties"]["a"]) is portable


@for_each(
    ("arguments", "expected"),
    [
        ({"description": "  Finds. "}, "Finds."),
        ({"description": "", "title": "Find"}, "Find"),
        ({"description": " ", "fallback": "GET /books"}, "GET /books"),
        ({"description": ""}, "A tool."),
        ({"description": "One. Two is long, too.", "limit": 20}, "One. Two is [cut]"),
        ({"description": "One sentence. Two.", "limit": 20}, "One sentence. Two."),
        ({"description": "Sentence one. And two.", "limit": 20}, "Sentence one. [cut]"),
        ({"description": "x" * 30, "limit": 20}, "x" * 14 + " [cut]"),
    ],
    ids=["stripped", "title", "fallback", "nothing", "word", "fits", "sentence", "one-word"],
)
def test_descriptions_are_cut_at_a_sentence(arguments, expected):
    found = choose_description(arguments.pop("description"), **arguments)
    assert found == expected
    assert len(found) <= arguments.get("limit", 1024)


NAMES = st.sampled_from(
    ["type", "properties", "required", "items", "anyOf", "allOf", "oneOf", "not", "$ref", "$defs", "definitions",
     "enum", "const", "nullable", "minimum", "exclusiveMinimum", "pattern", "additionalProperties", "if", "$id",
     "id", "$schema", "dependencies", "dependentRequired", "format", "x-mcp-header", "default", "$anchor", "a"]
)  # fmt: skip
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(allow_nan=False), st.text(max_size=3),
    st.sampled_from(["object", "array", "string", "#", "#/$defs/a", "#/definitions/a", "#a", "https://x.example/", "(a"]),
)  # fmt: skip
ODD = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)


def schemas(node):
    """Return all schemas of known keywords in a schema: each must be an object."""
    assert isinstance(node, dict)
    found = [node]
    for key, value in node.items():
        if key in ("properties", "$defs", "definitions", "dependentSchemas"):
            found += [one for member in value.values() for one in schemas(member)]
        elif key in ("anyOf", "allOf", "oneOf"):
            found += [one for member in value for one in schemas(member)]
        elif key in ("items", "not", "if") or (key == "additionalProperties" and not isinstance(value, bool)):
            found += schemas(value)
    return found


@pytest.mark.parametrize("sanitize", [sanitize_inputs, sanitize_outputs])
@given(raw=st.dictionaries(NAMES, ODD, max_size=5))
@examples(400)
def test_whatever_comes_is_repaired_or_rejected(sanitize, raw):
    try:
        found = sanitize(raw).schema
    except UnusableSchema:
        return
    assert found["type"] == "object"
    jsonschema_rs.Draft202012Validator(found)

    for node in schemas(found):
        assert isinstance(node.get("required", []), list)
        assert node.get("$ref", "#").startswith("#")
        assert not node.keys() & {"nullable", "x-mcp-header", "dependencies", "id", "$id"}
        assert all(value is not None for key, value in node.items() if key not in ("default", "const"))
    again = sanitize(found)
    assert again.schema == found
    assert again.changes == ()
