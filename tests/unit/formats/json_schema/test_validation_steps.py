"""Schemas that a validator would follow without end are refused when they are compiled; those of real APIs are not."""

from pathlib import Path

import orjson
import pytest

from app.core.errors import InvalidArguments, InvalidInput
from app.formats.dialects.source import SourceSchema
from app.formats.json_schema.validation_steps import count_steps
from app.formats.json_schema.validator import ArgumentValidator, OutputValidator
from tests.harness.cases import for_each


def chain(levels, step, end):
    """A schema of levels, each of which refers to the next one as `step` says."""
    defs = {f"a{n}": step({"$ref": f"#/$defs/a{n + 1}"}) for n in range(levels)}
    return {"type": "object", "$defs": {**defs, f"a{levels}": end}, "allOf": [{"$ref": "#/$defs/a0"}]}


ENDLESS = {
    "allOf": chain(40, lambda one: {"allOf": [one, one]}, {"type": "object"}),
    "anyOf": chain(40, lambda one: {"anyOf": [one, one]}, {"type": "string"}),
    "oneOf": chain(40, lambda one: {"oneOf": [one, one]}, {"type": "string"}),
    "not": chain(40, lambda one: {"not": one, "allOf": [one]}, {"type": "string"}),
    "conditions": chain(40, lambda one: {"if": one, "then": one}, {"type": "object"}),
    "members": chain(
        40,
        lambda one: {
            "allOf": [{"properties": {"x": one}}, {"additionalProperties": one, "properties": {"x": one}}]
        },
        {"type": "object"},
    ),
    "items": chain(40, lambda one: {"allOf": [{"items": one}, {"prefixItems": [one]}]}, {"type": "object"}),
    "a chain in a cycle": chain(
        40, lambda one: {"allOf": [one, one]}, {"properties": {"next": {"$ref": "#/$defs/a0"}}}
    ),
}


def nested(levels, step):
    """A schema without references, of levels that each contain the next one as `step` says."""
    schema = {"type": ["object", "array"]}
    for _ in range(levels):
        schema = step(schema)
    return schema


_WHOLE = {"type": "integer"}
ENDLESS |= {
    "patterns of one name": chain(40, lambda one: {"patternProperties": {"a": one, "^a": one}}, {}),
    "items that are contained": chain(40, lambda one: {"items": one, "contains": one}, {}),
    "members that are not evaluated": nested(
        20, lambda one: {"allOf": [one], "unevaluatedProperties": _WHOLE}
    ),
    "members that no alternative evaluates": nested(
        20, lambda one: {"anyOf": [one], "unevaluatedProperties": False}
    ),
    "items that are not evaluated": nested(20, lambda one: {"oneOf": [one], "unevaluatedItems": _WHOLE}),
    "members of members": {
        "properties": {"x": nested(20, lambda one: {"allOf": [one], "unevaluatedProperties": _WHOLE})}
    },
}


@for_each("name", ENDLESS)
def test_a_schema_that_takes_too_many_steps_is_refused(name):
    with pytest.raises(InvalidInput, match="too long to validate") as caught:
        ArgumentValidator(ENDLESS[name])
    assert caught.value.errors[0].pointer == "/inputs"
    with pytest.raises(InvalidInput):
        OutputValidator(ENDLESS[name])


FINE = {
    "required members at each level": chain(
        60, lambda one: {"properties": {"l": one, "r": one}, "required": ["l", "r"]}, {"type": "object"}
    ),
    "one reference at each level": chain(200, lambda one: {"allOf": [one]}, {"type": "object"}),
    "recursion in alternatives": {
        "type": "object",
        "properties": {"e": {"$ref": "#/$defs/e"}},
        "$defs": {
            "e": {
                "oneOf": [
                    {
                        "properties": {
                            "op": {"const": n},
                            "l": {"$ref": "#/$defs/e"},
                            "r": {"$ref": "#/$defs/e"},
                        }
                    }
                    for n in range(50)
                ]
            }
        },
    },
    "many alternatives": {
        "type": "object",
        "$defs": {f"a{n}": {"properties": {"kind": {"const": n}}} for n in range(500)},
        "properties": {"x": {"oneOf": [{"$ref": f"#/$defs/a{n}"} for n in range(500)]}},
    },
    "a reference that leads nowhere": {"type": "object", "allOf": [{"$ref": "#/nowhere"}] * 20},
}


FINE |= {
    "a few levels whose members are not evaluated": nested(
        8, lambda one: {"allOf": [one], "unevaluatedProperties": {"type": "object"}}
    ),
    "members at each level that are not evaluated": nested(
        40, lambda one: {"properties": {"x": one}, "unevaluatedProperties": False}
    ),
}


@for_each("name", FINE)
def test_other_schemas_are_affordable(name):
    assert count_steps(FINE[name]).is_affordable


def test_schemas_of_a_whole_contract_are_affordable():
    text = Path("openapi/gateway.json").read_text().replace("#/components/schemas/", "#/$defs/")
    definitions = orjson.loads(text)["components"]["schemas"]
    refused = [
        name
        for name in definitions
        if not count_steps({"$ref": f"#/$defs/{name}", "$defs": definitions}).is_affordable
    ]
    assert refused == []


def test_whether_null_is_taken_is_found_once_for_each_schema():
    schema = chain(8, lambda one: {"allOf": [one] * 100}, {"allOf": [{}] * 100})
    # Following each way to each schema would take minutes.
    assert SourceSchema(schema).takes_null(schema["$defs"]["a0"])


DOUBLED = chain(16, lambda one: {"allOf": [one, one]}, {"type": "integer"})
_MEMBER = {"allOf": [{"$ref": "#/$defs/a0"}]}
MANY = {
    "items": ({"type": "array", "items": _MEMBER}, [1] * 1_500),
    "items within items": ({"items": {"items": _MEMBER}}, [[1] * 10] * 40),
    "the first items": ({"prefixItems": [_MEMBER] * 400}, [1] * 400),
    "members": ({"properties": {f"m{n}": _MEMBER for n in range(400)}}, {f"m{n}": 1 for n in range(400)}),
    "other members": ({"additionalProperties": _MEMBER}, {f"m{n}": 1 for n in range(400)}),
    "many subschemas": ({"items": {"allOf": [{"minimum": n} for n in range(2_000)]}}, [3_000] * 20_000),
    "evaluations for each member": (
        nested(10, lambda one: {"allOf": [one], "unevaluatedProperties": _WHOLE}),
        {f"m{n}": 1 for n in range(400)},
    ),
}


def of_value(inner):
    tree = {"if": {"type": "array"}, "then": {"items": {"$ref": "#/$defs/tree"}}, "else": _MEMBER}
    return {"type": "object", "$defs": {**DOUBLED["$defs"], "tree": tree}, "properties": {"value": inner}}


@for_each("name", MANY)
def test_arguments_with_too_many_values_for_their_schema_are_refused(name):
    inner, value = MANY[name]
    validator = ArgumentValidator(of_value(inner))
    with pytest.raises(InvalidArguments, match="too many values") as caught:
        validator.check({"value": value})
    assert caught.value.errors[0].pointer == ""
    assert validator.repair({"value": value}, scope="all") is None
    assert validator.is_valid_property("value", value)
    outputs = OutputValidator(of_value({"allOf": [inner, {"type": "null"}]}))
    assert outputs.find_violations({"value": value}, max_pointers=1).count == 0


@for_each("name", MANY)
def test_arguments_with_few_values_are_validated(name):
    inner, value = MANY[name]
    few = value[:2] if isinstance(value, list) else dict(list(value.items())[:2])
    validator = ArgumentValidator(of_value({"allOf": [inner, {"type": ["array", "object"]}]}))
    validator.check({"value": few})
    with pytest.raises(InvalidArguments) as caught:
        validator.check({"value": "text"})
    assert caught.value.errors[0].pointer == "/value"


def test_values_at_any_level_of_a_schema_that_contains_itself_are_counted():
    validator = ArgumentValidator(of_value({"$ref": "#/$defs/tree"}))
    validator.check({"value": [[[[1] * 5]]]})
    with pytest.raises(InvalidArguments, match="too many values"):
        validator.check({"value": [[[[1] * 400]]]})


def test_values_that_no_subschema_applies_to_are_not_counted():
    schema = of_value({"allOf": [{"$ref": "#/$defs/a0"}, {"type": "integer"}]})
    schema["properties"]["data"] = {}
    ArgumentValidator(schema).check({"value": 1, "data": [[1] * 100_000] * 10})
