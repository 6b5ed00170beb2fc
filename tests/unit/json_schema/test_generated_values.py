"""Values for mocks: valid for their schema, the same for a seed, bounded, and never a secret."""

from pathlib import Path

import jsonschema_rs
import orjson
import pytest

from app.json_schema.generated_values import stated_examples, value_of_schema

CONTRACT = orjson.loads(Path("openapi/gateway.json").read_bytes())
SCHEMAS = {
    "bounds": {"type": "integer", "minimum": 3, "exclusiveMaximum": 5},
    "step": {"type": "number", "multipleOf": 0.5, "minimum": 1, "maximum": 9},
    "negative": {"type": "integer", "maximum": -10},
    "text": {"type": "string", "minLength": 40, "maxLength": 42},
    "short": {"type": "string", "maxLength": 2},
    "enum": {"enum": ["a", 1, None]},
    "const": {"const": {"a": 1}},
    "unique": {"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True, "minItems": 3},
    "tuple": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}], "minItems": 2},
    "alternatives": {"oneOf": [{"type": "string", "format": "uuid"}, {"type": "object", "required": ["b"]}]},
    "combined": {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"b": {"type": "string", "format": "date"}}, "required": ["b"]},
        ]
    },
    "map": {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2},
    "recursive": {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "next": {"$ref": "#/$defs/node"},
                    "many": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                },
            }
        },
    },
    "required recursion": {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
                "required": ["next"],
            }
        },
    },
    "pattern": {"type": "string", "pattern": r"^(?:[A-Z]{2}\d{4}|x-[a-f0-9]{8})$"},
    "pattern of a class": {"type": "string", "pattern": r"^[^/\s]{3,5}\.(png|jpe?g)$"},
    "nullable": {"type": ["string", "null"], "format": "email"},
    "no keywords": {},
    "anything": {"type": "object", "properties": {"any": True, "none": {"not": {}}}},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_value_is_valid_and_the_same_for_a_seed(name):
    schema = SCHEMAS[name]
    validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    for seed in range(20):
        value = value_of_schema(schema, seed=seed)
        assert validator.is_valid(value), (seed, value)
        assert value_of_schema(schema, seed=seed) == value


@pytest.mark.parametrize(
    "text_format",
    ["date", "date-time", "time", "uuid", "email", "uri", "ipv4", "ipv6", "hostname", "duration"],
)
def test_formats_are_respected(text_format):
    validator = jsonschema_rs.Draft202012Validator({"format": text_format}, validate_formats=True)
    for seed in range(10):
        assert validator.is_valid(value_of_schema({"type": "string", "format": text_format}, seed=seed))


def test_schemas_of_a_whole_contract_get_valid_values():
    components = CONTRACT["components"]["schemas"]
    root = {"$defs": {name: _local(one) for name, one in components.items()}}
    failed = []
    for name in components:
        schema = {"$ref": f"#/$defs/{name}", **root}
        value = value_of_schema(schema, seed=1)
        if not jsonschema_rs.Draft202012Validator(schema).is_valid(value):
            failed.append(name)
    assert failed == []


def _local(node):
    if isinstance(node, dict):
        return {
            key: one.replace("#/components/schemas/", "#/$defs/") if key == "$ref" else _local(one)
            for key, one in node.items()
        }
    return [_local(one) for one in node] if isinstance(node, list) else node


def test_seeds_differ():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert len({value_of_schema(schema, seed=seed)["n"] for seed in range(50)}) > 10


def test_values_are_bounded():
    wide = {"type": "object", "properties": {f"p{n}": {"$ref": "#"} for n in range(30)}}
    assert len(orjson.dumps(value_of_schema(wide, seed=1))) < 300_000
    items = {"type": "array", "items": {"type": "string"}, "minItems": 1_000_000}
    assert len(value_of_schema(items, seed=1)) <= 100
    assert len(value_of_schema({"type": "string", "minLength": 10**9}, seed=1)) <= 10_000


def test_secrets_are_masked():
    schema = {
        "type": "object",
        "properties": {
            "access_token": {"type": "string", "examples": ["canary"]},
            "note": {"type": "string", "format": "password"},
            "pin": {"type": "string", "writeOnly": True},
        },
        "required": ["access_token", "note"],
    }
    assert value_of_schema(schema, seed=3) == {"access_token": "***", "note": "***"}


def test_stated_examples_that_are_valid_come_first():
    schema = {"type": "object", "required": ["a"], "examples": [{"b": 1}, {"a": 1}]}
    assert stated_examples(schema) == [{"a": 1}]
    assert stated_examples({**schema, "examples": [{"b": 1}]}) == [{"b": 1}]
    assert stated_examples({"type": "string", "example": "x"}) == ["x"]
    assert stated_examples({"type": "string"}) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 5, "maximum": 1},
        {"type": "string", "pattern": "("},
        {"$ref": "#/nowhere"},
        {"type": "array", "items": {"enum": [1]}, "uniqueItems": True, "minItems": 5},
        {"oneOf": []},
        {"required": "a", "properties": 1, "enum": 3, "type": 7},
        {"minLength": "a", "type": "string", "maxLength": -1},
        {"type": "array", "minItems": 3, "maxItems": 1},
        {"type": "number", "multipleOf": 0},
    ],
)
def test_impossible_schema_gets_some_value(schema):
    orjson.dumps(value_of_schema(schema, seed=1))
