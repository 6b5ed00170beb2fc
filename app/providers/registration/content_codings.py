"""Request bodies that are compressed: by Content-Encoding (RFC 9110 section 8.4), or as a gzip file."""

import asyncio
from typing import Final

from app.core.errors import BadRequest, TooLarge, UnsupportedMediaType
from app.openapi.reading.encodings import gunzip, is_gzip, is_plain_utf8, transcode
from app.outbound.http1.decoding import ACCEPTED, DECODED, UndecodableBody, decoder_for

_MAX_CODINGS: Final = 2
# A decoder may copy what it has not consumed of its input at each step.
_INPUT: Final = 1 << 16
_ON_LOOP: Final = 1 << 16


async def decode_content(body: bytes, *, content_encoding: str, max_bytes: int) -> bytes:
    """Return a request body without its content codings, of which the last was applied last.

    Raises TooLarge as soon as it has more than `max_bytes`, BadRequest for a body that is damaged, and
    UnsupportedMediaType, with Accept-Encoding (RFC 9110 section 15.5.16), for a coding that is not decoded.
    """
    named = [one.strip().lower() for one in content_encoding.split(",")]
    codings = [one for one in named if one not in {"", "identity"}]
    if not codings:
        return body
    if len(codings) > _MAX_CODINGS or not set(codings) <= DECODED:
        raise UnsupportedMediaType(
            f"Send the body in one of the content codings {ACCEPTED}, or unencoded.",
            headers={"Accept-Encoding": ACCEPTED},
        )
    for coding in reversed(codings):
        body = await asyncio.to_thread(_decode_body, body, coding, max_bytes)
    return body


async def document_text(body: bytes, *, max_bytes: int) -> bytes:
    """Return an uploaded or fetched file as the other readers expect it: decompressed, if it is a gzip file,
    and in UTF-8 without a byte order mark. A zip archive is returned unchanged.

    Raises TooLarge and InvalidDocument as `gunzip` does.
    """
    if is_gzip(body):
        body = await asyncio.to_thread(gunzip, body, max_bytes=max_bytes)
    if is_plain_utf8(body) or len(body) < _ON_LOOP:
        return transcode(body)
    return await asyncio.to_thread(transcode, body)


def _decode_body(body: bytes, coding: str, max_bytes: int) -> bytes:
    decoder = decoder_for(coding)
    pieces: list[bytes] = []
    size = 0
    try:
        for start in range(0, len(body), _INPUT):
            decoder.feed(body[start : start + _INPUT])
            while piece := decoder.step():
                size += len(piece)
                if size > max_bytes:
                    raise TooLarge(
                        f"The decoded request body may have at most {max_bytes} bytes here.",
                        extra={"limit": max_bytes},
                    )
                pieces.append(piece)
    except UndecodableBody:
        raise BadRequest(f"The body is not valid {coding}, its Content-Encoding.") from None
    if not decoder.complete:
        raise BadRequest(f"The body ends before its Content-Encoding {coding} does.")
    return b"".join(pieces)
