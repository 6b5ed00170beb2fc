"""Meta-tools take their arguments as models send them, and say where they are wrong."""

import jsonschema_rs
import pytest

from app.core.errors import InvalidArguments
from app.toolsets.meta_tools.definitions import INPUTS
from app.toolsets.meta_tools.inputs import (
    DescribeArguments,
    FindArguments,
    InnerCall,
    parse,
    parse_call,
)
from tests.harness.cases import for_each

CITY = {"city": "Berlin"}


@for_each(
    "given",
    [
        {"name": "t", "arguments": CITY},
        {"tool_name": "t", "parameters": CITY},
        {"name": "t", "arguments": '{"city": "Berlin"}'},
        {"arguments": {"name": "t", "arguments": CITY}},
        {"arguments": {"tool_name": "t", "parameters": '{"city": "Berlin"}'}},
        {"arguments": {"name": "t", "city": "Berlin"}},
        {"name": "t", "city": "Berlin"},
        '{"name": "t", "arguments": {"city": "Berlin"}}',
    ],
    ids=["plain", "other-names", "text", "nested", "nested-text", "name-inside", "flat", "all-text"],
)
def test_a_call_is_understood_in_each_form(given):
    assert parse_call(given) == InnerCall("t", CITY)


def test_the_name_of_an_argument_is_no_name_of_a_tool():
    assert parse_call({"name": "t", "arguments": {"name": "Ada"}}) == InnerCall("t", {"name": "Ada"})


def test_what_is_wanted_of_the_result_is_beside_the_arguments():
    given = {"name": "t", "arguments": {}, "fields": ["/a", "$.b[*].c"], "result_format": "csv"}
    assert parse_call(given) == InnerCall("t", {}, ("/a", "$.b[*].c"), "csv")
    assert parse_call({"name": "t", "arguments": "{}", "fields": "/a"}) == InnerCall("t", {}, ("/a",))


def test_without_arguments_beside_it_fields_is_an_argument_of_the_tool():
    given = {"name": "t", "fields": ["id"], "result_format": "x"}
    assert parse_call(given) == InnerCall("t", {"fields": ["id"], "result_format": "x"})


@pytest.mark.parametrize(
    "given", [{"name": "t"}, {"name": "t", "arguments": None}, {"name": "t", "arguments": ""}]
)
def test_absent_arguments_are_none(given):
    assert parse_call(given) == InnerCall("t", {})


@for_each(
    ("given", "pointers"),
    [
        ({}, ["/name"]),
        ({"arguments": CITY}, ["/name"]),
        ({"name": 1}, ["/name"]),
        ([], [""]),
        ("{", [""]),
        ({"name": "t", "arguments": []}, ["/arguments"]),
        ({"name": "t", "arguments": "{"}, ["/arguments"]),
        ({"name": "t", "arguments": '{"id": 123456789012345678901234}'}, ["/arguments"]),
        ({"name": "t", "arguments": CITY, "x/y": 1}, ["/x~1y"]),
        ({"name": "t", "arguments": CITY, "fields": ["total"]}, ["/fields"]),
        ({"name": "t", "arguments": CITY, "fields": ["/a"] * 51}, ["/fields"]),
        ({"name": "t", "arguments": CITY, "fields": {"a": 1}}, ["/fields"]),
        ({"name": "t", "arguments": CITY, "result_format": "xml"}, ["/result_format"]),
    ],
)
def test_what_is_wrong_with_a_call_has_its_pointer(given, pointers):
    with pytest.raises(InvalidArguments) as caught:
        parse_call(given)
    assert [error.pointer for error in caught.value.errors] == pointers


@for_each(
    ("given", "query"),
    [
        ({"query": "a"}, ["a"]),
        ({"query": ["a", "b"]}, ["a", "b"]),
        ({"query": '["a", "b"]'}, ["a", "b"]),
        ({"query": "[a"}, ["[a"]),
        ({"query": "x" * 8000}, ["x" * 8000]),
    ],
    ids=["text", "list", "json", "no-json", "long"],
)
def test_queries(given, query):
    assert parse(FindArguments, given).query == query


def test_values_of_near_types_are_taken():
    found = parse(
        FindArguments, {"query": "a", "limit": "3", "tags": "x", "read_only": "true", "provider": None}
    )
    assert (found.limit, found.tags, found.read_only, found.provider) == (3, ["x"], True, None)


@for_each(
    ("given", "pointers"),
    [
        ({}, ["/query"]),
        ({"query": ""}, ["/query/0"]),
        ({"query": []}, ["/query"]),
        ({"query": ["a"] * 5}, ["/query"]),
        ({"query": "x" * 8001}, ["/query/0"]),
        ({"query": "a", "limit": 0}, ["/limit"]),
        ({"query": "a", "limit": 21}, ["/limit"]),
        ({"query": "a", "detail": "full"}, ["/detail"]),
        ({"query": "a", "offset": 1}, ["/offset"]),
    ],
    ids=["missing", "empty", "none", "five", "long", "zero", "many", "detail", "unknown"],
)
def test_what_is_wrong_with_a_search_has_its_pointer(given, pointers):
    with pytest.raises(InvalidArguments) as caught:
        parse(FindArguments, given)
    assert [error.pointer for error in caught.value.errors] == pointers
    assert not jsonschema_rs.is_valid(INPUTS["find_tools"], given)


@pytest.mark.parametrize("names", [[], list("abcdef"), [1]])
def test_one_to_five_names_are_described(names):
    with pytest.raises(InvalidArguments):
        parse(DescribeArguments, {"names": names})
    assert not jsonschema_rs.is_valid(INPUTS["describe_tools"], {"names": names})


def test_a_single_name_is_described():
    assert parse(DescribeArguments, {"names": "a"}).names == ["a"]
