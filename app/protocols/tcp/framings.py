"""The four framings of UTCP's `tcp`, which define where a message ends on a connection.

`length_prefix` and `delimiter` frame the request and the response, `fixed_length` the response only. A
response in the framing `stream` ends where the peer closes the connection, is silent, or has sent
`max_response_size` bytes.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from app.core.errors import (
    FieldError,
    InvalidArguments,
    InvalidInput,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from app.outbound.limits import Limits
from app.outbound.network import Stream
from app.protocols.shared.results import check_size, time_limit
from app.protocols.tcp.template import TcpTemplate

_READ_BYTES: Final = 64 << 10


def read_delimiter(model: TcpTemplate) -> bytes:
    r"""Return the bytes of the delimiter; raise InvalidInput for one that is empty or cannot be decoded.

    Escape sequences such as `\r\n` and `\x00` are decoded unless the template turns that off.
    """
    text = model.message_delimiter
    try:
        if model.interpret_escape_sequences:
            text = text.encode("ascii", "backslashreplace").decode("unicode_escape")
        delimiter = text.encode()
    except UnicodeError:
        field_error = FieldError("/message_delimiter", "Its escape sequences are not complete.")
        raise InvalidInput("The delimiter cannot be read.", errors=[field_error]) from None
    if not delimiter:
        field_error = FieldError("/message_delimiter", "Its escape sequences decode to no bytes.")
        raise InvalidInput("The delimiter is empty.", errors=[field_error])
    return delimiter


def frame_request(model: TcpTemplate, message: bytes, delimiter: bytes) -> bytes:
    """Return the framed request; raise InvalidArguments for one that is too long for its length prefix."""
    if model.framing_strategy == "delimiter":
        return message + delimiter
    if model.framing_strategy != "length_prefix":
        return message
    try:
        prefix = len(message).to_bytes(model.length_prefix_bytes, model.length_prefix_endian)
    except OverflowError:
        field_error = FieldError(
            "", f"Too long: the length of the message does not fit in {model.length_prefix_bytes} byte(s)."
        )
        raise InvalidArguments("The arguments make the message too long.", errors=[field_error]) from None
    return prefix + message


class IncomingResponse:
    """A response while it arrives.

    `first_byte_deadline` applies to its first byte, `deadline` to its end (both `loop.time()`). Between two
    pieces the upstream may be silent for as long as both the template and the limits of the provider allow.
    """

    def __init__(
        self,
        stream: Stream,
        model: TcpTemplate,
        limits: Limits,
        *,
        first_byte_deadline: float,
        deadline: float,
    ) -> None:
        self._stream = stream
        self._model = model
        self._limits = limits
        self._first_byte_deadline = first_byte_deadline
        self._silence = min(model.timeout / 1000, limits.idle)
        self._begun = False
        self.deadline = deadline

    async def message(self, delimiter: bytes) -> bytes:
        """Return the response, one message without its framing.

        Raise ResponseTooLarge, UpstreamTimeout, and UpstreamUnreachable where the connection ends before.
        """
        match self._model.framing_strategy:
            case "length_prefix":
                return await self._prefixed(self._model.length_prefix_bytes)
            case "delimiter":
                return await self._delimited(delimiter)
            case "fixed_length":
                length = self._model.fixed_message_length or 0
                check_size(length, self._limits.response_bytes)
                return bytes(await self._at_least(length, bytearray()))[:length]
        pieces = [piece async for piece in self.pieces()]
        return b"".join(pieces)

    async def pieces(self, *, max_bytes: int | None = None) -> AsyncGenerator[bytes, None]:
        """Yield the pieces of a response in the framing `stream`, of at most `max_bytes` bytes together.

        `max_bytes` None means the template's `max_response_size`. Silence after the first byte ends the
        response, as in the released clients.
        """
        remaining = self._model.max_response_size if max_bytes is None else max_bytes
        size = 0
        while remaining > 0:
            begun = self._begun
            try:
                piece = await self._read(min(remaining, _READ_BYTES))
            except UpstreamTimeout:
                if not begun or asyncio.get_running_loop().time() >= self.deadline:
                    raise
                return
            if not piece:
                return
            remaining -= len(piece)
            size += len(piece)
            check_size(size, self._limits.response_bytes)
            yield piece

    async def _prefixed(self, width: int) -> bytes:
        found = await self._at_least(width, bytearray())
        length = int.from_bytes(found[:width], self._model.length_prefix_endian)
        check_size(length, self._limits.response_bytes)
        return bytes((await self._at_least(width + length, found))[width : width + length])

    async def _delimited(self, delimiter: bytes) -> bytes:
        found = bytearray()
        searched = 0
        while (end := found.find(delimiter, searched)) < 0:
            searched = max(0, len(found) - len(delimiter) + 1)
            check_size(searched, self._limits.response_bytes)
            found += await self._next_piece()
        check_size(end, self._limits.response_bytes)
        return bytes(found[:end])

    async def _at_least(self, length: int, found: bytearray) -> bytearray:
        while len(found) < length:
            found += await self._next_piece()
        return found

    async def _next_piece(self) -> bytes:
        piece = await self._read(_READ_BYTES)
        if not piece:
            raise UpstreamUnreachable("The upstream closed the connection before its response was complete.")
        return piece

    async def _read(self, max_bytes: int) -> bytes:
        """Return the next bytes, b"" at the end; raise UpstreamTimeout and UpstreamUnreachable."""
        silence_deadline = asyncio.get_running_loop().time() + self._silence
        with time_limit(min(self.deadline, silence_deadline) if self._begun else self._first_byte_deadline):
            try:
                piece = await self._stream.reader.read(max_bytes)
            except OSError:
                raise UpstreamUnreachable("The connection to the upstream broke.") from None
        self._begun = True
        return piece
