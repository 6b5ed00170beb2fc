"""The schema of an answer."""

from typing import Any

import pytest

from tests.harness.cases import for_each
from tests.unit.openapi.conftest import ConvertOne


def answer(schema: Any, media: str = "application/json") -> dict[str, Any]:
    return {"description": "", "content": {media: {"schema": schema}}}


@for_each(
    ("responses", "became"),
    [
        ({"200": answer({"const": 1})}, {"const": 1}),
        ({"default": answer({"const": 0}), "201": answer({"const": 1})}, {"const": 1}),
        ({"404": answer({"const": 0}), "2XX": answer({"const": 1})}, {"const": 1}),
        ({"204": {}, "200": {"description": ""}, "202": answer({"const": 1})}, {"const": 1}),
        (
            {"200": answer({"const": 0}, "text/html"), "201": answer({"const": 1}, "application/hal+json")},
            {"const": 1},
        ),
        ({"200": answer({"type": "string"}, "text/html")}, {"type": "string"}),
        ({"200": answer({"type": "object"}, "text/csv")}, {}),
        ({"200": answer({"type": "string"}, "image/png")}, {}),
        ({"200": {"$ref": "#/components/responses/R"}}, {"const": "r"}),
        ({"200": {"$ref": "#/components/responses/Gone"}, "201": answer({"const": 1})}, {"const": 1}),
        ({"200": answer({"$ref": "other.yaml#/X"})}, {}),
        (
            {"200": answer({"properties": {"a": {"$ref": "x.yaml"}, "b": {}}})},
            {"properties": {"a": {}, "b": {}}},
        ),
        ({"200": answer({"$ref": "#/components/schemas/Loop"})}, {}),
        ({"200": "x", "201": 7, "202": None}, {}),
        ([], {}),
        (None, {}),
    ],
)
def test_the_first_success_that_is_json(tool: ConvertOne, responses: Any, became: Any) -> None:
    loop = {"Loop": {"$ref": "#/components/schemas/Loop"}}
    made = tool(
        {"responses": responses}, components={"responses": {"R": answer({"const": "r"})}, "schemas": loop}
    )
    assert made.outputs == became


def test_what_a_bare_reference_names_stands_in_its_place_and_cycles_stay(tool: ConvertOne) -> None:
    schemas = {
        "A": {"properties": {"b": {"$ref": "#/components/schemas/B"}}},
        "B": {"properties": {"b": {"$ref": "#/components/schemas/B"}}},
    }
    flat = tool(
        {"responses": {"200": answer({"$ref": "#/components/schemas/A"})}}, components={"schemas": schemas}
    )
    assert flat.outputs["properties"] == {"b": {"$ref": "#/$defs/B"}}
    assert list(flat.outputs["$defs"]) == ["B"]
    cyclic = tool(
        {"responses": {"200": answer({"$ref": "#/components/schemas/B"})}}, components={"schemas": schemas}
    )
    assert list(cyclic.outputs["$defs"]) == ["B"]


@pytest.mark.parametrize(
    ("produces", "became"),
    [(None, {"const": 1}), (["application/json"], {"const": 1}), (["*/*"], {"const": 1}), (["text/xml"], {})],
)
def test_swagger_2_says_beside_it_what_is_json(tool: ConvertOne, produces: Any, became: Any) -> None:
    rest = {} if produces is None else {"produces": produces}
    assert tool({"responses": {"200": {"schema": {"const": 1}}}}, openapi="2.0", **rest).outputs == became


@for_each(
    ("responses", "response"),
    [
        ({"302": {}}, {"redirects": ["302"]}),
        ({"200": answer({"const": 1}), "307": {}, "301": {}}, {"redirects": ["301", "307"]}),
        ({"200": answer({"const": 1}), "201": {}, "3xx": {}}, {"status": "200", "redirects": ["3XX"]}),
        ({"200": answer({"const": 1}), "304": {}, "default": {}}, None),
        ({"3": {}, "30x": {}, "3000": {}}, None),
    ],
)
def test_declared_redirects_are_results(tool: ConvertOne, responses: Any, response: Any) -> None:
    assert tool({"responses": responses}).call_template.get("response") == response
