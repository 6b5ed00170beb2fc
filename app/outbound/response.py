"""The answer of an upstream: status, headers, and a body that is read within bounds or streamed."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from multidict import CIMultiDict

from app.deadlines import Bound, Timers
from app.errors import (
    ResponseTooLarge,
    UpstreamError,
    UpstreamMalformed,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from app.outbound.http1.decoding import DECODED, UndecodableBody
from app.outbound.http1.exchange import HTTP2_ONLY, Broken, Exchange

# Decoding so much takes some 5 ms: then others have their turn.
_TURN: Final = 1 << 20


@dataclass(slots=True)
class Patience:  # made at each call; a frozen one costs twice as much
    """The `loop.time()` at which a body must have ended, the seconds between two pieces, and the clock."""

    deadline: float
    idle: float
    clock: Timers


class OutboundResponse:
    """An upstream's answer with its headers read. Either read the body to its end or `close()`.

    The body is decoded (gzip, deflate, br, zstd), and every limit counts decoded bytes. Reading raises
    ResponseTooLarge, UpstreamTimeout, UpstreamUnreachable (the connection broke) and UpstreamMalformed; after
    each of these, and after a cancellation, the connection is closed.
    """

    __slots__ = ("_coding", "_exchange", "_head", "_patience", "_since_turn", "headers", "status", "url")

    def __init__(self, exchange: Exchange, *, url: str, patience: Patience, head: bool = False) -> None:
        self._exchange = exchange
        self._patience = patience
        self._head = head
        self._since_turn = 0
        self.url = url
        self.status = exchange.status
        self.headers: CIMultiDict[str] = exchange.headers
        self._coding = self.headers.get("Content-Encoding", "").strip().lower()
        if self._coding not in ("", "identity") and self._coding in DECODED:
            exchange.decode(self._coding)

    @property
    def length(self) -> int | None:
        """The decoded length where the headers tell it."""
        length = self.headers.get("Content-Length")
        if length is None or self._coding or not length.isdigit():
            return None
        return int(length)

    @property
    def arrived(self) -> bool:
        """Whether the end of the body is here already, so that reading it waits for nothing."""
        return self._exchange.complete

    @property
    def undecodable(self) -> str:
        """The content coding that is not taken off here; "" where the body arrives decoded."""
        return "" if self._coding in DECODED else self._coding

    def pass_coded(self) -> None:
        """Give the body in its content coding, instead of rejecting it."""
        self._coding = ""

    def extend(self, deadline: float) -> None:
        """Set another `loop.time()` at which the body must have ended."""
        self._patience.deadline = deadline

    def accept(self, limit: int) -> None:
        """Refuse by the headers alone, before anything is passed on, what is coded strangely or too long."""
        self._check_coding()
        if (self.length or 0) > limit and not self._head:
            self.close()
            raise _too_large(limit)

    async def read(self, limit: int) -> bytes:
        """The whole body, of at most `limit` bytes."""
        self.accept(limit)
        exchange = self._exchange
        if exchange.complete and not self._coding:
            if exchange.held > limit:
                raise _too_large(limit)
            return exchange.take_all()
        pieces = [piece async for piece in self.iterate(limit)]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def read_some(self, limit: int) -> tuple[bytes, bool]:
        """The first `limit` bytes of the body, and whether that is all of it. What is left is dropped."""
        self._check_coding()
        body = bytearray()
        try:
            while len(body) <= limit and (piece := await self._next()):
                body += piece
        finally:
            self.close()
        return bytes(body[:limit]), len(body) <= limit

    async def iterate(self, limit: int) -> AsyncIterator[bytes]:
        """The body in pieces, as they arrive; ResponseTooLarge after `limit` bytes."""
        size = 0
        self.accept(limit)
        try:
            while piece := await self._next():
                size += len(piece)
                if size > limit:
                    raise _too_large(limit)
                yield piece
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection unless the whole answer has arrived. May be called again."""
        self._exchange.abort()

    def _check_coding(self) -> None:
        if self._coding and self._coding not in DECODED:
            self.close()
            raise UpstreamMalformed("The upstream's answer has a content coding that was not asked for.")

    async def _next(self) -> bytes:
        """The next piece, b"" at the end. No timer is set for what is here already."""
        exchange, patience = self._exchange, self._patience
        while True:
            try:
                piece = exchange.read_nowait()
            except UndecodableBody:
                raise broken(Broken.MALFORMED) from None
            if not piece and exchange.ended:
                if exchange.error is not None or not exchange.whole:
                    raise broken(exchange.error or Broken.MALFORMED)
                return b""
            now = patience.clock.loop.time()
            if now >= patience.deadline:
                raise _too_late()
            if piece:
                await self._take_turns(len(piece))
                return piece
            try:
                with Bound(patience.clock, min(patience.deadline, now + patience.idle)):
                    await exchange.more()
            except TimeoutError:
                raise _too_late() from None

    async def _take_turns(self, size: int) -> None:
        """Let others work after a megabyte that was here without waiting."""
        self._since_turn += size
        if self._since_turn >= _TURN:
            self._since_turn = 0
            await asyncio.sleep(0)


def _too_late() -> UpstreamTimeout:
    return UpstreamTimeout("The upstream's answer did not end in time.")


def _too_large(limit: int) -> ResponseTooLarge:
    return ResponseTooLarge(f"The upstream's answer is larger than {limit} bytes.")


def broken(why: Broken) -> UpstreamError:
    """The error for an answer that ended like this."""
    if why is Broken.HTTP2:
        return UpstreamMalformed(HTTP2_ONLY)
    if why is Broken.TRANSFER_CODING:
        return UpstreamMalformed(
            "The upstream's response has a Transfer-Encoding that was not asked for: "
            "only `chunked` alone is decoded."
        )
    if why is Broken.MALFORMED:
        return UpstreamMalformed("The upstream's answer is not well-formed HTTP, or ends too early.")
    return UpstreamUnreachable("The upstream closed the connection before its answer was complete.")
