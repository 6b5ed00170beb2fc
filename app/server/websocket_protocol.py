"""WebSockets (RFC 6455) on a client's connection: uvicorn's protocol on websockets.

`HttpProtocol` has checked the head of the request, and gives its connection to this one. It still counts for
the limits of connections and of its address.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame
from websockets.http11 import Response
from websockets.server import ServerProtocol

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

PATHS_STATE: Final = "websocket_paths"
"""The member of the lifespan's state with the paths that are served as WebSockets."""

_MAX_FRAGMENTS: Final = 4096
"""The frames of one message: empty ones count for no limit of size, and each takes memory."""

# uvicorn logs the target of each connection, whose query may hold what clients should not have put there, and
# at the level debug each frame. What is more than a warning is logged.
_logger = logging.getLogger(__name__)
_logger.setLevel(logging.WARNING)
_logger.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], UnicodeDecodeError)))


class _Connection(ServerProtocol):
    """The messages of one connection. uvicorn adds the server's header fields to accepted handshakes only."""

    def __init__(self, headers: list[tuple[bytes, bytes]], *, max_size: int) -> None:
        super().__init__(max_size=max_size, logger=_logger)
        self._default_headers = headers

    def send_response(self, response: Response) -> None:
        """Send the response to a handshake, with the server's header fields."""
        for name, value in self._default_headers:
            field = name.decode("latin-1")
            if field not in response.headers:
                response.headers[field] = value.decode("latin-1")
        super().send_response(response)


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """One connection; `released` is called once, when it has ended."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        *,
        released: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(config, server_state, app_state, loop)
        self.logger = _logger
        self.conn = _Connection(self.default_headers, max_size=config.ws_max_size)
        self.conn.debug = False
        self._released = released
        self._early = bytearray()
        self._pongs = b""
        self._abort_timer: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        super().connection_lost(exc)
        self._released()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol. What a client sends before the response to its handshake waits for it."""
        if self.handshake_initiated and not self.handshake_complete:
            self._early += data
            self.transport.pause_reading()
            return
        if not self.transport.is_closing():
            super().data_received(data)
        self._abort_if_closing()

    async def send(self, message: "ASGISendEvent") -> None:
        """See the base class."""
        await super().send(message)
        if self._early and self.handshake_complete:
            data, self._early = bytes(self._early), bytearray()
            self.transport.resume_reading()
            self.data_received(data)
        self._abort_if_closing()

    def handle_cont(self, event: Frame) -> None:
        """Add a frame to a message; fail the connection for a message of too many frames."""
        if len(self.frames) < _MAX_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.frames = []
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, "too many frames")
            self.handle_parser_exception()

    def handle_ping(self) -> None:
        """Send the pongs; while the peer does not read, only those of the last pings are sent later.

        RFC 6455 section 5.5.3 allows that. Otherwise pings of a peer that does not read would take memory.
        """
        if self.writable.is_set():
            super().handle_ping()
        else:
            # Empty for all but the first of the pings that were read at once.
            self._pongs = b"".join(self.conn.data_to_send()) or self._pongs

    def resume_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        super().resume_writing()
        if self._pongs and not self.transport.is_closing():
            pongs, self._pongs = self._pongs, b""
            self.transport.write(pongs)

    def shutdown(self) -> None:
        """Do nothing for an open connection: the application ends it once it has completed what is open."""
        if not self.handshake_complete:
            super().shutdown()

    def keepalive_timeout(self) -> None:
        """Abort the connection: a peer that does not read would never take the closing frame either."""
        super().keepalive_timeout()
        self.transport.abort()

    def on_task_complete(self, task: "asyncio.Task[None]") -> None:
        """See the base class, which closes the connection at the end of the application's task."""
        super().on_task_complete(task)
        self._abort_if_closing()

    def _abort_if_closing(self) -> None:
        """Watch that the peer of a connection that is being closed reads what is left."""
        if (
            self._abort_timer is None
            and not self.disconnected
            and (self.close_sent or self.transport.is_closing())
        ):
            self._abort_if_unread(math.inf)

    def _abort_if_unread(self, before: float) -> None:
        """Abort the connection where the peer has read nothing since its buffer had `before` bytes."""
        size = self.transport.get_write_buffer_size()
        if size >= before or before == 0:
            self.transport.abort()
        else:
            self._abort_timer = self.loop.call_later(self.close_timeout, self._abort_if_unread, size)
