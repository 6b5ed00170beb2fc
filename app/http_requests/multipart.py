"""multipart/form-data (RFC 7578), written so that no name, file name or value can start another part."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# The WHATWG form algorithm; it is what browsers send and servers read.
_ESCAPES: Final = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A", "\x00": "%00"})


@dataclass(frozen=True, slots=True)
class Part:
    """One field of a form. Where `media` is None, it has no Content-Type, which means text/plain."""

    name: str
    content: bytes
    media: str | None = None
    filename: str | None = None


def multipart(parts: Sequence[Part], *, media: str = "multipart/form-data") -> tuple[bytes, str]:
    """Return the body and its content type. The boundary is 128 random bits, so no content can contain it."""
    boundary = secrets.token_hex(16)
    chunks: list[bytes] = []
    for part in parts:
        disposition = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="{part.name.translate(_ESCAPES)}"'
        )
        if part.filename is not None:
            disposition += f'; filename="{part.filename.translate(_ESCAPES)}"'
        if part.media is not None:
            disposition += f"\r\nContent-Type: {part.media}"
        chunks += [disposition.encode(), b"\r\n\r\n", part.content, b"\r\n"]
    chunks.append(f"--{boundary}--\r\n".encode())
    return b"".join(chunks), f"{media}; boundary={boundary}"
