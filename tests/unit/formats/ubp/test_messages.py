"""Messages of UBP in both forms, and the conversion of payloads between them."""

import base64
import struct

import pytest
from google.protobuf import json_format, struct_pb2
from google.protobuf.any_pb2 import Any as AnyMessage

from app.core.errors import BadRequest, InvalidInput
from app.formats.ubp import json_form, wire
from app.formats.ubp.model import (
    STRUCT,
    Command,
    CommandResult,
    Event,
    JsonPayload,
    Message,
    Status,
    WirePayload,
)
from app.formats.ubp.v1 import core_pb2
from app.formats.ubp.values import (
    MAX_DEPTH,
    build_bytes_payload,
    build_struct_payload,
    build_value_payload,
    read_bytes,
    read_value,
    to_json,
    to_wire,
)
from scripts.ubp_messages import PACKAGES, generated
from tests.harness.cases import for_each

ORDER = {"order_id": 123, "note": "é", "tags": ["a", None, True], "price": {"amount": 9.5}}


@pytest.mark.parametrize("package", PACKAGES)
def test_generated_modules_are_current(package):
    for name, text in generated(package).items():
        assert (PACKAGES[package] / name).read_text() == text, "run make ubp-messages"


def test_the_seeds_own_python_makes_the_same_command():
    payload = AnyMessage()
    arguments = struct_pb2.Struct()
    arguments.update({"order_id": 123})
    payload.Pack(arguments)
    request = core_pb2.CommandRequest(command_id="c1", command_name="get_order_status", arguments=payload)
    message = wire.decode_message(
        core_pb2.UbpMessage(message_id="m1", command_request=request).SerializeToString()
    )
    assert isinstance(message.payload, Command)
    assert message.payload.command_id == "c1"
    assert read_value(message.payload.arguments) == {"order_id": 123}
    assert core_pb2.CommandResponse.Status.SUCCESS == Status.SUCCESS


@for_each(
    "payload",
    [
        Command("c1", "get_order_status", build_struct_payload(ORDER).payload, {"role": "executor"}),
        CommandResult("c1", Status.SUCCESS, build_value_payload("Shipped").payload),
        CommandResult("c1", Status.UNAVAILABLE, None, "The executor is gone.", {"k": "v"}),
        Event("command.progress", build_struct_payload({"progress": 1}).payload),
        None,
    ],
)
def test_both_forms_hold_the_same_message(payload):
    message = Message("m1", payload, {"reply_to": "m0"}, 1_700_000_000.25)
    by_json = json_form.decode_message(json_form.encode_message(message))
    assert by_json == message
    by_wire = wire.decode_message(wire.encode_message(message))
    assert json_form.convert_message(by_wire) == json_form.convert_message(message)


def test_the_json_form_is_that_of_the_library():
    message = Message("m1", Command("c1", "n", build_struct_payload(ORDER).payload), {}, 1_700_000_000.0)
    parsed = json_format.Parse(json_form.encode_message(message), core_pb2.UbpMessage())
    sent = parsed.command_request
    arguments = struct_pb2.Struct()
    assert sent.arguments.Unpack(arguments)
    assert (parsed.message_id, sent.command_id, sent.command_name) == ("m1", "c1", "n")
    assert json_format.MessageToDict(arguments) == ORDER
    again = json_form.decode_message(json_format.MessageToJson(parsed).encode())
    assert isinstance(again.payload, Command)
    assert read_value(again.payload.arguments) == ORDER


def test_a_payload_is_forwarded_unchanged_to_a_peer_of_the_same_form():
    odd = WirePayload(STRUCT, struct_pb2.Struct().SerializeToString() + b"\xa2\x06\x01x")
    assert to_wire(odd) is odd
    sent = wire.to_proto(Message("m", Command("c", "n", odd)))
    assert (sent.command_request.arguments.type_url, sent.command_request.arguments.value) == (
        STRUCT,
        odd.value,
    )
    unknown = WirePayload("type.example/acme.Order", b"\x08\x7b")
    assert wire.decode_message(
        wire.encode_message(Message("m", Command("c", "n", unknown)))
    ).payload == Command("c", "n", unknown)
    plain = JsonPayload({"order_id": 123, "big": 2**60})
    assert to_json(plain) is plain


def test_numbers_keep_their_digits_in_json():
    text = b'{"messageId":"m","commandRequest":{"commandId":"c","commandName":"n","arguments":{"n":1.10000000000000000001,"i":123456789012345678901234567890}}}'
    assert json_form.encode_message(json_form.decode_message(text)) == text


def test_an_unknown_type_is_base64_in_json():
    found = to_json(WirePayload("type.example/acme.Order", b"\x08\x7b"))
    assert found.members == {
        "@type": "type.example/acme.Order",
        "value": base64.b64encode(b"\x08\x7b").decode(),
    }
    with pytest.raises(InvalidInput, match="not known"):
        read_value(WirePayload("type.example/acme.Order", b"\x08\x7b"))
    with pytest.raises(InvalidInput, match="cannot be converted"):
        to_wire(found)


def test_integers_that_no_double_has_become_text_and_are_named():
    converted = build_struct_payload({"id": 2**53 + 1, "ok": 2**53, "nested": [{"id": -(2**60)}]})
    assert converted.notes == ("/id", "/nested/0/id")
    assert read_value(to_wire(converted.payload)) == {
        "id": str(2**53 + 1),
        "ok": 2**53,
        "nested": [{"id": str(-(2**60))}],
    }


def test_bytes_arrive_as_bytes_in_both_forms():
    payload = build_bytes_payload(b"\x00\xff")
    assert read_bytes(payload) == b"\x00\xff"
    assert read_bytes(to_wire(payload)) == b"\x00\xff"
    assert read_value(to_wire(payload)) == "AP8="


@for_each("value", [None, True, "text", 0, -1, 1.5, [], {}, [{"a": [1]}]])
def test_every_json_value_survives(value):
    payload = build_value_payload(value).payload
    assert read_value(payload) == value
    assert read_value(to_wire(payload)) == value


def test_depth_is_limited():
    value = 1
    for _ in range(MAX_DEPTH + 1):
        value = [value]
    with pytest.raises(InvalidInput, match="levels"):
        build_value_payload(value)


def test_members_beside_the_value_of_a_well_known_type_are_rejected():
    payload = JsonPayload({"@type": STRUCT, "value": {"order_id": 1}, "order_id": 2})
    with pytest.raises(InvalidInput) as caught:
        read_value(payload, location="/arguments")
    assert [error.pointer for error in caught.value.errors] == ["/arguments/order_id"]


def test_nan_is_rejected():
    bad = struct_pb2.Struct(fields={"x": struct_pb2.Value(number_value=float("nan"))})
    with pytest.raises(InvalidInput):
        read_value(WirePayload(STRUCT, bad.SerializeToString()))


@for_each(
    ("text", "at"),
    [
        (b'{"messageId": 1}', "/messageId"),
        (b'{"messageid": "m"}', "/messageid"),
        (b'{"commandRequest": []}', "/commandRequest"),
        (b'{"commandRequest": {}, "event": {}}', "/event"),
        (b'{"commandRequest": {"commandId": "c", "command_id": "d"}}', "/commandRequest/command_id"),
        (b'{"commandRequest": {"arguments": 1}}', "/commandRequest/arguments"),
        (b'{"commandRequest": {"arguments": {"@type": 1}}}', "/commandRequest/arguments"),
        (b'{"commandRequest": {"metadata": {"a": 1}}}', "/commandRequest/metadata/a"),
        (b'{"commandResponse": {"status": []}}', "/commandResponse/status"),
        (b'{"sentAt": "yesterday"}', "/sentAt"),
        (b"[]", ""),
    ],
)
def test_what_is_wrong_in_json_is_named(text, at):
    with pytest.raises(InvalidInput) as caught:
        json_form.decode_message(text)
    assert [error.pointer for error in caught.value.errors] == [at]


@pytest.mark.parametrize("text", [b"", b"{", b"[" * 100_000, b'"\xff"'])
def test_text_that_is_no_json_is_a_bad_request(text):
    with pytest.raises(BadRequest):
        json_form.decode_message(text)


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x05a", struct.pack("<I", 12)])
def test_bytes_that_are_no_message_are_a_bad_request(data):
    with pytest.raises(BadRequest):
        wire.decode_message(data)


def test_a_status_of_a_later_version_is_an_error():
    later = core_pb2.UbpMessage(command_response=core_pb2.CommandResponse(command_id="c", status=77))
    found = wire.decode_message(later.SerializeToString()).payload
    assert isinstance(found, CommandResult)
    assert found.status is Status.ERROR
    assert json_form.result_of({"status": "PAUSED"}).status is Status.ERROR
    assert json_form.result_of({"status": 77}).status is Status.ERROR
    assert json_form.result_of({"status": 1}).status is Status.SUCCESS


def test_a_payload_of_more_levels_than_can_be_written_is_rejected():
    value: dict[str, object] = {}
    for _ in range(300):
        value = {"a": value}
    message = Message("m1", Command("c1", "deep", JsonPayload(value)))
    for encode in (json_form.encode_message, wire.encode_message):
        with pytest.raises(InvalidInput):
            encode(message)


@pytest.mark.parametrize(("seconds", "nanos"), [(2**63 - 1, 0), (-(2**63), 0), (0, -1), (0, 10**9)])
def test_a_time_that_is_none_is_rejected_in_protocol_buffers(seconds, nanos):
    found = core_pb2.UbpMessage(message_id="m1")
    found.sent_at.seconds, found.sent_at.nanos = seconds, nanos
    with pytest.raises(InvalidInput) as rejected:
        wire.decode_message(found.SerializeToString())
    assert rejected.value.errors[0].pointer == "/sentAt"


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "now", 5])
def test_a_time_that_is_none_is_rejected_in_json(text):
    with pytest.raises(InvalidInput) as rejected:
        json_form.read_message({"sentAt": text})
    assert rejected.value.errors[0].pointer == "/sentAt"


def _with_bad_text(**fields):
    """A serialised message, one text of which is no UTF-8."""
    return core_pb2.UbpMessage(**fields).SerializeToString().replace(b"BAD", b"B\xffD")


@for_each(
    ("form", "content", "expected"),
    [
        (
            json_form,
            b'{"messageId": "m", "commandRequest": {"commandId": "c", "commandName": 5}}',
            Message("m", Command("c", "")),
        ),
        (
            json_form,
            b'{"metadata": {"reply_to": "r"}, "command_response": {"command_id": "c", "status": []}}',
            Message("", CommandResult("c", Status.ERROR), {"reply_to": "r"}),
        ),
        (
            json_form,
            b'{"metadata": 7, "commandResponse": {"commandId": "c", "nothing": 1}}',
            Message("", CommandResult("c", Status.ERROR)),
        ),
        (
            json_form,
            b'{"event": {"eventName": 5, "metadata": {"command_id": "c"}}}',
            Message("", Event("", metadata={"command_id": "c"})),
        ),
        (json_form, b'{"commandResponse": {"commandId": 5}}', None),
        (json_form, b'{"commandResponse": {"commandId": "c"', None),
        (json_form, b"[]", None),
        (
            wire,
            _with_bad_text(
                message_id="m",
                metadata={"reply_to": "r", "x": "y"},
                command_response=core_pb2.CommandResponse(command_id="c", error="BAD", status=2),
            ),
            Message("m", CommandResult("c", Status.ERROR), {"reply_to": "r"}),
        ),
        (
            wire,
            _with_bad_text(command_request=core_pb2.CommandRequest(command_id="c", command_name="BAD")),
            Message("", Command("c", "")),
        ),
        (
            wire,
            _with_bad_text(event=core_pb2.Event(event_name="BAD", metadata={"command_id": "c"})),
            Message("", Event("", metadata={"command_id": "c"})),
        ),
        (wire, _with_bad_text(command_response=core_pb2.CommandResponse(command_id="BAD")), None),
        (wire, b"\x22\x05\x0a\xff\xff\xff\xff", None),
        (wire, b"\xff\xff\xff", None),
        (wire, b"", None),
    ],
)
def test_the_ids_of_a_malformed_message(form, content, expected):
    if content:
        with pytest.raises(BadRequest):
            form.decode_message(content)
    assert form.identify_message(content) == expected
