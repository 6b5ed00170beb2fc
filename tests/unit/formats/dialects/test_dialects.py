"""Schemas in the dialects of models: within the rules of the dialect, with all losses reported, and undone exactly."""

import os
from pathlib import Path

import jsonschema_rs
import orjson
import pytest

from app.core.errors import InvalidArguments
from app.core.exact_json import dumps
from app.formats.dialects.aliases import AliasRecord, undo
from app.formats.dialects.convert import convert_inputs
from app.formats.dialects.dialects import FORMATS, load_dialect
from app.formats.dialects.sanitize import UnusableSchema, sanitize_inputs
from app.formats.json_schema.validator import ArgumentValidator
from tests.harness.cases import for_each
from tests.harness.dialect_rules import broken_rules
from tests.harness.exported_calls import as_exported
from tests.harness.json_form import json_schema_of
from tests.harness.schema_values import values_of
from tests.unit.formats.dialects.schemas import SCHEMAS

GOLDEN = Path(__file__).parent / "golden"
TARGETS = tuple(name for name in FORMATS if name != "utcp")
STRICT = ("auto", "true", "false")
VALUES = 30


def converted(name, target, strict="auto"):
    return convert_inputs(SCHEMAS[name], load_dialect(target), strict)


def validator_of(schema, target):
    """Return a validator of an exported schema."""
    return jsonschema_rs.Draft202012Validator(
        json_schema_of(schema) if target == "gemini-openapi" else schema
    )


@for_each("target", TARGETS)
def test_exports_are_those_of_the_golden_file(target):
    """UPDATE_GOLDEN=1 writes the files anew; their difference is to be read before it is committed."""
    found = {}
    for name in SCHEMAS:
        for strict in ("auto", "true"):
            made = converted(name, target, strict)
            found[f"{name}, strict={strict}"] = {
                "strict": made.is_strict,
                "strict_reason": made.strict_reason,
                "schema": made.schema,
                "alias": made.record.to_json(),
                "losses": [loss.to_json() for loss in made.losses],
            }
    # A line for each case.
    text = b"{\n" + b",\n".join(orjson.dumps({key: found[key]})[1:-1] for key in found) + b"\n}\n"
    path = GOLDEN / f"{target}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_bytes(text)
    assert orjson.loads(path.read_bytes()) == orjson.loads(text)
    # The order of the keys is that of the source: prompt caches depend on it.
    assert path.read_bytes() == text


@for_each("strict", STRICT)
@for_each("target", TARGETS)
def test_exports_are_within_the_rules_of_the_dialect(target, strict):
    rules = load_dialect(target)
    for name in SCHEMAS:
        made = converted(name, target, strict)
        assert broken_rules(rules, "tool", made.schema, strict=made.is_strict) == [], name


@for_each("strict", STRICT)
@for_each("target", TARGETS)
def test_calls_of_the_export_are_valid_after_undo_or_a_loss_says_why(target, strict):
    accepted = 0
    for name, schema in SCHEMAS.items():
        made = converted(name, target, strict)
        exported = json_schema_of(made.schema) if target == "gemini-openapi" else made.schema
        # Arguments are always an object: a tool takes another value by its property `body`.
        original = ArgumentValidator(sanitize_inputs(schema).schema)
        for value in values_of(exported, name, VALUES):
            arguments = undo(value, made.record)
            arguments = {"body": arguments} if made.record.body else arguments
            try:
                original.check(arguments)
                accepted += 1
            except InvalidArguments:
                assert any(loss.effect != "none" for loss in made.losses), (name, value, arguments)
    assert accepted > len(SCHEMAS) * VALUES // 2


@for_each("strict", STRICT)
@for_each("target", TARGETS)
def test_valid_calls_can_be_written_for_the_export_or_a_loss_says_why(target, strict):
    written = 0
    for name, schema in SCHEMAS.items():
        made = converted(name, target, strict)
        original = sanitize_inputs(schema).schema
        validator = validator_of(made.schema, target)
        for value in values_of(original, f"{name} of the original", VALUES):
            call = as_exported(value, made.record)
            # The undone call may only differ where the export is narrower.
            undone = undo(call, made.record)
            again = {"body": undone} if made.record.body else undone
            if validator.is_valid(call) and again == value:
                written += 1
            else:
                assert any(loss.effect == "narrower" for loss in made.losses), (name, value, call, again)
    assert written > len(SCHEMAS) * VALUES * 0.8


@for_each("target", TARGETS)
def test_auto_is_strict_only_where_nothing_but_text_is_lost(target):
    strict = [name for name in SCHEMAS if converted(name, target).is_strict]
    for name in strict:
        assert {loss.effect for loss in converted(name, target).losses} <= {"none", "hint"}
    if target in ("openai-chat", "anthropic"):
        assert {"plain", "bounds", "tagged", "reference", "depth-10"} <= set(strict)
        assert not {"free-form", "map", "open", "conditional", "contradiction"} & set(strict)
    assert all(converted(name, target, "false").is_strict is False for name in SCHEMAS)


@for_each(
    ("name", "target", "strict", "reason"),
    [
        ("map", "openai-chat", "auto", "a map at /properties/labels"),
        ("free-form", "openai-chat", "auto", "a free-form value at /properties/any"),
        ("depth-11", "openai-chat", "true", "it has 11 levels, and at most 10 are accepted"),
        ("optional-25", "anthropic", "true", "it has 25 optional properties, and at most 24 are accepted"),
        ("recursive", "anthropic", "true", "a recursive schema at /$defs/tree/properties/kids/items"),
        ("nullable", "openai-chat", "auto", "required at /properties/s/required cannot be expressed"),
        ("plain", "ollama", "true", "the format has no strict mode"),
        ("plain", "openai-chat", "true", None),
    ],
)
def test_what_is_not_strict_says_why(name, target, strict, reason):
    assert converted(name, target, strict).strict_reason == reason


@pytest.mark.parametrize(("number", "is_strict"), [(250, True), (251, False)])
def test_the_characters_of_an_enum_with_more_than_250_strings_are_limited(number, is_strict):
    values = [f"{value:064}" for value in range(number)]
    schema = {"type": "object", "properties": {"v": {"type": "string", "enum": values}}, "required": ["v"]}
    made = convert_inputs(schema, load_dialect("openai-chat"), "true")
    assert made.is_strict is is_strict
    if not is_strict:
        assert made.strict_reason == (
            "it has 16064 characters in an enum of more than 250 strings, and at most 15000 are accepted"
        )


# What the helpers of the SDKs do to foreign schemas: raise, or lose the constraint without a word.
@for_each(
    ("target", "name", "expected"),
    [
        ("anthropic", "lengths", {"s": {"type": "string", "description": "(minimum length 2; maximum length 5; pattern ^[a-z]+$)"}}),
        ("anthropic", "types", {"v": {"type": ["string", "integer"]}, "w": {"anyOf": [
            {"type": "string"}, {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}]}}),
        ("anthropic", "map", {"labels": {"type": "array", "items": {"type": "object", "properties": {
            "key": {"type": "string"}, "value": {"type": "integer"}}, "required": ["key", "value"],
            "additionalProperties": False}, "description": "(a list of key and value pairs)"}}),
        ("openai-chat", "one-of", {"v": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}}),
        ("openai-chat", "default", {"lang": {"type": ["string", "null"], "description": '(default "en"; examples ["de"])'}}),
        ("gemini", "one-of", {"v": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}),
        ("gemini", "map", {"labels": {"type": "object", "additionalProperties": {"type": "integer"}}}),
        ("gemini-openapi", "enum", {"e": {"type": "STRING", "enum": ["a", "b"]}, "n": {"type": "STRING", "enum": ["1", "2"]},
                                    "m": {"type": "STRING", "nullable": True, "enum": ["a"]}}),
    ],
    ids=["anthropic-lengths", "anthropic-types", "anthropic-map", "openai-one-of", "openai-default",
         "gemini-one-of", "gemini-map", "gemini-enum"],
)  # fmt: skip
def test_what_the_helpers_of_the_sdks_lose_is_exported(target, name, expected):
    assert converted(name, target, "true").schema["properties"] == expected


def test_undo_leaves_a_call_of_a_less_strict_export_as_it_is():
    record = converted("map", "openai-chat", "true").record
    assert undo({"labels": {"a": 1}}, record) == {"labels": {"a": 1}}
    assert undo({"labels": [{"key": "a", "value": 1}]}, record) == {"labels": {"a": 1}}
    assert undo({"labels": "no map"}, record) == {"labels": "no map"}
    assert undo([1], AliasRecord()) == [1]


def test_undo_of_each_rule():
    free = converted("free-form", "gemini-openapi").record
    assert undo({"any": '{"a":[1]}', "object": "{}", "list": ['"x"', "not JSON"]}, free) == {
        "any": {"a": [1]}, "object": {}, "list": ["x", "not JSON"],
    }  # fmt: skip
    names = converted("names", "gemini-openapi")
    aliases = list(names.schema["properties"])
    assert aliases[0] == "first_name"
    assert names.schema["required"] == ["first_name"]
    assert undo(dict.fromkeys(aliases, 1), names.record) == dict.fromkeys(SCHEMAS["names"]["properties"], 1)
    assert undo({"n": "2", "e": "a"}, converted("enum", "gemini-openapi").record) == {"n": 2, "e": "a"}
    assert undo({"body": ["a"]}, converted("not-an-object", "openai-chat").record) == ["a"]
    tree = converted("recursive", "openai-chat", "true").record
    assert undo({"tree": {"kids": [{"kids": None}]}}, tree) == {"tree": {"kids": [{}]}}


NULLABLE = {
    "type-list": {"type": ["string", "null"]},
    "default": {"type": ["string", "null"], "default": None},
    "any-of": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    "one-of": {"oneOf": [{"type": "string"}, {"type": "null"}]},
    "enum": {"enum": ["a", None]},
    "const": {"const": None},
    "reference": {"$ref": "#/$defs/text"},
    "all-of": {"allOf": [{"$ref": "#/$defs/text"}]},
    "object": {"type": ["object", "null"], "properties": {"a": {"type": "string"}}},
    "list": {"type": ["array", "null"], "items": {"type": "string"}},
    "map": {"type": ["object", "null"], "additionalProperties": {"type": "string"}},
    "several-types": {"type": ["string", "integer", "null"]},
    "free-form": {},
}
"""Schemas of properties that accept null."""


@for_each("is_nested", [False, True], ids=["top", "nested"])
@for_each("strict", ["auto", "false"])
@for_each("target", TARGETS)
def test_null_is_sent_where_the_original_accepts_it(target, strict, is_nested):
    for name, member in NULLABLE.items():
        schema = {"type": "object", "properties": {"n": member, "s": {"type": "string"}}}
        call = {"n": None, "s": "a"}
        if is_nested:
            schema = {"type": "object", "properties": {"list": {"type": "array", "items": schema}}}
            call = {"list": [call]}
        schema["$defs"] = {"text": {"type": ["string", "null"]}}
        assert undo(call, convert_inputs(schema, load_dialect(target), strict).record) == call, name


@for_each("target", TARGETS)
def test_null_is_absence_where_the_export_made_a_property_nullable(target):
    schema = {"type": "object", "properties": {"n": {"type": ["string", "null"]}, "s": {"type": "string"}}}
    made = convert_inputs({**schema, "required": ["n"]}, load_dialect(target), "auto")
    nullable = made.is_strict and load_dialect(target).strict.all_required
    assert undo({"n": None, "s": None}, made.record) == ({"n": None} if nullable else {"n": None, "s": None})
    # With `strict=true` it is absence of a nullable property, too, which the report says.
    forced = convert_inputs(schema, load_dialect(target), "true")
    if forced.is_strict and load_dialect(target).strict.all_required:
        assert undo({"n": None, "s": "a"}, forced.record) == {"s": "a"}
        assert [loss.pointer for loss in forced.losses if loss.effect == "narrower"] == [
            "/properties/n/required"
        ]


def test_tables_name_their_version_and_date():
    for target in TARGETS:
        assert load_dialect(target).version >= 1
        assert load_dialect(target).checked_on.year >= 2026
    with pytest.raises(KeyError):
        load_dialect("utcp")
    assert load_dialect("gemini").export_name("1st") == "_1st"
    assert load_dialect("gemini").list_original_names("_1st") == ("_1st", "1st")
    assert load_dialect("gemini").list_original_names("first") == ("first",)


def test_undoing_loses_no_digit() -> None:
    text = AliasRecord(rule={"properties": {"any": {"json_text": True}}})
    exact = undo({"any": '{"n": 123456789012345678901234567890, "d": 0.1000000000000000055}'}, text)
    assert dumps(exact) == b'{"any":{"n":123456789012345678901234567890,"d":0.1000000000000000055}}'


@for_each("target", TARGETS)
def test_references_that_double_at_each_step_are_merged_within_bounds(target):
    steps = {
        f"{side}{number}": {
            "allOf": [{"$ref": f"#/$defs/A{number + 1}"}, {"$ref": f"#/$defs/B{number + 1}"}],
            "description": f"{side}{number} {'x' * 1_000}",
        }
        for number in range(20)
        for side in "AB"
    }
    leaf = {"type": "object", "properties": {"x": {"type": "string"}}}
    schema = {
        "type": "object",
        "properties": {"body": {"$ref": "#/$defs/A0"}, "limit": {"type": "integer"}},
        "$defs": steps | {"A20": leaf, "B20": leaf},
    }
    found = convert_inputs(schema, load_dialect(target))
    assert found.schema["properties"]["limit"]
    assert len(dumps(found.schema)) < 20 * len(dumps(schema))


@for_each("target", TARGETS)
def test_a_schema_that_merges_itself_is_converted_or_unusable(target):
    merged = {"allOf": [{"$ref": "#tree"}, {"$ref": "#tree"}]}
    schema = {"type": "object", "$anchor": "tree", "properties": {"child": merged}}
    if target == "gemini-openapi":
        with pytest.raises(UnusableSchema, match="includes itself"):
            convert_inputs(schema, load_dialect(target))
    else:
        assert "child" in convert_inputs(schema, load_dialect(target)).schema["properties"]
