"""The call route as an OpenAPI 3.1 operation, generated from models of its parameters, headers and bodies.

The route itself is plain Starlette and reads its request without models (`endpoint.py`), so FastAPI cannot
describe it.
"""

from http import HTTPStatus
from typing import Any, Final, Generic, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, Field, RootModel

from app.calls.options import RUN_PATTERN
from app.core.resource_names import TOOL_NAME, TOOLSET_NAME
from app.core.schemas import Problem, location_header, problem_responses
from app.formats.toolclad.envelope import ENVELOPE_REFERENCE, ENVELOPE_SCHEMA, MEDIA_TYPE

OPERATION_ID: Final = "callTool"
TOOLSET_OPERATION_ID: Final = "callToolsetTool"
_ERROR_STATUSES: Final = (400, 404, 408, 409, 413, 415, 424, 502, 504, 508)
# The other client errors of the IANA registry of status codes that may answer a request: listed one by one,
# because generators of clients do not know ranges.
_UPSTREAM_STATUSES: Final = (402, 405, 406, 410, 411, 412, 414, 416, 417, 421, 423, 425, 426, 428, 431, 451)
_DESCRIPTION: Final = """\
Call a tool. The body is the object of its arguments, as `inputs` of the tool describes them; an empty body
means `{}`.

An argument may be a query parameter instead: one with the name of an input, at the top level of `inputs`. Its
text is coerced by the schema of the input: integers, numbers and booleans as in JSON, `null` where the input
may be null, a list by repeating the parameter or as JSON, an object as JSON; it stays a string where the
input may be one. `dry_run` and `envelope` are the parameters below; `stream` and `format` are reserved: give
arguments of these four names in the body. A name that is also in the body, or is not an input, is 422. The
gateway does not log query strings, but proxies in front of it may: give secrets in the body.

The response has the upstream's own body and media type. A client that accepts only `application/json` always
gets JSON: text as a string, binary as an object with `media_type` and `base64`, an empty response as null
(JSON of more than 64 KiB is passed on as it arrives, unchecked). With `Accept: text/event-stream` or
`application/x-ndjson` the response consists of events, each sent as soon as the upstream sends it; the last
one says how the call ended. `application/x-ndjson;form=values` gives the data of the upstream's events alone.
With `Accept: application/vnd.toolclad.envelope+json` or `?envelope=true`, a tool of a ToolClad manifest
responds with its evidence envelope, also where it fails: then with the status of the problem.

A 4xx of the upstream is passed on with its status; problems caused by the upstream have
`X-Error-Source: upstream`.
A tool with `requires_approval` is not called: the arguments are validated and stored, and the response is 202
with the approval, whose URL is in `Location`. Once another key has approved it, the call is made, and the
result is at `GET /approvals/{id}/result`. The same `Idempotency-Key` gets the same approval and, once the
call was made, its result; 409 says that it was rejected, or that nobody has decided in time.
Keys and providers may have rate limits: 429 with `Retry-After`. Where a provider allows caching,
`Cache-Control: no-cache` requests a response that is not cached. Secrets that the gateway sent with the call
are masked as `***` in the response (`X-Masked`)."""


_TOOLSET_DESCRIPTION: Final = """\
Call a tool by its name in a toolset, as `POST /tools/{name}/call` does. The preset arguments of the toolset
are added before the arguments are validated; an argument that is preset is 422. A name that a tool no longer
has in the toolset is 404, with the present one."""


class CallPathParameters(BaseModel):
    """The path parameters of a call."""

    name: str = Field(
        pattern=TOOL_NAME,
        description="Canonical name (`provider.tool`) or alias.",
        examples=["library.searchBooks"],
    )


class ToolsetCallPathParameters(BaseModel):
    """The path parameters of a call in a toolset."""

    name: str = Field(pattern=TOOLSET_NAME, description="Name of a toolset.", examples=["support"])
    tool: str = Field(
        pattern=TOOL_NAME,
        description="Name of the tool in the toolset, or its canonical name or alias where it has no "
        "other name there.",
        examples=["find_books"],
    )


class CallQueryParameters(BaseModel):
    """The query parameters of a call."""

    dry_run: bool = Field(
        False,
        description="Respond with the exact upstream request, secrets masked, and send nothing.",
    )
    envelope: bool = Field(
        False, description="Respond with the evidence envelope; only for tools of ToolClad manifests."
    )


class CallRequestHeaders(BaseModel):
    """The request headers of a call, besides those of HTTP itself."""

    # A string, because "1.0" is not a number of milliseconds.
    timeout_ms: str = Field(
        "",
        alias="X-Timeout-Ms",
        pattern="^0*[1-9][0-9]{0,8}$",
        description="Deadline of the call, with all retries, in milliseconds. It can only shorten what the "
        "gateway's settings and the provider's limits allow.",
        examples=["2000"],
    )
    prefer: str = Field(
        "",
        alias="Prefer",
        max_length=1000,
        description="Preferences for the response (RFC 7240), which take precedence over `options.responses` "
        "of the provider: `decode-response` returns XML, forms, lines of JSON and text as JSON, with the "
        "types of the tool's output schema where it has one; `validate-response` compares the response with "
        "that schema: see `X-Response-Violations`. The value `false` turns one off. For JSON and text: "
        "`max-bytes=...` and `max-tokens=...` cut the result by items (the rest: `X-Continuation`), "
        '`fields="/total $.items[*].id"` returns only the parts at these JSON pointers or JSONPaths, '
        "`format=csv` (or `toon`, `markdown`) a table. `repair=safe` or `repair=on` corrects the form of "
        "arguments that are not valid: see `X-Argument-Repairs`.",
        examples=["decode-response, validate-response"],
    )
    interface: str = Field(
        "",
        alias="X-Call-Interface",
        max_length=1000,
        description="`utcp` where the call follows the call template of a manual, which has this header: the "
        "record of the call says so. Any other value has no effect.",
        examples=["utcp"],
    )
    recording_run: str = Field(
        "",
        alias="X-Recording-Run",
        pattern=RUN_PATTERN,
        description="Of a call that is replayed: the run that it belongs to, any name. Each run gets the "
        "recorded responses of a request in their order; without it, a call belongs to the run of its key.",
        examples=["ci-42"],
    )
    idempotency_key: str = Field(
        "",
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern="^[!#-~][!-~]*$",
        description="A key that identifies this call: 1 to 255 visible ASCII characters, in double quotes or "
        "without. The call is executed once: the same key with the same tool and arguments gets the same "
        "response again, with `Idempotency-Replayed: true` and the first `X-Call-Id`; 409 while it runs, "
        "`idempotency-unknown` where its outcome is not known, 422 with another tool or other arguments.",
    )


Count = TypeVar("Count", int, str)


class RateLimitHeaders(BaseModel, Generic[Count]):
    """The state of rate limits: draft-ietf-httpapi-ratelimit-headers, and the three older headers."""

    policy: str = Field(
        alias="RateLimit-Policy",
        description="The limits of the key and of the provider (draft-ietf-httpapi-ratelimit-headers).",
        examples=['"key";q=100;w=60'],
    )
    state: str = Field(
        alias="RateLimit",
        description="The calls that remain of each limit, and the seconds until all are available again.",
        examples=['"key";r=19;t=1'],
    )
    limit: Count = Field(
        alias="RateLimit-Limit", description="The number of calls of the limit with the fewest remaining."
    )
    remaining: Count = Field(
        alias="RateLimit-Remaining", description="The number of calls that remain of that limit."
    )
    reset: Count = Field(
        alias="RateLimit-Reset", description="The seconds until all calls of that limit are available again."
    )


# Where the gateway has no limit, an upstream's own headers are passed on: in whatever form it sends them.
class CallResponseHeaders(RateLimitHeaders[str]):
    """The headers of a successful response, besides those of the upstream."""

    call_id: UUID = Field(alias="X-Call-Id", description="The id of the call's record.")
    upstream_status: int = Field(alias="X-Upstream-Status", description="The upstream's own status.")
    server_timing: str = Field(alias="Server-Timing", description="Durations in milliseconds.")
    cache: Literal["hit", "miss", "revalidated", "bypass", "stale"] = Field(
        alias="X-Cache", description="For tools whose responses are cached: where this one comes from."
    )
    masked: Literal["body", "headers", "body, headers"] = Field(
        alias="X-Masked",
        description="The parts of the response that contained a secret that the gateway had sent with the "
        "call; `***` replaces it.",
    )
    age: int = Field(alias="Age", description="Seconds since a cached response was made.")
    preference_applied: str = Field(
        alias="Preference-Applied",
        description="Those of the client's preferences (`Prefer`) with which the response was made.",
        examples=["decode-response, validate-response"],
    )
    violations: str = Field(
        alias="X-Response-Violations",
        description="For validated responses: how many values do not fit the output schema of the tool, and "
        "where the first of them are, as URI fragments. A member that the schema does not name is `*`. "
        "`more` says that there may be further ones.",
        examples=['count=2, at=("#/items/0/price" "#/id")'],
    )
    repairs: str = Field(
        alias="X-Argument-Repairs",
        description="The arguments that were repaired before the call, as URI fragments, and how: `type`, "
        "`list`, `json`, `name`, `enum`, `date`, `null` or `clamp`.",
        examples=['"#/limit";kind=type'],
    )
    continuation: str = Field(
        alias="X-Continuation",
        description="The handle by which the rest of a result that was cut is read, at "
        "`GET /continuations/{handle}`.",
        examples=["c_AbCdEfGhJkMnPqRsTuVwXy"],
    )
    pages: str = Field(
        alias="X-Pages",
        description="For tools with `response_options.all_pages`: how many pages were read, and `more` where "
        "there are others.",
        examples=["3;more"],
    )
    source: Literal["recording", "mock"] = Field(
        alias="X-Call-Source",
        description="What the response came from where it is not the upstream, which got no request.",
    )
    recording: str = Field(
        alias="X-Recording",
        description="Of a call that is recorded: `stored`, or why its response is not: `full`, `too-large`, "
        "`unreadable`, `unavailable`. A response that is passed on as it arrives does not have it.",
        examples=["stored"],
    )
    recording_warning: Literal["definition-changed"] = Field(
        alias="X-Recording-Warning",
        description="The tool has another definition than when the replayed response was recorded.",
    )
    notes: str = Field(
        alias="X-Result-Notes",
        description="Sentences about a result that was cut, or has not all of the fields.",
        examples=['"The result was cut: it has the first 20 of 100 items."'],
    )
    replayed: Literal["true"] = Field(
        alias="Idempotency-Replayed",
        description="The response is that of an earlier call with this Idempotency-Key.",
    )


class ApprovalHeaders(BaseModel):
    """The headers of a response with 202, beside `Location`."""

    retry_after: int = Field(
        alias="Retry-After", ge=1, description="Whole seconds until reading the approval's state makes sense."
    )
    call_id: UUID = Field(alias="X-Call-Id", description="The id of this request's record.")


class RateLimitedHeaders(RateLimitHeaders[int]):
    """The headers of a response with 429."""

    retry_after: int = Field(alias="Retry-After", ge=1, description="Whole seconds until a call is admitted.")


class CallArguments(RootModel[dict[str, Any]]):
    """The arguments of the tool by the names of its inputs; `inputs` of the tool describes their values."""


class JsonResult(RootModel[Any]):
    """The upstream's JSON; text as a string, an empty response as null."""


class EventStreamBody(RootModel[str]):
    """Server-sent events.

    An upstream's own events have their names and ids; JSON (a line, or the whole response) is `data` of an
    event without a name; text is `gateway-text` (a JSON string), the rest `gateway-bytes` (an object with
    `media_type` and `base64`). Comments are heartbeats. The last event is `gateway-end` (`call_id`,
    `upstream_status`, `events`, `bytes`, `duration_ms`) or `gateway-error` (a problem with the same); without
    one the response is incomplete. `masked` in it says that a secret was masked. An upstream's name that
    begins with `gateway-` gets the prefix `upstream-`.
    """

    root: str = Field(
        examples=[
            (
                'event: price\nid: 7\ndata: {"gold": 41}\n\n: heartbeat\n\n'
                'event: gateway-end\ndata: {"call_id":"...","upstream_status":200,"events":1,"bytes":12}\n\n'
            )
        ]
    )


class JsonLinesBody(RootModel[str]):
    """One JSON value a line; also as `application/jsonl`.

    JSON of the upstream is unchanged; its server-sent events are objects of `event`, `id`, `retry` and
    `data`; text is a string; anything else has `media_type` and `base64`. Empty lines are heartbeats. The
    last line is `{"$gateway": {"end": ...}}` or `{"$gateway": {"error": ...}}` with the members of the last
    server-sent event; without one the response is incomplete. An upstream's object with the member `$gateway`
    is wrapped: `{"$upstream": ...}`.
    """

    root: str = Field(
        examples=[
            (
                '{"event":"price","id":"7","data":{"gold":41}}\n\n'
                '{"$gateway":{"end":{"call_id":"...","upstream_status":200,"events":1,"bytes":12}}}\n'
            )
        ]
    )


def call_components() -> dict[str, dict[str, Any]]:
    """Return the component schemas that the operation refers to, besides Problem, by name."""
    models = {model.__name__: _schema(model) for model in _COMPONENTS}
    return models | {_WAITING: _WAITING_SCHEMA, ENVELOPE_SCHEMA["title"]: ENVELOPE_SCHEMA}


def toolset_call_operation() -> dict[str, Any]:
    """Return the operation of a call in a toolset: that of a call, but for name, path and description."""
    others = [one for one in call_operation()["parameters"] if one["in"] != "path"]
    return call_operation() | {
        "operationId": TOOLSET_OPERATION_ID,
        "summary": "Call a tool of a toolset with arguments, and return the upstream's response",
        "description": _TOOLSET_DESCRIPTION,
        "tags": ["toolsets"],
        "parameters": [*_parameters(ToolsetCallPathParameters, "path"), *others],
    }


def call_operation() -> dict[str, Any]:
    """Return the operation as an OpenAPI 3.1 Operation Object; it refers to `call_components` and Problem."""
    return {
        "operationId": OPERATION_ID,
        "summary": "Call a tool with arguments, and return the upstream's response",
        "description": _DESCRIPTION,
        "tags": ["tools"],
        "security": [{"apiKey": []}],
        "parameters": [
            *_parameters(CallPathParameters, "path"),
            *_parameters(CallQueryParameters, "query"),
            *_parameters(CallRequestHeaders, "header"),
        ],
        "requestBody": {
            "required": False,
            "content": {
                "application/json": {
                    "schema": _reference(CallArguments),
                    "examples": {"search": {"summary": "Of the sample API", "value": {"q": "history"}}},
                }
            },
        },
        "responses": {
            "200": {
                "description": "The upstream's response, or with `dry_run` the request that would be sent.",
                "headers": _headers(CallResponseHeaders),
                "content": {
                    "application/json": {"schema": _reference(JsonResult)},
                    "text/event-stream": {"schema": _reference(EventStreamBody)},
                    "application/x-ndjson": {"schema": _reference(JsonLinesBody)},
                    MEDIA_TYPE: {"schema": ENVELOPE_REFERENCE},
                    "*/*": {"schema": {}},
                },
            },
            "202": {
                "description": "The tool requires approval: the call waits for it, and was not made.",
                "headers": {**location_header("Path of the approval."), **_headers(ApprovalHeaders)},
                "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{_WAITING}"}}},
            },
            **{str(status): response for status, response in problem_responses(*_ERROR_STATUSES).items()},
            "429": {**problem_responses(429)[429], "headers": _headers(RateLimitedHeaders)},
            **{
                str(status): _problem(f"The upstream rejected the request: {HTTPStatus(status).phrase}")
                for status in _UPSTREAM_STATUSES
            },
            "default": _problem(
                "The upstream rejected the request with another client error; its status is passed on"
            ),
        },
    }


_COMPONENTS: Final[tuple[type[BaseModel], ...]] = (CallArguments, JsonResult, EventStreamBody, JsonLinesBody)
_WAITING: Final = "WaitingForApproval"
_WAITING_SCHEMA: Final[dict[str, Any]] = {
    "title": _WAITING,
    "description": "The response to the call of a tool that requires approval.",
    "type": "object",
    "properties": {"approval": {"$ref": "#/components/schemas/ApprovalSummary"}},
    "required": ["approval"],
}


def _problem(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {"application/problem+json": {"schema": _reference(Problem)}},
    }


def _reference(model: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(by_alias=True)


def _parameters(model: type[BaseModel], location: Literal["path", "query", "header"]) -> list[dict[str, Any]]:
    """Return the fields of a model as Parameter Objects; a field with a default is optional."""
    schema = _schema(model)
    required = schema.get("required", ())
    return [
        {"name": name, "in": location, "required": name in required, **_described(field)}
        for name, field in schema["properties"].items()
    ]


def _headers(model: type[BaseModel]) -> dict[str, Any]:
    """Return the fields of a model as Header Objects; none of them is in every response."""
    return {name: _described(field) for name, field in _schema(model)["properties"].items()}


def _described(field: dict[str, Any]) -> dict[str, Any]:
    schema = {key: value for key, value in field.items() if key != "title"}
    if schema.get("default") == "":
        del schema["default"]
    return {"description": schema.pop("description"), "schema": schema}
