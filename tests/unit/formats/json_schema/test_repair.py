"""Repairs of arguments: they make valid what was not, lose nothing, and change nothing that was valid."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core import exact_json
from app.core.errors import InvalidArguments
from app.formats.json_schema.validator import ArgumentValidator
from tests.harness.cases import for_each

STRICT = {"type": "object", "additionalProperties": False}


def repaired(schema, arguments, *, only_types=False, scope="all"):
    """The repaired arguments and the kinds of the repairs by pointer; (None, {}) where there are none."""
    found = ArgumentValidator(schema).repair(arguments, scope="types" if only_types else scope)
    if found is None:
        return None, {}
    ArgumentValidator(schema).check(found.value)
    return found.value, {one.pointer: one.kind for one in found.repairs}


def of(schema):
    return {"properties": {"x": schema}}


@for_each(
    ("schema", "given", "expected", "kind"),
    [
        pytest.param({"type": "integer"}, "42", 42, "type", id="integer"),
        pytest.param({"type": "integer"}, "-9223372036854775808", -(2**63), "type", id="smallest"),
        pytest.param({"type": "integer"}, "18446744073709551615", 2**64 - 1, "type", id="largest"),
        pytest.param({"type": "number"}, "1.5", 1.5, "type", id="number"),
        pytest.param({"type": ["number", "null"]}, "3", 3, "type", id="number-or-null"),
        pytest.param(
            {"type": "number"}, "0.1000000000000000055511151231257827", Decimal("0.1000000000000000055511151231257827"),
            "type", id="decimal",
        ),
        pytest.param({"type": "boolean"}, "true", True, "type", id="true"),
        pytest.param({"type": "boolean"}, "False", False, "type", id="python-false"),
        pytest.param({"type": ["integer", "null"]}, "null", None, "type", id="null"),
        pytest.param({"type": "string"}, 42, "42", "type", id="string"),
        pytest.param({"type": "array", "items": {"type": "string"}}, "a", ["a"], "list", id="lone"),
        pytest.param({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2], "json", id="json-list"),
        pytest.param({"type": "object", "required": ["a"]}, '{"a": 1}', {"a": 1}, "json", id="json-object"),
        pytest.param({"enum": ["Red", "Green"]}, "red", "Red", "enum", id="enum-case"),
        pytest.param({"const": "Red"}, "RED", "Red", "enum", id="const-case"),
        pytest.param({"enum": [1, 2]}, "2", 2, "type", id="enum-number"),
        pytest.param({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "7", 7, "type", id="any-of"),
        pytest.param(
            {"type": "string", "format": "date", "pattern": "^\\d{4}-"}, "20260131", "2026-01-31", "date", id="date"
        ),
        pytest.param(
            {"type": "string", "format": "date-time", "pattern": "T.*Z$"}, "2026-01-31 10:00:00z",
            "2026-01-31T10:00:00Z", "date", id="date-time",
        ),
    ],
)  # fmt: skip
def test_a_value_is_repaired(schema, given, expected, kind) -> None:
    value, kinds = repaired(of(schema), {"x": given})
    assert value == {"x": expected}
    assert type(value["x"]) is type(expected)
    assert kinds == {"/x": kind}


@for_each(
    ("schema", "given"),
    [
        pytest.param({"type": "integer"}, "18446744073709551616", id="more-than-64-bits"),
        pytest.param({"type": "integer"}, "1.5", id="fraction"),
        pytest.param({"type": "integer"}, "forty", id="word"),
        pytest.param({"type": "integer"}, "042", id="leading-zero"),
        pytest.param({"type": "integer"}, " 42", id="blank"),
        pytest.param({"type": "integer"}, True, id="boolean-as-integer"),
        pytest.param({"type": "number"}, "1e400", id="beyond-a-double"),
        pytest.param({"type": "number"}, "NaN", id="not-a-number"),
        pytest.param({"type": "boolean"}, "yes", id="yes"),
        pytest.param({"type": "boolean"}, 1, id="one"),
        pytest.param({"type": "string"}, 1.10, id="number-with-a-fraction"),
        pytest.param({"type": "array", "items": {"type": "integer"}}, "a", id="lone-of-another-type"),
        pytest.param({"type": "object"}, '{"a": 1, "a": 2}', id="duplicate-names"),
        pytest.param({"type": "object"}, "{'a': 1}", id="not-json"),
        pytest.param({"enum": ["red", "RED"]}, "Red", id="two-cases"),
        pytest.param({"enum": ["red"]}, "rad", id="misspelt"),
        pytest.param({"type": "string", "format": "date", "pattern": "-"}, "31/01/2026", id="other-date"),
        pytest.param({"oneOf": [{"type": "integer"}, {"type": "boolean"}]}, "x", id="no-alternative"),
        pytest.param(
            {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "integer"}]}, "1", id="two-readings"
        ),
    ],
)  # fmt: skip
def test_a_value_is_not_guessed(schema, given) -> None:
    assert repaired(of(schema), {"x": given}) == (None, {})


NULLS = {
    "properties": {
        "limit": {"type": "integer"},
        "note": {"type": ["string", "null"]},
        "any": {},
        "list": {"type": "array", "items": {"$ref": "#/$defs/item"}},
        "choice": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/item"}]},
    },
    "required": ["limit"],
    "additionalProperties": False,
    "$defs": {
        "item": {
            "type": "object", "properties": {"id": {"type": "integer"}, "tag": {"enum": ["a", "b"]}},
            "required": ["id"], "additionalProperties": False,
        }
    },
}  # fmt: skip


@for_each("scope", ["rules", "types", "all"])
def test_null_for_an_optional_property_that_takes_none_is_no_value_at_every_depth(scope) -> None:
    arguments = {
        "limit": 1,
        "note": None,
        "any": None,
        "list": [{"id": 1, "tag": None}, {"id": 2}],
        "choice": {"id": 3, "tag": None},
    }
    assert repaired(NULLS, arguments, scope=scope) == (
        {"limit": 1, "note": None, "any": None, "list": [{"id": 1}, {"id": 2}], "choice": {"id": 3}},
        {"/list/0/tag": "null", "/choice/tag": "null"},
    )
    assert repaired(NULLS, {"limit": 1, "list": None, "choice": None}, scope=scope) == (
        {"limit": 1},
        {"/list": "null", "/choice": "null"},
    )


@for_each("arguments", [{"limit": None}, {"limit": 1, "list": [None]}, {"limit": 1, "other": None}])
def test_other_nulls_are_errors(arguments) -> None:
    assert repaired(NULLS, arguments) == (None, {})


TAG = {"type": "string"}


@for_each(
    ("schema", "given", "expected", "dropped"),
    [
        pytest.param(
            {"if": {"required": ["a"]}, "then": {"properties": {"tag": TAG}}},
            {"a": 1, "tag": None}, {"a": 1}, "/tag", id="then",
        ),
        pytest.param(
            {"if": {"required": ["a"]}, "else": {"properties": {"tag": TAG}}},
            {"b": 1, "tag": None}, {"b": 1}, "/tag", id="else",
        ),
        pytest.param(
            {"dependentSchemas": {"a": {"properties": {"tag": TAG}}}},
            {"a": 1, "tag": None}, {"a": 1}, "/tag", id="dependent",
        ),
        pytest.param({"patternProperties": {"^t": TAG}}, {"tag": None, "x": None}, {"x": None}, "/tag", id="pattern"),
        pytest.param(
            {"patternProperties": {"^x-": TAG, "g$": TAG}}, {"x-tag": None}, {}, "/x-tag", id="two-patterns"
        ),
        pytest.param(
            {
                "properties": {"tag": TAG},
                "if": {"required": ["tag"]},
                "then": {"required": ["a"]},
            },
            {"tag": None}, {}, "/tag", id="a-condition-of-the-null",
        ),
    ],
)  # fmt: skip
def test_nulls_of_conditional_and_named_members_are_no_values(schema, given, expected, dropped) -> None:
    assert repaired(schema, given, scope="rules") == (expected, {dropped: "null"})


def test_nulls_in_a_map_are_data() -> None:
    assert repaired({"additionalProperties": TAG}, {"tag": None}) == (None, {})


def test_any_number_of_nulls_is_repaired_and_a_hundred_repairs_are_reported() -> None:
    item = {"type": "object", "properties": {"tag": TAG, "n": {"type": "integer"}}}
    schema = of({"type": "array", "items": item})
    given = {"x": [{"tag": None} for _ in range(150)] + [{"n": "1"}]}
    found = ArgumentValidator(schema, 5).repair(given, scope="all")
    assert found.value == {"x": [{}] * 150 + [{"n": 1}]}
    assert len(found.repairs) == 100
    assert [one.pointer for one in found.repairs if one.kind != "null"] == ["/x/150/n"]
    assert ArgumentValidator(schema, 5).repair({"x": [{"n": "1"}] * 101}, scope="all") is None


def test_nulls_do_not_prevent_other_repairs_and_allow_none() -> None:
    arguments = {"limit": "1", "list": None}
    assert repaired(NULLS, arguments, only_types=True) == ({"limit": 1}, {"/limit": "type", "/list": "null"})
    assert repaired(NULLS, arguments, scope="rules") == (None, {})


def test_a_value_inside_lists_and_references_is_repaired() -> None:
    schema = {
        "properties": {"pets": {"type": "array", "items": {"$ref": "#/$defs/pet"}}},
        "$defs": {"pet": {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}},
    }
    value, kinds = repaired(schema, {"pets": [{"age": 1}, {"age": "2"}]})
    assert value == {"pets": [{"age": 1}, {"age": 2}]}
    assert kinds == {"/pets/1/age": "type"}


def test_json_text_is_repaired_inside_too() -> None:
    schema = of({"type": "object", "properties": {"n": {"type": "integer"}}})
    value, kinds = repaired(schema, {"x": '{"n": "1"}'})
    assert value == {"x": {"n": 1}}
    assert kinds == {"/x": "json", "/x/n": "type"}


@pytest.mark.parametrize("given", ["bookId", "BOOK-ID", "book.id"])
def test_a_name_is_spelled_as_declared(given) -> None:
    schema = {**STRICT, "properties": {"book_id": {"type": "integer"}}}
    assert repaired(schema, {given: 1}) == ({"book_id": 1}, {f"/{given}": "name"})


def test_a_name_stands_for_a_required_property_of_an_open_object() -> None:
    schema = {"type": "object", "properties": {"book_id": {"type": "integer"}}, "required": ["book_id"]}
    assert repaired(schema, {"bookId": "1"}) == ({"book_id": 1}, {"/bookId": "name", "/book_id": "type"})


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"bookId": 1, "book-id": 2}, id="two-inputs"),
        pytest.param({"book_id": 1, "bookId": 2}, id="given-already"),
        pytest.param({"bokId": 1}, id="misspelt"),
    ],
)
def test_a_name_that_may_mean_another_is_not_changed(arguments) -> None:
    schema = {**STRICT, "properties": {"book_id": {"type": "integer"}}, "required": ["book_id"]}
    assert repaired(schema, arguments) == (None, {})


def test_a_name_that_fits_two_properties_is_not_changed() -> None:
    schema = {**STRICT, "properties": {"book_id": {}, "bookid": {}}}
    assert repaired(schema, {"bookId": 1}) == (None, {})


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        pytest.param({**STRICT, "properties": {"book_id": {}}}, {"bookId": 1}, id="name"),
        pytest.param(of({"enum": ["Red"]}), {"x": "red"}, id="enum"),
        pytest.param(of({"type": "string", "format": "date", "pattern": "-"}), {"x": "20260131"}, id="date"),
    ],
)
def test_only_types_leaves_all_else(schema, arguments) -> None:
    assert repaired(schema, arguments)[0] is not None
    assert repaired(schema, arguments, only_types=True) == (None, {})


def test_free_form_objects_and_valid_values_are_untouched() -> None:
    schema = {
        "properties": {"n": {"type": "integer"}, "free": {"type": "object"}, "text": {"type": "string"}},
        "required": ["n"],
    }
    arguments = {"n": "1", "free": {"n": "1", "N": "2"}, "text": "42", "other": "true"}
    value, kinds = repaired(schema, arguments)
    assert value == {**arguments, "n": 1}
    assert kinds == {"/n": "type"}
    assert arguments["n"] == "1"


def test_arguments_that_stay_invalid_are_not_changed_in_part() -> None:
    schema = {"properties": {"n": {"type": "integer"}}, "required": ["m"]}
    assert repaired(schema, {"n": "1"}) == (None, {})


def test_a_schema_within_itself_ends() -> None:
    schema = {
        "properties": {"x": {"$ref": "#/properties/x"}, "n": {"type": "integer"}},
        "required": ["n", "m"],
    }
    assert repaired(schema, {"x": 1, "n": "1"}) == (None, {})
    tree = {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/t"}}]}
    deep: object = "1"
    for _ in range(40):
        deep = [deep, "x"]
    assert repaired({"properties": {"x": {"$ref": "#/$defs/t"}}, "$defs": {"t": tree}}, {"x": deep}) == (
        None,
        {},
    )


LEAF = st.sampled_from(
    [
        {"type": "integer"}, {"type": "number"}, {"type": "boolean"}, {"type": "string"}, {"enum": ["Red", "x_y"]},
        {"type": ["integer", "null"]}, {"type": "integer", "minimum": 3}, {"type": "string", "format": "date"}, {},
    ]
)  # fmt: skip
SCHEMA = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(
            lambda members, required: {
                "type": "object", "properties": members, "required": sorted(set(members) & required),
                "additionalProperties": False,
            },
            st.dictionaries(st.sampled_from(["a", "book_id", "Name"]), inner, max_size=3),
            st.sets(st.sampled_from(["a", "book_id"])),
        ),
        st.builds(lambda one, other: {"anyOf": [one, other]}, inner, inner),
    ),
    max_leaves=6,
)  # fmt: skip
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["1", "-7", "1.25", "true", "null", "red", "RED", "20260131", "[1]", '{"a":"1"}', "x"])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["a", "A", "bookId", "book_id", "name"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def _is_valid(validator, arguments) -> bool:
    try:
        validator.check(arguments)
    except InvalidArguments:
        return False
    return True


def _leaves(value):
    """The texts of all leaves, folded as far as repairs may: case, separators, JSON inside of texts."""
    if isinstance(value, dict):
        return [leaf for member in value.values() for leaf in _leaves(member)]
    if isinstance(value, list):
        return [leaf for member in value for leaf in _leaves(member)]
    if isinstance(value, str):
        try:
            parsed = exact_json.loads(value.encode(errors="replace"))
        except ValueError:
            pass
        else:
            if not isinstance(parsed, str):
                return _leaves(parsed)
        return [value.casefold().replace("-", "")]
    if isinstance(value, bool) or value is None:
        return [json.dumps(value)]
    return [str(Decimal(str(value)).normalize())]


def _values(value):
    """The leaves but null, which may stand for no value."""
    return sorted(leaf for leaf in _leaves(value) if leaf != "null")


@given(schema=SCHEMA, value=VALUE, scope=st.sampled_from(["rules", "types", "all"]))
def test_repaired_values_are_valid_and_lose_nothing_but_nulls(schema, value, scope) -> None:
    arguments = {"x": value}
    validator = ArgumentValidator({"properties": {"x": schema}, "additionalProperties": False})
    before = exact_json.dumps(arguments)
    found = validator.repair(arguments, scope=scope)
    assert exact_json.dumps(arguments) == before
    if _is_valid(validator, arguments):
        assert found is None
    elif found is not None:
        validator.check(found.value)
        assert found.repairs
        assert _values(found.value) == _values(arguments)


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"type": "array"}, id="list"),
        pytest.param({"anyOf": [{"type": "array"}, {"type": "object"}]}, id="choice"),
    ],
)
def test_json_text_that_is_nested_too_deeply_to_be_sent_is_not_repaired(schema):
    assert repaired(of(schema), {"x": "[" * 100 + "]" * 100})[1] == {"/x": "json"}
    assert repaired(of(schema), {"x": "[" * 300 + "]" * 300}) == (None, {})
