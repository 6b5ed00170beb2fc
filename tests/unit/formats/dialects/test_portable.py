"""Schemas as all released clients of agents read them: without references, of one type each, and no narrower than the originals."""

import random
import re
from itertools import product

import jsonschema_rs
import orjson
import pytest

from app.core.exact_json import dumps
from app.formats.dialects.portable import MAX_BYTES, MAX_GROWTH, make_portable
from app.formats.dialects.portable_patterns import make_portable_pattern
from app.formats.dialects.sanitize import sanitize_inputs
from app.formats.json_schema.references import list_schemas
from app.formats.json_schema.validator import ArgumentValidator, is_usable_pattern
from app.toolsets.mcp_tool import shown_json, shown_schema
from tests.harness.cases import for_each
from tests.harness.schema_values import values_of
from tests.interop.agents.torture import DECIMAL
from tests.interop.agents.torture import SCHEMAS as TORTURE
from tests.unit.formats.dialects.schemas import SCHEMAS

ALL = {name: sanitize_inputs(schema).schema for name, schema in (SCHEMAS | TORTURE).items()}
VALUES = 30
ANYTHING = [
    {"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "object"}, {"items": {}, "type": "array"}, {"type": "null"},
]  # fmt: skip
NODE = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}
REPLY = {"type": "object", "properties": {"to": {"$ref": "#/$defs/Reply"}}}


def members(schema, *, is_typed=True):
    return make_portable(schema, is_typed=is_typed).schema["properties"]


def nested(levels, end):
    for _ in range(levels):
        end = {"type": "object", "properties": {"children": {"type": "array", "items": end}}}
    return end


@for_each(
    ("member", "expected"),
    [
        ({"$ref": "#/$defs/Text", "description": "Here."}, {"type": "string", "title": "T", "description": "Here."}),
        ({"$ref": "#/$defs/Text", "maxLength": 3}, {"type": "string", "maxLength": 3, "allOf": [{"type": "string", "title": "T"}]}),
        ({"$ref": "#text"}, {"type": "string", "title": "T"}),
        ({"$ref": "#/$defs/Node"}, nested(3, {})),
        ({"$ref": "#/$defs/Reply"}, {"type": "object", "properties": {"to": {"type": "object", "properties": {
            "to": {"type": "object", "properties": {"to": {"type": "object"}}}}}}}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": ["string", "null"], "maxLength": 3, "description": "d"},
         {"description": "d", "anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]}),
        ({"type": ["string", "null"], "anyOf": [{"minLength": 1}]},
         {"anyOf": [{"type": "string"}, {"type": "null"}], "allOf": [{"anyOf": [{"anyOf": [
             {"type": "string", "minLength": 1}, *ANYTHING[1:]]}]}]}),
        ({}, {"anyOf": ANYTHING}),
        ({"items": {"type": "string"}}, {"type": "array", "items": {"type": "string"}}),
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"enum": ["a", None]}, {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}),
        ({"const": 1}, {"type": "integer", "const": 1}),
        ({"type": ["string", "null"], "enum": ["a"]}, {"type": "string", "enum": ["a"]}),
        ({"anyOf": [{"type": ["string", "integer"]}, {"type": "null"}]},
         {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}),
        ({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
         {"type": "object", "oneOf": [{"type": "object", "required": ["a"]}, {"type": "object", "required": ["b"]}]}),
        ({"type": "string", "format": "uri-reference"}, {"type": "string", "description": "(format uri-reference)"}),
        ({"type": "string", "pattern": "^(?!x)y"}, {"type": "string"}),
        ({"type": "string", "pattern": DECIMAL}, {"type": "string", "pattern": r"^[+-]?(?:\d+\.?\d*|\.\d+)$"}),
        # What accepts more must not make what is around it accept less.
        ({"type": "string", "not": {"pattern": "^(?!x)y"}}, {"type": "string"}),
        ({"type": "string", "if": {"pattern": "^(?!x)y"}, "then": {"maxLength": 2}}, {"type": "string"}),
        ({"oneOf": [{"type": "string", "pattern": "^(?!x)y"}, {"type": "string", "maxLength": 1}]},
         {"anyOf": [{"type": "string"}, {"type": "string", "maxLength": 1}], "type": "string"}),
        ({"type": "object", "patternProperties": {"(?=x)y": {}}, "additionalProperties": False},
         {"type": "object", "patternProperties": {}}),
        ({"type": "array", "contains": {"pattern": "(?=x)y"}, "maxContains": 1}, {"type": "array", "contains": {}, "items": {}}),
        ({"type": "object", "unevaluatedProperties": False, "allOf": [{"patternProperties": {"(?=x)y": {}}}]},
         {"type": "object", "allOf": [{"patternProperties": {}}]}),
    ],
)  # fmt: skip
def test_a_property_is_written_for_all_clients(member, expected):
    text = {"type": "string", "title": "T", "$anchor": "text"}
    schema = {
        "type": "object",
        "properties": {"a": member},
        "$defs": {"Text": text, "Node": NODE, "Reply": REPLY},
    }
    assert members(schema) == {"a": expected}


def test_what_is_portable_stays_as_it_is():
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-b": 1}}, "required": ["a"]}
    found = make_portable(schema)
    assert (found.schema, found.losses) == (schema, ())


def test_outputs_keep_their_types():
    schema = {"type": "object", "properties": {"a": {"type": ["string", "null"], "format": "odd"}, "b": {}, "c": {"$ref": "#/$defs/C"}},
              "$defs": {"C": {"type": "array"}}}  # fmt: skip
    assert members(schema, is_typed=False) == {
        "a": {"type": ["string", "null"], "format": "odd"}, "b": {}, "c": {"type": "array", "items": {}},
    }  # fmt: skip


@for_each("name", ALL)
def test_no_reference_look_around_or_bare_list_is_left(name):
    schema = make_portable(ALL[name]).schema
    jsonschema_rs.Draft202012Validator(schema)
    for node in list_schemas(schema):
        assert not {"$ref", "$defs", "$anchor"} & node.keys()
        assert is_usable_pattern(node.get("pattern", ""))
        assert not isinstance(node.get("type"), list)
        assert node.get("type") != "array" or "items" in node
        for member in node.get("properties", {}).values():
            assert member.keys() & {"type", "anyOf", "oneOf", "allOf"}, member


@for_each("is_typed", [True, False], ids=["inputs", "outputs"])
@for_each("name", ALL)
def test_valid_values_stay_valid_and_others_are_refused_unless_a_loss_says_so(name, is_typed):
    made = make_portable(ALL[name], is_typed=is_typed)
    effects = {loss.effect for loss in made.losses}
    whole, shown = ArgumentValidator(ALL[name]), jsonschema_rs.Draft202012Validator(made.schema)
    for value in values_of(ALL[name], name, VALUES):
        assert shown.is_valid(value) or "narrower" in effects, value
    if "looser" not in effects:
        for value in values_of(made.schema, f"{name} as it is shown", VALUES):
            whole.check(value)


@for_each("name", ["doubling", "recursive_union", "wide"])
def test_a_schema_grows_to_four_times_its_size_and_64_kb_at_most(name):
    wide = {"type": "object", "properties": {f"p{n}": {"$ref": "#/$defs/Big"} for n in range(30)},
            "$defs": {"Big": {"type": "object", "properties": {f"q{n}": {"type": "string", "description": "d" * 90} for n in range(200)}}}}  # fmt: skip
    schema = {**ALL, "wide": wide}[name]
    made = make_portable(schema)
    assert len(dumps(made.schema)) <= min(MAX_GROWTH * len(dumps(schema)), MAX_BYTES)
    assert any(loss.action == "cut" for loss in made.losses)
    # Its outline is there, for the model to try.
    assert {"type": "object"} in list_schemas(made.schema)
    assert made.schema["properties"].keys() == schema["properties"].keys()


def test_a_schema_that_is_larger_already_only_loses_its_definitions():
    big = {
        "type": "object",
        "properties": {f"q{n}": {"type": "string", "description": "d" * 90} for n in range(900)},
    }
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/Big"}}, "$defs": {"Big": big}}
    assert len(dumps(schema)) > MAX_BYTES
    assert make_portable(schema).schema == {"type": "object", "properties": {"a": big}}


def test_a_chain_of_references_is_written_out_within_the_depth_of_schemas():
    names = {
        f"A{n}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/A{n + 1}"}}} for n in range(200)
    }
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A0"}},
        "$defs": names | {"A200": {"$ref": "#/$defs/A200"}},
    }
    made = make_portable(schema)
    assert orjson.loads(dumps(made.schema)) == made.schema
    assert any(loss.action == "cut" for loss in made.losses)


TEXTS = ["".join(text) for size in range(5) for text in product("+.1x \n", repeat=size)]


@for_each(
    ("pattern", "expected"),
    [
        (r"^[a-z]+$", r"^[a-z]+$"),
        (DECIMAL, r"^[+-]?(?:\d+\.?\d*|\.\d+)$"),
        (r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d{0,2}0*$", r"^[+-]?(?:\d+\.?\d{0,2}0*|\.(?:\d{1,2}0*|0+))$"),
        (r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d{0,0}0*$", r"^[+-]?(?:\d+\.?0*|\.0+)$"),
        (r"^(?!^[-+.]*$)[+-]?0*(?:\d{0,3}|(?=[\d.]{1,6}0*$)\d{0,3}\.\d{0,2}0*$)", "[^-+.]"),
        (r"^(?!\s*$)", r"\S"),
        (r"^(?!$)", r"[\s\S]"),
        (r"1(?=x)", r"1(?:x)"),
        (r"^1(?=.*x$)", r"^1(?:.*x$)"),
        (r"1(?!x)", r"1(?:[^x]|$)"),
        (r"1(?![x.])", r"1(?:[^x.]|$)"),
        (r"1(?!\.)", r"1(?:[^\.]|$)"),
        (r"1(?!\d)", r"1(?:\D|$)"),
        (r"(?<=x)1", r"(?:x)1"),
        (r"(?<!x)1", r"(?:^|[^x])1"),
        (r"(?<=x)1(?=\.)", r"(?:x)1(?:\.)"),
        (r"^(?=.*x)(?=.*1).+$", None),
        (r"1(?!xx)", None),
        (r"1|x(?!1)", None),
        (r"^\p{L}+$", None),
        (r"(a)\1", None),
        ("(", None),
    ],
)  # fmt: skip
def test_look_around_is_rewritten_where_the_same_texts_match(pattern, expected):
    found = make_portable_pattern(pattern)
    assert found == expected
    if found is not None:
        # `$` is the end of the text, which Python writes as `\Z`.
        original, rewritten = (re.compile(one.replace("$", r"\Z")) for one in (pattern, found))
        assert [text for text in TEXTS if original.search(text)] == [
            text for text in TEXTS if rewritten.search(text)
        ]


@pytest.mark.parametrize("reference", ["#/$defs/missing", "#missing"])
def test_a_reference_to_nothing_accepts_anything(reference):
    assert members({"type": "object", "properties": {"a": {"$ref": reference}}}) == {"a": {"anyOf": ANYTHING}}


KEYWORDS = (
    "type", "enum", "const", "properties", "patternProperties", "items", "prefixItems", "additionalProperties", "allOf", "anyOf",
    "oneOf", "not", "if", "then", "contains", "maxContains", "dependentSchemas", "unevaluatedItems", "required", "pattern", "format",
    "description", "$ref", "$defs", "definitions", "$anchor", "default",
)  # fmt: skip
LEAVES = (
    None,
    True,
    False,
    0,
    -1.5,
    "",
    "string",
    "#",
    "#/$defs/a",
    "(?!",
    [],
    {},
    [[]],
    ["string", 1, "null"],
)


def any_json(chooser, levels):
    kind = chooser.random()
    if levels == 0 or kind < 0.3:
        return chooser.choice(LEAVES)
    if kind < 0.5:
        return [any_json(chooser, levels - 1) for _ in range(chooser.randrange(3))]
    names = chooser.choices((*KEYWORDS, "a"), k=chooser.randrange(5))
    return {name: any_json(chooser, levels - 1) for name in names}


def test_malformed_schemas_are_written_too():
    failures = []
    for seed in range(3_000):
        schema = any_json(random.Random(seed), 5)
        for is_typed in (True, False):
            try:
                dumps(make_portable(schema, is_typed=is_typed).schema)
            except Exception as error:  # noqa: BLE001 - each failure is listed.
                failures.append((seed, is_typed, repr(error)))
    assert failures == []
    given = {"a": True, "b": False, "c": {"type": []}, "d": {"allOf": {}, "type": "string"}}
    assert members({"type": "object", "properties": given}) == {
        "a": {"anyOf": ANYTHING}, "b": {"anyOf": ANYTHING, "not": {}}, "c": {"anyOf": ANYTHING}, "d": {"type": "string"},
    }  # fmt: skip


@for_each("name", ALL)
def test_clients_get_what_is_portable(name):
    portable = make_portable(ALL[name])
    assert shown_schema(ALL[name], "portable") == portable
    text, losses = shown_json(orjson.dumps(ALL[name]), "portable")
    assert (orjson.loads(text), losses) == (portable.schema, portable.losses)
