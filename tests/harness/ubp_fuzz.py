"""Generated messages of UBP: frames that are nearly valid, in JSON and in protocol buffers."""

import json
from typing import Any, Final

from google.protobuf import struct_pb2, timestamp_pb2
from hypothesis import strategies as st

from app.formats.ubp.v1 import core_pb2, tools_pb2

NAMES: Final = (
    "agent.register_tools", "agent.deregister_tools", "agent.list_tools", "agent.ping", "command.cancel",
    "command.unknown", "no_such_tool", "",
)  # fmt: skip
TYPES: Final = (
    *(f"type.googleapis.com/google.protobuf.{name}" for name in (
        "Struct", "Value", "ListValue", "StringValue", "BoolValue", "DoubleValue", "Int64Value",
        "Int32Value", "BytesValue", "Empty", "Any",
    )),
    "type.googleapis.com/ubp.v1.RegisterToolsArguments",
    "type.googleapis.com/nobody.Knows",
    "Struct",
    "",
)  # fmt: skip

texts = st.text(max_size=8)
numbers = (
    st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([2**63, -(2**63), 2**64, 10**30, 1e308])
)
leaves = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def deep_values(draw: st.DrawFn) -> Any:
    """A value of more or fewer levels than each of the libraries reads or writes."""
    value: Any = draw(leaves)
    for _ in range(draw(st.sampled_from([60, 70, 110, 260, 500]))):
        value = [value] if draw(st.booleans()) else {"a": value}
    return value


def _spoilt(members: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with some of the members, any of which may be of another type."""
    return st.fixed_dictionaries({}, optional={name: kind | values for name, kind in members.items()})


definitions = _spoilt(
    {
        "name": st.sampled_from(["a", "agent.x", "", "two words"]) | texts,
        "description": texts,
        "parameters": st.lists(
            _spoilt(
                {
                    "name": texts,
                    "type": st.sampled_from(["int", "list", "?"]),
                    "description": texts,
                    "required": st.booleans(),
                    "jsonSchema": st.sampled_from(["{}", "{", "[]", '{"$ref": "#"}']),
                }
            ),
            max_size=2,
        ),
        "jsonSchema": st.sampled_from(['{"type": "object"}', "true", "{", "[]", '{"properties": 1}']),
    }
)
arguments = _spoilt(
    {
        "@type": st.sampled_from(TYPES),
        "value": values,
        "tools": st.lists(definitions, max_size=2),
        "names": st.lists(texts, max_size=2),
        "command_id": texts,
        "q": texts,
        "limit": st.integers(-1, 200),
    }
)
metadata = st.dictionaries(
    st.sampled_from(["reply_to", "timeout_ms", "client_id", "traceparent", "role", "max_commands"]) | texts,
    st.sampled_from(["reasoner", "true", "1", "-1", "9" * 30, "x"]) | texts,
    max_size=3,
)
# Never an executor: its registration would be stored.
metadata = metadata.map(lambda found: {**found, "role": "reasoner"} if "role" not in found else found)
commands = _spoilt(
    {
        "commandId": texts,
        "commandName": st.sampled_from(NAMES),
        "arguments": arguments | deep_values().map(lambda value: {"a": value}),
        "metadata": metadata,
    }
)
responses = _spoilt(
    {
        "commandId": texts,
        "status": st.sampled_from(["SUCCESS", "ERROR", "LATER", 1, 99, -1, 1.5, True]),
        "result": arguments,
        "error": texts,
        "metadata": metadata,
    }
)
events = _spoilt(
    {"eventName": st.just("command.progress") | texts, "payload": arguments, "metadata": metadata}
)
envelopes = st.fixed_dictionaries(
    {},
    optional={
        "messageId": texts | values,
        "sentAt": st.sampled_from(["2026-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "now"]) | values,
        "commandRequest": commands | values,
        "commandResponse": responses | values,
        "event": events | values,
        "metadata": metadata | values,
        "x": values,
    },
)
commands_alone = st.builds(
    lambda message_id, command: {"messageId": message_id, "commandRequest": command}, texts, commands
)


@st.composite
def json_frames(draw: st.DrawFn) -> str:
    """A text frame: a message, another JSON value, or a text that is cut or changed."""
    value = draw(commands_alone | envelopes | values | deep_values())
    text = json.dumps(value, ensure_ascii=draw(st.booleans()))
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(text)))
        text = (
            text[:at] + draw(st.sampled_from(["", "\x00", "\\ud800", "1e999", "NaN", "{"])) + text[at + 1 :]
        )
    return text


def _field(number: int, content: bytes) -> bytes:
    """A field of a message, with its length: the library itself does not write very deep messages."""
    size, varint = len(content), b""
    while size > 127:
        size, varint = size >> 7, varint + bytes([size & 127 | 128])
    return bytes([number << 3 | 2]) + varint + bytes([size]) + content


@st.composite
def _payloads(draw: st.DrawFn) -> bytes:
    """The bytes of the message in an Any, of whatever type."""
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return draw(st.binary(max_size=20))
    if kind == 1:
        value = bytes(struct_pb2.Value(number_value=draw(st.floats())).SerializeToString())
        for _ in range(draw(st.sampled_from([0, 1, 30, 60]))):
            value = _field(6, _field(1, value))
        return value
    if kind == 2:
        found = struct_pb2.Struct()
        for name in draw(st.lists(texts, max_size=3)):
            found.fields[name].number_value = draw(st.floats())
        return bytes(found.SerializeToString())
    tool = tools_pb2.ToolDefinition(
        name=draw(texts), json_schema=draw(st.sampled_from(["", "{", "{}", "[]", '{"type": 5}']))
    )
    tool.parameters.add(name=draw(texts), type=draw(texts))
    return bytes(tools_pb2.RegisterToolsArguments(tools=[tool] * draw(st.integers(0, 2))).SerializeToString())


@st.composite
def binary_frames(draw: st.DrawFn) -> bytes:
    """A message in protocol buffers, which may be cut or changed."""
    message = core_pb2.UbpMessage(message_id=draw(texts), metadata=draw(metadata))
    if draw(st.booleans()):
        message.sent_at.CopyFrom(
            timestamp_pb2.Timestamp(
                seconds=draw(st.sampled_from([0, -(2**63), 2**63 - 1])),
                nanos=draw(st.integers(-(2**31), 2**31 - 1)),
            )
        )
    kind = draw(st.sampled_from(["request", "response", "event", "none"]))
    if kind == "request":
        request = message.command_request
        request.command_id, request.command_name = draw(texts), draw(st.sampled_from(NAMES))
        request.metadata.update(draw(metadata))
        payload = request.arguments
    elif kind == "response":
        response = message.command_response
        response.command_id = draw(texts)
        # Enums of proto3 are open.
        response.status = draw(st.integers(-(2**31), 2**31 - 1))  # type: ignore[assignment]
        response.metadata.update(draw(metadata))
        payload = response.result
    elif kind == "event":
        message.event.event_name = draw(texts)
        payload = message.event.payload
    if kind != "none" and draw(st.booleans()):
        payload.type_url, payload.value = draw(st.sampled_from(TYPES)), draw(_payloads())
    data = bytes(message.SerializeToString())
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=3)) + data[at + 1 :]
    return data
