"""A WebRTC peer of the library `aiortc`, behind a signalling server as in WHIP."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import orjson
from aiohttp import web
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription

from tests.protocols.peers.http import HttpPeer

Handler = Callable[[dict[str, Any], Any], Awaitable[None]]

MANUAL = {
    "utcp_version": "1.0.1", "manual_version": "1.0.0",
    "tools": [{"name": "echo", "description": "Gives the arguments back.", "inputs": {"type": "object"}}],
}  # fmt: skip


class WebrtcPeer(HttpPeer):
    """Responds to offers, and runs `on_message(message, channel)` for each message on a channel."""

    def __init__(self, on_message: Handler) -> None:
        super().__init__(self._signal)
        self.connections: list[RTCPeerConnection] = []
        self.labels: list[str] = []
        """The label of each data channel."""
        self.address = "127.0.0.1"
        """Where the peer listens for media."""
        self.status = 201
        """The status of the signalling server's responses."""
        self.edit_answer: Callable[[str], str] = lambda sdp: sdp
        self.authorize: Callable[[web.Request], web.Response | None] = lambda _: None
        """Returns the response to a request that is denied."""
        self.running: dict[str, asyncio.Task[None]] = {}
        """By its id, each message that is handled."""
        self._on_message = on_message
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Run the signalling server until the block ends, and yield its URL; then close all connections."""
        async with super().serve() as url:
            try:
                yield url
            finally:
                await self.aclose()

    async def answer(self, offer: str) -> str:
        """Return the SDP answer to an offer, of a new connection."""
        connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.connections.append(connection)
        connection.on("datachannel", self._on_channel)
        await connection.setRemoteDescription(RTCSessionDescription(sdp=offer, type="offer"))
        _listen_only_at(connection, self.address)
        await connection.setLocalDescription(await connection.createAnswer())
        return str(connection.localDescription.sdp)

    async def aclose(self) -> None:
        """Close all connections; may be called twice."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(connection.close() for connection in self.connections))

    async def _signal(self, request: web.Request) -> web.Response:
        denied = self.authorize(request)
        if denied is not None:
            return denied
        if request.method == "DELETE" or self.status >= 300:
            return web.json_response({"detail": "so it is"}, status=self.status)
        sdp = self.edit_answer(await self.answer(self.requests[-1].body.decode()))
        return web.Response(
            text=sdp, status=self.status, content_type="application/sdp", headers={"Location": "/s/1"}
        )

    def _on_channel(self, channel: Any) -> None:
        self.labels.append(channel.label)

        def received(text: str) -> None:
            message = orjson.loads(text)
            number = message["id"]
            if message["type"] == "cancel":
                if number in self.running:
                    self.running[number].cancel()
                return
            task = asyncio.create_task(self._run(message, channel))
            self.running[number] = task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        channel.on("message", received)

    async def _run(self, message: dict[str, Any], channel: Any) -> None:
        try:
            await self._on_message(message, channel)
        finally:
            self.running.pop(message["id"], None)


def _listen_only_at(connection: RTCPeerConnection, address: str) -> None:
    ice: Any = connection.sctp.transport.transport.iceGatherer._connection

    async def gather() -> None:
        ice._local_candidates_start = True
        ice._local_candidates = await ice.get_component_candidates(component=1, addresses=[address])
        ice._local_candidates_end = True

    ice.gather_candidates = gather


def send_reply(channel: Any, message: dict[str, Any], **fields: Any) -> None:
    """Send a message with these fields and the id of `message`."""
    channel.send(orjson.dumps({"id": message["id"], **fields}).decode())


async def send_reply_when_drained(channel: Any, message: dict[str, Any], **fields: Any) -> None:
    """Send it once at most 64 KiB of the channel are unsent."""
    if channel.bufferedAmount > 1 << 16:
        drained = asyncio.Event()
        channel.bufferedAmountLowThreshold = 1 << 15
        channel.once("bufferedamountlow", drained.set)
        await drained.wait()
    send_reply(channel, message, **fields)
