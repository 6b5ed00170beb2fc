"""A URL has a length that servers take; what would be longer is refused before it costs anything."""

import pytest

from app.core.errors import InvalidArguments
from app.protocols.requests.plan_compiler import compile_plan
from tests.harness.scaling import assert_linear

UTCP = compile_plan(
    {
        "url": "https://api.example.com/{id}",
        "http_method": "POST",
        "body_field": "body",
        "header_fields": ["X-H"],
    }
)
OPENAPI = compile_plan(
    {
        "url": "https://api.example.com/{id}",
        "http_method": "POST",
        "body": {"input": "body", "content_type": "application/json"},
        "parameters": [
            {"input": "id", "name": "id", "location": "path"},
            {"input": "q", "name": "q", "location": "query"},
            {"input": "d", "name": "d", "location": "query", "style": "deepObject", "explode": True},
            {"input": "c", "name": "c", "location": "cookie"},
        ],
    }
)


def pointers(plan, arguments):
    with pytest.raises(InvalidArguments, match="too long") as caught:
        plan.prepare(arguments)
    return [fault.pointer for fault in caught.value.errors]


@pytest.mark.parametrize("plan", [UTCP, OPENAPI], ids=["utcp", "openapi"])
def test_the_largest_argument_is_named(plan):
    assert pointers(plan, {"id": "\u2025%" * 1_000_000, "q": "short"}) == ["/id"]
    assert pointers(plan, {"id": "x", "q": "/" * 3_000_000}) == ["/q"]
    assert pointers(plan, {"id": "x" * 40_000, "q": "y" * 30_000}) == ["/id"]
    assert pointers(plan, {"id": "x" * 20_000, "q": "\u00fc" * 21_000}) == ["/q"]
    assert pointers(plan, {"id": "x", "q": list(range(1_000_000))}) == ["/q"]
    assert pointers(plan, {"id": "x", "d": {str(n): "y" for n in range(300_000)}}) == ["/d"]


@pytest.mark.parametrize("plan", [UTCP, OPENAPI], ids=["utcp", "openapi"])
def test_rejection_of_a_long_argument_is_linear(plan):
    assert_linear(lambda number: pointers(plan, {"id": "\u2025%" * number, "q": "short"}), 100_000)
    assert_linear(lambda number: pointers(plan, {"id": "x", "q": list(range(number))}), 100_000)


def test_many_small_ones_and_long_names_count_too():
    assert len(pointers(UTCP, {"id": "x"} | {f"name-{n}": n for n in range(100_000)})) == 1
    assert pointers(UTCP, {"id": "x", "n" * 3_000_000: 1}) == ["/" + "n" * 100]
    assert pointers(OPENAPI, {"id": "x", "c": "z" * 3_000_000}) == ["/c"]


@pytest.mark.parametrize("plan", [UTCP, OPENAPI], ids=["utcp", "openapi"])
def test_what_just_fits_and_a_large_body_pass(plan):
    request = plan.prepare({"id": "x" * 30_000, "q": "y" * 30_000, "body": "z" * 1_000_000})
    assert len(request.url) > 60_000
    assert request.body is not None
    plan.prepare({"id": "x", "q": [None] * 40_000})
