"""Headers that mirror members of the body."""

import base64
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agents.mcp.header_values import (
    MirroredArgument,
    check_mirrored,
    decode_value,
    find_mirrored_arguments,
)
from app.agents.mcp.jsonrpc import HEADER_MISMATCH, RpcError
from tests.harness.cases import for_each


def encoded(text: str) -> bytes:
    return b"=?base64?%b?=" % base64.b64encode(text.encode())


@given(st.text())
def test_every_text_can_be_encoded(text: str) -> None:
    assert decode_value(encoded(text)) == text


@pytest.mark.parametrize("value", [b"plain", b" \tplain\t ", b"plain\t"])
def test_blanks_around_a_value_do_not_count(value: bytes) -> None:
    assert decode_value(value) == "plain"


@for_each(
    "value",
    [b"=?base64?YQ?=", b"=?base64?YR==?=", b"=?base64? YQ==?=", b"=?base64?YQ==\n?=", b"=?base64?/w==?="],
)
def test_other_base64_than_the_canonical_one_is_a_mismatch(value: bytes) -> None:
    with pytest.raises(RpcError) as caught:
        decode_value(value)
    assert (caught.value.code, caught.value.status) == (HEADER_MISMATCH, 400)


SCHEMA = {
    "type": "object",
    "properties": {
        "tenant": {"type": "string", "x-mcp-header": "Tenant"},
        "page": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "Page"}}},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "same": {"type": "string", "x-mcp-header": "TENANT"},
        "number": {"type": "number", "x-mcp-header": "Number"},
        "list": {"type": ["string"], "x-mcp-header": "List"},
        "blank": {"type": "string", "x-mcp-header": "no token"},
        "items": {"type": "array", "items": {"type": "string", "x-mcp-header": "Item"}},
        "other": True,
    },
}
MIRRORED = (
    MirroredArgument("tenant", ("tenant",)),
    MirroredArgument("page", ("page", "n")),
    MirroredArgument("dry", ("dry",)),
)


def test_marks_are_read_where_they_are_valid() -> None:
    assert find_mirrored_arguments(SCHEMA) == MIRRORED
    assert find_mirrored_arguments({"type": "object"}) == ()


@for_each(
    ("head", "arguments"),
    [
        ({}, {}),
        ({}, {"tenant": None, "page": {}}),
        ({"tenant": b"a"}, {"tenant": "a"}),
        ({"tenant": encoded("ü")}, {"tenant": "ü"}),
        ({"page": b"42"}, {"page": {"n": 42}}),
        ({"page": b"42.0"}, {"page": {"n": 42}}),
        ({"page": b"42"}, {"page": {"n": 42.0}}),
        ({"page": b"42"}, {"page": {"n": Decimal("42.00")}}),
        ({"dry": b"true"}, {"dry": True}),
    ],
)
def test_headers_that_mirror_their_arguments_are_accepted(
    head: dict[str, bytes], arguments: dict[str, Any]
) -> None:
    check_mirrored(MIRRORED, {f"mcp-param-{name}".encode(): value for name, value in head.items()}, arguments)


@for_each(
    ("head", "arguments"),
    [
        ({}, {"tenant": "a"}),
        ({"tenant": b"a"}, {}),
        ({"tenant": b"a"}, {"tenant": None}),
        ({"tenant": b"A"}, {"tenant": "a"}),
        ({"page": b"x"}, {"page": {"n": 42}}),
        ({"page": b"43"}, {"page": {"n": 42}}),
        ({"page": b"1"}, {"page": 1}),
        ({"dry": b"1"}, {"dry": True}),
        ({"dry": b"True"}, {"dry": True}),
        ({"tenant": b"=?base64?YR==?="}, {"tenant": "a"}),
    ],
)
def test_headers_that_differ_from_their_arguments_are_a_mismatch(
    head: dict[str, bytes], arguments: dict[str, Any]
) -> None:
    with pytest.raises(RpcError) as caught:
        check_mirrored(
            MIRRORED, {f"mcp-param-{name}".encode(): value for name, value in head.items()}, arguments
        )
    assert caught.value.code == HEADER_MISMATCH
