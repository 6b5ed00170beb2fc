"""Forms from JSON Schema: the controls of a form stand for the value that it was built with."""

import base64
import json
import re
import time
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from app.console.forms.schema_form import FormView, Submission, build, parse
from app.console.forms.schema_form.fields import Field, JsonField, ObjectField
from app.console.templating import environment
from tests.harness.cases import for_each
from tests.harness.html_forms import controls_of, successful_controls
from tests.harness.schema_values import values_of

Schema = dict[str, Any]


def html_of(view: FormView) -> str:
    template = environment("en").from_string(
        '{% import "schema_form.html" as forms with context %}{{ forms.fields(view) }}'
    )
    return template.render(view=view)


def round_trip(schema: Schema, value: Any) -> Submission:
    return parse(successful_controls(html_of(build(schema, value))), schema)


def field_at(view: FormView, pointer: str) -> Field:
    found = [one for one in _fields(view.root) if one.pointer == pointer]
    return found[-1]


def _fields(field: Field) -> list[Field]:
    result = [field]
    for inner in (
        getattr(field, "members", None) or getattr(field, "items", None) or [],
        [row.value for row in getattr(field, "rows", []) if row.value],
        [one] if (one := getattr(field, "chosen", None)) else [],
    ):
        for member in inner:
            result += _fields(member)
    return result


def an_object(**members: Schema) -> Schema:
    return {"type": "object", "properties": members}


KINDS: dict[str, tuple[Schema, list[Any]]] = {
    "text": ({"type": "string"}, ["a", "", " a ", "a\nb", "a\r\nb", "\n a", "null", "5", '"', "<b>&amp;", "\u202e"]),
    "integer": ({"type": "integer"}, [0, -5, 2**63, 1.0, 10**30]),
    "number": ({"type": "number"}, [0.1, 1e300, -1e-7, 5, 1e22]),
    "boolean": ({"type": "boolean"}, [True, False]),
    "nullable": ({"type": ["string", "null"]}, [None, "", "x", "null"]),
    "nullable-number": ({"type": ["number", "null"]}, [None, 1]),
    "nullable-boolean": ({"type": ["boolean", "null"]}, [None, True]),
    "enum": ({"enum": ["a", "", 1, None, True, {"a": 1}]}, ["a", "", 1, None, True, {"a": 1}]),
    "const": ({"const": "fixed"}, ["fixed"]),
    "date": ({"type": "string", "format": "date"}, ["2026-02-28", "0000-01-01", "soon"]),
    "date-time": (
        {"type": "string", "format": "date-time"},
        ["2026-02-28T10:00:00Z", "2026-02-28T10:00:00+02:00", "2026-02-28T10:00:00", "2026-12-31T23:59:60Z"],
    ),
    "email": ({"type": "string", "format": "email"}, ["a@b.example", " a@b.example"]),
    "uri": ({"type": "string", "format": "uri"}, ["https://a.example/", "urn:x "]),
    "password": ({"type": "string", "format": "password"}, ["secret"]),
    "bytes": ({"type": "string", "contentEncoding": "base64"}, ["YQ==", ""]),
    "texts": ({"type": "array", "items": {"type": "string"}}, [[], [""], ["a", "b", "a"]]),
    "numbers": ({"type": "array", "items": {"type": "number"}}, [[1, 2.5]]),
    "choices": ({"type": "array", "items": {"enum": ["a", "b"]}}, [[], ["a"], ["b", "a"], ["a", "a"], ["a", "b"]]),
    "tuple": ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}, [["a", 1], ["a", 1, {}]]),
    "lists": ({"type": "array", "items": {"type": "array", "items": {"type": "string"}}}, [[[]], [["a"], []]]),
    "object": (an_object(a={"type": "string"}), [{}, {"a": ""}, {"a": "x", "b": [1]}]),
    "map": ({"type": "object", "additionalProperties": {"type": "integer"}}, [{"x": 1}, {"a/b~c": 0, "": 1}, {}]),
    "free": ({"type": "object"}, [{"x": "a", "y": "1", "z": [1], "n": None, "t": True, "q": '"a"'}]),
    "any": ({}, ["a", "1", 1, None, [1], {"a": {}}, True, "", "{", "true", "a\r"]),
    "union": (
        {"oneOf": [{"type": "string", "title": "Name"}, {"type": "integer"}, an_object(b={"type": "boolean"})]},
        ["a", 5, {"b": True}, {}, "", [1]],
    ),
    "nullable-object": ({"anyOf": [an_object(a={"type": "string"}), {"type": "null"}]}, [None, {}, {"a": "x"}]),
    "types": ({"type": ["string", "integer", "null"]}, ["1", 1, None]),
    "all": ({"allOf": [an_object(a={"type": "string"}), an_object(b={"type": "integer"})]}, [{"a": "x", "b": 1}]),
    "names": (an_object(**{'q"': {}, "a\nb": {}, "a/b": {}, "~": {}, "is:x": {}, "ü": {}}),
              [{'q"': 1, "a\nb": 2, "a/b": 3, "~": 4, "is:x": 5, "ü": "y", "~row0": 6}]),
}  # fmt: skip
CASES = [(name, schema, value) for name, (schema, values) in KINDS.items() for value in values]


@for_each("required", [True, False])
@for_each(("name", "schema", "value"), CASES, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(CASES)])
def test_form_of_a_value_parses_to_it(name: str, schema: Schema, value: Any, required: bool) -> None:
    root = {**an_object(x=schema), "required": ["x"] if required else []}
    found = round_trip(root, {"x": value})
    assert found == Submission({"x": value}, branches=found.branches)
    assert type(found.value["x"]) is type(value)


@for_each(("schema", "values"), KINDS.values(), ids=list(KINDS))
def test_optional_field_left_empty_is_absent(schema: Schema, values: list[Any]) -> None:
    assert round_trip(an_object(x=schema), {}).value == {}
    assert "x" in round_trip(an_object(x=schema), {"x": values[-1]}).value


def test_equal_values_are_one_option() -> None:
    schema = an_object(
        x={"enum": ["a", "a", 1, 1.0, True]}, y={"type": "array", "items": {"enum": ["b", "b"]}}
    )
    page = html_of(build(schema, {"x": 1.0, "y": ["b"]}))
    assert [
        page.count(f"value='{text}'") + page.count(f'value="{text}"')
        for text in ("&#34;a&#34;", "1", "true", "&#34;b&#34;")
    ] == [1] * 4
    assert round_trip(schema, {"x": 1.0, "y": ["b"]}).value == {"x": 1, "y": ["b"]}


def test_absent_and_empty_and_null_differ() -> None:
    schema = an_object(x={"type": ["string", "null"]})
    assert parse([("/x", ""), ("is:/x", "")], schema).value == {}
    assert parse([("/x", ""), ("is:/x", "empty")], schema).value == {"x": ""}
    assert parse([("/x", ""), ("is:/x", "null")], schema).value == {"x": None}


def test_text_that_is_no_number_is_left_to_the_api() -> None:
    schema = an_object(n={"type": "integer"})
    found = parse([("/n", "five")], schema)
    assert found.value == {"n": "five"}
    view = build(schema, found.value, [{"pointer": "/n", "detail": "Give an integer."}])
    assert 'aria-invalid="true"' in html_of(view)
    assert field_at(view, "/n").errors == ["Give an integer."]


def test_errors_without_a_field_are_listed_and_those_inside_one_are_at_it() -> None:
    schema = an_object(a={"type": "string"})
    view = build(schema, {}, [{"pointer": "/b", "detail": "Unknown."}, {"pointer": "/a/0", "detail": "Odd."}])
    assert view.errors == [("/b", "Unknown.")]
    assert field_at(view, "/a").errors == ["/0: Odd."]


def test_buttons_add_and_remove_items() -> None:
    schema = an_object(x={"type": "array", "items": {"type": "string"}})
    added = parse([*successful_controls(html_of(build(schema, {"x": ["a"]}))), ("add:/x", "1")], schema)
    assert (added.value, added.is_edit) == ({"x": ["a", ""]}, True)
    html = html_of(build(schema, {"x": ["a", "b", "c"]}))
    assert "remove:/x/1" in controls_of(html).buttons
    removed = parse([*successful_controls(html), ("remove:/x/1", "1")], schema)
    assert (removed.value, removed.is_edit) == ({"x": ["a", "c"]}, True)


def test_rows_have_names_of_their_own() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    view = build(schema, {"a": 1})
    items = [
        (name, {"key:/~row1": "b", "/~row1": "2"}.get(name, value))
        for name, value in successful_controls(html_of(view))
    ]
    assert parse(items, schema).value == {"a": 1, "b": 2}
    twice = [(name, "a" if name == "key:/~row1" else value) for name, value in items]
    found = parse(twice, schema)
    assert found.value == {"a": 1}
    assert found.errors[0]["pointer"] == "/a"


def test_row_shows_the_error_of_its_member() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    view = build(schema, {"a/b": "x"}, [{"pointer": "/a~1b", "detail": "Give an integer."}])
    assert isinstance(view.root, ObjectField)
    assert view.root.rows[0].value.errors == ["Give an integer."]


def test_choice_of_an_alternative_shows_its_fields() -> None:
    cat = {
        "title": "Cat",
        "type": "object",
        "properties": {"name": {"type": "string"}, "lives": {"type": "integer"}},
    }
    dog = {
        "title": "Dog",
        "type": "object",
        "properties": {"name": {"type": "string"}, "tricks": {"type": "string"}},
    }
    schema = an_object(pet={"oneOf": [cat, dog]})
    items = [*successful_controls(html_of(build(schema, {"pet": {"name": "Tom", "lives": 9}})))]
    changed = [(name, "1" if name == "branch:/pet" else value) for name, value in items]
    found = parse([*changed, ("update:/pet", "1")], schema)
    assert found.is_edit
    assert found.value == {"pet": {"name": "Tom"}}
    assert 'name="/pet/tricks"' in html_of(build(schema, found.value, submission=found))


def test_discriminating_constant_chooses_the_alternative() -> None:
    branches = [
        {
            "type": "object",
            "properties": {"kind": {"const": kind}, "v": {"type": "string"}},
            "required": ["kind"],
        }
        for kind in ("a", "b", "c")
    ]
    view = build(an_object(x={"anyOf": branches}), {"x": {"kind": "b", "v": "1"}})
    union = next(one for one in _fields(view.root) if one.kind == "union")
    assert [option.selected for option in union.options] == [False, True, False]  # type: ignore[attr-defined]


def test_json_that_cannot_be_read_is_shown_again_with_what_is_wrong() -> None:
    schema = an_object(x={"type": "object"})
    found = parse([("as:/x", "json"), ("/x", '{"a": 1,}')], schema)
    assert found.value == {}
    assert found.errors[0]["pointer"] == "/x"
    view = build(schema, found.value, submission=found)
    field = field_at(view, "/x")
    assert isinstance(field, JsonField)
    assert field.text == '{"a": 1,}'
    assert "column 9" in field.errors[0]


@pytest.mark.parametrize("text", ["[NaN]", "1e999", '{"a": 1, "a": 2}', "[" * 100_000])
def test_what_json_forbids_is_an_error(text: str) -> None:
    found = parse([("as:/x", "json"), ("/x", text)], an_object(x={}))
    assert found.value == {}
    assert len(found.errors) == 1


def test_file_becomes_base64() -> None:
    schema = an_object(f={"type": "string", "contentEncoding": "base64"})
    assert build(schema).has_files
    found = parse([("/f", "ignored"), ("file:/f", b"\x00\xff")], schema)
    assert base64.b64decode(found.value["f"]) == b"\x00\xff"


def test_constraints_are_attributes_of_html() -> None:
    schema = an_object(
        n={"type": "integer", "minimum": 0.5, "exclusiveMaximum": 10},
        t={"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z/-]+$"},
        e={"type": "string", "format": "email", "examples": ["me@a.example"]},
    ) | {"required": ["n"]}
    html = html_of(build(schema))
    assert 'type="number" value="" placeholder="" autocomplete="off" step="1" min="1" max="9"' in html
    assert 'minlength="2" maxlength="5" pattern="[a-z\\/\\-]+"' in html
    assert 'type="email" value="" placeholder="me@a.example"' in html
    assert len(re.findall(r"\srequired[\s>]", html)) == 1


@for_each(
    "pattern",
    [
        "(a+)+$",
        "^(a+)+$",
        "^a*a*a*$",
        "^[b-a]$",
        "a",
        "^a|b$",
        "^(?=a)$",
        "^[a-]]$",
        "^a\\$",
        "^$",
        5,
        "^" + "a" * 500 + "$",
    ],
    violations={"pattern": "^[a-z]+$"},
)
def test_patterns_that_a_browser_should_not_run_are_left_out(pattern: Any) -> None:
    assert " pattern=" not in html_of(build(an_object(t={"type": "string", "pattern": pattern})))


def test_member_of_an_absent_object_is_not_demanded_by_the_browser() -> None:
    schema = an_object(a={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    assert not re.search(r"\srequired[\s>]", html_of(build(schema)))
    assert re.search(r"\srequired[\s>]", html_of(build({**schema, "required": ["a"]})))


def test_absent_object_with_a_required_constant_stays_absent() -> None:
    inner = an_object(kind={"const": "a"}, name={"type": "string"}) | {"required": ["kind"]}
    outer = an_object(deeper=inner, other={"type": "string"}) | {"required": ["deeper"]}
    schema = an_object(x=outer)
    assert round_trip(schema, {}).value == {}
    for value in ({"x": {"deeper": {"kind": "a"}}}, {"x": {"deeper": {"kind": "a", "name": "b"}}}):
        assert round_trip(schema, value).value == value
    items = [*successful_controls(html_of(build(schema))), ("/x/other", "typed")]
    assert parse(items, schema).value == {"x": {"deeper": {"kind": "a"}, "other": "typed"}}


def test_recursive_schema_is_bounded_and_its_values_survive() -> None:
    node = {"type": "object", "properties": {"name": {"type": "string"}, "child": {"$ref": "#/$defs/node"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}  # fmt: skip
    schema = {"type": "object", "properties": {"tree": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    assert build(schema).field_count < 100
    value: dict[str, Any] = {"name": "leaf"}
    for level in range(40):
        value = {"name": str(level), "child": value, "children": [{"name": "x"}]}
    assert round_trip(schema, {"tree": value}).value == {"tree": value}


def test_endless_references_end() -> None:
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}, "y": {"$ref": "#/$defs/none"}},
              "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}}  # fmt: skip
    assert round_trip(schema, {"x": {"a": 1}, "y": 2}).value == {"x": {"a": 1}, "y": 2}


def hostile_schemas() -> dict[str, Schema]:
    deep: Schema = {"type": "string"}
    for _ in range(300):
        deep = {"type": "object", "properties": {"a": deep}, "required": ["a"]}
    wide = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(10_000)}}
    alternatives: Schema = {"type": "string"}
    for _ in range(6):
        alternatives = (
            {"oneOf": [dict(alternatives) for _ in range(6)]} if _ < 5 else {"anyOf": [alternatives] * 60}
        )
    doubling = {"$defs": {f"d{i}": {"type": "object", "properties": {k: {"$ref": f"#/$defs/d{i + 1}"} for k in "abcdefgh"},
                "required": list("abcdefgh")} for i in range(30)}}  # fmt: skip
    merged = {
        "allOf": [{"type": "object", "properties": {f"p{i}-{j}": {} for j in range(300)}} for i in range(300)]
    }
    return {
        "deep": deep,
        "wide": wide,
        "alternatives": an_object(x=alternatives),
        "doubling": {**doubling, **an_object(x={"$ref": "#/$defs/d0"})},
        "merged": merged,
        "long enumeration": an_object(x={"enum": [str(i) for i in range(100_000)]}),
        "wrong members": {
            "type": "object",
            "properties": 5,
            "required": "x",
            "allOf": {},
            "oneOf": [],
            "enum": [],
            "items": 1,
        },
        "wrong members of a property": an_object(
            x={"type": ["string", "string", 5, "tuple"], "minLength": "x", "format": 7, "examples": {}}
        ),
    }


@for_each(
    "schema",
    lambda: [pytest.param(schema, id=name) for name, schema in hostile_schemas().items()],
    violations={"schema": an_object(x={"enum": ["x" * 2_000_000]})},
)
def test_hostile_schema_makes_a_bounded_form(schema: Schema) -> None:
    start = time.process_time()
    view = build(schema)
    html = html_of(view)
    assert view.field_count <= 1_000
    assert len(html) < 1_500_000
    parse(successful_controls(html), schema)
    assert time.process_time() - start < 10, "bounded work, with a wide margin"


def test_members_beyond_the_bound_are_edited_as_json() -> None:
    schema = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(10_000)}}
    value = {f"p{i}": str(i) for i in range(0, 10_000, 7)}
    assert round_trip(schema, value).value == value


def test_controls_and_texts_refer_to_elements_that_exist_once() -> None:
    schema = an_object(**{name: schema for name, (schema, _) in KINDS.items()})
    value = {name: values[-1] for name, (_, values) in KINDS.items()}
    errors = [{"pointer": f"/{name}", "detail": "Wrong."} for name in KINDS]
    found = controls_of(html_of(build(schema, value, errors)))
    assert len(found.ids) == len(set(found.ids))
    assert set(found.references) <= set(found.ids)


def test_hostile_texts_of_a_schema_are_escaped() -> None:
    evil = '"><script>alert(1)</script>'
    schema = {"type": "object", "properties": {evil: {"type": "string", "title": evil, "description": evil, "default": evil,
              "examples": [evil], "pattern": evil, "format": evil}, "e": {"enum": [evil], "title": evil}}}  # fmt: skip
    html = html_of(build(schema, {evil: evil, "e": evil}, [{"pointer": "/e", "detail": evil}]))
    assert "<script" not in html


def test_parser_survives_controls_that_no_form_has() -> None:
    items = [
        ("", "x"), ("#", "x"), ("is:", "null"), ("item:/x", "999999999"), ("item:/x", "-1"), ("branch:/u", "99"),
        ("branch:/u", "x"), ("key:/m/~row0", "k"), ("add:/nope", "1"), ("/x/0/0/0", "y"), ("as:/x", "json"), ("/x", "\ud800"),
        *[("/x" + "/a" * 500, "deep")],
    ]  # fmt: skip
    schema = an_object(
        x={"type": "array"}, u={"oneOf": [{"type": "string"}, {"type": "integer"}]}, m={"type": "object"}
    )
    assert isinstance(parse(items, schema).value, dict)


names = st.sampled_from(["a", "b", "c", "a/b", "ü", "a b", "~0", "kind"]) | st.text(max_size=4)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(["", "1", "true", "a\nb", "2026-01-02"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


def schemas() -> st.SearchStrategy[Schema]:
    scalars = st.one_of(
        st.just({}),
        st.fixed_dictionaries({"type": st.just("string")}, optional={"format": st.sampled_from(
            ["date", "date-time", "email", "uri", "password", "byte", "uuid"]), "maxLength": st.integers(0, 9), "minLength": st.integers(0, 2)}),
        st.fixed_dictionaries({"type": st.sampled_from(["integer", "number"])}, optional={
            "minimum": st.integers(-5, 5), "maximum": st.integers(5, 9), "multipleOf": st.sampled_from([1, 2])}),
        st.just({"type": "boolean"}), st.just({"type": "null"}), st.just({"type": ["string", "null"]}),
        st.just({"type": ["integer", "string"]}), st.just({"$ref": "#/$defs/again"}),
        st.fixed_dictionaries({"enum": st.lists(json_values, min_size=1, max_size=4)}),
        st.fixed_dictionaries({"const": json_values}),
    )  # fmt: skip

    def compound(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
        objects = st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(names, inner, max_size=3)},
            optional={
                "required": st.lists(names, max_size=2, unique=True),
                "additionalProperties": inner | st.booleans(),
            },
        )
        return st.one_of(
            objects,
            st.fixed_dictionaries(
                {"type": st.just("array"), "items": inner}, optional={"minItems": st.integers(0, 1)}
            ),
            st.fixed_dictionaries(
                {"type": st.just("array"), "prefixItems": st.lists(inner, min_size=1, max_size=2)}
            ),
            st.builds(
                lambda key, many: {key: many},
                st.sampled_from(["oneOf", "anyOf", "allOf"]),
                st.lists(inner, min_size=1, max_size=3),
            ),
        )

    return st.recursive(scalars, compound, max_leaves=8)


roots = st.builds(
    lambda properties, again, free, required: {
        "type": "object", "properties": properties, "required": required, "$defs": {"again": again}, **free,
    },
    st.dictionaries(names, schemas(), max_size=4), schemas(), st.sampled_from([{}, {"additionalProperties": False}, {"additionalProperties": True}]),
    st.lists(names, max_size=2, unique=True),
)  # fmt: skip


def without_additions(value: Any, found: Any) -> Any:
    """Return what was parsed without members that the form states by itself: required constants and objects."""
    if isinstance(found, dict) and isinstance(value, dict):
        return {key: without_additions(value[key], member) for key, member in found.items() if key in value}
    if isinstance(found, list) and isinstance(value, list) and len(found) == len(value):
        return [without_additions(one, other) for one, other in zip(value, found, strict=True)]
    return found


@settings(max_examples=120)
@given(roots, st.integers(0, 1_000))
def test_form_of_a_valid_value_parses_to_it(schema: Schema, seed: int) -> None:
    try:
        values = list(values_of(schema, str(seed), 5))
    except RecursionError:
        reject()
    for value in values:
        found = round_trip(schema, value)
        assert found.errors == ()
        assert json.dumps(found.value, sort_keys=True) == json.dumps(value, sort_keys=True)


@settings(max_examples=120)
@given(roots, st.dictionaries(names, json_values, max_size=4))
def test_form_of_any_value_parses_to_it(schema: Schema, value: dict[str, Any]) -> None:
    """A value that is not valid is shown as it is, too, with the errors of the API."""
    found = round_trip(schema, value)
    assert found.errors == ()
    left = without_additions(value, found.value)
    assert json.dumps(left, sort_keys=True) == json.dumps(value, sort_keys=True)
