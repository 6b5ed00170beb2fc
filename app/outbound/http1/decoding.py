"""Content codings of a response (RFC 9110 section 8.4.1), decoded in steps of bounded size.

What a decoder holds is bounded, too: 32 KiB for gzip and deflate, 8 MiB for zstd (the most that RFC 9659 lets
a response use), 16 MiB for br (RFC 7932 section 9.1; its large windows are not accepted).
"""

import sys
import zlib
from typing import Any, Final, Protocol

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

STEP: Final = 64 << 10
"""The bytes of one step at most; a step of br may be half as large again."""

ACCEPTED: Final = "gzip, deflate, br, zstd"
"""The value of Accept-Encoding: what is decoded, and nothing else."""

DECODED: Final = frozenset({"identity", "gzip", "x-gzip", "deflate", "br", "zstd"})
"""The content codings that arrive decoded. x-gzip is another name of gzip (RFC 9110 section 8.4.1.3)."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_EITHER_HEADER: Final = 32 + zlib.MAX_WBITS
_ZSTD_OPTIONS: Final = {int(zstd.DecompressionParameter.window_log_max): 23}


class UndecodableBody(Exception):
    """The body is not what its content coding says."""


class Decoder(Protocol):
    """`feed` a piece, then call `step` until it gives b"" and `hungry` is true. Raises UndecodableBody."""

    @property
    def hungry(self) -> bool:
        """Whether all that was fed has been decoded."""

    @property
    def complete(self) -> bool:
        """Whether the coded text has ended, or never began (an empty body is not coded)."""

    def feed(self, piece: bytes) -> None:
        """Take the next piece of the coded body."""

    def step(self) -> bytes:
        """At most about `STEP` decoded bytes; b"" where more must be fed first."""


def decoder_for(coding: str) -> Decoder:
    """A decoder of one of `DECODED` but identity, in lower case."""
    if coding == "br":
        return _Brotli()
    if coding == "zstd":
        return _Zstandard()
    return _Zlib("deflate" if coding == "deflate" else "gzip")


class _Zlib:
    """gzip of any number of members, or deflate with or without its zlib header."""

    __slots__ = ("_coding", "_left", "_machine", "_started")

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._machine = zlib.decompressobj(wbits=_EITHER_HEADER)
        self._left = b""
        self._started = False

    @property
    def hungry(self) -> bool:
        return not self._left

    @property
    def complete(self) -> bool:
        return self._machine.eof or not self._started

    def feed(self, piece: bytes) -> None:
        if not self._started and piece:
            self._started = True
            if self._coding == "deflate" and not _has_zlib_header(piece):
                self._machine = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        self._left = self._left + piece if self._left else piece

    def step(self) -> bytes:
        while self._left:
            if self._machine.eof:
                # RFC 1952 section 2.2: members follow each other. What is no member is padding.
                if self._coding != "gzip" or not _GZIP_MAGIC.startswith(self._left[:2]):
                    self._left = b""
                    break
                self._machine = zlib.decompressobj(wbits=_EITHER_HEADER)
            try:
                given = self._machine.decompress(self._left, STEP)
            except zlib.error:
                raise UndecodableBody from None
            self._left = self._machine.unused_data if self._machine.eof else self._machine.unconsumed_tail
            if given:
                return given
        return b""


class _Brotli:
    """One stream of RFC 7932."""

    __slots__ = ("_drained", "_left", "_machine", "_started")

    def __init__(self) -> None:
        self._machine: Any = brotli.Decompressor()
        self._left = b""
        self._started = False
        # The library holds output back, of which it says nothing, until a step has given nothing.
        self._drained = True

    @property
    def hungry(self) -> bool:
        return not self._left and self._drained

    @property
    def complete(self) -> bool:
        return not self._started or (self.hungry and bool(self._machine.is_finished()))

    def feed(self, piece: bytes) -> None:
        self._started = self._started or bool(piece)
        self._left = self._left + piece if self._left else piece

    def step(self) -> bytes:
        machine = self._machine
        try:
            while True:
                if not self._drained:
                    given: bytes = machine.process(b"", output_buffer_limit=STEP // 2)
                    if given:
                        return given
                    if not machine.can_accept_more_data():
                        raise UndecodableBody
                    self._drained = True
                if not self._left:
                    return b""
                if machine.is_finished():
                    raise UndecodableBody
                piece, self._left = self._left, b""
                self._drained = False
                given = machine.process(piece, output_buffer_limit=STEP // 2)
                if given:
                    return given
        except brotli.error:
            raise UndecodableBody from None


class _Zstandard:
    """Any number of frames of RFC 8878."""

    __slots__ = ("_left", "_machine", "_started")

    def __init__(self) -> None:
        self._machine = zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
        self._left = b""
        self._started = False

    @property
    def hungry(self) -> bool:
        return not self._left and (self._machine.eof or self._machine.needs_input)

    @property
    def complete(self) -> bool:
        return self._machine.eof or not self._started

    def feed(self, piece: bytes) -> None:
        self._started = self._started or bool(piece)
        self._left = self._left + piece if self._left else piece

    def step(self) -> bytes:
        while self._left or not (self._machine.eof or self._machine.needs_input):
            if self._machine.eof:
                self._machine = zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
            # What the machine does not take it holds itself.
            piece, self._left = self._left, b""
            try:
                given = self._machine.decompress(piece, STEP)
            except zstd.ZstdError:
                raise UndecodableBody from None
            if self._machine.eof:
                self._left = self._machine.unused_data
            if given:
                return given
        return b""


def _has_zlib_header(piece: bytes) -> bool:
    """RFC 1950 section 2.2; some servers call the bare format deflate."""
    if piece[0] & 0x0F != 8:
        return False
    return len(piece) < 2 or (piece[0] << 8 | piece[1]) % 31 == 0
