"""JSON whose numbers keep their digits; and that all of the gateway writes JSON by the function that can."""

import ast
import json
from decimal import Decimal
from pathlib import Path

import orjson
import pytest

from app.core import exact_json
from tests.harness.cases import for_each

VALUES = {
    "an integer beyond 64 bits": (2**64, b"18446744073709551616"),
    "a negative one": ([-(2**63) - 1], b"[-9223372036854775809]"),
    "one of 300 digits": ({"n": 10**300}, b'{"n":1' + b"0" * 300 + b"}"),
    "one beside a decimal": ([2**70, Decimal("0.10")], b"[1180591620717411303424,0.10]"),
    "a lone surrogate": ("a\ud800b", '"a\ufffdb"'.encode()),
    "a name with one": ({"\udfff": 1}, '{"\ufffd":1}'.encode()),
    "a number that is none": ([float("nan"), float("inf")], b"[null,null]"),
}


@for_each("name", VALUES)
def test_what_a_parser_returns_can_be_written(name):
    value, text = VALUES[name]
    assert exact_json.dumps(value) == text
    json.loads(text)


@for_each(
    ("values", "expected"),
    [
        (["b", "a", "b"], ["b", "a"]),
        ([1, 1.0, True, "1", 0, False, None, None], [1, True, "1", 0, False, None]),
        (
            [Decimal("0.12345678901234567890123"), 0.12345678901234568],
            [Decimal("0.12345678901234567890123"), 0.12345678901234568],
        ),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}, {"a": 1}], [{"a": 1, "b": [2]}, {"a": 1}]),
        ([[1], [True], [1.0], [[1]], []], [[1], [True], [[1]], []]),
        ([10**400, 10**400, 1e300, 10**300], [10**400, 1e300, 10**300]),
    ],
)
def test_equal_values_are_one_value(values, expected):
    assert repr(exact_json.drop_duplicates(values)) == repr(expected)
    assert all(exact_json.are_equal(one, other) is (one is other) for one in expected for other in expected)
    assert exact_json.keep_common(values, expected[1:]) == [
        value for value in values if not exact_json.are_equal(value, expected[0])
    ]


def test_options_and_defaults_apply_to_what_orjson_alone_cannot_write():
    value = {2**70: {1, 2}, "a": 2**64}
    written = exact_json.dumps(value, orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS, default=sorted)
    assert written == b'{"1180591620717411303424":[1,2],"a":18446744073709551616}'


def test_too_many_levels_are_a_fault_of_the_input():
    value: list[object] = [2**64]
    for _ in range(300):
        value = [value]
    for error in (RecursionError, orjson.JSONEncodeError):
        with pytest.raises(error):
            exact_json.dumps(value)


@for_each(
    ("first", "surrogates"),
    [(2**64, "replace"), (2**64, "refuse"), ("\ud800", "replace")],
    ids=["an integer", "an integer, refusing surrogates", "a surrogate"],
)
def test_too_many_levels_beside_what_orjson_alone_cannot_write_are_the_same_fault(first, surrogates):
    value: list[object] = []
    for _ in range(2_000):
        value = [value]
    with pytest.raises(exact_json.NestedTooDeeply):
        exact_json.dumps([first, value], surrogates=surrogates)


@for_each(
    "value",
    [10**5_000, [-(10**5_000)], {"a": 10**5_000}, {10**5_000: 1}],
    ids=["alone", "in a list", "a member", "a name"],
)
def test_an_integer_of_more_digits_than_are_converted_is_an_error(value):
    with pytest.raises(orjson.JSONEncodeError):
        exact_json.dumps(value, orjson.OPT_NON_STR_KEYS)


def test_what_a_default_returns_may_have_too_many_levels_or_digits_too():
    deep: list[object] = []
    for _ in range(2_000):
        deep = [deep]
    for value in ([2**64, deep], 10**5_000):
        with pytest.raises(orjson.JSONEncodeError):
            exact_json.dumps(object(), default=lambda _, value=value: value)


@for_each("value", [object(), {1: 2}, {"a": {1}}])
def test_what_is_no_json_is_an_error(value):
    with pytest.raises(orjson.JSONEncodeError):
        exact_json.dumps(value)


@for_each("value", [2**64, Decimal("0.1"), "\ud800"])
def test_strictly_what_would_be_altered_is_an_error(value):
    with pytest.raises(orjson.JSONEncodeError):
        exact_json.dump_strictly([value])


@for_each("path", sorted(str(path) for path in Path("app").rglob("*.py")))
def test_json_is_written_by_the_function_that_can(path):
    """`orjson.dumps` raises TypeError, and the client gets a 500, for values that clients can send."""
    if path == "app/core/exact_json.py":
        return
    used = [
        f"line {node.lineno}"
        for node in ast.walk(ast.parse(Path(path).read_text()))
        if (isinstance(node, ast.Attribute) and node.attr == "dumps" and _name(node.value) == "orjson")
        or (isinstance(node, ast.ImportFrom) and node.module == "orjson" and _imports_dumps(node))
    ]
    assert used == []


def _name(node):
    return node.id if isinstance(node, ast.Name) else ""


def _imports_dumps(node):
    return any(alias.name == "dumps" for alias in node.names)
