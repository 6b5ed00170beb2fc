"""`TextArguments`: texts become the JSON values that the inputs of a tool describe."""

from types import SimpleNamespace

import pytest

from app.calls.arguments.texts import TextArguments
from app.core.errors import FieldError, InvalidArguments
from app.formats.json_schema.validator import ArgumentValidator
from tests.harness.cases import for_each

INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
TEXT = {"type": "string"}
BOOLEAN = {"type": "boolean"}
OBJECT = {"type": "object"}


def tool(properties, **keywords):
    """The part of a plan that the coercion uses: the inputs, and their validator."""
    inputs = {"type": "object", "properties": properties, **keywords}
    return SimpleNamespace(inputs=inputs, is_valid_input=ArgumentValidator(inputs).is_valid_property)


def merge(texts, plan, arguments=None):
    return TextArguments(texts, "#/query", reserved=("dry_run",)).merge(arguments or {}, plan)


def errors_of(texts, plan, arguments=None):
    with pytest.raises(InvalidArguments) as caught:
        merge(texts, plan, arguments)
    return {error.pointer: error.detail for error in caught.value.errors}


@for_each(
    ("texts", "schema", "value"),
    [
        (["sea"], TEXT, "sea"),
        (["5"], TEXT, "5"),
        ([""], TEXT, ""),
        (["null"], TEXT, "null"),
        (["5"], INTEGER, 5),
        (["-0"], INTEGER, 0),
        (["18446744073709551615"], INTEGER, 2**64 - 1),
        (["2.0"], INTEGER, 2),
        (["1e3"], INTEGER, 1000),
        (["5"], NUMBER, 5),
        (["-5.25e1"], NUMBER, -52.5),
        (["true"], BOOLEAN, True),
        (["False"], BOOLEAN, False),
        (["1"], BOOLEAN, True),
        (["0"], BOOLEAN, False),
        (["1"], {"type": ["boolean", "integer"]}, True),
        (["2"], {"type": ["boolean", "integer"]}, 2),
        (["null"], {"type": ["integer", "null"]}, None),
        ([""], {"type": ["integer", "null"]}, None),
        (["null"], {"type": ["string", "null"]}, "null"),
        (['{"a": [1, "b"]}'], OBJECT, {"a": [1, "b"]}),
        (['{"a": 1}'], {"properties": {"a": INTEGER}}, {"a": 1}),
        (["a", "b"], {"type": "array", "items": TEXT}, ["a", "b"]),
        (["a"], {"type": "array", "items": TEXT}, ["a"]),
        (["a,b"], {"type": "array", "items": TEXT}, ["a,b"]),
        (['["a", "b"]'], {"type": "array", "items": TEXT}, ["a", "b"]),
        (["[]"], {"type": "array", "items": TEXT}, []),
        (["[draft] a"], {"type": "array", "items": TEXT}, ["[draft] a"]),
        (["1", "2"], {"type": "array", "items": INTEGER}, [1, 2]),
        (["[1, 2]"], {"type": "array", "items": INTEGER}, [1, 2]),
        (["1", "x"], {"type": "array", "prefixItems": [INTEGER, TEXT]}, [1, "x"]),
        (["1", "x"], {"type": "array"}, ["1", "x"]),
        (["[1]", "[2]"], {"type": "array", "items": {"type": "array", "items": INTEGER}}, [[1], [2]]),
        (['{"a": 1}', '{"a": 2}'], {"type": "array", "items": OBJECT}, [{"a": 1}, {"a": 2}]),
        (["2"], {"enum": [1, 2]}, 2),
        (["2"], {"enum": ["2", 2]}, "2"),
        (["2"], {"enum": ["x", 2]}, 2),
        (["true"], {"const": True}, True),
        (["5"], {"anyOf": [INTEGER, {"enum": ["all"]}]}, 5),
        (["all"], {"anyOf": [INTEGER, {"enum": ["all"]}]}, "all"),
        (["a"], {"oneOf": [TEXT, {"type": "array", "items": TEXT}]}, "a"),
        (["a", "b"], {"oneOf": [TEXT, {"type": "array", "items": TEXT}]}, ["a", "b"]),
        (["5"], {"allOf": [{"$ref": "#/$defs/count"}, {"minimum": 1}]}, 5),
        (["5"], {}, "5"),
        (["5"], {"description": "Anything."}, "5"),
        (["5"], {"$ref": "#/$defs/loop"}, "5"),
    ],
)
def test_a_text_becomes_a_value_of_its_schema(texts, schema, value):
    definitions = {"count": INTEGER, "loop": {"anyOf": [{"$ref": "#/$defs/loop"}, TEXT]}}
    merged = merge({"x": texts}, tool({"x": schema}, **{"$defs": definitions}))
    assert merged == {"x": value}
    assert type(merged["x"]) is type(value)


@for_each(
    ("texts", "schema", "pointer", "detail"),
    [
        (["sea"], INTEGER, "/x", "This must be of type integer."),
        (["5.5"], INTEGER, "/x", "This must be of type integer."),
        (["007"], INTEGER, "/x", "This must be of type integer."),
        ([" 5"], INTEGER, "/x", "This must be of type integer."),
        (["٣"], INTEGER, "/x", "This must be of type integer."),
        ([""], INTEGER, "/x", "This must be of type integer."),
        (["NaN"], NUMBER, "/x", "This must be of type number."),
        (["yes"], BOOLEAN, "/x", "This must be of type boolean."),
        (["{"], OBJECT, "/x", "This is not valid JSON."),
        (["a"], OBJECT, "/x", "This must be of type object."),
        (["18446744073709551616"], INTEGER, "/x", "Give an integer of at most 64 bits, or a string."),
        (['{"a": [18446744073709551616]}'], OBJECT, "/x/a/0", "Give an integer of at most 64 bits, or a string."),
        (["1", "2"], INTEGER, "/x", "Give this once."),
        (["1", "b"], {"type": "array", "items": INTEGER}, "/x/1", "This must be of type integer."),
        (["a"], {"type": ["integer", "boolean"]}, "/x", "This must be of type boolean or integer."),
    ],
)  # fmt: skip
def test_a_text_of_another_type_is_an_error_at_its_place(texts, schema, pointer, detail):
    assert errors_of({"x": texts}, tool({"x": schema})) == {f"#/query{pointer}": detail}


def test_all_errors_are_reported_together_without_a_value():
    plan = tool({"q": TEXT, "limit": INTEGER, "page": INTEGER})
    texts = {"q": ["a"], "limit": ["secret-value"], "pgae": ["secret-value"], "dryrun": ["secret-value"]}
    assert errors_of(texts, plan, {"q": "b", "page": 1}) == {
        "#/query/q": "This is also in the body: give it once.",
        "#/query/limit": "This must be of type integer.",
        "#/query/pgae": "The tool has no input of this name. Did you mean `page`?",
        "#/query/dryrun": "The tool has no input of this name. Did you mean `dry_run`?",
    }


def test_texts_are_added_to_an_object_only():
    with pytest.raises(InvalidArguments, match="must be a JSON object"):
        merge({"q": ["a"]}, tool({"q": TEXT}), arguments=[1])
    body = {"page": 1}
    assert merge({"q": ["a"]}, tool({"q": TEXT, "page": INTEGER}), body) == {"page": 1, "q": "a"}
    assert body == {"page": 1}


def test_inputs_in_references_and_alternatives_have_names():
    branch = {"properties": {"b": INTEGER}}
    plan = tool({"a": INTEGER}, allOf=[{"$ref": "#/$defs/more"}], **{"$defs": {"more": branch}})
    assert merge({"a": ["1"], "b": ["2"]}, plan) == {"a": 1, "b": 2}


def test_an_error_of_the_validation_points_to_where_the_value_was_given():
    plan = tool({"a~b": {"type": "integer", "maximum": 3}, "c": INTEGER}, required=["c"])
    texts = TextArguments({"a~b": ["5"]}, "#/query")
    with pytest.raises(InvalidArguments) as caught:
        ArgumentValidator(plan.inputs).check(texts.merge({}, plan))
    error = texts.relocate(caught.value)
    assert {each.pointer for each in error.errors} == {"#/query/a~0b", "/c"}


def test_a_schema_of_many_nested_alternatives_is_read_in_bounded_time():
    nested = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    inputs = {"properties": {"x": {"allOf": [INTEGER, {"$ref": "#/$defs/d0"}]}}, "$defs": nested}
    assert merge({"x": ["5"]}, SimpleNamespace(inputs=inputs)) == {"x": 5}


TEXTS = {"type": "array", "items": TEXT}
PLACE = {
    "type": "object",
    "properties": {"street": TEXT, "number": INTEGER, "tags": TEXTS, "within": {"$ref": "#/$defs/place"}},
    "additionalProperties": BOOLEAN,
}


@for_each(
    ("texts", "schema", "value"),
    [
        ({"a[]": ["x"]}, TEXTS, ["x"]),
        ({"a[]": ["1", "2"]}, {"type": "array", "items": INTEGER}, [1, 2]),
        ({"a[]": ["[1]"]}, TEXTS, ["[1]"]),
        ({"a[]": ["5"]}, {}, ["5"]),
        ({"a[0]": ["x"], "a[1]": ["y"]}, TEXTS, ["x", "y"]),
        ({"a[1][b]": ["2"], "a[0][b]": ["1"]}, {"type": "array", "items": {"properties": {"b": INTEGER}}}, [{"b": 1}, {"b": 2}]),
        ({"a[0][0]": ["1"], "a[0][1]": ["2"]}, {"type": "array", "items": {"type": "array", "items": INTEGER}}, [[1, 2]]),
        ({"a[street]": ["5"], "a[number]": ["5"]}, PLACE, {"street": "5", "number": 5}),
        ({"a[open]": ["true"]}, PLACE, {"open": True}),
        ({"a[tags][]": ["x"]}, PLACE, {"tags": ["x"]}),
        ({"a[tags][0]": ["x"], "a[within][tags][0]": ["y"]}, PLACE, {"tags": ["x"], "within": {"tags": ["y"]}}),
        ({"a[0]": ["x"]}, {"type": "object"}, {"0": "x"}),
        ({"a[b.c d]": ["\u00e9"]}, {"type": "object"}, {"b.c d": "\u00e9"}),
        ({"a[b]": ["5"]}, {"anyOf": [{"type": "null"}, {"properties": {"b": INTEGER}}]}, {"b": 5}),
    ],
)  # fmt: skip
def test_lists_and_objects_may_be_given_by_names_with_brackets(texts, schema, value):
    merged = merge(texts, tool({"a": schema}, **{"$defs": {"place": PLACE}}))
    assert merged == {"a": value}


def test_an_input_whose_own_name_has_brackets_is_given_by_its_name():
    plan = tool({"a[]": TEXTS, "a": TEXT, "b[c]": INTEGER})
    assert merge({"a[]": ["x", "y"], "b[c]": ["5"]}, plan) == {"a[]": ["x", "y"], "b[c]": 5}
    assert merge({"a[][]": ["x"]}, plan) == {"a[]": ["x"]}


@for_each(
    ("texts", "pointer", "detail"),
    [
        ({"a[0]": ["x"], "a[2]": ["y"]}, "#/query/a", "The list has no item 1."),
        ({"a[]": ["x"], "a[0]": ["y"]}, "#/query/a", "Give the items with indices, or all of them without."),
        ({"a[b]": ["x"]}, "#/query/a", "This is not an object."),
        ({"o[tags][0][x]": ["1"]}, "#/query/o/tags/0", "This is not an object."),
        ({"o[number]": ["x"]}, "#/query/o/number", "This must be of type integer."),
        ({"o[number]": ["1", "2"]}, "#/query/o/number", "Give this once."),
        ({"o[number][]": ["1"]}, "#/query/o/number", "This is not a list."),
        ({"a": ["x"], "a[0]": ["y"]}, "#/query/a[0]", "The tool has no input of this name."),
        ({"a[][b]": ["x"]}, "#/query/a[][b]", "The tool has no input of this name."),
        ({"a[b": ["x"]}, "#/query/a[b", "The tool has no input of this name."),
        ({"unknown[b]": ["x"]}, "#/query/unknown[b]", "The tool has no input of this name."),
    ],
)
def test_names_with_brackets_that_fit_no_input_are_rejected(texts, pointer, detail):
    found = errors_of(texts, tool({"a": TEXTS, "o": PLACE}, **{"$defs": {"place": PLACE}}))
    assert list(found) == [pointer]
    assert found[pointer].startswith(detail)


def test_an_error_within_a_member_that_was_given_with_brackets_points_to_the_query():
    texts = TextArguments({"a[b]": ["5"]}, "#/query")
    error = InvalidArguments("x", errors=[FieldError("/a/b", "Too large."), FieldError("/c", "Missing.")])
    assert [one.pointer for one in texts.relocate(error).errors] == ["#/query/a/b", "/c"]
