"""The call route as an OpenAPI operation; a plain Starlette route has nobody else to describe it."""

from typing import Any, Final

from app.schemas import TOOL_NAME, problems

_ANY_JSON: Final = {"description": "The upstream's JSON; text as a string, an empty answer as null."}

CALL_OPERATION: Final[dict[str, Any]] = {
    "operationId": "callTool",
    "summary": "Call Tool",
    "description": (
        "Call a tool. The body is the object of its arguments, as `inputs` of the tool describes them; an "
        "empty body means `{}`. The answer has the upstream's own body and media type; a caller that accepts "
        "only `application/json` always gets JSON: text as a string, binary as an object with `media_type` "
        "and `base64`, an empty answer as null (JSON of more than 64 KiB is passed on as it arrives, "
        "unchecked). An upstream's own 4xx keeps its status; problems that come from upstream carry "
        "`X-Error-Source: upstream`."
    ),
    "tags": ["tools"],
    "security": [{"apiKey": []}],
    "parameters": [
        {
            "name": "name",
            "in": "path",
            "required": True,
            "description": "Canonical name (`provider.tool`) or alias.",
            "schema": {"type": "string", "pattern": TOOL_NAME, "title": "Name"},
            "example": "library.searchBooks",
        },
        {
            "name": "dry_run",
            "in": "query",
            "required": False,
            "description": "Answer with the exact upstream request, secrets masked, and send nothing.",
            "schema": {"type": "boolean", "default": False, "title": "Dry Run"},
        },
    ],
    "requestBody": {
        "required": False,
        "content": {
            "application/json": {
                "schema": {"type": "object", "title": "Arguments"},
                "examples": {"search": {"summary": "Of the sample API", "value": {"q": "history"}}},
            }
        },
    },
    "responses": {
        "200": {
            "description": "The upstream's answer, or with `dry_run` the request that would be sent.",
            "headers": {
                "X-Call-Id": {"schema": {"type": "string", "format": "uuid"}},
                "X-Upstream-Status": {"schema": {"type": "integer"}},
                "Server-Timing": {"schema": {"type": "string"}},
            },
            "content": {"application/json": {"schema": _ANY_JSON}, "*/*": {"schema": {}}},
        },
        **{str(status): body for status, body in problems(400, 404, 409, 413, 415, 424, 502, 504).items()},
        "4XX": {
            "description": "The upstream refused; it keeps its status.",
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        },
    },
}
