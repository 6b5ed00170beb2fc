"""The secrets of a call, masked in all that its upstream responds: body, stream, events, headers, errors.

It stands between the adapter and everything that reads a result: the response cache, the idempotency store,
recorded bodies and the client all get the masked one.

    JSON, text, XML, forms, JavaScript, events, unknown types that begin like text    masked
    images, audio, video, fonts, archives, octet-stream, other binary types           passed on as they are

A body in which nothing is found stays the same bytes with the same headers. One in which something is found
loses the headers that describe the bytes, and `X-Masked` names what was changed. A stream whose head has been
sent already cannot say so any more; one of events says it in its last event.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import Any, Final

from app.errors import GatewayError
from app.outbound.charsets import charset_of
from app.outbound.framing import StreamEvent, is_json, is_textual
from app.protocols.base import BODY_METADATA_HEADERS, MASKED_HEADER, Call, Result
from app.security.response_masking import ResponseMasker, mask_error

_BINARY: Final = ("image/", "audio/", "video/", "font/", "model/", "application/vnd.oasis.opendocument.")
# Of `application/`, whole names; what is not known here is looked at, unless it holds a NUL.
_BINARY_NAMES: Final = frozenset(
    "application/" + name
    for name in (
        "octet-stream", "pdf", "zip", "x-zip", "x-zip-compressed", "gzip", "x-gzip", "x-tar", "x-gtar",
        "x-7z-compressed", "vnd.rar", "x-rar", "x-rar-compressed", "x-bzip", "x-bzip2", "x-xz", "zstd",
        "x-zstd", "x-compress", "x-compressed", "wasm", "protobuf", "x-protobuf", "vnd.google.protobuf",
        "x-google-protobuf", "msgpack", "x-msgpack", "vnd.msgpack", "cbor", "cbor-seq", "avro",
        "vnd.apache.avro", "vnd.apache.parquet", "x-parquet", "grpc", "grpc+proto", "grpc-web",
        "grpc-web+proto", "msword", "vnd.ms-excel", "vnd.ms-powerpoint", "vnd.ms-outlook", "java-archive",
        "x-java-archive", "vnd.sqlite3", "x-sqlite3", "x-executable",
    )
)  # fmt: skip
# Structured syntax suffixes (RFC 6839 and the registry of IANA).
_BINARY_SUFFIXES: Final = ("+zip", "+gzip", "+zstd", "+cbor", "+cbor-seq", "+der", "+wbxml", "+fastinfoset")
_UTF8: Final = frozenset(
    {"application/json", "application/json; charset=utf-8", "application/json;charset=utf-8"}
)
_WIDE: Final = ("utf-16", "utf-32", "utf16", "utf32")
# A megabyte is masked in about a millisecond: then others have their turn.
_TURN: Final = 1 << 20
_SNIFFED: Final = 1024
_SMALL: Final = 8 << 10
# What `json.detect_encoding` looks at.
_BEGINNING: Final = 4


async def masked(sending: Awaitable[Result], call: Call) -> Result:
    """Return the result of an adapter's call, or raise its error, without the call's secrets."""
    try:
        result = await sending
    except GatewayError as error:
        if call.masker is not None:
            mask_error(error, call.masker)
        raise
    if call.masker is not None:
        if result.body is not None and len(result.body) > _TURN:
            await _mask_large(result, call.masker)
        else:
            mask_result(result, call.masker)
    return result


def mask_result(result: Result, masker: ResponseMasker) -> None:
    """Mask a result in place: its headers and body now, its stream and events as they come."""
    if _is_clean(result, masker):
        return
    _mask_headers(result, masker)
    if result.is_content_coded:
        # Its operator has chosen to pass on what nobody can read here.
        return
    if result.body:
        reader = _reader(masker, result.media_type, result.body)
        if reader is not None:
            of_json = is_json(_media(result.media_type))
            body = reader.mask_json(result.body) if of_json else reader.mask(result.body)
            if body is not result.body:
                _replace_body(result, body)
    elif result.stream is not None and not _is_binary(_media(result.media_type)):
        result.stream = _stream(result.stream, result, masker)
    if result.events is not None:
        result.events = _events(result.events, result, masker)


def _is_clean(result: Result, masker: ResponseMasker) -> bool:
    """Whether a small JSON body and its headers hold nothing for certain; most do, and are looked at once."""
    body = result.body
    if body is None or len(body) > _SMALL or result.events is not None or result.media_type not in _UTF8:
        return False
    headers = result.headers
    text = body + "\n".join([part for pair in headers for part in pair]).encode() if headers else body
    return masker.is_clean(text)


def _mask_headers(result: Result, masker: ResponseMasker) -> None:
    headers = result.headers
    if headers and (changed := masker.mask_headers(headers)) is not headers:
        result.headers = changed
        _note_masked(result, "headers")
    if result.media_type and result.media_type not in _UTF8:
        media_type = masker.mask_text(result.media_type)
        if media_type is not result.media_type:
            result.media_type = media_type
            _note_masked(result, "headers")


async def _mask_large(result: Result, masker: ResponseMasker) -> None:
    """The same for a body that would keep others waiting."""
    body, result.body = result.body or b"", None
    _mask_headers(result, masker)
    reader = None if result.is_content_coded else _reader(masker, result.media_type, body)
    if reader is not None:
        stream = reader.stream_masker()
        pieces = []
        for start in range(0, len(body), _TURN):
            pieces.append(stream.feed(body[start : start + _TURN]))
            await asyncio.sleep(0)
        pieces.append(stream.flush())
        if stream.has_masked:
            _replace_body(result, b"".join(pieces))
            body = result.body or b""
    result.body = body
    if result.events is not None:
        result.events = _events(result.events, result, masker)


def _replace_body(result: Result, body: bytes) -> None:
    result.body = body
    _note_masked(result, "body")


def _note_masked(result: Result, part: str) -> None:
    """Note that a part was changed. It reaches the client as long as the head has not been sent."""
    result.is_masked = True
    parts = {part}
    dropped = BODY_METADATA_HEADERS if part == "body" else frozenset()
    headers = []
    for name, value in result.headers:
        if name == MASKED_HEADER:
            parts |= set(value.split(", "))
        elif name.lower() not in dropped:
            headers.append((name, value))
    headers.append((MASKED_HEADER, ", ".join(sorted(parts))))
    result.headers = headers


async def _stream(
    pieces: AsyncIterator[bytes], result: Result, masker: ResponseMasker
) -> AsyncGenerator[bytes, None]:
    """The body's pieces. What may be the beginning of a secret waits for the next piece; so do the first
    bytes, until there are enough to tell its charset.
    """
    stream = None
    binary = False
    begun = b""
    async with _closing(pieces):
        try:
            async for arrived in pieces:
                piece = begun + arrived if begun else arrived
                if stream is None and not binary:
                    if len(piece) < _BEGINNING:
                        begun = piece
                        continue
                    begun = b""
                    reader = _reader(masker, result.media_type, piece)
                    binary = reader is None
                    stream = None if reader is None else reader.stream_masker()
                if stream is None:
                    yield piece
                    continue
                passed = stream.feed(piece)
                if stream.has_masked and not result.is_masked:
                    _note_masked(result, "body")
                if passed:
                    yield passed
        except GatewayError as error:
            mask_error(error, masker)
            raise
        if begun:
            # Less than the shortest secret has.
            yield begun
        if stream is not None and (rest := stream.flush()):
            if stream.has_masked:
                _note_masked(result, "body")
            yield rest


async def _events(
    events: AsyncGenerator[StreamEvent, None], result: Result, masker: ResponseMasker
) -> AsyncGenerator[StreamEvent, None]:
    """The events. Where they are pieces of one text, a secret may begin in one and end in the next."""
    text = masker.stream_masker() if result.has_text_pieces else None
    async with contextlib.aclosing(events):
        try:
            async for event in events:
                if text is not None and event.kind == "text":
                    event.data = text.feed(event.data)
                    result.is_masked = result.is_masked or text.has_masked
                    if event.data:
                        yield event
                    continue
                _mask_event(event, result, masker)
                yield event
        except GatewayError as error:
            mask_error(error, masker)
            raise
        if text is not None and (rest := text.flush()):
            result.is_masked = result.is_masked or text.has_masked
            yield StreamEvent(rest, "text")


def _mask_event(event: StreamEvent, result: Result, masker: ResponseMasker) -> None:
    if event.kind == "bytes":
        return
    data = masker.mask(event.data) if event.kind == "text" else masker.mask_json(event.data)
    name = masker.mask_text(event.name) if event.name else event.name
    number = masker.mask_text(event.id) if event.id else event.id
    if data is not event.data or name is not event.name or number is not event.id:
        event.data, event.name, event.id = data, name, number
        result.is_masked = True


def _reader(masker: ResponseMasker, media_type: str, beginning: bytes) -> ResponseMasker | None:
    """What masks a body of this type; None for one that is not looked at."""
    if media_type in _UTF8 and b"\x00" not in beginning[:4]:
        return masker
    media = _media(media_type)
    if _is_binary(media):
        return None
    charset = charset_of(media_type) or "utf-8"
    if is_textual(media):
        if b"\x00" in beginning[:4] or beginning[:2] in (b"\xff\xfe", b"\xfe\xff"):
            shown = json.detect_encoding(beginning[:4])
            charset = charset if shown.startswith("utf-8") else shown
        if charset.startswith(_WIDE) or (not charset.startswith("utf") and not masker.is_ascii):
            return masker.in_charset(charset)
        return masker
    return None if b"\x00" in beginning[:_SNIFFED] else masker


def _is_binary(media: str) -> bool:
    if is_textual(media):
        return False
    return media in _BINARY_NAMES or media.startswith(_BINARY) or media.endswith(_BINARY_SUFFIXES)


def _media(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def _closing(pieces: AsyncIterator[bytes]) -> contextlib.AbstractAsyncContextManager[Any]:
    if isinstance(pieces, AsyncGenerator):
        return contextlib.aclosing(pieces)
    return contextlib.nullcontext()
