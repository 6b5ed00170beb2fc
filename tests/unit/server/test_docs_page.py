"""The reference page: everything that the OpenAPI document has is in it, escaped."""

import copy
import re

import pytest

from app.core.settings import Settings
from app.main import create_app
from app.server.docs_page.page import render, render_prose
from app.server.docs_page.schemas import build_schema_view
from tests.harness.cases import for_each


@pytest.fixture(scope="module")
def document():
    return create_app(Settings(_env_file=None)).openapi()


@pytest.fixture(scope="module")
def page(document):
    return render(document, "")


def test_every_operation_and_schema_has_a_section(document, page):
    sections = re.findall(r'<details class="operation" id="([\w-]+)"', page)
    operations = [
        operation["operationId"] for item in document["paths"].values() for operation in item.values()
    ]
    schemas = [f"schema-{name}" for name in document["components"]["schemas"]]
    assert sorted(sections) == sorted(operations + schemas)


def test_every_link_within_the_page_has_a_target(page):
    identifiers = set(re.findall(r'\bid="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) - identifiers == set()


def test_identifiers_are_unique(page):
    identifiers = re.findall(r'\bid="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))


def test_every_example_of_a_response_is_shown(document, page):
    media = [
        media
        for item in document["paths"].values()
        for operation in item.values()
        for response in operation["responses"].values()
        for media in response.get("content", {}).values()
    ]
    shown = sum(len(one.get("examples", {})) + ("example" in one) for one in media)
    assert page.count("<figcaption>") == shown


def test_text_of_the_document_is_escaped(document):
    changed = copy.deepcopy(document)
    hostile = '"><script>alert(1)</script>'
    operation = changed["paths"]["/keys"]["post"]
    operation["summary"] = operation["description"] = hostile
    operation["responses"]["201"]["content"]["application/json"]["example"] = {"name": hostile}
    changed["components"]["schemas"]["KeyView"]["description"] = f"`{hostile}`"
    changed["components"]["schemas"]["KeyView"]["properties"]["name"]["pattern"] = hostile
    page = render(changed, "")
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert(1)") >= 4


def test_nothing_is_inline(page):
    assert re.findall(r"<style|<script(?! src=)|\sstyle=|\son\w+=|javascript:", page) == []


def test_assets_and_document_are_found_below_a_root_path(document):
    page = render(document, "/gateway")
    assert set(re.findall(r'(?:href|src|data-root)="(/[^"]*)"', page)) == {
        "/gateway",
        "/gateway/openapi.json",
        "/gateway/docs/assets/docs.css",
        "/gateway/docs/assets/docs.js",
        "/gateway/docs/assets/icon.svg",
    }


def test_prose_has_paragraphs_and_code():
    assert render_prose("One `a<b`.\n\nTwo.") == "<p>One <code>a&lt;b</code>.</p>\n<p>Two.</p>"


@for_each(
    ("schema", "shown"),
    [
        ({"type": "string"}, "string"),
        ({}, "any"),
        ({"type": ["string", "null"]}, "string or null"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer or null"),
        ({"type": "array", "items": {"type": "number"}}, "array of number"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "object of string"),
        ({"$ref": "#/components/schemas/Tool"}, '<a href="#schema-Tool">Tool</a>'),
    ],
)
def test_type_of_a_schema(schema, shown):
    assert build_schema_view(schema).type == shown


def test_constraints_of_a_schema_and_of_the_value_that_may_be_null():
    nullable = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": 7}
    assert build_schema_view(nullable).constraints == ("at least 1", "default <code>7</code>")
    assert build_schema_view({"enum": ["<a>"]}).constraints == ("one of <code>&lt;a&gt;</code>",)
    array = {"type": "array", "maxItems": 2, "items": {"maxLength": 9}}
    assert build_schema_view(array).constraints == ("at most 2 items", "each at most 9 characters")


def test_properties_of_unions_and_of_array_elements_are_shown():
    member = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "b": {}}}
    found = build_schema_view({"type": "array", "items": member}).properties
    assert [(one.name, one.is_required) for one in found] == [("a", True), ("b", False)]
    union = build_schema_view({"anyOf": [member, {"type": "string"}, member]})
    assert [len(one.properties) for one in union.alternatives] == [2, 2]


def test_depth_of_a_schema_is_bounded():
    schema = {"type": "string"}
    for _ in range(5000):
        schema = {"type": "object", "properties": {"x": schema}}
    view, depth = build_schema_view(schema), 0
    while view.properties:
        view, depth = view.properties[0].schema, depth + 1
    assert depth == 12
