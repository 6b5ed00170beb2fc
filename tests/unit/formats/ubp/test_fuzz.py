"""Generated messages are read, converted and written, or rejected with an error of the gateway."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BadRequest, InvalidInput
from app.formats.ubp import json_form, wire
from app.formats.ubp.definitions import read_defined_tools
from app.formats.ubp.model import Command, CommandResult, Event
from app.formats.ubp.values import read_bytes, read_value
from tests.harness.examples import examples
from tests.harness.ubp_fuzz import binary_frames, json_frames


def payload_of(message):
    match message.payload:
        case Command(arguments=found) | CommandResult(result=found) | Event(payload=found):
            return found
    return None


def forward(message):
    """Do with a message what the gateway does with it: read its payload, and send it on in both forms."""
    payload = payload_of(message)
    for read in (read_value, read_defined_tools):
        with contextlib.suppress(InvalidInput):
            read(payload)
    read_bytes(payload)
    with contextlib.suppress(InvalidInput):
        text = json_form.encode_message(message)
        assert json_form.decode_message(text).message_id == message.message_id
    with contextlib.suppress(InvalidInput):
        data = wire.encode_message(message)
        assert wire.decode_message(data).message_id == message.message_id


@examples(300)
@given(json_frames())
def test_any_text_is_a_message_or_is_rejected(text):
    try:
        message = json_form.decode_message(text.encode())
    except InvalidInput:
        json_form.identify_message(text.encode())
    except BadRequest:
        return
    else:
        forward(message)


@examples(300)
@given(binary_frames() | st.binary(max_size=60))
def test_any_bytes_are_a_message_or_are_rejected(data):
    try:
        message = wire.decode_message(data)
    except BadRequest:
        wire.identify_message(data)
        return
    forward(message)
