"""Defects and corner cases as data: each file of `torture/` lists documents and what exactly becomes of them."""

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from app.errors import InvalidDocument
from app.openapi import Conversion, ConvertedTool, ConvertOptions, convert
from tests.unit.openapi.conftest import document
from tests.unit.openapi.test_torture import check_promises

CASES: list[dict[str, Any]] = [
    case
    for file in sorted((Path(__file__).parent / "torture").glob("*.yaml"))
    for case in yaml.safe_load(file.read_text(encoding="utf-8"))
]
#: What a case may say of its document, and what of the result.
_GIVEN = {"name", "version", "paths", "rest", "schemas", "posts", "as", "operation", "from", "text", "coded"}
_LISTED = {"tools", "skipped", "warnings", "refused"}


def given(case: dict[str, Any]) -> bytes:
    if "text" in case:
        return case["text"].encode(case.get("coded", "utf-8"))
    paths = case.get("paths", {})
    if "posts" in case:
        content = {case.get("as", "application/json"): {"schema": case["posts"]}}
        paths = {"/a": {"post": {"requestBody": {"content": content}, **case.get("operation", {})}}}
    components = {"components": {"schemas": case["schemas"]}} if "schemas" in case else {}
    whole = document(paths, openapi=case.get("version", "3.0.3"), **components)
    whole |= case.get("rest", {})
    return orjson.dumps({key: value for key, value in whole.items() if value is not None})


def entry(one: dict[str, Any]) -> str:
    """`input place:name style`, `*` for exploded, `+` for reserved, `!` for required, and its media type."""
    marks = "*" * one["explode"] + "+" * one["allow_reserved"] + "!" * one["required"]
    media = f" {one['content_type']}" if one["content_type"] else ""
    return f"{one['input']} {one['in']}:{one['name']} {one['style']}{marks}{media}"


def slot(one: dict[str, Any]) -> str:
    parts = [one["slot"], one["kind"], one["location"], one["name"], one["token_url"]]
    return " ".join(part for part in parts if part)


def facts(conversion: Conversion, made: ConvertedTool) -> dict[str, Any]:
    """All that a case may say of the first tool."""
    template = made.call_template
    return {
        "url": template["url"],
        "plan": [entry(one) for one in template["parameters"]],
        "content_type": template.get("body", {}).get("content_type"),
        "encoding": template.get("body", {}).get("encoding"),
        "inputs": made.inputs,
        "body": made.inputs["properties"].get("body"),
        "defs": made.inputs.get("$defs", {}),
        "required": made.inputs.get("required", []),
        "outputs": made.outputs,
        "description": made.description,
        "security": [[" ".join([one["slot"], *one["scopes"]]) for one in needs] for needs in made.security],
        "slots": [slot(one) for one in conversion.slots],
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_torture(case: dict[str, Any]) -> None:
    options = ConvertOptions(url=case.get("from"))
    if "refused" in case:
        with pytest.raises(InvalidDocument) as refusal:
            convert(given(case), options=options)
        assert case["refused"] in refusal.value.detail
        return
    conversion = convert(given(case), options=options)
    skipped = {
        one["source_key"]: one for one in conversion.report["operations"] if one["verdict"] == "skipped"
    }
    assert skipped.keys() == case.get("skipped", {}).keys()
    for key, (pointer, reason) in case.get("skipped", {}).items():
        assert skipped[key]["pointer"] == pointer
        assert reason in skipped[key]["reason"]
    details = [one["detail"] for one in conversion.report["warnings"]]
    for wanted in case.get("warnings", []):
        assert any(wanted in detail for detail in details), details
    if "tools" in case:
        assert [made.name for made in conversion.tools] == case["tools"]
    for made in conversion.tools:
        check_promises(made)
    said = case.keys() - _GIVEN - _LISTED
    if said:
        found = facts(conversion, conversion.tools[0])
        assert {key: found[key] for key in said} == {key: case[key] for key in said}


def test_there_are_more_than_a_hundred_with_the_forty_of_the_field() -> None:
    names = [case["name"] for case in CASES]
    assert len(set(names)) == len(names) >= 100
    assert all((case.keys() - _GIVEN) for case in CASES)
