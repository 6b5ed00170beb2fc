"""Multipart bodies: forms (RFC 7578) and parts without names (RFC 2046).

They are written so that no name, file name or value can start another part.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# The WHATWG form algorithm; it is what browsers send and servers read.
_ESCAPES: Final = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A", "\x00": "%00"})


@dataclass(frozen=True, slots=True)
class Part:
    """One field of a form. Where `media` is None, it has no Content-Type, which means text/plain.

    Without a `name` it is a part of another multipart type, such as `multipart/mixed`.

    `headers` are further headers, whose names and values have been checked.
    """

    name: str | None
    content: bytes
    media: str | None = None
    filename: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


def multipart(parts: Sequence[Part], *, media: str = "multipart/form-data") -> tuple[bytes, str]:
    """Return the body and its content type. The boundary is 128 random bits, so no content can contain it."""
    boundary = secrets.token_hex(16)
    chunks: list[bytes] = []
    for part in parts:
        head = f"--{boundary}{_disposition(part)}"
        if part.media is not None:
            head += f"\r\nContent-Type: {part.media}"
        head += "".join(f"\r\n{name}: {value}" for name, value in part.headers)
        chunks += [head.encode(), b"\r\n\r\n", part.content, b"\r\n"]
    chunks.append(f"--{boundary}--\r\n".encode())
    return b"".join(chunks), f"{media}; boundary={boundary}"


def _disposition(part: Part) -> str:
    filename = "" if part.filename is None else f'; filename="{part.filename.translate(_ESCAPES)}"'
    if part.name is not None:
        return f'\r\nContent-Disposition: form-data; name="{part.name.translate(_ESCAPES)}"{filename}'
    return f"\r\nContent-Disposition: attachment{filename}" if filename else ""
