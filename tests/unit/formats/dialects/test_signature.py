"""Signatures show names, types and what is required, on one line of bounded length, whatever the schema."""

import pytest

from app.formats.dialects.signature import MAX_SIGNATURE, write_signature
from tests.harness.cases import for_each

TEXT = {"type": "string"}


def of(properties, required=(), **members):
    return write_signature(
        "t", {"type": "object", "properties": properties, "required": list(required), **members}
    )


@for_each(
    ("properties", "expected"),
    [
        ({}, "t()"),
        ({"a": TEXT}, "t(a: string)"),
        ({"a": {"type": "integer"}}, "t(a: integer)"),
        ({"a": {"type": ["string", "null"]}}, "t(a: string/null)"),
        ({"a": {"type": "string", "format": "date-time"}}, "t(a: date-time)"),
        ({"a": {"type": "string", "format": "colour"}}, "t(a: string)"),
        ({"a": {"enum": ["en", "de"]}}, 't(a: "en"/"de")'),
        ({"a": {"enum": [1, None, True]}}, "t(a: 1/null/true)"),
        ({"a": {"enum": list(range(9))}}, "t(a: 0/1/2/3/4/5/...)"),
        ({"a": {"const": "x"}}, 't(a: "x")'),
        ({"a": {"type": "array", "items": TEXT}}, "t(a: string[])"),
        ({"a": {"type": "array", "items": {"enum": [1, 2]}}}, "t(a: (1/2)[])"),
        ({"a": {"type": "array"}}, "t(a: any[])"),
        ({"a": {"type": "object"}}, "t(a: object)"),
        (
            {"a": {"type": "object", "properties": {"x": TEXT, "y": TEXT}, "required": ["y"]}},
            "t(a: {y*: string, x: string})",
        ),
        ({"a": {"anyOf": [TEXT, {"type": "integer"}]}}, "t(a: string/integer)"),
        ({"a": {"oneOf": [TEXT, TEXT]}}, "t(a: string)"),
        ({"a": {"allOf": [{"type": "integer"}, {"minimum": 1}]}}, "t(a: integer)"),
        ({"a": {"$ref": "#/$defs/A"}}, "t(a: integer)"),
        ({"a": {"$ref": "#/$defs/Loop"}}, "t(a: any)"),
        ({"a": {"$ref": "https://other.example/schema"}}, "t(a: any)"),
        ({"a": {"$ref": "#/$defs/missing"}}, "t(a: any)"),
        ({"a": True, "b": {}, "c": None}, "t(a: any, b: any, c: any)"),
        ({"a b": TEXT, "x-y.z": TEXT, "": TEXT}, 't("a b": string, x-y.z: string, "": string)'),
        ({"a": {"type": "nonsense"}}, "t(a: any)"),
    ],
)
def test_types_are_shown_in_short_forms(properties, expected):
    assert (
        of(properties, **{"$defs": {"A": {"type": "integer"}, "Loop": {"$ref": "#/$defs/Loop"}}}) == expected
    )


def test_required_inputs_come_first_and_have_a_star():
    assert of({"a": TEXT, "b": TEXT, "c": TEXT}, ["c"]) == "t(c*: string, a: string, b: string)"


def test_optional_inputs_that_do_not_fit_are_left_out():
    text = of({"id": TEXT, **{f"option_{number}": TEXT for number in range(100)}}, ["id"])
    assert len(text) <= MAX_SIGNATURE
    assert text.startswith("t(id*: string, option_0: string")
    assert text.endswith(", ...)")


def test_all_required_inputs_are_shown():
    names = [f"required_{number}" for number in range(40)]
    text = of(dict.fromkeys(names, TEXT), names)
    assert all(f"{name}*" in text for name in names)


def test_a_deep_or_long_type_is_shortened():
    deep = TEXT
    for _ in range(20):
        deep = {"type": "object", "properties": {"inner": deep}, "required": ["inner"]}
    assert of({"a": deep}) == "t(a: {inner*: {inner*: {inner*: object}}})"
    wide = {"type": "object", "properties": {f"property_{number}": TEXT for number in range(50)}}
    assert of({"a": wide}) == "t(a: object)"
    assert of({"a": {"enum": ["x" * 100]}}) == f't(a: "{"x" * 36}...)'


@pytest.mark.parametrize("inputs", [{}, {"properties": []}, {"properties": {"a": TEXT}, "required": "a"}])
def test_any_schema_has_a_signature(inputs):
    assert write_signature("t", inputs).startswith("t(")


def test_a_recursive_schema_has_a_signature():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "value": TEXT}}
    assert of({"a": {"$ref": "#/$defs/Node"}}, **{"$defs": {"Node": node}}).startswith("t(a: {next: {")


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_references_that_double_at_each_step_have_a_signature(keyword) -> None:
    steps = {f"S{number}": {keyword: [{"$ref": f"#/$defs/S{number + 1}"}] * 2} for number in range(60)}
    assert of({"a": {"$ref": "#/$defs/S0"}, "b": TEXT}, **{"$defs": steps | {"S60": TEXT}}) in (
        "t(a: any, b: string)",
        "t(a: string, b: string)",
    )


def test_a_choice_of_itself_has_a_signature() -> None:
    loop = {"anyOf": [{"$ref": "#/$defs/Loop"}, TEXT]}
    assert of({"a": {"$ref": "#/$defs/Loop"}}, **{"$defs": {"Loop": loop}}).startswith("t(a: any/string")


def test_members_that_double_at_each_step_have_a_signature() -> None:
    wide = {"type": "object", "properties": {f"p{number}": {"$ref": "#/$defs/Wide"} for number in range(300)}}
    assert of({"a": {"$ref": "#/$defs/Wide"}}, **{"$defs": {"Wide": wide}}) == "t(a: object)"
