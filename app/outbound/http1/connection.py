"""One HTTP/1.1 connection to an upstream, and the exchanges on it, one after the other.

The parser is llhttp, which Node.js and uvicorn use. It accepts beyond the letter of RFC 9112 what real
servers send: bare line feeds, and spaces after a chunk's size; `http1.head_repair` repairs what else a
recipient may read. Everything that arrives is limited: a head by
count and length, a body by pausing the transport while 32 KiB wait to be read.

In HTTP/1.1 only the order of the responses says which request each belongs to. So a connection is reused
only after an exchange in which the upstream did nothing that could desynchronize requests and responses: see
`_end_exchange`.
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

from app.outbound.http1.exchange import (
    HIGH_WATER_MARK,
    MAX_FIELD_BYTES,
    MAX_FIELDS,
    MAX_HEAD_BYTES,
    MAX_INTERIM_RESPONSES,
    Exchange,
    FailureReason,
)
from app.outbound.http1.head_repair import END_OF_HEAD, repair_heads

_LARGE_BODY_BYTES: Final = 16 << 10
_VERSIONS: Final = frozenset({"1.0", "1.1"})
_BODILESS_STATUSES: Final = frozenset({204, 304})
# RFC 9113 section 4.1: a SETTINGS or GOAWAY frame of stream 0, with which an HTTP/2 server begins.
_HTTP2_FRAME: Final = re.compile(rb"\x00[\x00-\x40].[\x04\x07][\x00\x01]\x00{0,4}", re.DOTALL)
# Servers may send this when they close an idle connection (RFC 9110 section 15.5.9).
_IDLE_TIMEOUT: Final = re.compile(rb"HTTP/1\.[01] 408[ \r\n]")


class _UnacceptableResponse(Exception):
    """Raised inside a callback of the parser: for a head that is too large, or an unsolicited response."""

    def __init__(self, reason: FailureReason = FailureReason.MALFORMED) -> None:
        super().__init__(reason.value)
        self.reason = reason


class Http1Connection(asyncio.BufferedProtocol):
    """A protocol for `loop.create_connection`.

    `on_free` is called each time the connection may be reused, `on_lost` once, when it is closed. `buffer` is
    what the event loop reads into; connections of one event loop may share it, since what was read is parsed
    at once. (With uvloop's own buffers, each paused stream would hold 256 KiB.)
    """

    refused = False
    """Whether the upstream has not agreed to the version of HTTP: it always may to this one."""
    __slots__ = (
        "_buffer",
        "_deferred_body",
        "_deferred_body_timer",
        "_exchange",
        "_fd",
        "_finished",
        "_head",
        "_head_bytes",
        "_headers",
        "_in_body",
        "_interim",
        "_is_rejected",
        "_keep",
        "_loop",
        "_lost",
        "_on_free",
        "_on_lost",
        "_parser",
        "_paused",
        "_poll",
        "_sends_large_body",
        "_transport",
        "body_delay",
        "desynchronized",
        "had_body",
        "idle_since",
        "reusable_from",
        "speaks_http2",
        "used",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        buffer: memoryview,
        *,
        on_free: "Callable[[Http1Connection], None]",
        on_lost: "Callable[[Http1Connection], None]",
    ) -> None:
        self._loop = loop
        self._buffer = buffer
        self._on_free = on_free
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._poll: select.poll | None = None
        self._fd = -1
        self._sends_large_body = False
        self._deferred_body: bytes | None = None
        self._deferred_body_timer: asyncio.TimerHandle | None = None
        self._parser = _parser(self)
        self._exchange: Exchange | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._head: bytes | bytearray = b""
        self._is_rejected = False
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
        """The `loop.time()` at which it last became idle."""
        self.reusable_from = 0.0
        """The `loop.time()` before which it must not be reused."""
        self.body_delay = 0.0
        """Seconds by which a request's body is sent after its head, to see whether the upstream responds to
        the head alone."""
        self.used = False
        """Whether an exchange on it has ended: only then may the upstream have closed it unnoticed."""
        self.desynchronized = False
        """Whether bytes that belong to no request arrived on it after a response."""
        self.speaks_http2 = False
        """Whether the upstream began with an HTTP/2 frame."""

    @property
    def usable(self) -> bool:
        """Whether another request can be sent on it."""
        return not self._lost and self._exchange is None and self._transport is not None

    @property
    def has_unread_data(self) -> bool:
        """Whether the socket has data, or an end of stream, that the event loop has not read yet."""
        return self._poll is not None and bool(self._poll.poll(0))

    def send(self, head: bytes, body: bytes | None, *, no_body: bool = False) -> Exchange:
        """Send a request and return its exchange.

        `no_body` says that the response has no body, whatever its head says (a response to HEAD).
        """
        transport = self._transport
        if transport is None or self._lost or self._exchange is not None:
            raise RuntimeError("A connection carries one exchange at a time.")
        exchange = self._exchange = Exchange(self, self._loop.create_future(), no_body=no_body)
        self._head_bytes = self._interim = 0
        self._keep = False
        self.had_body = bool(body)
        self._sends_large_body = body is not None and len(body) >= _LARGE_BODY_BYTES
        self._headers = []
        self._head, self._is_rejected = b"", False
        if body is None:
            transport.write(head)
        elif body and self.body_delay:
            transport.write(head)
            self._deferred_body = body
            self._deferred_body_timer = self._loop.call_later(self.body_delay, self._send_deferred_body)
        elif len(body) < HIGH_WATER_MARK:
            transport.write(head + body)
        else:
            transport.writelines((head, body))
        return exchange

    def resume(self) -> None:
        """Resume reading after the buffered bytes have been read."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close the connection immediately and discard what was not sent."""
        if self._transport is not None:
            self._transport.abort()
        self._handle_loss(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.BaseProtocol. Called a second time with the TLS transport inside a proxy's tunnel."""
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
            self._receive_unsolicited(bytes(self._buffer[:nbytes]))
            return
        first = not exchange.response_started
        if first:
            exchange.response_started = True
            exchange.early = self._has_unsent_data()
            if self._deferred_body is not None:
                self._send_deferred_body()
        try:
            if self._is_rejected:
                self._feed_repaired(nbytes)
            else:
                self._feed(nbytes)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # Bytes after a complete response make the connection unusable, not the response.
            self.desynchronized = self._finished
            self.speaks_http2 = first and _HTTP2_FRAME.match(self._buffer[:nbytes]) is not None
            exchange.end(None if self._finished else self._failure_reason(error))
            self.abort()
            return
        if self._finished:
            # Where the buffer was filled, the TLS layer may hold more data, which polling does not show.
            self._end_exchange(drained=nbytes < len(self._buffer))
            return
        # Trailers and chunk extensions count, too; each piece of a body resets the count.
        self._head_bytes += nbytes
        if self._head_bytes > MAX_HEAD_BYTES:
            exchange.end(FailureReason.MALFORMED if self._in_body else FailureReason.HEAD_TOO_LARGE)
            self.abort()
        elif exchange.buffered > HIGH_WATER_MARK and not self._paused and transport is not None:
            self._paused = True
            transport.pause_reading()

    def _feed(self, nbytes: int) -> None:
        """Parse what has arrived; raise what the parser raises where it cannot be repaired."""
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except httptools.HttpParserError as error:
            if self._in_body or self._finished or error.__context__ is not None:
                raise
            self._feed_repaired(nbytes)
        else:
            if not self._in_body and not self._finished:
                self._keep_head(nbytes)

    def _keep_head(self, nbytes: int) -> None:
        """Keep what has arrived of a head; most arrive whole and are never kept."""
        if not self._head:
            self._head = bytearray()
        self._head += self._buffer[:nbytes]

    def _feed_repaired(self, nbytes: int) -> None:
        """Repair a head that the parser has rejected, and parse it from its beginning once it has ended."""
        # The end of a head may be divided among segments.
        unsearched = max(len(self._head) - 2, 0)
        was_rejected, self._is_rejected = self._is_rejected, True
        self._keep_head(nbytes)
        if was_rejected and END_OF_HEAD.search(self._head, unsearched) is None:
            return
        received = bytes(self._head)
        repaired = repair_heads(received)
        if repaired is None:
            return
        if repaired is received:
            raise httptools.HttpParserError("The head is not well-formed.")
        self._is_rejected = False
        self._headers = []
        self._interim = 0
        self._parser = _parser(self)
        self._parser.feed_data(repaired)
        # Nobody knows how the upstream itself reads such a head.
        self._keep = False

    def eof_received(self) -> bool:
        """See asyncio.BufferedProtocol. A half-closed connection cannot be used."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.BaseProtocol."""
        self._handle_loss(exc)

    def on_message_begin(self) -> None:
        """See httptools. A response begins; a second final response to the same request is rejected."""
        if self._finished:
            raise _UnacceptableResponse

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools."""
        if self._in_body:
            return  # Trailers are ignored (RFC 9110 section 6.5).
        headers = self._headers
        headers.append((name, value))
        if len(headers) > MAX_FIELDS or len(name) + len(value) > MAX_FIELD_BYTES:
            raise _UnacceptableResponse(FailureReason.HEAD_TOO_LARGE)

    def on_headers_complete(self) -> None:
        """See httptools."""
        status = self._parser.get_status_code()
        exchange = self._exchange
        if status < 200:
            self._interim += 1
            self._headers = []
            if status == 101 or self._interim > MAX_INTERIM_RESPONSES:
                raise _UnacceptableResponse
            return
        # llhttp allows whitespace between a field name and its colon, which a proxy must remove (RFC 9112
        # section 5.1).
        headers = CIMultiDict(
            [
                (
                    name.rstrip().decode("utf-8", "surrogateescape"),
                    value.strip().decode("utf-8", "surrogateescape"),
                )
                for name, value in self._headers
            ]
        )
        if exchange is None:
            return
        version = self._parser.get_http_version()
        coding = headers.get("Transfer-Encoding")
        length = headers.get("Content-Length")
        self._keep = version == "1.1" and not self._interim and self._parser.should_keep_alive()
        if version not in _VERSIONS:
            raise _UnacceptableResponse(FailureReason.HTTP2 if version == "2.0" else FailureReason.MALFORMED)
        if exchange.no_body or status in _BODILESS_STATUSES:
            # An upstream that announces a body where there can be none may send one.
            self._keep = self._keep and not exchange.no_body and coding is None and length in (None, "0")
        elif coding is not None:
            self._check_transfer_coding(version, headers)
        else:
            exchange.until_close = length is None
        self._in_body = True
        exchange.receive_head(status, headers)
        # The parser cannot be told that the request was HEAD, and would read what follows as the body.
        self._finished = exchange.no_body

    def on_body(self, body: bytes) -> None:
        """See httptools."""
        exchange = self._exchange
        if exchange is None:
            return
        if self._finished:
            return  # A body in the response to a HEAD request, which is not allowed.
        if not self._in_body:
            raise _UnacceptableResponse  # RFC 9110 section 15.2: an interim response has no body.
        self._head_bytes = 0
        exchange.receive_piece(body)

    def on_message_complete(self) -> None:
        """See httptools."""
        if self._in_body:
            self._finished = True

    def _check_transfer_coding(self, version: str, headers: CIMultiDict[str]) -> None:
        """Raise _UnacceptableResponse unless the transfer coding is `chunked`, exactly once.

        Only that is read alike by llhttp and RFC 9112. llhttp looks at the end of the field value only, so
        `gzip, chunked` would be passed on compressed, and `chunked<TAB>` with its chunk framing. No TE was
        sent, so no other coding is allowed (RFC 9112 section 7.4), and none at all in HTTP/1.0 (section 6.1).
        """
        raw = [value for name, value in self._headers if name.rstrip().lower() == b"transfer-encoding"]
        if (
            version != "1.1"
            or len(raw) != 1
            or raw[0].strip(b" ").lower() != b"chunked"
            or "Content-Length" in headers
        ):
            raise _UnacceptableResponse(FailureReason.TRANSFER_CODING)

    def _send_deferred_body(self) -> None:
        """Send the deferred body if it was not sent yet."""
        body, self._deferred_body = self._deferred_body, None
        if self._deferred_body_timer is not None:
            self._deferred_body_timer.cancel()
            self._deferred_body_timer = None
        if body is not None and self._transport is not None:
            self._transport.write(body)

    def _has_unsent_data(self) -> bool:
        """Return whether part of the request has not reached the upstream's kernel yet.

        A response comes with the TCP acknowledgement of what it responds to, so one that arrives now is
        early. The rest of the request is still in transit then, and an upstream that does not read it takes
        it for the next request.
        """
        transport = self._transport
        if transport is None or self._deferred_body is not None or transport.get_write_buffer_size():
            return True
        if not self._sends_large_body or self._fd < 0:
            return False
        # A TLS transport does not count what its underlying transport buffers; the kernel's send queue is
        # full then.
        queued = array.array("i", [0])
        with contextlib.suppress(OSError):  # Not every system supports it.
            fcntl.ioctl(self._fd, termios.TIOCOUTQ, queued)
        return queued[0] > 0

    def _failure_reason(self, error: Exception) -> FailureReason:
        """Return why the parser has rejected the response."""
        if self.speaks_http2:
            return FailureReason.HTTP2
        cause = error.__context__
        return cause.reason if isinstance(cause, _UnacceptableResponse) else FailureReason.MALFORMED

    def _receive_unsolicited(self, data: bytes) -> None:
        """Close: the next response would not be the response to the next request."""
        harmless = _IDLE_TIMEOUT.match(data) is not None or not data.strip(b"\r\n")
        self.desynchronized = self.used and not harmless
        self.speaks_http2 = not self.used and _HTTP2_FRAME.match(data) is not None
        self.abort()

    def _end_exchange(self, *, drained: bool) -> None:
        """End the exchange, whose response is complete, and free or close the connection.

        It is reused only where nothing suggests that bytes will follow that belong to no request: the
        response is HTTP/1.1, framed by its length or by `chunked`, without an interim response before it, not
        to HEAD, begun after the whole request was sent, and with nothing after it.
        """
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
            # An upstream that responds to the head alone may never read the body. An error is often found
            # without the body, and an interim response (RFC 9110 section 15.2) may come before it is read.
            reusable = False
            self.desynchronized = exchange.status < 400 and not self._interim
        elif self.had_body and exchange is not None and exchange.status >= 400:
            reusable = False
        if not reusable or transport.get_write_buffer_size():
            self.abort()
            return
        if self._paused:
            self.resume()
        self._on_free(self)

    def _handle_loss(self, exc: BaseException | None) -> None:
        if self._lost:
            return
        self._lost = True
        self._transport = None
        self._send_deferred_body()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            ended = exchange.until_close and exc is None and exchange.status != 0
            self.used = self.used or ended
            exchange.end(None if ended else FailureReason.CLOSED)
        self._on_lost(self)


def _parser(connection: Http1Connection) -> Any:
    parser = httptools.HttpResponseParser(connection)
    parser.set_dangerous_leniencies(
        lenient_headers=True,
        lenient_optional_cr_before_lf=True,
        lenient_optional_lf_after_cr=False,
        lenient_spaces_after_chunk_size=True,
    )
    return parser
