"""HTTP/1.1 on a client's connection: uvicorn's protocol on httptools, with limits on what is read before the
application decides anything, and without messages that two recipients could interpret differently.

uvicorn's own class buffers a head of any size, waits for it without a timeout, merges trailers into the
headers of a request that has begun, and responds to a malformed pipelined request in the middle of the
previous response.
"""

import asyncio
import re
from collections import deque
from typing import Any, Final, NoReturn
from urllib.parse import unquote

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl
from uvicorn.server import ServerState

from app.core.client_address import group_address
from app.server import rejections
from app.server.connections import LINGER_BYTES, ConnectionTable, Progress, get_connections
from app.server.flow_control import LazyFlowControl
from app.server.rejections import Rejection
from app.server.websocket_protocol import PATHS_STATE, WebSocketProtocol

# Phases of a connection. In _IDLE, no byte of a request has been read; _CLOSING reads only to discard.
_IDLE: Final = 0
_HEAD: Final = 1
_BODY: Final = 2
_CLOSING: Final = 3

# What is passed to the parser at once while a head is read: a head exceeds its limit by at most this.
_SLICE: Final = 8 << 10
_LARGE: Final = 64 << 10
# What is read and discarded after the response to a malformed message.
_MAX_DISCARDED_BYTES: Final = 1 << 20
_EMPTY_LINE: Final = b"\r\n"
# Size of a request line without its target, and of the empty line.
_LINE_SIZE: Final = 16
# Memory of a header field besides its text.
_FIELD_COST: Final = 160
_CHECKED_FIELDS: Final = frozenset({b"host", b"transfer-encoding", b"expect", b"x-forwarded-for"})
# RFC 9110 section 7.2 and RFC 3986 section 3.2.2, without user information and zone identifiers.
_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
_PATH_OR_QUERY: Final = re.compile(rb"[/?]")
_MAX_HOSTS: Final = 1024
_VERSION: Final = re.compile(rb" HTTP/(?!1\.[01]\r?\n)[0-9]+(?:\.[0-9]+)?\r?\n")

_valid_hosts: set[bytes] = set()


class _RequestRejected(Exception):
    """Raised in a callback of the parser; the reason is in `HttpProtocol._rejection`."""


class _Discarded(list[tuple[bytes, bytes]]):
    """The list of fields after a head: trailers, which are discarded (RFC 9110 section 6.5.1)."""

    def append(self, _field: tuple[bytes, bytes], /) -> None:
        """Discard the field."""


_DISCARDED: Final = _Discarded()
# Shared by all connections without pipelined requests; never modified.
_NO_PIPELINE: Final[deque[Any]] = deque()


class HttpProtocol(HttpToolsProtocol):
    """One client connection; its limits and counts are in the `ConnectionTable`.

    Thousands of connections may be idle: so this has slots, because instances with more than 30 attributes
    have a dictionary of 1 kB each, and creates queues and events only when there is something to wait for.
    """

    __slots__ = (
        "_blocked",
        "_body",
        "_chunked",
        "_final_rejection",
        "_framing",
        "_head_bytes",
        "_is_proxy",
        "_linger",
        "_phase",
        "_received",
        "_rejection",
        "_root",
        "_running",
        "_table",
        "_upgrading",
        "counted",
        "group",
        "head_cost",
        "url",
    )

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.group: str | None = None
        self.counted = False
        self.head_cost = 0
        self.headers = _DISCARDED
        self.pipeline = _NO_PIPELINE
        self.url = b""
        self._table: ConnectionTable = get_connections(server_state, app_state)
        self._root = self.root_path.encode("ascii")
        self._is_proxy = False
        self._phase = _IDLE
        self._head_bytes = 0
        self._upgrading = False
        self._rejection: Rejection | None = None
        # The request whose response is in progress, and the rejection to be sent after the last response.
        self._running: RequestResponseCycle | None = None
        self._final_rejection: Rejection | None = None
        self._linger = LINGER_BYTES
        # For a chunked body: bytes read besides the body itself.
        self._chunked = False
        self._framing = 0
        self._received = 0
        self._body: Progress | None = None
        self._blocked: Progress | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Add the connection to the table; reject it where there are too many."""
        self.connections.add(self)
        self.transport = transport
        self.flow = LazyFlowControl(transport)
        self.server = get_local_addr(transport)
        self.client = get_remote_addr(transport)
        self.scheme = "https" if is_ssl(transport) else "http"
        host = None if self.client is None else self.client[0]
        if host is None or self._table.trusts(host):
            self._is_proxy = True
        else:
            self.group = group_address(host)
        rejection = self._table.admit(self, self.loop)
        if rejection is not None:
            self._phase = _CLOSING
            transport.write(self._write_response(rejection))
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify every request in progress, and remove the connection from the table."""
        for cycle in (self._running, *(cycle for cycle, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
                self._release_group(cycle)
        self.pipeline = _NO_PIPELINE
        self._table.release(self)
        self._phase = _CLOSING
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass data to the parser, within the limits."""
        phase = self._phase
        if phase == _IDLE:
            if data[0] in _EMPTY_LINE:
                data = self._skip_empty_lines(data)
                if not data:
                    return
            self._table.idle.pop(self, None)
            self._phase = _HEAD
        elif phase == _CLOSING:
            self._discard(len(data))
            return
        size = len(data)
        if size <= _SLICE:
            self._feed(data)
            if self._phase != _IDLE:
                self._check_incomplete(size)
            return
        start = 0
        view = memoryview(data)
        while start < size and self._phase != _CLOSING:
            # Bodies of a known length are passed in large pieces, everything that may contain fields in small
            # ones.
            end = start + (_LARGE if self._phase == _BODY and not self._chunked else _SLICE)
            end = min(end, size)
            if self._phase == _IDLE:
                if view[start] in _EMPTY_LINE and not self._skip_empty_lines(bytes(view[start:end])):
                    start = end
                    continue
                self._table.idle.pop(self, None)
                self._phase = _HEAD
            self._feed(view[start:end])
            if self._phase != _IDLE:
                self._check_incomplete(end - start)
            start = end
        if self._phase == _CLOSING:
            self._discard(size - start)

    def _skip_empty_lines(self, data: bytes) -> bytes:
        """Return what follows empty lines between requests, which are ignored (RFC 9112 section 2.2)."""
        rest = data.lstrip(_EMPTY_LINE)
        self._head_bytes += len(data) - len(rest)
        if self._head_bytes > self._table.limits.head_bytes:
            self._table.idle.pop(self, None)
            self._fail(rejections.HEAD_TOO_LARGE)
            return b""
        return rest

    def _feed(self, data: bytes | memoryview) -> None:
        received = self._received
        cycle = self.cycle if self._chunked and self._phase == _BODY else None
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = bytes(data[upgrade.args[0] :])
            if self._serves_websocket():
                self._become_websocket(rest)
            else:
                self._ignore_upgrade(rest)
            return
        except httptools.HttpParserError as error:
            self._fail(self._rejection or self._explain_malformed(error, data))
            return
        if cycle is not None and cycle is self.cycle:
            self._framing += len(data) - (self._received - received)

    def _serves_websocket(self) -> bool:
        """Return whether the head asks for a WebSocket (RFC 6455 section 4.1) where there is one, and no
        other request of this connection is in progress.
        """
        paths = self.app_state.get(PATHS_STATE, ())
        if self.url.partition(b"?")[0].decode("latin-1") not in paths or self._running is not None:
            return False
        wanted = [value.strip().lower() for name, value in self.headers if name == b"upgrade"]
        is_http_1_1 = self.parser.get_http_version() == "1.1"
        return is_http_1_1 and wanted == [b"websocket"] and self.parser.get_method() == b"GET"

    def _become_websocket(self, rest: bytes) -> None:
        """Check the head, and give the connection to a WebSocketProtocol; `rest` is what follows the head."""
        version = self.parser.get_http_version()
        try:
            group = self._check_head(version, b"GET")
        except _RequestRejected:
            self._fail(self._rejection or rejections.MALFORMED)
            return
        if group is not None and not self._table.enter(group):
            self._fail(rejections.ADDRESS_LIMIT)
            return
        self._table.record_head_end(self)
        self._table.fresh.pop(self, None)
        self._phase = _CLOSING

        def release() -> None:
            if group is not None:
                self._table.leave(group)
            self._table.release(self)

        protocol = WebSocketProtocol(
            self.config, self.server_state, self.app_state, released=release, loop=self.loop
        )
        head = self._list_head_lines(self.headers)
        self.headers = _DISCARDED
        self.connections.discard(self)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        protocol.data_received(b"\r\n".join([*head, b"", b""]))
        if rest:
            protocol.data_received(rest)

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Read the request as if it had no Upgrade (RFC 9110 section 7.8); `rest` is what follows its head.

        The parser takes `rest` for the other protocol, which cannot be configured. So another parser reads
        the same head without Upgrade, and with `Connection: close`: no other request follows this one.
        """
        self._upgrading = False
        lines = self._list_head_lines(
            [field for field in self.headers if field[0] not in (b"upgrade", b"connection")]
        )
        self.parser = httptools.HttpRequestParser(self)
        self._feed(b"\r\n".join([*lines, b"connection: close", b"", b""]))
        if rest and self._phase == _BODY:
            self._feed(rest)

    def _list_head_lines(self, headers: list[tuple[bytes, bytes]]) -> list[bytes]:
        """Return the request line that was read, and these fields."""
        parser = self.parser
        line = b"%b %b HTTP/%b" % (parser.get_method(), self.url, parser.get_http_version().encode())
        return [line, *(b"%b: %b" % field for field in headers)]

    def _check_incomplete(self, size: int) -> None:
        """Check the limits of a message that is still incomplete after `size` more bytes."""
        table = self._table
        if self._phase == _HEAD:
            self._head_bytes += size
            if self._head_bytes > table.limits.head_bytes or len(self.headers) > table.limits.header_fields:
                self._fail(
                    rejections.URI_TOO_LONG if self._is_in_request_line() else rejections.HEAD_TOO_LARGE
                )
                return
            cost = self._head_bytes + _FIELD_COST * len(self.headers)
            table.record_head_growth(self, cost, self.loop.time())
        elif self._phase == _BODY:
            if self._chunked and self._framing > table.limits.head_bytes + 2 * self._received:
                # As in Go (CVE-2023-39326): chunks of one byte cost more to read than they deliver.
                self._fail(rejections.FRAMING_TOO_LARGE)
            elif self.cycle.response_complete:
                self._discard(size)
            elif self._body is None:
                self._body = Progress(self.loop.time(), 0)
                table.bodies.add(self)

    def _is_in_request_line(self) -> bool:
        """Return whether the request line is incomplete: the parser passes the URL in pieces."""
        return not self.headers and len(self.url) + _LINE_SIZE + _SLICE > self._head_bytes

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        """Reset the state of the previous message."""
        self.url = b""
        self.headers = []
        self._phase = _HEAD

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a field of the head; trailer fields are discarded."""
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Check the head, and start the application, or queue the request behind pipelined ones."""
        parser = self.parser
        headers = self.headers
        version = parser.get_http_version()
        method = parser.get_method()
        if parser.should_upgrade() and method != b"CONNECT":
            self._upgrading = True
            return
        group = self._check_head(version, method)
        if self._head_bytes:
            self._head_bytes = 0
            self._table.record_head_end(self)
        if self in self._table.fresh:
            del self._table.fresh[self]
        url = self.url
        if url[0] != 0x2F or b"#" in url:
            url = self._convert_to_origin_form(url)
        raw_path, _, query = url.partition(b"?")
        path = raw_path.decode("ascii")
        if "%" in path:
            path = unquote(path)
        self.scope = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,  # type: ignore[typeddict-item]
            "root_path": self.root_path,
            "headers": headers,
            "state": self.app_state.copy(),
            "method": method.decode("ascii"),
            "path": self.root_path + path,
            "raw_path": self._root + raw_path,
            "query_string": query,
        }
        # Fields that follow in this message are trailers.
        self.headers = _DISCARDED
        self._phase = _BODY
        self._framing = self._received = 0
        self._start_request(version, group)

    def _start_request(self, version: str, group: str | None) -> None:
        app: Any = self.app
        if group is not None and not self._table.enter(group):
            self._table.count(rejections.ADDRESS_LIMIT)
            group, app = None, _reject_too_many
        cycle = self.cycle = RequestResponseCycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            # If the final response is sent without a 100, it is unknown whether the body follows.
            keep_alive=version != "1.0" and not self.expect_100_continue and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        if group is not None:
            cycle.address_group = group  # type: ignore[attr-defined]
        if self._running is None:
            self._running = cycle
            self._start_asgi_task(cycle, app)
        else:
            self.flow.pause_reading()
            if not self.pipeline:
                self.pipeline = deque()
            self.pipeline.appendleft((cycle, app))

    def _check_head(self, version: str, method: bytes) -> str | None:
        """Reject a head that other servers on the way may interpret differently; return the forwarded
        client's address group.
        """
        if version not in ("1.1", "1.0"):
            self._reject(rejections.BAD_VERSION)
        if method == b"CONNECT":
            self._reject(rejections.BAD_METHOD)
        self._check_bounds()
        hosts = 0
        self.expect_100_continue = self._chunked = False
        forwarded = []
        for name, value in self.headers:
            if name in _CHECKED_FIELDS:
                if name == b"host":
                    hosts += 1
                    if value not in _valid_hosts and not _is_host(value):
                        self._reject(rejections.BAD_HOST)
                elif name == b"x-forwarded-for":
                    forwarded.append(value)
                elif name == b"expect":
                    self.expect_100_continue = value.lower() == b"100-continue"
                else:
                    self._check_transfer_coding(version, value)
        if hosts != 1 and (hosts or version == "1.1"):
            self._reject(rejections.BAD_HOST)
        if forwarded and self._is_proxy:
            return self._table.find_forwarded_group(b", ".join(forwarded))
        return None

    def _check_transfer_coding(self, version: str, value: bytes) -> None:
        """Accept only `chunked`, once: the parser accepts `gzip, chunked`, and rejects others too late."""
        if version != "1.1":
            self._reject(rejections.MALFORMED)
        if self._chunked or value.strip(b" \t").lower() != b"chunked":
            self._reject(rejections.BAD_TRANSFER_CODING)
        self._chunked = True

    def _check_bounds(self) -> None:
        limits = self._table.limits
        if len(self.headers) > limits.header_fields:
            self._reject(rejections.HEAD_TOO_LARGE)
        if self._head_bytes > limits.head_bytes - _SLICE:
            # The last bytes may have exceeded the limit.
            url = len(self.url) + _LINE_SIZE
            if url > limits.head_bytes:
                self._reject(rejections.URI_TOO_LONG)
            if url + sum(len(name) + len(value) + 4 for name, value in self.headers) > limits.head_bytes:
                self._reject(rejections.HEAD_TOO_LARGE)
        if len(self.pipeline) >= limits.pipelined:
            self._reject(rejections.PIPELINE_TOO_LONG)

    def _convert_to_origin_form(self, url: bytes) -> bytes:
        """Return path and query of a target in absolute form (RFC 9112 section 3.2.2)."""
        try:
            parsed = httptools.parse_url(url)
        except httptools.HttpParserInvalidURLError:
            self._reject(rejections.BAD_TARGET)
        scheme, _, rest = url.lower().partition(b"://")
        authority = _PATH_OR_QUERY.split(rest, maxsplit=1)[0]
        host = next((value.lower() for name, value in self.headers if name == b"host"), authority)
        if b"#" in url or scheme not in (b"http", b"https") or not _is_host(authority) or authority != host:
            self._reject(rejections.BAD_TARGET)
        path = parsed.path or b"/"
        return path if parsed.query is None else path + b"?" + parsed.query

    def on_body(self, body: bytes) -> None:
        """Pass a piece of the body to the application."""
        self._received += len(body)
        cycle = self.cycle
        if cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        """Record that the request is complete; so is the exchange, where the response already is."""
        if self._upgrading:
            return
        self._phase = _IDLE
        if self._body is not None:
            self._body = None
            self._table.bodies.discard(self)
        cycle = self.cycle
        cycle.more_body = False
        if cycle.response_complete:
            self._table.lingering.pop(self, None)
            self._become_idle()
        else:
            cycle.message_event.set()

    # Responses

    def on_response_complete(self) -> None:
        """Start the next pipelined request, or send the final rejection, or wait for the next request."""
        self.server_state.total_requests += 1
        if self._running is not None:
            self._release_group(self._running)
            self._running = None
        if self.transport.is_closing():
            self._watch_flush()
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._running = cycle
            self._start_asgi_task(cycle, app)
        elif self._final_rejection is not None:
            self._send_final_rejection(self._final_rejection)
        elif self._phase == _BODY and self.cycle.response_complete:
            # The rest of the body is read, so that the client receives the response.
            self._linger = LINGER_BYTES
            self._table.bodies.discard(self)
            self._table.lingering[self] = self.loop.time()
        else:
            self._become_idle()

    def _become_idle(self) -> None:
        """Become idle, unless the next request has begun."""
        if self._phase == _IDLE and self._running is None and not self.transport.is_closing():
            # An idle connection holds nothing of its last request.
            self.cycle = self.scope = None  # type: ignore[assignment]
            self.headers = _DISCARDED
            self._table.idle[self] = self.loop.time()

    def _release_group(self, cycle: RequestResponseCycle) -> None:
        group = getattr(cycle, "address_group", None)
        if group is not None:
            cycle.address_group = None  # type: ignore[attr-defined]
            self._table.leave(group)

    # Rejections

    def reject(self, rejection: Rejection) -> None:
        """Reject the message being read, after the responses to earlier ones, and close the connection."""
        self._fail(rejection)

    def abort(self) -> None:
        """Abort the connection."""
        self._phase = _CLOSING
        self.transport.abort()

    def _reject(self, rejection: Rejection) -> NoReturn:
        self._rejection = rejection
        raise _RequestRejected

    def _explain_malformed(self, error: httptools.HttpParserError, data: bytes | memoryview) -> Rejection:
        if self._phase == _HEAD and not self.headers and _VERSION.search(bytes(data[:_SLICE])):
            return rejections.BAD_VERSION
        if isinstance(error, httptools.HttpParserInvalidURLError):
            return rejections.BAD_TARGET
        return rejections.MALFORMED

    def _fail(self, rejection: Rejection) -> None:
        """Stop reading; the rejection is sent after the responses to earlier requests."""
        self._table.count(rejection)
        in_body = self._phase == _BODY
        self._phase = _CLOSING
        self._linger = _MAX_DISCARDED_BYTES
        self._table.record_head_end(self)
        self._table.bodies.discard(self)
        self.headers = _DISCARDED
        cycle = self.cycle
        if in_body and cycle is not None and not self._abandon_request(cycle):
            return
        if self._running is None:
            self._send_final_rejection(rejection)
        else:
            self._final_rejection = rejection

    def _abandon_request(self, cycle: RequestResponseCycle) -> bool:
        """End a request whose body cannot be read; return whether a rejection can be sent."""
        if cycle.response_started:
            # The response has begun, or is complete: no other can be sent.
            cycle.disconnected = True
            self.transport.close()
            self._watch_flush()
            return False
        cycle.disconnected = True
        cycle.message_event.set()
        self._release_group(cycle)
        if cycle is self._running:
            self._running = None
        else:
            self.pipeline = deque(pair for pair in self.pipeline if pair[0] is not cycle)
        return True

    def _send_final_rejection(self, rejection: Rejection) -> None:
        """Send the response of a rejection, then discard input: after a reset the client might lose it."""
        transport = self.transport
        self._phase = _CLOSING
        if transport.is_closing():
            return
        transport.write(self._write_response(rejection))
        if transport.can_write_eof():
            transport.write_eof()
            self._table.lingering[self] = self.loop.time()
            self.flow.resume_reading()
        else:
            transport.close()
            self._watch_flush()

    def _write_response(self, rejection: Rejection) -> bytes:
        lines = [STATUS_LINE[rejection.status]]
        for name, value in (*self.server_state.default_headers, *rejection.headers):
            if name != b"connection":
                lines += [name, b": ", value, b"\r\n"]
        return b"".join([*lines, b"connection: close\r\n\r\n", rejection.body])

    def _discard(self, size: int) -> None:
        """Count discarded bytes; abort the connection beyond the limit."""
        self._linger -= size
        if self._linger < 0 and not self.transport.is_closing():
            self._table.count(rejections.BODY_AFTER_RESPONSE)
            self.abort()

    # Timeouts of clients

    def is_body_stalled(self, now: float, seconds: float) -> bool:
        """See `connections.ClientConnection`."""
        progress = self._body
        if progress is None:
            return False
        if self.flow.read_paused or self._running is not self.cycle:
            progress.restart(now)
            return False
        return progress.is_stalled(now, self._received, seconds)

    def pause_writing(self) -> None:
        """See asyncio.Protocol; from now on the client must read 64 KiB within each timeout."""
        super().pause_writing()
        self._blocked = Progress(self.loop.time(), -self.transport.get_write_buffer_size())
        self._table.blocked.add(self)

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        super().resume_writing()
        self._blocked = None
        self._table.blocked.discard(self)
        if self.transport.is_closing():
            self._watch_flush()

    def shutdown(self) -> None:
        """See uvicorn: close the connection, after the response in progress."""
        super().shutdown()
        if self.transport.is_closing():
            self._watch_flush()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """See uvicorn; after a response that fails in the middle, the connection is closed without a
        callback.
        """
        task = self.loop.create_task(cycle.run_asgi(app))
        task.add_done_callback(self._on_task_ended)
        self.tasks.add(task)

    def _on_task_ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if self.transport.is_closing():
            self._watch_flush()

    def _watch_flush(self) -> None:
        """Limit the time for which a closing connection waits for its client to read what was written.

        The transport calls `pause_writing` only above 64 KiB.
        """
        if self.counted and self._blocked is None:
            size = self.transport.get_write_buffer_size()
            if size:
                self._blocked = Progress(self.loop.time(), -size)
                self._table.blocked.add(self)

    def is_response_stalled(self, now: float, seconds: float) -> bool:
        """See `connections.ClientConnection`."""
        progress = self._blocked
        return progress is not None and progress.is_stalled(
            now, -self.transport.get_write_buffer_size(), seconds
        )


def _is_host(value: bytes) -> bool:
    """Return whether this is a valid value of Host; cache the valid ones, of which there are few."""
    if _HOST.fullmatch(value) is None:
        return False
    if len(_valid_hosts) < _MAX_HOSTS and len(value) <= 255:
        _valid_hosts.add(value)
    return True


async def _reject_too_many(_scope: Any, _receive: Any, send: Any) -> None:
    """Respond in place of the application, on a connection of a proxy that also serves other clients."""
    rejection = rejections.ADDRESS_LIMIT
    await send({"type": "http.response.start", "status": rejection.status, "headers": rejection.headers})
    await send({"type": "http.response.body", "body": rejection.body, "more_body": False})
