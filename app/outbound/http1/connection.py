"""One connection to an upstream, and the exchanges on it, one after the other.

The parser is llhttp, which Node.js and uvicorn use. What it accepts beyond the letter of RFC 9112 is what
real servers send: bare line feeds, and blanks after a chunk's size. All that arrives is bounded: a head by
count and length, a body by pausing the transport while 32 KiB wait to be read.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

import httptools
from multidict import CIMultiDict

from app.outbound.http1.exchange import HIGH, Broken, Exchange

_MOST_HEADERS: Final = 128
_LONGEST_HEADER: Final = 16 << 10
_LONGEST_HEAD: Final = 256 << 10
_MOST_INTERIM: Final = 16
_WITHOUT_BODY: Final = frozenset({204, 304})


class _Unacceptable(Exception):
    """Raised inside a callback of the parser: a head that is too large, or an answer nobody asked for."""


class Connection(asyncio.BufferedProtocol):
    """A protocol for `loop.create_connection`. `on_free` is called when it may be used again, `on_lost` once,
    when it is closed. `buffer` is read into; connections of one event loop may share it, as what was read is
    parsed at once. (uvloop's own 256 KiB for each read would be held by each stream that is paused.)
    """

    __slots__ = (
        "_buffer", "_exchange", "_finished", "_head_bytes", "_headers", "_in_body", "_interim", "_keep",
        "_loop", "_lost", "_on_free", "_on_lost", "_parser", "_paused", "_transport", "idle_since", "used",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        buffer: memoryview,
        *,
        on_free: "Callable[[Connection], None]",
        on_lost: "Callable[[Connection], None]",
    ) -> None:
        self._loop = loop
        self._buffer = buffer
        self._on_free = on_free
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._parser = _parser(self)
        self._exchange: Exchange | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0
        self._interim = 0
        self._in_body = False
        self._finished = False
        self._keep = False
        self._paused = False
        self._lost = False
        self.idle_since = 0.0
        """`loop.time()` of when it was last given back."""
        self.used = False
        """Whether an exchange on it has ended: only then it may have been closed by its other side unseen."""

    @property
    def usable(self) -> bool:
        """Whether another request can be sent on it."""
        return not self._lost and self._exchange is None and self._transport is not None

    def send(self, head: bytes, body: bytes | None, *, no_body: bool = False) -> Exchange:
        """Send a request. `no_body` says that the answer has none whatever its head says (HEAD)."""
        transport = self._transport
        if transport is None or not self.usable:
            raise RuntimeError("A connection carries one exchange at a time.")
        exchange = self._exchange = Exchange(self, self._loop.create_future(), no_body=no_body)
        self._head_bytes = self._interim = 0
        self._headers = []
        if body is None:
            transport.write(head)
        elif len(body) < HIGH:
            transport.write(head + body)
        else:
            transport.writelines((head, body))
        return exchange

    def resume(self) -> None:
        """Read again: what was held has been taken."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once; what was not sent is not sent any more."""
        if self._transport is not None:
            self._transport.abort()
        self._lose(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.BaseProtocol. A tunnel hands a second transport over, with TLS in it."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's.
        """See asyncio.BufferedProtocol."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio.BufferedProtocol."""
        exchange = self._exchange
        if exchange is None:
            # Nobody asked: the next answer would not be the answer to the next request.
            self.abort()
            return
        exchange.heard = True
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            # What follows a whole answer spoils the connection, not the answer.
            exchange.end(None if self._finished else Broken.MALFORMED)
            self.abort()
            return
        if self._finished:
            self._end_exchange()
        else:
            # Trailers and the extensions of chunks count, too: each piece of a body begins anew.
            self._head_bytes += nbytes
            if self._head_bytes > _LONGEST_HEAD:
                exchange.end(Broken.MALFORMED)
                self.abort()

    def eof_received(self) -> bool:
        """See asyncio.BufferedProtocol: a half-closed connection is of no use."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.BaseProtocol."""
        self._lose(exc)

    def on_message_begin(self) -> None:
        """See httptools: an answer begins; a second one to the same request is none."""
        if self._finished:
            raise _Unacceptable

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools."""
        if self._in_body:
            return  # A trailer (RFC 9110 section 6.5): nobody asked for one.
        headers = self._headers
        headers.append((name, value))
        if len(headers) > _MOST_HEADERS or len(name) + len(value) > _LONGEST_HEADER:
            raise _Unacceptable

    def on_headers_complete(self) -> None:
        """See httptools."""
        status = self._parser.get_status_code()
        exchange = self._exchange
        if status < 200:
            self._interim += 1
            self._headers = []
            if status == 101 or self._interim > _MOST_INTERIM:
                raise _Unacceptable
            return
        headers = CIMultiDict(
            (name.decode("utf-8", "surrogateescape"), value.strip().decode("utf-8", "surrogateescape"))
            for name, value in self._headers
        )
        if exchange is None:
            return
        self._in_body = True
        self._keep = self._parser.should_keep_alive()
        if not exchange.no_body and status not in _WITHOUT_BODY:
            coding = ",".join(headers.getall("Transfer-Encoding", ())).rpartition(",")[2].strip().lower()
            exchange.until_close = "Content-Length" not in headers and coding != "chunked"
        exchange.began(status, headers)
        if exchange.no_body:
            # The parser cannot be told, and would take what follows for the body.
            self._parser = _parser(self)
            self._finished = True

    def on_body(self, body: bytes) -> None:
        """See httptools."""
        exchange = self._exchange
        if exchange is None:
            return
        if self._finished:
            # The answer to a HEAD with a body after all: nobody knows where that ends.
            self._keep = False
            return
        if not self._in_body:
            raise _Unacceptable  # RFC 9110 section 15.2: an interim answer has none.
        self._head_bytes = 0
        if exchange.arrived(body) > HIGH and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """See httptools."""
        if self._in_body:
            self._finished = True

    def _end_exchange(self) -> None:
        exchange, self._exchange = self._exchange, None
        self._finished = self._in_body = False
        self.used = True
        if exchange is not None:
            exchange.end()
        transport = self._transport
        if transport is None or self._lost:
            return
        # An answer that came before its request was sent leaves the rest of the request on its way.
        if not self._keep or transport.is_closing() or transport.get_write_buffer_size():
            self.abort()
            return
        self.resume()
        self._on_free(self)

    def _lose(self, exc: BaseException | None) -> None:
        if self._lost:
            return
        self._lost = True
        self._transport = None
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            ended = exchange.until_close and exc is None and exchange.status != 0
            exchange.end(None if ended else Broken.CLOSED)
        self._on_lost(self)


def _parser(connection: Connection) -> Any:
    parser = httptools.HttpResponseParser(connection)
    parser.set_dangerous_leniencies(
        lenient_headers=True,
        lenient_optional_cr_before_lf=True,
        lenient_optional_lf_after_cr=False,
        lenient_spaces_after_chunk_size=True,
    )
    return parser
