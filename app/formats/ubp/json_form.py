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
    identified_message,
)
from app.formats.ubp.values import to_json

MAX_METADATA: Final = 64
"""Members of the metadata of a message or of its payload."""


def decode_message(text: bytes) -> Message:
    """Return the message of JSON text.

    Raise BadRequest for what is no JSON, and InvalidInput with the pointer to what is wrong.
    """
    return message_of(_parsed(text, "The message"))


def decode_command(text: bytes) -> Command:
    """Return the `CommandRequest` of JSON text; raise what `decode_message` raises."""
    return command_of(_parsed(text, "The command"))


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
            return identified_message(
                name,
                command_id,
                message_id=message_id if isinstance(message_id, str) else "",
                reply_to=reply_to if isinstance(reply_to, str) else None,
            )
    return None


def encode_message(message: Message) -> bytes:
    """Return a message as JSON text; raise InvalidInput for a payload that is malformed or too deep."""
    return json_text(json_of(message))


def json_text(value: Mapping[str, Any]) -> bytes:
    """Return a JSON value of this module as text; raise InvalidInput for one of too many levels."""
    try:
        return dumps(value)
    except orjson.JSONEncodeError:
        # Fewer levels are written than read.
        raise _invalid("", "This has too many levels.") from None


def message_of(value: Any) -> Message:
    """Return the message of a parsed JSON value; raise InvalidInput with the pointer to what is wrong."""
    members = _members(value, "", _ENVELOPE)
    kinds = [kind for kind in _READERS if kind in members]
    if len(kinds) > 1:
        raise _invalid(pointer("", kinds[1]), "A message has one of a command, a response and an event.")
    payload: Command | CommandResult | Event | None = None
    if kinds:
        payload = _READERS[kinds[0]](members[kinds[0]], pointer("", _camel(kinds[0])))
    return Message(
        _text(members, "message_id", ""), payload, _metadata(members, ""), _time(members.get("sent_at"))
    )


def command_of(value: Any, at: str = "") -> Command:
    """Return a parsed `CommandRequest`; raise InvalidInput with a pointer below `at`."""
    members = _members(value, at, ("command_id", "command_name", "arguments", "metadata"))
    return Command(
        _text(members, "command_id", at),
        _text(members, "command_name", at),
        _payload(members, "arguments", at),
        _metadata(members, at),
    )


def result_of(value: Any, at: str = "") -> CommandResult:
    """Return a parsed `CommandResponse`; raise InvalidInput with a pointer below `at`."""
    members = _members(value, at, ("command_id", "status", "result", "error", "metadata"))
    return CommandResult(
        _text(members, "command_id", at),
        _status(members.get("status", 0), pointer(at, "status")),
        _payload(members, "result", at),
        _text(members, "error", at),
        _metadata(members, at),
    )


def json_of(message: Message) -> dict[str, Any]:
    """Return a message as a JSON value; raise InvalidInput for a payload that is malformed."""
    found: dict[str, Any] = {"messageId": message.message_id}
    if message.sent_at is not None:
        moment = datetime.fromtimestamp(message.sent_at, UTC)
        found["sentAt"] = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    payload = message.payload
    if isinstance(payload, Command):
        found["commandRequest"] = command_json(payload)
    elif isinstance(payload, CommandResult):
        found["commandResponse"] = result_json(payload)
    elif payload is not None:
        found["event"] = _filled(
            eventName=payload.event_name,
            payload=_payload_json(payload.payload),
            metadata=dict(payload.metadata),
        )
    return found | _filled(metadata=dict(message.metadata))


def command_json(command: Command) -> dict[str, Any]:
    """Return a `CommandRequest` as a JSON value."""
    return _filled(
        commandId=command.command_id,
        commandName=command.command_name,
        arguments=_payload_json(command.arguments),
        metadata=dict(command.metadata),
    )


def result_json(result: CommandResult) -> dict[str, Any]:
    """Return a `CommandResponse` as a JSON value; the status is its name."""
    return _filled(
        commandId=result.command_id,
        status=result.status.name,
        result=_payload_json(result.result),
        error=result.error,
        metadata=dict(result.metadata),
    )


def _parsed(text: bytes, subject: str) -> Any:
    try:
        return load_exactly(text)
    except (ValueError, RecursionError) as error:
        raise BadRequest(describe_json_error(subject, text, getattr(error, "pos", 0))) from None


def _get_member(value: Any, name: str) -> Any:
    """Return a member by either of its names; None where there is none."""
    return value.get(name, value.get(_camel(name))) if isinstance(value, Mapping) else None


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _members(value: Any, at: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the members that have a value, by the names of the .proto file."""
    if not isinstance(value, Mapping):
        raise _invalid(at, "This must be an object.")
    known = {spelling: name for name in names for spelling in (name, _camel(name))}
    found: dict[str, Any] = {}
    for spelling, member in value.items():
        name = known.get(spelling)
        if name is None:
            raise _invalid(pointer(at, spelling), "There is no such member.")
        if name in found:
            raise _invalid(pointer(at, spelling), "This member is given twice.")
        if member is not None:
            found[name] = member
    return found


def _text(members: Mapping[str, Any], name: str, at: str) -> str:
    value = members.get(name, "")
    if not isinstance(value, str):
        raise _invalid(pointer(at, _camel(name)), "This must be a text.")
    return value


def _metadata(members: Mapping[str, Any], at: str) -> dict[str, str]:
    at = pointer(at, "metadata")
    value = members.get("metadata", {})
    if not isinstance(value, dict) or len(value) > MAX_METADATA:
        raise _invalid(at, f"This must be an object of at most {MAX_METADATA} texts.")
    for name, member in value.items():
        if not isinstance(member, str):
            raise _invalid(pointer(at, name), "This must be a text.")
    return value


def _payload(members: Mapping[str, Any], name: str, at: str) -> Payload | None:
    value = members.get(name)
    if value is None:
        return None
    if not isinstance(value, Mapping) or not isinstance(value.get("@type", ""), str):
        raise _invalid(pointer(at, name), "This must be an object, with a type URL in `@type`.")
    return JsonPayload(value)


def _status(value: Any, at: str) -> Status:
    """Return a status by name or number; one of a later version is ERROR."""
    if isinstance(value, str):
        return Status.__members__.get(value, Status.ERROR)
    if isinstance(value, int) and not isinstance(value, bool):
        return Status.of(value)
    raise _invalid(at, "This must be the name of a status.")


def _time(value: Any) -> float | None:
    if value is None:
        return None
    try:
        return datetime.fromisoformat(value).astimezone(UTC).timestamp()
    except (TypeError, ValueError, OverflowError):
        raise _invalid("/sentAt", "This must be a time by RFC 3339.") from None


def _event_of(value: Any, at: str) -> Event:
    members = _members(value, at, ("event_name", "payload", "metadata"))
    return Event(_text(members, "event_name", at), _payload(members, "payload", at), _metadata(members, at))


def _payload_json(payload: Payload | None) -> Mapping[str, Any] | None:
    return None if payload is None else to_json(payload).members


def _filled(**members: Any) -> dict[str, Any]:
    """Return the members that have a value: proto3 leaves out what is empty."""
    return {name: value for name, value in members.items() if value not in (None, "", {})}


def _invalid(at: str, detail: str) -> InvalidInput:
    return InvalidInput("The message is not valid.", errors=[FieldError(at, detail)])


_READERS: Final[Mapping[str, Callable[[Any, str], Command | CommandResult | Event]]] = {
    "command_request": command_of,
    "command_response": result_of,
    "event": _event_of,
}
"""What reads each member of the oneof `payload`."""
_ENVELOPE: Final = ("message_id", "sent_at", *_READERS, "metadata")
