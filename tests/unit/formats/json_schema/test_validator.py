"""Arguments against a schema: all faults at once, each with pointer and expectation, none with a value."""

import time

import orjson
import pytest

from app.core.errors import InvalidArguments, InvalidInput
from app.formats.json_schema.validator import ArgumentValidator
from tests.harness.cases import for_each
from tests.harness.scaling import assert_linear

CANARY = "sk-canary-5f2a"


def faults(schema, arguments, **options):
    with pytest.raises(InvalidArguments) as caught:
        ArgumentValidator(schema, **options).check(arguments)
    assert CANARY not in caught.value.detail
    assert all(CANARY not in orjson.dumps(fault.as_json()).decode() for fault in caught.value.errors)
    return {fault.pointer: fault for fault in caught.value.errors}


def test_every_fault_is_named_with_its_pointer():
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "pet": {"type": "object", "properties": {"a/b": {"maxLength": 2}}, "required": ["name"]},
        },
        "required": ["id", "owner"],
        "additionalProperties": False,
    }
    found = faults(schema, {"id": CANARY, "pet": {"a/b": CANARY}, "extra": CANARY})
    assert set(found) == {"/id", "/pet/name", "/pet/a~1b", "/owner", "/extra"}
    assert found["/id"].expected == "integer"
    assert found["/pet/a~1b"].expected == 2


@pytest.mark.parametrize("arguments", [None, [], "text", 5, True])
def test_arguments_must_be_an_object(arguments):
    assert faults({"type": "object"}, arguments)[""].expected == "object"


def test_a_misspelt_argument_gets_a_hint():
    schema = {"properties": {"petId": {}}, "additionalProperties": False}
    assert "Did you mean `petId`?" in faults(schema, {"pet_id": 1})["/pet_id"].detail


def test_unknown_arguments_of_a_tool_without_inputs_are_named():
    assert set(faults({"type": "object", "additionalProperties": False}, {"x": 1, "y": 2})) == {"/x", "/y"}


def test_a_misspelt_choice_gets_a_hint_and_the_choices():
    fault = faults({"properties": {"s": {"enum": ["available", "sold"]}}}, {"s": "availble"})["/s"]
    assert "available" in fault.detail
    assert fault.expected == ["available", "sold"]


def test_a_number_in_quotes_gets_a_hint():
    assert "quotes" in faults({"properties": {"n": {"type": "integer"}}}, {"n": "5"})["/n"].detail


def test_the_nearest_alternative_is_explained():
    cat = {"type": "object", "required": ["claws"], "properties": {"claws": {"type": "integer"}}}
    dog = {"type": "object", "required": ["bark", "tail", "nose"]}
    found = faults({"properties": {"pet": {"oneOf": [dog, cat]}}}, {"pet": {"claws": CANARY}})
    assert set(found) == {"/pet", "/pet/claws"}


def test_alternatives_that_differ_in_type_are_one_fault():
    schema = {"properties": {"v": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}
    assert faults(schema, {"v": 5})["/v"].expected == ["null", "string"]


def test_no_more_faults_than_can_be_read():
    schema = {"properties": {"list": {"items": {"type": "integer"}}}}
    assert len(faults(schema, {"list": [CANARY] * 10_000})) == 50


@pytest.mark.parametrize("pattern", [r"^(a+)+$", r"^(a|aa)*b$", r"(x+x+)+y"])
def test_search_for_a_hostile_pattern_is_linear(pattern):
    validator = ArgumentValidator({"properties": {"v": {"pattern": pattern}}})

    def check(number):
        for text in ("a" * number + "!", "x" * number):
            with pytest.raises(InvalidArguments):
                validator.check({"v": text})

    # What backtracks would not end at all.
    assert_linear(check, 6_000)


def test_a_pattern_without_linear_form_is_not_enforced_and_the_rest_is():
    validator = ArgumentValidator({"properties": {"v": {"pattern": "^(?=a)", "maxLength": 3}}})
    validator.check({"v": "zzz"})
    with pytest.raises(InvalidArguments):
        validator.check({"v": "zzzz"})


@pytest.mark.parametrize(
    "reference", ["http://127.0.0.1:9/schema.json", "file:///etc/passwd", "#/$defs/missing", "other.json"]
)
def test_a_reference_to_elsewhere_is_rejected_and_never_fetched(reference):
    with pytest.raises(InvalidInput) as caught:
        ArgumentValidator({"properties": {"v": {"$ref": reference}}})
    assert caught.value.errors[0].pointer == "/inputs"


def test_a_schema_that_contains_itself_is_fine():
    tree = {"type": "object", "properties": {"child": {"$ref": "#/$defs/tree"}}, "required": ["id"]}
    schema = {"$ref": "#/$defs/tree", "$defs": {"tree": tree}}
    found = faults(schema, {"id": 1, "child": {"child": {"id": 1}}})
    assert set(found) == {"/child/id"}


def test_a_pointer_can_name_any_key():
    assert set(faults({"properties": {"a~b": {"type": "string"}}}, {"a~b": 1})) == {"/a~0b"}


def nested(depth, leaf):
    for _ in range(depth):
        leaf = {"n": leaf}
    return leaf


_BELOW = {"properties": {"n": {"$ref": "#/$defs/T"}}}
_ITEM = {"type": "object", "properties": {"id": {"type": "integer"}, "kind": {"type": "string"}}}
_ITEMS = {"properties": {"list": {"type": "array", "items": _ITEM}}}
_ANIMALS = {
    "properties": {
        "list": {"items": {"oneOf": [_ITEM | {"required": ["id", "claws"]}, {"type": "string"}]}},
    }
}


def recursive(schema):
    return {"type": "object", "$ref": "#/$defs/T", "$defs": {"T": schema}}


_HOSTILE = {
    "anyOf": (
        recursive({"anyOf": [_BELOW | {"required": ["x"]}, _BELOW | {"required": ["y"]}]}),
        [nested(depth, {}) for depth in (14, 18, 60, 300, 900)],
    ),
    "oneOf": (
        recursive({"oneOf": [_BELOW | {"required": ["x"]}, _BELOW | {"maxProperties": 0}]}),
        [nested(depth, 5) for depth in (15, 19, 61)],
    ),
    "allOf": (
        recursive({"type": "object", "allOf": [_BELOW, _BELOW | {"minProperties": 0}]}),
        [nested(depth, 5) for depth in (18, 60)],
    ),
    "if": (
        recursive({"if": _BELOW, "then": _BELOW | {"required": ["x"]}, "else": _BELOW | {"required": ["y"]}}),
        [nested(depth, {}) for depth in (18, 60)],
    ),
    "not": (recursive({"not": {"not": {"anyOf": [_BELOW, {"required": ["x"]}]}, "type": "object"}}), [{}]),
    "many items": (_ITEMS, [{"list": [{"id": "x", "kind": 5}] * 50_000}]),
    "one item of many": (_ANIMALS, [{"list": [{"id": 1, "claws": 2}] * 9_000 + [{"id": "x"}]}]),
    "much is missing": (
        {"required": [f"r{n}" for n in range(100)], "properties": {"list": {}}},
        [{"list": [{"id": n} for n in range(20_000)]}],
    ),
    "names": (
        {"properties": {f"{'property' * 10}{n}": {} for n in range(500)}, "additionalProperties": False},
        [{f"{'propetry' * 10}{n}": n for n in range(50)}],
    ),
    "long choices": (
        {"additionalProperties": {"enum": [f"{'choice' * 100}{n}" for n in range(500)]}},
        [{str(n): "chioce" * 100 for n in range(50)}],
    ),
}


@for_each("name", _HOSTILE)
def test_no_arguments_hold_the_loop(name):
    schema, given = _HOSTILE[name]
    for arguments in given:
        validator = ArgumentValidator(schema)
        if validator._validator.is_valid(arguments):
            continue
        started = time.thread_time()
        with pytest.raises(InvalidArguments) as caught:
            validator.check(arguments)
        # 30 ms of search, and what was begun within them.
        assert time.thread_time() - started < 0.5
        assert 1 <= len(caught.value.errors) <= 50


def test_one_wrong_item_of_very_many_is_still_named():
    schema, [arguments] = _HOSTILE["one item of many"]
    found = faults(schema, arguments, seconds=10)
    assert set(found) == {"/list/9000", "/list/9000/claws", "/list/9000/id"}


def test_the_missing_are_named_however_large_the_rest_is():
    schema, [arguments] = _HOSTILE["much is missing"]
    assert faults(schema, arguments, seconds=10)["/r3"].detail == "This is required."


def test_a_deep_fault_in_alternatives_is_found_along_the_nearest():
    schema, [arguments, *_] = _HOSTILE["anyOf"]
    assert faults(schema, arguments)["/x"].detail == "This is required."


@for_each(
    ("schema", "given", "members"),
    [
        pytest.param({"type": "integer"}, "x", {"received": "string", "example": 1}, id="type"),
        pytest.param({"type": "integer", "minimum": 5}, 1, {"received": "integer", "example": 5}, id="minimum"),
        pytest.param(
            {"enum": ["red", "green"]}, "gren", {"received": "string", "nearest": "green", "example": "red"}, id="enum"
        ),
        pytest.param({"type": "string", "format": "date"}, 1.5, {"received": "number", "example": "2026-01-31"}, id="date"),
        pytest.param({"$ref": "#/$defs/n"}, None, {"received": "null", "example": 7}, id="reference"),
        pytest.param({"type": "string", "pattern": "^a"}, [], {"received": "array"}, id="no-example"),
        pytest.param({"type": "integer", "examples": ["x"]}, {}, {"received": "object"}, id="wrong-example"),
        pytest.param({"type": "string", "examples": ["x" * 300]}, True, {"received": "boolean"}, id="long-example"),
    ],
)  # fmt: skip
def test_an_error_has_the_type_received_and_an_example(schema, given, members):
    document = {"properties": {"x": schema}, "$defs": {"n": {"type": "integer", "default": 7}}}
    described = faults(document, {"x": given})["/x"].as_json()
    assert {
        name: described[name] for name in described.keys() & {"received", "nearest", "example"}
    } == members


def test_the_error_of_a_missing_property_has_an_example_and_of_an_unknown_one_the_nearest_name():
    schema = {"properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    found = faults(schema, {"m_n": 1})
    assert found["/n"].as_json()["example"] == 1
    assert "received" not in found["/n"].as_json()
    schema = {"properties": {"book": {}}, "additionalProperties": False}
    assert faults(schema, {"bok": 1})["/bok"].nearest == "book"
