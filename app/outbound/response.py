"""The answer of an upstream: status, headers, and a body that is read within bounds or streamed."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import aiohttp
from multidict import CIMultiDictProxy

from app.errors import ResponseTooLarge, UpstreamMalformed, UpstreamTimeout, UpstreamUnreachable
from app.outbound.failures import CAUGHT, as_gateway_error
from app.outbound.timing import Bound, Timers

DECODED = frozenset({"identity", "gzip", "deflate"})
"""The content codings that arrive decoded."""


@dataclass(slots=True)
class Patience:  # made at each call; a frozen one costs twice as much
    """The `loop.time()` at which a body must have ended, the seconds between two pieces, and the clock."""

    deadline: float
    idle: float
    clock: Timers


class OutboundResponse:
    """An upstream's answer with its headers read. Either read the body to its end or `close()`.

    The body is decoded (gzip, deflate), and every limit counts decoded bytes. Reading raises
    ResponseTooLarge, UpstreamTimeout, UpstreamUnreachable (the connection broke) and UpstreamMalformed; after
    each of these, and after a cancellation, the connection is closed.
    """

    __slots__ = ("_on_close", "_patience", "_response", "headers", "status", "url")

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        *,
        url: str,
        patience: Patience,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self._response = response
        self._patience = patience
        self._on_close = on_close
        self.url = url
        self.status = response.status
        self.headers: CIMultiDictProxy[str] = response.headers

    @property
    def length(self) -> int | None:
        """The decoded length where the headers tell it."""
        headers = self.headers
        if "Content-Encoding" in headers or "Content-Length" not in headers:
            return None
        return self._response.content_length

    @property
    def arrived(self) -> bool:
        """Whether the end of the body is here already, so that reading it waits for nothing."""
        return self._response.content.is_eof()

    def accept(self, limit: int) -> None:
        """Refuse by the headers alone, before anything is passed on, what is coded strangely or too long."""
        self._check_coding()
        if (self.length or 0) > limit and self._response.method != "HEAD":
            self.close()
            raise _too_large(limit)

    async def read(self, limit: int) -> bytes:
        """The whole body, of at most `limit` bytes."""
        self.accept(limit)
        try:
            body = await self._collect(limit)
        except BaseException:
            self.close()
            raise
        self._done()
        return body

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
        """Give the connection back where the body was read to its end, else close it. May be called again."""
        self._response.close()
        self._done()

    def _done(self) -> None:
        if self._on_close is not None:
            on_close, self._on_close = self._on_close, None
            on_close()

    async def _collect(self, limit: int) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while piece := await self._next():
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _check_coding(self) -> None:
        coding = self.headers.get("Content-Encoding", "")
        if coding and coding.strip().lower() not in DECODED:
            self.close()
            raise UpstreamMalformed("The upstream's answer has a content coding that was not asked for.")

    async def _next(self) -> bytes:
        """The next piece, b"" at the end. No timer is set for what is here already."""
        content = self._response.content
        try:
            piece = content.read_nowait()
            if not piece and content.at_eof():
                return b""
            now = self._patience.clock.loop.time()
            if now >= self._patience.deadline:
                raise UpstreamTimeout("The upstream's answer did not end in time.")
            if piece:
                return piece
            with Bound(self._patience.clock, min(self._patience.deadline, now + self._patience.idle)):
                return await content.readany()
        except TimeoutError:
            raise UpstreamTimeout("The upstream's answer did not end in time.") from None
        except RuntimeError:
            # What aiohttp's reader says when its connection went away before it was asked.
            raise UpstreamUnreachable(
                "The upstream closed the connection before its answer was complete."
            ) from None
        except CAUGHT as error:
            raise as_gateway_error(error) from None


def _too_large(limit: int) -> ResponseTooLarge:
    return ResponseTooLarge(f"The upstream's answer is larger than {limit} bytes.")
