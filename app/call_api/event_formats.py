"""Events -> the bytes of the two formats in which a client may take them: server-sent events, and NDJSON.

What the gateway says itself can be told from what an upstream says. In SSE its event names begin with
`gateway-`, and an upstream's own name of that kind gets `upstream-` in front. In NDJSON its last line is an
object with the member `$gateway`, and an upstream's own object with one is wrapped: `{"$upstream": ...}`.
"""

import base64
import re
from typing import Any, Final, Protocol

import orjson

from app.outbound.framing import SSE_MEDIA_TYPE, StreamEvent

_RESERVED: Final = "gateway-"
_NO_FIELD: Final = re.compile(r"[\r\n\x00]")


class EventFormat(Protocol):
    """One format; `media_type` is the Content-Type of the response."""

    media_type: str
    heartbeat: bytes

    def event(self, event: StreamEvent, media_type: str) -> bytes:
        """Return an upstream's event; `media_type` is that of its response."""

    def ended(self, facts: dict[str, Any]) -> bytes:
        """Return the last event of a response that is whole."""

    def failed(self, problem: dict[str, Any]) -> bytes:
        """Return the last event of one that is not."""


class ServerSentEvents:
    """`data` is an upstream's own for its events; for all else it is JSON on one line."""

    media_type = SSE_MEDIA_TYPE
    heartbeat = b": heartbeat\n\n"

    def event(self, event: StreamEvent, media_type: str) -> bytes:
        """See `EventFormat`."""
        match event.kind:
            case "json":
                return b"data: " + _one_line(event.data) + b"\n\n"
            case "text":
                return b"event: gateway-text\ndata: " + orjson.dumps(event.data.decode()) + b"\n\n"
            case "bytes":
                return b"event: gateway-bytes\ndata: " + _as_base64(event.data, media_type) + b"\n\n"
        head = ""
        # As it will stand there, and as a reader will see it that strips blanks.
        if name := _field(event.name):
            head = f"event: {'upstream-' if name.strip().startswith(_RESERVED) else ''}{name}\n"
        if event.id is not None:
            head += f"id: {_field(event.id)}\n"
        if event.retry is not None:
            head += f"retry: {event.retry}\n"
        # Its lines were split by the parser; a CR of another protocol's text would begin a field here.
        data = event.data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
        return head.encode() + b"data: " + data + b"\n\n"

    def ended(self, facts: dict[str, Any]) -> bytes:
        """See `EventFormat`."""
        return b"event: gateway-end\ndata: " + orjson.dumps(facts) + b"\n\n"

    def failed(self, problem: dict[str, Any]) -> bytes:
        """See `EventFormat`."""
        return b"event: gateway-error\ndata: " + orjson.dumps(problem) + b"\n\n"


class JsonLines:
    """A line is an upstream's JSON as it is, a string for text, or an object."""

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
                return orjson.dumps(event.data.decode()) + b"\n"
            case "bytes":
                return _as_base64(event.data, media_type) + b"\n"
        facts: dict[str, Any] = {"event": event.name or "message"}
        if event.id is not None:
            facts["id"] = event.id
        if event.retry is not None:
            facts["retry"] = event.retry
        try:
            orjson.loads(event.data)
            data = _one_line(event.data)
        except orjson.JSONDecodeError:
            data = orjson.dumps(event.data.decode())
        # Put in as it is, so that numbers of any size stay what they are.
        return orjson.dumps(facts)[:-1] + b',"data":' + data + b"}\n"

    def ended(self, facts: dict[str, Any]) -> bytes:
        """See `EventFormat`."""
        return orjson.dumps({"$gateway": {"end": facts}}) + b"\n"

    def failed(self, problem: dict[str, Any]) -> bytes:
        """See `EventFormat`."""
        return orjson.dumps({"$gateway": {"error": problem}}) + b"\n"


def event_format(media_type: str) -> EventFormat:
    """Return the format for a media type of `AcceptedTypes.events`."""
    return ServerSentEvents() if media_type == SSE_MEDIA_TYPE else JsonLines(media_type)


def _field(text: str) -> str:
    """A name or an id, which other protocols than SSE might give a line end or a NUL."""
    return _NO_FIELD.sub("", text)


def _one_line(json: bytes) -> bytes:
    """JSON on one line: between its tokens, line ends are white space, and within them they cannot be."""
    return json.replace(b"\r", b" ").replace(b"\n", b" ").strip()


def _as_base64(data: bytes, media_type: str) -> bytes:
    media = media_type.partition(";")[0].strip().lower() or "application/octet-stream"
    return orjson.dumps({"media_type": media, "base64": base64.b64encode(data).decode()})


def _has_reserved_member(line: bytes) -> bool:
    if b"gateway" not in line and b"\\" not in line:
        return False
    value = orjson.loads(line)
    return isinstance(value, dict) and ("$gateway" in value or "$upstream" in value)
