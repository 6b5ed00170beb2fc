"""JSON values as payloads, and back: `google.protobuf.Any` with a well-known type in it.

Numbers of Struct, Value and ListValue are doubles (google/protobuf/struct.proto), so an integer beyond 2^53
is sent as text; whoever calls is told where.
"""

import base64
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from google.protobuf import struct_pb2, wrappers_pb2
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError, Message

from app.core.errors import FieldError, InvalidInput
from app.core.text import pointer
from app.formats.ubp.model import (
    STRUCT,
    TYPE_PREFIX,
    JsonPayload,
    Payload,
    WirePayload,
)

MAX_EXACT_INTEGER: Final = 2**53
"""The greatest magnitude below which each integer is a double."""
MAX_DEPTH: Final = 64
"""The nesting of a value: the library of protocol buffers reads at most 100 levels of messages."""

_VALUE: Final = f"{TYPE_PREFIX}google.protobuf.Value"
_BYTES: Final = f"{TYPE_PREFIX}google.protobuf.BytesValue"


@dataclass(frozen=True, slots=True)
class ConvertedPayload:
    """A payload made of a JSON value. `notes` name, by JSON pointer, the numbers that are sent as text."""

    payload: JsonPayload
    notes: tuple[str, ...] = ()


def build_struct_payload(arguments: Mapping[str, Any]) -> ConvertedPayload:
    """Return the arguments of a tool as a Struct; raise InvalidInput for more than MAX_DEPTH levels."""
    notes: list[str] = []
    return ConvertedPayload(
        JsonPayload({"@type": STRUCT, "value": _make_sendable(arguments, "", notes, 0)}), tuple(notes)
    )


def build_value_payload(value: Any) -> ConvertedPayload:
    """Return any JSON value as a Value; raise InvalidInput for more than MAX_DEPTH levels."""
    notes: list[str] = []
    return ConvertedPayload(build_exact_payload(_make_sendable(value, "", notes, 0)), tuple(notes))


def build_exact_payload(value: Any) -> JsonPayload:
    """Return any JSON value as a Value whose numbers keep their digits for a peer that speaks JSON."""
    return JsonPayload({"@type": _VALUE, "value": value})


def build_bytes_payload(value: bytes) -> JsonPayload:
    """Return bytes as a BytesValue, which is Base64 in JSON."""
    return JsonPayload({"@type": _BYTES, "value": base64.b64encode(value).decode("ascii")})


def read_value(payload: Payload | None, *, location: str = "") -> Any:
    """Return the JSON value of a payload: that of a well-known type, bytes as Base64, None without a payload.

    Of a payload that arrived as JSON with another type, or with none, it is the object itself without
    `@type`. Raise InvalidInput, with a pointer below `location`, for a message that is malformed, and for one
    of an unknown type that arrived as protocol buffers.
    """
    if payload is None:
        return None
    if isinstance(payload, JsonPayload):
        kind = payload.members.get("@type")
        if kind in _WELL_KNOWN:
            for name in payload.members.keys() - {"@type", "value"}:
                # Whoever it is forwarded to could read what nobody here has checked.
                problem = FieldError(pointer(location, name), "A well-known type has no member but `value`.")
                raise InvalidInput("The message is not valid.", errors=[problem])
            return payload.members.get("value")
        return {name: member for name, member in payload.members.items() if name != "@type"}
    return _read_message_value(payload, location)


def read_bytes(payload: Payload | None) -> bytes | None:
    """Return the bytes of a BytesValue; None for any other payload, and for Base64 that is malformed."""
    if payload is None or payload.type_url != _BYTES:
        return None
    try:
        if isinstance(payload, WirePayload):
            return bytes(wrappers_pb2.BytesValue.FromString(payload.value).value)
        return base64.b64decode(str(payload.members.get("value", "")), validate=True)
    except (DecodeError, ValueError):
        return None


def to_wire(payload: Payload, *, location: str = "") -> WirePayload:
    """Return a payload for a peer that speaks protocol buffers: what arrived so is unchanged.

    A JSON object without `@type` is a Struct. Raise InvalidInput, with a pointer below `location`, for a type
    that is not well known, and for a value that is none of its type.
    """
    if isinstance(payload, WirePayload):
        return payload
    members = payload.members
    kind = members.get("@type", STRUCT)
    codec = _WELL_KNOWN.get(kind)
    if codec is None:
        problem = FieldError(pointer(location, "@type"), "This type has no form in protocol buffers here.")
        raise InvalidInput("A message of this type cannot be converted.", errors=[problem])
    value = members.get("value") if "@type" in members else members
    try:
        return WirePayload(kind, codec.encode(value).SerializeToString(deterministic=True))
    except (TypeError, ValueError, OverflowError, RecursionError, DecodeError):
        problem = FieldError(pointer(location, "value"), f"This is no {kind.rpartition('.')[2]}.")
        raise InvalidInput("A message cannot be converted.", errors=[problem]) from None


def to_json(payload: Payload, *, location: str = "") -> JsonPayload:
    """Return a payload for a peer that speaks JSON: what arrived so is unchanged.

    A message of an unknown type is its bytes in Base64, in the member `value`. Raise InvalidInput for a
    well-known message that is malformed.
    """
    if isinstance(payload, JsonPayload):
        return payload
    if payload.type_url in _WELL_KNOWN:
        return JsonPayload({"@type": payload.type_url, "value": _read_message_value(payload, location)})
    return JsonPayload({"@type": payload.type_url, "value": base64.b64encode(payload.value).decode("ascii")})


def _read_message_value(payload: WirePayload, location: str) -> Any:
    codec = _WELL_KNOWN.get(payload.type_url)
    if codec is None:
        problem = FieldError(
            pointer(location, "type_url"), "Send google.protobuf.Struct, or another well-known type."
        )
        raise InvalidInput("The message has a type that is not known here.", errors=[problem])
    try:
        return codec.decode(codec.message.FromString(payload.value))
    except (DecodeError, RecursionError, ValueError):
        problem = FieldError(pointer(location, "value"), f"This is no {payload.type_url.rpartition('.')[2]}.")
        raise InvalidInput("A message could not be read.", errors=[problem]) from None


def _make_sendable(value: Any, location: str, notes: list[str], depth: int) -> Any:
    """Return the value with the numbers that no double has as text; add their pointers to `notes`."""
    if depth > MAX_DEPTH:
        raise InvalidInput(
            f"The value has more than {MAX_DEPTH} levels.",
            errors=[FieldError(location, f"Nested more than {MAX_DEPTH} levels deep.")],
        )
    if isinstance(value, Mapping):
        return {
            key: _make_sendable(member, pointer(location, key), notes, depth + 1)
            for key, member in value.items()
        }
    if isinstance(value, list):
        return [
            _make_sendable(member, pointer(location, index), notes, depth + 1)
            for index, member in enumerate(value)
        ]
    is_long = type(value) is int and not -MAX_EXACT_INTEGER <= value <= MAX_EXACT_INTEGER
    if is_long or type(value) is Decimal:
        notes.append(location)
        return str(value)
    return value


def _to_value(value: Any) -> struct_pb2.Value:
    if value is None:
        return struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
    if isinstance(value, bool):
        return struct_pb2.Value(bool_value=value)
    if isinstance(value, str):
        return struct_pb2.Value(string_value=value)
    if isinstance(value, (int, float, Decimal)):
        return struct_pb2.Value(number_value=float(value))
    if isinstance(value, Mapping):
        return struct_pb2.Value(struct_value=_to_struct(value))
    if isinstance(value, list):
        return struct_pb2.Value(list_value=_to_list(value))
    raise TypeError(type(value).__name__)


def _to_struct(value: Any) -> struct_pb2.Struct:
    if not isinstance(value, Mapping):
        raise TypeError(type(value).__name__)
    return struct_pb2.Struct(fields={key: _to_value(member) for key, member in value.items()})


def _to_list(value: Any) -> struct_pb2.ListValue:
    if not isinstance(value, list):
        raise TypeError(type(value).__name__)
    return struct_pb2.ListValue(values=[_to_value(member) for member in value])


def _from_value(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _from_struct(value.struct_value)
    if kind == "list_value":
        return _from_list(value.list_value)
    if kind == "number_value":
        return _read_number(value.number_value)
    return None if kind in (None, "null_value") else getattr(value, kind)


def _from_struct(value: struct_pb2.Struct) -> dict[str, Any]:
    return {name: _from_value(member) for name, member in value.fields.items()}


def _from_list(value: struct_pb2.ListValue) -> list[Any]:
    return [_from_value(member) for member in value.values]


def _read_number(number: float) -> float | int:
    """Return an integer for a double without a fraction; raise ValueError for NaN and infinity."""
    if not math.isfinite(number):
        raise ValueError
    return int(number) if number.is_integer() and abs(number) <= MAX_EXACT_INTEGER else number


@dataclass(frozen=True, slots=True)
class _Codec:
    """How a well-known message becomes a JSON value, and a JSON value the message."""

    message: type[Message]
    encode: Callable[[Any], Message]
    decode: Callable[[Any], Any]


def _build_wrapper(message: type[Message], kinds: tuple[type, ...]) -> _Codec:
    """Return the codec of a wrapper, whose JSON is its value."""

    def encode(value: Any) -> Message:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise TypeError(type(value).__name__)
        return message(value=value)

    return _Codec(message, encode, lambda found: found.value)


def _of_double(value: Any) -> Message:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise TypeError(type(value).__name__)
    return wrappers_pb2.DoubleValue(value=float(value))


def _of_int64(value: Any) -> Message:
    # 64-bit integers are text in JSON, and readers take numbers, too.
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(type(value).__name__)
    return wrappers_pb2.Int64Value(value=int(value))


def _of_bytes(value: Any) -> Message:
    return wrappers_pb2.BytesValue(value=base64.b64decode(value, validate=True))


_WELL_KNOWN: Final[Mapping[str, _Codec]] = {
    TYPE_PREFIX + "google.protobuf." + name: codec
    for name, codec in {
        "Struct": _Codec(struct_pb2.Struct, _to_struct, _from_struct),
        "Value": _Codec(struct_pb2.Value, _to_value, _from_value),
        "ListValue": _Codec(struct_pb2.ListValue, _to_list, _from_list),
        "StringValue": _build_wrapper(wrappers_pb2.StringValue, (str,)),
        "BoolValue": _build_wrapper(wrappers_pb2.BoolValue, (bool,)),
        "DoubleValue": _Codec(wrappers_pb2.DoubleValue, _of_double, lambda found: _read_number(found.value)),
        "Int64Value": _Codec(wrappers_pb2.Int64Value, _of_int64, lambda found: str(found.value)),
        "Int32Value": _build_wrapper(wrappers_pb2.Int32Value, (int,)),
        "BytesValue": _Codec(
            wrappers_pb2.BytesValue, _of_bytes, lambda found: base64.b64encode(found.value).decode("ascii")
        ),
        "Empty": _Codec(Empty, lambda _: Empty(), lambda _: {}),
    }.items()
}
"""By type URL. Their JSON is the member `value` of an Any (https://protobuf.dev/programming-guides/json/)."""
