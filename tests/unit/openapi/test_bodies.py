"""Request bodies: which content type, which schema, which encoding."""

from collections.abc import Callable
from typing import Any

import pytest

from app.openapi import ConvertedTool
from app.openapi.schemas.files import is_file
from tests.harness.cases import for_each
from tests.unit.openapi.conftest import ConvertOne

OCTETS = "application/octet-stream"


def posting(tool: ConvertOne, content: Any, **rest: Any) -> ConvertedTool:
    return tool({"requestBody": {"content": content, **rest}}, method="post")


@for_each(
    ("offered", "sent"),
    [
        (["text/plain", "application/xml", "application/json"], "application/json"),
        (["application/xml", "application/vnd.api+json"], "application/vnd.api+json"),
        (["application/merge-patch+json"], "application/merge-patch+json"),
        (["application/json; charset=utf-8"], "application/json; charset=utf-8"),
        (["*/*"], "application/json"),
        (["text/plain; charset=ISO-8859-1"], "text/plain; charset=ISO-8859-1"),
        (["text/plain; charset=made-up"], "text/plain"),
        (["multipart/form-data", "application/x-www-form-urlencoded"], "application/x-www-form-urlencoded"),
        (["image/png", "multipart/form-data"], "multipart/form-data"),
        (["image/*"], OCTETS),
        (["text/*"], "text/plain"),
        (["application/xml", "text/csv"], "text/csv"),
        (["application/pdf", "application/zip"], "application/pdf"),
        (["bad\r\nX-Injected: 1", "text/plain"], "text/plain"),
        (["application/json\r\nX-Injected: 1"], "application/json"),
    ],
)
def test_json_first_then_forms_then_what_can_be_sent(tool: ConvertOne, offered: list[str], sent: str) -> None:
    made = posting(tool, {one: {"schema": {}} for one in offered})
    assert made.call_template["body"]["content_type"] == sent


@pytest.mark.parametrize("required", [True, False, None])
def test_a_body_is_required_only_if_it_says_so(tool: ConvertOne, required: bool | None) -> None:
    schema = {"type": "object", "required": ["a"]}
    made = posting(tool, {"application/json": {"schema": schema}}, required=required)
    assert made.inputs.get("required") == (["body"] if required else None)
    assert made.call_template["body"]["required"] is bool(required)


def test_bytes_are_base64_and_xml_without_a_structure_is_text(tool: ConvertOne) -> None:
    octets = posting(tool, {OCTETS: {"schema": {"type": "string", "format": "binary"}}})
    assert octets.inputs["properties"]["body"]["contentEncoding"] == "base64"
    xml = posting(tool, {"application/xml": {"schema": {"type": "string"}}})
    assert xml.inputs["properties"]["body"]["type"] == "string"
    assert "xml" not in xml.call_template["body"]
    text = posting(tool, {"text/csv": {"schema": {"type": "string", "format": "binary"}}})
    assert text.inputs["properties"]["body"] == {"type": "string"}


def test_files_in_forms_are_base64_wherever_they_stand(tool: ConvertOne) -> None:
    schemas = {
        "File": {"type": "string", "format": "binary"},
        "Form": {
            "type": "object",
            "properties": {
                "one": {"type": "string", "format": "binary", "nullable": True},
                "many": {"type": "array", "items": {"$ref": "#/components/schemas/File"}},
                "text": {"type": "string", "format": "byte"},
                "note": {"type": "string"},
            },
        },
    }
    content = {"multipart/form-data": {
        "schema": {"allOf": [{"$ref": "#/components/schemas/Form"}]},
        "encoding": {"one": {"contentType": "image/png, image/jpeg"}, "note": {"contentType": "text/markdown"}},
    }}  # fmt: skip
    made = tool({"requestBody": {"content": content}}, method="post", components={"schemas": schemas})
    form = made.inputs["$defs"]["Form"]["properties"]
    assert is_file(form["one"])
    assert form["one"]["anyOf"][2] == {"type": "null"}
    assert made.inputs["$defs"]["File"]["anyOf"][0] == {"type": "string", "contentEncoding": "base64"}
    assert form["text"] == {"type": "string", "format": "byte"}
    sent = {name: one["content_type"] for name, one in made.call_template["body"]["encoding"].items()}
    assert sent == {"one": "image/png, image/jpeg", "many": OCTETS, "note": "text/markdown"}


def test_in_json_a_binary_string_stays_what_it_is(body: Callable[..., Any]) -> None:
    assert body({"type": "string", "format": "binary"}) == {"type": "string", "format": "binary"}


@pytest.mark.parametrize(
    ("schema", "became"),
    [
        ({"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"},
         {"type": "string", "contentMediaType": "image/png"}),
        ({"type": "string", "contentMediaType": "text/html"}, {"type": "string", "contentMediaType": "text/html"}),
    ],
)  # fmt: skip
def test_3_1_strings_in_forms_that_are_no_files(tool: ConvertOne, schema: Any, became: Any) -> None:
    content = {"multipart/form-data": {"schema": {"type": "object", "properties": {"f": schema}}}}
    made = tool({"requestBody": {"content": content}}, method="post", openapi="3.1.0")
    assert made.inputs["properties"]["body"]["properties"]["f"] == became


@for_each(
    ("said", "became"),
    [
        ({"style": "deepObject"}, ("deepObject", True, None, False)),
        ({"style": "form", "explode": False}, ("form", False, None, False)),
        ({"explode": False}, ("form", False, None, False)),
        ({"allowReserved": True}, ("form", True, None, True)),
        ({"contentType": "application/json"}, (None, None, "application/json", False)),
    ],
)
def test_encoding_objects(tool: ConvertOne, said: Any, became: Any) -> None:
    made = posting(tool, {"application/x-www-form-urlencoded": {"schema": {}, "encoding": {"a": said}}})
    one = made.call_template["body"]["encoding"]["a"]
    assert (one["style"], one["explode"], one["content_type"], one["allow_reserved"]) == became


@pytest.mark.parametrize("said", [{}, 7, None, {"style": 7, "contentType": "x\r\ny: z"}])
def test_empty_and_broken_encodings_say_nothing(tool: ConvertOne, said: Any) -> None:
    made = posting(tool, {"application/x-www-form-urlencoded": {"schema": {}, "encoding": {"a": said}}})
    assert made.call_template["body"]["encoding"] == {}


def test_a_trace_carries_no_body(tool: ConvertOne) -> None:
    made = tool({"requestBody": {"content": {"application/json": {}}}}, method="trace")
    assert "body" not in made.call_template
    assert made.inputs["properties"] == {}


def test_a_body_without_a_content_type_is_sent_as_json(tool: ConvertOne) -> None:
    made = posting(tool, {}, required=True)
    assert made.call_template["body"]["content_type"] == "application/json"
    assert made.inputs["required"] == ["body"]


# Swagger 2.0 -------------------------------------------------------------------------------------------------


def test_swagger_2_body(tool: ConvertOne) -> None:
    parameter = {
        "in": "body",
        "name": "pet",
        "required": True,
        "description": "d",
        "schema": {"$ref": "#/definitions/P"},
    }
    made = tool(
        {"parameters": [parameter], "consumes": ["application/xml", "application/json"]},
        method="post", openapi="2.0", definitions={"P": {"properties": {"id": {"readOnly": True}, "n": {}}}},
    )  # fmt: skip
    assert made.call_template["body"]["content_type"] == "application/json"
    assert made.inputs["properties"] == {"body": {"$ref": "#/$defs/P", "description": "d"}}
    assert made.inputs["required"] == ["body"]
    assert made.inputs["$defs"] == {"P": {"properties": {"n": {}}}}
    assert made.call_template["parameters"] == []


@for_each(
    ("consumes", "kind", "sent"),
    [
        (None, "string", "application/x-www-form-urlencoded"),
        (["application/json"], "string", "application/x-www-form-urlencoded"),
        (["multipart/form-data"], "string", "multipart/form-data"),
        (
            ["multipart/form-data", "application/x-www-form-urlencoded"],
            "string",
            "application/x-www-form-urlencoded",
        ),
        (["application/x-www-form-urlencoded"], "file", "multipart/form-data"),
        (None, "file", "multipart/form-data"),
    ],
)
def test_swagger_2_forms(tool: ConvertOne, consumes: list[str] | None, kind: str, sent: str) -> None:
    fields = [
        {"in": "formData", "name": "a", "type": kind, "required": True},
        {
            "in": "formData",
            "name": "b",
            "type": "array",
            "items": {"type": "string"},
            "collectionFormat": "multi",
        },
    ]
    operation = {"parameters": fields} | ({"consumes": consumes} if consumes else {})
    made = tool(operation, method="post", openapi="2.0")
    body = made.inputs["properties"]["body"]
    assert made.call_template["body"]["content_type"] == sent
    assert body["required"] == ["a"]
    assert made.inputs["required"] == ["body"]
    assert is_file(body["properties"]["a"]) is (kind == "file")
    encoding = made.call_template["body"]["encoding"]
    assert (encoding["b"]["style"], encoding["b"]["explode"]) == ("form", True)
    assert ("a" in encoding) is (kind == "file")


def test_the_schema_of_a_file_takes_base64_and_objects_only(tool: ConvertOne, accepts: Any) -> None:
    binary = {"type": "string", "format": "binary"}
    content = {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "properties": {"f": binary, "many": {"type": "array", "items": binary}},
            },
            "encoding": {
                "f": {"headers": {"X-Kind": {"required": True, "schema": {"type": "string", "enum": ["a"]}}}}
            },
        }
    }
    made = posting(tool, content)

    def takes(file: Any, name: str = "f") -> bool:
        return bool(accepts(made, {"body": {name: file}}))

    assert takes("QUJD")
    assert takes({"data": "QUJD", "filename": "a.png", "content_type": "image/png"})
    assert takes({"text": "abc", "headers": {"X-Kind": "a"}})
    assert takes([{"text": "a"}, "QUJD"], "many")
    assert not takes({"text": "abc", "headers": {"X-Kind": "b"}})
    assert not takes({"text": "abc", "headers": {"X-Other": "a"}})
    assert not takes([{"text": "abc", "headers": {"X-Kind": "a"}}], "many")
    assert not takes({"filename": "a"})
    assert not takes({"data": "QUJD", "text": "abc"})
    assert not takes(["QUJD"])
