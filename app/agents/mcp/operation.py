"""The routes of MCP as OpenAPI 3.1 operations: they are plain Starlette, and read no models."""

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from app.agents.mcp.jsonrpc import LEGACY, MODERN, SERVED
from app.calls.options import RUN_PATTERN
from app.core.schemas import problem_responses

_PROBLEMS: Final = (401, 403, 404, 413, 415, 503)
_DESCRIPTION: Final = f"""\
A server of the Model Context Protocol over HTTP, revision {MODERN}, and, by a handshake without sessions,
{", ".join(LEGACY)}. Clients of MCP use it with this URL and an API key as `Authorization: Bearer`; the
methods and messages are those of its specification.

`tools/list` has the tools that the key may see. Where these are many, it has tools that find, describe and
call them instead; every tool can be called by its name all the same. `tools/call` is a call as of
`POST /tools/{{name}}/call`: with the same access, rate limits, masking, records, and `Idempotency-Key`.
Errors of a call are results with `isError`. Errors of HTTP, such as a missing key, are problems; those of a
message are errors of JSON-RPC. A notification, which has no `id`, is accepted with 202 and no body."""
_EXAMPLE: Final[dict[str, Any]] = {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}
_ERROR: Final[dict[str, Any]] = {
    "jsonrpc": "2.0",
    "id": 1,
    "error": {"code": -32602, "message": "Unknown tool: library_find"},
}
_EVENTS: Final = 'event: message\r\ndata: {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}\r\n\r\n'
_TOOLSET: Final = "The tools are those of the toolset, by the names that they have there. "


class McpMessage(BaseModel):
    """A request of JSON-RPC 2.0 by the Model Context Protocol."""

    model_config = ConfigDict(extra="allow")

    jsonrpc: str = Field(pattern="^2\\.0$", examples=["2.0"])
    method: str = Field(description="The method of MCP, e.g. `tools/list`.", examples=["tools/list"])
    id: str | int = Field(description="The id of the request, which its response has.", examples=[1])
    params: dict[str, Any] | None = Field(None, description="The parameters of the method.")


class McpResponse(BaseModel):
    """The response to a request: `result` or `error`."""

    model_config = ConfigDict(extra="allow")

    jsonrpc: str = Field(examples=["2.0"])
    id: str | int | None = Field(None, description="The id of the request; null where it could not be read.")
    result: dict[str, Any] | None = Field(None, description="What the method returns.")
    error: dict[str, Any] | None = Field(None, description="`code`, `message` and perhaps `data`.")


def build_mcp_components() -> dict[str, dict[str, Any]]:
    """Return the component schemas that the operations refer to, besides Problem, by name."""
    return {model.__name__: model.model_json_schema() for model in (McpMessage, McpResponse)}


def build_mcp_operation(*, toolset: bool) -> dict[str, Any]:
    """Return the operation of `/mcp`, or of a toolset; it refers to `build_mcp_components` and Problem."""
    schema = {"$ref": "#/components/schemas/McpResponse"}
    message: dict[str, Any] = {"schema": schema, "example": _ERROR}
    # Invalid messages have errors of JSON-RPC, and query parameters are ignored.
    errors = {
        str(status): response for status, response in problem_responses(*_PROBLEMS).items() if status != 422
    }
    errors["404"]["content"]["application/json"] = message
    errors["404"]["description"] = "The toolset or the method is unknown."
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    return {
        "operationId": "toolsetMcp" if toolset else "mcp",
        "summary": "Use the tools of a toolset by MCP" if toolset else "Use the tools by MCP",
        "description": (_TOOLSET if toolset else "") + _DESCRIPTION,
        "tags": ["tools"],
        "security": [{"apiKey": []}],
        "parameters": [
            *(_describe_toolset_parameter() if toolset else ()),
            _describe_version_parameter(),
            _describe_run_parameter(),
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": "#/components/schemas/McpMessage"},
                    "examples": {"list": {"summary": "List the tools, in a revision with a handshake",
                                          "value": request}},
                }
            },
        },
        "responses": {
            "200": {
                "description": "The response of the method, or the events of a longer one.",
                "content": {
                    "application/json": {"schema": schema, "example": _EXAMPLE},
                    "text/event-stream": {"schema": {"type": "string"}, "example": _EVENTS},
                },
            },
            "400": {
                "description": "The message is not valid, or its headers differ from its body.",
                "content": {"application/json": message},
            },
            **errors,
            "406": {
                "description": "The client does not accept events.",
                "content": {"application/json": message},
            },
        },
    }  # fmt: skip


def _describe_toolset_parameter() -> list[dict[str, Any]]:
    return [
        {
            "name": "name",
            "in": "path",
            "required": True,
            "description": "Name of the toolset.",
            "schema": {"type": "string"},
        }
    ]


def _describe_run_parameter() -> dict[str, Any]:
    return {
        "name": "X-Recording-Run",
        "in": "header",
        "required": False,
        "description": "Of calls that are replayed: the run that they belong to, any name.",
        "schema": {"type": "string", "pattern": RUN_PATTERN, "examples": ["ci-42"]},
    }


def _describe_version_parameter() -> dict[str, Any]:
    return {
        "name": "MCP-Protocol-Version",
        "in": "header",
        "required": False,
        "description": "The revision of the protocol; clients of revisions before 2025-06-18 send none.",
        "schema": {"type": "string", "examples": [SERVED[1]]},
    }
