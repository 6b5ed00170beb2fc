"""Forty defects and corner cases that are seen in the field, each in a document of its own.

Every case says how many operations it has, and what must hold; the common promises are checked for all.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs
import orjson

from app.openapi import Conversion, ConvertedTool, ConvertOptions
from app.openapi.conversion.convert import convert
from benchmarks.corpus.inputs import Inputs
from benchmarks.corpus.records import Record
from tests.harness.cases import for_each
from tests.unit.openapi.conftest import document

PET: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@dataclass(frozen=True)
class Case:
    paths: dict[str, Any]
    holds: Callable[[Conversion], bool]
    skipped: int = 0
    rest: dict[str, Any] = field(default_factory=dict)
    url: str | None = None


def json_body(schema: Any, **rest: Any) -> dict[str, Any]:
    return {"requestBody": {"content": {"application/json": {"schema": schema}}, "required": True}, **rest}


def q(name: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": "string"}, **rest}


def schemas(**named: Any) -> dict[str, Any]:
    return {"components": {"schemas": named}}


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def one(conversion: Conversion) -> ConvertedTool:
    [made] = conversion.tools
    return made


def url(conversion: Conversion) -> str:
    address: str = one(conversion).call_template["url"]
    return address


def body(conversion: Conversion) -> Any:
    return one(conversion).inputs["properties"]["body"]


def definition(conversion: Conversion, name: str) -> Any:
    return one(conversion).inputs["$defs"][name]


def names(conversion: Conversion) -> list[str]:
    return [made.name for made in conversion.tools]


LONG = "a_rather_long_prefix_that_all_of_these_operations_have_in_common_"
OAUTH = {
    "o": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "http://l.example/t", "scopes": {}}}}
}
KEYS = {"securitySchemes": {name: {"type": "apiKey", "in": "header", "name": name} for name in ("a", "b")}}

CASES: dict[str, Case] = {
    "dup_operation_id": Case(
        {"/a": {"get": {"operationId": "x"}}, "/b": {"get": {"operationId": "x"}}},
        lambda c: names(c)[0] == "x",
    ),
    "ids_equal_after_sanitise": Case(
        {"/a": {"get": {"operationId": "a.b"}}, "/b": {"get": {"operationId": "a b"}}},
        lambda c: names(c)[0] == "a_b",
    ),
    "long_common_prefix": Case(
        {f"/{i}": {"get": {"operationId": f"{LONG}{i}"}} for i in range(3)}, lambda c: len(c.tools) == 3
    ),
    "no_operation_id": Case(
        {"/a/{id}": {"get": {}, "post": {}}}, lambda c: names(c) == ["get_a_id", "post_a_id"]
    ),
    "no_summary": Case({"/a": {"get": {}}}, lambda c: one(c).description == "GET /a"),
    "unicode_id": Case(
        {"/a": {"get": {"operationId": "получить"}}, "/b": {"get": {"operationId": "取得"}}},
        lambda c: names(c) == ["get_a", "get_b"],
    ),
    "one_bad_op_of_three": Case(
        {"/a": {"get": {}}, "/b": {"get": {"parameters": [{"in": "query", "required": True}]}}, "/c": {"get": {}}},
        lambda c: names(c) == ["get_a", "get_c"],
        skipped=1,
    ),
    "dangling_ref_in_one_op": Case(
        {"/a": {"post": json_body(ref("Gone"))}, "/b": {"post": json_body(PET)}},
        lambda c: names(c) == ["post_a", "post_b"] and bool(c.tools[0].notes) and not c.tools[1].notes,
    ),
    "external_ref_in_one_op": Case(
        {"/a": {"post": json_body({"$ref": "./other.yaml#/X"})}, "/b": {"post": json_body(PET)}},
        lambda c: names(c) == ["post_a", "post_b"] and bool(c.tools[0].notes) and not c.tools[1].notes,
    ),
    "path_item_ref": Case(
        {"/a": {"$ref": "#/components/pathItems/A"}},
        lambda c: names(c) == ["get_a"],
        rest={"components": {"pathItems": {"A": {"get": {}}}}},
    ),
    "param_ref_and_body_ref": Case(
        {"/a": {"post": {"parameters": [{"$ref": "#/components/parameters/Q"}],
                         "requestBody": {"$ref": "#/components/requestBodies/B"}}}},
        lambda c: list(one(c).inputs["properties"]) == ["q", "body"] and body(c) == PET,
        rest={"components": {"parameters": {"Q": q("q")},
                             "requestBodies": {"B": {"content": {"application/json": {"schema": PET}}}}}},
    ),
    "pointer_escapes": Case(
        {"/a": {"post": json_body({"$ref": "#/components/schemas/a~1b~0c"})}},
        lambda c: list(one(c).inputs["$defs"].values()) == [PET],
        rest=schemas(**{"a/b~c": PET}),
    ),
    "recursive_body": Case(
        {"/a": {"post": json_body(ref("N"))}},
        lambda c: definition(c, "N")["properties"]["n"] == {"$ref": "#/$defs/N"},
        rest=schemas(N={"properties": {"n": ref("N")}}),
    ),
    "mutual_recursion_allOf": Case(
        {"/a": {"post": json_body(ref("A"))}},
        lambda c: list(one(c).inputs["$defs"]) == ["A", "B"],
        rest=schemas(
            A={"allOf": [{"properties": {"b": ref("B")}}]}, B={"allOf": [{"properties": {"a": ref("A")}}]}
        ),
    ),
    "path_and_body_same_name": Case(
        {"/a/{name}": {"post": json_body(PET, parameters=[{**q("name"), "in": "path", "required": True}])}},
        lambda c: one(c).inputs["required"] == ["name", "body"] and body(c) == PET,
    ),
    "param_named_body": Case(
        {"/a": {"post": json_body(PET, parameters=[q("body")])}},
        lambda c: list(one(c).inputs["properties"]) == ["body_query", "body"] and body(c) == PET,
    ),
    "odd_param_names": Case(
        {"/a": {"get": {"parameters": [q("$filter"), q("filter[x]"), q("ids[]")]}}},
        lambda c: list(one(c).inputs["properties"]) == ["filter", "filter_x", "ids"],
    ),
    "op_overrides_path_param": Case(
        {"/a": {"parameters": [q("q")], "get": {"parameters": [q("q", required=True)]}}},
        lambda c: one(c).inputs["required"] == ["q"],
    ),
    "undeclared_path_param": Case({"/a/{id}": {"get": {}}}, lambda c: one(c).inputs["required"] == ["id"]),
    "nullable_and_exclusive": Case(
        {"/a": {"post": json_body({"type": "number", "nullable": True, "minimum": 0, "exclusiveMinimum": True})}},
        lambda c: body(c) == {"type": ["number", "null"], "exclusiveMinimum": 0},
    ),
    "boolean_schemas_31": Case(
        {"/a": {"post": json_body({"properties": {"a": True, "b": False}})}},
        lambda c: body(c) == {"properties": {"a": {}, "b": {"not": {}}}},
        rest={"openapi": "3.1.0"},
    ),
    "ref_siblings_31": Case(
        {"/a": {"post": json_body({**ref("P"), "required": ["extra"]})}},
        lambda c: body(c) == {"$ref": "#/$defs/P", "required": ["extra"]},
        rest={"openapi": "3.1.0", **schemas(P=PET)},
    ),
    "oneOf_body_root": Case(
        {"/a": {"post": json_body({"oneOf": [PET, {"type": "array"}]})}},
        lambda c: "oneOf" in body(c) and "oneOf" not in one(c).inputs,
    ),
    "readonly_props": Case(
        {"/a": {"post": json_body({"properties": {"id": {"readOnly": True}, "n": {}}, "required": ["id", "n"]})}},
        lambda c: body(c) == {"properties": {"n": {}}, "required": ["n"]},
    ),
    "server_variable": Case(
        {"/a": {"get": {}}},
        lambda c: url(c) == "https://eu.example.com/a",
        rest={"servers": [{"url": "https://{r}.example.com", "variables": {"r": {"default": "eu"}}}]},
    ),
    "relative_server": Case(
        {"/a": {"get": {}}},
        lambda c: url(c) == "https://docs.example.com/api/v3/a",
        rest={"servers": [{"url": "/api/v3"}]},
        url="https://docs.example.com/spec/openapi.json",
    ),
    "no_servers": Case(
        {"/a": {"get": {}}},
        lambda c: url(c) == "https://docs.example.com/a",
        rest={"servers": []},
        url="https://docs.example.com/spec/openapi.json",
    ),
    "operation_server": Case(
        {"/a": {"get": {"servers": [{"url": "https://own.example.com/v9"}]}}},
        lambda c: url(c) == "https://own.example.com/v9/a",
    ),
    "and_security": Case(
        {"/a": {"get": {"security": [{"a": [], "b": []}]}}},
        lambda c: [need.slot for need in one(c).security[0]] == ["a", "b"],
        rest={"components": KEYS},
    ),
    "public_op_overrides_global": Case(
        {"/a": {"get": {"security": []}}},
        lambda c: one(c).security == () and c.slots == (),
        rest={"components": KEYS, "security": [{"a": []}]},
    ),
    "http_token_url": Case(
        {"/a": {"get": {"security": [{"o": []}]}}},
        lambda c: c.slots[0].token_url == "http://l.example/t",
        rest={"components": {"securitySchemes": OAUTH}},
    ),
    "head_options_trace": Case(
        {"/a": {"get": {}, "head": {}, "options": {}, "trace": {}}}, lambda c: len(c.tools) == 4
    ),
    "authorization_header_param": Case(
        {"/a": {"get": {"parameters": [{**q("Authorization", required=True), "in": "header"}]}}},
        lambda c: one(c).inputs["properties"] == {} and "required" not in one(c).inputs,
    ),
    "json_content_param": Case(
        {"/a": {"get": {"parameters": [{"name": "q", "in": "query", "content": {"application/json": {"schema": PET}}}]}}},
        lambda c: one(c).inputs["properties"]["q"] == PET
        and one(c).call_template["parameters"][0]["content_type"] == "application/json",
    ),
    "multi_content_json_not_first": Case(
        {"/a": {"post": {"requestBody": {"content": {"text/plain": {}, "application/json": {"schema": PET}}}}}},
        lambda c: one(c).call_template["body"]["content_type"] == "application/json" and body(c) == PET,
    ),
    "merge_patch_json": Case(
        {"/a": {"patch": {"requestBody": {"content": {"application/merge-patch+json": {"schema": PET}}}}}},
        lambda c: one(c).call_template["body"]["content_type"] == "application/merge-patch+json",
    ),
    "swagger2": Case(
        {"/a/{id}": {"post": {"parameters": [
            {"name": "id", "in": "path", "required": True, "type": "integer", "exclusiveMinimum": True, "minimum": 0},
            {"name": "pet", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Pet"}},
        ]}}},
        lambda c: url(c) == "https://api.example.com/v1/a/{id}"
        and one(c).inputs["required"] == ["id", "body"]
        and definition(c, "Pet") == PET,
        rest={"openapi": "2.0", "definitions": {"Pet": PET}},
    ),
    "bad_regex": Case(
        {"/a": {"get": {"parameters": [{"name": "q", "in": "query", "schema": {"type": "string", "pattern": "[a-"}}]}}},
        lambda c: one(c).inputs["properties"]["q"] == {"type": "string"},
    ),
    "enum_type_mismatch": Case(
        {"/a": {"get": {"parameters": [{"name": "q", "in": "query", "schema": {"type": "integer", "enum": ["1"]}}]}}},
        lambda c: jsonschema_rs.validator_for(one(c).inputs).is_valid({"q": "1"}),
    ),
    "deep_inline_bomb": Case(
        {"/a": {"post": json_body(ref("A0"))}},
        lambda c: len(orjson.dumps(one(c).inputs)) < 10_000,
        rest=schemas(
            **{f"A{i}": {"properties": {k: ref(f"A{i + 1}") for k in "abcd"}} for i in range(15)}, A15=PET
        ),
    ),
}  # fmt: skip


def test_there_are_forty_of_them() -> None:
    assert len(CASES) == 40


@for_each("name", CASES)
def test_case(name: str) -> None:
    case = CASES[name]
    options = ConvertOptions(url=case.url)
    conversion = convert(orjson.dumps(document(case.paths, **case.rest)), options=options)
    assert conversion.report.counts.skipped == case.skipped
    assert case.holds(conversion)
    for made in conversion.tools:
        check_promises(made)
    assert len(set(names(conversion))) == len(conversion.tools)


def check_promises(made: ConvertedTool) -> None:
    """What holds for every tool, whatever the document: M3 to M8 of the corpus."""
    record = Record(made.source_key, "")
    Inputs().check(made, record)
    assert record.findings == []
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", made.name)
    assert made.inputs["additionalProperties"] is False
    assert made.inputs.keys() <= {"type", "properties", "required", "additionalProperties", "$defs"}
    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key) for key in made.inputs["properties"])
    required = made.inputs.get("required", [])
    parameters = {one["name"]: one for one in made.call_template["parameters"] if one["in"] == "path"}
    for placeholder in re.findall(r"\{([^{}]+)\}", made.call_template["url"]):
        assert parameters[placeholder]["input"] in required
