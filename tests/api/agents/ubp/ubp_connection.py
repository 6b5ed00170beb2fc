"""One end of `/ubp` whose messages the test reads itself, in JSON."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import websockets

from tests.harness.gateway import RunningGateway

DEFINITION = {
    "name": "get_order_status",
    "description": "Return the status of an order.",
    "parameters": [
        {"name": "order_id", "type": "integer", "description": "The number of the order.", "required": True}
    ],
}


class Connection:
    """A connection to `/ubp`."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.number = 0

    async def send(self, payload: dict[str, Any], **metadata: str) -> str:
        """Send a payload in an envelope; return the id of the envelope."""
        self.number += 1
        message_id = f"m{self.number}"
        await self.socket.send(json.dumps({"messageId": message_id, **payload, "metadata": metadata}))
        return message_id

    async def request(
        self, name: str, arguments: Any, command_id: str = "", **metadata: str
    ) -> dict[str, Any]:
        """Send a command, and return the next message, which has to be a response."""
        request = {"commandId": command_id, "commandName": name, "arguments": arguments, "metadata": metadata}
        await self.send({"commandRequest": request})
        return await self.received("commandResponse")

    async def received(self, kind: str) -> dict[str, Any]:
        """Return the next message, which has to be of this kind."""
        async with asyncio.timeout(10):
            message: dict[str, Any] = json.loads(await self.socket.recv())
        assert kind in message, message
        return message


@asynccontextmanager
async def connected(gateway: RunningGateway, key: str | None = None) -> AsyncIterator[Connection]:
    """Yield a connection with the admin key, or another key."""
    url = gateway.url.replace("http", "ws", 1) + "/ubp"
    headers = {"Authorization": f"Bearer {key or gateway.key}"}
    async with websockets.connect(url, additional_headers=headers, max_queue=None) as socket:
        yield Connection(socket)
