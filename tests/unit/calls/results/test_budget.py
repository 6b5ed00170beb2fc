"""Results in a budget: projected, as tables, and cut by items; nothing is lost between a part and its rest."""

import csv
import io
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.calls.results import ModelResult, ResultBudget, check_fields
from app.calls.results.budget import apply_budget
from app.calls.results.projection import project
from app.core.errors import InvalidInput
from tests.harness.cases import for_each

BOOKS = {
    "total": 3,
    "items": [
        {"id": 1, "title": "Sea, sky", "price": 1.10},
        {"id": 2, "title": 'The "wall"', "price": None},
        {"id": 3, "title": "a|b\nc", "tags": ["x"]},
    ],
}


def result(value) -> ModelResult:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return ModelResult(body.decode(), body=body)


def applied(value, **budget):
    read = result(value)
    notes, rest = apply_budget(read, ResultBudget(**budget))
    return read, notes, rest


def test_a_result_within_the_budget_is_unchanged() -> None:
    read, notes, rest = applied(b'{"b":  1.10}', max_bytes=1000)
    assert (read.text, read.body, notes, rest) == ('{"b":  1.10}', b'{"b":  1.10}', [], None)


@for_each(
    ("fields", "expected"),
    [
        pytest.param(("/total",), {"total": 3}, id="pointer"),
        pytest.param(("/items/0/id", "/items/2/tags"), {"items": [{"id": 1}, {"tags": ["x"]}]}, id="pointers"),
        pytest.param(("$.items[*].id",), {"items": [{"id": 1}, {"id": 2}, {"id": 3}]}, id="wildcard"),
        pytest.param(("$..title", "/total"), {
            "total": 3, "items": [{"title": "Sea, sky"}, {"title": 'The "wall"'}, {"title": "a|b\nc"}],
        }, id="descendant"),
        pytest.param(("/items/0", "/items/0/id"), {"items": [BOOKS["items"][0]]}, id="whole-and-part"),
        pytest.param(("/items/0/id", "/items/0"), {"items": [BOOKS["items"][0]]}, id="part-and-whole"),
        pytest.param(("$",), BOOKS, id="root"),
        pytest.param(("$.items[-1:].id",), {"items": [{"id": 3}]}, id="slice"),
    ],
)  # fmt: skip
def test_fields_keep_their_places(fields, expected) -> None:
    check_fields(fields, at="/fields")
    read, notes, _ = applied(BOOKS, fields=fields)
    assert json.loads(read.text) == expected == json.loads(read.body)
    assert notes == []


def test_fields_that_name_nothing_are_said() -> None:
    read, notes, _ = applied(BOOKS, fields=("/total", "/pages", "$.items[*].isbn"))
    assert json.loads(read.text) == {"total": 3}
    assert notes == [
        "No part of the response is at /pages.",
        "No part of the response is at $.items[*].isbn.",
    ]


@for_each(
    "field",
    [
        pytest.param("total", id="name"),
        pytest.param("$.a[", id="syntax"),
        pytest.param("$.items[?@.id > 1]", id="filter"),
        pytest.param("$..a..b", id="two-descendants"),
        pytest.param("$.a | $.b", id="union"),
        pytest.param("/" + "a" * 501, id="long"),
    ],
)
def test_a_field_that_cannot_be_used_is_rejected(field) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_fields([field], at="/fields")
    assert caught.value.errors[0].pointer == "/fields"


def test_numbers_keep_their_digits() -> None:
    body = b'{"a":{"n":123456789012345678901234567890,"d":0.10000000000000000001},"b":1}'
    read, _, _ = applied(body, fields=("/a",))
    assert read.text == '{"a":{"n":123456789012345678901234567890,"d":0.10000000000000000001}}'


def test_csv_is_a_table_with_the_other_members_before_it() -> None:
    read, notes, _ = applied(BOOKS, format="csv")
    before, _, table = read.text.partition("\n\n")
    assert json.loads(before) == {"total": 3}
    rows = list(csv.DictReader(io.StringIO(table)))
    assert rows[0] == {"id": "1", "title": "Sea, sky", "price": "1.1", "tags": ""}
    assert rows[2] == {"id": "3", "title": "a|b\nc", "price": "", "tags": '["x"]'}
    assert (read.body, notes) == (None, [])


def test_markdown_is_a_table_of_one_line_for_each_row() -> None:
    read, _, _ = applied(BOOKS["items"], format="markdown")
    assert read.text.split("\n") == [
        "| id | title | price | tags |",
        "| --- | --- | --- | --- |",
        "| 1 | Sea, sky | 1.1 |  |",
        '| 2 | The "wall" |  |  |',
        '| 3 | a\\|b<br>c |  | ["x"] |',
        "",
    ]


def test_toon_quotes_what_it_would_read_otherwise() -> None:
    rows = [
        {"id": 1, "x y": "true"},
        {"id": "1", "x y": "a,b"},
        {"id": None, "x y": ""},
        {"id": "a b", "x y": [1]},
    ]
    read, _, _ = applied({"items": rows}, format="toon")
    assert read.text.split("\n") == [
        'items[4]{id,"x y"}:', '  1,"true"', '  "1","a,b"', '  null,""', '  a b,"[1]"', "",
    ]  # fmt: skip


@for_each("value", [{"a": 1}, [], [1, 2], [{}], {"a": [{"x": 1}], "b": [1]}, "text"], ids=str)
def test_what_is_no_table_stays_json(value) -> None:
    read, notes, _ = applied(value, format="csv")
    assert json.loads(read.text) == value == json.loads(read.body)
    assert notes == ["The response is no table, so it is JSON in place of csv."]


@for_each("form", [None, "json", "csv", "markdown", "toon"], ids=str)
def test_a_list_is_cut_by_items(form) -> None:
    items = [{"id": number, "text": "x" * 50} for number in range(200)]
    read, notes, rest = applied({"meta": {"total": 200}, "data": {"items": items}} if form is None else items,
                                max_bytes=2000, format=form)  # fmt: skip
    assert len(read.text.encode()) <= 1600
    left = json.loads(rest.content)
    assert rest.kind == "items"
    assert left == items[200 - len(left) :]
    assert 0 < len(left) < 200
    shown = 200 - len(left)
    where = " of the list at /data/items" if form is None else ""
    assert notes == [f"The result was cut: it has the first {shown} of 200 items{where}."]
    if form is None:
        assert json.loads(read.body) == {"meta": {"total": 200}, "data": {"items": items[:shown]}}


@pytest.mark.parametrize(
    "value", [{"text": "é" * 3000}, ["é" * 3000], "é" * 3000], ids=["member", "item", "root"]
)
def test_what_has_no_items_is_cut_as_text(value) -> None:
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    read, notes, rest = applied(body, max_bytes=1000)
    assert rest.kind == "text"
    assert (read.text.encode() + rest.content).decode() == body.decode()
    assert len(read.text.encode()) <= 600
    assert read.body is None
    assert notes[0].startswith("The result was cut: ")


def test_a_text_is_cut_at_the_end_of_a_line() -> None:
    text = "\n".join(f"line {number}" for number in range(500))
    read = ModelResult(text)
    notes, rest = apply_budget(read, ResultBudget(max_tokens=400))
    assert read.text.endswith("\n")
    assert read.text + rest.content.decode() == text
    assert len(read.text) <= 1200
    assert len(notes) == 1


def test_the_smaller_limit_counts_and_none_is_tiny() -> None:
    assert ResultBudget(max_bytes=9000, max_tokens=1000).limit == 3000
    assert ResultBudget(max_bytes=1).limit == 256
    assert ResultBudget().limit is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=60,
)


@given(value=JSON, limit=st.integers(0, 2000), form=st.sampled_from([None, "csv", "toon", "markdown"]))
def test_any_result_is_within_any_budget(value, limit, form) -> None:
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    read, _, rest = applied(body, max_bytes=limit, format=form)
    assert len(read.text.encode()) <= max(limit, 256)
    if rest is not None:
        assert rest.content
    if read.body is not None:
        json.loads(read.body)


@given(value=JSON)
@example(value='{"a": 1}')
@example(value="x")
def test_a_projection_of_the_root_is_the_value(value) -> None:
    assert project(value, ["$"]) == (value, [])


def test_jsonpath_that_selects_nodes_many_times_is_bounded() -> None:
    field = "$" + "[*,*,*,*,*,*,*,*,*,*]" * 9 + ".none"
    check_fields((field,), at="/fields")
    value: object = 1
    for _ in range(9):
        value = [value]
    # Without a limit it visits 10^9 nodes, which takes hours.
    assert project(value, (field,) * 3) == ([], [field] * 3)


@pytest.mark.parametrize(
    "budget", [{"fields": ("/a",)}, {"max_bytes": 300}, {"format": "csv"}], ids=["fields", "cut", "table"]
)
def test_json_that_is_nested_too_deeply_to_be_written_is_a_text(budget) -> None:
    body = b'{"a": ' + b"[" * 400 + b"]" * 400 + b"}"
    read, _, rest = applied(body, **budget)
    assert (read.content or read.text).encode() + (rest.content if rest else b"") == body


def test_rows_that_have_few_of_many_columns_are_no_table() -> None:
    rows = [{str(number): number for number in range(200)}, *({} for _ in range(10_000))]
    read, notes, _ = applied(rows, format="csv")
    assert json.loads(read.text) == rows
    assert notes == ["The response is no table, so it is JSON in place of csv."]
