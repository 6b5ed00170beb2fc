"""The WebSocket `/ubp` of a gateway."""

from typing import Final
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from utcp_gateway_client.serving.connection import MAX_MESSAGE_BYTES, GatewayRejected
from utcp_gateway_client.tools import preview

SCHEMES: Final = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
"""Schemes of a gateway's URL, and those of its WebSocket."""


def websocket_url(gateway: str) -> str:
    """Return the address of the WebSocket of the gateway with this URL."""
    parts = urlsplit(gateway)
    return parts._replace(
        scheme=SCHEMES[parts.scheme], path=f"{parts.path.rstrip('/')}/ubp", query="", fragment=""
    ).geturl()


class _Connect(connect):
    """Follows no redirects: commands would be those of somewhere else."""

    def process_redirect(self, exc: Exception) -> Exception:
        """Return the error that ends the attempt."""
        return exc


class WebSocket:
    """A `Connection` by text frames."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, text: str) -> None:
        """See `Connection`."""
        await self._socket.send(text)

    async def receive(self) -> str | bytes:
        """See `Connection`."""
        return await self._socket.recv()

    async def close(self) -> None:
        """See `Connection`."""
        await self._socket.close()


async def open_websocket(address: str, key: str | None) -> WebSocket:
    """Return a connection to the WebSocket at this address; raise what `Opener` says."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        return WebSocket(await _Connect(address, additional_headers=headers, max_size=MAX_MESSAGE_BYTES))
    except InvalidStatus as error:
        if error.response.status_code in (401, 403):
            body = preview(bytes(error.response.body or b"")) or f"HTTP {error.response.status_code}"
            raise GatewayRejected(f"The gateway rejects the key: {body}") from None
        raise
