"""Serialisation of events in the two formats that a client may accept: server-sent events and NDJSON.

The events of the gateway itself are distinct from those of an upstream. In SSE their names begin with
`gateway-`, and an upstream's own name of that kind gets `upstream-` in front. In NDJSON its last line is an
object with the member `$gateway`, and an upstream's own object with one is wrapped: `{"$upstream": ...}`. A
client of NDJSON may also request nothing but the data of the upstream's events; then the connection of a
response that fails is closed before the end of its body.
"""

import base64
import re
from typing import Any, Final, Protocol

import orjson

from app.core import exact_json
from app.core.media_types import parse_essence
from app.outbound.framing import SSE_MEDIA_TYPE, StreamEvent

_RESERVED: Final = "gateway-"
_NO_FIELD: Final = re.compile(r"[\r\n\x00]")


class EventFormat(Protocol):
    """One format. `media_type` is the Content-Type of the response, `heartbeat` the bytes of a heartbeat."""

    media_type: str
    heartbeat: bytes

    def event(self, event: StreamEvent, media_type: str) -> bytes:
        """Return the bytes of an upstream's event; `media_type` is that of its response."""

    def ended(self, facts: dict[str, Any]) -> bytes:
        """Return the bytes of the last event of a complete response."""

    def failed(self, problem: dict[str, Any]) -> bytes | None:
        """Return the bytes of the last event of a response that failed, with the members of its problem; None
        where the connection is to be closed instead.
        """


class ServerSentEvents:
    """Server-sent events: `data` is that of the upstream's event; for other responses, JSON on one line."""

    media_type = SSE_MEDIA_TYPE
    heartbeat = b": heartbeat\n\n"

    def event(self, event: StreamEvent, media_type: str) -> bytes:
        """See `EventFormat`."""
        match event.kind:
            case "json":
                return b"data: " + _one_line(event.data) + b"\n\n"
            case "text":
                return b"event: gateway-text\ndata: " + exact_json.dumps(event.data.decode()) + b"\n\n"
            case "bytes":
                return b"event: gateway-bytes\ndata: " + _as_base64(event.data, media_type) + b"\n\n"
        head = ""
        # The name as it is written, and as a parser that strips white space reads it.
        if name := _field(event.name):
            head = f"event: {'upstream-' if name.strip().startswith(_RESERVED) else ''}{name}\n"
        if event.id is not None:
            head += f"id: {_field(event.id)}\n"
        if event.retry is not None:
            head += f"retry: {event.retry}\n"
        # In text of other protocols, a CR would begin a new field here.
        data = event.data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
        return head.encode() + b"data: " + data + b"\n\n"

    def ended(self, facts: dict[str, Any]) -> bytes:
        """See `EventFormat`."""
        return b"event: gateway-end\ndata: " + exact_json.dumps(facts) + b"\n\n"

    def failed(self, problem: dict[str, Any]) -> bytes:
        """See `EventFormat`."""
        return b"event: gateway-error\ndata: " + exact_json.dumps(problem) + b"\n\n"


class JsonLines:
    """JSON lines: each is the upstream's JSON value unchanged, a string for text, or an object."""

    heartbeat = b"\n"

    def __init__(self, media_type: str) -> None:
        self.media_type = media_type

    def event(self, event: StreamEvent, media_type: str) -> bytes:
        """See `EventFormat`."""
        match event.kind:
            case "json":
                line = _one_line(event.data)
                return (b'{"$upstream":' + line + b"}\n") if _has_reserved_member(line) else line + b"\n"
            case "text":
                return exact_json.dumps(event.data.decode()) + b"\n"
            case "bytes":
                return _as_base64(event.data, media_type) + b"\n"
        facts: dict[str, Any] = {"event": event.name or "message"}
        if event.id is not None:
            facts["id"] = event.id
        if event.retry is not None:
            facts["retry"] = event.retry
        # Inserted unchanged, so that numbers of any size are preserved.
        return exact_json.dumps(facts)[:-1] + b',"data":' + _json_or_string(event.data) + b"}\n"

    def ended(self, facts: dict[str, Any]) -> bytes:
        """See `EventFormat`."""
        return exact_json.dumps({"$gateway": {"end": facts}}) + b"\n"

    def failed(self, problem: dict[str, Any]) -> bytes:
        """See `EventFormat`."""
        return exact_json.dumps({"$gateway": {"error": problem}}) + b"\n"


class ValueLines:
    """JSON lines that are the data of the upstream's events, as UTCP's `streamable_http` reads them: without
    names, ids and a last line.
    """

    heartbeat = b"\n"

    def __init__(self, media_type: str) -> None:
        self.media_type = f"{media_type};form=values"

    def event(self, event: StreamEvent, media_type: str) -> bytes:
        """See `EventFormat`."""
        match event.kind:
            case "json":
                return _one_line(event.data) + b"\n"
            case "text":
                return exact_json.dumps(event.data.decode()) + b"\n"
            case "bytes":
                return _as_base64(event.data, media_type) + b"\n"
        return _json_or_string(event.data) + b"\n"

    def ended(self, facts: dict[str, Any]) -> bytes:  # noqa: ARG002 - there is no last line.
        """Return nothing: the body ends."""
        return b""

    def failed(self, problem: dict[str, Any]) -> None:
        """Return None: the connection is closed before the end of the body."""


def event_format(media_type: str, *, only_values: bool = False) -> EventFormat:
    """Return the format for a media type of `AcceptedTypes.events`."""
    if media_type == SSE_MEDIA_TYPE:
        return ServerSentEvents()
    return ValueLines(media_type) if only_values else JsonLines(media_type)


def _json_or_string(data: bytes) -> bytes:
    """Return text that is JSON on one line, any other as a JSON string."""
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return exact_json.dumps(data.decode())
    return _one_line(data)


def _field(text: str) -> str:
    """Return a name or id without line ends and NUL, which it may contain in protocols other than SSE."""
    return _NO_FIELD.sub("", text)


def _one_line(json: bytes) -> bytes:
    """Return JSON on one line: line ends occur only between its tokens, where they are white space."""
    return json.replace(b"\r", b" ").replace(b"\n", b" ").strip()


def _as_base64(data: bytes, media_type: str) -> bytes:
    media = parse_essence(media_type) or "application/octet-stream"
    return exact_json.dumps({"media_type": media, "base64": base64.b64encode(data).decode()})


def _has_reserved_member(line: bytes) -> bool:
    if b"gateway" not in line and b"\\" not in line:
        return False
    value = orjson.loads(line)
    return isinstance(value, dict) and ("$gateway" in value or "$upstream" in value)
