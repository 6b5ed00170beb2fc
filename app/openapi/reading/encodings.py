"""The bytes of a document as UTF-8 text: character encodings, and files that are compressed with gzip."""

import codecs
import zlib
from typing import Final

from app.core.errors import InvalidDocument, TooLarge

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_GZIP: Final = b"\x1f\x8b"
_STEP: Final = 1 << 20
# zlib copies what it has not consumed of its input, at each step and at the end of each member.
_INPUT: Final = 8 << 10
_GZIP_HEADER: Final = 16 + zlib.MAX_WBITS


def to_utf8(document: bytes) -> tuple[bytes, str | None]:
    """Return the document in UTF-8 without byte order mark, and what is wrong with its bytes if anything is.

    A file that would be UTF-8 but for single bytes is damaged, and these are replaced. One that has no
    character of several bytes is windows-1252, of which the texts of ISO 8859-1 (Latin-1) are a part.
    """
    encoding, start = _detect_encoding(document)
    content = document[start:] if start else document
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        where = f"{_describe_place(content, error.start)} is not {encoding.upper()}"
        if encoding != "utf-8" or not content.decode("utf-8", "ignore").isascii():
            replaced = content.decode(encoding, "replace").encode("utf-8", "replace")
            return replaced, f"{where}; such bytes were replaced"
        return _from_windows_1252(content).encode(), f"{where}; the document was read as windows-1252"
    return (content if encoding == "utf-8" else text.encode("utf-8")), None


def _describe_place(content: bytes, offset: int) -> str:
    before = content[:offset]
    line, column = before.count(b"\n") + 1, offset - before.rfind(b"\n")
    return f"byte 0x{content[offset]:02X} at offset {offset} (line {line}, column {column})"


def _from_windows_1252(content: bytes) -> str:
    try:
        return content.decode("cp1252")
    except UnicodeDecodeError:
        # Five bytes have no character in windows-1252; in ISO 8859-1 they are control characters.
        return content.decode("latin-1")


def transcode(document: bytes) -> bytes:
    """Return a document in UTF-16 or UTF-32, or with a byte order mark, in UTF-8 without one.

    Others, archives among them, are returned unchanged: whether they are valid UTF-8 is not checked.
    """
    return document if is_plain_utf8(document) else to_utf8(document)[0]


def is_plain_utf8(document: bytes) -> bool:
    """Return whether a document begins like one in UTF-8 without a byte order mark, or like no text."""
    return _detect_encoding(document) == ("utf-8", 0)


def is_gzip(document: bytes) -> bool:
    """Return whether the bytes are a file compressed with gzip (RFC 1952)."""
    return document[:2] == _GZIP


def gunzip(document: bytes, *, max_bytes: int) -> bytes:
    """Return the content of a gzip file, of all its members.

    Raises TooLarge as soon as it has more than `max_bytes`, and InvalidDocument for a damaged file.
    """
    pieces: list[bytes] = []
    size = start = 0
    pending = memoryview(document)
    try:
        while is_gzip(document[start : start + 2]):
            member = zlib.decompressobj(wbits=_GZIP_HEADER)
            while not member.eof:
                given = pending[start : start + _INPUT]
                piece = member.decompress(given, _STEP)
                start += len(given) - len(member.unused_data if member.eof else member.unconsumed_tail)
                size += len(piece)
                if size > max_bytes:
                    raise TooLarge(f"The compressed document has more than {max_bytes} bytes")
                if not piece and start == len(pending) and not member.eof:
                    raise InvalidDocument("The compressed document is not complete")
                pieces.append(piece)
    except zlib.error:
        raise InvalidDocument("The compressed document is damaged") from None
    return b"".join(pieces)


def _detect_encoding(document: bytes) -> tuple[str, int]:
    """Return the encoding, and the length of the byte order mark."""
    for mark, encoding in _MARKS:
        if document.startswith(mark):
            return encoding, len(mark)
    # RFC 4627 section 3: the first two characters are ASCII, so zero bytes reveal the encoding.
    if len(document) >= 2 and (document[0] == 0) != (document[1] == 0):
        return ("utf-16-be" if document[0] == 0 else "utf-16-le"), 0
    return "utf-8", 0
