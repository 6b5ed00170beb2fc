"""Schemas of any dialect become valid JSON Schema 2020-12, and then what strict clients take."""

from typing import ClassVar

import jsonschema_rs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import InvalidDocument
from app.formats.json_schema.normalize import make_publishable, normalize_inputs, normalize_schema
from app.formats.json_schema.references import drop_dangling, inline_references, rebase, resolve
from tests.harness.cases import for_each
from tests.harness.examples import examples


def normal(raw):
    return normalize_schema(raw)[0]


@for_each(
    ("raw", "expected"),
    [
        (None, {}),
        (True, {}),
        (False, {"not": {}}),
        ({"properties": {"a": True, "b": False, "c": None}},
         {"properties": {"a": {}, "b": {"not": {}}, "c": {}}}),
        ({"type": "string", "title": None, "$schema": "x", "$id": "y", "x-a": 1}, {"type": "string"}),
        ({"type": ["string", "null", "string"]}, {"type": ["string", "null"]}),
        ({"type": ["string"]}, {"type": "string"}),
        ({"type": "file"}, {"type": "string"}),
        ({"type": "Int"}, {"type": "integer"}),
        ({"type": "any"}, {}),
        ({"type": ["any", "object"]}, {"type": "object"}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"required": ["a", 1, "a", None]}, {"required": ["a"]}),
        ({"required": True}, {}),
        (
            {"properties": {"a": {"type": "null", "required": True}, "b": {"required": 0}}, "required": []},
            {"properties": {"a": {"type": "null"}, "b": {}}, "required": ["a"]},
        ),
        ({"minLength": 1.5, "maxLength": 3.0, "minItems": -1, "maxItems": True}, {"maxLength": 3}),
        ({"minimum": 5, "exclusiveMinimum": True}, {"exclusiveMinimum": 5}),
        ({"maximum": 5, "exclusiveMaximum": False}, {"maximum": 5}),
        ({"minimum": float("nan"), "maximum": 10**30, "multipleOf": 0}, {"maximum": 1e30}),
        ({"examples": {"one": "x", "two": None}}, {"examples": ["x", None]}),
        ({"enum": ["a", "a", 1, 1.0, True]}, {"enum": ["a", 1, True]}),
        ({"items": {"enum": [{"a": 1}, {"a": 1.0}], "examples": [1, 1]}},
         {"items": {"enum": [{"a": 1}], "examples": [1, 1]}}),
        ({"dependentRequired": {"a": ["b", "b", 1], "c": 1}}, {"dependentRequired": {"a": ["b"]}}),
        ({"dependentRequired": ["a"]}, {}),
        ({"enum": [], "anyOf": [], "examples": []}, {}),
        ({"enum": ["a", None], "default": None, "const": None},
         {"enum": ["a", None], "default": None, "const": None}),
        ({"items": [{"type": "file"}, True], "additionalItems": False},
         {"prefixItems": [{"type": "string"}, {}], "items": {"not": {}}}),
        ({"items": False, "additionalProperties": False},
         {"items": {"not": {}}, "additionalProperties": False}),
        ({"description": 5, "pattern": 5, "uniqueItems": "yes"}, {"description": "5"}),
        ({"description": "a\u202eb"}, {"description": "ab"}),
        ({"pattern": "\u202e", "enum": ["\u200b"]}, {"pattern": "\u202e", "enum": ["\u200b"]}),
        ({"properties": {"default": {"type": "file"}, "enum": True}},
         {"properties": {"default": {"type": "string"}, "enum": {}}}),
    ],
)  # fmt: skip
def test_dialects_become_2020_12(raw, expected):
    assert normal(raw) == expected
    jsonschema_rs.validator_for(normal(raw))


def test_references_that_resolve_stay_and_others_go_with_a_note():
    raw = {
        "$id": "https://x.example/s.json",
        "properties": {
            "a": {"$ref": "#/$defs/A"},
            "b": {"$ref": "https://x.example/s.json#/$defs/A"},
            "c": {"$ref": "https://evil.example/schema", "type": "string"},
            "d": {"$ref": "#/$defs/Nothing"},
            "e": {"$ref": "#"},
            "f": {"$ref": "#/$defs/a~1b%20c"},
            "$ref": {"type": "string"},
        },
        "default": {"$ref": "kept"},
        "$defs": {"A": {"type": "integer"}, "a/b c": True},
    }
    schema, notes = normalize_schema(raw)
    assert schema["properties"] == {
        "a": {"$ref": "#/$defs/A"},
        "b": {"$ref": "#/$defs/A"},
        "c": {"type": "string"},
        "d": {},
        "e": {"$ref": "#"},
        "f": {"$ref": "#/$defs/a~1b%20c"},
        "$ref": {"type": "string"},
    }
    assert schema["default"] == {"$ref": "kept"}
    assert len(notes) == 2
    assert jsonschema_rs.validator_for(schema).is_valid({"a": 1, "e": {"b": 2}})
    assert not jsonschema_rs.validator_for(schema).is_valid({"e": {"b": "x"}})


def test_inputs_are_objects():
    assert normalize_inputs(None)[0] == {"type": "object"}
    assert normalize_inputs({"type": ["object", "null"]})[0] == {"type": "object"}
    assert normalize_inputs({"type": "array", "properties": {}})[0]["type"] == "object"
    for bad in ({"type": "array"}, [], "object"):
        with pytest.raises(InvalidDocument) as caught:
            normalize_inputs(bad, location="/tools/0/inputs")
        assert caught.value.errors[0].pointer == "/tools/0/inputs"


def test_nesting_has_a_limit():
    schema: object = {}
    for _ in range(400):
        schema = {"items": schema}
    with pytest.raises(InvalidDocument):
        normalize_schema(schema)
    assert orjson.dumps(make_publishable(schema)).count(b"items") < 120


@for_each(
    ("schema", "expected"),
    [
        ({"enum": ["a", None]}, {"anyOf": [{"enum": ["a"]}, {"type": "null"}]}),
        ({"enum": [None]}, {"type": "null"}),
        (
            {"items": {"enum": [None, "a", None, "a"]}},
            {"items": {"anyOf": [{"enum": ["a"]}, {"type": "null"}]}},
        ),
        (
            {"enum": ["a", None], "anyOf": [{"minLength": 1}]},
            {"anyOf": [{"minLength": 1}], "allOf": [{"anyOf": [{"enum": ["a"]}, {"type": "null"}]}]},
        ),
        ({"const": None}, {"type": "null"}),
        ({"default": None, "examples": [None, 1]}, {"examples": [1]}),
        ({"default": {"a": [None]}, "examples": [None], "example": 1}, {}),
        ({"custom": {"a": None}, "other": 1}, {"other": 1}),
    ],
)
def test_published_schemas_hold_no_null(schema, expected):
    assert make_publishable(schema) == expected


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
keywords = st.sampled_from(
    ["type", "properties", "items", "required", "enum", "const", "default", "examples",
     "additionalProperties",
     "anyOf", "allOf", "not", "$defs", "$ref", "minLength", "maximum", "minimum", "exclusiveMinimum", "title",
     "description", "format", "uniqueItems", "nullable", "x-y", "custom"]
)  # fmt: skip
names = st.sampled_from(
    ["string", "null", "file", "object", "#/$defs/a", "#", "a", "array", ["string", "null"]]
)
schemas = st.recursive(
    json | names,
    lambda inner: st.dictionaries(keywords | st.just("a"), inner | names, max_size=5),
    max_leaves=25,
)


def holds_null(value):
    if isinstance(value, dict):
        return any(map(holds_null, value.values()))
    return any(map(holds_null, value)) if isinstance(value, list) else value is None


@examples(60)
@given(raw=st.dictionaries(keywords, schemas, max_size=6))
def test_whatever_comes_in_the_result_is_a_valid_schema(raw):
    schema = normal(raw)
    jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    assert normal(schema) == schema
    published = make_publishable(schema)
    assert not holds_null(published)
    jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **published})
    assert orjson.loads(orjson.dumps(published)) == published


class TestReferences:
    SCHEMA: ClassVar = {
        "properties": {"a": {"$ref": "#/$defs/N"}, "b": {"$ref": "#/properties/a"}, "c": {"$ref": "#"}},
        "$defs": {
            "N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}, "v": {"type": "integer"}}}
        },
    }

    def test_a_schema_moves_with_its_references(self):
        moved = rebase(self.SCHEMA, "/properties/body")
        assert moved["properties"] == {
            "a": {"$ref": "#/$defs/N"},
            "b": {"$ref": "#/properties/body/properties/a"},
            "c": {"$ref": "#/properties/body"},
        }

    def test_inlining_ends_where_a_reference_leads_back(self):
        found = inline_references(self.SCHEMA)
        assert "$ref" not in orjson.dumps(found).decode()
        assert (
            found["properties"]["b"]
            == found["properties"]["a"]
            == {
                "type": "object",
                "properties": {"next": {"description": "Recursive: N."}, "v": {"type": "integer"}},
            }
        )

    def test_siblings_of_a_reference_win(self):
        schema = {
            "properties": {"a": {"$ref": "#/$defs/A", "description": "mine"}},
            "$defs": {"A": {"description": "its"}},
        }
        assert inline_references(schema)["properties"]["a"] == {"description": "mine"}

    def test_the_same_reference_twice_is_no_recursion(self):
        schema = {"properties": {k: {"$ref": "#/$defs/A"} for k in "ab"}, "$defs": {"A": {"type": "integer"}}}
        assert inline_references(schema)["properties"] == {"a": {"type": "integer"}, "b": {"type": "integer"}}

    def test_a_fan_out_is_capped(self):
        defs = {
            f"L{i}": {"properties": {k: {"$ref": f"#/$defs/L{i + 1}"} for k in "abcd"}} for i in range(20)
        }
        assert (
            len(orjson.dumps(inline_references({"$ref": "#/$defs/L0", "$defs": {**defs, "L20": {}}})))
            < 200_000
        )

    def test_a_reference_to_itself(self):
        assert inline_references({"$ref": "#"}) == {"description": "Recursive: #."}

    @for_each("reference", ["", "x", "#x", "#/a/9", "#/a/x", "#/a/0/b", "#/a/99999999999999999999"])
    def test_what_is_not_there(self, reference):
        with pytest.raises(LookupError):
            resolve({"a": [1]}, reference)


@pytest.mark.parametrize("nothing", [None, 5, "x", [None]])
def test_what_should_hold_schemas_and_does_not_harms_nothing(nothing):
    schema = {"properties": nothing, "$defs": nothing, "items": nothing, "not": {"$ref": "#/$defs/lost"}}
    assert drop_dangling(schema) == ["#/$defs/lost"]


def test_the_dialect_at_the_root_and_anchors_stay_and_utcp_manuals_have_neither() -> None:
    raw = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"a": {"$anchor": "here", "type": "string"}, "b": {"$anchor": "not an anchor"}},
        "properties": {"x": {"$ref": "#/$defs/a"}, "y": {"$ref": "#here"}, "z": {"$schema": "inner"}},
    }
    schema, notes = normalize_schema(raw)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$defs"] == {"a": {"$anchor": "here", "type": "string"}, "b": {}}
    assert schema["properties"] == {"x": {"$ref": "#/$defs/a"}, "y": {}, "z": {}}
    assert notes == ("The reference #here cannot be resolved and was dropped.",)
    published = make_publishable(schema)
    assert "$schema" not in published
    assert published["$defs"] == {"a": {"type": "string"}, "b": {}}
