"""Bodies of responses as a model reads them: JSON and other text as they came, images and sounds as media."""

import hashlib
from typing import Final

import orjson

from app.calls.results.model import Media, ModelResult
from app.core.media_types import is_json, parse_essence
from app.outbound.body_text import body_text
from app.outbound.framing import UTF8_JSON_TYPES

MAX_MEDIA_BYTES: Final = 5 << 20
"""Bytes up to which an image, a sound or other binary content is passed on: the limit of most models for an
image.
"""
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
"""The first bytes of formats that models take. One whose type is stated wrongly makes their APIs reject the
whole conversation.
"""
_OTHER_NAMES: Final = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}
_UNKNOWN: Final = "application/octet-stream"


def read_body(body: bytes, media_type: str, *, status: int, content_coding: str = "") -> ModelResult:
    """Return the result for the body of a successful response; takes about 15 us per KiB of JSON.

    `media_type` is the whole Content-Type; `content_coding` is the coding that the body is still in.
    """
    if not body:
        return ModelResult(f"(no content, HTTP {status})")
    if media_type in UTF8_JSON_TYPES and not content_coding and _is_json(body):
        # The common case; the parser accepts neither a byte order mark nor other bytes than UTF-8.
        return ModelResult(body.decode(), body=body)
    media = parse_essence(media_type)
    text = None if content_coding else body_text(body, media_type)
    if text is None:
        return _describe_binary(body, media, content_coding)
    text = text.removeprefix("\ufeff")
    if is_json(media) or not media:
        encoded = body if text.isascii() and len(text) == len(body) else text.encode()
        if _is_json(encoded):
            return ModelResult(text, body=encoded)
    return ModelResult(text if text.strip() else f"(blank text, HTTP {status})")


def _is_json(body: bytes) -> bool:
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return True


def _describe_binary(body: bytes, media: str, content_coding: str) -> ModelResult:
    kind = (media or _UNKNOWN) if content_coding else detect_media_type(body, media)
    coded = f", in the content coding {content_coding}" if content_coding else ""
    digest = hashlib.sha256(body).hexdigest()
    text = f"({kind}{coded}, {len(body):,} bytes, SHA-256 {digest})"
    if content_coding:
        return ModelResult(text)
    if len(body) > MAX_MEDIA_BYTES:
        note = f"It is not included: it has more than {MAX_MEDIA_BYTES:,} bytes."
        return ModelResult(f"{text} {note}")
    return ModelResult(text, media=(Media(kind, body),))


def describe_media(media: Media) -> str:
    """Return what a model reads in place of binary content: its type, size and digest."""
    digest = hashlib.sha256(media.data).hexdigest()
    return f"({media.media_type}, {len(media.data):,} bytes, SHA-256 {digest})"


def detect_media_type(body: bytes, stated: str) -> str:
    """Return the type of binary content by its first bytes, else as stated."""
    if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
        return "image/webp"
    sniffed_type = next((kind for signature, kind in _SIGNATURES if body.startswith(signature)), None)
    return sniffed_type or _OTHER_NAMES.get(stated, stated) or _UNKNOWN
