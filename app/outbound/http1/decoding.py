"""Content codings of an answer (RFC 9110 section 8.4.1), taken off in steps of bounded size."""

import zlib
from typing import Final

STEP: Final = 64 << 10
"""The most bytes that one step gives."""

DECODED: Final = frozenset({"identity", "gzip", "deflate"})
"""The content codings that arrive decoded."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_EITHER_HEADER: Final = 32 + zlib.MAX_WBITS


class Decoder:
    """gzip of any number of members, or deflate with or without its zlib header.

    `feed` a piece, then call `step` until it gives b"" and `hungry` is true. Raises zlib.error.
    """

    __slots__ = ("_coding", "_left", "_machine", "_started")

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._machine = zlib.decompressobj(wbits=_EITHER_HEADER)
        self._left = b""
        self._started = False

    @property
    def hungry(self) -> bool:
        """Whether all that was fed has been decoded."""
        return not self._left

    @property
    def complete(self) -> bool:
        """Whether the coded text has ended, or never began (an empty body is not coded)."""
        return self._machine.eof or not self._started

    def feed(self, piece: bytes) -> None:
        """Take the next piece of the coded body."""
        if not self._started and piece:
            self._started = True
            if self._coding == "deflate" and not _has_zlib_header(piece):
                self._machine = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        self._left = self._left + piece if self._left else piece

    def step(self) -> bytes:
        """At most `STEP` decoded bytes; b"" where more must be fed first."""
        while self._left:
            if self._machine.eof:
                # RFC 1952 section 2.2: members follow each other. What is no member is padding.
                if self._coding != "gzip" or not _GZIP_MAGIC.startswith(self._left[:2]):
                    self._left = b""
                    break
                self._machine = zlib.decompressobj(wbits=_EITHER_HEADER)
            given = self._machine.decompress(self._left, STEP)
            self._left = self._machine.unused_data if self._machine.eof else self._machine.unconsumed_tail
            if given:
                return given
        return b""


def _has_zlib_header(piece: bytes) -> bool:
    """RFC 1950 section 2.2; some servers call the bare format deflate."""
    if piece[0] & 0x0F != 8:
        return False
    return len(piece) < 2 or (piece[0] << 8 | piece[1]) % 31 == 0
