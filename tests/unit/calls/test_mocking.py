"""Mocked responses: whatever the output schema says, there is a response or a clear error."""

from decimal import Decimal
from types import SimpleNamespace

import orjson
import pytest

from app.calls.recordings.mocking import generate_response
from app.core.errors import Conflict
from tests.harness.cases import for_each


def plan_of(outputs=None, spec=None):
    return SimpleNamespace(name="library.search", outputs=outputs, response_spec=spec)


def xml_plan(schema):
    return plan_of(
        spec=SimpleNamespace(status=None, json_schema=schema, content_type="application/xml", xml=None)
    )


@for_each(
    "outputs",
    [
        {"type": "integer", "minimum": 1e25},
        {"type": "integer", "minimum": 2**63, "multipleOf": 2**63},
        {"type": "number", "minimum": 1e300, "multipleOf": 1e-300},
        {"const": 10**30},
        {"examples": [{"n": 10**30}]},
        {"enum": ["\ud800"]},
    ],
)
def test_numbers_and_texts_that_are_hard_to_write_are_written(outputs):
    for plan in (plan_of(outputs), xml_plan({"properties": {"n": outputs}})):
        status, _, body = generate_response(plan, {}, seed=1)
        assert (status, bool(body)) == (200, True)
    assert orjson.loads(generate_response(plan_of(outputs), {}, seed=1)[2]) is not None


@for_each("arguments", [{"n": 10**30}, {"n": Decimal("1E+400")}, {"n": "\ud800"}])
def test_arguments_that_are_hard_to_write_choose_a_response(arguments):
    outputs = {"type": "integer"}
    responses = {generate_response(plan_of(outputs), arguments, seed=1) for _ in range(2)}
    assert len(responses) == 1


def test_a_schema_that_requires_too_much_is_an_error_that_says_so_and_what_to_do():
    level = {"type": "object", "properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}, "required": ["l", "r"]}
    with pytest.raises(Conflict, match="requires more than a mocked response may have") as caught:
        generate_response(plan_of(level), {}, seed=1)
    assert "example" in caught.value.hint
    stated = {**level, "examples": [{"l": 1}]}
    assert generate_response(plan_of(stated), {}, seed=1)[2] == b'{"l":1}'
