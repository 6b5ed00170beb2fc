"""Lists as bodies of sequential media types (OAS 3.2): JSON lines, JSON sequences, server-sent events."""

from collections.abc import Callable
from typing import Any, Final

from app.core.errors import FieldError, InvalidArguments
from app.core.text import pointer
from app.formats.utcp.percent import write_json, write_scalar

_JSON_LINES: Final = frozenset(
    "application/" + name for name in ("jsonl", "x-jsonl", "jsonlines", "x-jsonlines", "ndjson", "x-ndjson")
)
_EVENTS: Final = "text/event-stream"
_EVENT_FIELDS: Final = ("event", "id", "retry")
_RECORD_SEPARATOR: Final = "\x1e"

SequenceEncoder = Callable[[list[Any], str], str]


def sequence_encoder(media: str) -> SequenceEncoder | None:
    """Return the function that writes a list in a media type (without parameters); None where that is not a
    sequential one.

    It takes the list and its pointer in the arguments, and raises InvalidArguments.
    """
    if media in _JSON_LINES:
        return _json_lines
    if media == "application/json-seq" or media.endswith("+json-seq"):
        return _json_sequence
    return _events if media == _EVENTS else None


def _json_lines(items: list[Any], _at: str) -> str:
    return "".join(f"{write_json(item)}\n" for item in items)


def _json_sequence(items: list[Any], _at: str) -> str:
    # RFC 7464 section 2.2: the line feed shows that a number at the end is complete.
    return "".join(f"{_RECORD_SEPARATOR}{write_json(item)}\n" for item in items)


def _events(items: list[Any], at: str) -> str:
    return "".join(_event(item, pointer(at, index)) for index, item in enumerate(items))


def _event(item: Any, at: str) -> str:
    """Return one event of https://html.spec.whatwg.org/multipage/server-sent-events.html, section 9.2.5.

    An object has its fields `event`, `data`, `id` and `retry`; anything else is the data of an event.
    """
    fields = item if isinstance(item, dict) else {"data": item}
    lines: list[str] = []
    for name in _EVENT_FIELDS:
        if fields.get(name) is None:
            continue
        text = write_scalar(fields[name])
        if any(character in text for character in "\r\n\0"):
            detail = "Give text without line breaks and NUL characters."
            raise InvalidArguments(
                "A field of an event has a line break", errors=[FieldError(pointer(at, name), detail)]
            )
        lines.append(f"{name}: {text}\n")
    unknown = [name for name in fields if name not in (*_EVENT_FIELDS, "data")]
    if unknown:
        errors = [
            FieldError(pointer(at, name), "An event has event, data, id and retry.") for name in unknown
        ]
        raise InvalidArguments("An event has no such field", errors=errors)
    if fields.get("data") is not None:
        text = write_scalar(fields["data"]).replace("\r\n", "\n").replace("\r", "\n")
        lines += [f"data: {line}\n" for line in text.split("\n")]
    return "".join(lines) + "\n"
