"""What a model sees of a large tool: at most 30 kB, by named steps, and never less than what may be sent."""

from typing import Any

import jsonschema_rs
import orjson
from hypothesis import given
from hypothesis import strategies as st

from app.openapi.assessment.slim import MAX_SLIMMED_BYTES, SlimmedTool, Slimmer
from app.openapi.conversion.convert import convert
from tests.harness.cases import for_each
from tests.harness.examples import examples

from .conftest import document

Json = dict[str, Any]


def slimmed(inputs: Json, outputs: Json | None = None, description: str = "Does it.") -> SlimmedTool | None:
    return Slimmer().slim(name="tool", description=description, inputs=inputs, outputs=outputs or {})


def size(found: SlimmedTool) -> int:
    return len(orjson.dumps([found.description, found.inputs, found.outputs]))


def closed(**properties: Any) -> Json:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def text(length: int) -> str:
    return ("word " * length)[:length]


def test_a_tool_that_fits_is_shown_as_it_is() -> None:
    assert slimmed(closed(a={"type": "string", "description": text(20_000), "examples": ["a"]})) is None


def test_examples_go_first() -> None:
    inputs = closed(a={"type": "string", "description": text(400), "examples": [text(29_000)]},
                    examples={"type": "string"})  # fmt: skip
    found = slimmed(inputs)
    assert found is not None
    assert found.steps == ("examples dropped",)
    assert found.inputs == closed(a={"type": "string", "description": text(400)}, examples={"type": "string"})


def test_descriptions_are_shortened_then_dropped_but_not_those_of_the_arguments() -> None:
    def inputs(count: int, length: int) -> Json:
        below = closed(**{f"p{n}": {"type": "string", "description": text(length)} for n in range(count)})
        return closed(body={**below, "description": "What is sent."})

    short = slimmed(inputs(100, 400))
    assert short is not None
    assert short.steps == ("examples dropped", "descriptions shortened")
    assert len(short.inputs["properties"]["body"]["properties"]["p0"]["description"]) == 150
    bare = slimmed(inputs(400, 400))
    assert bare is not None
    assert bare.steps[-1] == "descriptions dropped"
    assert bare.inputs["properties"]["body"]["properties"]["p0"] == {"type": "string"}
    assert bare.inputs["properties"]["body"]["description"] == "What is sent."


def test_a_long_enumeration_becomes_a_sentence() -> None:
    found = slimmed(closed(country={"type": "string", "enum": [f"country number {n}" for n in range(2_000)]}))
    assert found is not None
    assert found.steps[-1] == "long enumerations shortened"
    argument = found.inputs["properties"]["country"]
    assert argument["type"] == "string"
    assert argument["description"].startswith('One of 2000 values, such as "country number 0"')


def filler(count: int) -> Json:
    return closed(**{f"a_property_with_a_long_name_{n}": {"type": "string"} for n in range(count)})


def test_the_branches_of_the_response_are_opened_before_those_of_the_inputs() -> None:
    outputs = {"$ref": "#/$defs/A", "$defs": {"A": closed(b={"$ref": "#/$defs/B"}), "B": filler(2_000)}}
    inputs = filler(100)
    found = slimmed(inputs, outputs)
    assert found is not None
    assert found.steps[-1] == "optional branches of the response left open"
    assert found.inputs == inputs
    assert found.outputs["$defs"] == {"A": closed(b={"$ref": "#/$defs/B"}), "B": {}}


def test_required_branches_of_the_inputs_stay_and_optional_ones_are_opened() -> None:
    body = {**closed(must={"$ref": "#/$defs/Must"}, may={"$ref": "#/$defs/May"}), "required": ["must"]}
    inputs = {**closed(body={"$ref": "#/$defs/Body"}), "required": ["body"],
              "$defs": {"Body": body, "May": filler(400), "Must": filler(300)}}  # fmt: skip
    found = slimmed(inputs, filler(2_000))
    assert found is not None
    assert found.steps[-2:] == ("schema of the response left out", "optional branches left open")
    assert found.inputs["$defs"]["Must"] == filler(300)
    assert found.inputs["$defs"]["May"] == {}
    assert found.outputs == {}


def test_in_the_end_optional_properties_are_left_out_and_the_object_is_open() -> None:
    inputs = {**filler(3_000), "required": ["a_property_with_a_long_name_2999"]}
    found = slimmed(inputs)
    assert found is not None
    assert found.steps[-1] == "optional properties left out"
    assert "additionalProperties" not in found.inputs
    assert "a_property_with_a_long_name_2999" in found.inputs["properties"]
    assert 25_000 < size(found) <= MAX_SLIMMED_BYTES


def test_a_long_description_of_the_tool_is_shortened() -> None:
    found = slimmed(filler(500), description=text(20_000))
    assert found is not None
    assert found.steps[0] == "description of the tool shortened"
    assert len(found.description) <= 2_001


@for_each("inputs", [
    {**closed(), "$defs": {f"name_{n}_" * 8: {} for n in range(3_000)}},
    closed(**{f"p{n}": {"$ref": f"#/$defs/{n:0100}"} for n in range(300)})
    | {"$defs": {f"{n:0100}": filler(10) for n in range(300)}},
    {"type": "object", "required": [f"required_{n}" for n in range(5_000)]},
    closed(body={"oneOf": [filler(200) for _ in range(50)], "not": {"enum": list(range(20_000))}}),
    {"$ref": "#/$defs/A", "$defs": {"A": {**closed(a={"$ref": "#/$defs/A"}, b=filler(1_000)), "required": ["a"]}}},
])  # fmt: skip
def test_nothing_is_ever_larger_than_the_limit(inputs: Json) -> None:
    found = slimmed(inputs, filler(1_000))
    assert found is not None
    assert size(found) <= MAX_SLIMMED_BYTES
    assert jsonschema_rs.meta.is_valid(found.inputs)


names = st.sampled_from("abcdefgh")
schemas = st.recursive(
    st.sampled_from([{"type": "string"}, {"type": "integer", "minimum": 3}, {"enum": list(range(30))}, {"type": "null"},
                     {"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}, {"const": 1}, {"type": "string", "description": "d" * 300}]),
    lambda inner: st.one_of(
        st.builds(lambda p, r, a: {"type": "object", "properties": p, "required": r, "additionalProperties": a},
                  st.dictionaries(names, inner, max_size=4), st.lists(names, max_size=2, unique=True), st.booleans()),
        st.builds(lambda i: {"type": "array", "items": i}, inner),
        st.builds(lambda k, i: {k: i}, st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda i: {"not": i}, inner),
    ),
    max_leaves=25,
)  # fmt: skip
values = st.recursive(
    st.none() | st.integers(0, 40) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


@examples(50)
@given(schemas, schemas, schemas, st.integers(1_530, 3_000), values)
def test_what_is_accepted_in_full_is_accepted_by_what_is_shown(
    root: Json, a: Json, b: Json, budget: int, value: Any
) -> None:
    # `A: {$ref: A}` means nothing.
    defs = {"A": {"type": ["object", "null"], "properties": {"a": a}}, "B": {"properties": {"b": b}}}
    inputs = {"type": "object", "properties": {"body": root}, "$defs": defs}
    found = Slimmer(max_bytes=budget).slim(name="t", description="d", inputs=inputs, outputs={})
    assert inputs == {"type": "object", "properties": {"body": root}, "$defs": defs}
    if found is not None and jsonschema_rs.is_valid(inputs, {"body": value}):
        assert jsonschema_rs.is_valid(found.inputs, {"body": value})


def test_tools_of_one_document_share_the_work_and_come_out_the_same_each_time() -> None:
    schema = {
        "type": "object",
        "properties": {f"p{n}": {"type": "string", "description": text(300)} for n in range(200)},
    }
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/S"}}}
    paths = {f"/{n}": {"post": {"requestBody": {"content": content}, "responses": {}}} for n in range(5)}
    raw = orjson.dumps(document(paths, components={"schemas": {"S": schema}}))
    conversion = convert(raw)
    assert conversion.to_bytes() == convert(raw).to_bytes()
    for tool in conversion.tools:
        assert tool.slimmed is not None
        assert tool.slimmed.steps == ("examples dropped", "descriptions shortened", "descriptions dropped")
        assert "description" in tool.inputs["$defs"]["S"]["properties"]["p0"]
    notes = {note for one in conversion.report.operations for note in one.slimming_steps or ()}
    assert "descriptions dropped" in notes
