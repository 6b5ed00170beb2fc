"""Messages of the Universal Bot Protocol (`ubp.v1`) in proto3's JSON mapping, as an executor needs them.

Source: https://protobuf.dev/programming-guides/json/. Names are written in lowerCamelCase; those of the
.proto files are read, too.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import uuid4

from utcp_gateway_client.tools import AnyTool, ToolCollection, ToolResult, TraceContext

Json = dict[str, Any]
Status = Literal["SUCCESS", "ERROR", "INVALID_ARGUMENT", "NOT_FOUND", "UNAVAILABLE", "CANCELLED"]

REPLY_TO: Final = "reply_to"
REGISTER_TOOLS: Final = "agent.register_tools"
DEREGISTER_TOOLS: Final = "agent.deregister_tools"
PING: Final = "agent.ping"
CANCEL: Final = "command.cancel"
PROGRESS: Final = "command.progress"

_TYPE: Final = "type.googleapis.com/"
_MAX_EXACT_INTEGER: Final = 2**53
_STATUSES: Final[Mapping[str, Status]] = {
    "invalid_arguments": "INVALID_ARGUMENT",
    "tool_error": "ERROR",
    "failed": "ERROR",
}


class MalformedMessage(ValueError):
    """A message that is no UbpMessage."""


@dataclass(frozen=True, slots=True)
class Command:
    """A CommandRequest in an envelope with `message_id`. `arguments` is the value of its payload.

    `trace` is that of the call, where the gateway traces, else that of the agent, where it has sent one.
    """

    message_id: str
    command_id: str
    name: str
    arguments: Any = field(default=None, repr=False)
    trace: TraceContext | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """A CommandResponse. `reply_to` is "" where the envelope does not say what it responds to."""

    reply_to: str
    command_id: str
    status: str
    result: Any = field(default=None, repr=False)
    error: str = ""


def read_message(text: str | bytes) -> Command | Response | None:
    """Return the command or response of a message, None for another; raise MalformedMessage."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise MalformedMessage("The message is not JSON.") from None
    if not isinstance(message, dict):
        raise MalformedMessage("The message is not an object.")
    command = _member(message, "commandRequest", "command_request", {})
    response = _member(message, "commandResponse", "command_response", {})
    if command:
        return Command(
            message_id=_text(message, "messageId", "message_id"),
            command_id=_text(command, "commandId", "command_id"),
            name=_text(command, "commandName", "command_name"),
            arguments=_payload_value(command.get("arguments")),
            trace=_trace(message) or _trace(command),
        )
    if response:
        metadata = _member(message, "metadata", "metadata", {})
        return Response(
            reply_to=_text(metadata, REPLY_TO, REPLY_TO),
            command_id=_text(response, "commandId", "command_id"),
            status=str(response.get("status", "STATUS_UNSPECIFIED")),
            result=_payload_value(response.get("result")),
            error=_text(response, "error", "error"),
        )
    return None


def request(name: str, arguments: Json | None = None, **metadata: str) -> tuple[str, str]:
    """Return a command of our own as text, and the id of its envelope, which is also its `command_id`."""
    message_id = uuid4().hex
    command: Json = {"commandId": message_id, "commandName": name}
    if arguments is not None:
        command["arguments"] = arguments
    if metadata:
        command["metadata"] = metadata
    return _envelope({"commandRequest": command}, message_id=message_id), message_id


def registration(tools: ToolCollection, *, executor: str, max_commands: int) -> tuple[str, str]:
    """Return the command that registers tools, of which the executor takes `max_commands` commands at
    once.
    """
    arguments = {
        "@type": f"{_TYPE}ubp.v1.RegisterToolsArguments",
        "tools": [_definition(each) for each in tools],
    }
    return request(
        REGISTER_TOOLS,
        arguments,
        role="executor",
        executor=executor,
        max_commands=str(max_commands),
        reply_to="true",
    )


def response(
    command: Command, status: Status, *, error: str = "", result: Json | None = None, warning: str = ""
) -> str:
    """Return the response to a command as text; `result` is a payload."""
    body: Json = {"commandId": command.command_id, "status": status}
    if result is not None:
        body["result"] = result
    if error:
        body["error"] = error
    if warning:
        body["metadata"] = {"warning": warning}
    return _envelope({"commandResponse": body}, reply_to=command.message_id)


def result_response(command: Command, result: ToolResult) -> str:
    """Return the response with what a tool has returned."""
    if result.error is not None:
        errors = [{"pointer": each.pointer, "detail": each.message} for each in result.errors]
        details = _payload("Value", {"errors": errors}) if errors else None
        return response(command, _STATUSES[result.error], error=result.message, result=details)
    if result.content is not None:
        return response(
            command, "SUCCESS", result=_payload("BytesValue", base64.b64encode(result.content).decode())
        )
    long: list[str] = []
    value = _sendable(json.loads(result.json), "", long)
    warning = f"Integers beyond 2^53 are sent as text: {', '.join(long[:20])}" if long else ""
    kind = "StringValue" if isinstance(value, str) and not long else "Value"
    return response(command, "SUCCESS", result=_payload(kind, value), warning=warning)


def progress(command: Command, value: Json) -> str:
    """Return the event with the progress of a command as text."""
    event = {
        "eventName": PROGRESS,
        "payload": _payload("Struct", value),
        "metadata": {"command_id": command.command_id},
    }
    return _envelope({"event": event}, reply_to=command.message_id)


def _envelope(payload: Json, *, message_id: str = "", reply_to: str = "") -> str:
    sent_at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    metadata = {"metadata": {REPLY_TO: reply_to}} if reply_to else {}
    return json.dumps({"messageId": message_id or uuid4().hex, "sentAt": sent_at, **payload, **metadata})


def _definition(tool: AnyTool) -> Json:
    """Return a ToolDefinition: flat parameters, and the whole schemas as text for readers who know the
    field.
    """
    schema = tool.argument_schema
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": [
            {
                "name": name,
                "type": _flat_type(each),
                "description": each.get("description", ""),
                "required": name in schema["required"],
                "jsonSchema": json.dumps(each),
            }
            for name, each in schema["properties"].items()
        ],
        "jsonSchema": json.dumps(schema),
    }


def _flat_type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, str):
        return kind
    values = schema.get("enum", [schema.get("const")])
    return "string" if all(isinstance(value, str) for value in values) else "object"


def _payload(kind: str, value: Any) -> Json:
    return {"@type": f"{_TYPE}google.protobuf.{kind}", "value": value}


def _payload_value(payload: Any) -> Any:
    """Return the JSON value of an Any: that of a well-known type is its `value`, others are their members."""
    if not isinstance(payload, dict):
        return payload
    if str(payload.get("@type", "")).startswith(f"{_TYPE}google.protobuf."):
        return payload.get("value")
    return {name: member for name, member in payload.items() if name != "@type"}


def _sendable(value: Any, at: str, long: list[str]) -> Any:
    """Return the value with integers that no double has as text; add their JSON pointers to `long`."""
    if isinstance(value, dict):
        return {
            name: _sendable(each, f"{at}/{name.replace('~', '~0').replace('/', '~1')}", long)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_sendable(each, f"{at}/{index}", long) for index, each in enumerate(value)]
    if type(value) is int and abs(value) > _MAX_EXACT_INTEGER:
        long.append(at)
        return str(value)
    return value


def _trace(members: Json) -> TraceContext | None:
    metadata = _member(members, "metadata", "metadata", {})
    traceparent = _text(metadata, "traceparent", "traceparent")
    return TraceContext(traceparent, _text(metadata, "tracestate", "tracestate")) if traceparent else None


def _member(members: Json, camel: str, snake: str, default: Json) -> Json:
    value = members.get(camel, members.get(snake))
    if value is None:
        return default
    if not isinstance(value, dict):
        raise MalformedMessage(f"{camel} is not an object.")
    return value


def _text(members: Json, camel: str, snake: str) -> str:
    value = members.get(camel, members.get(snake, ""))
    if not isinstance(value, str):
        raise MalformedMessage(f"{camel} is not a text.")
    return value
