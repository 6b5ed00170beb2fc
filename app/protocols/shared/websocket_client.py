"""WebSocket connections (RFC 6455) over guarded sockets: one for each call.

They follow no redirect of the upgrade, ignore proxies of the environment and negotiate no compression, so
that limits on the size of a message cannot be exceeded. Needs the library `websockets`.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from websockets.asyncio.client import ClientConnection
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed, InvalidState, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI, parse_uri

from app.core.deadlines import Deadline, get_timer_queue
from app.core.errors import (
    GatewayError,
    ResponseTooLarge,
    UpstreamError,
    UpstreamErrorResponse,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.outbound.egress import EgressSettings
from app.outbound.error_bodies import sanitize_error_body
from app.outbound.http1.dialing import connect_error
from app.outbound.network import Address, Network
from app.security.masking import Masker

_PING_SECONDS: Final = 20.0
_CLOSE_SECONDS: Final = 1.0
_MAX_QUEUED: Final = 4
"""Frames that wait to be read before the peer is slowed down."""

_MAX_UNSENT_BYTES: Final = 1 << 20
_ERROR_BODY: Final = 64 * 1024
_MAX_SECRET_LENGTH: Final = 8 * 1024
# RFC 6455 section 7.4.1 and IANA's registry: what a peer finds wrong with what it was sent.
_CLIENT_ERROR_CODES: Final = frozenset({1003, 1007, 1008, 1009, 1010})
_UNAUTHORIZED: Final = frozenset({3000, 4401})

# The library logs headers and messages, among them credentials, where its logger is at DEBUG.
_LOGGER: Final = logging.getLogger(f"{__name__}.library")
_LOGGER.setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The request for a connection (RFC 6455 section 4.1).

    `url` has the scheme ws or wss, is percent-encoded and has no userinfo. `max_message_bytes` is the largest
    message that is received. With `keep_alive` the peer is pinged every 20 seconds.
    """

    url: str
    headers: Sequence[tuple[str, str]]
    max_message_bytes: int
    subprotocols: Sequence[str] = ()
    keep_alive: bool = True


class _Connection(ClientConnection):
    """The library's connection, aborted where the peer sends pings and never reads the pongs."""

    sending = False

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.sending and self.transport.get_write_buffer_size() > _MAX_UNSENT_BYTES:
            self.transport.abort()


class WebSocket:
    """An open connection. It must be closed; `close` is idempotent."""

    def __init__(self, connection: _Connection, masker: Masker, *, keep_alive: bool) -> None:
        self._connection = connection
        self._masker = masker
        self._keep_alive = keep_alive
        self._closed = False

    @classmethod
    async def open(
        cls,
        upgrade: Upgrade,
        *,
        network: Network,
        egress: EgressSettings | None,
        masker: Masker,
        connect_deadline: float,
        deadline: float,
    ) -> "WebSocket":
        """Return a connection that is established by `connect_deadline` and upgraded by `deadline`.

        Both are `loop.time()`. Raise BlockedAddress, InvalidInput and every UpstreamError; a response other
        than 101 raises UpstreamRejected, or UpstreamUnauthorized.
        """
        uri = parse_uri(upgrade.url)
        connection = await _connect(uri, upgrade, network, egress, connect_deadline)
        try:
            with Deadline(get_timer_queue(), deadline):
                await connection.handshake(list(upgrade.headers), None)
        except BaseException as error:
            connection.transport.abort()
            failure = _upgrade_error(error, masker, with_credential=bool(upgrade.headers))
            if failure is None:
                raise
            raise failure from None
        connection.start_keepalive()
        return cls(connection, masker, keep_alive=upgrade.keep_alive)

    @property
    def subprotocol(self) -> str | None:
        """The subprotocol that the peer selected, None for none."""
        return self._connection.subprotocol

    async def send(self, message: str, *, deadline: float) -> None:
        """Send a text message and wait until it is written; raise what `receive` raises.

        Return as well where the peer has closed the connection normally.
        """
        self._connection.sending = True
        try:
            with Deadline(get_timer_queue(), deadline):
                await self._connection.send(message)
        except TimeoutError:
            raise UpstreamTimeout("The upstream did not accept the message in time.") from None
        except ConnectionClosed as closed:
            # A peer that closed normally may have sent messages before that, which `receive` returns.
            if error := self._close_error(closed):
                raise error from None
        finally:
            self._connection.sending = False

    async def receive(self, *, deadline: float, idle: float) -> str | bytes | None:
        """Return the next message; None where the peer has closed the connection normally.

        Raise UpstreamTimeout at `deadline` (a `loop.time()`) and after `idle` seconds of silence, unless
        the peer is pinged and responds to that. Raise UpstreamUnreachable, UpstreamMalformed,
        UpstreamRejected, UpstreamUnauthorized and ResponseTooLarge.
        """
        loop = asyncio.get_running_loop()
        pong: asyncio.Future[float] | None = None
        try:
            while True:
                idle_deadline = loop.time() + idle
                try:
                    with Deadline(get_timer_queue(), min(deadline, idle_deadline)):
                        return await self._connection.recv()
                except TimeoutError:
                    if (
                        deadline <= idle_deadline
                        or not self._keep_alive
                        or (pong is not None and not pong.done())
                    ):
                        raise UpstreamTimeout("The upstream did not respond in time.") from None
                # A connection that was just closed may still have messages to read.
                with contextlib.suppress(ConnectionClosed), Deadline(get_timer_queue(), deadline):
                    pong = asyncio.ensure_future(await self._connection.ping())
        except ConnectionClosed as closed:
            error = self._close_error(closed)
            if error is not None:
                raise error from None
            return None
        except TimeoutError:
            raise UpstreamTimeout("The upstream did not respond in time.") from None

    def close(self) -> None:
        """Send a close frame if that does not block, and close the connection. Idempotent."""
        if self._closed:
            return
        self._closed = True
        transport = self._connection.transport
        try:
            self._connection.protocol.send_close(1000)
            self._connection.send_data()
        except (InvalidState, WebSocketException, OSError, RuntimeError):
            transport.abort()
        # The peer may never read what is written, nor respond to the close frame.
        if transport.get_write_buffer_size():
            transport.abort()
        else:
            transport.close()

    def _close_error(self, closed: ConnectionClosed) -> UpstreamError | None:
        """Return the error for a closed connection; None where it was closed normally."""
        received, sent = closed.rcvd, closed.sent
        if sent is not None and not (received is not None and closed.rcvd_then_sent):
            if sent.code == 1009:
                return ResponseTooLarge("A message of the upstream is larger than allowed.")
            if sent.code in (1002, 1007):
                return UpstreamMalformed("The upstream's message is not well-formed.")
        if received is None:
            return _connection_error()
        if received.code in (1000, 1005):
            return None
        body = {"code": received.code, "reason": self._masker.mask(received.reason)}
        error_response = UpstreamErrorResponse(status=_http_status(received.code), body=body)
        detail = f"The upstream closed the connection with code {received.code}."
        if received.code in _UNAUTHORIZED:
            return UpstreamUnauthorized(detail, response=error_response)
        if received.code in (1001, 1012):
            return UpstreamUnreachable(detail, response=error_response)
        return UpstreamRejected(detail, response=error_response)


async def _connect(
    uri: WebSocketURI, upgrade: Upgrade, network: Network, egress: EgressSettings | None, deadline: float
) -> _Connection:
    tls: dict[str, Any] = {}
    if uri.secure:
        tls = {"ssl": network.tls_context(egress), "server_hostname": uri.host.rstrip(".")}
        tls["ssl_shutdown_timeout"] = _CLOSE_SECONDS
    protocol = ClientProtocol(
        uri,
        subprotocols=[Subprotocol(name) for name in upgrade.subprotocols] or None,
        max_size=upgrade.max_message_bytes,
        logger=_LOGGER,
    )

    def create_connection() -> _Connection:
        # `receive` detects missing pongs: here they might just not have been read yet.
        return _Connection(
            protocol,
            ping_interval=_PING_SECONDS if upgrade.keep_alive else None,
            ping_timeout=None,
            close_timeout=_CLOSE_SECONDS,
            max_queue=_MAX_QUEUED,
        )

    raw = await network.connect_socket(Address(uri.host, uri.port), egress=egress, deadline=deadline)
    try:
        with Deadline(get_timer_queue(), deadline):
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(create_connection, sock=raw, **tls)
    except BaseException as error:
        raw.close()
        if isinstance(error, TimeoutError):
            raise UpstreamTimeout(
                "No connection to the upstream was made in time.", request_sent=False
            ) from None
        if isinstance(error, (OSError, ssl.SSLError)):
            raise connect_error(error) from None
        raise
    return connection


def _upgrade_error(error: BaseException, masker: Masker, *, with_credential: bool) -> GatewayError | None:
    """Return the error for a failed upgrade; None for an exception that is not the upstream's failure."""
    if isinstance(error, InvalidStatus):
        return _status_error(error, masker, with_credential=with_credential)
    if isinstance(error, TimeoutError):
        return UpstreamTimeout("The upstream did not upgrade the connection in time.")
    if isinstance(error, (OSError, EOFError, ConnectionClosed)) or isinstance(error.__cause__, EOFError):
        return _connection_error()
    if isinstance(error, WebSocketException):
        return UpstreamMalformed("The upstream's response to the upgrade is not one of WebSocket.")
    return None


def _status_error(error: InvalidStatus, masker: Masker, *, with_credential: bool) -> UpstreamError:
    response = error.response
    status = response.status_code
    raw = bytes(response.body or b"")
    media_type = response.headers.get_all("Content-Type")
    body = None
    if raw:
        body = sanitize_error_body(
            raw[: _ERROR_BODY + _MAX_SECRET_LENGTH],
            media_type[0] if media_type else "",
            masker=masker,
            limit=_ERROR_BODY,
            complete=len(raw) <= _ERROR_BODY,
        )
    error_response = UpstreamErrorResponse(status=status, body=body)
    if status == 401:
        sent = "the stored credential" if with_credential else "a call without a credential"
        return UpstreamUnauthorized(f"The upstream rejected {sent} (status 401).", response=error_response)
    detail = f"The upstream responded to the upgrade with status {status}."
    if 300 <= status < 400:
        detail += " Redirects are not followed: register the address that it points to."
    return UpstreamRejected(detail, response=error_response)


def _http_status(code: int) -> int:
    """Return the HTTP status for a close code; private codes from 4400 to 4499 are 4000 plus the status."""
    if 4400 <= code < 4500:
        return code - 4000
    if code in _UNAUTHORIZED:
        return 401
    # 4500 is the internal error of servers of GraphQL subscriptions.
    return 422 if code in _CLIENT_ERROR_CODES or (code >= 4000 and not 4500 <= code < 4600) else 502


def _connection_error() -> UpstreamError:
    return UpstreamUnreachable("The upstream closed the connection before its response was complete.")
