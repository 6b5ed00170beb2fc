"""Calls of tools for agent frameworks: each is a tool call in a dialect, which the gateway runs."""

import json
from collections.abc import Mapping
from typing import Any, Final, Literal
from uuid import uuid4

from utcp_gateway_client.gateway.errors import PROBLEM_PREFIX
from utcp_gateway_client.gateway.models import ToolCallsResponse

Dialect = Literal["langchain", "openai-chat"]
_CORRECTABLE: Final = f"{PROBLEM_PREFIX}invalid-arguments"


def call_message(dialect: Dialect, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message of a model that calls one tool."""
    call_id = f"call_{uuid4().hex}"
    if dialect == "langchain":
        call = {"type": "tool_call", "id": call_id, "name": name, "args": dict(arguments)}
        return {"type": "ai", "content": "", "tool_calls": [call]}
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def content_of(response: ToolCallsResponse) -> Any:
    """Return the content of the only message: text, or blocks of the dialect."""
    return response.messages[0]["content"]


def is_error(response: ToolCallsResponse) -> bool:
    """Return whether the only call has failed."""
    return response.results[0].is_error


def is_correctable(response: ToolCallsResponse) -> bool:
    """Return whether the call has failed because of its arguments."""
    return (response.results[0].error or {}).get("type") == _CORRECTABLE
