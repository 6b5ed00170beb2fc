"""Masking the secrets of a call in its upstream's response: body, stream, events, headers and errors.

The result of an adapter is masked before anything else reads it: the response cache, the idempotency store,
recorded bodies and the client get the masked result.

    JSON, text, XML, forms, JavaScript, events, unknown types that begin like text    masked
    images, audio, video, fonts, archives, octet-stream, other binary types           passed on unchanged

A body without secrets is passed on byte for byte, with the same headers. From a response with a masked body,
the headers that describe its bytes are removed, and `X-Masked` names the parts that were changed. Where the
head of a stream has already been sent, that header is missing; a stream of events reports masking in its last
event.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Final

from app.core.errors import GatewayError
from app.core.media_types import is_json, is_textual, parse_essence
from app.outbound.charsets import charset_of
from app.outbound.framing import UTF8_JSON_TYPES, StreamEvent
from app.protocols.base import BODY_METADATA_HEADERS, MASKED_HEADER, Call, Result
from app.security.response_masking import ResponseMasker, mask_error

_BINARY: Final = (
    "image/", "audio/", "video/", "font/", "model/", "application/vnd.oasis.opendocument.",
    "application/vnd.openxmlformats-officedocument.",
)  # fmt: skip
# Subtypes of `application`; a body of any other type is masked, unless it contains a NUL.
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
_WIDE: Final = ("utf-16", "utf-32", "utf16", "utf32")
# A megabyte is masked in about a millisecond; then the event loop runs other tasks.
_CHUNK: Final = 1 << 20
_SNIFFED_BYTES: Final = 1024
_SMALL_BYTES: Final = 8 << 10
# The number of bytes that `json.detect_encoding` reads.
_ENCODING_BYTES: Final = 4


Sender = Callable[[Call[Any]], Awaitable[Result]]
"""Makes one attempt of a call: the `call` of an adapter."""


async def call_and_mask(sender: Sender, call: Call[Any]) -> Result:
    """Return the result of one attempt, or raise its error, with the secrets of the call masked."""
    try:
        result = await sender(call)
    except GatewayError as error:
        if call.masker is not None:
            mask_error(error, call.masker)
        raise
    if call.masker is not None:
        if result.body is not None and len(result.body) > _CHUNK:
            await _mask_large(result, call.masker)
        else:
            mask_result(result, call.masker)
    return result


def mask_result(result: Result, masker: ResponseMasker) -> None:
    """Mask a result in place: headers and body at once, a stream and events as they are read."""
    if _is_clean(result, masker):
        return
    _mask_headers(result, masker)
    if result.is_content_coded:
        # The operator has chosen to pass content codings on, so the body cannot be read here.
        return
    if result.body:
        body_masker = _choose_masker(masker, result.media_type, result.body)
        if body_masker is not None:
            of_json = is_json(result.media_type)
            body = body_masker.mask_json(result.body) if of_json else body_masker.mask(result.body)
            if body is not result.body:
                _replace_body(result, body)
    elif result.stream is not None and not _is_binary(parse_essence(result.media_type)):
        result.stream = _mask_stream(result.stream, result, masker)
    if result.events is not None:
        result.events = _mask_events(result.events, result, masker)


def _is_clean(result: Result, masker: ResponseMasker) -> bool:
    """Return whether a small JSON body and its headers certainly contain no secret: the common case, in one
    search.
    """
    body = result.body
    if (
        body is None
        or len(body) > _SMALL_BYTES
        or result.events is not None
        or result.media_type not in UTF8_JSON_TYPES
    ):
        return False
    headers = result.headers
    text = body + "\n".join([part for pair in headers for part in pair]).encode() if headers else body
    return masker.is_clean(text)


def _mask_headers(result: Result, masker: ResponseMasker) -> None:
    headers = result.headers
    if headers and (changed := masker.mask_headers(headers)) is not headers:
        result.headers = changed
        _note_masked(result, "headers")
    if result.media_type and result.media_type not in UTF8_JSON_TYPES:
        media_type = masker.mask_text(result.media_type)
        if media_type is not result.media_type:
            result.media_type = media_type
            _note_masked(result, "headers")


async def _mask_large(result: Result, masker: ResponseMasker) -> None:
    """Mask a result with a large body as `mask_result` does, without blocking the event loop."""
    body, result.body = result.body or b"", None
    _mask_headers(result, masker)
    body_masker = None if result.is_content_coded else _choose_masker(masker, result.media_type, body)
    if body_masker is not None:
        stream = body_masker.stream_masker()
        pieces = []
        for start in range(0, len(body), _CHUNK):
            pieces.append(stream.feed(body[start : start + _CHUNK]))
            await asyncio.sleep(0)
        pieces.append(stream.flush())
        if stream.has_masked:
            _replace_body(result, b"".join(pieces))
            body = result.body or b""
    result.body = body
    if result.events is not None:
        result.events = _mask_events(result.events, result, masker)


def _replace_body(result: Result, body: bytes) -> None:
    result.body = body
    _note_masked(result, "body")


def _note_masked(result: Result, part: str) -> None:
    """Set that a part (`body` or `headers`) was changed, in `is_masked` and in the header X-Masked."""
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


async def _mask_stream(
    pieces: AsyncIterator[bytes], result: Result, masker: ResponseMasker
) -> AsyncGenerator[bytes, None]:
    """Yield the body's pieces, masked.

    The end of a piece that may be the beginning of a secret is held back until the next piece; so are the
    first bytes, until the charset can be detected.
    """
    stream = None
    is_binary = False
    held_back = b""
    async with _ensure_closed(pieces):
        try:
            async for arrived in pieces:
                piece = held_back + arrived if held_back else arrived
                if stream is None and not is_binary:
                    if len(piece) < _ENCODING_BYTES:
                        held_back = piece
                        continue
                    held_back = b""
                    body_masker = _choose_masker(masker, result.media_type, piece)
                    is_binary = body_masker is None
                    stream = None if body_masker is None else body_masker.stream_masker()
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
        if held_back:
            # Shorter than the shortest secret.
            yield held_back
        if stream is not None and (rest := stream.flush()):
            if stream.has_masked:
                _note_masked(result, "body")
            yield rest


async def _mask_events(
    events: AsyncGenerator[StreamEvent, None], result: Result, masker: ResponseMasker
) -> AsyncGenerator[StreamEvent, None]:
    """Yield the events, masked. Where they are pieces of one text, a secret may span several of them."""
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


def _choose_masker(masker: ResponseMasker, media_type: str, beginning: bytes) -> ResponseMasker | None:
    """Return the masker for a body of this type that begins with these bytes; None for a binary body."""
    if media_type in UTF8_JSON_TYPES and b"\x00" not in beginning[:4]:
        return masker
    media = parse_essence(media_type)
    if _is_binary(media):
        return None
    charset = charset_of(media_type) or "utf-8"
    if is_textual(media):
        if b"\x00" in beginning[:4] or beginning[:2] in (b"\xff\xfe", b"\xfe\xff"):
            detected = json.detect_encoding(beginning[:4])
            charset = charset if detected.startswith("utf-8") else detected
        if charset.startswith(_WIDE) or (not charset.startswith("utf") and not masker.is_ascii):
            return masker.in_charset(charset)
        return masker
    return None if b"\x00" in beginning[:_SNIFFED_BYTES] else masker


def _is_binary(media: str) -> bool:
    if is_textual(media):
        return False
    return media in _BINARY_NAMES or media.startswith(_BINARY) or media.endswith(_BINARY_SUFFIXES)


def _ensure_closed(pieces: AsyncIterator[bytes]) -> contextlib.AbstractAsyncContextManager[Any]:
    if isinstance(pieces, AsyncGenerator):
        return contextlib.aclosing(pieces)
    return contextlib.nullcontext()
