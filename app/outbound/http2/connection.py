"""One HTTP/2 connection to an upstream, and the exchanges on it, one after the other (RFC 9113).

The frames are those of `h2`. A connection carries one stream at a time, like one of HTTP/1.1: so connections
belong to a scope as ever, a slow response delays no other, and the pool and its bounds are the same. Each
response names its stream, so that none can be taken for that of another request.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final, cast

from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import DenialOfServiceError, FrameTooLargeError, H2Error
from h2.settings import SettingCodes, Settings
from hpack import Decoder
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
from app.outbound.http1.head_repair import merge_lengths

PROTOCOL: Final = "h2"
"""The protocol's name in ALPN (RFC 9113 section 3.2)."""
_SETTINGS: Final = {
    SettingCodes.ENABLE_PUSH: 0,
    SettingCodes.MAX_CONCURRENT_STREAMS: 1,
    SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEAD_BYTES,
}
_FRAME_HEAD_BYTES: Final = 9
_MAX_FRAME_BYTES: Final = 16 << 10
_STATUS: Final = re.compile(rb"[2-9][0-9]{2}")
# Bytes of frames other than data: a head, settings, pings, which an upstream could send for ever.
_MAX_CONTROL_BYTES: Final = MAX_HEAD_BYTES + (16 << 10)
# RFC 9113 section 8.2.2: fields of the connection have no place here; Host becomes `:authority`.
_HOP_BY_HOP: Final = frozenset(
    {"connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}
)


class _HeadDecoder(Decoder):
    """Decodes heads, in which a repeated Content-Length of one value is one: `h2` rejects a list of them."""

    def __init__(self) -> None:
        super().__init__(max_header_list_size=MAX_HEAD_BYTES)

    def decode(self, data: bytes, raw: bool = False) -> Any:
        fields = super().decode(data, raw=raw)
        stated = [field for field in fields if field[0] == b"content-length"]
        length = merge_lengths([value for _, value in stated])
        if length is None or (len(stated) == 1 and stated[0][1] == length):
            return fields
        others = [field for field in fields if field[0] != b"content-length"]
        return [*others, type(stated[0])(b"content-length", length)]


class Http2Connection(asyncio.BufferedProtocol):
    """A protocol for `loop.create_connection`, with the interface of `Http1Connection`.

    `on_free` is called each time the connection may be reused, `on_lost` once, when it is closed. `buffer` is
    what the event loop reads into, as for `Http1Connection`.
    """

    body_delay = 0.0
    reusable_from = 0.0
    desynchronized = False
    speaks_http2 = False
    has_unread_data = False
    """What arrives between two exchanges belongs to the connection, and is no reason to close it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        buffer: memoryview,
        *,
        on_free: "Callable[[Any], None]",
        on_lost: "Callable[[Any], None]",
    ) -> None:
        self._loop = loop
        self._buffer = buffer
        self._on_free = on_free
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self._h2.decoder = _HeadDecoder()
        self._exchange: Exchange | None = None
        self._received = bytearray()
        self._stream = 0
        self._scheme = "http"
        self._body = memoryview(b"")
        self._body_ended = True
        self._held = 0
        self._interim = 0
        self._control_bytes = 0
        self._closing = False
        self._lost = False
        self.had_body = False
        """Whether the last request had a body."""
        self.idle_since = 0.0
        """The `loop.time()` at which it last became idle."""
        self.used = False
        """Whether an exchange on it has ended."""
        self.refused = False
        """Whether the upstream has not agreed to HTTP/2 in the TLS handshake."""

    @property
    def usable(self) -> bool:
        """Whether another request can be sent on it."""
        idle = self._exchange is None and self._transport is not None
        return idle and not (self._lost or self._closing or self.refused)

    def send(self, head: bytes, body: bytes | None, *, no_body: bool = False) -> Exchange:
        """Send a request, whose head is that of HTTP/1.1, and return its exchange.

        `no_body` says that the response has no body, whatever its head says (a response to HEAD).
        """
        if not self.usable:
            raise RuntimeError("A connection carries one exchange at a time.")
        exchange = self._exchange = Exchange(self, self._loop.create_future(), no_body=no_body)
        self._interim = self._control_bytes = self._held = 0
        self.had_body = bool(body)
        self._body = memoryview(body or b"")
        self._body_ended = not body
        try:
            self._stream = self._h2.get_next_available_stream_id()
            self._h2.send_headers(self._stream, self._fields(head), end_stream=self._body_ended)
            self._send_body()
            self._flush()
        except H2Error:
            self._fail(FailureReason.CLOSED)
        return exchange

    def resume(self) -> None:
        """Let the upstream send on, after buffered bytes have been read."""
        if self._held and self._transport is not None:
            held, self._held = self._held, 0
            try:
                self._h2.acknowledge_received_data(held, self._stream)
                self._flush()
            except H2Error:
                self._fail(FailureReason.MALFORMED)

    def abort(self) -> None:
        """Close the connection immediately and discard what was not sent."""
        if self._transport is not None:
            self._transport.abort()
        self._handle_loss()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.BaseProtocol. Called a second time with the TLS transport inside a proxy's tunnel."""
        self._transport = cast("asyncio.Transport", transport)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self._scheme = "https"
            self.refused = tls.selected_alpn_protocol() != PROTOCOL
            if self.refused:
                return
        self._h2.local_settings = Settings(client=True, initial_values=_SETTINGS)
        self._h2.initiate_connection()
        self._flush()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's.
        """See asyncio.BufferedProtocol."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio.BufferedProtocol."""
        if self._lost:
            return
        self._control_bytes += nbytes
        self._received += self._buffer[:nbytes]
        try:
            while (frame := self._next_frame()) is not None:
                for event in self._h2.receive_data(frame):
                    self._handle(event)
            self._send_body()
            self._flush()
        except DenialOfServiceError:
            self._fail(FailureReason.HEAD_TOO_LARGE)
            return
        except H2Error:
            self._fail(FailureReason.MALFORMED)
            return
        if self._control_bytes > _MAX_CONTROL_BYTES:
            awaits_head = self._exchange is not None and not self._exchange.status
            self._fail(FailureReason.HEAD_TOO_LARGE if awaits_head else FailureReason.MALFORMED)

    def eof_received(self) -> bool:
        """See asyncio.BufferedProtocol. A half-closed connection cannot be used."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's.
        """See asyncio.BaseProtocol."""
        self._handle_loss()

    def _next_frame(self) -> bytes | None:
        """Return the next whole frame, None where it has not arrived yet; raise H2Error for one too large.

        Frames are given to `h2` one by one, because it reads nothing after a GOAWAY unless it is told to.
        """
        received = self._received
        if self._lost or len(received) < _FRAME_HEAD_BYTES:
            return None
        length = int.from_bytes(received[:3], "big")
        if length > _MAX_FRAME_BYTES:
            raise FrameTooLargeError
        end = _FRAME_HEAD_BYTES + length
        if len(received) < end:
            return None
        frame = bytes(received[:end])
        del received[:end]
        return frame

    def _handle(self, event: Event) -> None:
        exchange = self._exchange
        if isinstance(event, ConnectionTerminated):
            self._closing = True
            # Streams up to the last one are still answered (RFC 9113 section 6.8).
            if exchange is None or (event.last_stream_id or 0) < self._stream or event.error_code:
                self._fail(FailureReason.CLOSED)
                return
            self._h2.state_machine.state = ConnectionState.CLIENT_OPEN
            return
        if exchange is None or getattr(event, "stream_id", 0) not in (0, self._stream):
            return
        match event:
            case InformationalResponseReceived():
                self._interim += 1
                if self._interim > MAX_INTERIM_RESPONSES:
                    self._fail(FailureReason.MALFORMED)
            case ResponseReceived(headers=headers):
                self._receive_head(exchange, headers or [])
            case DataReceived(data=data, flow_controlled_length=length):
                self._receive_data(exchange, data or b"", length or 0)
            case StreamReset():
                self._reset(event)
            case StreamEnded():
                self._end_exchange()
            case WindowUpdated():
                pass  # `buffer_updated` sends more of the body.

    def _receive_head(self, exchange: Exchange, fields: Any) -> None:
        exchange.response_started = True
        pairs = [(bytes(name), bytes(value)) for name, value in fields]
        is_long = any(len(name) + len(value) > MAX_FIELD_BYTES for name, value in pairs)
        if is_long or len(pairs) > MAX_FIELDS + 1:
            self._fail(FailureReason.HEAD_TOO_LARGE)
            return
        status = dict(pairs).get(b":status", b"")
        if not _STATUS.fullmatch(status):
            self._fail(FailureReason.MALFORMED)
            return
        headers = CIMultiDict(
            (name.decode("utf-8", "surrogateescape"), value.decode("utf-8", "surrogateescape").strip())
            for name, value in pairs
            if not name.startswith(b":")
        )
        exchange.receive_head(int(status), headers)

    def _receive_data(self, exchange: Exchange, data: bytes, length: int) -> None:
        # A frame without data is control, however many there are.
        self._control_bytes = 0 if data else self._control_bytes
        if data and not exchange.no_body:
            exchange.receive_piece(data)
        self._held += length
        if exchange.buffered <= HIGH_WATER_MARK:
            self.resume()

    def _reset(self, event: StreamReset) -> None:
        # An upstream that has responded may end the stream of a request that it need not read (section 8.1).
        if event.error_code == ErrorCodes.NO_ERROR and self._exchange is not None and self._exchange.status:
            self._body_ended = True
            self._closing = True
            self._end_exchange()
            return
        self._fail(FailureReason.CLOSED)

    def _end_exchange(self) -> None:
        """End the exchange, whose response is complete, and free or close the connection."""
        exchange, self._exchange = self._exchange, None
        self.used = True
        if exchange is not None:
            exchange.end(None if exchange.status else FailureReason.MALFORMED)
        if self._held:
            # The stream is closed: only the connection's own window is left to be opened again.
            held, self._held = self._held, 0
            self._h2.acknowledge_received_data(held, self._stream)
        if self._closing or not self._body_ended or self._transport is None:
            self.abort()
            return
        self._flush()
        self._on_free(self)

    def _send_body(self) -> None:
        """Send as much of the body as the upstream's windows allow."""
        while not self._body_ended and self._exchange is not None:
            window = self._h2.local_flow_control_window(self._stream)
            size = min(window, self._h2.max_outbound_frame_size, len(self._body))
            if size <= 0:
                return
            piece, self._body = self._body[:size], self._body[size:]
            self._body_ended = not self._body
            self._h2.send_data(self._stream, bytes(piece), end_stream=self._body_ended)

    def _fields(self, head: bytes) -> list[tuple[bytes, bytes]]:
        """Return the fields of a request whose head is that of HTTP/1.1."""
        lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
        method, target, _ = lines[0].split(b" ", 2)
        pairs = [line.split(b": ", 1) for line in lines[1:]]
        fields = [(name.lower(), value) for name, value in pairs]
        host = next((value for name, value in fields if name == b"host"), b"")
        return [
            (b":method", method),
            (b":scheme", self._scheme.encode()),
            (b":authority", host),
            (b":path", target),
            *((name, value) for name, value in fields if name.decode() not in _HOP_BY_HOP),
        ]

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)

    def _fail(self, reason: FailureReason) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.end(reason)
        self.abort()

    def _handle_loss(self) -> None:
        if self._lost:
            return
        self._lost = True
        self._transport = None
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.end(FailureReason.CLOSED)
        self._on_lost(self)
