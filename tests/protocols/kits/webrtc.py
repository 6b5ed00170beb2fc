"""WebRTC: a real peer of the library `aiortc`, behind a signalling server as in WHIP."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
from aiohttp import web
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription

from tests.harness.beside import web_server
from tests.protocols.kits.base import HUGE, Kit, Template, Upstream, free_port

MANUAL = {
    "utcp_version": "1.0.1", "manual_version": "1.0.0",
    "tools": [{"name": "echo", "description": "Gives the arguments back.", "inputs": {"type": "object"}}],
}  # fmt: skip


class PeerSide:
    """Answers offers, and what comes on the channels. `answered` may change the answer."""

    def __init__(self, answer: Callable[[dict[str, Any], Any], Any]) -> None:
        self.connections: list[RTCPeerConnection] = []
        self.labels: list[str] = []
        self.loopback = "127.0.0.1"
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()
        self.running: dict[str, asyncio.Task[None]] = {}

    async def answered(self, offer: str) -> str:
        connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.connections.append(connection)
        connection.on("datachannel", self._channel)
        await connection.setRemoteDescription(RTCSessionDescription(sdp=offer, type="offer"))
        on_loopback(connection, self.loopback)
        await connection.setLocalDescription(await connection.createAnswer())
        return connection.localDescription.sdp

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(connection.close() for connection in self.connections))

    def _channel(self, channel: Any) -> None:
        self.labels.append(channel.label)

        def heard(text: str) -> None:
            message = orjson.loads(text)
            number = message["id"]
            if message["type"] == "cancel":
                if number in self.running:
                    self.running[number].cancel()
                return
            task = asyncio.create_task(self._answered(message, channel))
            self.running[number] = task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        channel.on("message", heard)

    async def _answered(self, message: dict[str, Any], channel: Any) -> None:
        try:
            await self._answer(message, channel)
        finally:
            self.running.pop(message["id"], None)


def on_loopback(connection: RTCPeerConnection, address: str) -> None:
    """Has the peer listen at this address and nowhere else."""
    ice: Any = connection.sctp.transport.transport.iceGatherer._connection

    async def gather() -> None:
        ice._local_candidates_start = True
        ice._local_candidates = await ice.get_component_candidates(component=1, addresses=[address])
        ice._local_candidates_end = True

    ice.gather_candidates = gather


def say(channel: Any, message: dict[str, Any], **more: Any) -> None:
    channel.send(orjson.dumps({"id": message["id"], **more}).decode())


async def say_slowly(channel: Any, message: dict[str, Any], **more: Any) -> None:
    """As fast as the channel takes it."""
    if channel.bufferedAmount > 1 << 16:
        taken = asyncio.Event()
        channel.bufferedAmountLowThreshold = 1 << 15
        channel.once("bufferedamountlow", taken.set)
        await taken.wait()
    say(channel, message, **more)


class WebrtcKit(Kit):
    protocol = "webrtc"
    places = ("header", "query", "cookie")

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Upstream]:
        upstream = Upstream("")

        async def answer(message: dict[str, Any], channel: Any) -> None:
            await self._answer(message, channel, upstream, side)

        async def signal(request: web.Request) -> web.Response:
            seen = {name.lower(): value for name, value in request.headers.items()}
            upstream.seen.append(
                seen | {f"query:{name.lower()}": value for name, value in request.query.items()}
            )
            sdp = await side.answered(await request.text())
            return web.Response(text=sdp, status=201, content_type="application/sdp")

        side = PeerSide(answer)
        application = web.Application()
        application.router.add_post("/peers/{peer}", signal)
        async with web_server(application, handler_cancellation=True) as upstream.place:
            yield upstream
            await side.aclose()

    def template(self, upstream: Upstream, case: str) -> Template:
        base = f"http://127.0.0.1:{free_port()}" if case == "unreachable" else upstream.place
        return {
            "call_template_type": "webrtc", "signaling_server": f"{base}/peers", "peer_id": "the peer",
            "tool_name": case,
        }  # fmt: skip

    def discovery(self, upstream: Upstream) -> Template:
        return {
            "call_template_type": "webrtc", "signaling_server": f"{upstream.place}/peers", "peer_id": "the peer",
        }  # fmt: skip

    def addresses(self, text: str) -> list[Template]:
        return [
            {
                "call_template_type": "webrtc",
                "signaling_server": f"{scheme}://{text}/",
                "peer_id": "p",
                "tool_name": "t",
            }
            for scheme in ("http", "ws")
        ]

    async def _answer(
        self, message: dict[str, Any], channel: Any, upstream: Upstream, side: PeerSide
    ) -> None:
        if message["type"] == "utcp":
            return say(channel, message, result=MANUAL)
        match message["tool"]:
            case "echo":
                say(channel, message, result=message["arguments"])
            case "huge":
                say(channel, message, result="x" * HUGE)
            case "rejects":
                say(channel, message, error={"status": 404, "message": f"no such thing: {upstream.seen[-1]}"})
            case "breaks":
                say(channel, message, event={"n": 0})
                await asyncio.gather(*(connection.close() for connection in side.connections))
            case _:
                try:
                    await self._stream(message, channel, upstream)
                finally:
                    upstream.gone.set()
        return None

    async def _stream(self, message: dict[str, Any], channel: Any, upstream: Upstream) -> None:
        if message["tool"] == "silent":
            await asyncio.sleep(60)
        if message["tool"] == "stream":
            for n in range(3):
                say(channel, message, event={"n": n})
                await asyncio.sleep(0.05)
            return say(channel, message, done=True)
        while channel.readyState == "open":
            await say_slowly(channel, message, event={"n": upstream.sent, "p": "x" * 16_384})
            upstream.sent += 1
        return None
