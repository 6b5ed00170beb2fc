"""Which tools are members of a toolset, what agents see of them, and what of a definition has no effect."""

import orjson
import pytest
from pydantic import ValidationError

from app.calls.arguments.presets import with_presets
from app.core.errors import InvalidArguments
from app.toolsets.agent_tool import AgentTool
from app.toolsets.definition import StoredDefinition, ToolsetDefinition, with_former_names
from app.toolsets.directory import Snapshot
from app.toolsets.hidden_inputs import without_inputs
from app.toolsets.members import resolve_members
from tests.harness.cases import for_each


class Viewer:
    def __init__(self, providers=None, tags=None):
        self.providers = providers
        self.tags = tags


EVERYBODY = Viewer()
LOAN = {
    "type": "object",
    "properties": {
        "branch": {"type": "string"},
        "body": {"$ref": "#/$defs/loan"},
    },
    "required": ["branch", "body"],
    "$defs": {
        "loan": {
            "type": "object",
            "properties": {"copy": {"type": "string"}, "desk": {"type": "integer"}},
            "required": ["desk", "copy"],
        }
    },
}


def tool(name, description="", inputs=None, **fields):
    provider, _, local = name.partition(".")
    alias = f"{provider}_{local}"
    schema = orjson.dumps(inputs or {"type": "object", "properties": {}})
    return AgentTool(alias, name, alias, provider, description, schema, b"{}", **fields).stamped()


SNAPSHOT = Snapshot.of(
    [
        tool("library.books", "Search the catalogue.", read_only=True, registrar_tags=frozenset({"public"})),
        tool("library.loan", "Borrow a copy.", LOAN),
        tool("weather.now", "Rain or sun.", read_only=True, tags=("sky",)),
    ]
)


def members(**definition):
    return resolve_members(StoredDefinition(**definition), SNAPSHOT)


def names(found):
    return [one.name for one in found.view(EVERYBODY).listing.tools]


@for_each(
    ("definition", "expected"),
    [
        ({"tools": ["library.loan", "weather_now"]}, ["library_loan", "weather_now"]),
        ({"providers": ["library"]}, ["library_books", "library_loan"]),
        ({"tags": ["public"]}, ["library_books"]),
        ({"tags": ["sky"]}, []),
        ({"search": ["CATALOGUE search"]}, ["library_books"]),
        ({"providers": ["library"], "exclude": ["library_loan"]}, ["library_books"]),
        ({"providers": ["library", "weather"], "read_only": True}, ["library_books", "weather_now"]),
        ({}, []),
    ],
    ids=[
        "names",
        "provider",
        "registrar-tag",
        "tag-of-the-source",
        "search",
        "exclude",
        "read-only",
        "empty",
    ],
)
def test_members(definition, expected):
    assert names(members(**definition)) == expected


def test_what_has_no_effect_is_reported():
    found = members(
        tools=["library.books", "gone.tool"],
        providers=["nobody"],
        tags=["none"],
        search=["nothing like this"],
        pinned=["weather.now"],
        changes={"weather.now": {"title": "Sky"}},
    )
    assert names(found) == ["library_books"]
    assert [(one.kind, one.name) for one in found.problems] == [
        ("tool", "gone.tool"),
        ("provider", "nobody"),
        ("tag", "none"),
        ("search", "nothing like this"),
        ("change", "weather.now"),
        ("pinned", "weather.now"),
    ]


def test_renamed_tool_is_found_by_its_new_name_only():
    found = members(
        providers=["library"], changes={"library.books": {"name": "find_books", "title": "Books"}}
    )
    view = found.view(EVERYBODY)
    assert names(found) == ["find_books", "library_loan"]
    assert view.by_name["find_books"].tool == "library.books"
    assert view.by_name["find_books"].title == "Books"
    assert view.by_name["library.loan"].name == "library_loan"
    for old in ("library_books", "library.books"):
        assert old not in view.by_name
        error = found.unknown(old, view, toolset="desk")
        assert error.detail == f"{old} is called find_books in the toolset desk."


def test_tool_whose_name_another_one_got_is_left_out_and_reported():
    found = members(providers=["library", "weather"], changes={"library.books": {"name": "weather_now"}})
    assert found.view(EVERYBODY).by_name["weather_now"].tool == "library.books"
    assert names(found) == ["library_loan", "weather_now"]
    assert [(one.kind, one.name) for one in found.problems] == [("name", "weather.now")]


@pytest.mark.parametrize("order", [("library.books", "library_books"), ("library_books", "library.books")])
def test_second_change_of_a_tool_is_reported(order):
    found = members(providers=["library"], changes={name: {"title": name} for name in order})
    assert found.view(EVERYBODY).by_name["library_books"].title == "library.books"
    assert [(one.kind, one.name) for one in found.problems] == [("change", "library_books")]


def test_former_names_lead_to_the_present_one():
    before = StoredDefinition(providers=["library"], changes={"library.books": {"name": "find"}})
    after = with_former_names(
        before, ToolsetDefinition(providers=["library"], changes={"library.books": {"name": "look_up"}})
    )
    found = resolve_members(after, SNAPSHOT)
    view = found.view(EVERYBODY)
    assert found.unknown("find", view, toolset="desk").detail == "find is called look_up in the toolset desk."
    removed = with_former_names(after, ToolsetDefinition(providers=["weather"]))
    found = resolve_members(removed, SNAPSHOT)
    error = found.unknown("look_up", found.view(EVERYBODY), toolset="desk")
    assert error.detail == "look_up was removed from the toolset desk: list its tools again."


def test_a_restricted_key_is_not_told_of_removed_tools_that_it_may_not_have_seen():
    found = members(tools=["library.books"], former_names={"sky": "weather.now"})
    seen = found.view(Viewer(providers=frozenset({"library"})))
    assert found.unknown("sky", seen, toolset="s").detail == "The toolset s has no tool sky."
    assert found.unknown("sky", found.view(EVERYBODY), toolset="s").detail.startswith("sky was removed")


def test_viewer_sees_only_what_its_key_permits():
    found = members(providers=["library", "weather"])
    view = found.view(Viewer(providers=frozenset({"weather"})))
    assert [one.name for one in view.listing.tools] == ["weather_now"]
    assert "library.books" not in view.by_name
    assert "library" not in found.unknown("library.books", view, toolset="desk").hint


def test_presets_are_hidden_from_the_schema():
    presets = {"branch": "north", "/body/desk": 3}
    found = members(tools=["library.loan"], changes={"library.loan": {"presets": presets}})
    (loan,) = found.view(EVERYBODY).listing.tools
    assert loan.presets == {"/branch": "north", "/body/desk": 3}
    shown = loan.inputs
    assert set(shown["properties"]) == {"body"}
    assert shown["required"] == ["body"]
    assert set(shown["properties"]["body"]["properties"]) == {"copy"}
    assert shown["properties"]["body"]["required"] == ["copy"]
    assert with_presets({"body": {"copy": "c"}}, loan.presets) == {
        "branch": "north", "body": {"copy": "c", "desk": 3},
    }  # fmt: skip


def test_object_of_which_all_is_preset_is_not_required():
    shown, unknown = without_inputs(LOAN, ["/body/desk", "/body/copy", "/body/none"])
    assert shown["required"] == ["branch"]
    assert unknown == ["/body/none"]
    assert LOAN["required"] == ["branch", "body"]


def test_inputs_are_hidden_in_all_of():
    schema = {"allOf": [{"properties": {"a": {}, "b": {}}}, {"required": ["a", "b"]}], "required": ["a"]}
    shown, unknown = without_inputs(schema, ["/a"])
    assert shown == {"allOf": [{"properties": {"b": {}}}, {"required": ["b"]}]}
    assert unknown == []


def test_preset_without_an_input_is_reported():
    found = members(tools=["weather.now"], changes={"weather.now": {"presets": {"unit": "K"}}})
    assert [(one.kind, one.name) for one in found.problems] == [("preset", "weather.now/unit")]


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [({"branch": "south"}, "/branch"), ({"body": {"desk": 1}}, "/body/desk"), ({"body": [1]}, "/body")],
    ids=["name", "nested", "no-object"],
)
def test_preset_arguments_from_the_client_are_rejected(arguments, pointer):
    given = orjson.dumps(arguments)
    with pytest.raises(InvalidArguments) as raised:
        with_presets(arguments, {"/branch": "north", "/body/desk": 3})
    assert [error.pointer for error in raised.value.errors] == [pointer]
    assert orjson.dumps(arguments) == given


def test_presets_need_no_arguments():
    assert with_presets(None, {"/a/b": 1}) == {"a": {"b": 1}}
    assert with_presets([1], {"/a": 1}) == [1]


@for_each(
    "changes",
    [
        {"a.b": {"presets": {"x": "${TOKEN}"}}},
        {"a.b": {"presets": {"x": {"deep": ["${TOKEN}"]}}}},
        {"a.b": {"presets": {"/x": 1, "/x!": 2, "/x/y": 3}}},
        {"a.b": {"presets": {"x": 1, "/x": 2}}},
        {"a.b": {"presets": {"x": "y" * 70_000}}},
        {"a.b": {"presets": {"x": "\x00"}}},
        {"a.b": {"name": "x"}, "a.c": {"name": "x"}},
        {"a.b": {"name": "with.dot"}},
    ],
    ids=["variable", "nested-variable", "inside", "twice", "large", "nul", "same-name", "illegal-name"],
)
def test_invalid_changes_are_rejected(changes):
    with pytest.raises(ValidationError):
        ToolsetDefinition(changes=changes)


def test_a_former_name_of_a_hidden_tool_is_unknown():
    found = members(tools=["library.books", "weather.now"], former_names={"sky": "weather.now"})
    seen = found.view(Viewer(providers=frozenset({"library"})))
    hidden = found.unknown("sky", seen, toolset="s")
    assert hidden.detail == "The toolset s has no tool sky."
    assert found.unknown("sky", found.view(EVERYBODY), toolset="s").detail.startswith(
        "sky is called weather_now"
    )


def body_of(definitions):
    return {"type": "object", "properties": {"body": {"$ref": "#/$defs/S0"}}, "$defs": definitions}


def test_an_input_of_a_schema_that_includes_itself_is_hidden():
    node = {"allOf": [{"$ref": "#/$defs/S0"}], "properties": {"x": {"type": "string"}, "y": {}}}
    shown, unknown = without_inputs(body_of({"S0": node}), ["/body/x"])
    assert unknown == []
    assert list(shown["properties"]["body"]["properties"]) == ["y"]


def test_an_input_is_hidden_behind_references_that_double_at_each_step():
    steps = {f"S{number}": {"allOf": [{"$ref": f"#/$defs/S{number + 1}"}] * 2} for number in range(60)}
    shown, unknown = without_inputs(body_of(steps | {"S60": {"properties": {"x": {}}}}), ["/body/x"])
    assert unknown == []
    assert '"x"' not in orjson.dumps(shown["properties"]).decode()
