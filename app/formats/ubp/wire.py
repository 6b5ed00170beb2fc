"""Messages of UBP as protocol buffers (`proto/ubp/v1`)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.unknown_fields import UnknownFieldSet

from app.core.errors import BadRequest, FieldError, InvalidInput
from app.formats.ubp.model import (
    REPLY_TO,
    Command,
    CommandResult,
    Event,
    Message,
    Payload,
    Status,
    WirePayload,
    build_identified_message,
)
from app.formats.ubp.v1 import core_pb2
from app.formats.ubp.values import to_wire

_LENGTH_DELIMITED: Final = 2
_PAYLOADS: Final = {
    "command_request": core_pb2.CommandRequest,
    "command_response": core_pb2.CommandResponse,
    "event": core_pb2.Event,
}
_ENTRY: Final = core_pb2.Event.MetadataEntry


def decode_message(data: bytes) -> Message:
    """Return a serialised `UbpMessage`.

    Raise BadRequest for bytes that are none, and InvalidInput for a time that is none.
    """
    try:
        decoded = core_pb2.UbpMessage.FromString(data)
    except (DecodeError, RecursionError):
        raise BadRequest("The message is no ubp.v1.UbpMessage.") from None
    return from_proto(decoded)


def identify_message(data: bytes) -> Message | None:
    """Return the ids of a malformed message, as a message with nothing but them; None where there is no
    `command_id` of a command, a response or an event, and for bytes that are no fields at all.

    The fields are read without their types: one text that is no UTF-8 makes a message unreadable otherwise.
    """
    try:
        members = _read_fields(data, core_pb2.UbpMessage)
        metadata = [_read_fields(entry, _ENTRY) for entry in members.get("metadata", ())]
        reply_to = [one["value"][-1].decode() for one in metadata if one.get("key") == [REPLY_TO.encode()]]
        message_id = members.get("message_id", [b""])[-1].decode()
        for kind, of_kind in _PAYLOADS.items():
            if kind not in members:
                continue
            payload = _read_fields(members[kind][-1], of_kind)
            entries = (
                [_read_fields(entry, _ENTRY) for entry in payload.get("metadata", ())]
                if kind == "event"
                else []
            )
            named = [one["value"] for one in entries if one.get("key") == [b"command_id"]]
            command_id = (named[-1] if named else payload.get("command_id", [b""]))[-1].decode()
            if command_id:
                last = reply_to[-1] if reply_to else None
                return build_identified_message(kind, command_id, message_id=message_id, reply_to=last)
    except (DecodeError, UnicodeDecodeError, KeyError):
        return None
    return None


def encode_message(message: Message) -> bytes:
    """Return a message as a serialised `UbpMessage`; raise InvalidInput for a payload without such a form."""
    data: bytes = to_proto(message).SerializeToString()
    return data


def from_proto(decoded: core_pb2.UbpMessage) -> Message:
    """Return the message of the generated class; raise InvalidInput for a time that is none."""
    kind = decoded.WhichOneof("payload")
    payload: Command | CommandResult | Event | None = None
    if kind == "command_request":
        request = decoded.command_request
        arguments = _read_payload(request.arguments) if request.HasField("arguments") else None
        payload = Command(request.command_id, request.command_name, arguments, dict(request.metadata))
    elif kind == "command_response":
        response = decoded.command_response
        result = _read_payload(response.result) if response.HasField("result") else None
        status = Status.of(int(response.status))
        payload = CommandResult(response.command_id, status, result, response.error, dict(response.metadata))
    elif kind == "event":
        event = decoded.event
        content = _read_payload(event.payload) if event.HasField("payload") else None
        payload = Event(event.event_name, content, dict(event.metadata))
    return Message(decoded.message_id, payload, dict(decoded.metadata), _read_seconds(decoded))


def to_proto(message: Message) -> core_pb2.UbpMessage:
    """Return a message as the generated class; raise InvalidInput for a payload without such a form."""
    encoded = core_pb2.UbpMessage(message_id=message.message_id, metadata=dict(message.metadata))
    if message.sent_at is not None:
        encoded.sent_at.CopyFrom(_write_timestamp(message.sent_at))
    payload = message.payload
    if isinstance(payload, Command):
        request = encoded.command_request
        request.command_id, request.command_name = payload.command_id, payload.command_name
        _set(request.arguments, payload.arguments, "/command_request/arguments")
        _update(request.metadata, payload.metadata)
    elif isinstance(payload, CommandResult):
        response = encoded.command_response
        response.command_id, response.status = payload.command_id, int(payload.status)  # type: ignore[assignment]
        response.error = payload.error
        _set(response.result, payload.result, "/command_response/result")
        _update(response.metadata, payload.metadata)
    elif payload is not None:
        encoded.event.event_name = payload.event_name
        _set(encoded.event.payload, payload.payload, "/event/payload")
        _update(encoded.event.metadata, payload.metadata)
    return encoded


def _read_fields(data: bytes, kind: Any) -> dict[str, list[bytes]]:
    """Return the texts, bytes and messages in a serialised message, by the names of its fields."""
    names = {field.number: field.name for field in kind.DESCRIPTOR.fields}
    fields: dict[str, list[bytes]] = {}
    for field in UnknownFieldSet(Empty.FromString(data)):
        if field.wire_type == _LENGTH_DELIMITED and field.field_number in names:
            fields.setdefault(names[field.field_number], []).append(field.data)
    return fields


def _read_payload(encoded: AnyMessage) -> WirePayload:
    return WirePayload(encoded.type_url, encoded.value)


def _set(field: AnyMessage, payload: Payload | None, location: str) -> None:
    if payload is not None:
        wire = to_wire(payload, location=location)
        field.type_url, field.value = wire.type_url, wire.value


def _update(field: "Mapping[str, str]", metadata: Mapping[str, str]) -> None:
    field.update(metadata)  # type: ignore[attr-defined]


def _read_seconds(decoded: core_pb2.UbpMessage) -> float | None:
    try:
        return decoded.sent_at.ToMicroseconds() / 1e6 if decoded.HasField("sent_at") else None
    except ValueError:
        problem = FieldError("/sentAt", "This must be a time from the year 1 to 9999.")
        raise InvalidInput("The message is not valid.", errors=[problem]) from None


def _write_timestamp(seconds: float) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(datetime.fromtimestamp(seconds, UTC))
    return timestamp
