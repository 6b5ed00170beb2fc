"""Parameters: merging, styles, names of inputs, and placeholders."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from app.openapi import ConvertedTool
from tests.harness.cases import for_each
from tests.unit.openapi.conftest import Convert, ConvertOne


def plan(made: ConvertedTool) -> dict[str, Any]:
    return {one["input"]: one for one in made.call_template["parameters"]}


def query(name: Any = "q", **rest: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": "string"}, **rest}


def test_the_operation_overrides_the_path_and_keeps_the_order(converted: Convert) -> None:
    item = {
        "parameters": [query("a"), query("b", required=True)],
        "get": {"parameters": [query("c"), query("a", description="mine", required=True)]},
    }
    [made] = converted({"/x": item}).tools
    assert list(made.inputs["properties"]) == ["a", "b", "c"]
    assert made.inputs["properties"]["a"] == {"type": "string", "description": "mine"}
    assert made.inputs["required"] == ["a", "b"]
    assert [one["input"] for one in made.call_template["parameters"]] == ["a", "b", "c"]


def test_header_names_are_one_in_any_case(converted: Convert) -> None:
    def header(name: str) -> dict[str, Any]:
        return {"name": name, "in": "header", "schema": {}}

    item = {"parameters": [header("X-Key")], "get": {"parameters": [header("x-key")]}}
    [made] = converted({"/x": item}).tools
    assert list(plan(made)) == ["x-key"]


@for_each(
    ("where", "given", "style", "explode"),
    [
        ("query", {}, "form", True),
        ("query", {"explode": False}, "form", False),
        ("query", {"style": "spaceDelimited"}, "spaceDelimited", False),
        ("query", {"style": "pipeDelimited", "explode": True}, "pipeDelimited", True),
        ("query", {"style": "deepObject"}, "deepObject", True),
        ("query", {"style": "matrix"}, "form", True),
        ("query", {"style": ["form"]}, "form", True),
        ("header", {}, "simple", False),
        ("header", {"explode": True}, "simple", True),
        ("cookie", {}, "form", True),
        ("path", {}, "simple", False),
        ("path", {"style": "label", "explode": True}, "label", True),
        ("path", {"style": "matrix"}, "matrix", False),
    ],
)
def test_styles(tool: ConvertOne, where: str, given: Any, style: str, explode: bool) -> None:
    made = tool({"parameters": [{"name": "p", "in": where, "schema": {}, **given}]}, path="/x/{p}")
    [one] = [one for one in made.call_template["parameters"] if one["in"] == where and one["name"] == "p"]
    assert (one["style"], one["explode"]) == (style, explode)


@for_each(
    ("version", "beside", "target", "became"),
    [
        ("3.1.0", {"description": "mine"}, {"description": "its"}, "mine"),
        ("3.1.0", {"summary": "short", "description": "mine"}, {}, "mine"),
        ("3.2.0", {"summary": "short"}, {}, "short"),
        ("3.1.0", {"summary": "short"}, {"description": "its"}, "its"),
        ("3.1.0", {"description": 7}, {"description": "its"}, "its"),
        ("3.1.0", {"description": "mine", "$ref": "#/components/X/again"}, {"description": "its"}, "mine"),
        ("3.1.0", {"$ref": "#/components/X/again"}, {"description": "its"}, "between"),
        ("3.0.3", {"description": "mine"}, {"description": "its"}, "its"),
    ],
)
def test_texts_beside_a_reference_replace_those_of_its_target(
    converted: Convert, version: str, beside: dict[str, Any], target: dict[str, Any], became: str
) -> None:
    def referred(kind: str, value: Any) -> tuple[Any, dict[str, Any]]:
        again = {"$ref": f"#/components/{kind}/plain", "description": "between"}
        reference = {"$ref": f"#/components/{kind}/plain", **beside}
        reference["$ref"] = reference["$ref"].replace("X", kind)
        return reference, {kind: {"plain": {**value, **target}, "again": again}}

    parameter, parameters = referred("parameters", query("q"))
    body, bodies = referred(
        "requestBodies", {"content": {"application/json": {"schema": {"type": "string"}}}}
    )
    scheme, schemes = referred("securitySchemes", {"type": "http", "scheme": "basic"})
    schemes["securitySchemes"]["s"] = scheme
    operation = {"parameters": [parameter], "requestBody": body, "security": [{"s": []}]}
    made = converted({"/x": {"post": operation}}, openapi=version, components=parameters | bodies | schemes)
    [slot], inputs = made.slots, made.tools[0].inputs["properties"]
    assert [inputs["q"]["description"], inputs["body"]["description"], slot.description] == [became] * 3
    unread = {field.field for field in made.report.unread if field.object == "Reference Object"}
    # The description of the reference between is not read in 3.0, either.
    assert unread == ({"description"} if version == "3.0.3" else set())


def test_allow_reserved_leaves_a_path_parameter_in_its_segment_and_the_report_says_so(
    converted: Convert,
) -> None:
    parameter = {"name": "a", "in": "path", "required": True, "allowReserved": True}
    made = converted({"/x/{a}": {"get": {"parameters": [parameter]}}}, openapi="3.2.0")
    assert plan(made.tools[0])["a"]["allow_reserved"] is True
    [warning] = made.report.warnings
    assert warning.pointer == "/paths/~1x~1{a}/get/parameters/0/allowReserved"


def test_allow_reserved_and_content(tool: ConvertOne) -> None:
    content = {"text/plain": {}, "application/json": {"schema": {"type": "object"}}}
    made = tool({"parameters": [
        query("a", allowReserved=True), {"name": "b", "in": "query", "content": content},
    ]})  # fmt: skip
    assert plan(made)["a"]["allow_reserved"] is True
    assert plan(made)["b"]["content_type"] == "application/json"
    assert made.inputs["properties"]["b"] == {"type": "object"}


@for_each(
    ("collection", "where", "style", "explode"),
    [
        (None, "query", "form", False),
        ("csv", "query", "form", False),
        ("ssv", "query", "spaceDelimited", False),
        ("tsv", "query", "tabDelimited", False),
        ("pipes", "query", "pipeDelimited", False),
        ("multi", "query", "form", True),
        ("csv", "header", "simple", False),
        ("pipes", "path", "pipeDelimited", False),
    ],
)
def test_swagger_2_collection_formats(
    tool: ConvertOne, collection: str | None, where: str, style: str, explode: bool
) -> None:
    parameter = {"name": "p", "in": where, "required": True, "type": "array", "items": {"type": "integer"}}
    if collection:
        parameter["collectionFormat"] = collection
    made = tool({"parameters": [parameter]}, path="/x/{p}" if where == "path" else "/x", openapi="2.0")
    assert (plan(made)["p"]["style"], plan(made)["p"]["explode"]) == (style, explode)
    assert made.inputs["properties"]["p"] == {"type": "array", "items": {"type": "integer"}}


def test_same_names_are_kept_apart_by_their_place(tool: ConvertOne) -> None:
    where = [
        {"name": "id", "in": place, "schema": {"const": place}}
        for place in ("cookie", "header", "query", "path")
    ]
    content = {"application/json": {"schema": {}}}
    made = tool(
        {"parameters": [*where, query("body")], "requestBody": {"content": content}},
        path="/x/{id}",
        method="post",
    )
    properties = made.inputs["properties"]
    assert {key: schema.get("const") for key, schema in properties.items() if key not in ("body", "body_query")} == {
        "id": "path", "id_query": "query", "id_header": "header", "id_cookie": "cookie",
    }  # fmt: skip
    assert plan(made)["body_query"]["name"] == "body"
    assert made.call_template["body"]["input"] == "body"


def test_odd_names_get_legal_keys_and_keep_their_wire_names(tool: ConvertOne) -> None:
    names = ["$filter", "filter", "ids[]", "filter[x]", "ø", "æ", "x" * 80, "a b", "a_b", "a.b-c"]
    made = tool({"parameters": [query(name) for name in names]})
    keys = list(made.inputs["properties"])
    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key) for key in keys)
    assert [one["name"] for one in made.call_template["parameters"]] == names
    assert keys[1] == "filter"
    assert keys[0] == "filter_query"
    assert keys[2:4] == ["ids", "filter_x"]
    assert keys[8:] == ["a_b", "a.b-c"]
    assert len(set(keys)) == len(names)


def test_headers_that_are_described_elsewhere_or_framing_are_no_inputs(tool: ConvertOne) -> None:
    names = [
        "Accept",
        "content-type",
        "AUTHORIZATION",
        "Host",
        "Cookie",
        "X-Forwarded-For",
        "Proxy-Authorization",
    ]
    headers = [{"name": name, "in": "header", "required": True, "schema": {}} for name in [*names, "X-Mine"]]
    made = tool({"parameters": headers})
    assert list(made.inputs["properties"]) == ["X-Mine"]
    assert made.inputs["required"] == ["X-Mine"]
    assert len(made.notes) == len(names)


def test_what_a_stored_credential_sets_is_no_input(tool: ConvertOne) -> None:
    schemes = {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}
    header = {"name": "x-key", "in": "header", "required": True, "schema": {}}
    guarded = tool(
        {"parameters": [header], "security": [{"key": []}]}, components={"securitySchemes": schemes}
    )
    public = tool({"parameters": [header], "security": []}, components={"securitySchemes": schemes})
    assert guarded.inputs["properties"] == {}
    assert list(public.inputs["properties"]) == ["x-key"]


# Placeholders ------------------------------------------------------------------------------------------------


def test_undeclared_placeholders_become_required_texts(tool: ConvertOne) -> None:
    made = tool(
        {"parameters": [{"name": "a", "in": "path", "schema": {"type": "integer"}}]}, path="/{a}/{b}/{a}"
    )
    assert made.inputs["required"] == ["a", "b"]
    assert made.inputs["properties"] == {"a": {"type": "integer"}, "b": {"type": "string"}}
    assert plan(made)["b"]["in"] == "path"


@for_each(
    ("path", "declared", "url", "filled"),
    [
        ("/x/{petID}", "pet_id", "/x/{petID}", ["petID"]),
        ("/x/{id:[0-9]+}", "id", "/x/{id}", ["id"]),
        ("/x/{rest*}", "rest", "/x/{rest}", ["rest"]),
        ("/x/{+rest}", "rest", "/x/{rest}", ["rest"]),
        ("/x", "gone", "/x", []),
        ("/x/{id}{?page,size}", "id", "/x/{id}", ["id"]),
    ],
)
def test_templates_that_do_not_match_are_mended(
    tool: ConvertOne, path: str, declared: str, url: str, filled: list[str]
) -> None:
    made = tool({"parameters": [{"name": declared, "in": "path", "required": True, "schema": {}}]}, path=path)
    assert made.call_template["url"] == f"https://api.example.com/v1{url}"
    assert [one["name"] for one in made.call_template["parameters"]] == filled


def test_a_placeholder_in_the_query_is_filled_once(tool: ConvertOne) -> None:
    made = tool({"parameters": [query("q")]}, path="/search?q={q}&z={z}")
    assert made.call_template["url"] == "https://api.example.com/v1/search?q={q}&z={z}"
    assert {key: one["in"] for key, one in plan(made).items()} == {"q": "path", "z": "path"}
    assert made.inputs["required"] == ["q", "z"]


def test_a_fragment_in_the_path_names_the_operation_only(converted: Convert) -> None:
    conversion = converted({"/#Action=List": {"get": {}}, "/#Action=Add": {"get": {}}})
    assert {made.call_template["url"] for made in conversion.tools} == {"https://api.example.com/v1/"}
    assert len({made.name for made in conversion.tools}) == 2


def test_the_literal_part_of_a_path_is_percent_encoded(tool: ConvertOne) -> None:
    made = tool({}, path="/a b/ø/%20/{c}/$count(x='y')/{unclosed")
    assert made.call_template["url"] == (
        "https://api.example.com/v1/a%20b/%C3%B8/%20/{c}/$count(x='y')/%7Bunclosed"
    )


@for_each("path", ["/../admin", "/a/./b", "/a/%2e%2E/b", "/a/%252e%252e", "/..", "/" + "a" * 9_000])
def test_paths_that_would_be_collapsed_or_are_too_long_cost_the_operation(
    reason: Callable[..., tuple[str, str]], path: str
) -> None:
    said, _ = reason({}, path=path)
    assert "dot segments" in said or "characters" in said


# Broken ones -------------------------------------------------------------------------------------------------


@for_each(
    "broken",
    [None, 7, "x", [], {}, {"name": "a"}, {"name": "a", "in": "nowhere"}, {"name": 7.5, "in": []},
     {"name": "a\r\nb", "in": "header"}, {"name": "a=b; c", "in": "cookie"}, {"in": "query"}, {"name": "", "in": "query"}],
)  # fmt: skip
def test_a_broken_parameter_costs_itself_and_a_required_one_the_operation(
    tool: ConvertOne, reason: Callable[..., tuple[str, str]], broken: Any
) -> None:
    made = tool({"parameters": [broken, query()]})
    assert list(made.inputs["properties"]) == ["q"]
    assert len(made.notes) == 1
    if isinstance(broken, dict):
        _, pointer = reason({"parameters": [{**broken, "required": True}]})
        assert pointer == "/paths/~1x/get/parameters/0"


@pytest.mark.parametrize("broken", [{}, "x", 7])
def test_parameters_that_are_no_list_are_left_out(tool: ConvertOne, broken: Any) -> None:
    assert tool({"parameters": broken}).inputs["properties"] == {}


def test_a_dangling_parameter_is_left_out_and_a_placeholder_stands_in_for_it(converted: Convert) -> None:
    operation = {"parameters": [{"$ref": "#/components/parameters/Gone"}]}
    conversion = converted({"/x/{id}": {"get": operation}})
    [made] = conversion.tools
    assert made.inputs["required"] == ["id"]
    assert any("does not exist" in note for note in made.notes)
    assert [one.pointer for one in conversion.report.warnings] == ["/paths/~1x~1{id}/get/parameters/0/$ref"]
