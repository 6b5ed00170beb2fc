"""Examples beside a schema: of a Media Type Object of a request body or of a response."""

from typing import Any

from tests.harness.cases import for_each
from tests.unit.openapi.conftest import ConvertOne

OBJECT: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}


@for_each(
    ("media", "examples"),
    [
        ({"example": {"a": 1}}, [{"a": 1}]),
        ({"examples": {"one": {"value": {"a": 1}}, "two": {"value": {"a": 2}}}}, [{"a": 1}]),
        ({"examples": {"large": {"value": {"a": "x" * 1_000}}, "two": {"value": {"a": 2}}}}, [{"a": 2}]),
        ({"examples": {"gone": {"$ref": "#/components/examples/gone"}}}, None),
        ({"example": {"a": 1}, "schema": {**OBJECT, "example": {"a": 7}}}, [{"a": 7}]),
        ({}, None),
    ],
)
def test_the_first_small_example_of_a_media_type_is_that_of_its_schema(
    tool: ConvertOne, media: dict[str, Any], examples: Any
) -> None:
    content = {"application/json": {"schema": OBJECT, **media}}
    made = tool(
        {"requestBody": {"content": content}, "responses": {"200": {"content": content}}}, method="post"
    )
    assert made.inputs["properties"]["body"].get("examples") == examples
    assert made.outputs.get("examples") == examples


def test_an_example_beside_a_reference_is_that_of_its_target(tool: ConvertOne) -> None:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/A"}, "example": {"a": 1}}}
    made = tool({"responses": {"200": {"content": content}}}, components={"schemas": {"A": OBJECT}})
    assert made.outputs == {**OBJECT, "examples": [{"a": 1}]}
