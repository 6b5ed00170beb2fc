"""Calls of exported tools come back as calls of the original schema."""

from typing import Any, get_args

import orjson
import pytest

from app.tool_calls.exports import original_arguments, original_names
from app.tool_calls.query import DIALECTS
from app.tool_schemas.dialects import Format
from app.toolsets import AgentTool

INPUTS = {
    "type": "object",
    "properties": {
        "q": {"type": "string"},
        "limit": {"type": "integer"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "size": {"type": "integer", "enum": [1, 2]},
    },
    "required": ["q"],
    "additionalProperties": False,
}


def tool(inputs: Any = INPUTS) -> AgentTool:
    return AgentTool(
        name="t", tool="p.t", alias="p_t", provider="p", description="", inputs_json=orjson.dumps(inputs),
        outputs_json=b"{}",
    )  # fmt: skip


def test_nulls_for_absent_members_and_pairs_of_a_strict_export_are_undone() -> None:
    called = {"q": "a", "limit": None, "labels": [{"key": "k", "value": "v"}], "size": 2}
    assert original_arguments(called, tool(), "openai-chat", "true") == {
        "q": "a", "labels": {"k": "v"}, "size": 2,
    }  # fmt: skip


def test_texts_for_numbers_of_an_enumeration_are_undone() -> None:
    assert original_arguments({"q": "a", "size": "2"}, tool(), "gemini-openapi", "auto") == {
        "q": "a",
        "size": 2,
    }


def test_arguments_that_are_no_object_come_out_of_their_wrapper() -> None:
    wrapped = tool({"type": "array", "items": {"type": "string"}})
    assert original_arguments({"body": ["a"]}, wrapped, "anthropic", "false") == ["a"]


def test_a_tool_that_cannot_be_exported_gets_its_arguments_as_they_are() -> None:
    assert original_arguments({"q": 1}, tool({"not": {}}), "anthropic", "auto") == {"q": 1}


@pytest.mark.parametrize("form", list(DIALECTS))
def test_a_plain_call_is_unchanged_in_every_format(form: Format) -> None:
    assert original_arguments({"q": "a", "limit": 3}, tool(), form, "false") == {"q": "a", "limit": 3}
    assert original_names("p_read", form) == ("p_read",)


def test_each_format_of_exports_has_a_dialect_of_calls() -> None:
    assert set(DIALECTS) == set(get_args(Format))
