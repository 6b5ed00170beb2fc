"""Messages of UBP in memory, whatever the form in which they arrived."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, TypeAlias

TYPE_PREFIX: Final = "type.googleapis.com/"
STRUCT: Final = f"{TYPE_PREFIX}google.protobuf.Struct"
"""The type of the arguments of a tool."""
REGISTER_TOOLS: Final = f"{TYPE_PREFIX}ubp.v1.RegisterToolsArguments"

TRACE_CONTEXT: Final = ("traceparent", "tracestate")
"""Members of metadata with a trace (W3C Trace Context): of a command, that which its sender wants to be
continued; of the envelope in which an executor gets a command, that of the call.
"""
REPLY_TO: Final = "reply_to"
"""The member of an envelope's metadata with the `message_id` of the message that it responds to."""
MEDIA_TYPE: Final = "media_type"
"""The member of a response's metadata with the media type of a result that consists of bytes."""


class Status(IntEnum):
    """`ubp.v1.CommandResponse.Status`."""

    STATUS_UNSPECIFIED = 0
    SUCCESS = 1
    ERROR = 2
    INVALID_ARGUMENT = 3
    NOT_FOUND = 4
    UNAUTHENTICATED = 5
    PERMISSION_DENIED = 6
    TIMEOUT = 7
    RATE_LIMITED = 8
    UNAVAILABLE = 9
    CANCELLED = 10

    @classmethod
    def of(cls, number: int) -> "Status":
        """Return the status of a number: ERROR for one of a later version, since enums of proto3 are open."""
        return cls(number) if 0 <= number <= cls.CANCELLED else cls.ERROR


@dataclass(frozen=True, slots=True)
class WirePayload:
    """A `google.protobuf.Any` as it arrived by protocol buffers."""

    type_url: str
    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class JsonPayload:
    """A `google.protobuf.Any` as it arrived by JSON: an object with the member `@type`, as parsed."""

    members: Mapping[str, Any] = field(repr=False)

    @property
    def type_url(self) -> str:
        """The type of the message that it holds."""
        return str(self.members.get("@type", ""))


Payload: TypeAlias = WirePayload | JsonPayload
"""A `google.protobuf.Any`. It is forwarded as it is to a peer of the same form, and converted for another."""


@dataclass(frozen=True, slots=True)
class Command:
    """`ubp.v1.CommandRequest`."""

    command_id: str
    command_name: str
    arguments: Payload | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """`ubp.v1.CommandResponse`."""

    command_id: str
    status: Status
    result: Payload | None = None
    error: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """`ubp.v1.Event`."""

    event_name: str
    payload: Payload | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """`ubp.v1.UbpMessage`. `sent_at` is in seconds since 1970 (UTC), None where the sender gives no time."""

    message_id: str
    payload: Command | CommandResult | Event | None
    metadata: Mapping[str, str] = field(default_factory=dict)
    sent_at: float | None = None

    @property
    def reply_to(self) -> str | None:
        """The `message_id` of the message that this one responds to, where it says so."""
        return self.metadata.get(REPLY_TO)


def build_identified_message(
    kind: str, command_id: str, *, message_id: str = "", reply_to: str | None = None
) -> Message:
    """Return a message that has nothing but ids, in place of a malformed one.

    `kind` is the member of its payload: `command_request`, `command_response` or `event`.
    """
    payload: Command | CommandResult | Event
    if kind == "command_request":
        payload = Command(command_id, "")
    elif kind == "command_response":
        payload = CommandResult(command_id, Status.ERROR)
    else:
        payload = Event("", metadata={"command_id": command_id})
    return Message(message_id, payload, {} if reply_to is None else {REPLY_TO: reply_to})
