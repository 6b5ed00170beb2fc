"""Defects and corner cases as data: each file of `torture/` lists documents and what exactly becomes of them."""

import functools
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from app.core.errors import InvalidDocument
from app.openapi import Conversion, ConvertedTool, ConvertOptions
from app.openapi.conversion.convert import convert
from app.openapi.conversion.results import SecuritySchemeSlot
from app.openapi.schemas.files import is_file
from tests.harness.cases import for_each
from tests.unit.openapi.conftest import document
from tests.unit.openapi.test_torture import check_promises

#: What a case may say of its document, and what of the result.
_GIVEN = {"name", "version", "paths", "rest", "schemas", "posts", "as", "operation", "from", "text", "coded"}
_LISTED = {"tools", "skipped", "warnings", "refused"}


@functools.cache
def read_cases() -> list[dict[str, Any]]:
    """Return the cases of all files."""
    return [
        case
        for file in sorted((Path(__file__).parent / "torture").glob("*.yaml"))
        for case in yaml.safe_load(file.read_text(encoding="utf-8"))
    ]


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
    """`input place:name style`, `*` for exploded, `+` for reserved, `!` for required, its media type, and the
    styles of the lists within it.
    """
    marks = "*" * one["explode"] + "+" * one["allow_reserved"] + "!" * one["required"]
    media = f" {one['content_type']}" if one["content_type"] else ""
    nested = f" [{' '.join(one['item_styles'])}]" if "item_styles" in one else ""
    return f"{one['input']} {one['in']}:{one['name']} {one['style']}{marks}{media}{nested}"


def positions(holder: dict[str, Any]) -> list[str]:
    """`content/type file [nested]` of each part without a name, `-` without a type, `*` for the others."""
    found = [(one, "") for one in holder.get("prefix_encoding", ())]
    found += [(holder["item_encoding"], "*")] if holder.get("item_encoding") is not None else []
    return [
        mark
        + (one.get("content_type") or "-")
        + (" file" if one.get("file") else "")
        + (f" [{', '.join(positions(one))}]" if "prefix_encoding" in one else "")
        for one, mark in found
    ]


def slot(one: SecuritySchemeSlot) -> str:
    parts = [one.name, one.kind, one.location, one.parameter, one.token_url]
    return " ".join(part for part in parts if part)


def folded(schema: Any) -> Any:
    """A schema in which that of a file is `{file: its string's other keywords}`: the rest is always the same."""
    if isinstance(schema, list):
        return [folded(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if is_file(schema):
        string = schema["anyOf"][0]
        own = {word: one for word, one in string.items() if word not in ("type", "contentEncoding")}
        return {"file": own} | {word: one for word, one in schema.items() if word != "anyOf"}
    return {word: folded(one) for word, one in schema.items()}


def facts(conversion: Conversion, made: ConvertedTool) -> dict[str, Any]:
    """All that a case may say of the first tool."""
    template = made.call_template
    return {
        "keys": [tool.source_key for tool in conversion.tools],
        "method": template["http_method"],
        "parameters": template["parameters"],
        "tags": list(made.tags),
        "url": template["url"],
        "plan": [entry(one) for one in template["parameters"]],
        "content_type": template.get("body", {}).get("content_type"),
        "encoding": template.get("body", {}).get("encoding"),
        "xml": template.get("body", {}).get("xml"),
        "single_part": template.get("body", {}).get("single_part"),
        "other_fields": template.get("body", {}).get("other_fields"),
        "notes": list(made.notes),
        "inputs": made.inputs,
        "body": folded(made.inputs["properties"].get("body")),
        "defs": folded(made.inputs.get("$defs", {})),
        "required": made.inputs.get("required", []),
        "outputs": made.outputs,
        "response": template.get("response"),
        "description": made.description,
        "security": [[" ".join([one.slot, *one.scopes]) for one in needs] for needs in made.security],
        "positions": positions(template.get("body", {})),
        "hints": {one.name: one.description for one in conversion.slots},
        "slots": [slot(one) for one in conversion.slots],
    }


@for_each("case", read_cases, ids=lambda case: case["name"])
def test_torture(case: dict[str, Any]) -> None:
    options = ConvertOptions(url=case.get("from"))
    if "refused" in case:
        with pytest.raises(InvalidDocument) as refusal:
            convert(given(case), options=options)
        assert case["refused"] in refusal.value.detail
        return
    conversion = convert(given(case), options=options)
    skipped = {one.source_key: one for one in conversion.report.operations if one.outcome == "skipped"}
    assert skipped.keys() == case.get("skipped", {}).keys()
    for key, (pointer, reason) in case.get("skipped", {}).items():
        assert skipped[key].pointer == pointer
        assert reason in (skipped[key].reason or "")
    details = [one.detail for one in conversion.report.warnings]
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
    names = [case["name"] for case in read_cases()]
    assert len(set(names)) == len(names) >= 100
    assert all((case.keys() - _GIVEN) for case in read_cases())
