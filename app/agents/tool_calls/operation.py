"""The routes for tool calls as OpenAPI 3.1 operations: they are plain Starlette, and read no models."""

import json
from typing import Any, Final

from pydantic import BaseModel, Field, RootModel

from app.agents.tool_calls.examples import REQUEST_EXAMPLES, RESPONSE_EXAMPLES
from app.agents.tool_calls.model import DEFAULT_MAX_BYTES
from app.agents.tool_calls.query import DIALECTS, LEAST_MAX_BYTES, MOST_MAX_BYTES
from app.calls.options import RUN_PATTERN
from app.core.schemas import problem_responses

_ERROR_STATUSES: Final = (400, 401, 403, 413, 415, 422, 503)
_DESCRIPTION: Final = """\
Run the tool calls of a model. The body is what the model responded, in the form of its provider or library:
the whole response, the assistant message, a list of its blocks or calls, or one call. `messages` of the
response are the results in the same form, ready to be appended to the conversation after the model's own
message.

Each call id is answered exactly once, in the order of the calls, which run side by side. Whatever goes
wrong with one call is its result: unknown tools (with the nearest names), arguments that are not JSON or
not valid (with pointers), time-outs, errors of the upstream, missing credentials, and calls that wait for
approval. Calls in an output that was cut (`length`, `max_tokens`) are not made. Of identical calls, a read-
only tool runs once and answers all; of others the first runs, and the rest are skipped with a text that
says so.

Arguments that are not JSON are repaired where only one reading is possible: see `repairs`. A result that is
larger than the budget is cut, and says how to get the rest. Access, rate limits, masking and records are
those of the call route. With `Idempotency-Key` each call gets a key made of it and of the call's id."""


class ToolCallsBody(RootModel[dict[str, Any] | list[Any] | str]):
    """What a model responded: a response, a message, blocks or calls in one of the dialects."""


class ToolCallResult(BaseModel):
    """What became of one call, whatever the dialect."""

    id: str | int = Field(description="The id of the call, or one made up where its dialect has none.")
    name: str = Field(description="The name that the model called.")
    tool: str | None = Field(description="The canonical name of the tool; null where there is none.")
    position: str = Field(description="JSON pointer to the call in the request.")
    is_error: bool
    repairs: list[str] = Field(description="What was repaired to read the arguments.")
    notes: list[str] = Field(description="Repairs of values, cuts, and how to get the rest.")
    continuation: str | None = Field(description="The handle by which the rest of a cut result is read.")
    call_id: str | None = Field(description="The id of the call's record; null where no call was made.")
    status: int | None = Field(description="The status that the call route would have responded with.")
    duplicate_of: str | int | None = Field(
        None, description="The id of the identical call in the same message that was made in place of this."
    )
    error: dict[str, Any] | None = Field(None, description="The members of the problem of a failed call.")
    retry_after: float | None = Field(None, description="Seconds after which the call may be repeated.")


class ToolCallsResponse(BaseModel):
    """The results of a model's calls, in its dialect and as a list."""

    format: str = Field(description="The dialect of the request and of `messages`.")
    messages: list[Any] = Field(description="Append these to the conversation, after the model's message.")
    results: list[ToolCallResult]
    cut: str | None = Field(description="Why the model's output was cut; null where it was not.")


_RESPONSE: Final = RESPONSE_EXAMPLES["openai-chat"]["value"]
_RESULT: Final = {**_RESPONSE["results"][0], "message": _RESPONSE["messages"][0]}
_EVENTS: Final = (
    f"event: result\ndata: {json.dumps(_RESULT, separators=(',', ':'))}\n\n"
    f"event: end\ndata: {json.dumps(_RESPONSE, separators=(',', ':'))}\n\n"
)
_LINES: Final = "".join(
    json.dumps(line, separators=(",", ":")) + "\n" for line in ({"result": _RESULT}, {"end": _RESPONSE})
)


_EVENT_TYPES: Final = (
    "Events of type `result`, for each call as soon as it has ended: an entry of `results` with its "
    "`message`; then `end` with the whole response, or `error` with a problem."
)


class ToolCallsLines(RootModel[str]):
    """Lines of JSON: objects with the member `result`, for each call as soon as it has ended: an entry of
    `results` with its `message`; then one with `end`, the whole response, or `error`, a problem.
    """

    root: str = Field(examples=[_LINES])


_COMPONENTS: Final[tuple[type[BaseModel], ...]] = (
    ToolCallsBody,
    ToolCallResult,
    ToolCallsResponse,
    ToolCallsLines,
)


def tool_calls_components() -> dict[str, dict[str, Any]]:
    """Return the component schemas that the operations refer to, besides Problem, by name."""
    found: dict[str, dict[str, Any]] = {}
    for model in _COMPONENTS:
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schema.pop("$defs", None)
        found[model.__name__] = schema
    return found


def tool_calls_operation(*, toolset: bool) -> dict[str, Any]:
    """Return the operation of `/tool-calls`, or of a toolset, as an OpenAPI 3.1 Operation Object."""
    name = {
        "name": "name",
        "in": "path",
        "required": True,
        "description": "Name of the toolset.",
        "schema": {"type": "string", "examples": ["reading"]},
    }
    statuses = sorted((*_ERROR_STATUSES, 404) if toolset else _ERROR_STATUSES)
    responses = problem_responses(*statuses)
    return {
        "operationId": "runToolsetToolCalls" if toolset else "runToolCalls",
        "summary": "Run a model's tool calls" + (" among the tools of a toolset" if toolset else ""),
        "description": _DESCRIPTION,
        "tags": ["tools"],
        "security": [{"apiKey": []}],
        "x-required-scopes": ["tools:call"],
        "parameters": [*([name] if toolset else []), *_QUERY, *_HEADERS],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": _reference(ToolCallsBody), "examples": REQUEST_EXAMPLES}
            },
        },
        "responses": {
            "200": {
                "description": "The results of all calls; none where the model has called no tool.",
                "content": {
                    "application/json": {
                        "schema": _reference(ToolCallsResponse),
                        "examples": RESPONSE_EXAMPLES,
                    },
                    "text/event-stream": {"schema": {"description": _EVENT_TYPES}, "example": _EVENTS},
                    "application/x-ndjson": {"schema": _reference(ToolCallsLines), "example": _LINES},
                },
            },
            **{str(status): response for status, response in responses.items()},
        },
    }


def _parameter(name: str, location: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": location, "required": False, "description": description, "schema": schema}


_QUERY: Final = [
    _parameter(
        "format",
        "query",
        "The dialect of the body. Default: the one that its shape tells.",
        {"type": "string", "enum": sorted(DIALECTS)},
    ),
    _parameter(
        "strict",
        "query",
        "The `strict` with which the tools were exported: what an export changed in names and arguments is "
        "undone.",
        {"type": "string", "enum": ["auto", "true", "false"], "default": "auto"},
    ),
    _parameter(
        "stream",
        "query",
        "Send each result as soon as it is there: as server-sent events, or as lines of JSON with "
        "`Accept: application/x-ndjson`.",
        {"type": "boolean", "default": False},
    ),
    _parameter(
        "assistant",
        "query",
        "Let `messages` begin with the model's own message, unchanged, where the body has a whole one.",
        {"type": "boolean", "default": False},
    ),
    _parameter(
        "max_bytes",
        "query",
        f"The budget of each result in bytes. Default: that of the toolset, else {DEFAULT_MAX_BYTES}.",
        {"type": "integer", "minimum": LEAST_MAX_BYTES, "maximum": MOST_MAX_BYTES},
    ),
    _parameter(
        "max_tokens",
        "query",
        "The budget of each result in tokens, in place of bytes.",
        {"type": "integer", "minimum": LEAST_MAX_BYTES // 4, "maximum": MOST_MAX_BYTES},
    ),
    _parameter(
        "fields",
        "query",
        "Only these parts of each JSON result, in their places: JSON pointers or JSONPaths, separated by "
        "blanks, as with `Prefer: fields` of a single call.",
        {"type": "string", "examples": ["/total $.items[*].id"]},
    ),
    _parameter(
        "result_format",
        "query",
        "The form of results that are tables: lists of objects, or objects with one such list.",
        {"type": "string", "enum": ["csv", "json", "markdown", "toon"]},
    ),
]
_HEADERS: Final = [
    _parameter(
        "X-Timeout-Ms",
        "header",
        "Deadline of all calls together, in milliseconds; calls that have not ended by then become errors.",
        {"type": "string", "pattern": "^0*[1-9][0-9]{0,8}$", "examples": ["20000"]},
    ),
    _parameter(
        "Prefer",
        "header",
        "`repair=off|safe|on` (RFC 7240): which repairs arguments get that are not valid.",
        {"type": "string", "examples": ["repair=safe"]},
    ),
    _parameter(
        "X-Recording-Run",
        "header",
        "Of calls that are replayed: the run that they belong to, any name.",
        {"type": "string", "pattern": RUN_PATTERN, "examples": ["ci-42"]},
    ),
    _parameter(
        "Idempotency-Key",
        "header",
        "Sending the same request again with the same key makes no call a second time.",
        {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!#-~][!-~]*$"},
    ),
]


def _reference(model: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}
