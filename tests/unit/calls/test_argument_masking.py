"""The arguments of a call, as whoever approves it sees them."""

from app.calls.arguments.masking import masked_arguments
from app.security.masking import Masker
from tests.harness.cases import for_each

PIN = {"type": "string", "writeOnly": True}


def shown(arguments, **inputs):
    return masked_arguments(arguments, {"type": "object", **inputs}, Masker())


@for_each(
    "inputs",
    [
        {"properties": {"a": PIN}},
        {"properties": {"a": {"type": "string", "format": "password"}}},
        {"properties": {"a": {"$ref": "#/$defs/pin"}}, "$defs": {"pin": PIN}},
        {"allOf": [{"properties": {"a": PIN}}]},
        {"oneOf": [{"properties": {"b": {}}}, {"properties": {"a": PIN}}]},
        {"properties": {"a": {"anyOf": [{"type": "null"}, PIN]}}},
        {"additionalProperties": PIN},
        {"patternProperties": {"^a": PIN}},
        {"if": {}, "then": {"properties": {"a": PIN}}},
        {"properties": {"a": {"$ref": "#/$defs/a%20pin"}}, "$defs": {"a pin": PIN}},
        {"properties": {"a": {"$ref": "#/properties/b/anyOf/0"}, "b": {"anyOf": [PIN, {}]}}},
        {"dependentSchemas": {"b": {"properties": {"a": PIN}}}},
        {"dependencies": {"b": {"properties": {"a": PIN}}}},
        {"unevaluatedProperties": PIN},
        {"properties": {"b": {}}, "allOf": [{"additionalProperties": PIN}]},
        {"oneOf": [{"properties": {"a": PIN}}, *({"properties": {f"b{n}": {}}} for n in range(100))]},
        {"properties": {"a": {"anyOf": [PIN, *({"const": n} for n in range(100))]}}},
    ],
)
def test_what_the_schema_marks_as_secret_is_masked(inputs):
    assert shown({"a": "canary"}, **inputs) == {"a": "***"}


def test_secrets_within_lists_and_objects_are_masked():
    inputs = {
        "properties": {
            "list": {"items": {"properties": {"pin": PIN}}},
            "pair": {"prefixItems": [{}, PIN]},
            "tree": {"$ref": "#/$defs/tree"},
        },
        "$defs": {"tree": {"properties": {"pin": PIN, "next": {"$ref": "#/$defs/tree"}}}},
    }
    arguments = {
        "list": [{"pin": "canary", "n": 1}],
        "pair": ["plain", "canary"],
        "tree": {"next": {"next": {"pin": "canary"}}},
    }
    assert shown(arguments, **inputs) == {
        "list": [{"pin": "***", "n": 1}],
        "pair": ["plain", "***"],
        "tree": {"next": {"next": {"pin": "***"}}},
    }


@for_each(
    "schema",
    [
        {"prefixItems": [{}], "items": PIN},
        {"prefixItems": [{}], "unevaluatedItems": PIN},
        {"items": [{}, PIN]},
        {"items": [{}], "additionalItems": PIN},
        {"contains": PIN},
    ],
)
def test_every_keyword_for_items_is_followed(schema):
    assert shown({"list": ["x", "canary"]}, properties={"list": schema})["list"][1] == "***"


def test_fields_with_secret_names_and_texts_of_secret_shape_are_masked():
    arguments = {"api_key": 4711, "nested": {"password": ["canary"]}, "q": "Bearer abcdefghij"}
    assert shown(arguments) == {"api_key": "***", "nested": {"password": "***"}, "q": "Bearer ***"}


def test_known_secrets_are_masked_by_value():
    masker = Masker()
    masker.add("canary-4711")
    assert masked_arguments({"q": "is it canary-4711?"}, {}, masker) == {"q": "is it ***?"}


def test_other_values_are_shown_as_they_are():
    arguments = {"q": "sea", "n": 1.5, "on": True, "none": None, "list": [1, {"a": "b"}]}
    assert shown(arguments) == arguments


def test_deep_and_cyclic_schemas_end():
    deep = value = {}
    for _ in range(100):
        value["a"] = value = {}
    cyclic = {"$ref": "#/$defs/x", "$defs": {"x": {"allOf": [{"$ref": "#/$defs/x"}]}}}
    assert "..." in str(masked_arguments(deep, cyclic, Masker()))


def test_values_beyond_the_schemas_that_are_read_for_a_call_are_masked():
    alternatives = {"anyOf": [{"type": "string", "maxLength": n} for n in range(2_000)]}
    arguments = {"list": ["canary"] * 200}
    masked = shown(arguments, properties={"list": {"items": alternatives}})["list"]
    assert masked[0] == "canary"
    assert masked[-1] == "***"
