"""Peers of `/ubp` for tests: agents that send commands, and executors that count what they execute."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import websockets

from tests.harness.gateway import RunningGateway

VALUE = "type.googleapis.com/google.protobuf.Value"
ORDER_STATUS = {
    "name": "get_order_status",
    "description": "Return the status of an order.",
    "parameters": [
        {"name": "order_id", "type": "integer", "description": "The number of the order.", "required": True}
    ],
}
"""The definition of the tool in the chapter of UBP on tool calling."""

Handler = Callable[[dict[str, Any]], Awaitable[Any]]


async def shipped(request: dict[str, Any]) -> str:
    """Return the status of every order."""
    return "Shipped"


class UbpPeer:
    """One connection, in JSON. `executed` counts the commands that it was sent, by command_id; `metadata` is
    that of the envelope of the last one.
    """

    def __init__(self, socket: Any, handler: Handler = shipped) -> None:
        self.executed: Counter[str] = Counter()
        self.cancelled: list[str] = []
        self.metadata: dict[str, str] = {}
        self._socket = socket
        self._handler = handler
        self._number = 0
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._reading = asyncio.ensure_future(self._read())

    async def request(
        self, name: str, arguments: Any = None, command_id: str = "", **metadata: str
    ) -> dict[str, Any]:
        """Send a command, and return the response to it; raise ConnectionError where there is none."""
        self._number += 1
        message_id = f"m{self._number}"
        request = {
            "commandId": command_id,
            "commandName": name,
            "arguments": arguments or {},
            "metadata": metadata,
        }
        waiting: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[message_id] = waiting
        await self._send({"messageId": message_id, "commandRequest": request})
        return await waiting

    async def register(
        self, executor: str, *tools: dict[str, Any], reply_to: str = "true", **metadata: str
    ) -> dict[str, Any]:
        """Register tools as an executor, and return the value of the response; fail where it has an error."""
        response = await self.request(
            "agent.register_tools",
            {"tools": list(tools or (ORDER_STATUS,))},
            role="executor",
            executor=executor,
            reply_to=reply_to,
            **metadata,
        )
        assert response["status"] == "SUCCESS", response
        return dict(response["result"]["value"])

    async def aclose(self) -> None:
        """Close the connection; requests without a response fail."""
        await self._socket.close()
        await self._reading
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def abort(self) -> None:
        """End the connection as the end of its process would: without a closing frame."""
        self._socket.transport.abort()

    async def send_text(self, text: str) -> None:
        """Send a frame, which may be no message, and for which the gateway may end the connection."""
        with contextlib.suppress(websockets.ConnectionClosed):
            await self._socket.send(text)

    async def wait_closed(self) -> None:
        """Wait until the gateway ends the connection."""
        await self._reading

    async def _read(self) -> None:
        with contextlib.suppress(websockets.ConnectionClosed):
            async for text in self._socket:
                message = json.loads(text)
                if "commandRequest" in message:
                    task = asyncio.ensure_future(self._execute(message))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                elif "commandResponse" in message:
                    waiting = self._waiting.pop(message["metadata"]["reply_to"], None)
                    if waiting is not None:
                        waiting.set_result(message["commandResponse"])
        for waiting in self._waiting.values():
            waiting.set_exception(ConnectionResetError("The gateway has closed the connection."))

    async def _execute(self, message: dict[str, Any]) -> None:
        request = message["commandRequest"]
        if request["commandName"] == "command.cancel":
            self.cancelled.append(request["arguments"]["command_id"])
            return
        self.executed[request["commandId"]] += 1
        self.metadata = message.get("metadata", {})
        value = await self._handler(request)
        response = {
            "commandId": request["commandId"],
            "status": "SUCCESS",
            "result": {"@type": VALUE, "value": value},
        }
        with contextlib.suppress(websockets.ConnectionClosed):
            await self._send({"commandResponse": response, "metadata": {"reply_to": message["messageId"]}})

    async def _send(self, message: dict[str, Any]) -> None:
        await self._socket.send(json.dumps(message))


@asynccontextmanager
async def connected_to(url: str, key: str, handler: Handler = shipped) -> AsyncIterator[UbpPeer]:
    """Yield a peer that is connected to the gateway at a base URL."""
    headers = {"Authorization": f"Bearer {key}"}
    async with websockets.connect(
        url.replace("http", "ws", 1) + "/ubp", additional_headers=headers, proxy=None
    ) as socket:
        peer = UbpPeer(socket, handler)
        try:
            yield peer
        finally:
            await peer.aclose()


@asynccontextmanager
async def connected(
    gateway: RunningGateway, key: str | None = None, handler: Handler = shipped
) -> AsyncIterator[UbpPeer]:
    """Yield a peer that is connected to a gateway with the admin key, or another key."""
    async with connected_to(gateway.url, key or gateway.key, handler) as peer:
        yield peer
