"""The response of an upstream: status, headers, and a body that is read within limits or streamed."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from multidict import CIMultiDict

from app.core.deadlines import Deadline, TimerQueue
from app.core.errors import (
    ResponseTooLarge,
    UpstreamError,
    UpstreamMalformed,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from app.outbound.http1.decoding import DECODED, UndecodableBody
from app.outbound.http1.exchange import HEAD_TOO_LARGE, HTTP2_ONLY, Exchange, FailureReason

# Decoding this many bytes takes some 5 ms; then other tasks may run.
_YIELD_AFTER_BYTES: Final = 1 << 20


@dataclass(slots=True)
class ReadTimeouts:  # Created for each call; a frozen dataclass costs twice as much.
    """The timeouts of reading a body.

    `deadline` is the `loop.time()` at which it must have ended, `idle` the seconds between two pieces.
    """

    deadline: float
    idle: float
    clock: TimerQueue


@dataclass(slots=True)
class Redirection:
    """Where the redirects of a request have led: to `url`, which has no credentials in it.

    `is_temporary` says that one of them was not permanent; `is_processed` that one was the response to a
    request with effects, which the upstream has processed. `reason` is a sentence about why the last one was
    not followed, "" where it was, or where it is the result.
    """

    url: str
    is_temporary: bool = False
    is_processed: bool = False
    reason: str = ""


class OutboundResponse:
    """An upstream's response, of which the headers have been read. Read the body to its end or `close()` it.

    The body is decoded (gzip, deflate, br, zstd), and every limit counts decoded bytes. Reading raises
    ResponseTooLarge, UpstreamTimeout, UpstreamUnreachable (the connection broke) and UpstreamMalformed; after
    each of these, and after a cancellation, the connection is closed.
    """

    __slots__ = (
        "_bytes_since_yield",
        "_coding",
        "_exchange",
        "_head",
        "_timeouts",
        "headers",
        "redirection",
        "status",
        "url",
    )

    def __init__(self, exchange: Exchange, *, url: str, timeouts: ReadTimeouts, head: bool = False) -> None:
        self._exchange = exchange
        self._timeouts = timeouts
        self._head = head
        self._bytes_since_yield = 0
        self.url = url
        self.redirection: Redirection | None = None
        """Where redirects have led; None where the first response was none."""
        self.status = exchange.status
        self.headers: CIMultiDict[str] = exchange.headers
        self._coding = self.headers.get("Content-Encoding", "").strip().lower()
        if self._coding not in ("", "identity") and self._coding in DECODED:
            exchange.decode(self._coding)

    @property
    def length(self) -> int | None:
        """The decoded length in bytes, or None where the headers do not say it."""
        length = self.headers.get("Content-Length")
        if length is None or self._coding or not length.isdigit():
            return None
        return int(length)

    @property
    def is_complete(self) -> bool:
        """Whether the whole body has arrived, so that reading it does not wait."""
        return self._exchange.complete

    @property
    def unsupported_coding(self) -> str:
        """The content coding that cannot be decoded here; "" where the body is decoded."""
        return "" if self._coding in DECODED else self._coding

    def keep_content_coding(self) -> None:
        """Return the body in its content coding, instead of rejecting it."""
        self._coding = ""

    def set_deadline(self, deadline: float) -> None:
        """Set another `loop.time()` at which the body must have ended."""
        self._timeouts.deadline = deadline

    def check_headers(self, limit: int) -> None:
        """Reject, by its headers alone, a response with an unsupported content coding or of too many bytes.

        Raises UpstreamMalformed and ResponseTooLarge.
        """
        self._check_coding()
        if (self.length or 0) > limit and not self._head:
            self.close()
            raise _too_large(limit)

    async def read(self, limit: int) -> bytes:
        """Return the whole decoded body. Raises ResponseTooLarge for more than `limit` bytes."""
        exchange = self._exchange
        if exchange.complete and not self._coding:
            if exchange.buffered > limit:
                raise _too_large(limit)
            return exchange.take_all()
        pieces = [piece async for piece in self.iterate(limit)]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def read_prefix(self, limit: int) -> tuple[bytes, bool]:
        """Return the first `limit` bytes of the body, and whether that is all of it; drop the rest."""
        self._check_coding()
        body = bytearray()
        try:
            while len(body) <= limit and (piece := await self._next()):
                body += piece
        finally:
            self.close()
        return bytes(body[:limit]), len(body) <= limit

    async def iterate(self, limit: int) -> AsyncIterator[bytes]:
        """Yield the body in pieces, as they arrive. Raises ResponseTooLarge after `limit` bytes."""
        size = 0
        self.check_headers(limit)
        try:
            while piece := await self._next():
                size += len(piece)
                if size > limit:
                    raise _too_large(limit)
                yield piece
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection unless the whole response has arrived. Calling it again has no effect."""
        self._exchange.abort()

    def _check_coding(self) -> None:
        if self._coding and self._coding not in DECODED:
            self.close()
            raise UpstreamMalformed("The upstream's response has a content coding that was not requested.")

    async def _next(self) -> bytes:
        """Return the next piece, b"" at the end. No timer is set where data has arrived already."""
        exchange, timeouts = self._exchange, self._timeouts
        while True:
            try:
                piece = exchange.read_nowait()
            except UndecodableBody:
                raise upstream_error(FailureReason.MALFORMED) from None
            if not piece and exchange.ended:
                if exchange.error is not None or not exchange.coding_complete:
                    raise upstream_error(exchange.error or FailureReason.MALFORMED)
                return b""
            now = timeouts.clock.loop.time()
            if now >= timeouts.deadline:
                raise _read_timeout()
            if piece:
                await self._yield_to_loop(len(piece))
                return piece
            try:
                with Deadline(timeouts.clock, min(timeouts.deadline, now + timeouts.idle)):
                    await exchange.wait_for_data()
            except TimeoutError:
                raise _read_timeout() from None

    async def _yield_to_loop(self, size: int) -> None:
        """Let other tasks run after each megabyte that was read without waiting."""
        self._bytes_since_yield += size
        if self._bytes_since_yield >= _YIELD_AFTER_BYTES:
            self._bytes_since_yield = 0
            await asyncio.sleep(0)


def _read_timeout() -> UpstreamTimeout:
    return UpstreamTimeout("The upstream's response did not end in time.")


def _too_large(limit: int) -> ResponseTooLarge:
    return ResponseTooLarge(f"The upstream's response is larger than {limit} bytes.")


def upstream_error(reason: FailureReason) -> UpstreamError:
    """Return the gateway error for an exchange that failed for this reason."""
    if reason is FailureReason.HTTP2:
        return UpstreamMalformed(HTTP2_ONLY)
    if reason is FailureReason.HEAD_TOO_LARGE:
        return UpstreamMalformed(HEAD_TOO_LARGE)
    if reason is FailureReason.TRANSFER_CODING:
        return UpstreamMalformed(
            "The upstream's response has a Transfer-Encoding that was not requested: "
            "only `chunked` alone is decoded."
        )
    if reason is FailureReason.MALFORMED:
        return UpstreamMalformed("The upstream's response is not well-formed HTTP, or ends too early.")
    return UpstreamUnreachable("The upstream closed the connection before its response was complete.")
