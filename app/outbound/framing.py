"""Splitting a streamed response into events, incrementally and within limits, however it is split in pieces.

The media type decides: server-sent events (WHATWG HTML section 9.2), JSON by lines (NDJSON, JSON Lines), JSON
text sequences (RFC 7464), JSON (one event), text and bytes (an event for each piece).
"""

import codecs
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import orjson

from app.core.errors import ResponseTooLarge
from app.core.media_types import is_json, is_textual, parse_essence
from app.outbound.charsets import charset_of, decode_text

SSE_MEDIA_TYPE: Final = "text/event-stream"
JSON_LINES_MEDIA_TYPES: Final = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonl"}
)
JSON_SEQUENCE_MEDIA_TYPE: Final = "application/json-seq"
EVENT_MEDIA_TYPES: Final = JSON_LINES_MEDIA_TYPES | {SSE_MEDIA_TYPE, JSON_SEQUENCE_MEDIA_TYPE}
"""The media types of responses that consist of events."""
UTF8_JSON_TYPES: Final = frozenset(
    {"application/json", "application/json; charset=utf-8", "application/json;charset=utf-8"}
)
"""The usual values of Content-Type for JSON in UTF-8; others may mean the same."""

_END_OF_LINE: Final = re.compile(rb"\r\n?|\n")
_WHITE_SPACE: Final = b" \t\r\n"


@dataclass(slots=True)
class StreamEvent:
    """One event of a response. `kind` says what `data` holds:

    - `message`: UTF-8 text of a server-sent event, which may have a name, an id and a retry time in ms;
    - `json`: one JSON value; `text`: a piece of UTF-8 text; `bytes`: a piece of anything else.
    """

    data: bytes
    kind: Literal["message", "json", "text", "bytes"] = "message"
    name: str = ""
    id: str | None = None
    retry: int | None = None


class SseParser:
    """A parser of server-sent events. Comments are dropped, and an incomplete event at the end of the stream.

    `feed` raises ResponseTooLarge for an event, or a line, of more than `max_bytes`.
    """

    __slots__ = ("_bom_checked", "_cr", "_data", "_id", "_line", "_max_bytes", "_name", "_retry")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._line = bytearray()
        self._bom_checked = False
        self._cr = False
        self._data = bytearray()
        self._name = b""
        self._id: bytes | None = None
        self._retry: int | None = None

    def feed(self, piece: bytes) -> Iterator[StreamEvent]:
        """Yield the events that end in `piece`; consume them all before feeding the next piece."""
        if not piece:
            return
        # A CR at the end of the previous piece has ended its line already.
        start = 1 if self._cr and piece[0] == 0x0A else 0
        while ended := _END_OF_LINE.search(piece, start):
            line = piece[start : ended.start()]
            if self._line:
                self._line += line
                line = bytes(self._line)
                self._line.clear()
            start = ended.end()
            event = self._take(line)
            if event is not None:
                yield event
        self._cr = piece.endswith(b"\r")
        if start < len(piece):
            self._line += piece[start:]
        self._check(len(self._line))

    def end(self) -> Iterator[StreamEvent]:
        """Return no events: an event without an empty line after it is incomplete."""
        return iter(())

    def _take(self, line: bytes) -> StreamEvent | None:
        if not self._bom_checked:
            self._bom_checked = True
            line = line.removeprefix(codecs.BOM_UTF8)
        if not line:
            return self._dispatch()
        self._check(len(line))
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data += value + b"\n"
            case b"event":
                self._name = value
            case b"id" if b"\x00" not in value:
                self._id = value
            case b"retry" if value.isdigit() and len(value) < 16:
                self._retry = int(value)
        return None

    def _dispatch(self) -> StreamEvent | None:
        name, self._name = self._name, b""
        if not self._data:
            # An id or a retry time without data belongs to the next event.
            return None
        event = StreamEvent(
            _utf8(bytes(self._data[:-1])),
            name=name.decode("utf-8", "replace"),
            id=None if self._id is None else self._id.decode("utf-8", "replace"),
            retry=self._retry,
        )
        self._data.clear()
        self._id = self._retry = None
        return event

    def _check(self, more: int) -> None:
        if len(self._data) + more > self._max_bytes:
            raise _too_large(self._max_bytes)


class LineParser:
    """A parser of NDJSON and JSON Lines: a `json` event, or `text` for a line that is not JSON.

    Empty lines are dropped. Raises ResponseTooLarge for a line of more than `max_bytes`.
    """

    __slots__ = ("_line", "_max_bytes")
    _separator: ClassVar[bytes] = b"\n"

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._line = bytearray()

    def feed(self, piece: bytes) -> Iterator[StreamEvent]:
        """Yield the events of the lines that end in `piece`; consume them all before feeding the next one."""
        start = 0
        while (end := piece.find(self._separator, start)) >= 0:
            line = piece[start:end]
            start = end + 1
            if self._line:
                self._line += line
                line = bytes(self._line)
                self._line.clear()
            yield from self._event(line)
        self._line += piece[start:]
        if len(self._line) > self._max_bytes:
            raise _too_large(self._max_bytes)

    def end(self) -> Iterator[StreamEvent]:
        """Yield the event of the last line, where no line end follows it."""
        yield from self._event(bytes(self._line))
        self._line.clear()

    def _event(self, line: bytes) -> Iterator[StreamEvent]:
        if len(line) > self._max_bytes:
            raise _too_large(self._max_bytes)
        text = line.strip(_WHITE_SPACE)
        if text and not self._may_be_truncated(line):
            yield StreamEvent(text, "json") if _is_json(text) else StreamEvent(_utf8(text), "text")

    def _may_be_truncated(self, line: bytes) -> bool:  # noqa: ARG002 - a line has an end.
        return False


class SequenceParser(LineParser):
    """A parser of JSON text sequences (RFC 7464): as `LineParser`, of texts that each begin with U+001E.

    A text may have several lines. A number, `true`, `false` or `null` without white space after it may be the
    beginning of another one, and is dropped (section 2.4).
    """

    __slots__ = ()
    _separator = b"\x1e"

    def _may_be_truncated(self, line: bytes) -> bool:
        return line[-1] not in _WHITE_SPACE and line.lstrip(_WHITE_SPACE)[:1] not in b'{["' and _is_json(line)


_EVENT_PARSERS: Final[Mapping[str, type[SseParser] | type[LineParser]]] = {
    SSE_MEDIA_TYPE: SseParser,
    JSON_SEQUENCE_MEDIA_TYPE: SequenceParser,
}


async def parse_events(
    pieces: AsyncIterator[bytes], media_type: str, *, max_bytes: int
) -> AsyncGenerator[StreamEvent, None]:
    """Yield a response's body as events of at most `max_bytes` bytes each.

    `pieces` is the decoded body, split anywhere; `media_type` is its whole Content-Type.
    Raises what `pieces` raises, and ResponseTooLarge.
    """
    media = parse_essence(media_type)
    if media in EVENT_MEDIA_TYPES:
        parser = _EVENT_PARSERS.get(media, LineParser)(max_bytes)
        async for piece in pieces:
            for event in parser.feed(piece):
                yield event
        for event in parser.end():
            yield event
        return
    if is_json(media):
        events = _single_json_event(pieces, media_type, max_bytes)
    elif is_textual(media):
        events = _texts(pieces, charset_of(media_type) or "utf-8")
    else:
        events = _bytes(pieces)
    async for event in events:
        yield event


async def _single_json_event(
    pieces: AsyncIterator[bytes], media_type: str, max_bytes: int
) -> AsyncIterator[StreamEvent]:
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > max_bytes:
            raise ResponseTooLarge(
                f"The response is JSON of more than {max_bytes} bytes, which is too large for one event: "
                "request it with `Accept: application/json`."
            )
    if not body:
        return
    try:
        text = decode_text(bytes(body), charset_of(media_type) or "utf-8").removeprefix("\ufeff").encode()
    except UnicodeDecodeError:
        text = _utf8(bytes(body))
    yield StreamEvent(text, "json") if _is_json(text) else StreamEvent(text, "text")


async def _bytes(pieces: AsyncIterator[bytes]) -> AsyncIterator[StreamEvent]:
    async for piece in pieces:
        yield StreamEvent(piece, "bytes")


async def _texts(pieces: AsyncIterator[bytes], charset: str) -> AsyncIterator[StreamEvent]:
    """Yield text piece by piece; a character that is split between two pieces comes with the second."""
    try:
        decoder = codecs.getincrementaldecoder(charset)("replace")
    except LookupError:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
    async for piece in pieces:
        if text := decoder.decode(piece):
            yield StreamEvent(text.encode("utf-8", "replace"), "text")
    if text := decoder.decode(b"", final=True):
        yield StreamEvent(text.encode("utf-8", "replace"), "text")


def _is_json(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _utf8(text: bytes) -> bytes:
    return text.decode("utf-8", "replace").encode()


def _too_large(max_bytes: int) -> ResponseTooLarge:
    return ResponseTooLarge(f"One event of the upstream's response has more than {max_bytes} bytes.")
