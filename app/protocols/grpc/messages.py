"""Conversion of messages from and to JSON (https://protobuf.dev/programming-guides/json/).

Responses use the names of that mapping (lowerCamelCase), enums by name, 64-bit integers as text, bytes in
base64; fields without a value are left out. Requests may use the names of the .proto file, too.
"""

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from app.core import exact_json
from app.core.errors import FieldError, InvalidArguments, ResponseTooLarge, UpstreamMalformed
from app.core.text import pointer

_WELL_KNOWN: Final = "google.protobuf."
_OBJECTS: Final = frozenset({f"{_WELL_KNOWN}{name}" for name in ("Struct", "Any", "Empty")})
_EMPTY_TYPE: Final = "/google.protobuf.Empty"
_MAX_ERRORS: Final = 20
_CHECKED_BYTES: Final = 64 << 10
_MAPPING_ERRORS: Final = (
    json_format.Error,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
# All that the library raises for a value that does not fit.


def is_wrapped(descriptor: Descriptor) -> bool:
    """Return whether the message is a well-known type whose JSON is not an object.

    The arguments of a method that takes such a message are `{"value": ...}`.
    """
    name = descriptor.full_name
    return bool(name.startswith(_WELL_KNOWN) and name not in _OBJECTS)


def is_well_known(descriptor: Descriptor) -> bool:
    """Return whether the message is of `google.protobuf`, with a JSON form of its own."""
    return bool(descriptor.full_name.startswith(_WELL_KNOWN))


def encode_message(arguments: Any, descriptor: Descriptor, pool: DescriptorPool, *, at: str = "") -> bytes:
    """Return arguments as a serialised message; raise InvalidArguments with pointers below `at`."""
    value = arguments
    if is_wrapped(descriptor):
        unknown = [key for key in arguments if key != "value"]
        if unknown or "value" not in arguments:
            field_error = FieldError(pointer(at, *unknown[:1]), "Give one argument: value.")
            raise InvalidArguments("The arguments are not those of the method.", errors=[field_error])
        value, at = arguments["value"], pointer(at, "value")
    try:
        raw = _serialized(value, descriptor, pool)
    except _MAPPING_ERRORS:
        field_errors = list(_first_errors(_field_errors(value, descriptor, pool, at))) or [
            FieldError(at, "It does not fit.")
        ]
        name = descriptor.full_name
        raise InvalidArguments(f"The arguments are not a message {name}.", errors=field_errors) from None
    return raw


def decode_message(raw: bytes, descriptor: Descriptor, pool: DescriptorPool, *, max_bytes: int) -> bytes:
    """Return a serialised message as JSON.

    Raise UpstreamMalformed where it cannot be decoded, and ResponseTooLarge above `max_bytes`.
    """
    try:
        message: Message = GetMessageClass(descriptor).FromString(raw)
        value = json_format.MessageToDict(message, descriptor_pool=pool)
    except DecodeError:
        raise UpstreamMalformed(f"The response is not a message {descriptor.full_name}.") from None
    except _MAPPING_ERRORS:
        detail = "The response has no JSON form: it may have an Any of a type that is not described."
        raise UpstreamMalformed(detail) from None
    if len(raw) > _CHECKED_BYTES:
        check_json_size(value, max_bytes)
    body = exact_json.dumps(value)
    if len(body) > max_bytes:
        raise _too_large(max_bytes)
    return body


def check_json_size(value: Any, max_bytes: int) -> None:
    """Raise ResponseTooLarge where a JSON value would have more than about `max_bytes` bytes, at little cost.

    Strings that are repeated by reference are not serialised: the name of an enum is one byte in a message.
    """
    size = 0
    waiting = [iter((value,))]
    while waiting:
        for one in waiting[-1]:
            size += 2
            if isinstance(one, str):
                size += len(one)
            elif isinstance(one, dict):
                size += sum(map(len, one))
                waiting.append(iter(one.values()))
                break
            elif isinstance(one, list):
                waiting.append(iter(one))
                break
        else:
            waiting.pop()
        if size > max_bytes + 2:
            raise _too_large(max_bytes)


def _serialized(value: Any, descriptor: Descriptor, pool: DescriptorPool) -> bytes:
    message = GetMessageClass(descriptor)()
    try:
        json_format.ParseDict(value, message, descriptor_pool=pool)
    except json_format.Error:
        spelled = _without_empty_values(value)
        if spelled == value:
            raise
        message = GetMessageClass(descriptor)()
        json_format.ParseDict(spelled, message, descriptor_pool=pool)
    raw: bytes = message.SerializeToString(deterministic=True)
    return raw


def _without_empty_values(value: Any) -> Any:
    """Return JSON in which no Any of an Empty has the `value` that the mapping gives it.

    Other libraries write `{"@type": ..., "value": {}}`; this one takes it for a field of the Empty.
    """
    if isinstance(value, dict):
        is_empty = str(value.get("@type", "")).endswith(_EMPTY_TYPE) and value.get("value") == {}
        return {
            key: _without_empty_values(one) for key, one in value.items() if not (is_empty and key == "value")
        }
    return [_without_empty_values(one) for one in value] if isinstance(value, list) else value


def _first_errors(field_errors: Iterator[FieldError]) -> Iterator[FieldError]:
    for _, field_error in zip(range(_MAX_ERRORS), field_errors, strict=False):
        yield field_error


def _fits(value: Any, descriptor: Descriptor, pool: DescriptorPool) -> bool:
    try:
        json_format.ParseDict(value, GetMessageClass(descriptor)(), descriptor_pool=pool)
    except _MAPPING_ERRORS:
        return False
    return True


def _field_errors(value: Any, descriptor: Descriptor, pool: DescriptorPool, at: str) -> Iterator[FieldError]:
    """Yield the errors of a value that does not fit a message."""
    if is_well_known(descriptor):
        yield FieldError(at, f"Give the JSON form of {descriptor.full_name}.")
        return
    if not isinstance(value, dict):
        yield FieldError(at, f"Give an object: a message {descriptor.full_name}.", "object")
        return
    fields = {field.json_name: field for field in descriptor.fields}
    fields |= descriptor.fields_by_name
    alone = True
    for key, member in value.items():
        at_key = pointer(at, key)
        field = fields.get(key)
        if field is None:
            alone = False
            expected = [one.json_name for one in descriptor.fields][:100]
            yield FieldError(at_key, f"The message {descriptor.full_name} has no such field.", expected)
        elif not _fits({key: member}, descriptor, pool):
            alone = False
            yield from _errors_within(member, key, field, pool, at_key)
    if alone:
        groups = [oneof for oneof in descriptor.oneofs if len(oneof.fields) > 1]
        for oneof in groups:
            names = [one.json_name for one in oneof.fields]
            present = [key for key in value if key in fields and fields[key] in oneof.fields]
            if len(present) > 1:
                yield FieldError(pointer(at, present[1]), "Give only one of these.", names)


def _errors_within(
    value: Any, key: str, field: FieldDescriptor, pool: DescriptorPool, at: str
) -> Iterator[FieldError]:
    """Yield the errors of a field's value that does not fit."""
    message = field.message_type
    if message is not None and message.GetOptions().map_entry and isinstance(value, dict):
        wrong = [one for one in value if not _fits({key: {one: value[one]}}, field.containing_type, pool)]
        inner = message.fields_by_name["value"].message_type
        for one in wrong:
            if inner is None or _fits(value[one], inner, pool):
                yield FieldError(pointer(at, one), "The key or the value does not fit.")
            else:
                yield from _field_errors(value[one], inner, pool, pointer(at, one))
    elif field.is_repeated and isinstance(value, list):
        for index, one in enumerate(value):
            if not _fits({key: [one]}, field.containing_type, pool):
                yield from _value_error(one, field, pool, pointer(at, index))
    elif field.is_repeated:
        yield FieldError(at, "Give a list or an object, as the tool's inputs say.")
    else:
        yield from _value_error(value, field, pool, at)


def _value_error(value: Any, field: FieldDescriptor, pool: DescriptorPool, at: str) -> Iterator[FieldError]:
    if field.message_type is not None:
        yield from _field_errors(value, field.message_type, pool, at)
    elif field.enum_type is not None:
        expected = [one.name for one in field.enum_type.values][:100]
        yield FieldError(at, "Give one of its names, or its number.", expected)
    else:
        yield FieldError(at, "The value does not fit the field's type.")


def _too_large(max_bytes: int) -> ResponseTooLarge:
    return ResponseTooLarge(f"A message of the upstream's response has more than {max_bytes} bytes as JSON.")
