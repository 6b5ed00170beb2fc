"""The contract keeps to the rules of docs/versioning.md since the newest release, and breaking changes are found."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from scripts.contract_difference import (
    ContractChange,
    compare_contracts,
    compare_with_release,
    newest_release,
    parse_version,
    project_version,
    report,
    required_version,
)
from scripts.names import current_names, removed_names
from tests.harness.cases import for_each

Json = dict[str, Any]

BASE: Json = {
    "openapi": "3.1.0",
    "info": {"title": "Gateway", "version": "1.0.0"},
    "paths": {
        "/books": {
            "get": {
                "operationId": "listBooks",
                "summary": "List books",
                "security": [{"apiKey": []}],
                "x-required-scopes": ["tools:read"],
                "parameters": [
                    {
                        "name": "limit",
                        "in": "query",
                        "schema": {"type": "integer", "maximum": 200, "default": 50},
                    },
                    {"name": "q", "in": "query", "schema": {"type": "string"}},
                    {"name": "sort", "in": "query", "schema": {"type": "string", "enum": ["name", "-name"]}},
                    {"name": "prefer", "in": "header", "schema": {"type": "string"}},
                ],
                "responses": {
                    "200": {
                        "description": "OK",
                        "headers": {"Link": {"schema": {"type": "string"}}},
                        "content": {
                            "application/json": {
                                "schema": {"type": "array", "items": {"$ref": "#/components/schemas/Book"}}
                            },
                            "text/csv": {"schema": {"type": "string"}},
                        },
                    },
                    "404": {"description": "Not found", "content": {"application/problem+json": {}}},
                },
            },
            "post": {
                "operationId": "createBook",
                "summary": "Create a book",
                "security": [{"apiKey": []}],
                "parameters": [],
                "requestBody": {
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/NewBook"}},
                        "application/yaml": {"schema": {"type": "string", "maxLength": 10}},
                    }
                },
                "responses": {"201": {"description": "Created"}, "202": {"description": "Accepted"}},
            },
        }
    },
    "components": {
        "schemas": {
            "Book": {
                "type": "object",
                "properties": {
                    "title": {"type": "string"},
                    "state": {"type": "string", "enum": ["new", "lent"]},
                    "scopes": {"type": "array", "items": {"type": "string", "enum": ["tools:read"]}},
                    "author": {"$ref": "#/components/schemas/Author", "description": "Who wrote it."},
                },
                "required": ["title", "state"],
            },
            "Author": {"type": "object", "properties": {"name": {"type": "string"}}},
            "NewBook": {
                "type": "object",
                "properties": {
                    "title": {"type": "string", "maxLength": 100},
                    "pages": {"type": ["integer", "null"]},
                    "shelf": {"type": "string", "enum": ["a", "b"]},
                },
                "required": ["title"],
                "additionalProperties": False,
            },
        },
        "securitySchemes": {"apiKey": {"type": "http", "scheme": "bearer"}},
    },
}


def listing(document: Json) -> Json:
    return document["paths"]["/books"]["get"]


def creation(document: Json) -> Json:
    return document["paths"]["/books"]["post"]


def ok(document: Json) -> Json:
    return listing(document)["responses"]["200"]


def schema(document: Json, name: str) -> Json:
    return document["components"]["schemas"][name]


def found(change: Callable[[Json], Any]) -> list[tuple[str, bool]]:
    new = deepcopy(BASE)
    change(new)
    return [
        (f"{one.operation} | {one.place} | {one.pointer} | {one.detail}", one.is_breaking)
        for one in compare_contracts(BASE, new)
    ]


BREAKING: list[tuple[str, Callable[[Json], Any], str]] = [
    ("operation removed", lambda d: d["paths"]["/books"].pop("get"), "GET /books |  |  | The operation was removed."),
    ("operationId renamed", lambda d: listing(d).update(operationId="books"), "operationId"),
    ("parameter removed", lambda d: listing(d)["parameters"].pop(1), "query parameter |  | q was removed."),
    ("header parameter removed", lambda d: listing(d)["parameters"].pop(3), "header parameter |  | prefer was removed."),
    ("parameter moved", lambda d: listing(d)["parameters"][1].update({"in": "header"}), "q was removed."),
    ("parameter required", lambda d: listing(d)["parameters"][1].update(required=True), "/q | The property is required now."),
    ("required parameter added", lambda d: listing(d)["parameters"].append(
        {"name": "lang", "in": "query", "required": True, "schema": {"type": "string"}}), "/lang | The property is required now."),
    ("default changed", lambda d: listing(d)["parameters"][0]["schema"].update(default=20), "The default of limit is 20 instead of 50."),
    ("limit narrowed", lambda d: listing(d)["parameters"][0]["schema"].update(maximum=100), "/limit | maximum is 100 instead of 200."),
    ("enum of a parameter narrowed", lambda d: listing(d)["parameters"][2]["schema"].update(enum=["name"]), "/sort | '-name' is no longer accepted."),
    ("scope changed", lambda d: listing(d).update({"x-required-scopes": ["admin"]}), "It requires admin instead of tools:read."),
    ("authentication added", lambda d: creation(d).update(security=[{"apiKey": ["x"]}]), "| auth |"),
    ("security scheme changed", lambda d: d["components"]["securitySchemes"]["apiKey"].update(scheme="basic"), "| auth |"),
    ("body required", lambda d: creation(d)["requestBody"].update(required=True), "request body |  | It is required now."),
    ("media type of a request removed", lambda d: creation(d)["requestBody"]["content"].pop("application/yaml"), "The media type application/yaml was removed."),
    ("another media type narrowed", lambda d: creation(d)["requestBody"]["content"]["application/yaml"]["schema"].update(maxLength=5), "maxLength is 5 instead of 10."),
    ("property of a request removed", lambda d: schema(d, "NewBook")["properties"].pop("pages"), "/body/pages | The property was removed."),
    ("property of a request required", lambda d: schema(d, "NewBook")["required"].append("pages"), "/body/pages | The property is required now."),
    ("required property of a request added", lambda d: (
        schema(d, "NewBook")["properties"].update(isbn={"type": "string"}), schema(d, "NewBook")["required"].append("isbn")
    ), "/body/isbn | The property is required now."),
    ("type of a request narrowed", lambda d: schema(d, "NewBook")["properties"].update(pages={"type": "integer"}), "/body/pages | It must be integer now."),
    ("enum of a request narrowed", lambda d: schema(d, "NewBook")["properties"]["shelf"].update(enum=["a"]), "/body/shelf | 'b' is no longer accepted."),
    ("length of a request narrowed", lambda d: schema(d, "NewBook")["properties"]["title"].update(maxLength=50), "/body/title | maxLength is 50 instead of 100."),
    ("pattern of a request added", lambda d: schema(d, "NewBook")["properties"]["title"].update(pattern="^A"), "/body/title | There is a pattern now."),
    ("status removed", lambda d: creation(d)["responses"].pop("202"), "response 202 |  | The status was removed."),
    ("media type of a response removed", lambda d: ok(d)["content"].pop("text/csv"), "response 200 |  | The media type text/csv was removed."),
    ("media type of a problem changed", lambda d: listing(d)["responses"]["404"].update(content={"text/plain": {}}), "The media type application/problem+json was removed."),
    ("header of a response removed", lambda d: ok(d).update(headers={}), "The header Link was removed."),
    ("header of a response changed", lambda d: ok(d)["headers"]["Link"]["schema"].update(type="integer"), "response 200 header Link"),
    ("property of a response removed", lambda d: schema(d, "Book")["properties"].pop("title"), "response 200 application/json | /*/title | The property was removed."),
    ("property of a response renamed", lambda d: schema(d, "Book")["properties"].update(
        name=schema(d, "Book")["properties"].pop("title")), "response 200 application/json | /*/title | The property was removed."),
    ("nested property of a response removed", lambda d: schema(d, "Author")["properties"].pop("name"), "/*/author/name | The property was removed."),
    ("property of a response optional", lambda d: schema(d, "Book").update(required=["title"]), "/*/state | The property is no longer required."),
    ("property of a response nullable", lambda d: schema(d, "Book")["properties"].update(
        title={"anyOf": [{"type": "string"}, {"type": "null"}]}), "/*/title | There are further alternatives."),
    ("type of a response changed", lambda d: schema(d, "Book")["properties"].update(title={"type": "integer"}), "/*/title | It is integer instead of string."),
    ("enum of a response widened", lambda d: schema(d, "Book")["properties"]["state"].update(enum=["new", "lent", "lost"]), "/*/state | 'lost' is accepted now."),
]  # fmt: skip

COMPATIBLE: list[tuple[str, Callable[[Json], Any]]] = [
    ("operation added", lambda d: d["paths"]["/books"].update(put={**creation(d), "operationId": "putBook"})),
    ("texts changed", lambda d: (listing(d).update(summary="Books"), schema(d, "Book").update(description="A book."))),
    ("optional parameter added", lambda d: listing(d)["parameters"].append({"name": "lang", "in": "query", "schema": {"type": "string"}})),
    ("limit widened", lambda d: listing(d)["parameters"][0]["schema"].update(maximum=500)),
    ("optional property of a request added", lambda d: schema(d, "NewBook")["properties"].update(isbn={"type": "string"})),
    ("property of a request nullable", lambda d: schema(d, "NewBook")["properties"].update(
        title={"anyOf": [{"type": "string", "maxLength": 100}, {"type": "null"}]})),
    ("media type of a request added", lambda d: creation(d)["requestBody"]["content"].update({"text/plain": {}})),
    ("property of a response added", lambda d: schema(d, "Book")["properties"].update(isbn={"type": "string"})),
    ("property of a response required", lambda d: schema(d, "Book")["required"].append("author")),
    ("enum of a response narrowed", lambda d: schema(d, "Book")["properties"]["state"].update(enum=["new"])),
    ("error status added", lambda d: listing(d)["responses"].update({"429": {"description": "Slow down"}})),
    ("error status removed", lambda d: listing(d)["responses"].pop("404")),
    ("header of a response added", lambda d: ok(d)["headers"].update(ETag={"schema": {"type": "string"}})),
    ("scopes added to those of a response", lambda d: schema(d, "Book")["properties"]["scopes"]["items"]["enum"].extend(["recordings:read", "recordings:write"])),
    ("scope added to those of a response", lambda d: schema(d, "Book")["properties"]["scopes"]["items"]["enum"].append("executors:connect")),
    ("scopes added to those of a response", lambda d: schema(d, "Book")["properties"]["scopes"]["items"]["enum"].extend(["executors:connect", "agent-tests:run"])),
    ("operation deprecated", lambda d: listing(d).update(deprecated=True)),
]  # fmt: skip


@for_each(("change", "line"), [case[1:] for case in BREAKING], ids=[case[0] for case in BREAKING])
def test_a_breaking_change_is_found_and_named(change: Callable[[Json], Any], line: str) -> None:
    assert any(line in text and is_breaking for text, is_breaking in found(change)), found(change)


@for_each("change", [case[1] for case in COMPATIBLE], ids=[case[0] for case in COMPATIBLE])
def test_a_compatible_change_is_not_breaking(change: Callable[[Json], Any]) -> None:
    assert not any(is_breaking for _, is_breaking in found(change)), found(change)


def test_equal_contracts_have_no_differences() -> None:
    assert compare_contracts(BASE, deepcopy(BASE)) == []


def test_a_change_of_a_shared_component_is_listed_once_with_its_operations() -> None:
    old = deepcopy(BASE)
    for number in range(6):
        old["paths"][f"/shelves/{number}"] = {"get": {**listing(old), "operationId": f"list{number}"}}
    new = deepcopy(old)
    schema(new, "Book")["properties"].pop("title")
    lines, allowed = report("1.0.0", "1.1.0", compare_contracts(old, new))
    assert not allowed
    assert lines == [
        "The contract of 1.1.0, compared with that of release 1.0.0:",
        "Breaking: 1",
        "  GET /books, GET /shelves/0, GET /shelves/1, GET /shelves/2 and 3 more: response 200 application/json, /*/title: The property was removed.",
        "Compatible: 0",
        "Version 1.1.0 in pyproject.toml may not have these changes: undo the breaking ones, or raise the version to 2.0.0. docs/versioning.md has the rules.",
    ]  # fmt: skip


@pytest.mark.parametrize(("release", "is_breaking", "needed"), [
    ("0.2.0", False, (0, 2, 0)), ("0.2.3", True, (0, 3, 0)), ("1.4.2", False, (1, 4, 2)), ("1.4.2", True, (2, 0, 0)),
])  # fmt: skip
def test_a_breaking_change_needs_a_major_version_and_before_1_0_0_a_minor_one(
    release: str, is_breaking: bool, needed: tuple[int, int, int]
) -> None:
    assert required_version(parse_version(release), is_breaking=is_breaking) == needed


def test_versions_are_ordered_by_number() -> None:
    assert parse_version("0.10.0") > parse_version("0.9.1")
    with pytest.raises(ValueError, match="is not a version"):
        parse_version("1.0")


def test_nothing_is_broken_that_the_newest_release_promised() -> None:
    release = newest_release()
    assert release is not None
    lines, allowed = report(release, project_version(), compare_with_release(release))
    assert allowed, "\n".join(lines)


@for_each(("kind", "name", "sentence"), [
    ("problem_types", "not-found with status 404", "The problem type not-found with status 404 was removed."),
    ("scopes", "tools:call", "The scope tools:call was removed."),
    ("settings", "CALL_LOG_MODE", "The setting CALL_LOG_MODE was removed."),
    ("commands", "tools list", "The command tools list was removed."),
    ("commands", "tools list --limit", "The command tools list --limit was removed."),
    ("metrics", "utcp_gateway_calls{provider, outcome}", "The metric utcp_gateway_calls{provider, outcome} was removed."),
])  # fmt: skip
def test_a_name_that_was_removed_is_a_breaking_change(kind: str, name: str, sentence: str) -> None:
    names = current_names()
    fewer = {**names, kind: [one for one in names[kind] if one != name]}
    assert removed_names(names, fewer) == [sentence]
    assert removed_names(fewer, names) == []
    change = ContractChange("", "", "", sentence, is_breaking=True)
    lines, allowed = report("1.0.0", "1.1.0", [change])
    assert not allowed
    assert f"  {sentence}" in lines
