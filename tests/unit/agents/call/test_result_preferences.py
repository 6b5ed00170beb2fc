"""The header Prefer with the budget of a result."""

import pytest

from app.agents.call.result_preferences import parse_result_preferences
from app.calls.results import ResultBudget
from app.protocols.responses.rule import parse_preferences
from tests.harness.cases import for_each


@for_each(
    ("prefer", "budget"),
    [
        pytest.param("max-bytes=2000, format=csv", ResultBudget(2000, None, (), "csv"), id="two"),
        pytest.param('fields="/a $.b[0,1]" ; x="a,b", max-tokens=9', ResultBudget(None, 9, ("/a", "$.b[0,1]")), id="quoted"),
        pytest.param("x; y=1,max-bytes = 300", ResultBudget(300), id="after-another"),
        pytest.param("max-bytes=1, max-bytes=2", ResultBudget(1), id="first-counts"),
        pytest.param("max-bytes=x", None, id="no-number"),
        pytest.param("", None, id="empty"),
    ],
)  # fmt: skip
def test_budget_of_a_header(prefer, budget) -> None:
    found = parse_result_preferences(prefer)
    assert (None if found is None else found[0]) == budget


@pytest.mark.parametrize(
    "prefer",
    ["a" * 300_000 + "!", "a" + " " * 300_000 + "!", "a=" + " " * 300_000 + "!", "a;" * 150_000 + '"'],
    ids=["name", "blanks", "blanks-of-a-value", "parameters"],
)
def test_a_long_header_takes_time_in_proportion_to_its_length(prefer) -> None:
    # With a square of its length, each of these would take an hour.
    assert parse_result_preferences(prefer) is None
    assert parse_preferences(prefer) is None
