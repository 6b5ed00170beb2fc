"""Model providers reject schemas that are not within their documented subsets, and take all that the gateway exports.

The requests are those of the released SDKs; the servers enforce the subsets by tables of their own (provider_schemas.py).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.gateway import RunningGateway
from tests.interop.clients import ask_program
from tests.interop.environments import interpreter
from tests.unit.formats.dialects.schemas import SCHEMAS

HERE = Path(__file__).parent
STRICT = ("auto", "true", "false")
SDKS = (
    "openai-chat", "openai-responses", "langchain", "mistral", "anthropic", "bedrock", "gemini", "gemini-openapi", "cohere",
    "ollama",
)  # fmt: skip
OPENAI = frozenset({"openai-chat", "openai-responses", "langchain", "mistral"})
ANTHROPIC = frozenset({"anthropic", "bedrock"})
STRICT_SDKS = OPENAI | ANTHROPIC
OLD_GEMINI = frozenset({"gemini-openapi"})
GEMINI = OLD_GEMINI | {"gemini"}
SUBSETS = STRICT_SDKS | OLD_GEMINI
# The inputs of a tool of a manual are an object.
OBJECTS = {name: schema for name, schema in SCHEMAS.items() if schema["type"] == "object"}
Case = tuple[Any, frozenset[str], str]
TEXT = {"type": "string"}
CLOSED = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
# What a schema of the property `v` has, which providers reject it in strict mode (Gemini: always), and what its error says (a pattern).
REJECTED: dict[str, Case] = {
    "map": ({"type": "object", "additionalProperties": TEXT}, SUBSETS, "additionalProperties"),
    "open": ({"type": "object", "properties": {}}, STRICT_SDKS, "additionalProperties"),
    "free-form": ({}, SUBSETS, "type"),
    "oneOf": ({"oneOf": [TEXT, {"type": "integer"}]}, SUBSETS, "oneOf"),
    "allOf": ({"allOf": [TEXT]}, OPENAI | OLD_GEMINI, "allOf"),
    "default": ({**TEXT, "default": "a"}, STRICT_SDKS, "default"),
    "examples": ({**TEXT, "examples": ["a"]}, SUBSETS, "examples"),
    "minLength": ({**TEXT, "minLength": 1}, STRICT_SDKS, "minLength"),
    "maxLength": ({**TEXT, "maxLength": 9}, STRICT_SDKS, "maxLength"),
    "pattern": ({**TEXT, "pattern": "a"}, ANTHROPIC, "pattern"),
    "look-ahead": ({**TEXT, "pattern": "(?=a)a"}, STRICT_SDKS, "pattern"),
    "format": ({**TEXT, "format": "uri-reference"}, SUBSETS, "format"),
    "format-uri": ({**TEXT, "format": "uri"}, OPENAI | OLD_GEMINI, "format"),
    "minimum": ({"type": "integer", "minimum": 1}, ANTHROPIC, "minimum"),
    "exclusiveMinimum": ({"type": "integer", "exclusiveMinimum": 1}, ANTHROPIC | OLD_GEMINI, "exclusiveMinimum"),
    "multipleOf": ({"type": "integer", "multipleOf": 2}, ANTHROPIC | OLD_GEMINI, "multipleOf"),
    "const": ({"type": "string", "const": "a"}, OLD_GEMINI, "const"),
    "enum-of-objects": ({"enum": [{"a": 1}]}, STRICT_SDKS | GEMINI, "num"),
    "enum-of-numbers": ({"type": "integer", "enum": [1]}, OLD_GEMINI, "enum"),
    "enum-of-booleans": ({"type": "boolean", "enum": [True]}, GEMINI, "enum"),
    "several-types": ({"type": ["string", "null"]}, OLD_GEMINI, "type|upper"),
    "list-without-items": ({"type": "array"}, frozenset(SDKS) - ANTHROPIC, "items"),
    "prefixItems": ({"type": "array", "prefixItems": [TEXT], "items": TEXT}, SUBSETS, "prefixItems"),
    "contains": ({"type": "array", "items": TEXT, "contains": TEXT}, SUBSETS, "contains"),
    "uniqueItems": ({"type": "array", "items": TEXT, "uniqueItems": True}, SUBSETS, "uniqueItems"),
    "minItems-2": ({"type": "array", "items": TEXT, "minItems": 2}, ANTHROPIC, "minItems"),
    "maxItems": ({"type": "array", "items": TEXT, "maxItems": 2}, ANTHROPIC, "maxItems"),
    "not": ({**TEXT, "not": {"const": "a"}}, SUBSETS, "not"),
    "if": ({**TEXT, "if": {"const": "a"}, "then": TEXT}, SUBSETS, "if"),
    "patternProperties": ({**CLOSED, "patternProperties": {"a": TEXT}}, SUBSETS, "patternProperties"),
    "propertyNames": ({**CLOSED, "propertyNames": TEXT}, SUBSETS, "propertyNames"),
    "dependentRequired": ({**CLOSED, "dependentRequired": {"a": ["b"]}}, SUBSETS, "dependentRequired"),
    "unevaluatedProperties": ({**CLOSED, "unevaluatedProperties": False}, SUBSETS, "unevaluatedProperties"),
    "minProperties": ({**CLOSED, "minProperties": 1}, STRICT_SDKS, "minProperties"),
    "nullable": ({**TEXT, "nullable": True}, STRICT_SDKS, "nullable"),
    "readOnly": ({**TEXT, "readOnly": True}, SUBSETS, "readOnly"),
    "extension": ({**TEXT, "x-a": 1}, SUBSETS, "x-a"),
    "optional": ({**CLOSED, "properties": {"b": TEXT}}, OPENAI, "required"),
    "closed": (CLOSED, OLD_GEMINI, "additionalProperties"),
    "boolean-schema": (True, frozenset(SDKS), "rue|bool"),
    "reference-with-siblings": ({"$ref": "#/$defs/a", "description": "b"}, STRICT_SDKS, "description"),
    "reference": ({"$ref": "#/$defs/a"}, OLD_GEMINI, r"\$ref|reference|ref"),
}  # fmt: skip
# Ollama's SDK leaves out what its types do not have. Of the whole schema, with strict and without.
ALWAYS_REJECTED: dict[str, Case] = {
    "root-any-of": ({"type": "object", "properties": {"v": TEXT}, "anyOf": [{"required": ["v"]}]}, frozenset(SDKS) - {"ollama"}, "top level"),
    "root-list": ({"type": "array", "items": TEXT}, frozenset(SDKS), "type|OBJECT"),
    "property-key": ({"type": "object", "properties": {"a b": TEXT}}, ANTHROPIC | OLD_GEMINI, "a b"),
    "property-key-with-a-dot": ({"type": "object", "properties": {"a.b": TEXT}}, OLD_GEMINI, "a.b"),
}  # fmt: skip
# Of whole strict schemas.
TOO_LARGE: dict[str, Case] = {
    "levels": (SCHEMAS["depth-11"], OPENAI, "levels"),
    "long-enum": ({**CLOSED, "properties": {"v": {"enum": [f"{n:064}" for n in range(251)]}}, "required": ["v"]}, OPENAI, "250"),
    "optional": ({**CLOSED, "properties": {f"p{n}": TEXT for n in range(25)}}, STRICT_SDKS, "optional|required"),
    "unions": ({**CLOSED, "properties": {f"p{n}": {"type": ["string", "null"]} for n in range(17)},
                "required": [f"p{n}" for n in range(17)]}, ANTHROPIC, "union"),
    "recursion": ({**CLOSED, "properties": {"v": {"$ref": "#/$defs/a"}}, "required": ["v"], "$defs": {
        "a": {**CLOSED, "properties": {"b": {"$ref": "#/$defs/a"}}, "required": ["b"]}}}, ANTHROPIC, "ircular"),
}  # fmt: skip


def tool(sdk: str, schema: Any, *, name: str = "t", strict: bool = False) -> dict[str, Any]:
    """Return a tool in the form of an SDK."""
    described = {"name": name, "description": "Does it."}
    flag = {"strict": True} if strict else {}
    match sdk:
        case "openai-responses":
            return {"type": "function", **described, "parameters": schema, "strict": strict}
        case "anthropic":
            return {**described, "input_schema": schema, **flag}
        case "bedrock":
            return {"toolSpec": {**described, "inputSchema": {"json": schema}, **flag}}
        case "gemini":
            return {"functionDeclarations": [{**described, "parametersJsonSchema": schema}]}
        case "gemini-openapi":
            return {"functionDeclarations": [{**described, "parameters": schema}]}
    return {"type": "function", "function": {**described, "parameters": schema, **flag}}


def rejections(sdk: str, url: str, lists: list[list[dict[str, Any]]]) -> dict[int, str]:
    """Return the errors that an SDK raises for requests, by their index."""
    program = [str(interpreter("model-sdks")), str(HERE / "model_loop.py")]
    return {
        int(index): error for index, error in ask_program(program, "list_rejections", sdk, url, lists).items()
    }


def schema_with(sdk: str, member: Any) -> dict[str, Any]:
    """Return a schema that a provider takes in strict mode, but for the member `v`."""
    if sdk == "gemini-openapi":
        return {"type": "OBJECT", "properties": {"v": member, "w": {"type": "STRING"}}, "required": ["v"]}
    schema = {**CLOSED, "properties": {"v": member, "w": TEXT}, "required": ["v", "w"]}
    return {**schema, "$defs": {"a": TEXT}} if isinstance(member, dict) and "$ref" in member else schema


def upper_case(member: Any) -> Any:
    """Return a schema with types as Gemini's `parameters` have them, so that nothing but the case is rejected."""
    if isinstance(member, list):
        return [upper_case(one) for one in member]
    if not isinstance(member, dict):
        return member
    return {
        key: value.upper() if key == "type" and isinstance(value, str) else upper_case(value)
        for key, value in member.items()
    }


@pytest.mark.parametrize("sdk", SDKS)
def test_a_provider_rejects_what_its_subset_does_not_have(sdk: str, provider_url: str) -> None:
    strict = sdk in STRICT_SDKS
    lists, expected, words = [], [], []
    for name, (member, by, word) in REJECTED.items():
        if sdk == "gemini-openapi" and sdk not in by:
            continue
        given = upper_case(member) if sdk == "gemini-openapi" else member
        lists.append([tool(sdk, schema_with(sdk, given), strict=strict)])
        expected.append(name if sdk in by else None)
        words.append(word)
    for table, is_strict in ((ALWAYS_REJECTED, False), (TOO_LARGE, strict)):
        for name, (schema, by, word) in table.items():
            if sdk not in by and not strict:
                continue
            given = upper_case(schema) if sdk == "gemini-openapi" else schema
            lists.append([tool(sdk, given, strict=is_strict)])
            expected.append(name if sdk in by else None)
            words.append(word)
    lists.append(
        [tool(sdk, schema_with(sdk, upper_case(TEXT) if sdk == "gemini-openapi" else TEXT), strict=strict)]
    )
    expected.append(None)
    found = rejections(sdk, provider_url, lists)
    names = [expected[index] or f"not {index}" for index in sorted(found)]
    assert names == [name for name in expected if name is not None], found
    for index, error in found.items():
        assert re.search(words[index], error), (expected[index], error)


@pytest.mark.parametrize("sdk", SDKS)
def test_a_provider_rejects_names_and_numbers_of_tools(sdk: str, provider_url: str) -> None:
    strict = sdk in STRICT_SDKS
    schema = schema_with(sdk, upper_case(TEXT) if sdk == "gemini-openapi" else TEXT)
    many = 21 if sdk in ANTHROPIC else 129
    tools = [tool(sdk, schema, name=f"t{number}", strict=strict) for number in range(many)]
    if sdk.startswith("gemini"):
        tools = [{"functionDeclarations": [one["functionDeclarations"][0] for one in tools]}]
        fewer = [{"functionDeclarations": tools[0]["functionDeclarations"][1:]}]
    else:
        fewer = tools[1:]
    named = [[tool(sdk, schema, name=name)] for name in ("a b", "x" * 65)]
    found = rejections(sdk, provider_url, [tools, fewer, *named])
    # Botocore rejects a name that is too long itself; it does not look at the characters of a name.
    assert sorted(found) == [0, 2, 3], found


@pytest.fixture(scope="module")
def odd(gateway: RunningGateway) -> Iterator[str]:
    """A provider with a tool for each keyword and shape of schemas."""
    tools = [
        {
            "name": name.replace("-", "_"), "description": "Does it.", "inputs": schema,
            "tool_call_template": {"call_template_type": "http", "url": f"https://a.example/{name}", "http_method": "POST"},
        }
        for name, schema in OBJECTS.items()
    ]  # fmt: skip
    manual = {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": tools}
    with gateway.client() as client:
        made = client.post("/providers", json={"name": "odd", "source": {"manual": manual}})
        assert made.status_code == 201, made.text
        yield "odd"
        client.delete("/providers/odd")


@pytest.mark.parametrize("sdk", SDKS)
def test_a_provider_takes_every_odd_schema_as_it_is_exported(
    sdk: str, gateway: RunningGateway, odd: str, provider_url: str
) -> None:
    lists = []
    strict_tools = 0
    with gateway.client() as client:
        for strict in STRICT:
            query = {"format": sdk, "provider": odd, "strict": strict, "limit": "1000"}
            export = client.get("/tools/export", params=query).raise_for_status().json()
            assert len(export["aliases"]) == len(OBJECTS)
            lists.append(export["tools"])
            strict_tools += sum(report["strict"] for report in export["report"]["tools"])
    assert (strict_tools > 20) == (sdk in STRICT_SDKS | {"cohere"})
    assert rejections(sdk, provider_url, lists) == {}
