"""Two versions of a tool: what changed, and whether callers of the old one can go on."""

from dataclasses import replace
from typing import Any

import pytest

from app.formats.json_schema.compare import compare_schemas
from app.openapi.conversion.results import ConvertedTool, SecuritySchemeSlot
from app.providers.registration.changes import compare_tools, needs_approval
from app.security.requirements import SlotRequirement
from tests.harness.cases import for_each

Json = dict[str, Any]


TOOL = ConvertedTool(
    source_key="GET /x",
    name="x",
    description="d",
    inputs={"type": "object", "properties": {}},
    outputs={},
    tags=(),
    deprecated=False,
    call_template={"http_method": "GET", "url": "https://a.example/x"},
    security=((SlotRequirement("key"),),),
)


def tool(**changes: Any) -> ConvertedTool:
    return replace(TOOL, **changes)


KEY = SecuritySchemeSlot("key", "key", kind="api_key", location="header", parameter="X-Key")


def found(
    old: ConvertedTool, new: ConvertedTool, *, slot: SecuritySchemeSlot = KEY
) -> list[tuple[str, str, bool]]:
    differences = compare_tools(old, new, old_slots={"key": KEY}, new_slots={"key": slot})
    return [(one.aspect, one.effect, one.breaking) for one in differences]


def closed(*required: str, **properties: Any) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": [*required],
        "additionalProperties": False,
    }


TEXT = {"type": "string"}


@for_each(("old", "new", "effects"), [
    (closed(a=TEXT), closed(a=TEXT), []),
    (closed(a=TEXT), closed(a={**TEXT, "description": "x", "examples": ["y"], "title": "z"}), []),
    (closed(a=TEXT), closed(a=TEXT, b=TEXT), [("widened", "/b")]),
    (closed(a=TEXT, b=TEXT), closed(a=TEXT), [("narrowed", "/b")]),
    (closed(a=TEXT), closed("a", a=TEXT), [("narrowed", "/a")]),
    (closed("a", a=TEXT), closed(a=TEXT), [("widened", "/a")]),
    (closed(a=TEXT), closed("b", a=TEXT, b=TEXT), [("narrowed", "/b"), ("widened", "/b")]),
    (closed(a=TEXT), closed(a={"type": ["string", "null"]}), [("widened", "/a")]),
    (closed(a={}), closed(a=TEXT), [("narrowed", "/a")]),
    (closed(a=TEXT), closed(a={"type": "integer"}), [("changed", "/a")]),
    (closed(a={"type": "integer"}), closed(a={"type": "number"}), [("widened", "/a")]),
    (closed(a={"enum": [1, 2]}), closed(a={"enum": [2, 1]}), []),
    (closed(a={"enum": [1, 2]}), closed(a={"enum": [2, 3]}), [("narrowed", "/a"), ("widened", "/a")]),
    (closed(a={"const": 1}), closed(a={"enum": [1, 2]}), [("widened", "/a")]),
    (closed(a={"maximum": 5}), closed(a={"maximum": 4}), [("narrowed", "/a")]),
    (closed(a={"minLength": 5}), closed(a={"minLength": 4}), [("widened", "/a")]),
    (closed(a={"minLength": 5}), closed(a={}), [("widened", "/a")]),
    (closed(a={}), closed(a={"pattern": "x"}), [("narrowed", "/a")]),
    (closed(a={"pattern": "x"}), closed(a={"pattern": "y"}), [("changed", "/a")]),
    (closed(a={"items": TEXT}), closed(a={"items": {"type": ["string", "null"]}}), [("widened", "/a/*")]),
    (closed(a={"items": TEXT}), closed(a={}), [("widened", "/a/*")]),
    (closed(a={"anyOf": [TEXT]}), closed(a={"anyOf": [TEXT, {"type": "null"}]}), [("widened", "/a")]),
    (closed(a={"oneOf": [TEXT, {}]}), closed(a={"oneOf": [TEXT]}), [("narrowed", "/a")]),
    (closed(a=TEXT), closed(a={"anyOf": [TEXT, {"type": "null"}], "title": "A"}), [("widened", "/a")]),
    (closed(a={"anyOf": [TEXT, {"type": "null"}]}), closed(a={**TEXT, "title": "A"}), [("narrowed", "/a")]),
    (closed(a={**TEXT, "maxLength": 9}),
     closed(a={"anyOf": [{**TEXT, "maxLength": 10}, {"type": "array", "items": TEXT}]}), [("widened", "/a")]),
    (closed(a={**TEXT, "maxLength": 9}), closed(a={"anyOf": [{**TEXT, "maxLength": 8}, {"type": "array"}]}),
     [("widened", "/a"), ("widened", "/a"), ("narrowed", "/a")]),
    (closed(a={"anyOf": [TEXT, {}]}), closed(a={"anyOf": [{"type": "integer"}, {}]}), [("changed", "/a")]),
    (closed(a=True), closed(a=False), [("narrowed", "/a")]),
    (closed(**{"a/b~": TEXT}), closed(**{"a/b~": {}}), [("widened", "/a~1b~0")]),
    ({**closed(a={"$ref": "#/$defs/A"}), "$defs": {"A": closed(x=TEXT)}},
     {**closed(a={"$ref": "#/$defs/B"}), "$defs": {"B": closed(x=TEXT)}}, []),
    ({**closed(a={"$ref": "#/$defs/A"}), "$defs": {"A": closed(x={"$ref": "#/$defs/A"})}},
     {**closed(a={"$ref": "#/$defs/A"}), "$defs": {"A": closed("x", x={"$ref": "#/$defs/A"})}}, [("narrowed", "/a/x")]),
])  # fmt: skip
def test_schemas_are_compared_by_what_they_accept(old: Json, new: Json, effects: list[Any]) -> None:
    assert [(one.effect, one.pointer) for one in compare_schemas(old, new)] == effects


def test_schemas_without_end_are_compared_to_an_end() -> None:
    def wide(leaf: Json) -> Json:
        defs = {
            f"D{n}": closed(**{f"p{m}": {"$ref": f"#/$defs/D{(n * m + 1) % 40}"} for m in range(30)})
            for n in range(40)
        }
        return {**closed(a={"$ref": "#/$defs/D0"}, z=leaf), "$defs": defs}

    changes = compare_schemas(wide(TEXT), wide({"type": "integer"}))
    assert ("changed", "/z") in [(one.effect, one.pointer) for one in changes]
    assert len(changes) < 6_000


def test_the_same_is_the_same() -> None:
    assert found(tool(), tool()) == []


def test_inputs_may_widen_and_responses_may_promise_more() -> None:
    narrow, wide = closed(a=TEXT), closed(a=TEXT, b=TEXT)
    assert found(tool(inputs=narrow), tool(inputs=wide)) == [("input", "widened", False)]
    assert found(tool(inputs=wide), tool(inputs=narrow)) == [("input", "narrowed", True)]
    opened, more = {"properties": {"a": TEXT}}, {"properties": {"a": TEXT, "b": TEXT}}
    assert found(tool(outputs=opened), tool(outputs=more)) == [("output", "narrowed", False)]
    assert found(tool(outputs=more), tool(outputs=opened)) == [("output", "widened", True)]
    assert found(tool(outputs=wide), tool(outputs=narrow)) == [("output", "narrowed", True)]
    assert found(tool(outputs=narrow), tool(outputs=wide)) == [("output", "widened", False)]


@for_each(("old", "new", "expected"), [
    ("https://a.example/x", "https://b.example/x", True),
    ("https://a.example/x", "http://a.example/x", True),
    ("https://a.example/x", "https://a.example:8443/x", True),
    ("https://a.example/x", "https://a.example.evil/x", True),
    ("https://a.example/x", "https://A.example/v2/x", False),
    ("${A}/x", "${B}/x", True),
    ("${A}/x", "${A}/y", False),
    ("https://${H}/x", "https://evil.example/x", True),
])  # fmt: skip
def test_another_origin_needs_approval_and_another_path_does_not(old: str, new: str, expected: bool) -> None:
    before, after = (tool(call_template={"url": url}) for url in (old, new))
    differences = compare_tools(before, after, old_slots={"key": KEY}, new_slots={"key": KEY})
    assert [one.aspect for one in differences] == ["server"]
    assert needs_approval(differences) is expected


@for_each("security", [
    (), ((),), ((SlotRequirement("key", ("write",)),),), ((SlotRequirement("other"),),),
    ((SlotRequirement("key"),), ()),
])  # fmt: skip
def test_other_security_needs_approval(security: Any) -> None:
    differences = compare_tools(
        tool(), tool(security=security), old_slots={"key": KEY}, new_slots={"key": KEY}
    )
    assert [one.aspect for one in differences] == ["auth"]
    assert needs_approval(differences)


@pytest.mark.parametrize(
    "change", [{"parameter": "X-Other"}, {"location": "query"}, {"token_url": "https://t.example"}]
)
def test_changed_slot_is_breaking_and_its_description_is_not(change: Json) -> None:
    assert found(tool(), tool(), slot=replace(KEY, **change)) == [("auth", "changed", True)]
    assert found(tool(), tool(), slot=replace(KEY, description="x", scopes=("a",))) == []
    assert found(tool(security=()), tool(security=()), slot=replace(KEY, **change)) == []


def test_how_inputs_are_sent_and_words_break_nothing() -> None:
    after = tool(description="new", call_template={"http_method": "POST", "url": "https://a.example/x"})
    assert found(tool(), after) == [("placing", "changed", False), ("description", "changed", False)]


@for_each(("old", "new", "detail"), [
    ("https://a.example/x", "https://a.example/y", "Calls would go to https://a.example with the path /y instead of /x."),
    ("https://a.example/x", "https://a.example/x?key=s3cret", "Calls would go to https://a.example with another query."),
    ("https://a.example/x?a=1", "https://a.example", "Calls would go to https://a.example with the path / instead of /x and another query."),
    ("https://a.example/x", "https://A.example/x", "Calls would go to https://a.example with another spelling."),
])  # fmt: skip
def test_the_new_path_is_named(old: str, new: str, detail: str) -> None:
    before, after = (tool(call_template={"url": url}) for url in (old, new))
    (difference,) = compare_tools(before, after, old_slots={}, new_slots={})
    assert difference.detail == detail


def test_another_method_is_named_and_other_members_without_values() -> None:
    template = {"http_method": "DELETE", "url": "https://a.example/x", "headers": {"X-Key": "s3cret"}}
    (difference,) = compare_tools(tool(), tool(call_template=template), old_slots={}, new_slots={})
    assert difference.detail == (
        "The same inputs are sent in another way: by http_method, headers. The method is DELETE instead of GET."
    )


def test_the_work_is_bounded_and_what_was_not_looked_at_counts_as_changed() -> None:
    old = closed(**{f"p{n}": TEXT for n in range(100)})
    new = closed(**{f"p{n}": {"type": ["string", "null"]} for n in range(100)})
    effects = [one.effect for one in compare_schemas(old, new, max_pairs=50)]
    assert set(effects) == {"widened", "changed"}
    assert len(effects) == 100
