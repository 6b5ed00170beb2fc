"""A request that was sent and its response as it arrives: filled by a connection, read by the HTTP client."""

import asyncio
from collections import deque
from enum import Enum
from typing import Final, Protocol

from multidict import CIMultiDict

from app.outbound.http1.decoding import Decoder, decoder_for

HIGH_WATER_MARK: Final = 32 << 10
"""Bytes of a body that may wait to be read before the transport is paused."""
_LOW_WATER_MARK: Final = 8 << 10
MAX_FIELDS: Final = 300
"""The maximum number of fields in the head of a response."""
MAX_FIELD_BYTES: Final = 64 << 10
"""The maximum size of a field's name and value together."""
MAX_HEAD_BYTES: Final = 256 << 10
"""The maximum size of the whole head, with those of interim responses before it."""
MAX_INTERIM_RESPONSES: Final = 16
"""The maximum number of responses with a status below 200 before the one that counts."""
HEAD_TOO_LARGE: Final = (
    f"The head of the upstream's response is too large: it may have {MAX_FIELDS} fields, "
    f"{MAX_FIELD_BYTES >> 10} KiB in each and {MAX_HEAD_BYTES >> 10} KiB in all."
)
HTTP2_ONLY: Final = "The upstream speaks HTTP/2 only, which the provider's options.http_version rules out."
NO_COMMON_VERSION: Final = "The upstream does not speak the version of HTTP that it was offered."
_NO_HEADERS: Final[CIMultiDict[str]] = CIMultiDict()


class FailureReason(Enum):
    """Why an exchange failed."""

    CLOSED = "the upstream closed the connection"
    MALFORMED = "what arrived is not HTTP"
    HEAD_TOO_LARGE = "the head is larger than allowed"
    TRANSFER_CODING = "the transfer coding is not chunked alone"
    HTTP2 = "what arrived is HTTP/2"


class ExchangeFailed(Exception):
    """Raised where no response can be read. `response_started` says whether any byte of it arrived."""

    def __init__(self, reason: FailureReason, *, response_started: bool) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.response_started = response_started


class ResponseSource(Protocol):
    """The connection that a response arrives on."""

    def resume(self) -> None:
        """Resume reading after the buffered bytes have been read."""

    def abort(self) -> None:
        """Close the connection immediately."""


class Exchange:
    """A request that was sent and its response, as far as it has arrived."""

    __slots__ = (
        "_connection",
        "_decoder",
        "_pieces",
        "_waiter",
        "buffered",
        "complete",
        "early",
        "error",
        "head",
        "headers",
        "no_body",
        "response_started",
        "status",
        "until_close",
    )  # fmt: skip

    def __init__(self, connection: ResponseSource, head: "asyncio.Future[None]", *, no_body: bool) -> None:
        self._connection: ResponseSource | None = connection
        self._decoder: Decoder | None = None
        self._pieces: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self.head = head
        """Done when the status and the headers have arrived; raises ExchangeFailed."""
        self.headers: CIMultiDict[str] = _NO_HEADERS
        self.status = 0
        self.no_body = no_body
        self.until_close = False
        self.complete = False
        """Whether the whole body has arrived; some of it may still wait to be read."""
        self.error: FailureReason | None = None
        self.response_started = False
        self.early = False
        """Whether the response began to arrive before the whole request was sent."""
        self.buffered = 0
        """The number of bytes of the body that have arrived and were not read."""

    def decode(self, coding: str) -> None:
        """Decode the body from this content coding; call it before the first read."""
        self._decoder = decoder_for(coding)

    def read_nowait(self) -> bytes:
        """Return the next decoded bytes, b"" where there are none yet or at the end (see `ended`).

        Raises UndecodableBody.
        """
        if self._decoder is None:
            return self._next_piece()
        while True:
            if decoded := self._decoder.step():
                return decoded
            piece = self._next_piece()
            if not piece:
                return b""
            self._decoder.feed(piece)

    def take_all(self) -> bytes:
        """Return the whole body; it must be complete and without a content coding."""
        pieces, self._pieces, self.buffered = self._pieces, deque(), 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    @property
    def ended(self) -> bool:
        """Whether no more data will arrive: the body has ended, or the exchange has failed."""
        return (self.complete or self.error is not None) and not self._pieces

    @property
    def coding_complete(self) -> bool:
        """Whether the body has ended as its content coding requires."""
        return self._decoder is None or self._decoder.complete

    async def wait_for_data(self) -> None:
        """Wait until there is data to read, or the body has ended."""
        if self._pieces or self.complete or self.error is not None:
            return
        self._waiter = self.head.get_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def abort(self) -> None:
        """Close the connection unless the whole response has arrived."""
        connection, self._connection = self._connection, None
        if connection is not None and not self.complete:
            connection.abort()
        self._pieces.clear()

    def receive_head(self, status: int, headers: CIMultiDict[str]) -> None:
        """Store the status and headers of the response, and wake its reader; for the connection."""
        self.status = status
        self.headers = headers
        if not self.head.done():
            self.head.set_result(None)

    def receive_piece(self, piece: bytes) -> None:
        """Append a piece of the body, still in its content coding; for the connection."""
        self._pieces.append(piece)
        self.buffered += len(piece)
        if self._waiter is not None:
            self._wake()

    def end(self, error: FailureReason | None = None) -> None:
        """End the exchange: with its response complete, or with an error."""
        if self.complete or self.error is not None:
            return
        if error is None:
            self.complete = True
        else:
            self.error = error
        self._connection = None
        if not self.head.done():
            # Without an error the head has arrived already, so there is an error here.
            self.head.set_exception(
                ExchangeFailed(error or FailureReason.CLOSED, response_started=self.response_started)
            )
        if self._waiter is not None:
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _next_piece(self) -> bytes:
        if not self._pieces:
            return b""
        piece = self._pieces.popleft()
        self.buffered -= len(piece)
        if self._connection is not None and self.buffered < _LOW_WATER_MARK:
            self._connection.resume()
        return piece
