"""Schemas: the dialects of OpenAPI as JSON Schema 2020-12."""

from collections.abc import Callable
from typing import Any

from app.openapi import ConvertedTool
from tests.harness.cases import for_each
from tests.unit.openapi.conftest import Convert, ConvertOne

Body = Callable[..., Any]


@for_each(
    ("written", "became"),
    [
        # nullable
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "x-nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": False}, {"type": "string"}),
        ({"enum": ["a"], "nullable": True}, {"enum": ["a", None]}),
        ({"type": "string", "enum": ["a"], "nullable": True}, {"type": ["string", "null"], "enum": ["a", None]}),
        (
            {"allOf": [{"type": "string"}], "nullable": True, "description": "d"},
            {"anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}], "description": "d"},
        ),
        # draft 4 bounds
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"minimum": 1, "exclusiveMinimum": False}, {"minimum": 1}),
        ({"maximum": 9, "exclusiveMaximum": True}, {"exclusiveMaximum": 9}),
        ({"exclusiveMinimum": True}, {}),
        ({"exclusiveMaximum": 9}, {"exclusiveMaximum": 9}),
        # types
        ({"type": "file"}, {"type": "string", "contentEncoding": "base64"}),
        ({"type": "any"}, {}),
        ({"type": "float"}, {"type": "number"}),
        ({"type": "String"}, {"type": "string"}),
        ({"type": ["string", "null", "wrong"]}, {"type": ["string", "null"]}),
        ({"type": 7}, {}),
        ({"type": "integer", "enum": ["1", "2"]}, {"enum": ["1", "2"]}),
        ({"type": "integer", "enum": [1, "2"]}, {"type": "integer", "enum": [1, "2"]}),
        # examples
        ({"example": "x"}, {"examples": ["x"]}),
        ({"examples": {"one": {"value": 1}, "two": {"value": 2}}}, {"examples": [1, 2]}),
        ({"examples": "x"}, {}),
        ({"examples": [True, 1, True, {"a": 1, "b": 2}, {"b": 2, "a": 1}]}, {"examples": [True, 1, {"a": 1, "b": 2}]}),
        # what no validator reads
        ({"required": True}, {}),
        ({"required": ["a", 7, "a"]}, {"required": ["a"]}),
        ({"minLength": "3", "maxLength": 4.0, "minItems": -1}, {"minLength": 3, "maxLength": 4}),
        ({"multipleOf": 0, "minimum": "x"}, {}),
        ({"enum": []}, {}),
        ({"enum": [1, 1.0, "a", "a", True]}, {"enum": [1, "a", True]}),
        ({"items": {"enum": [[1], [1.0], {"a": None}, {"a": None}]}}, {"items": {"enum": [[1], {"a": None}]}}),
        ({"allOf": []}, {}),
        ({"anyOf": {"type": "string"}}, {"anyOf": [{"type": "string"}]}),
        ({"properties": {"a": True, "b": False, "c": 7}}, {"properties": {"a": {}, "b": {"not": {}}}}),
        ({"properties": {"a": {"additionalProperties": False}}}, {"properties": {"a": {"additionalProperties": False}}}),
        ({"items": [{"type": "string"}], "additionalItems": False}, {"prefixItems": [{"type": "string"}], "items": False}),
        ({"dependencies": {"a": ["b"]}}, {"dependentRequired": {"a": ["b"]}}),
        ({"pattern": "[a-"}, {}),
        ({"pattern": 0}, {}),
        ({"pattern": "^(?P<x>a)$"}, {}),
        ({"pattern": "^.{0,262144}$"}, {}),
        ({"pattern": "^(a{1,999}){1,999}$"}, {}),
        ({"pattern": "^[a-z]{2}$"}, {"pattern": "^[a-z]{2}$"}),
        ({"patternProperties": {"[": {}, "^a": {}}}, {"patternProperties": {"^a": {}}}),
        # dropped
        ({"discriminator": {"propertyName": "a"}, "xml": {}, "x-a": 1, "$id": "u:x", "$schema": "y"}, {}),
        (True, {}),
        (False, {"not": {}}),
        (None, {}),
        ("string", {}),
    ],
)  # fmt: skip
def test_keywords(body: Body, written: Any, became: Any) -> None:
    assert body(written) == became


def test_names_of_properties_are_not_keywords(body: Body) -> None:
    schema = {"properties": {"nullable": {"type": "string"}, "$ref": {"type": "string"}, "example": True}}
    assert body(schema) == {
        "properties": {"nullable": {"type": "string"}, "$ref": {"type": "string"}, "example": {}}
    }


def test_every_dropped_pattern_stands_in_the_report(converted: Convert) -> None:
    parameter = {"name": "q", "in": "query", "schema": {"type": "string", "pattern": "[a-"}}
    [warning] = converted({"/x": {"get": {"parameters": [parameter]}}}).report.warnings
    assert warning.pointer == "/paths/~1x/get/parameters/0/schema/pattern"


def test_hidden_characters_and_length_of_texts(body: Body) -> None:
    made = body({"description": "a\u200bb\u202ec\x00d\U000e0041e", "title": "x" * 5_000})
    assert made["description"] == "abcde"
    assert len(made["title"]) == 2_000


# References ---------------------------------------------------------------------------------------------------


def posting(tool: ConvertOne, schema: Any, schemas: Any, **rest: Any) -> ConvertedTool:
    content = {"application/json": {"schema": schema}}
    return tool({"requestBody": {"content": content}}, method="post", components={"schemas": schemas}, **rest)


def test_definitions_come_nearest_first_and_only_those_in_use(tool: ConvertOne) -> None:
    schemas = {
        "Unused": {},
        "Leaf": {"type": "string"},
        "B": {"properties": {"l": {"$ref": "#/components/schemas/Leaf"}}},
        "A": {
            "properties": {
                "b": {"$ref": "#/components/schemas/B"},
                "l": {"$ref": "#/components/schemas/Leaf"},
            }
        },
    }
    made = posting(tool, {"$ref": "#/components/schemas/A"}, schemas)
    assert list(made.inputs["$defs"]) == ["A", "B", "Leaf"]
    assert made.inputs["properties"]["body"] == {"$ref": "#/$defs/A"}


def test_cycles_stay_references(tool: ConvertOne, accepts: Callable[..., bool]) -> None:
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/components/schemas/Node"}},
        "additionalProperties": False,
    }
    made = posting(tool, {"$ref": "#/components/schemas/Node"}, {"Node": node})
    assert accepts(made, {"body": {"next": {"next": {}}}})
    assert not accepts(made, {"body": {"next": {"next": {"other": 1}}}})


@for_each(
    ("reference", "component"),
    [
        ("#/components/schemas/a~1b~0c", "a/b~c"),
        ("#/components/schemas/a%20b", "a b"),
        ("#/components/schemas/a%7E1b", "a/b"),
        ("#/components/schemas/100%25", "100%"),
        ("#/components/schemas/%7Bid%7D", "{id}"),
        ("#/components/schemas/%41literal", "%41literal"),
    ],
)
def test_pointer_escapes(tool: ConvertOne, reference: str, component: str) -> None:
    made = posting(tool, {"$ref": reference}, {component: {"const": "here"}})
    [(name, schema)] = made.inputs["$defs"].items()
    assert schema == {"const": "here"}
    assert made.inputs["properties"]["body"] == {"$ref": f"#/$defs/{name}"}


def test_references_may_lead_through_paths_arrays_and_other_references(converted: Convert) -> None:
    parameter = {"name": "q", "in": "query", "schema": {"const": "there"}}
    conversion = converted(
        {
            "/a/{b}": {"get": {"operationId": "one", "parameters": [{"$ref": "#/components/parameters/Q"}]}},
            "/c": {"post": {"operationId": "two", "requestBody": {"content": {"application/json": {"schema": {
                "$ref": "#/paths/~1a~1%7Bb%7D/get/parameters/0/schema"}}}}}},
        },
        components={"parameters": {"Q": parameter}},
    )  # fmt: skip
    [definition] = conversion.tools[1].inputs["$defs"].values()
    assert definition == {"const": "there"}


def test_siblings_of_references_count_in_3_1_and_not_before(tool: ConvertOne) -> None:
    schema = {"$ref": "#/components/schemas/A", "description": "d", "minLength": 3, "required": ["x"]}
    old = posting(tool, schema, {"A": {}})
    new = posting(tool, schema, {"A": {}}, openapi="3.1.0")
    assert old.inputs["properties"]["body"] == {"$ref": "#/$defs/A", "description": "d"}
    assert new.inputs["properties"]["body"] == {
        "$ref": "#/$defs/A", "description": "d", "minLength": 3, "required": ["x"],
    }  # fmt: skip


@for_each(
    ("schemas", "why"),
    [
        ({"A": {"$ref": "#/components/schemas/A"}}, "refers to itself"),
        (
            {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}},
            "refers to itself",
        ),
        ({"A": {"allOf": [{"type": "object"}, {"$ref": "#/components/schemas/A"}]}}, "refers to itself"),
        ({"A": {"properties": {"x": {"$ref": "#/components/schemas/Gone"}}}}, "does not exist"),
        ({"A": {"properties": {"x": {"$ref": "other.yaml#/X"}}}}, "another document"),
        ({"A": {"properties": {"x": {"$ref": "https://example.com/x.json"}}}}, "another document"),
        ({"A": {"items": {"$ref": "file:///etc/passwd"}}}, "another document"),
        ({"A": {"items": {"$ref": "#anchor"}}}, "not a JSON pointer"),
        (
            {"A": {"$ref": "#/components/schemas/B0"}}
            | {f"B{i}": {"$ref": f"#/components/schemas/B{i + 1}"} for i in range(200)}
            | {"B200": {}},
            "too long a chain",
        ),
    ],
)
def test_references_that_lead_nowhere_are_any_value_with_a_note(
    converted: Convert, accepts: Callable[[ConvertedTool, Any], bool], schemas: Any, why: str
) -> None:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}
    conversion = converted(
        {"/x": {"post": {"requestBody": {"content": content}}}}, components={"schemas": schemas}
    )
    [made] = conversion.tools
    assert any(why in note for note in made.notes)
    assert any(why in one.detail and one.pointer.startswith("/") for one in conversion.report.warnings)
    value: Any = [{"free": 1}] if "items" in schemas["A"] else {"x": {"free": 1}}
    assert accepts(made, {"body": value})
    [outcome] = conversion.report.operations
    assert outcome.notes == made.notes


def test_only_operations_that_use_a_broken_schema_have_the_note(converted: Convert) -> None:
    """The traits of Intercom's description: a version header and parts of bodies that are defined nowhere."""
    version = {"name": "Intercom-Version", "in": "header", "schema": {"$ref": "#/components/schemas/version"}}
    body = {"content": {"application/json": {"schema": {"oneOf": [{"$ref": "#/components/schemas/A"},
                                                                 {"$ref": "#/components/schemas/gone"}]}}}}  # fmt: skip
    paths = {
        "/header": {"get": {"parameters": [version]}},
        "/body": {"post": {"requestBody": body}},
        "/absent": {"post": {"requestBody": {"$ref": "#/components/requestBodies/gone"}}},
        "/plain": {"get": {}},
    }
    conversion = converted(paths, components={"schemas": {"A": {"type": "object"}}})
    assert conversion.report.counts.accepted == 4
    assert [bool(one.notes) for one in conversion.report.operations] == [True, True, True, False]
    absent = conversion.tools[2]
    assert absent.inputs["properties"]["body"] == {}
    assert "body" not in absent.inputs.get("required", [])


def test_a_fan_out_of_two_to_the_n_stays_n_definitions(tool: ConvertOne) -> None:
    schemas: dict[str, Any] = {
        f"A{i}": {"properties": {side: {"$ref": f"#/components/schemas/A{i + 1}"} for side in ("l", "r")}}
        for i in range(60)
    }
    made = posting(tool, {"$ref": "#/components/schemas/A0"}, {**schemas, "A60": {"type": "string"}})
    assert len(made.inputs["$defs"]) == 61


def test_what_is_too_large_is_left_open_at_its_far_end(converted: Convert) -> None:
    schemas = {
        f"A{i}": {
            "description": "x" * 1_900,
            "properties": {"next": {"$ref": f"#/components/schemas/A{i + 1}"}},
        }
        for i in range(2_000)
    }
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/A0"}}}
    conversion = converted(
        {"/x": {"post": {"requestBody": {"content": content}}}},
        components={"schemas": {**schemas, "A2000": {}}},
    )
    [made] = conversion.tools
    definitions = list(made.inputs["$defs"].values())
    assert len(definitions) < 1_200
    assert definitions[0] != {}
    assert definitions[-1] == {}
    assert any("left open" in note for note in made.notes)


# Read-only and write-only ------------------------------------------------------------------------------------


def test_read_only_properties_are_no_inputs(tool: ConvertOne) -> None:
    schemas = {
        "Id": {"type": "string", "readOnly": True},
        "Base": {"properties": {"made": {"readOnly": True}, "by": {}}, "required": ["made", "by"]},
        "A": {
            "allOf": [{"$ref": "#/components/schemas/Base"}, {"required": ["id", "made", "name"]}],
            "properties": {
                "id": {"$ref": "#/components/schemas/Id"},
                "seen": {"allOf": [{"type": "string"}], "readOnly": True},
                "name": {"type": "string"},
                "secret": {"writeOnly": True},
            },
            "required": ["id", "name"],
        },
    }
    made = posting(tool, {"$ref": "#/components/schemas/A"}, schemas)
    definition = made.inputs["$defs"]["A"]
    assert list(definition["properties"]) == ["name", "secret"]
    assert definition["required"] == ["name"]
    assert definition["allOf"][1] == {"required": ["name"]}
    assert made.inputs["$defs"]["Base"] == {"properties": {"by": {}}, "required": ["by"]}


def test_read_only_beside_a_reference_counts_in_3_1_only(tool: ConvertOne) -> None:
    schema = {"properties": {"a": {"$ref": "#/components/schemas/A", "readOnly": True}, "b": {}}}
    old = posting(tool, schema, {"A": {}}).inputs["properties"]["body"]
    new = posting(tool, schema, {"A": {}}, openapi="3.1.0").inputs["properties"]["body"]
    assert list(old["properties"]) == ["a", "b"]
    assert list(new["properties"]) == ["b"]


def test_write_only_properties_are_no_outputs(tool: ConvertOne) -> None:
    schema = {
        "properties": {"id": {"readOnly": True}, "secret": {"writeOnly": True}},
        "required": ["id", "secret"],
    }
    responses = {"200": {"content": {"application/json": {"schema": schema}}}}
    assert tool({"responses": responses}).outputs == {"properties": {"id": {}}, "required": ["id"]}
