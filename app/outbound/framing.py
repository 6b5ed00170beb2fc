"""What an upstream sends in pieces -> events, incrementally and within bounds, whatever the pieces are.

Understood by media type: server-sent events (WHATWG HTML section 9.2), lines of JSON (NDJSON, JSON Lines, RFC
7464 sequences), JSON (one event), text and bytes (an event for each piece).
"""

import codecs
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final, Literal

import orjson

from app.errors import ResponseTooLarge
from app.outbound.charsets import charset_of, decoded

SSE: Final = "text/event-stream"
LINES: Final = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonl"}
)
STREAMED: Final = LINES | {SSE, "application/json-seq"}
"""The media types of answers that are made of events."""

_TEXTUAL: Final = (
    "xml", "yaml", "javascript", "x-www-form-urlencoded", "graphql", "ndjson", "jsonl", "toml",
)  # fmt: skip
_END_OF_LINE: Final = re.compile(rb"\r\n?|\n")
_WHITE: Final = b" \t\r\x1e"


@dataclass(slots=True)
class Event:
    """One event of an answer. By `kind`, `data` is

    - `message`: UTF-8 text, of an upstream whose events may have a name, an id and a retry time in ms;
    - `json`: one JSON value; `text`: a piece of UTF-8 text; `bytes`: a piece of anything else.
    """

    data: bytes
    kind: Literal["message", "json", "text", "bytes"] = "message"
    name: str = ""
    id: str | None = None
    retry: int | None = None


class SseParser:
    """Bytes of an event stream -> events. Comments are dropped, as is an event that its stream cuts off.

    `feed` raises ResponseTooLarge for an event, or a line, of more than `most` bytes.
    """

    __slots__ = ("_begun", "_cr", "_data", "_id", "_line", "_most", "_name", "_retry")

    def __init__(self, most: int) -> None:
        self._most = most
        self._line = bytearray()
        self._begun = False
        self._cr = False
        self._data = bytearray()
        self._name = b""
        self._id: bytes | None = None
        self._retry: int | None = None

    def feed(self, piece: bytes) -> Iterator[Event]:
        """The events that end in `piece`; take them all before the next piece."""
        if not piece:
            return
        # A CR at the end of the piece before has ended its line already.
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

    def end(self) -> Iterator[Event]:
        """Nothing: an event without the empty line after it has been cut off."""
        return iter(())

    def _take(self, line: bytes) -> Event | None:
        if not self._begun:
            self._begun = True
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

    def _dispatch(self) -> Event | None:
        name, self._name = self._name, b""
        if not self._data:
            # An id or a retry time alone goes with the next event.
            return None
        event = Event(
            _utf8(bytes(self._data[:-1])),
            name=name.decode("utf-8", "replace"),
            id=None if self._id is None else self._id.decode("utf-8", "replace"),
            retry=self._retry,
        )
        self._data.clear()
        self._id = self._retry = None
        return event

    def _check(self, more: int) -> None:
        if len(self._data) + more > self._most:
            raise _too_large(self._most)


class LineParser:
    """Bytes of NDJSON, JSON Lines or RFC 7464 -> events: `json`, or `text` for a line that is no JSON.

    Empty lines are dropped. Raises ResponseTooLarge for a line of more than `most` bytes.
    """

    __slots__ = ("_line", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._line = bytearray()

    def feed(self, piece: bytes) -> Iterator[Event]:
        """The lines that end in `piece`; take them all before the next piece."""
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            line = piece[start:end]
            start = end + 1
            if self._line:
                self._line += line
                line = bytes(self._line)
                self._line.clear()
            yield from self._event(line)
        self._line += piece[start:]
        if len(self._line) > self._most:
            raise _too_large(self._most)

    def end(self) -> Iterator[Event]:
        """The last line, where no end of line came after it."""
        yield from self._event(bytes(self._line))
        self._line.clear()

    def _event(self, line: bytes) -> Iterator[Event]:
        if len(line) > self._most:
            raise _too_large(self._most)
        line = line.strip(_WHITE)
        if line:
            yield Event(line, "json") if _is_json(line) else Event(_utf8(line), "text")


async def framed(pieces: AsyncIterator[bytes], media_type: str, *, most: int) -> AsyncGenerator[Event, None]:
    """An answer as events, by its whole Content-Type; one event has at most `most` bytes.

    Raises what `pieces` raises, and ResponseTooLarge.
    """
    media = media_type.partition(";")[0].strip().lower()
    if media in STREAMED:
        parser = SseParser(most) if media == SSE else LineParser(most)
        async for piece in pieces:
            for event in parser.feed(piece):
                yield event
        for event in parser.end():
            yield event
        return
    if is_json(media):
        events = _whole(pieces, media_type, most)
    elif is_textual(media):
        events = _texts(pieces, charset_of(media_type) or "utf-8")
    else:
        events = _bytes(pieces)
    async for event in events:
        yield event


def is_textual(media: str) -> bool:
    """Whether a media type without parameters, in lower case, is text or JSON, as far as its name tells."""
    return media.startswith("text/") or is_json(media) or any(word in media for word in _TEXTUAL)


def is_json(media: str) -> bool:
    """Whether a media type without parameters, in lower case, is JSON (RFC 6839 section 3.1)."""
    return media == "application/json" or media.endswith("+json") or media == "text/json"


async def _whole(pieces: AsyncIterator[bytes], media_type: str, most: int) -> AsyncIterator[Event]:
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > most:
            raise ResponseTooLarge(
                f"The answer is JSON of more than {most} bytes, which is too large for one event: "
                "ask for it with `Accept: application/json`."
            )
    if not body:
        return
    try:
        text = decoded(bytes(body), charset_of(media_type) or "utf-8").removeprefix("\ufeff").encode()
    except UnicodeDecodeError:
        text = _utf8(bytes(body))
    yield Event(text, "json") if _is_json(text) else Event(text, "text")


async def _bytes(pieces: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    async for piece in pieces:
        yield Event(piece, "bytes")


async def _texts(pieces: AsyncIterator[bytes], charset: str) -> AsyncIterator[Event]:
    """Text piece by piece; a character that two pieces share comes with the second."""
    try:
        decoder = codecs.getincrementaldecoder(charset)("replace")
    except LookupError:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
    async for piece in pieces:
        if text := decoder.decode(piece):
            yield Event(text.encode("utf-8", "replace"), "text")
    if text := decoder.decode(b"", final=True):
        yield Event(text.encode("utf-8", "replace"), "text")


def _is_json(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _utf8(text: bytes) -> bytes:
    return text.decode("utf-8", "replace").encode()


def _too_large(most: int) -> ResponseTooLarge:
    return ResponseTooLarge(f"One event of the upstream's answer has more than {most} bytes.")
