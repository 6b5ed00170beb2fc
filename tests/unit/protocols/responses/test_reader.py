"""Bodies of responses as JSON values: by their form, and with the types of the schema."""

import gc
from typing import Any
from xml.etree import ElementTree as ET

import orjson
import pytest

from app.openapi.conversion.convert import convert
from app.protocols.requests.plan_compiler import compile_plan
from app.protocols.requests.templates import ResponseSpec
from app.protocols.responses.reader import NotDecodable, ResponseReader
from app.protocols.responses.response_schema import ResponseSchema
from app.protocols.responses.rule import ResponsePreferences, ResponseRule, parse_preferences
from tests.harness.cases import for_each

NUMBER = {"type": "integer"}
TEXT = {"type": "string"}


def thing(properties: Any, **rest: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **rest}


def converted(schema: Any, media: str = "application/xml", **named: Any) -> Any:
    """The tool of an operation that sends and receives a schema."""
    content = {media: {"schema": schema}}
    operation = {"requestBody": {"content": content}, "responses": {"200": {"content": content}}}
    document = {
        "openapi": "3.0.3",
        "servers": [{"url": "https://h.example"}],
        "paths": {"/a": {"post": operation}},
        "components": {"schemas": named},
    }
    [tool] = convert(orjson.dumps(document)).tools
    return tool


def reader(schema: Any, media: str = "application/xml", **named: Any) -> ResponseReader:
    tool = converted(schema, media, **named)
    return ResponseReader(tool.outputs, ResponseSpec.model_validate(tool.call_template["response"]))


def xml(text: str, schema: Any, **named: Any) -> Any:
    return reader(schema, **named).value(text.encode(), "application/xml")


def test_the_types_of_the_schema() -> None:
    schema = thing(
        {
            "i": NUMBER, "n": {"type": "number"}, "b": {"type": "boolean"}, "s": TEXT, "e": TEXT,
            "null": {"type": "integer", "nullable": True}, "nil": {"type": "integer", "nullable": True},
            "odd": NUMBER, "any": {}, "o": thing({}),
        },
        xml={"name": "r"},
    )  # fmt: skip
    text = (
        '<r xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><i> 7 </i><n>1.5e2</n><b>true</b><s>007</s>'
        '<e/><null/><nil xsi:nil="true"/><odd>x1</odd><any>5</any><o/></r>'
    )
    assert xml(text, schema) == {
        "i": 7, "n": 150.0, "b": True, "s": "007", "e": "", "null": None, "nil": None, "odd": "x1",
        "any": "5", "o": {},
    }  # fmt: skip


def test_lists_wrapped_and_not_and_of_one_item() -> None:
    schema = thing(
        {
            "plain": {"type": "array", "items": NUMBER},
            "wrapped": {
                "type": "array",
                "items": {**NUMBER, "xml": {"name": "item"}},
                "xml": {"wrapped": True},
            },
            "named": {"type": "array", "items": {**TEXT, "xml": {"name": "one"}}},
            "absent": {"type": "array", "items": TEXT},
            "needed": {"type": "array", "items": TEXT},
            "attribute": {"type": "array", "items": NUMBER, "xml": {"attribute": True}},
        },
        required=["needed"],
        xml={"name": "r"},
    )
    text = (
        '<r attribute="1 2"><one>a</one><plain>1</plain><wrapped><item>2</item><item>3</item></wrapped></r>'
    )
    assert xml(text, schema) == {
        "plain": [1], "wrapped": [2, 3], "named": ["a"], "needed": [], "attribute": [1, 2],
    }  # fmt: skip


def test_what_the_schema_does_not_have_is_decoded_by_its_form() -> None:
    schema = thing({"a": NUMBER}, xml={"name": "r"})
    text = '<r k="v"><a>1</a>text<x>2</x><y z="1">t</y><y><q/></y><a>2</a></r>'
    assert xml(text, schema) == {
        "a": [1, 2], "@k": "v", "x": "2", "y": [{"@z": "1", "#text": "t"}, {"q": ""}], "#text": "text",
    }  # fmt: skip


def test_a_schema_that_contains_itself() -> None:
    node = thing(
        {"id": {**NUMBER, "xml": {"attribute": True}}, "next": {"$ref": "#/components/schemas/Node"}}
    )
    text = '<Node id="1"><next id="2"><next id="3"/></next></Node>'
    expected = {"id": 1, "next": {"id": 2, "next": {"id": 3}}}
    assert xml(text, {"$ref": "#/components/schemas/Node"}, Node=node) == expected


def test_the_root_is_the_only_property_where_the_schema_has_no_name() -> None:
    schema = thing({"Config": thing({"n": NUMBER})})
    assert xml("<Config><n>1</n></Config>", schema) == {"Config": {"n": 1}}
    assert xml("<Other><Config><n>1</n></Config></Other>", schema) == {"Config": {"n": 1}}


def test_a_document_without_a_schema() -> None:
    plain = ResponseReader({}, None)
    assert plain.value(b'<a><b c="1">2</b></a>', "text/xml") == {"a": {"b": {"@c": "1", "#text": "2"}}}
    assert plain.value(b"a=1&b=2&b=3", "application/x-www-form-urlencoded") == {"a": "1", "b": ["2", "3"]}
    assert plain.value(b"7", "text/plain") == "7"


# What the gateway writes by a shape, it reads back.
@pytest.mark.parametrize(
    "value",
    [
        {
            "id": 7,
            "name": "a <b> & c",
            "tags": [{"k": "x", "text": "1"}],
            "list": [1.5, 2],
            "inner": {"b": True},
        },
        {"id": 0, "name": "", "tags": [], "inner": {}},
    ],
)
def test_what_is_written_is_read_back(value: Any) -> None:
    pet = thing(
        {
            "id": {**NUMBER, "xml": {"attribute": True}},
            "name": {**TEXT, "xml": {"namespace": "urn:n", "prefix": "n", "name": "title"}},
            "tags": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/Tag"},
                "xml": {"wrapped": True},
            },
            "list": {"type": "array", "items": {"type": "number"}},
            "inner": {"allOf": [{"$ref": "#/components/schemas/Inner"}]},
        }
    )
    tag = thing({"k": {**TEXT, "xml": {"attribute": True}}, "text": {**TEXT, "xml": {"nodeType": "text"}}})
    named = {"Pet": pet, "Tag": tag, "Inner": thing({"b": {"type": "boolean"}})}
    tool = converted({"$ref": "#/components/schemas/Pet"}, **named)
    body = compile_plan(tool.call_template).prepare({"body": value}).body
    assert body is not None
    assert ET.fromstring(body).tag == "Pet"
    both = ResponseReader(tool.outputs, ResponseSpec.model_validate(tool.call_template["response"]))
    assert both.value(body, "application/xml") == value


@for_each(
    ("schema", "text", "expected"),
    [
        (NUMBER, "42\n", 42),
        ({"type": "boolean"}, "1", True),
        ({"type": ["integer", "null"]}, "", None),
        (TEXT, "42", "42"),
        (NUMBER, "99999999999999999999", "99999999999999999999"),
        (NUMBER, "NaN", "NaN"),
        ({"type": "number"}, "1_0", "1_0"),
        ({"type": "array", "items": {}}, '["a", 1]', ["a", 1]),
        ({"type": "object"}, "{oops", "{oops"),
        ({}, "42", "42"),
    ],
)
def test_text(schema: Any, text: str, expected: Any) -> None:
    assert ResponseReader(schema, None).value(text.encode(), "text/plain; charset=utf-8") == expected


def test_forms_and_lines() -> None:
    schema = thing({"n": NUMBER, "many": {"type": "array", "items": NUMBER}, "s": TEXT})
    form = ResponseReader(schema, None)
    value = form.value(b"n=1&many=2&s=3&x=4&x=5", "application/x-www-form-urlencoded")
    assert value == {"n": 1, "many": [2], "s": "3", "x": ["4", "5"]}
    assert form.value(b'{"a":1}\n\n[2]\n', "application/x-ndjson") == [{"a": 1}, [2]]
    assert form.value(b'\x1e{"a":1}\n\x1e2\n', "application/json-seq") == [{"a": 1}, 2]


@for_each(
    ("body", "media"),
    [
        (b"<a>", "text/xml"),
        (b"{", "application/json"),
        (b"{}\n{", "application/x-ndjson"),
        (b"\xff", "text/plain"),
        (b"\x89PNG", "image/png"),
        (b"a,b", "text/csv"),
        (b"&".join([b"a=1"] * 10_001), "application/x-www-form-urlencoded"),
        (b"%ff=1", "application/x-www-form-urlencoded"),
        (b'<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>', "application/xml"),
    ],
)
def test_what_is_not_decoded(body: bytes, media: str) -> None:
    with pytest.raises(NotDecodable):
        ResponseReader({}, None).value(body, media)


def test_charsets() -> None:
    plain = ResponseReader({}, None)
    assert plain.value("é".encode("latin-1"), "text/plain; charset=iso-8859-1") == "é"
    assert plain.value("<a>é</a>".encode("latin-1"), "text/xml; charset=iso-8859-1") == {"a": "é"}
    assert plain.value('"é"'.encode("latin-1"), "application/json; charset=latin1") == "é"


class TestViolations:
    SCHEMA = thing(
        {
            "id": NUMBER,
            "rows": {"type": "array", "items": thing({"price": {"type": "number"}}, required=["price"])},
            "by_name": {"type": "object", "additionalProperties": NUMBER},
        },
        required=["id"],
    )

    def test_have_pointers_and_no_names_that_are_data(self) -> None:
        strict = ResponseReader(self.SCHEMA, None)
        assert strict.find_violations({"id": 1}).count == 0
        found = strict.find_violations({"rows": [{"price": 1}, {}], "by_name": {"ann@example.com": "secret"}})
        assert found.count == 3
        assert set(found.pointers) == {"/id", "/rows/1/price", "/by_name/*"}
        assert not found.more

    def test_are_bounded(self) -> None:
        found = ResponseReader(self.SCHEMA, None).find_violations({"id": 1, "rows": [{}] * 500})
        assert len(found.pointers) == 10
        assert found.more

    def test_of_other_statuses_are_not_looked_for(self) -> None:
        spec = ResponseSpec(status="201")
        assert ResponseReader(self.SCHEMA, spec).describes(201)
        assert not ResponseReader(self.SCHEMA, spec).describes(200)
        assert ResponseReader(self.SCHEMA, ResponseSpec(status="2XX")).describes(204)
        assert ResponseReader(self.SCHEMA, None).describes(200)
        assert not ResponseReader({}, None).describes(200)

    def test_of_an_unusable_schema_are_none(self) -> None:
        broken = ResponseReader({"$ref": "https://example.com/schema"}, None)
        assert not broken.describes(200)
        assert broken.find_violations({"a": 1}).count == 0


@for_each(
    ("prefer", "expected"),
    [
        ("decode-response", ResponsePreferences(decode=True)),
        ("respond-async, Validate-Response=true; x=1", ResponsePreferences(validate=True)),
        ('decode-response="false",validate-response', ResponsePreferences(decode=False, validate=True)),
        ("decode-response, decode-response=false", ResponsePreferences(decode=True)),
        ("decode-response=maybe", None),
        ("wait=10", None),
        ("", None),
    ],
)
def test_preferences(prefer: str, expected: ResponsePreferences | None) -> None:
    assert parse_preferences(prefer) == expected


def test_rules() -> None:
    assert ResponseRule.of({"decode": True, "tools": ["a.b"]}, tool="a.b") == ResponseRule(decode=True)
    assert ResponseRule.of({"decode": True, "tools": ["a.b"]}, tool="a.c") == ResponseRule()
    assert ResponseRule.of({"validate_outputs": True, "decode": None}, tool="a.c") == ResponseRule(
        validate=True
    )
    assert ResponseRule.of(None, tool="a.c") == ResponseRule()


def test_values_of_any_depth_add_nothing_to_the_schema() -> None:
    tree = thing({"a": {"$ref": "#/components/schemas/Tree"}, "b": {"$ref": "#/components/schemas/Tree"},
                  "n": {"type": "array", "items": NUMBER}})  # fmt: skip
    root = {"allOf": [{"$ref": "#/components/schemas/Tree"}], "xml": {"name": "tree"}}
    tree_reader = reader(root, Tree=tree)

    def nested(names: str) -> str:
        inner = "<n>7</n>"
        for name in names:
            inner = f"<{name}>{inner}</{name}>"
        return f"<tree>{inner}</tree>"

    def schemas() -> int:
        gc.collect()
        return sum(isinstance(one, ResponseSchema) for one in gc.get_objects())

    value = tree_reader.value(nested("ab").encode(), "application/xml")
    assert value == {"b": {"a": {"n": [7]}}}
    before = schemas()
    for names in ("a" * 50, "b" * 50, "ab" * 25, "ba" * 25):
        tree_reader.value(nested(names).encode(), "application/xml")
    assert schemas() - before < 10
