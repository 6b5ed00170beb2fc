"""The call route as an OpenAPI operation; a plain Starlette route has nobody else to describe it."""

from typing import Any, Final

from app.call_api.operation_headers import ANSWER_HEADERS, IDEMPOTENCY_KEY, REFUSED_HEADERS
from app.schemas import TOOL_NAME, problems

_STATUSES: Final = (400, 404, 409, 413, 415, 424, 502, 504, 508)
_ANY_JSON: Final = {"description": "The upstream's JSON; text as a string, an empty answer as null."}
_EVENTS: Final = {
    "type": "string",
    "description": (
        "An upstream's own events with their names and ids; JSON (a line, or the whole answer) as `data` of "
        "an event without a name; text as `gateway-text` (a JSON string), the rest as `gateway-bytes` (an "
        "object with `media_type` and `base64`). Comments are heartbeats. The last event is `gateway-end` "
        "(`call_id`, `upstream_status`, `events`, `bytes`, `duration_ms`) or `gateway-error` (a problem with "
        "the same); without one the answer is not whole. `masked` in it says that a secret was masked. An "
        "upstream's name that begins with `gateway-` gets `upstream-` in front."
    ),
}
_EVENTS_EXAMPLE: Final = (
    'event: price\nid: 7\ndata: {"gold": 41}\n\n: heartbeat\n\n'
    'event: gateway-end\ndata: {"call_id":"...","upstream_status":200,"events":1,"bytes":12}\n\n'
)
_LINES: Final = {
    "type": "string",
    "description": (
        "One JSON value a line: JSON of the upstream as it is; its server-sent events as `event`, `id`, "
        "`retry` and `data`; text as a string; anything else as `media_type` and `base64`. Empty lines are "
        'heartbeats. The last line is `{"$gateway": {"end": ...}}` or `{"$gateway": {"error": ...}}` with '
        "what the last server-sent event has; without one the answer is not whole. An upstream's object "
        'with the member `$gateway` is wrapped: `{"$upstream": ...}`. Also as `application/jsonl`.'
    ),
}
_LINES_EXAMPLE: Final = (
    '{"event":"price","id":"7","data":{"gold":41}}\n\n'
    '{"$gateway":{"end":{"call_id":"...","upstream_status":200,"events":1,"bytes":12}}}\n'
)

CALL_OPERATION: Final[dict[str, Any]] = {
    "operationId": "callTool",
    "summary": "Call Tool",
    "description": (
        "Call a tool. The body is the object of its arguments, as `inputs` of the tool describes them; an "
        "empty body means `{}`. The answer has the upstream's own body and media type; a caller that accepts "
        "only `application/json` always gets JSON: text as a string, binary as an object with `media_type` "
        "and `base64`, an empty answer as null (JSON of more than 64 KiB is passed on as it arrives, "
        "unchecked). An upstream's own 4xx keeps its status; problems that come from upstream carry "
        "`X-Error-Source: upstream`. With `Accept: text/event-stream` or `application/x-ndjson` the answer "
        "comes as events, each as soon as the upstream sends it; the last one tells how it ended. Keys and "
        "providers may have rate limits: 429 with `Retry-After`. With `Cache-Control: no-cache` a caller "
        "gets no answer from memory, where a provider lets answers be kept. Secrets that the gateway sent "
        "with the call stand as `***` in the response (`X-Masked`)."
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
        {
            "name": "X-Timeout-Ms",
            "in": "header",
            "required": False,
            "description": (
                "Milliseconds in which the call is to end, with all attempts. It can only shorten what the "
                "gateway's settings and the provider's limits give."
            ),
            # As it is read: on the wire it is text, and "1.0" is no number of milliseconds.
            "schema": {"type": "string", "pattern": "^0*[1-9][0-9]{0,8}$", "title": "Timeout"},
            "example": "2000",
        },
        IDEMPOTENCY_KEY,
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
                **ANSWER_HEADERS,
            },
            "content": {
                "application/json": {"schema": _ANY_JSON},
                "text/event-stream": {"schema": _EVENTS, "example": _EVENTS_EXAMPLE},
                "application/x-ndjson": {"schema": _LINES, "example": _LINES_EXAMPLE},
                "*/*": {"schema": {}},
            },
        },
        **{str(status): body for status, body in problems(*_STATUSES).items()},
        "429": {**problems(429)[429], "headers": REFUSED_HEADERS},
        "4XX": {
            "description": "The upstream refused; it keeps its status.",
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        },
    },
}
