"""Decoders of the content codings of a response (RFC 9110 section 8.4.1), in steps of limited size.

The memory of a decoder is limited, too: 32 KiB for gzip and deflate, 8 MiB for zstd (the maximum that RFC
9659 allows a response to use), 16 MiB for br (RFC 7932 section 9.1; large-window brotli is rejected).
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
"""The maximum number of bytes of one step; a step of br may be half as large again."""

ACCEPTED: Final = "gzip, deflate, br, zstd"
"""The value of Accept-Encoding: the codings that are decoded, and no others."""

DECODED: Final = frozenset({"identity", "gzip", "x-gzip", "deflate", "br", "zstd"})
"""The content codings that are decoded. x-gzip is another name of gzip (RFC 9110 section 8.4.1.3)."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
# The libraries copy what they have not consumed of their input, at each step and at the end of each member.
_INPUT: Final = 8 << 10
_EITHER_HEADER: Final = 32 + zlib.MAX_WBITS
_ZSTD_OPTIONS: Final = {int(zstd.DecompressionParameter.window_log_max): 23}


class UndecodableBody(Exception):
    """Raised where the body does not conform to its content coding."""


class Decoder(Protocol):
    """An incremental decoder. Raises UndecodableBody.

    `feed` a piece, then call `step` until it returns b"" and `needs_input` is true.
    """

    @property
    def needs_input(self) -> bool:
        """Whether everything that was fed has been decoded."""

    @property
    def complete(self) -> bool:
        """Whether the encoded body has ended, or never began (an empty body is not encoded)."""

    def feed(self, piece: bytes) -> None:
        """Buffer the next piece of the encoded body for `step`."""

    def step(self) -> bytes:
        """Return at most about `STEP` decoded bytes; b"" where more must be fed first."""


def decoder_for(coding: str) -> Decoder:
    """Return a decoder of one of the codings in `DECODED` except identity; `coding` is in lower case."""
    if coding == "br":
        return _Brotli()
    if coding == "zstd":
        return _Zstandard()
    return _Zlib("deflate" if coding == "deflate" else "gzip")


class _Zlib:
    """gzip with any number of members, or deflate with or without a zlib header."""

    __slots__ = ("_coding", "_decompressor", "_pending", "_started")

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._decompressor = zlib.decompressobj(wbits=_EITHER_HEADER)
        self._pending = memoryview(b"")
        self._started = False

    @property
    def needs_input(self) -> bool:
        return not self._pending

    @property
    def complete(self) -> bool:
        return self._decompressor.eof or not self._started

    def feed(self, piece: bytes) -> None:
        if not self._started and piece:
            self._started = True
            if self._coding == "deflate" and not _has_zlib_header(piece):
                self._decompressor = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        self._pending = memoryview(bytes(self._pending) + piece if self._pending else piece)

    def step(self) -> bytes:
        while self._pending:
            if self._decompressor.eof:
                # RFC 1952 section 2.2: members follow each other. Anything else is padding.
                if self._coding != "gzip" or not _GZIP_MAGIC.startswith(bytes(self._pending[:2])):
                    self._pending = memoryview(b"")
                    break
                self._decompressor = zlib.decompressobj(wbits=_EITHER_HEADER)
            decompressor, given = self._decompressor, self._pending[:_INPUT]
            try:
                output = decompressor.decompress(given, STEP)
            except zlib.error:
                raise UndecodableBody from None
            rest = decompressor.unused_data if decompressor.eof else decompressor.unconsumed_tail
            self._pending = self._pending[len(given) - len(rest) :]
            if output:
                return output
        return b""


class _Brotli:
    """One stream of RFC 7932."""

    __slots__ = ("_decompressor", "_drained", "_pending", "_started")

    def __init__(self) -> None:
        self._decompressor: Any = brotli.Decompressor()
        self._pending = b""
        self._started = False
        # The library may hold back output, without saying so, until a step has returned nothing.
        self._drained = True

    @property
    def needs_input(self) -> bool:
        return not self._pending and self._drained

    @property
    def complete(self) -> bool:
        return not self._started or (self.needs_input and bool(self._decompressor.is_finished()))

    def feed(self, piece: bytes) -> None:
        self._started = self._started or bool(piece)
        self._pending = self._pending + piece if self._pending else piece

    def step(self) -> bytes:
        decompressor = self._decompressor
        try:
            while True:
                if not self._drained:
                    output: bytes = decompressor.process(b"", output_buffer_limit=STEP // 2)
                    if output:
                        return output
                    if not decompressor.can_accept_more_data():
                        raise UndecodableBody
                    self._drained = True
                if not self._pending:
                    return b""
                if decompressor.is_finished():
                    raise UndecodableBody
                piece, self._pending = self._pending, b""
                self._drained = False
                output = decompressor.process(piece, output_buffer_limit=STEP // 2)
                if output:
                    return output
        except brotli.error:
            raise UndecodableBody from None


class _Zstandard:
    """Any number of frames of RFC 8878."""

    __slots__ = ("_decompressor", "_pending", "_start", "_started")

    def __init__(self) -> None:
        self._decompressor = zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
        self._pending = memoryview(b"")
        self._start = 0
        self._started = False

    @property
    def needs_input(self) -> bool:
        return not self._has_input and (self._decompressor.eof or self._decompressor.needs_input)

    @property
    def complete(self) -> bool:
        return self._decompressor.eof or not self._started

    @property
    def _has_input(self) -> bool:
        return self._start < len(self._pending)

    def feed(self, piece: bytes) -> None:
        self._started = self._started or bool(piece)
        rest = self._pending[self._start :]
        self._pending, self._start = memoryview(bytes(rest) + piece if rest else piece), 0

    def step(self) -> bytes:
        while self._has_input or not (self._decompressor.eof or self._decompressor.needs_input):
            if self._decompressor.eof:
                self._decompressor = zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)
            # The decompressor buffers the input that it does not consume.
            size = _INPUT if self._decompressor.needs_input else 0
            given = self._pending[self._start : self._start + size]
            self._start += len(given)
            try:
                output = self._decompressor.decompress(given, STEP)
            except zstd.ZstdError:
                raise UndecodableBody from None
            if self._decompressor.eof:
                self._start -= len(self._decompressor.unused_data)
            if output:
                return output
        return b""


def _has_zlib_header(piece: bytes) -> bool:
    """Return whether `piece` begins with a zlib header (RFC 1950 section 2.2), unlike raw deflate."""
    if piece[0] & 0x0F != 8:
        return False
    return len(piece) < 2 or (piece[0] << 8 | piece[1]) % 31 == 0
