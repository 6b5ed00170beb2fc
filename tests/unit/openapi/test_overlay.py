"""OpenAPI Overlay 1.0, laid over a document before it is converted."""

from typing import Any

import orjson
import pytest

from app.core.errors import InvalidDocument, TooLarge
from app.formats.archive import DocumentLimits
from app.openapi import ConvertOptions
from app.openapi.conversion.convert import convert
from app.openapi.process.client import convert_in_child
from app.openapi.reading.overlay import apply_overlay, read_overlay
from tests.harness.cases import for_each

from .conftest import document

LIMITS = DocumentLimits()
Json = dict[str, Any]


def overlay(*actions: Json, version: str = "1.0.0") -> str:
    form = {"overlay": version, "info": {"title": "O", "version": "1"}, "actions": list(actions)}
    return orjson.dumps(form).decode()


def laid(raw: Json, *actions: Json) -> tuple[Json, list[str]]:
    remarks: list[str] = []
    read = read_overlay(overlay(*actions), limits=LIMITS)
    return apply_overlay(raw, read, limits=LIMITS, warn=lambda _, detail: remarks.append(detail)), remarks


def test_an_update_is_merged_into_every_object_that_is_found() -> None:
    raw = {"paths": {"/a": {"get": {"tags": ["x"], "x": {"a": 1}}}, "/b": {"get": {"summary": "old"}}}}
    found, remarks = laid(
        raw, {"target": "$.paths.*.get", "update": {"summary": "new", "x": {"b": 2}, "tags": ["y"]}}
    )
    assert found["paths"]["/a"]["get"] == {"tags": ["x", "y"], "x": {"a": 1, "b": 2}, "summary": "new"}
    assert found["paths"]["/b"]["get"] == {"summary": "new", "x": {"b": 2}, "tags": ["y"]}
    assert remarks == []
    assert raw["paths"]["/b"]["get"] == {"summary": "old"}


def test_an_update_of_a_list_is_one_more_entry() -> None:
    found, _ = laid({"servers": [{"url": "a"}]}, {"target": "$.servers", "update": {"url": "b"}})
    assert found["servers"] == [{"url": "a"}, {"url": "b"}]


def test_everything_that_is_found_is_removed() -> None:
    raw = {"list": [1, 2, 3, 4], "paths": {"/a": {"x-internal": True}, "/b": {}}}
    found, _ = laid(
        raw,
        {"target": "$.paths[?@['x-internal'] == true]", "remove": True},
        {"target": "$.list[?@ > 1]", "remove": True},
    )
    assert found == {"list": [1], "paths": {"/b": {}}}


def test_remove_goes_before_update_and_nested_finds_are_no_trouble() -> None:
    raw = {"a": {"a": {"a": {}}}}
    found, _ = laid(raw, {"target": "$..a", "remove": True, "update": {"x": 1}})
    assert found == {}


def test_actions_go_one_after_the_other() -> None:
    found, _ = laid(
        {},
        {"target": "$", "update": {"paths": {"/x": {}}}},
        {"target": "$.paths['/x']", "update": {"get": {}}},
    )
    assert found == {"paths": {"/x": {"get": {}}}}


def test_what_finds_nothing_or_no_object_is_a_remark() -> None:
    _, remarks = laid({"a": 1}, {"target": "$.b", "remove": True}, {"target": "$.a", "update": {"x": 1}})
    assert remarks == [
        "action 0 of the overlay selects nothing: $.b",
        "action 1 of the overlay updates what is neither an object nor a list",
    ]


def test_an_alias_of_yaml_is_changed_in_one_place_only() -> None:
    shared = {"x": {}}
    found, _ = laid({"a": shared, "b": shared}, {"target": "$.a.x", "update": {"y": 1}})
    assert found == {"a": {"x": {"y": 1}}, "b": {"x": {}}}


@for_each(
    ("text", "pointer"),
    [
        ("{", "/overlay"),
        ("[]", "/overlay"),
        ("overlay: 2.0.0\nactions: [{target: $, remove: true}]", "/overlay"),
        ("openapi: 3.0.0", "/overlay"),
        ("overlay: 1.0.0", "/overlay/actions"),
        ("overlay: 1.0.0\nactions: []", "/overlay/actions"),
        ("overlay: 1.0.0\nactions: [1]", "/overlay/actions/0"),
        ("overlay: 1.0.0\nactions: [{target: $}]", "/overlay/actions/0"),
        ("overlay: 1.0.0\nactions: [{target: '$.[', remove: true}]", "/overlay/actions/0/target"),
        ("overlay: 1.0.0\nactions: [{target: 'paths', remove: true}]", "/overlay/actions/0/target"),
    ],
)
def test_what_is_no_overlay_is_rejected_with_the_place(text: str, pointer: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        read_overlay(text, limits=LIMITS)
    assert [fault.pointer for fault in refused.value.errors] == [pointer]


def test_an_overlay_in_yaml_with_a_number_for_its_version_is_read() -> None:
    assert read_overlay("overlay: 1.0\nactions: [{target: $, update: {a: 1}}]", limits=LIMITS)


def test_an_overlay_cannot_make_a_document_grow_beyond_the_limits() -> None:
    many = {"target": "$..*", "update": {str(n): {} for n in range(1000)}}
    with pytest.raises(TooLarge):
        apply_overlay(
            {str(n): {} for n in range(10_000)},
            read_overlay(overlay(many, many), limits=LIMITS),
            limits=LIMITS,
            warn=lambda *_: None,
        )
    deep: Any = {}
    for _ in range(60):
        deep = {"d": deep}
    with pytest.raises(InvalidDocument, match="nested"):
        laid({"a": {}}, *[{"target": "$" + ".d" * (60 * n), "update": deep} for n in range(3)])
    with pytest.raises(InvalidDocument):
        laid({}, {"target": "$", "remove": True})


def test_the_converter_sees_the_document_with_its_overlay() -> None:
    paths = {
        "/a": {"get": {"operationId": "a", "responses": {}}},
        "/b": {"get": {"operationId": "b", "responses": {}}},
    }
    text = overlay(
        {"target": "$.paths['/a']", "remove": True},
        {"target": "$.paths['/b'].get", "update": {"description": "Finds b."}},
        {"target": "$.nothing", "remove": True},
    )
    conversion = convert(orjson.dumps(document(paths)), options=ConvertOptions(overlay=text))
    assert [(tool.name, tool.description) for tool in conversion.tools] == [("b", "Finds b.")]
    assert "$.nothing" in conversion.report.warnings[0].detail


def test_filters_match_and_search_with_i_regexps() -> None:
    raw = {
        "paths": {
            "/ä1": {"x": "a.c"},
            "/b": {"x": "abc"},
            "/c": {"x": "a\rc"},
            "/d": {"x": "xabcx"},
            "/e": {"x": 1},
        }
    }

    def found(condition: str) -> list[str]:
        changed, _ = laid(raw, {"target": f"$.paths[?{condition}]", "update": {"y": 1}})
        return [path for path, item in changed["paths"].items() if "y" in item]

    assert found("match(@.x, 'a.c')") == ["/ä1", "/b"]
    assert found("match(@.x, 'a[.]c')") == ["/ä1"]
    assert found(r"match(@.x, 'a\\.c')") == ["/ä1"]
    assert found("search(@.x, 'abc')") == ["/b", "/d"]
    assert found(r"search(@.x, '\\p{Lu}|\\p{Ll}b')") == ["/b", "/d"]


@pytest.mark.parametrize("pattern", ["(?=a)a", "(a)\\\\1", "a{1,2000}", "("])
def test_pattern_that_is_no_i_regexp_matches_nothing_and_is_a_remark(pattern: str) -> None:
    raw = {"paths": {"/a": {"x": "a"}, "/b": {"x": "aa"}}}
    found, remarks = laid(raw, {"target": f"$.paths[?search(@.x, '{pattern}')]", "remove": True})
    assert found == raw
    assert "not an I-Regexp" in remarks[0]
    assert len(remarks) == 2


@pytest.mark.parametrize("pattern", ["(x+x+)+y", "^(x|x)*$y", "(x*)*y"])
def test_pattern_takes_time_linear_in_the_text(pattern: str) -> None:
    raw = {"paths": {"/a": {"x": "x" * 20_000}}}
    # With an engine that backtracks, this does not end.
    _, remarks = laid(raw, {"target": f"$.paths[?search(@.x, '{pattern}')]", "remove": True})
    assert "selects nothing" in remarks[0]


def test_pattern_that_is_too_large_for_its_text_is_rejected() -> None:
    raw = {"paths": {"/a": {"x": "x" * 1_000_000}}}
    with pytest.raises(TooLarge, match="regular expression"):
        laid(raw, {"target": "$.paths[?search(@.x, '([a-z]{1,50}){1,20}0')]", "remove": True})


async def test_overlay_that_takes_too_long_is_ended() -> None:
    """Filters in filters look at a part of the document again for each part that it stands in."""
    deep: Json = {}
    for _ in range(60):
        deep = {"a": deep}
    raw = document({}, x=deep)
    text = overlay({"target": "$" + "..[?@" * 5 + "..b" + "]" * 5, "remove": True})
    options = ConvertOptions(overlay=text, limits=DocumentLimits(overlay_seconds=0.5))
    with pytest.raises(TooLarge, match=r"0\.5 seconds of CPU"):
        await convert_in_child(orjson.dumps(raw), options=options)
