"""Each kind of assertion about a run, where it holds and where it does not."""

import pytest
from pydantic import TypeAdapter, ValidationError

from app.agents.tests.assertion_models import Assertion
from app.agents.tests.assertions import AssertedCall, AssertedRun, check_assertions, score_of
from tests.harness.cases import for_each

ASSERTION: TypeAdapter[Assertion] = TypeAdapter(Assertion)
BOOK = AssertedCall(
    frozenset({"find", "library.find"}), {"q": "sea", "limit": 2, "of": [{"a": 1}]}, {"q": "***"}
)
FAILED = AssertedCall(frozenset({"lend"}), {"id": 1.0}, {"id": 1.0}, is_error=True)
RUN = AssertedRun("The Sea-Wolf costs 3 EUR.", [BOOK, FAILED, BOOK], "done", 100, 2_000)
FENCED = AssertedRun('Here it is:\n```json\n{"total": 1, "items": [{"id": "a/b"}]}\n```\nand\n```\nx\n```')


def check(run, **members):
    (outcome,) = check_assertions(run, [ASSERTION.validate_python(members)])
    return outcome


@for_each(
    ("members", "passed"),
    [
        ({"type": "contains", "value": "Sea-Wolf"}, True),
        ({"type": "contains", "value": "sea-wolf"}, False),
        ({"type": "contains", "value": "sea-wolf", "ignore_case": True}, True),
        ({"type": "not_contains", "value": "Matilda"}, True),
        ({"type": "not_contains", "value": "WOLF", "ignore_case": True}, False),
        ({"type": "equals", "value": " The Sea-Wolf costs 3 EUR.\n"}, True),
        ({"type": "equals", "value": "The Sea-Wolf"}, False),
        ({"type": "regex", "pattern": r"costs \d+ EUR"}, True),
        ({"type": "regex", "pattern": r"^costs"}, False),
        ({"type": "regex", "pattern": r"COSTS", "ignore_case": True}, True),
        ({"type": "tool_called", "tool": "find"}, True),
        ({"type": "tool_called", "tool": "library.find"}, True),
        ({"type": "tool_called", "tool": "search"}, False),
        ({"type": "tool_called", "tool": "find", "arguments": {"q": "sea", "of": [{"a": 1.0}]}}, True),
        ({"type": "tool_called", "tool": "find", "arguments": {"q": "lake"}}, False),
        ({"type": "tool_called", "tool": "find", "arguments": {"of": []}}, False),
        ({"type": "tool_called", "tool": "find", "arguments": {"q": "sea"}, "match": "equals"}, False),
        ({"type": "tool_called", "tool": "lend", "arguments": {"id": 1}, "match": "equals"}, True),
        ({"type": "tool_called", "tool": "lend", "arguments": {"id": True}}, False),
        ({"type": "tool_called", "tool": "lend", "is_error": True}, True),
        ({"type": "tool_called", "tool": "lend", "is_error": False}, False),
        ({"type": "tool_not_called", "tool": "search"}, True),
        ({"type": "tool_not_called", "tool": "lend"}, False),
        ({"type": "call_count", "exact": 3}, True),
        ({"type": "call_count", "tool": "find", "exact": 2}, True),
        ({"type": "call_count", "tool": "find", "min": 1, "max": 2}, True),
        ({"type": "call_count", "max": 2}, False),
        ({"type": "call_count", "min": 4}, False),
        ({"type": "call_order", "tools": ["find", "lend", "find"]}, True),
        ({"type": "call_order", "tools": ["lend", "find"]}, True),
        ({"type": "call_order", "tools": ["lend", "lend"]}, False),
        ({"type": "stopped", "value": "done"}, True),
        ({"type": "stopped", "value": "iterations"}, False),
        ({"type": "max_tokens", "value": 100}, True),
        ({"type": "max_tokens", "value": 99}, False),
        ({"type": "max_duration", "value": 2_000}, True),
        ({"type": "max_duration", "value": 1_999}, False),
        ({"type": "json_pointer", "pointer": "", "equals": {}}, False),
        ({"type": "json_schema", "schema": {}}, False),
    ],
)  # fmt: skip
def test_an_assertion_holds_or_does_not(members, passed) -> None:
    assert check(RUN, **members).passed is passed


@for_each(
    ("pointer", "equals", "passed"),
    [
        ("/total", 1, True),
        ("/total", 1.0, True),
        ("/total", True, False),
        ("/items/0/id", "a/b", True),
        ("/items", [{"id": "a/b"}], True),
        ("/items/00", {"id": "a/b"}, False),
        ("/items/1", None, False),
        ("", {"total": 1, "items": [{"id": "a/b"}]}, True),
    ],
)
def test_a_json_pointer_is_read_in_a_fenced_block(pointer, equals, passed) -> None:
    assert check(FENCED, type="json_pointer", pointer=pointer, equals=equals).passed is passed


def test_a_json_schema_says_where_the_response_is_not_valid() -> None:
    schema = {"properties": {"total": {"type": "string"}}, "required": ["total"]}
    outcome = check(FENCED, type="json_schema", schema=schema)
    assert (outcome.passed, outcome.message) == (
        False, "The JSON of the response is not valid for the schema: see /total.",
    )  # fmt: skip
    assert check(AssertedRun('{"total": "1"}'), type="json_schema", schema=schema).passed


def test_messages_have_masked_arguments() -> None:
    outcome = check(RUN, type="tool_called", tool="find", arguments={"q": "lake"})
    assert outcome.message == 'find was called with {"q":"***"}; {"q":"***"}, not with {"q":"lake"}.'


def test_the_score_counts_weights() -> None:
    assertions = [
        ASSERTION.validate_python({"type": "contains", "value": value, "weight": weight})
        for value, weight in (("Sea-Wolf", 3), ("Matilda", 1))
    ]
    assert score_of(check_assertions(RUN, assertions)) == 0.75
    assert score_of([]) == 1.0


def test_a_pattern_takes_linear_time() -> None:
    text = "a" * 100_000
    assert not check(AssertedRun(text), type="regex", pattern="(a*)*b").passed


def test_texts_with_lone_surrogates_are_compared() -> None:
    run = AssertedRun("broken \ud800 text")
    assert check(run, type="contains", value="broken").passed
    assert check(run, type="regex", pattern="text$").passed


def test_long_texts_are_cut_in_messages_between_characters() -> None:
    outcome = check(AssertedRun("ä" * 1_000), type="equals", value="x")
    assert outcome.message == f'The response is "{"ä" * 100}... (2000 bytes)", not "x".'


@for_each(
    "members",
    [
        {"type": "regex", "pattern": r"(?!a)"},
        {"type": "regex", "pattern": "("},
        {"type": "json_schema", "schema": {"$ref": "https://example.com/schema"}},
        {"type": "json_schema", "schema": {"type": "no such type"}},
        {"type": "call_count", "min": 2, "max": 1},
        {"type": "call_count", "exact": 1, "min": 1},
        {"type": "contains", "value": ""},
        {"type": "contains", "value": "x", "weight": 0},
        {"type": "unknown"},
    ],
)
def test_assertions_that_cannot_be_checked_are_rejected(members) -> None:
    with pytest.raises(ValidationError):
        ASSERTION.validate_python(members)
