"""Values for mocks: valid for their schema, the same for a seed, bounded, and never a secret."""

from pathlib import Path

import jsonschema_rs
import orjson
import pytest

from app.core import exact_json
from app.formats.json_schema.budget import Budget, BudgetExceeded
from app.formats.json_schema.generated_values import generate_value, list_stated_examples
from tests.harness.cases import for_each

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


@for_each("name", SCHEMAS)
def test_value_is_valid_and_the_same_for_a_seed(name):
    schema = SCHEMAS[name]
    validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    for seed in range(20):
        value = generate_value(schema, seed=seed)
        assert validator.is_valid(value), (seed, value)
        assert generate_value(schema, seed=seed) == value


@for_each(
    "text_format",
    ["date", "date-time", "time", "uuid", "email", "uri", "ipv4", "ipv6", "hostname", "duration"],
)
def test_formats_are_respected(text_format):
    validator = jsonschema_rs.Draft202012Validator({"format": text_format}, validate_formats=True)
    for seed in range(10):
        assert validator.is_valid(generate_value({"type": "string", "format": text_format}, seed=seed))


def test_schemas_of_a_whole_contract_get_valid_values():
    components = orjson.loads(Path("openapi/gateway.json").read_bytes())["components"]["schemas"]
    root = {"$defs": {name: _local(one) for name, one in components.items()}}
    failed = []
    for name in components:
        schema = {"$ref": f"#/$defs/{name}", **root}
        value = generate_value(schema, seed=1)
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
    assert len({generate_value(schema, seed=seed)["n"] for seed in range(50)}) > 10


def test_what_is_optional_is_bounded():
    wide = {"type": "object", "properties": {f"p{n}": {"$ref": "#"} for n in range(30)}}
    assert len(orjson.dumps(generate_value(wide, seed=1))) < 300_000


def _levels(number, members):
    """Return a schema of levels that require so many members each, which refer to the next level."""
    level = {
        f"a{n}": {
            "type": "object",
            "properties": {name: {"$ref": f"#/$defs/a{n + 1}"} for name in members},
            "required": members,
        }
        for n in range(number)
    }
    return {"$defs": {**level, f"a{number}": {"type": "integer"}}, "$ref": "#/$defs/a0"}


_MANY = {"type": "array", "minItems": 100}
EXCESSIVE = {
    "required members": _levels(30, ["left", "right"]),
    "required recursion": {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]},
    "alternatives that all recurse": {
        "oneOf": [{"type": "array", "minItems": 2, "items": {"$ref": "#"}}] * 2
    },
    "minItems": {"type": "array", "items": {"type": "string"}, "minItems": 10**9},
    "nested minItems": {**_MANY, "items": {**_MANY, "items": {**_MANY, "items": {}}}},
    "minProperties": {"type": "object", "minProperties": 10**12},
    "minLength": {"type": "string", "minLength": 10**15},
    "many long texts": {"type": "array", "minItems": 5_000, "items": {"type": "string", "minLength": 9_000}},
    "many large constants": {"type": "array", "minItems": 9_000, "items": {"const": "x" * 1_000}},
    "many large examples": {"type": "array", "minItems": 9_000, "items": {"examples": ["x" * 1_000]}},
    "long names": {"type": "object", "required": [f"{'x' * 1_000}{n}" for n in range(3_000)]},
    "repetitions in a pattern": {"type": "string", "pattern": "^((a{1000}){1000}){1000}$"},
}


@for_each("name", EXCESSIVE)
def test_what_requires_more_than_the_budget_is_an_error_and_no_part_of_a_value(name):
    with pytest.raises(BudgetExceeded):
        generate_value(EXCESSIVE[name], seed=1)


def test_what_is_required_within_the_budget_is_made_in_full():
    for schema in (
        {"type": "array", "items": {"type": "integer"}, "minItems": 5_000},
        {"type": "string", "minLength": 200_000},
        {"type": "object", "minProperties": 1_000},
        {"type": "string", "pattern": "^a{20000}$"},
        _levels(10, ["left", "right"]),
    ):
        assert jsonschema_rs.Draft202012Validator(schema).is_valid(generate_value(schema, seed=1))


def test_time_that_is_over_is_an_error():
    budget = Budget(values=1, characters=1, levels=1, seconds=-1)
    with pytest.raises(BudgetExceeded, match="seconds"):
        budget.check_time()


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
    assert generate_value(schema, seed=3) == {"access_token": "***", "note": "***"}


def test_stated_examples_that_are_valid_come_first():
    schema = {"type": "object", "required": ["a"], "examples": [{"b": 1}, {"a": 1}]}
    assert list_stated_examples(schema) == [{"a": 1}]
    assert list_stated_examples({**schema, "examples": [{"b": 1}]}) == [{"b": 1}]
    assert list_stated_examples({"type": "string", "example": "x"}) == ["x"]
    assert list_stated_examples({"type": "string"}) == []


@for_each(
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
        {"type": "number", "minimum": 1e300, "multipleOf": 1e-300},
        {"type": "integer", "minimum": 1e25},
        {"type": "integer", "minimum": 2**63, "multipleOf": 2**63},
        {"type": "string", "pattern": "(" * 5_000 + ")" * 5_000},
        {"required": 5},
    ],
)
def test_impossible_schema_gets_some_value(schema):
    exact_json.dumps(generate_value(schema, seed=1))
