"""Messages of UBP as protocol buffers (`proto/ubp/v1`)."""

from collections.abc import Mapping
from datetime import UTC, datetime

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp

from app.errors import BadRequest, FieldError, InvalidInput
from app.ubp.model import Command, CommandResult, Event, Message, Payload, Status, WirePayload
from app.ubp.v1 import core_pb2
from app.ubp.values import to_wire


def decode_message(data: bytes) -> Message:
    """Return a serialised `UbpMessage`.

    Raise BadRequest for bytes that are none, and InvalidInput for a time that is none.
    """
    try:
        found = core_pb2.UbpMessage.FromString(data)
    except (DecodeError, RecursionError):
        raise BadRequest("The message is no ubp.v1.UbpMessage.") from None
    return from_proto(found)


def encode_message(message: Message) -> bytes:
    """Return a message as a serialised `UbpMessage`; raise InvalidInput for a payload without such a form."""
    data: bytes = to_proto(message).SerializeToString()
    return data


def from_proto(found: core_pb2.UbpMessage) -> Message:
    """Return the message of the generated class; raise InvalidInput for a time that is none."""
    kind = found.WhichOneof("payload")
    payload: Command | CommandResult | Event | None = None
    if kind == "command_request":
        request = found.command_request
        arguments = _payload(request.arguments) if request.HasField("arguments") else None
        payload = Command(request.command_id, request.command_name, arguments, dict(request.metadata))
    elif kind == "command_response":
        response = found.command_response
        result = _payload(response.result) if response.HasField("result") else None
        status = Status.of(int(response.status))
        payload = CommandResult(response.command_id, status, result, response.error, dict(response.metadata))
    elif kind == "event":
        event = found.event
        content = _payload(event.payload) if event.HasField("payload") else None
        payload = Event(event.event_name, content, dict(event.metadata))
    return Message(found.message_id, payload, dict(found.metadata), _seconds(found))


def to_proto(message: Message) -> core_pb2.UbpMessage:
    """Return a message as the generated class; raise InvalidInput for a payload without such a form."""
    found = core_pb2.UbpMessage(message_id=message.message_id, metadata=dict(message.metadata))
    if message.sent_at is not None:
        found.sent_at.CopyFrom(_timestamp(message.sent_at))
    payload = message.payload
    if isinstance(payload, Command):
        request = found.command_request
        request.command_id, request.command_name = payload.command_id, payload.command_name
        _set(request.arguments, payload.arguments, "/command_request/arguments")
        _update(request.metadata, payload.metadata)
    elif isinstance(payload, CommandResult):
        response = found.command_response
        response.command_id, response.status = payload.command_id, int(payload.status)  # type: ignore[assignment]
        response.error = payload.error
        _set(response.result, payload.result, "/command_response/result")
        _update(response.metadata, payload.metadata)
    elif payload is not None:
        found.event.event_name = payload.event_name
        _set(found.event.payload, payload.payload, "/event/payload")
        _update(found.event.metadata, payload.metadata)
    return found


def _payload(found: AnyMessage) -> WirePayload:
    return WirePayload(found.type_url, found.value)


def _set(field: AnyMessage, payload: Payload | None, at: str) -> None:
    if payload is not None:
        wire = to_wire(payload, at=at)
        field.type_url, field.value = wire.type_url, wire.value


def _update(field: "Mapping[str, str]", metadata: Mapping[str, str]) -> None:
    field.update(metadata)  # type: ignore[attr-defined]


def _seconds(found: core_pb2.UbpMessage) -> float | None:
    try:
        return found.sent_at.ToMicroseconds() / 1e6 if found.HasField("sent_at") else None
    except ValueError:
        problem = FieldError("/sentAt", "This must be a time from the year 1 to 9999.")
        raise InvalidInput("The message is not valid.", errors=[problem]) from None


def _timestamp(seconds: float) -> Timestamp:
    found = Timestamp()
    found.FromDatetime(datetime.fromtimestamp(seconds, UTC))
    return found
