"""Tests of the metrics: each falls when a conversion has a defect of the kind that it measures."""

import copy
import random
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from app.openapi import Conversion, ConvertOptions
from app.openapi.conversion.convert import convert
from benchmarks.corpus.assessment import Extent, assess, compare, digest
from benchmarks.corpus.cases import assess_case
from benchmarks.corpus.records import PERFECT, Assessment
from benchmarks.corpus.strata import EVERY_STRATUM
from benchmarks.corpus.strata_servers import SERVER_STRATA

URL = "https://specs.example/api/openapi.json"
DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "T", "version": "1"},
    "servers": [{"url": "/{stage}", "variables": {"stage": {"default": "v1"}}}],
    "security": [{"key": [], "login": ["read"]}],
    "components": {
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "login": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "/token", "scopes": {}}}},
        },
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["name", "serial"],
                "properties": {
                    "name": {"type": "string", "nullable": True, "pattern": "^[a-z]+$"},
                    "serial": {"type": "integer", "readOnly": True},
                    "age": {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
                    "mother": {"$ref": "#/components/schemas/Pet"},
                },
            }
        },
    },
    "paths": {
        "/pets/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
            "put": {
                "operationId": "putPet",
                "parameters": [
                    {"name": "id", "in": "query", "required": True, "schema": {"type": "string"}},
                    {"name": "tags", "in": "query", "explode": False, "required": True,
                     "schema": {"type": "array", "items": {"type": "string"}, "minItems": 2}},
                    {"name": "Authorization", "in": "header", "required": True, "schema": {"type": "string"}},
                ],
                "requestBody": {
                    "required": True,
                    "content": {
                        "text/plain": {},
                        "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}},
                    },
                },
            },
        },
        "/photos": {
            "post": {
                "operationId": "addPhoto",
                "security": [],
                "requestBody": {"required": True, "content": {"image/png": {}}},
            }
        },
        "/last": {"get": {"operationId": "last"}},
    },
}  # fmt: skip

Json = dict[str, Any]
Plant = Callable[[Json], Any]


def tool(form: Json, name: str = "putPet") -> Json:
    found: Json = next(one for one in form["tools"] if one["name"] == name)
    return found


def plan(form: Json, wire: str, place: str) -> Json:
    listed = tool(form)["call_template"]["parameters"]
    found: Json = next(one for one in listed if (one["name"], one["in"]) == (wire, place))
    return found


def body_of(form: Json) -> Json:
    found: Json = tool(form)["inputs"]["properties"]["body"]
    return found


def pet(form: Json) -> Json:
    found: Json = tool(form)["inputs"]["$defs"]["Pet"]
    return found


def rename_input(form: Json, old: str, new: str) -> None:
    inputs = tool(form)["inputs"]
    inputs["properties"] = {new if key == old else key: one for key, one in inputs["properties"].items()}
    inputs["required"] = [new if key == old else key for key in inputs["required"]]
    for entry in tool(form)["call_template"]["parameters"]:
        entry["input"] = new if entry["input"] == old else entry["input"]


def drop_parameter(form: Json, wire: str, place: str) -> None:
    entry = plan(form, wire, place)
    tool(form)["call_template"]["parameters"].remove(entry)
    del tool(form)["inputs"]["properties"][entry["input"]]
    tool(form)["inputs"]["required"].remove(entry["input"])


def template(form: Json, **changes: Any) -> None:
    tool(form)["call_template"].update(changes)


def root(form: Json, **changes: Any) -> None:
    tool(form)["inputs"].update(changes)


DEFECTS: list[tuple[str, Plant]] = [
    ("M1", lambda f: f["report"]["operations"].pop()),
    ("M1", lambda f: f["report"]["operations"][0].update(outcome="skipped", reason=None)),
    ("M2", lambda f: f["tools"].pop()),
    ("M2", lambda f: f["tools"].append(copy.deepcopy(f["tools"][0]))),
    ("M2", lambda f: f["tools"].append({**f["tools"][0], "source_key": "GET /nowhere", "name": "x"})),
    ("M2", lambda f: template(f, http_method="POST")),
    ("M3 unique", lambda f: tool(f, "addPhoto").update(name="putPet")),
    ("M3 legal", lambda f: tool(f).update(name="put.pet")),
    ("M3 stable", lambda f: tool(f).update(name="putPet_2")),
    ("M4 valid", lambda f: pet(f).update(type="nothing")),
    ("M4 valid", lambda f: root(f, required="id")),
    ("M4 root", lambda f: root(f, type="array")),
    ("M4 root", lambda f: root(f, anyOf=[{}])),
    ("M5", lambda f: tool(f)["inputs"]["$defs"].pop("Pet")),
    ("M5", lambda f: body_of(f).update({"$ref": "#/components/schemas/Pet"})),
    ("M6", lambda f: pet(f)["properties"]["name"].update(nullable=True)),
    ("M6", lambda f: pet(f)["properties"]["age"].update(exclusiveMinimum=True)),
    ("M6", lambda f: pet(f)["properties"]["name"].update(pattern="(?P<x>a")),
    ("M6", lambda f: pet(f)["properties"]["name"].update(discriminator={})),
    ("M7", lambda f: rename_input(f, "tags", "tags[]")),
    ("M8", lambda f: drop_parameter(f, "id", "path")),
    ("M8", lambda f: tool(f)["inputs"]["required"].remove("id")),
    ("M9 parameters", lambda f: drop_parameter(f, "tags", "query")),
    ("M9 parameters", lambda f: plan(f, "tags", "query").update(explode=True)),
    ("M9 parameters", lambda f: plan(f, "tags", "query").update(name="tag")),
    ("M9 collisions", lambda f: plan(f, "id", "query").update(input="id")),
    ("M10", lambda f: tool(f)["inputs"]["required"].remove("tags")),
    ("M10", lambda f: tool(f)["inputs"]["required"].remove("body")),
    ("M10", lambda f: pet(f).pop("required")),
    ("M10", lambda f: pet(f).update(required=["name", "serial"])),
    ("M11 body", lambda f: tool(f)["call_template"].pop("body")),
    ("M11 non-JSON", lambda f: tool(f, "addPhoto")["call_template"].pop("body")),
    ("M11 readOnly", lambda f: pet(f)["properties"].update(serial={"type": "integer"})),
    ("M11 properties", lambda f: pet(f)["properties"].pop("age")),
    ("M12 JSON", lambda f: tool(f)["call_template"]["body"].update(content_type="text/plain")),
    ("M12 non-JSON", lambda f: tool(f, "addPhoto")["call_template"]["body"].update(content_type="image/gif")),
    ("M12", lambda f: tool(f)["call_template"]["body"].update(content_type="nonsense")),
    ("M13 absolute", lambda f: template(f, url="/v1/pets/{id}")),
    ("M13 exact", lambda f: template(f, url="https://specs.example/pets/{id}")),
    ("M13 exact", lambda f: template(f, url="https://specs.example/api/v1/pets/{id}")),
    ("M14 secured", lambda f: tool(f).update(security=[])),
    ("M14 secured", lambda f: tool(f)["security"][0].pop()),
    ("M14 secured", lambda f: tool(f)["security"][0][1].update(scopes=[])),
    ("M14 secured", lambda f: f["slots"][0].update(name="X-Other")),
    ("M14 public", lambda f: tool(f, "addPhoto").update(security=tool(f)["security"])),
    ("M14 ignored headers", lambda f: plan(f, "tags", "query").update({"name": "authorization", "in": "header"})),
    ("M15 accepted", lambda f: pet(f)["properties"]["name"].update(maxLength=0)),
    ("M15 rejected", lambda f: tool(f)["inputs"]["properties"].update(tags={})),
    ("M15 rejected", lambda f: pet(f)["properties"].update(name={})),
    ("M16 corpus", lambda f: plan(f, "tags", "query").update(explode=True)),
    ("M16 corpus", lambda f: template(f, url="https://specs.example/v1/pet/{id}")),
    ("M16 corpus", lambda f: tool(f, "addPhoto")["call_template"]["body"].update(content_type="text/plain")),
    ("M18 large tools", lambda f: tool(f).update(description="x" * 31_000)),
]  # fmt: skip


def assessed(conversion: Conversion) -> Assessment:
    made = Assessment("planted")
    compare(orjson.dumps(DOCUMENT), conversion, made, url=URL, extent=Extent())
    return made


@pytest.fixture(scope="module")
def conversion() -> Conversion:
    return convert(orjson.dumps(DOCUMENT), options=ConvertOptions(url=URL))


def test_without_a_defect_every_metric_applies_and_holds(conversion: Conversion) -> None:
    found = assessed(conversion)
    assert found.findings == []
    assert {metric for metric, _ in DEFECTS} <= found.scores.cases.keys()
    assert {one.partition(" ")[0] for one in found.scores.cases} == {f"M{n}" for n in range(1, 19) if n != 17}


@pytest.mark.parametrize("number", range(len(DEFECTS)), ids=lambda i: f"{DEFECTS[i][0]} {i}")
def test_a_planted_defect_lowers_its_metric(conversion: Conversion, number: int) -> None:
    metric, plant = DEFECTS[number]
    form = orjson.loads(conversion.to_bytes())
    plant(form)
    defective = assessed(Conversion.from_json(form))
    assert defective.scores.percent(metric) != 100, metric
    if metric.split()[0] in PERFECT:
        assert not defective.perfect


def test_a_rejected_document_fails_m1() -> None:
    found = assess(b'{"openapi": "3.0.0", "paths": []}', url=URL, extent=Extent(), spec="rejected")
    assert found.scores.percent("M1") == 0
    assert not found.perfect


def test_another_order_is_another_digest(conversion: Conversion) -> None:
    form = orjson.loads(conversion.to_bytes())
    form["tools"].reverse()
    assert digest(Conversion.from_json(form)) != digest(conversion)


def reserialised(node: Any) -> Any:
    """The document with other serialisation rules for its operation."""
    if isinstance(node, list):
        return [reserialised(one) for one in node]
    if not isinstance(node, dict):
        return node
    swap = {"multi": "pipes", "csv": "multi", "ssv": "csv", "pipes": "ssv", "tsv": "csv"}
    out = {key: reserialised(one) for key, one in node.items()}
    if "collectionFormat" in out:
        out["collectionFormat"] = "csv" if out["in"] in ("path", "header") else swap[out["collectionFormat"]]
    if "in" in out and "name" in out:
        out["name"] = out["name"] if out["in"] == "path" else out["name"] + "x"
        if out.get("style") in ("simple", "label", "matrix") and out["in"] == "path":
            out["style"] = {"simple": "label", "label": "matrix", "matrix": "simple"}[out["style"]]
    if "content" in out and "in" not in out:
        out["content"] = dict.fromkeys(["application/vnd.other"], *out["content"].values())
    return out


@pytest.mark.parametrize("name", EVERY_STRATUM)
def test_a_differently_serialised_request_is_detected_in_every_stratum(name: str) -> None:
    applicable = wrong = 0
    for number in range(12):
        case = EVERY_STRATUM[name](random.Random(f"planted {number}"))
        record = assess_case(case, name)
        assert record.findings == []
        applicable += bool(record.applies)
        if case.twin is None:
            case.twin = reserialised(case.document())
            wrong += bool(assess_case(case, name).findings)
        else:
            # The 2.0 document stays, and another 3.x document is compared with it.
            changed = case.document()
            case.parameters = [{**one, "name": one["name"] + "x"} for one in case.parameters]
            case.body = (
                reserialised(changed["paths"][case.path]["post"].get("requestBody")) if case.body else None
            )
            wrong += bool(assess_case(case, name).findings)
    assert applicable == 12
    assert wrong == 12


@pytest.mark.parametrize("name", SERVER_STRATA)
def test_another_server_or_other_media_types_are_detected(name: str) -> None:
    for number in range(12):
        case = SERVER_STRATA[name](random.Random(f"planted {number}"))
        record = assess_case(case, name)
        assert record.findings == []
        assert record.applies
        if case.accept is not None:
            case.accept = ["application/other", *case.accept]
        else:
            case.server += "/other"
        assert assess_case(case, name).findings
