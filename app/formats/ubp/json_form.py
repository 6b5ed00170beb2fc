"""Messages of UBP as JSON: the mapping of proto3 (https://protobuf.dev/programming-guides/json/).

Names are written in lowerCamelCase; those of the .proto files are read, too. Numbers keep their digits. A
payload may be written without `@type`: then it is a Struct.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from app.core.errors import BadRequest, FieldError, InvalidInput
from app.core.exact_json import dumps, load_exactly
from app.core.text import describe_json_error, pointer
from app.formats.ubp.model import (
    REPLY_TO,
    Command,
    CommandResult,
    Event,
    JsonPayload,
    Message,
    Payload,
    Status,
    build_identified_message,
)
from app.formats.ubp.values import to_json

MAX_METADATA: Final = 64
"""Members of the metadata of a message or of its payload."""


def decode_message(text: bytes) -> Message:
    """Return the message of JSON text.

    Raise BadRequest for what is no JSON, and InvalidInput with the pointer to what is wrong.
    """
    return read_message(_parse_json(text, "The message"))


def decode_command(text: bytes) -> Command:
    """Return the `CommandRequest` of JSON text; raise what `decode_message` raises."""
    return read_command(_parse_json(text, "The command"))


def identify_message(text: bytes) -> Message | None:
    """Return the ids of a malformed message of JSON text, as a message with nothing but them.

    None where there is no `command_id` of a command, a response or an event, and for what is no JSON.
    """
    try:
        value = load_exactly(text)
    except (ValueError, RecursionError):
        return None
    message_id = _get_member(value, "message_id")
    reply_to = _get_member(_get_member(value, "metadata"), REPLY_TO)
    for name in _READERS:
        payload = _get_member(value, name)
        named = _get_member(payload, "metadata") if name == "event" else payload
        command_id = _get_member(named, "command_id")
        if isinstance(command_id, str) and command_id:
            return build_identified_message(
                name,
                command_id,
                message_id=message_id if isinstance(message_id, str) else "",
                reply_to=reply_to if isinstance(reply_to, str) else None,
            )
    return None


def encode_message(message: Message) -> bytes:
    """Return a message as JSON text; raise InvalidInput for a payload that is malformed or too deep."""
    return write_json(convert_message(message))


def write_json(value: Mapping[str, Any]) -> bytes:
    """Return a JSON value of this module as text; raise InvalidInput for one of too many levels."""
    try:
        return dumps(value)
    except orjson.JSONEncodeError:
        # Fewer levels are written than read.
        raise _reject_message("", "This has too many levels.") from None


def read_message(value: Any) -> Message:
    """Return the message of a parsed JSON value; raise InvalidInput with the pointer to what is wrong."""
    members = _read_members(value, "", _ENVELOPE)
    kinds = [kind for kind in _READERS if kind in members]
    if len(kinds) > 1:
        raise _reject_message(
            pointer("", kinds[1]), "A message has one of a command, a response and an event."
        )
    payload: Command | CommandResult | Event | None = None
    if kinds:
        payload = _READERS[kinds[0]](members[kinds[0]], pointer("", _convert_to_camel(kinds[0])))
    return Message(
        _read_text(members, "message_id", ""),
        payload,
        _read_metadata(members, ""),
        _read_time(members.get("sent_at")),
    )


def read_command(value: Any, location: str = "") -> Command:
    """Return a parsed `CommandRequest`; raise InvalidInput with a pointer below `location`."""
    members = _read_members(value, location, ("command_id", "command_name", "arguments", "metadata"))
    return Command(
        _read_text(members, "command_id", location),
        _read_text(members, "command_name", location),
        _read_payload(members, "arguments", location),
        _read_metadata(members, location),
    )


def result_of(value: Any, location: str = "") -> CommandResult:
    """Return a parsed `CommandResponse`; raise InvalidInput with a pointer below `location`."""
    members = _read_members(value, location, ("command_id", "status", "result", "error", "metadata"))
    return CommandResult(
        _read_text(members, "command_id", location),
        _read_status(members.get("status", 0), pointer(location, "status")),
        _read_payload(members, "result", location),
        _read_text(members, "error", location),
        _read_metadata(members, location),
    )


def convert_message(message: Message) -> dict[str, Any]:
    """Return a message as a JSON value; raise InvalidInput for a payload that is malformed."""
    members: dict[str, Any] = {"messageId": message.message_id}
    if message.sent_at is not None:
        moment = datetime.fromtimestamp(message.sent_at, UTC)
        members["sentAt"] = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    payload = message.payload
    if isinstance(payload, Command):
        members["commandRequest"] = convert_command(payload)
    elif isinstance(payload, CommandResult):
        members["commandResponse"] = result_json(payload)
    elif payload is not None:
        members["event"] = _drop_empty(
            eventName=payload.event_name,
            payload=_convert_payload(payload.payload),
            metadata=dict(payload.metadata),
        )
    return members | _drop_empty(metadata=dict(message.metadata))


def convert_command(command: Command) -> dict[str, Any]:
    """Return a `CommandRequest` as a JSON value."""
    return _drop_empty(
        commandId=command.command_id,
        commandName=command.command_name,
        arguments=_convert_payload(command.arguments),
        metadata=dict(command.metadata),
    )


def result_json(result: CommandResult) -> dict[str, Any]:
    """Return a `CommandResponse` as a JSON value; the status is its name."""
    return _drop_empty(
        commandId=result.command_id,
        status=result.status.name,
        result=_convert_payload(result.result),
        error=result.error,
        metadata=dict(result.metadata),
    )


def _parse_json(text: bytes, subject: str) -> Any:
    try:
        return load_exactly(text)
    except (ValueError, RecursionError) as error:
        raise BadRequest(describe_json_error(subject, text, getattr(error, "pos", 0))) from None


def _get_member(value: Any, name: str) -> Any:
    """Return a member by either of its names; None where there is none."""
    return value.get(name, value.get(_convert_to_camel(name))) if isinstance(value, Mapping) else None


def _convert_to_camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _read_members(value: Any, location: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the members that have a value, by the names of the .proto file."""
    if not isinstance(value, Mapping):
        raise _reject_message(location, "This must be an object.")
    known = {spelling: name for name in names for spelling in (name, _convert_to_camel(name))}
    members: dict[str, Any] = {}
    for spelling, member in value.items():
        name = known.get(spelling)
        if name is None:
            raise _reject_message(pointer(location, spelling), "There is no such member.")
        if name in members:
            raise _reject_message(pointer(location, spelling), "This member is given twice.")
        if member is not None:
            members[name] = member
    return members


def _read_text(members: Mapping[str, Any], name: str, location: str) -> str:
    value = members.get(name, "")
    if not isinstance(value, str):
        raise _reject_message(pointer(location, _convert_to_camel(name)), "This must be a text.")
    return value


def _read_metadata(members: Mapping[str, Any], at: str) -> dict[str, str]:
    at = pointer(at, "metadata")
    value = members.get("metadata", {})
    if not isinstance(value, dict) or len(value) > MAX_METADATA:
        raise _reject_message(at, f"This must be an object of at most {MAX_METADATA} texts.")
    for name, member in value.items():
        if not isinstance(member, str):
            raise _reject_message(pointer(at, name), "This must be a text.")
    return value


def _read_payload(members: Mapping[str, Any], name: str, location: str) -> Payload | None:
    value = members.get(name)
    if value is None:
        return None
    if not isinstance(value, Mapping) or not isinstance(value.get("@type", ""), str):
        raise _reject_message(pointer(location, name), "This must be an object, with a type URL in `@type`.")
    return JsonPayload(value)


def _read_status(value: Any, location: str) -> Status:
    """Return a status by name or number; one of a later version is ERROR."""
    if isinstance(value, str):
        return Status.__members__.get(value, Status.ERROR)
    if isinstance(value, int) and not isinstance(value, bool):
        return Status.of(value)
    raise _reject_message(location, "This must be the name of a status.")


def _read_time(value: Any) -> float | None:
    if value is None:
        return None
    try:
        return datetime.fromisoformat(value).astimezone(UTC).timestamp()
    except (TypeError, ValueError, OverflowError):
        raise _reject_message("/sentAt", "This must be a time by RFC 3339.") from None


def _read_event(value: Any, location: str) -> Event:
    members = _read_members(value, location, ("event_name", "payload", "metadata"))
    return Event(
        _read_text(members, "event_name", location),
        _read_payload(members, "payload", location),
        _read_metadata(members, location),
    )


def _convert_payload(payload: Payload | None) -> Mapping[str, Any] | None:
    return None if payload is None else to_json(payload).members


def _drop_empty(**members: Any) -> dict[str, Any]:
    """Return the members that have a value: proto3 leaves out what is empty."""
    return {name: value for name, value in members.items() if value not in (None, "", {})}


def _reject_message(location: str, detail: str) -> InvalidInput:
    return InvalidInput("The message is not valid.", errors=[FieldError(location, detail)])


_READERS: Final[Mapping[str, Callable[[Any, str], Command | CommandResult | Event]]] = {
    "command_request": read_command,
    "command_response": result_of,
    "event": _read_event,
}
"""What reads each member of the oneof `payload`."""
_ENVELOPE: Final = ("message_id", "sent_at", *_READERS, "metadata")
