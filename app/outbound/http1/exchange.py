"""A request that was sent and its answer as it arrives, read by one and filled by another."""

import asyncio
from collections import deque
from enum import Enum
from typing import Final, Protocol

from multidict import CIMultiDict

from app.outbound.http1.decoding import Decoder, decoder_for

HIGH: Final = 32 << 10
"""Bytes that wait to be read before the connection is paused."""
_LOW: Final = 8 << 10
HTTP2_ONLY: Final = "The upstream speaks HTTP/2 only, and the gateway calls upstreams by HTTP/1.1."
_NONE: Final[CIMultiDict[str]] = CIMultiDict()


class Broken(Enum):
    """Why an exchange did not end well."""

    CLOSED = "the upstream closed the connection"
    MALFORMED = "what arrived is not HTTP"
    TRANSFER_CODING = "the transfer coding is not chunked alone"
    HTTP2 = "what arrived is HTTP/2"


class ExchangeFailed(Exception):
    """The answer cannot be had. `heard` says whether any byte of it arrived."""

    def __init__(self, why: Broken, *, heard: bool) -> None:
        super().__init__(why.value)
        self.why = why
        self.heard = heard


class Source(Protocol):
    """Where an answer comes from."""

    def resume(self) -> None:
        """Read on: what was held has been taken."""

    def abort(self) -> None:
        """Close at once."""


class Exchange:
    """A request that was sent and its answer, as far as it has arrived."""

    __slots__ = (
        "_connection", "_decoder", "_pieces", "_waiter", "complete", "early", "error", "head", "headers",
        "heard", "held", "no_body", "status", "until_close",
    )  # fmt: skip

    def __init__(self, connection: Source, head: "asyncio.Future[None]", *, no_body: bool) -> None:
        self._connection: Source | None = connection
        self._decoder: Decoder | None = None
        self._pieces: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self.head = head
        """Done when the status and the headers are here; raises ExchangeFailed."""
        self.headers: CIMultiDict[str] = _NONE
        self.status = 0
        self.no_body = no_body
        self.until_close = False
        self.complete = False
        """Whether the whole body has arrived; some of it may still wait to be read."""
        self.error: Broken | None = None
        self.heard = False
        self.early = False
        """Whether it began to arrive before the whole request was sent."""
        self.held = 0
        """Bytes that arrived and were not read."""

    def decode(self, coding: str) -> None:
        """Take this content coding off what is read; say it before the first read."""
        self._decoder = decoder_for(coding)

    def read_nowait(self) -> bytes:
        """What is here, b"" for nothing yet or the end (see `ended`). Raises UndecodableBody."""
        if self._decoder is None:
            return self._next_piece()
        while True:
            if given := self._decoder.step():
                return given
            piece = self._next_piece()
            if not piece:
                return b""
            self._decoder.feed(piece)

    def take_all(self) -> bytes:
        """All pieces of a body that is complete and was not coded."""
        pieces, self._pieces, self.held = self._pieces, deque(), 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    @property
    def ended(self) -> bool:
        """Whether nothing more will come: the end, or an error."""
        return (self.complete or self.error is not None) and not self._pieces

    @property
    def whole(self) -> bool:
        """Whether a coded body has ended as its coding wants."""
        return self._decoder is None or self._decoder.complete

    async def more(self) -> None:
        """Wait until there is more to read, or the end."""
        if self._pieces or self.complete or self.error is not None:
            return
        self._waiter = self.head.get_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def abort(self) -> None:
        """Close the connection unless the whole answer has arrived."""
        connection, self._connection = self._connection, None
        if connection is not None and not self.complete:
            connection.abort()
        self._pieces.clear()

    def began(self, status: int, headers: CIMultiDict[str]) -> None:
        """The head of the answer is here."""
        self.status = status
        self.headers = headers
        if not self.head.done():
            self.head.set_result(None)

    def arrived(self, piece: bytes) -> int:
        """A piece of the body; answers with the bytes that are held now."""
        self._pieces.append(piece)
        self.held += len(piece)
        self._wake()
        return self.held

    def end(self, error: Broken | None = None) -> None:
        """Nothing more will come."""
        if self.complete or self.error is not None:
            return
        if error is None:
            self.complete = True
        else:
            self.error = error
        self._connection = None
        if not self.head.done():
            # Without an error the head came first: so there is one here.
            self.head.set_exception(ExchangeFailed(error or Broken.CLOSED, heard=self.heard))
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _next_piece(self) -> bytes:
        if not self._pieces:
            return b""
        piece = self._pieces.popleft()
        self.held -= len(piece)
        if self._connection is not None and self.held < _LOW:
            self._connection.resume()
        return piece
