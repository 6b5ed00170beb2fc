"""Checks path segments: no value can leave its segment, whatever decoding the upstream applies.

Percent-encoding alone does not ensure that: `.` and `..` are unreserved, and clients and servers collapse
them; servers decode `%2F` and `%252e` before they route, strip `;parameters` from a segment first (`..;`), or
take `\\` for `/`.
"""

import re
import unicodedata
from typing import Final
from urllib.parse import unquote_to_bytes

from app.core.errors import FieldError, InvalidArguments

# Decoding a value of n characters can take n/2 rounds; no legitimate value is encoded eight times.
_MAX_DECODING_ROUNDS: Final = 8
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\\]|%u00(?:2e|2f|5c|0[0-9a-f]|1[0-9a-f]|7f)", re.IGNORECASE)
_OVERLONG: Final = {
    b"\xc0\xae": b".",
    b"\xe0\x80\xae": b".",
    b"\xc0\xaf": b"/",
    b"\xe0\x80\xaf": b"/",
    b"\xc1\x9c": b"\\",
}


def check_path_text(text: str, *, at: str) -> None:
    """Raise InvalidArguments for a value that could leave its path segment."""
    if text.isascii() and text.isalnum():
        return
    decoded = _decode_text(text)
    if decoded is None or _UNSAFE.search(decoded):
        raise _reject_segment(
            at, "The value must not contain control characters or backslashes, or be encoded repeatedly."
        )
    if any(_is_dots(piece) for piece in decoded.split("/")):
        raise _reject_segment(at, "The value must not be a dot segment (`.`, `..`), plain or encoded.")


def check_segment(segment: str, *, at: str) -> None:
    """Raise InvalidArguments for an assembled, encoded segment that is empty, or a dot segment after
    decoding.
    """
    if not segment:
        raise _reject_segment(at, "The value must not be empty.")
    decoded = _decode_text(segment)
    if decoded is None or any(_is_dots(piece) for piece in decoded.split("/")):
        raise _reject_segment(at, "The value must not form a dot segment (`.`, `..`), plain or encoded.")


def is_dot_segment(segment: str) -> bool:
    """Return whether a segment of a template is `.` or `..` after decoding, or is encoded too often to
    decode.
    """
    decoded = _decode_text(segment)
    return decoded is None or any(_is_dots(piece) for piece in decoded.split("/"))


def _decode_text(text: str) -> str | None:
    for _ in range(_MAX_DECODING_ROUNDS):
        if not text.isascii():
            # Full-width forms are folded to ASCII by some servers' best-fit mappings.
            text = unicodedata.normalize("NFKC", text)
        if "%" not in text:
            return text
        raw = unquote_to_bytes(text)
        for overlong, plain in _OVERLONG.items():
            raw = raw.replace(overlong, plain)
        decoded = raw.decode("utf-8", "replace")
        if decoded == text:
            return text
        text = decoded
    return None


def _is_dots(piece: str) -> bool:
    # Surrounding white space is trimmed by some servers, and so are trailing dots by Windows' file names.
    return piece.partition(";")[0].strip() in (".", "..")


def _reject_segment(at: str, detail: str) -> InvalidArguments:
    return InvalidArguments("A path argument could leave its path segment", errors=[FieldError(at, detail)])
