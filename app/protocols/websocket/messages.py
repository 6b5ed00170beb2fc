"""Encoding of arguments as a message, and of received messages as a response or events."""

import base64
from typing import Any

import orjson

from app.core import exact_json
from app.core.text import load_json
from app.outbound.framing import StreamEvent
from app.protocols.base import Call, Result
from app.protocols.shared.boundaries import check_control_characters
from app.protocols.shared.messages import join_parts, json_text, map_encoding_errors, message_parts
from app.protocols.shared.results import BYTES, JSON, TEXT, body_result
from app.protocols.shared.sealed_fields import fill_sealed_fields
from app.protocols.shared.texts import fill_json
from app.protocols.websocket.template import WebsocketTemplate


def build_message(
    model: WebsocketTemplate, placed: frozenset[str], call: Call[Any], *, masked: bool = False
) -> str:
    """Return the message: the template filled with arguments, or the arguments but `placed` ones as JSON.

    Raise InvalidArguments for arguments that cannot be encoded, and for control characters in a message of
    text: its reader may take them for the end of a line or of a message.
    """
    template = fill_sealed_fields({"message": model.message}, call.credentials, masked=masked)["message"]
    with map_encoding_errors():
        if isinstance(template, str):
            pieces = message_parts(template, call.arguments)
            if model.enforce_message_boundaries is not False:
                check_control_characters(pieces)
            return join_parts(pieces)
        if template is not None:
            return json_text(fill_json(template, call.arguments))
        unplaced = {name: value for name, value in call.arguments.items() if name not in placed}
        return json_text(unplaced)


def single_response(message: str | bytes, model: WebsocketTemplate, call: Call[Any]) -> Result:
    if isinstance(message, bytes):
        return body_result(message, BYTES, call)
    raw = message.encode()
    return body_result(raw, JSON if model.response_format == "json" and is_json(raw) else TEXT, call)


def message_value(message: str | bytes, model: WebsocketTemplate) -> bytes:
    """Return a message as one JSON value: JSON where the template says so, else text; bytes in base64."""
    if isinstance(message, bytes):
        return exact_json.dumps({"base64": base64.b64encode(message).decode()})
    raw = message.encode()
    return raw if model.response_format == "json" and is_json(raw) else exact_json.dumps(message)


def message_event(message: str | bytes, model: WebsocketTemplate) -> StreamEvent:
    """Return a message as an event: JSON where it can be parsed, unless the template names text or raw."""
    if isinstance(message, bytes):
        return StreamEvent(message, "bytes")
    raw = message.encode()
    as_text = model.response_format in ("text", "raw") or not is_json(raw)
    return StreamEvent(raw, "text" if as_text else "json")


def is_json(raw: bytes) -> bool:
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError:
        return False
    return True


def object_members(raw: str | bytes) -> dict[str, Any]:
    """Return the members of a JSON object; {} for anything else."""
    if raw[:64].lstrip()[:1] not in ("{", b"{"):
        return {}
    try:
        found = load_json(raw.encode() if isinstance(raw, str) else raw)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
