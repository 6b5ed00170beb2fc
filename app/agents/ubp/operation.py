"""`POST /ubp/commands` as an OpenAPI 3.1 operation: it is plain Starlette, and reads no models."""

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from app.core.schemas import problem_responses
from app.formats.ubp.json_form import MAX_METADATA
from app.formats.ubp.model import Status

OPERATION_ID: Final = "runCommand"
_ERROR_STATUSES: Final = (400, 401, 403, 413, 415, 422, 503)
_DESCRIPTION: Final = """\
Execute one command of the Universal Bot Protocol, a `ubp.v1.CommandRequest` in the JSON form of Protocol
Buffers, for agents that keep no connection to `/ubp`. Names are those of tools, those of commands that a
connected executor has registered, and the reserved `agent.list_tools` and `agent.ping`.

The response is the `ubp.v1.CommandResponse`. Its HTTP status is 200 whatever the status of the command is: a
tool that is unknown, arguments that are not valid, time-outs and errors of an executor are statuses of the
command, with a problem as the result.

Access, rate limits, masking and records are those of the call route. `metadata` may have `timeout_ms`, the
milliseconds that the sender waits, and `traceparent`. With `Idempotency-Key`, a command that is sent again is
not executed a second time."""


class _ProtoModel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)


class UbpCommandRequest(_ProtoModel):
    """`ubp.v1.CommandRequest`. As in all JSON of proto3, null stands for a member that is omitted, and names
    may be written as in the .proto file.
    """

    model_config = ConfigDict(extra="forbid")

    command_id: str | None = Field("", description="Chosen by the sender; the response repeats it.")
    command_name: str | None = Field("", description="The name of a tool or of a command.")
    arguments: dict[str, Any] | None = Field(
        None,
        description="A `google.protobuf.Any`: an object with `@type`, a text. Without `@type`, the arguments "
        "themselves.",
        json_schema_extra={"properties": {"@type": {"type": "string"}}},
    )
    metadata: dict[str, str] | None = Field(
        None, max_length=MAX_METADATA, description="`timeout_ms`, `traceparent`, `tracestate`, and others."
    )


class UbpCommandResponse(_ProtoModel):
    """`ubp.v1.CommandResponse`."""

    command_id: str = Field("", description="That of the command.")
    status: str = Field(
        Status.STATUS_UNSPECIFIED.name,
        description="What became of the command.",
        json_schema_extra={"enum": [status.name for status in Status]},
    )
    result: dict[str, Any] | None = Field(
        None, description="A `google.protobuf.Any`; of a command that failed, its problem as a Struct."
    )
    error: str = Field("", description="Why the command failed, in words.")
    metadata: dict[str, str] = Field(
        default_factory=dict,
        description="`call_id`, the id of the recorded call; `media_type` of a result that consists of "
        "bytes; and what the executor has given.",
    )


_COMPONENTS: Final[tuple[type[BaseModel], ...]] = (UbpCommandRequest, UbpCommandResponse)


def command_components() -> dict[str, dict[str, Any]]:
    """Return the component schemas that the operation refers to, besides Problem, by name."""
    return {model.__name__: model.model_json_schema() for model in _COMPONENTS}


def command_operation() -> dict[str, Any]:
    """Return the operation of `/ubp/commands` as an OpenAPI 3.1 Operation Object."""
    return {
        "operationId": OPERATION_ID,
        "summary": "Execute a command of UBP",
        "description": _DESCRIPTION,
        "tags": ["executors"],
        "security": [{"apiKey": []}],
        "parameters": [
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "description": "Sending the same command again with the same key does not execute it again.",
                "schema": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 255,
                    "pattern": "^[!#-~][!-~]*$",
                },
            }
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _reference(UbpCommandRequest)}},
        },
        "responses": {
            "200": {
                "description": "The command's response, whatever its status.",
                "content": {"application/json": {"schema": _reference(UbpCommandResponse)}},
            },
            **{str(status): response for status, response in problem_responses(*_ERROR_STATUSES).items()},
        },
    }


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}
