"""Keywords and language of OpenAPI documents: where they stand, for which operations they hold."""

from typing import Any

import pytest

from app.openapi import Conversion, ConvertOptions

from .conftest import Convert

OVERLAY = """
overlay: 1.0.0
info: {title: Words, version: "1"}
actions:
  - target: $.paths['/orders'].get
    update: {x-keywords: [purchase]}
  - target: $.info
    update: {x-language: de}
"""


def paths() -> dict[str, Any]:
    return {
        "/orders": {
            "x-keywords": ["purchase", "sale"],
            "get": {"operationId": "listOrders", "tags": ["shop"], "x-keywords": "basket, Sale"},
            "post": {"operationId": "addOrder"},
        },
        "/users": {"get": {"operationId": "listUsers", "tags": ["people"]}},
    }


def keywords(conversion: Conversion) -> dict[str, tuple[str, ...]]:
    return {tool.name: tool.keywords for tool in conversion.tools}


def warnings(conversion: Conversion) -> dict[str, str]:
    return {one.pointer: one.detail for one in conversion.report.warnings}


@pytest.mark.parametrize("openapi", ["2.0", "3.0.3", "3.1.0", "3.2.0"])
def test_keywords_hold_for_the_operations_below_them_nearest_first(converted: Convert, openapi: str) -> None:
    found = converted(
        paths(),
        openapi=openapi,
        tags=[{"name": "shop", "x-keywords": ["store"]}, {"name": "people", "x-keywords": ["member"]}],
    )
    assert keywords(found) == {
        "listOrders": ("basket", "Sale", "purchase", "store"),
        "addOrder": ("purchase", "sale"),
        "listUsers": ("member",),
    }
    assert found.report.warnings == ()
    assert Conversion.from_json(found.to_json()) == found


def test_keywords_of_the_info_object_hold_for_all(converted: Convert) -> None:
    info = {"title": "T", "version": "1", "x-keywords": ["commerce"]}
    found = keywords(converted(paths(), info=info))
    assert all(words[-1] == "commerce" for words in found.values())


def test_an_operation_has_the_keywords_of_the_tags_around_its_tags(converted: Convert) -> None:
    tags = [{"name": "shop", "parent": "web"}, {"name": "web", "x-keywords": ["internet"]}]
    found = converted(paths(), openapi="3.2.0", tags=tags)
    assert keywords(found)["listOrders"][-1] == "internet"


def test_keywords_of_a_path_item_that_is_referred_to_are_read(converted: Convert) -> None:
    item = {"x-keywords": ["sale"], "get": {"operationId": "a"}}
    found = converted(
        {"/a": {"$ref": "#/components/pathItems/A"}},
        openapi="3.1.0",
        components={"pathItems": {"A": item}},
    )
    assert keywords(found) == {"a": ("sale",)}


def test_an_overlay_adds_keywords_and_the_language(converted: Convert) -> None:
    bare = {"/orders": {"get": {"operationId": "listOrders"}}}
    found = converted(bare, options=ConvertOptions(overlay=OVERLAY))
    assert keywords(found) == {"listOrders": ("purchase",)}
    assert found.language == "de"


def test_what_cannot_be_read_is_a_warning_with_its_pointer(converted: Convert) -> None:
    broken = paths()
    broken["/orders"]["get"]["x-keywords"] = ["basket", 7]
    broken["/orders"]["x-keywords"] = {"en": ["sale"]}
    broken["/users"]["get"]["x-keywords"] = ["k" * 101]
    found = converted(
        broken,
        info={"title": "T", "version": "1", "x-keywords": 7, "x-language": "german"},
        tags=[{"name": "shop", "x-keywords": [f"k{number}" for number in range(60)]}, None, "people"],
    )
    assert sorted(warnings(found)) == [
        "/info/x-keywords",
        "/info/x-language",
        "/paths/~1orders/get/x-keywords/1",
        "/paths/~1orders/x-keywords",
        "/paths/~1users/get/x-keywords/0",
        "/tags/0/x-keywords",
    ]
    assert keywords(found)["listUsers"] == ()
    assert keywords(found)["addOrder"] == ()
    assert found.language is None


def test_a_tool_has_at_most_fifty_keywords_with_a_note(converted: Convert) -> None:
    busy = paths()
    busy["/orders"]["get"]["x-keywords"] = [f"own{number}" for number in range(30)]
    busy["/orders"]["x-keywords"] = [f"path{number}" for number in range(30)]
    found = converted(busy)
    words = keywords(found)["listOrders"]
    assert len(words) == 50
    assert (words[0], words[-1]) == ("own0", "path19")
    (outcome,) = (one for one in found.report.operations if one.name == "listOrders")
    assert outcome.notes == ("10 of its keywords were left out: 50 stay",)


def test_a_document_without_them_has_none(converted: Convert) -> None:
    found = converted({"/a": {"get": {}}})
    assert [tool.keywords for tool in found.tools] == [()]
    assert found.language is None


def test_keywords_are_not_among_the_fields_without_an_effect(converted: Convert) -> None:
    assert all("keywords" not in one.field for one in converted(paths()).report.unread)
