"""XML bodies: the shape that a document gives them, and what is sent, read back by a parser of others."""

from typing import Any
from xml.etree import ElementTree as ET

import pytest

from app.core.errors import InvalidArguments
from app.openapi import ConvertedTool
from app.protocols.requests.plan_compiler import compile_plan
from tests.harness.cases import for_each
from tests.unit.openapi.conftest import ConvertOne

NUMBER = {"type": "integer"}
TEXT = {"type": "string"}


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def thing(properties: Any, **rest: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **rest}


def posting(tool: ConvertOne, schema: Any, *, media: str = "application/xml", **named: Any) -> ConvertedTool:
    version = named.pop("openapi", "3.0.3")
    content = {media: {"schema": schema}}
    return tool(
        {"requestBody": {"content": content, "required": True}},
        method="post",
        openapi=version,
        components={"schemas": named},
    )


def sent(made: ConvertedTool, value: Any) -> bytes:
    content = compile_plan(made.call_template).prepare({"body": value}).body
    assert content is not None
    return content


def tree(element: ET.Element) -> Any:
    """(name, attributes, content): content is the text, or the elements inside."""
    inner = [tree(one) for one in element]
    return element.tag, dict(element.attrib), inner or element.text


def parsed(made: ConvertedTool, value: Any) -> Any:
    return tree(ET.fromstring(sent(made, value)))


def rejected(made: ConvertedTool, value: Any) -> str:
    with pytest.raises(InvalidArguments) as caught:
        sent(made, value)
    return caught.value.errors[0].pointer


def test_a_component_names_the_root_and_its_properties_the_elements(tool: ConvertOne) -> None:
    made = posting(tool, ref("Pet"), Pet=thing({"id": NUMBER, "name": TEXT, "sold": {"type": "boolean"}}))
    expected = ("Pet", {}, [("id", {}, "7"), ("name", {}, "Rex & <co>"), ("sold", {}, "true")])
    assert parsed(made, {"name": "Rex & <co>", "sold": True, "id": 7}) == expected
    assert dict(compile_plan(made.call_template).prepare({"body": {}}).headers) == {
        "Content-Type": "application/xml"
    }


def test_a_string_in_place_of_the_object_is_sent_as_it_is(tool: ConvertOne) -> None:
    made = posting(tool, ref("Pet"), Pet=thing({}))
    assert sent(made, "<?xml version='1.0'?><any/>") == b"<?xml version='1.0'?><any/>"
    assert made.inputs["properties"]["body"]["anyOf"][1]["type"] == "string"


# The examples of the XML Object in OAS 3.0.4, section 4.7.26.
@for_each(
    ("schema", "expected"),
    [
        ({"type": "array", "items": TEXT}, [("animals", {}, "a"), ("animals", {}, "b")]),
        ({"type": "array", "items": {**TEXT, "xml": {"name": "animal"}}},
         [("animal", {}, "a"), ("animal", {}, "b")]),
        ({"type": "array", "items": {**TEXT, "xml": {"name": "animal"}}, "xml": {"name": "aliens"}},
         [("animal", {}, "a"), ("animal", {}, "b")]),
        ({"type": "array", "items": TEXT, "xml": {"wrapped": True}},
         [("animals", {}, [("animals", {}, "a"), ("animals", {}, "b")])]),
        ({"type": "array", "items": {**TEXT, "xml": {"name": "animal"}},
          "xml": {"name": "aliens", "wrapped": True}},
         [("aliens", {}, [("animal", {}, "a"), ("animal", {}, "b")])]),
        ({"type": "array", "items": TEXT, "xml": {"name": "aliens", "wrapped": True}},
         [("aliens", {}, [("aliens", {}, "a"), ("aliens", {}, "b")])]),
    ],
)  # fmt: skip
def test_lists(tool: ConvertOne, schema: Any, expected: Any) -> None:
    made = posting(tool, ref("Zoo"), Zoo=thing({"animals": schema}))
    assert parsed(made, {"animals": ["a", "b"]}) == ("Zoo", {}, expected)


def test_attributes_prefixes_and_namespaces(tool: ConvertOne) -> None:
    person = thing(
        {
            "id": {**NUMBER, "xml": {"attribute": True}},
            "lang": {**TEXT, "xml": {"attribute": True, "name": "xml:lang"}},
            "kind": {**TEXT, "xml": {"attribute": True, "namespace": "urn:k"}},
            "name": {**TEXT, "xml": {"namespace": "http://example.com/schema/sample", "prefix": "sample"}},
        },
        xml={"name": "person", "namespace": "urn:p"},
    )
    made = posting(tool, ref("P"), P=person)
    root = ET.fromstring(sent(made, {"id": 1, "lang": "de", "kind": 'a"\n', "name": "x"}))
    assert root.tag == "{urn:p}person"
    assert root.attrib == {
        "id": "1",
        "{http://www.w3.org/XML/1998/namespace}lang": "de",
        "{urn:k}kind": 'a"\n',
    }
    assert [(one.tag, one.text) for one in root] == [("{http://example.com/schema/sample}name", "x")]


def test_a_prefix_that_is_declared_further_out_is_not_declared_again(tool: ConvertOne) -> None:
    ours = {"namespace": "urn:a", "prefix": "a"}
    inner = thing({"n": {**NUMBER, "xml": ours}}, xml=ours)
    made = posting(tool, ref("A"), A=thing({"b": inner}, xml=ours))
    assert sent(made, {"b": {"n": 1}}).count(b"xmlns") == 1


def test_a_prefix_that_means_two_namespaces_in_one_element(tool: ConvertOne) -> None:
    def named(uri: str, *, attribute: bool = True) -> dict[str, Any]:
        return {"prefix": "p", "namespace": uri, "attribute": attribute}

    inner = thing(
        {
            "a": {**TEXT, "xml": named("urn:a")},
            "b": {**TEXT, "xml": named("urn:b")},
            "c": {**TEXT, "xml": named("urn:c")},
        },
        xml=named("urn:c", attribute=False),
    )
    made = posting(tool, ref("T"), T=thing({"inner": inner}, xml=named("urn:a", attribute=False)))
    name, _, content = parsed(made, {"inner": {"a": "1", "b": "2", "c": "3"}})
    assert name == "{urn:a}T"
    assert content == [("{urn:c}inner", {"{urn:a}a": "1", "{urn:b}b": "2", "{urn:c}c": "3"}, None)]


def test_declarations_that_a_document_has_as_attributes(tool: ConvertOne) -> None:
    xsi = "http://www.w3.org/2001/XMLSchema-instance"
    grantee = thing(
        {
            "xmlns": {**TEXT, "xml": {"attribute": True, "name": "xmlns:xsi"}},
            "type": {**TEXT, "xml": {"attribute": True, "name": "type", "prefix": "xsi"}},
        }
    )
    made = posting(tool, ref("Grantee"), Grantee=grantee)
    root = ET.fromstring(sent(made, {"type": "User", "xmlns": xsi}))
    assert root.attrib == {f"{{{xsi}}}type": "User"}


def test_elements_are_in_the_order_of_the_schema(tool: ConvertOne) -> None:
    base = thing({"z": NUMBER, "b": NUMBER})
    made = posting(tool, ref("C"), Base=base, C={"allOf": [ref("Base"), thing({"a": NUMBER})]})
    names = [one[0] for one in parsed(made, {"more": 1, "a": 1, "b": 2, "z": 3})[2]]
    assert names == ["z", "b", "a", "more"]


def test_all_of_has_the_hints_of_its_parts(tool: ConvertOne) -> None:
    named = thing({"id": {**NUMBER, "xml": {"attribute": True}}}, xml={"name": "named"})
    made = posting(
        tool, ref("C"), Named=named, C=thing({"one": {"allOf": [ref("Named")], "description": "d"}})
    )
    assert parsed(made, {"one": {"id": 1}}) == ("C", {}, [("named", {"id": "1"}, None)])


def test_one_of_has_the_hints_of_its_alternatives(tool: ConvertOne) -> None:
    cat = thing({"lives": {**NUMBER, "xml": {"attribute": True}}})
    made = posting(tool, ref("P"), Cat=cat, P=thing({"pet": {"oneOf": [ref("Cat"), TEXT]}}))
    assert parsed(made, {"pet": {"lives": 9}}) == ("P", {}, [("pet", {"lives": "9"}, None)])


def test_schemas_that_contain_themselves(tool: ConvertOne) -> None:
    node = thing({"n": {**NUMBER, "xml": {"attribute": True}}, "next": ref("Node")}, xml={"name": "node"})
    made = posting(tool, ref("Node"), Node=node)
    inner = ("node", {"n": "2"}, [("node", {"n": "3"}, None)])
    assert parsed(made, {"n": 1, "next": {"n": 2, "next": {"n": 3}}}) == ("node", {"n": "1"}, [inner])


def test_a_root_that_is_a_list_is_wrapped(tool: ConvertOne) -> None:
    pet = thing({"id": NUMBER}, xml={"name": "pet"})
    made = posting(tool, ref("Pets"), Pet=pet, Pets={"type": "array", "items": ref("Pet")})
    assert parsed(made, [{"id": 1}, {"id": 2}]) == (
        "Pets",
        {},
        [("pet", {}, [("id", {}, "1")]), ("pet", {}, [("id", {}, "2")])],
    )


def test_the_only_property_of_a_schema_without_a_name_is_the_root(tool: ConvertOne) -> None:
    config = thing({"Name": {**TEXT, "xml": {"attribute": True}}})
    made = posting(tool, thing({"CachePolicyConfig": ref("Config")}), Config=config)
    assert parsed(made, {"CachePolicyConfig": {"Name": "n"}}) == ("CachePolicyConfig", {"Name": "n"}, None)
    assert made.notes == ()
    assert rejected(made, {}) == "/body"


def test_a_list_as_the_only_property_of_a_schema_without_a_name_is_one_element(tool: ConvertOne) -> None:
    ids = {"type": "array", "items": {**TEXT, "xml": {"name": "Id"}}}
    made = posting(tool, thing({"Ids": ids}, required=["Ids"]))
    assert parsed(made, {"Ids": ["a", "b"]}) == ("Ids", {}, [("Id", {}, "a"), ("Id", {}, "b")])
    assert parsed(made, {"Ids": []}) == ("Ids", {}, None)


def test_the_caller_names_a_root_that_the_document_does_not_name(tool: ConvertOne, accepts: Any) -> None:
    made = posting(tool, thing({"a": {**TEXT, "xml": {"attribute": True}}, "b": NUMBER}, required=["b"]))
    assert parsed(made, {"Order": {"a": "x", "b": 1}}) == ("Order", {"a": "x"}, [("b", {}, "1")])
    assert any("has no name" in note for note in made.notes)
    assert accepts(made, {"body": {"Order": {"b": 1}}})
    assert accepts(made, {"body": "<Order/>"})
    assert not accepts(made, {"body": {"Order": {}}})
    assert not accepts(made, {"body": {"Order": {"b": 1}, "Other": {"b": 1}}})
    assert rejected(made, {"Or der": {"b": 1}}) == "/body/Or der"


def test_null_empty_values_and_lists(tool: ConvertOne) -> None:
    made = posting(
        tool,
        ref("E"),
        E=thing(
            {
                "null": {**TEXT, "nullable": True},
                "attribute": {**TEXT, "nullable": True, "xml": {"attribute": True}},
                "empty": TEXT,
                "object": thing({}),
                "none": {"type": "array", "items": TEXT},
                "wrapped": {"type": "array", "items": TEXT, "xml": {"wrapped": True}},
                "numbers": {"type": "array", "items": NUMBER, "xml": {"attribute": True}},
            }
        ),
    )
    value = {
        "null": None,
        "attribute": None,
        "empty": "",
        "object": {},
        "none": [],
        "wrapped": [],
        "numbers": [1, 2],
    }
    nil = {"{http://www.w3.org/2001/XMLSchema-instance}nil": "true"}
    elements = [("null", nil, None), ("empty", {}, None), ("object", {}, None), ("wrapped", {}, None)]
    assert parsed(made, value) == ("E", {"numbers": "1 2"}, elements)


@for_each("text", ["\r\n\t x ", "]]>", "&amp;<!--", "é日😀", "\x85\u2028"])
def test_texts_are_read_back_exactly(tool: ConvertOne, text: str) -> None:
    made = posting(tool, ref("T"), T=thing({"t": TEXT, "a": {**TEXT, "xml": {"attribute": True}}}))
    assert parsed(made, {"t": text, "a": text}) == ("T", {"a": text}, [("t", {}, text)])


def test_what_xml_cannot_carry_is_rejected_with_its_pointer(tool: ConvertOne) -> None:
    schema = thing({"a": {**TEXT, "xml": {"attribute": True}}, "list": {"type": "array", "items": TEXT}})
    made = posting(tool, ref("T"), T=schema)
    assert rejected(made, {"list": ["x", "a\x00b"]}) == "/body/list/1"
    assert rejected(made, {"a": "\ufffe"}) == "/body/a"
    assert rejected(made, {"a": {"b": 1}}) == "/body/a"
    assert rejected(made, {"two words": 1}) == "/body/two words"
    assert rejected(made, {"a:b:c": 1}) == "/body/a:b:c"
    deep: Any = 1
    for _ in range(240):
        deep = {"d": deep}
    assert rejected(made, deep).startswith("/body/d/d")


def test_a_charset_without_a_character_has_a_reference_to_it(tool: ConvertOne) -> None:
    made = posting(tool, ref("T"), media="text/xml; charset=iso-8859-1", T=thing({"t": TEXT, "é": TEXT}))
    content = sent(made, {"t": "é日", "é": "1"})
    assert content.startswith(b'<?xml version="1.0" encoding="ISO-8859-1"?>\n')
    assert b"\xe9&#26085;" in content
    assert tree(ET.fromstring(content)) == ("T", {}, [("t", {}, "é日"), ("é", {}, "1")])
    assert rejected(made, {"日": "1"}) == "/body"


def test_node_types_of_3_2(tool: ConvertOne) -> None:
    made = posting(
        tool,
        ref("Book"),
        Book=thing(
            {
                "isbn": {**TEXT, "xml": {"nodeType": "attribute"}},
                "title": {**TEXT, "xml": {"nodeType": "text"}},
                "note": thing({"html": {**TEXT, "xml": {"nodeType": "cdata"}}}),
                "group": thing({"a": NUMBER, "b": NUMBER}, xml={"nodeType": "none"}),
                "list": {"type": "array", "items": TEXT, "xml": {"nodeType": "element"}},
            }
        ),
        openapi="3.1.0",
    )
    value = {
        "isbn": "1",
        "title": "T",
        "note": {"html": "<b>]]></b>"},
        "group": {"a": 1, "b": 2},
        "list": ["x"],
    }
    content = sent(made, value)
    assert b"<![CDATA[<b>]]" in content
    root = ET.fromstring(content)
    assert (root.text, root.attrib) == ("T", {"isbn": "1"})
    assert [tree(one) for one in root] == [
        ("note", {}, "<b>]]></b>"), ("a", {}, "1"), ("b", {}, "2"), ("list", {}, [("list", {}, "x")]),
    ]  # fmt: skip


@for_each("xml", [7, {"name": 7}, {"name": "a b"}, {"attribute": "yes"}, {"prefix": "a:b"}, {"wrapped": 1}])
def test_broken_xml_objects_say_nothing(tool: ConvertOne, xml: Any) -> None:
    made = posting(tool, ref("T"), T=thing({"t": {**TEXT, "xml": xml}}))
    assert parsed(made, {"t": "x"}) == ("T", {}, [("t", {}, "x")])


def test_siblings_of_a_reference_count_in_3_1_only(tool: ConvertOne) -> None:
    schemas = {
        "T": thing({"t": {**ref("N"), "xml": {"name": "beside"}}}),
        "N": {**NUMBER, "xml": {"name": "own"}},
    }
    assert parsed(posting(tool, ref("T"), **schemas), {"t": 1})[2] == [("own", {}, "1")]
    assert parsed(posting(tool, ref("T"), openapi="3.1.0", **schemas), {"t": 1})[2] == [("beside", {}, "1")]


def test_the_shape_says_nothing_that_follows_from_the_names(tool: ConvertOne) -> None:
    made = posting(tool, ref("A"), A=thing({"b": ref("B"), "d": TEXT}), B={"type": "array", "items": NUMBER})
    shape = {"root": "A", "node": {"ref": "A"}, "types": {"A": {"order": ["b", "d"]}}}
    assert made.call_template["body"]["xml"] == shape


def test_swagger_2_bodies(tool: ConvertOne) -> None:
    parameter = {"in": "body", "name": "pet", "required": True, "schema": {"$ref": "#/definitions/Pet"}}
    made = tool(
        {"consumes": ["application/xml"], "parameters": [parameter]},
        method="post",
        openapi="2.0",
        definitions={"Pet": thing({"id": {**NUMBER, "xml": {"attribute": True}}}, xml={"name": "pet"})},
    )
    assert parsed(made, {"id": 5}) == ("pet", {"id": "5"}, None)


def test_parts_of_a_form_may_be_xml(tool: ConvertOne) -> None:
    form = thing({"meta": ref("Meta"), "many": {"type": "array", "items": ref("Meta")}})
    encoding = {name: {"contentType": "application/xml"} for name in ("meta", "many")}
    made = tool(
        {"requestBody": {"content": {"multipart/form-data": {"schema": form, "encoding": encoding}}}},
        method="post",
        components={"schemas": {"Meta": thing({"a": {**NUMBER, "xml": {"attribute": True}}})}},
    )
    content = sent(made, {"meta": {"a": 1}, "many": [{"a": 2}, {"a": 3}]})
    assert content.count(b"Content-Type: application/xml") == 3
    assert b'<Meta a="1"/>' in content
    assert b'<Meta a="3"/>' in content


def test_a_schema_with_too_many_names_leaves_the_text(tool: ConvertOne) -> None:
    made = posting(tool, ref("Big"), Big=thing({f"p{number}": NUMBER for number in range(20_100)}))
    assert made.inputs["properties"]["body"]["type"] == "string"
    assert any("too large" in note for note in made.notes)
