"""Google Discovery documents as tools."""

from typing import Any

import jsonschema_rs
import orjson
import pytest

from app.openapi import Conversion, ConvertedTool, ConvertOptions
from app.openapi.conversion.convert import convert
from tests.harness.cases import for_each

BOOKS: dict[str, Any] = {
    "kind": "discovery#restDescription",
    "discoveryVersion": "v1",
    "id": "books:v1",
    "name": "books",
    "version": "v1",
    "title": "Books API",
    "description": "Lends books.",
    "rootUrl": "https://books.example.com/",
    "servicePath": "books/v1/",
    "batchPath": "batch",
    "auth": {
        "oauth2": {
            "scopes": {
                "https://auth.example.com/books": {"description": "Manage books"},
                "https://auth.example.com/books.readonly": {"description": "See books"},
            }
        }
    },
    "parameters": {
        "key": {"type": "string", "location": "query"},
        "alt": {"type": "string", "location": "query", "enum": ["json", "media"], "default": "json"},
        "fields": {"type": "string", "location": "query", "description": "Which fields to return."},
    },
    "schemas": {
        "Book": {
            "id": "Book",
            "type": "object",
            "properties": {
                "id": {"type": "string", "readOnly": True},
                "title": {"type": "string", "annotations": {"required": ["books.shelves.books.insert"]}},
                "isbn": {"type": "string", "required": True},
                "pages": {"type": "integer", "format": "int32", "default": "10", "minimum": "1"},
                "state": {"type": "string", "enum": ["NEW", "OLD"], "enumDescriptions": ["Unread.", "Read."]},
                "part": {"$ref": "Book", "description": "A part."},
                "extra": {"type": "object", "additionalProperties": {"type": "any"}},
                "lost": {"$ref": "Gone"},
            },
        }
    },
    "methods": {"ping": {"id": "books.ping", "path": "ping", "httpMethod": "GET"}},
    "resources": {
        "shelves": {
            "methods": {
                "list": {
                    "id": "books.shelves.list", "path": "shelves", "httpMethod": "GET", "description": "Lists.",
                    "parameters": {
                        "ids": {"type": "string", "location": "query", "repeated": True, "description": "Some."},
                        "max": {"type": "integer", "location": "query", "default": "5", "required": True},
                    },
                    "scopes": ["https://auth.example.com/books", "https://auth.example.com/books.readonly"],
                },
            },
            "resources": {
                "books": {
                    "methods": {
                        "insert": {
                            "id": "books.shelves.books.insert", "httpMethod": "POST",
                            "path": "v1/{+parent}/books", "flatPath": "v1/shelves/{shelvesId}/rows/{rowsId}/books",
                            "parameters": {"parent": {"type": "string", "location": "path", "required": True,
                                                      "description": "The row.", "pattern": "^shelves/[^/]+$"}},
                            "request": {"$ref": "Book"}, "response": {"$ref": "Book"},
                            "scopes": ["https://auth.example.com/books"],
                            "supportsMediaUpload": True, "mediaUpload": {"accept": ["*/*"]},
                        },
                        "get": {
                            "id": "books.shelves.books.get", "httpMethod": "GET", "path": "shelves/{shelf}/{book}",
                            "parameterOrder": ["shelf", "book"],
                            "parameters": {"book": {"type": "string", "location": "path", "required": True},
                                           "shelf": {"type": "integer", "location": "path", "required": True}},
                            "response": {"$ref": "Book"}, "supportsMediaDownload": True, "deprecated": True,
                        },
                        "peek": {"id": "books.shelves.books.peek", "httpMethod": "GET",
                                 "path": "shelves/{shelf}/{book}",
                                 "parameters": {"book": {"type": "string", "location": "path"},
                                                "shelf": {"type": "integer", "location": "path"}}},
                        "broken": {"id": "books.shelves.books.broken"},
                    }
                }
            },
        }
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def books() -> Conversion:
    return convert(orjson.dumps(BOOKS), options=ConvertOptions())


def tool(conversion: Conversion, name: str) -> ConvertedTool:
    return next(one for one in conversion.tools if one.name == name)


def test_each_method_of_each_resource_is_a_tool(books: Conversion) -> None:
    assert {one.source_key: one.name for one in books.tools} == {
        "GET /ping": "ping",
        "GET /shelves": "shelves_list",
        "POST /v1/shelves/{shelvesId}/rows/{rowsId}/books": "shelves_books_insert",
        "GET /shelves/{shelf}/{book}": "shelves_books_get",
        "GET /shelves/{shelf}/{book}#books.shelves.books.peek": "shelves_books_peek",
    }
    assert books.title == "Books API"
    assert books.origins == ("https://books.example.com",)
    assert tool(books, "shelves_books_insert").tags == ("shelves.books",)
    peek = tool(books, "shelves_books_peek").call_template["url"]
    assert peek == "https://books.example.com/books/v1/shelves/{shelf}/{book}"
    assert tool(books, "shelves_books_get").deprecated


def test_the_report_points_into_the_document(books: Conversion) -> None:
    assert {one.name: one.pointer for one in books.report.operations}["shelves_books_insert"] == (
        "/resources/shelves/resources/books/methods/insert"
    )
    warnings = {one.pointer: one.detail for one in books.report.warnings}
    assert "left out" in warnings["/resources/shelves/resources/books/methods/broken"]
    assert "key, alt" in warnings["/parameters"]
    assert any("Gone" in detail for detail in warnings.values())


def test_query_parameters_may_be_repeated_and_have_typed_defaults(books: Conversion) -> None:
    made = tool(books, "shelves_list")
    assert made.inputs["properties"]["ids"] == {
        "type": "array",
        "items": {"type": "string"},
        "description": "Some.",
    }
    assert made.inputs["properties"]["max"] == {"type": "integer", "default": 5}
    assert made.inputs["required"] == ["max"]
    assert "fields" in made.inputs["properties"]
    assert {"key", "alt"}.isdisjoint(made.inputs["properties"])


def test_a_path_of_several_segments_is_given_by_its_parts(books: Conversion) -> None:
    made = tool(books, "shelves_books_insert")
    assert made.inputs["required"] == ["shelvesId", "rowsId", "body"]
    assert "The row." in made.inputs["properties"]["rowsId"]["description"]
    assert any("shelvesId, rowsId" in note for note in made.notes)
    assert any("media upload is left out" in note for note in made.notes)
    assert list(tool(books, "shelves_books_get").inputs["required"]) == ["shelf", "book"]


def test_schemas_of_draft_3_become_those_of_2020_12(books: Conversion) -> None:
    made = tool(books, "shelves_books_insert")
    validator = jsonschema_rs.validator_for(made.inputs)
    path = {"shelvesId": "a", "rowsId": "b"}
    book = {"title": "A", "isbn": "1", "pages": 7, "extra": {"x": [1]}, "part": {"isbn": "2"}, "lost": 1}
    assert validator.is_valid({**path, "body": book})
    for missing in ("title", "isbn"):
        body = {key: value for key, value in book.items() if key != missing}
        assert not validator.is_valid({**path, "body": body})
    assert not validator.is_valid({**path, "body": {**book, "pages": 0}})
    definition = made.inputs["$defs"]["Book"]
    assert "id" not in definition["properties"]
    assert definition["properties"]["pages"]["default"] == 10
    assert "`OLD`: Read." in definition["properties"]["state"]["description"]
    assert "id" in made.outputs["properties"]


def test_any_one_scope_or_a_key_suffices(books: Conversion) -> None:
    def needs(name: str) -> list[list[str]]:
        return [[" ".join([one.slot, *one.scopes]) for one in each] for each in tool(books, name).security]

    assert needs("shelves_list") == [
        ["oauth2 https://auth.example.com/books"],
        ["oauth2 https://auth.example.com/books.readonly"],
        ["api_key"],
    ]
    assert needs("ping") == [["api_key"], []]
    slots = {one.name: one for one in books.slots}
    assert (slots["api_key"].location, slots["api_key"].parameter) == ("query", "key")
    assert slots["oauth2"].token_url == "https://oauth2.googleapis.com/token"


def test_a_download_may_be_asked_for(books: Conversion) -> None:
    made = tool(books, "shelves_books_get")
    assert made.inputs["properties"]["alt"]["enum"] == ["json", "media"]
    assert made.call_template["accept"] == "application/json, */*;q=0.9"


@for_each(
    "changed",
    [
        {"resources": 7}, {"schemas": []}, {"auth": {"oauth2": None}}, {"rootUrl": None}, {"parameters": "x"},
        {"resources": {"a": {"methods": {"b": 1, "c": {"httpMethod": "GET", "path": 5}, "d": {"httpMethod": [], "path": "x"}}}}},
    ],
)  # fmt: skip
def test_damaged_documents_cost_only_what_is_damaged(changed: Any) -> None:
    conversion = convert(
        orjson.dumps({**BOOKS, **changed}), options=ConvertOptions(base_url="https://books.example.com")
    )
    assert "ping" in [one.name for one in conversion.tools]
