"""Subscriptions by the protocol `graphql-transport-ws` over WebSocket (that of the library graphql-ws)."""

from collections.abc import AsyncGenerator
from typing import Any, Final

import orjson

from app.core import exact_json
from app.core.errors import UpstreamMalformed
from app.outbound.framing import StreamEvent
from app.protocols.graphql.responses import response_error, response_value
from app.protocols.shared.websocket_client import WebSocket
from app.security.masking import Masker

SUBPROTOCOL: Final = "graphql-transport-ws"
_ID: Final = "1"


class Subscription:
    """One subscription on a connection of its own. `idle` is the maximum of seconds without a message."""

    def __init__(self, socket: WebSocket, masker: Masker, *, idle: float) -> None:
        self._socket = socket
        self._masker = masker
        self._idle = idle

    async def start(self, payload: dict[str, Any], *, deadline: float) -> None:
        """Initialise the connection, wait for its acknowledgement and subscribe.

        Raise what `WebSocket.receive` raises, and UpstreamMalformed for another protocol.
        """
        if self._socket.subprotocol != SUBPROTOCOL:
            raise UpstreamMalformed(f"The upstream does not speak {SUBPROTOCOL}.")
        await self._send({"type": "connection_init"}, deadline=deadline)
        message = await self._next(deadline)
        if message is None or message.get("type") != "connection_ack":
            raise UpstreamMalformed("The upstream did not acknowledge the connection.")
        await self._send({"id": _ID, "type": "subscribe", "payload": payload}, deadline=deadline)

    async def events(self, *, deadline: float) -> AsyncGenerator[StreamEvent, None]:
        """Yield the value of each result until the subscription is complete; raise what a call raises.

        `deadline` is a `loop.time()`.
        """
        try:
            while (message := await self._next(deadline)) is not None:
                if message.get("id") != _ID:
                    continue
                match message.get("type"):
                    case "next":
                        yield StreamEvent(response_value(message.get("payload"), self._masker), "json")
                    case "error":
                        raise response_error(message.get("payload"), None, self._masker)
                    case "complete":
                        return
        finally:
            self._socket.close()

    async def _next(self, deadline: float) -> dict[str, Any] | None:
        """Return the next message other than ping and pong, None at the end; respond to pings."""
        while True:
            raw = await self._socket.receive(deadline=deadline, idle=self._idle)
            if raw is None:
                return None
            try:
                message = orjson.loads(raw)
            except orjson.JSONDecodeError:
                message = None
            if not isinstance(message, dict):
                raise UpstreamMalformed(f"The upstream does not speak {SUBPROTOCOL}.")
            if message.get("type") == "ping":
                await self._send({"type": "pong"}, deadline=deadline)
            elif message.get("type") != "pong":
                return message

    async def _send(self, message: dict[str, Any], *, deadline: float) -> None:
        await self._socket.send(exact_json.dumps(message).decode(), deadline=deadline)
