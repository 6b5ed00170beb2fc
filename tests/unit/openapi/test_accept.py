"""The Accept header of a converted operation (OAS Responses Object, Swagger 2.0 `produces`)."""

from typing import Any

import pytest

from tests.harness.cases import for_each
from tests.unit.openapi.conftest import ConvertOne


def content(*types: str) -> dict[str, Any]:
    return {"description": "", "content": {one: {} for one in types}}


@for_each(
    ("responses", "accept"),
    [
        ({"200": content("application/json")}, "application/json, */*;q=0.1"),
        (
            {"200": content("application/xml", "application/json")},
            "application/json, application/xml;q=0.9, */*;q=0.1",
        ),
        (
            {"200": content("text/csv"), "2XX": content("application/problem+json", "application/json")},
            "application/json, application/problem+json;q=0.9, text/csv;q=0.8, */*;q=0.1",
        ),
        ({"200": content("application/pdf", "*/*")}, "application/pdf, */*;q=0.9"),
        (
            {"200": content("application/json; charset=utf-8; version=2")},
            "application/json;version=2, */*;q=0.1",
        ),
        ({"default": content("application/json")}, None),
        ({"200": content("image/png"), "default": content("application/json")}, "image/png, */*;q=0.1"),
        ({"200": {"$ref": "#/components/responses/Pets"}}, "application/hal+json, */*;q=0.1"),
        ({"200": content("*/*")}, None),
        ({"200": content("no type", "a/b, c/d", "a/${b}", 'a/b; x="y"')}, None),
        ({"204": {"description": "Nothing"}, "404": content("application/json")}, None),
        ({"200": {"$ref": "#/gone"}}, None),
        ({}, None),
        ([], None),
    ],
)
def test_accept_is_what_success_responses_are_declared_as(
    tool: ConvertOne, responses: Any, accept: str | None
) -> None:
    components = {"responses": {"Pets": content("application/hal+json")}}
    made = tool({"responses": responses}, components=components)
    assert made.call_template.get("accept") == accept


def test_it_has_at_most_eight_types(tool: ConvertOne) -> None:
    made = tool({"responses": {"200": content(*(f"text/x{n}" for n in range(50)))}})
    assert made.call_template["accept"].count(",") == 8
    assert made.call_template["accept"].endswith("text/x7;q=0.3, */*;q=0.1")


@pytest.mark.parametrize(
    ("own", "document", "accept"),
    [
        (None, ["application/xml", "application/json"], "application/json, application/xml;q=0.9, */*;q=0.1"),
        (["text/csv"], ["application/json"], "text/csv, */*;q=0.1"),
        ([], ["application/json"], None),
        ("application/json", None, None),
    ],
)
def test_swagger_2_has_it_in_produces(tool: ConvertOne, own: Any, document: Any, accept: str | None) -> None:
    operation = {"responses": {}} if own is None else {"responses": {}, "produces": own}
    made = tool(operation, openapi="2.0", **({} if document is None else {"produces": document}))
    assert made.call_template.get("accept") == accept
