"""Whole documents: isolation of defects, the report, texts, and the samples."""

from pathlib import Path
from typing import Any

import jsonschema_rs
import orjson
import pytest

from app.core.errors import InvalidDocument, TooLarge
from app.formats.archive import DocumentLimits
from app.openapi import Conversion, ConvertOptions
from app.openapi.conversion.convert import convert
from app.security.requirements import SlotRequirement
from tests.harness.cases import for_each
from tests.unit.openapi.conftest import Convert, ConvertOne, document

SAMPLES = Path(__file__).parents[3] / "openapi" / "samples"
ODD = [None, True, 7, 1.5, "x", [], {}, [None], {"a": None}, {"$ref": 7}, {"$ref": "#/gone"}, {"": ""}]


def test_a_defect_costs_its_own_operation_and_says_where(converted: Convert) -> None:
    good = {"operationId": "good", "responses": {}}
    bad = {"operationId": "bad", "parameters": [{"in": "query", "required": True}]}
    conversion = converted({"/a": {"get": good}, "/b": {"get": bad}, "/c": {"get": "x"}, "/d": {"post": {}}})
    assert [made.name for made in conversion.tools] == ["good", "post_d"]
    assert conversion.report.counts.to_json() == {"operations": 4, "accepted": 2, "renamed": 0, "skipped": 2}
    skipped = [one for one in conversion.report.operations if one.outcome == "skipped"]
    assert [(one.source_key, one.pointer) for one in skipped] == [
        ("GET /b", "/paths/~1b/get/parameters/0"), ("GET /c", "/paths/~1c/get"),
    ]  # fmt: skip
    assert all(one.reason for one in skipped)


def test_renamed_operations_count_as_accepted(converted: Convert) -> None:
    conversion = converted({"/a": {"get": {"operationId": "a.b"}, "put": {"operationId": "c"}, "post": {}}})
    assert [one.outcome for one in conversion.report.operations] == ["renamed", "accepted", "accepted"]
    assert conversion.report.counts.to_json() == {"operations": 3, "accepted": 3, "renamed": 1, "skipped": 0}


@for_each(
    "key",
    ["parameters", "requestBody", "responses", "security", "servers", "tags", "summary", "description",
     "operationId", "deprecated", "callbacks", "consumes", "produces", "schemes"],
)  # fmt: skip
@for_each("openapi", ["2.0", "3.0.0", "3.1.0"])
def test_odd_values_in_an_operation_never_hurt_its_neighbour(
    converted: Convert, openapi: str, key: str
) -> None:
    for odd in ODD:
        paths = {"/a": {"post": {key: odd}}, "/b": {"get": {"operationId": "good"}}}
        conversion = converted(paths, openapi=openapi)
        assert "good" in [made.name for made in conversion.tools], odd
        assert len(conversion.report.operations) == 2


@for_each(
    "key", ["info", "servers", "security", "components", "tags", "definitions", "host", "basePath", "schemes",
            "securityDefinitions", "webhooks", "consumes", "x-anything", "externalDocs", "parameters"],
)  # fmt: skip
@for_each("openapi", ["2.0", "3.1.0"])
def test_odd_values_at_the_root_never_refuse_the_document(converted: Convert, openapi: str, key: str) -> None:
    options = ConvertOptions(url="https://docs.example.com/")
    for odd in ODD:
        conversion = converted(
            {"/a": {"get": {"security": []}}}, openapi=openapi, options=options, **{key: odd}
        )
        assert len(conversion.report.operations) == 1, odd


@for_each(
    "where",
    [("content",), ("content", "application/json"), ("content", "application/json", "schema"),
     ("content", "multipart/form-data", "encoding"), ("content", "multipart/form-data", "schema", "properties"),
     ("content", "application/json", "schema", "properties", "a")],
)  # fmt: skip
def test_odd_values_in_a_body_never_hurt_a_neighbour(converted: Convert, where: tuple[str, ...]) -> None:
    for value in ODD:
        odd: Any = value
        for key in reversed(where):
            odd = {key: odd}
        paths = {"/a": {"post": {"requestBody": odd}}, "/b": {"get": {"operationId": "good"}}}
        assert converted(paths).tools[-1].name == "good", value


@for_each("item", [None, 7, "x", [], {"$ref": "other.yaml"}, {"$ref": "#/gone"}, {"$ref": "#/paths/~1a"}])
def test_odd_paths_cost_themselves(converted: Convert, item: Any) -> None:
    conversion = converted({"/a": item, "x-b": "text", "/c": {"get": {}}})
    assert [made.name for made in conversion.tools] == ["get_c"]


def test_path_items_may_be_references_with_something_beside(converted: Convert) -> None:
    paths = {
        "/a": {"$ref": "#/components/pathItems/A", "parameters": [{"name": "q", "in": "query"}]},
        "/b": {"$ref": "#/paths/~1c~1%7Bid%7D"},
        "/c/{id}": {"put": {}},
    }
    conversion = converted(paths, components={"pathItems": {"A": {"get": {}, "post": {}}}}, openapi="3.1.0")
    assert [made.source_key for made in conversion.tools] == ["GET /a", "POST /a", "PUT /b", "PUT /c/{id}"]
    assert list(conversion.tools[0].inputs["properties"]) == ["q"]


def test_all_nine_methods_in_any_case_and_nothing_else(converted: Convert) -> None:
    methods = ["get", "PUT", "post", "delete", "options", "head", "patch", "trace", "query"]
    conversion = converted({"/a": {key: {} for key in [*methods, "link", "x-get"]}})
    assert [made.call_template["http_method"] for made in conversion.tools] == [
        one.upper() for one in methods
    ]


def test_webhooks_and_callbacks_are_no_tools(converted: Convert) -> None:
    operation = {"callbacks": {"done": {"{$request.body#/url}": {"post": {}}}}}
    conversion = converted({"/a": {"get": operation}}, openapi="3.1.0", webhooks={"w": {"post": {}}})
    assert len(conversion.tools) == 1


@pytest.mark.parametrize("version", ["1.2", "4.0.0", "2.1", "3"])
def test_versions(version: str) -> None:
    raw = orjson.dumps({"openapi": version, "paths": {}})
    if version == "3":
        assert convert(raw).tools == ()
        return
    with pytest.raises(InvalidDocument, match="Version"):
        convert(raw)


def test_a_version_written_as_a_yaml_number_is_read() -> None:
    assert convert(b"openapi: 3.0\nservers: [{url: https://a.example}]\npaths: {/a: {get: {}}}").tools
    assert convert(b"swagger: 2.0\nhost: a.example\npaths: {/a: {get: {}}}").tools


@pytest.mark.parametrize("paths", [[], "x", 7])
def test_paths_that_are_no_map_refuse_the_document(paths: Any) -> None:
    with pytest.raises(InvalidDocument) as refused:
        convert(orjson.dumps(document(paths)))
    assert refused.value.errors[0].pointer == "/paths"


def test_the_number_of_operations_is_limited() -> None:
    raw = orjson.dumps(document({f"/{i}": {"get": {}} for i in range(11)}))
    with pytest.raises(TooLarge):
        convert(raw, options=ConvertOptions(limits=DocumentLimits(operations=10)))


# What is said of a tool --------------------------------------------------------------------------------------


@for_each(
    ("summary", "description", "became"),
    [
        ("S", "D", "S\n\nD"), ("S", None, "S"), (None, "D", "D"), ("S", "S and more", "S and more"),
        (None, None, "GET /x"), ("", 7, "GET /x"), ("a\u200b\u202eb\x07", "c\r\nd\u2028e", "ab\n\nc\nd\ne"),
    ],
)  # fmt: skip
def test_descriptions(tool: ConvertOne, summary: Any, description: Any, became: str) -> None:
    assert tool({"summary": summary, "description": description}).description == became


def test_long_descriptions_are_cut_with_a_note(tool: ConvertOne) -> None:
    made = tool({"description": "x" * 5_000})
    assert len(made.description) == 4_000
    assert made.notes == ("the description was cut at 4000 characters",)


def test_tags_and_deprecation(tool: ConvertOne) -> None:
    made = tool({"tags": ["b", "a", "b", 7, None, "", "c\u202ed", {}], "deprecated": True})
    assert made.tags == ("b", "a", "7", "cd")
    assert made.deprecated


def test_inputs_are_a_closed_object_without_combinators(tool: ConvertOne) -> None:
    content = {"application/json": {"schema": {"oneOf": [{"type": "string"}, {"type": "object"}]}}}
    made = tool({"requestBody": {"content": content, "required": True}}, method="post")
    assert made.inputs == {
        "type": "object",
        "properties": {"body": {"oneOf": [{"type": "string"}, {"type": "object"}]}},
        "required": ["body"],
        "additionalProperties": False,
    }


# The samples -------------------------------------------------------------------------------------------------


def sample(name: str) -> Conversion:
    options = ConvertOptions(url="https://docs.library.example.org/spec/openapi.json")
    return convert((SAMPLES / name).read_bytes(), options=options)


@pytest.mark.parametrize("name", ["petstore-2.0.json", "library-3.0.json", "parcels-3.1.yaml"])
def test_samples_give_tools_that_a_validator_and_json_take(name: str) -> None:
    conversion = sample(name)
    assert Conversion.from_json(orjson.loads(conversion.to_bytes())) == conversion
    assert len(conversion.tools) >= 5
    for made in conversion.tools:
        for schema in (made.inputs, made.outputs):
            jsonschema_rs.meta.validate(schema)
            jsonschema_rs.validator_for(schema)


def test_the_petstore() -> None:
    conversion = sample("petstore-2.0.json")
    assert conversion.report.counts.skipped == 0
    assert conversion.origins == ("https://petshop.example.com",)
    tools = {made.name: made for made in conversion.tools}
    assert tools["listPets"].security == (
        (SlotRequirement("shop_auth", ("read:pets",)),),
        (SlotRequirement("shop_key"),),
    )
    assert tools["getPet"].security == ()
    assert tools["removePet"].deprecated
    pet = tools["addPet"].inputs["$defs"]["Pet"]
    assert "id" not in pet["properties"]
    assert pet["required"] == ["name"]
    assert pet["properties"]["price"] == {"type": "number", "exclusiveMinimum": 0}
    assert pet["properties"]["born"]["type"] == ["string", "null"]


def test_the_library() -> None:
    conversion = sample("library-3.0.json")
    [skipped] = [one for one in conversion.report.operations if one.outcome == "skipped"]
    assert skipped.source_key == "GET /broken"
    tools = {made.source_key: made for made in conversion.tools}
    assert tools["GET /books"].security == ((), (SlotRequirement("card"),))
    assert len(tools["POST /books"].security[0]) == 2
    assert (
        tools["PUT /books/{isbn}"].call_template["url"]
        == "https://desk-1.library.example.org/staff/books/{isbn}"
    )


def test_the_parcels() -> None:
    tools = {made.name: made for made in sample("parcels-3.1.yaml").tools}
    countries = tools["list-shipments"].inputs["properties"]["filter"]["properties"]["country"]
    assert countries["enum"] == ["NO", "SE", "DK"]
    assert tools["change-shipment"].call_template["body"]["content_type"] == "application/merge-patch+json"
    assert tools["create-shipment"].outputs["required"] == ["id", "to"]
    assert set(tools["attach"].call_template["body"]["encoding"]) == {"file", "pages"}
