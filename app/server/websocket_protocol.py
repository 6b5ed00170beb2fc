"""WebSockets (RFC 6455) on a client's connection: uvicorn's protocol on websockets.

`HttpProtocol` has checked the head of the request, and gives its connection to this one. It still counts for
the limits of connections and of its address.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

PATHS_STATE: Final = "websocket_paths"
"""The member of the lifespan's state with the paths that are served as WebSockets."""

# uvicorn logs the target of each connection, whose query may hold what clients should not have put there, and
# at the level debug each frame. What is more than a warning is logged.
_logger = logging.getLogger(__name__)
_logger.setLevel(logging.WARNING)
_logger.addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], UnicodeDecodeError)))


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
        self.conn.logger = _logger
        self.conn.debug = False
        self._released = released

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        super().connection_lost(exc)
        self._released()

    def shutdown(self) -> None:
        """Do nothing for an open connection: the application ends it once it has completed what is open."""
        if not self.handshake_complete:
            super().shutdown()

    def keepalive_timeout(self) -> None:
        """Abort the connection: a peer that does not read would never take the closing frame either."""
        super().keepalive_timeout()
        self.transport.abort()
