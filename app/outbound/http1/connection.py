"""One connection to an upstream, and the exchanges on it, one after the other.

The parser is llhttp, which Node.js and uvicorn use. What it accepts beyond the letter of RFC 9112 is what
real servers send: bare line feeds, and blanks after a chunk's size. All that arrives is bounded: a head by
count and length, a body by pausing the transport while 32 KiB wait to be read.

HTTP/1.1 does not say which request a response belongs to but by its order. So a connection is reused only
after an exchange in which the upstream did nothing that could put it out of step: see `_end_exchange`.
"""

import array
import asyncio
import contextlib
import fcntl
import re
import select
import termios
from collections.abc import Callable
from typing import Any, Final, cast

import httptools
from multidict import CIMultiDict

from app.outbound.http1.exchange import HIGH, Broken, Exchange

_MOST_HEADERS: Final = 128
_LONGEST_HEADER: Final = 16 << 10
_LONGEST_HEAD: Final = 256 << 10
_MOST_INTERIM: Final = 16
_MUCH: Final = 16 << 10
_VERSIONS: Final = frozenset({"1.0", "1.1"})
_WITHOUT_BODY: Final = frozenset({204, 304})
# RFC 9113 section 4.1: a frame of type SETTINGS or GOAWAY of the stream 0, with which a server begins.
_HTTP2_FRAME: Final = re.compile(rb"\x00[\x00-\x40].[\x04\x07][\x00\x01]\x00{0,4}", re.DOTALL)
# Servers say so when they close an idle connection (RFC 9110 section 15.5.9).
_IDLE_TIMEOUT: Final = re.compile(rb"HTTP/1\.[01] 408[ \r\n]")


class _Unacceptable(Exception):
    """Raised inside a callback of the parser: a head that is too large, or an answer nobody asked for."""

    def __init__(self, why: Broken = Broken.MALFORMED) -> None:
        super().__init__(why.value)
        self.why = why


class Connection(asyncio.BufferedProtocol):
    """A protocol for `loop.create_connection`. `on_free` is called when it may be used again, `on_lost` once,
    when it is closed. `buffer` is read into; connections of one event loop may share it, as what was read is
    parsed at once. (uvloop's own 256 KiB for each read would be held by each stream that is paused.)
    """

    __slots__ = (
        "_buffer", "_exchange", "_fd", "_finished", "_head_bytes", "_headers", "_held_back",
        "_held_timer", "_in_body", "_interim", "_keep", "_loop", "_lost", "_on_free", "_on_lost", "_parser",
        "_paused", "_poll", "_sends_much", "_transport", "had_body", "idle_since", "out_of_step",
        "probe_seconds", "rests_until", "speaks_http2", "used",
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
        self._poll: select.poll | None = None
        self._fd = -1
        self._sends_much = False
        self._held_back: bytes | None = None
        self._held_timer: asyncio.TimerHandle | None = None
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
        self.had_body = False
        """Whether the last request had a body."""
        self.idle_since = 0.0
        """`loop.time()` of when it was last given back."""
        self.rests_until = 0.0
        """`loop.time()` before which it is not to be used again."""
        self.probe_seconds = 0.0
        """How long a request's body is held back, to see whether the upstream responds to the head alone."""
        self.used = False
        """Whether an exchange on it has ended: only then it may have been closed by its other side unseen."""
        self.out_of_step = False
        """Whether bytes arrived on it after a response that belong to no request."""
        self.speaks_http2 = False
        """Whether the other side began with a frame of HTTP/2."""

    @property
    def usable(self) -> bool:
        """Whether another request can be sent on it."""
        return not self._lost and self._exchange is None and self._transport is not None

    @property
    def quiet(self) -> bool:
        """Whether the socket has nothing to read, neither bytes nor an end, that the event loop has not read
        yet.
        """
        return self._poll is None or not self._poll.poll(0)

    def send(self, head: bytes, body: bytes | None, *, no_body: bool = False) -> Exchange:
        """Send a request. `no_body` says that the answer has none whatever its head says (HEAD)."""
        transport = self._transport
        if transport is None or not self.usable:
            raise RuntimeError("A connection carries one exchange at a time.")
        exchange = self._exchange = Exchange(self, self._loop.create_future(), no_body=no_body)
        self._head_bytes = self._interim = 0
        self._keep = False
        self.had_body = bool(body)
        self._sends_much = body is not None and len(body) >= _MUCH
        self._headers = []
        if body is None:
            transport.write(head)
        elif body and self.probe_seconds:
            transport.write(head)
            self._held_back = body
            self._held_timer = self._loop.call_later(self.probe_seconds, self._send_held)
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
        raw = transport.get_extra_info("socket")
        if raw is not None:
            self._poll = select.poll()
            self._fd = raw.fileno()
            self._poll.register(self._fd, select.POLLIN)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's.
        """See asyncio.BufferedProtocol."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio.BufferedProtocol."""
        exchange, transport = self._exchange, self._transport
        if exchange is None:
            # Nobody asked: the next answer would not be the answer to the next request.
            self._spoke_unasked(bytes(self._buffer[:nbytes]))
            return
        first = not exchange.heard
        if first:
            exchange.heard = True
            exchange.early = self._unsent()
            if self._held_back is not None:
                self._send_held()
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # What follows a whole answer spoils the connection, not the answer.
            self.out_of_step = self._finished
            self.speaks_http2 = first and _HTTP2_FRAME.match(self._buffer[:nbytes]) is not None
            exchange.end(None if self._finished else self._why(error))
            self.abort()
            return
        if self._finished:
            # Where the buffer was filled, a TLS layer may hold more that no poll of the socket shows.
            self._end_exchange(drained=nbytes < len(self._buffer))
            return
        # Trailers and the extensions of chunks count, too: each piece of a body begins anew.
        self._head_bytes += nbytes
        if self._head_bytes > _LONGEST_HEAD:
            exchange.end(Broken.MALFORMED)
            self.abort()
        elif exchange.held > HIGH and not self._paused and transport is not None:
            self._paused = True
            transport.pause_reading()

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
        # llhttp lets blanks stand between a name and its colon, where a proxy has to take them out (RFC 9112,
        # 5.1).
        headers = CIMultiDict(
            (
                name.rstrip().decode("utf-8", "surrogateescape"),
                value.strip().decode("utf-8", "surrogateescape"),
            )
            for name, value in self._headers
        )
        if exchange is None:
            return
        version = self._parser.get_http_version()
        coding = headers.get("Transfer-Encoding")
        length = headers.get("Content-Length")
        self._keep = version == "1.1" and not self._interim and self._parser.should_keep_alive()
        if version not in _VERSIONS:
            raise _Unacceptable(Broken.HTTP2 if version == "2.0" else Broken.MALFORMED)
        if exchange.no_body or status in _WITHOUT_BODY:
            # One that says it has a body, where none can be, may send it.
            self._keep = self._keep and not exchange.no_body and coding is None and length in (None, "0")
        elif coding is not None:
            self._check_transfer_coding(version, headers)
        else:
            exchange.until_close = length is None
        self._in_body = True
        exchange.began(status, headers)
        # The parser cannot be told of HEAD, and would take what follows for the body.
        self._finished = exchange.no_body

    def on_body(self, body: bytes) -> None:
        """See httptools."""
        exchange = self._exchange
        if exchange is None:
            return
        if self._finished:
            return  # The answer to a HEAD with a body after all.
        if not self._in_body:
            raise _Unacceptable  # RFC 9110 section 15.2: an interim answer has none.
        self._head_bytes = 0
        exchange.arrived(body)

    def on_message_complete(self) -> None:
        """See httptools."""
        if self._in_body:
            self._finished = True

    def _check_transfer_coding(self, version: str, headers: CIMultiDict[str]) -> None:
        """Raise _Unacceptable unless it is `chunked`, exactly once: what llhttp and RFC 9112 read alike.

        llhttp takes the end of the text for the coding, so that `gzip, chunked` would be passed on still
        packed, and `chunked<TAB>` with its frames. No TE was sent, so nothing else may come (RFC 9112 section
        7.4), and nothing at all from HTTP/1.0 (section 6.1).
        """
        raw = [value for name, value in self._headers if name.rstrip().lower() == b"transfer-encoding"]
        if (
            version != "1.1"
            or len(raw) != 1
            or raw[0].strip(b" ").lower() != b"chunked"
            or "Content-Length" in headers
        ):
            raise _Unacceptable(Broken.TRANSFER_CODING)

    def _send_held(self) -> None:
        """Send the body that was held back, if it still is."""
        body, self._held_back = self._held_back, None
        if self._held_timer is not None:
            self._held_timer.cancel()
            self._held_timer = None
        if body is not None and self._transport is not None:
            self._transport.write(body)

    def _unsent(self) -> bool:
        """Whether some of the request has not reached the other side's kernel yet.

        A response brings the acknowledgement of what it responds to, so one that arrives now is early. It
        leaves the rest of the request on its way, which an upstream that does not read it takes for the next
        request.
        """
        transport = self._transport
        if transport is None or self._held_back is not None or transport.get_write_buffer_size():
            return True
        if not self._sends_much or self._fd < 0:
            return False
        # Over TLS the transport does not count what lies in the one below it; the kernel's queue is full
        # then.
        left = array.array("i", [0])
        with contextlib.suppress(OSError):  # Not every system counts it.
            fcntl.ioctl(self._fd, termios.TIOCOUTQ, left)
        return left[0] > 0

    def _why(self, error: Exception) -> Broken:
        """What a failure of the parser says of the response."""
        if self.speaks_http2:
            return Broken.HTTP2
        cause = error.__context__
        return cause.why if isinstance(cause, _Unacceptable) else Broken.MALFORMED

    def _spoke_unasked(self, said: bytes) -> None:
        """Close: the next response would not be the response to the next request."""
        harmless = _IDLE_TIMEOUT.match(said) is not None or not said.strip(b"\r\n")
        self.out_of_step = self.used and not harmless
        self.speaks_http2 = not self.used and _HTTP2_FRAME.match(said) is not None
        self.abort()

    def _end_exchange(self, *, drained: bool) -> None:
        """The response is whole. The connection is reused only where nothing hints at bytes to come that
        belong to no request: HTTP/1.1, framed by its length or by `chunked`, no interim response, not to
        HEAD, begun after the whole request was sent, and nothing after it."""
        exchange, self._exchange = self._exchange, None
        self._finished = self._in_body = False
        self.used = True
        if exchange is not None:
            exchange.end()
        transport = self._transport
        if transport is None or self._lost:
            return
        reusable = self._keep and drained and not transport.is_closing() and exchange is not None
        if exchange is not None and exchange.early:
            # What responds to the head alone may not read the body; an error is often found without it, and
            # an interim response (RFC 9110 section 15.2) may come before the body is read.
            reusable = False
            self.out_of_step = exchange.status < 400 and not self._interim
        elif self.had_body and exchange is not None and exchange.status >= 400:
            reusable = False
        if not reusable or transport.get_write_buffer_size():
            self.abort()
            return
        self.resume()
        self._on_free(self)

    def _lose(self, exc: BaseException | None) -> None:
        if self._lost:
            return
        self._lost = True
        self._transport = None
        self._send_held()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            ended = exchange.until_close and exc is None and exchange.status != 0
            self.used = self.used or ended
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
