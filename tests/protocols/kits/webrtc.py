"""WebRTC: a real peer of the library `aiortc`, behind a signalling server as in WHIP."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from tests.protocols.kits.base import HUGE, Kit, Template, Upstream, free_port
from tests.protocols.peers.webrtc import MANUAL, WebrtcPeer, send_reply, send_reply_when_drained


class WebrtcKit(Kit):
    protocol = "webrtc"
    places = ("header", "query", "cookie")

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Upstream]:
        upstream = Upstream("")

        def record(request: web.Request) -> None:
            seen = {name.lower(): value for name, value in request.headers.items()}
            upstream.seen.append(
                seen | {f"query:{name.lower()}": value for name, value in request.query.items()}
            )

        async def respond(message: dict[str, Any], channel: Any) -> None:
            await self._answer(message, channel, upstream, peer)

        peer = WebrtcPeer(respond)
        peer.authorize = record
        async with peer.serve() as upstream.place:
            yield upstream

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
        self, message: dict[str, Any], channel: Any, upstream: Upstream, peer: WebrtcPeer
    ) -> None:
        if message["type"] == "utcp":
            return send_reply(channel, message, result=MANUAL)
        match message["tool"]:
            case "echo":
                send_reply(channel, message, result=message["arguments"])
            case "huge":
                send_reply(channel, message, result="x" * HUGE)
            case "rejects":
                send_reply(
                    channel, message, error={"status": 404, "message": f"no such thing: {upstream.seen[-1]}"}
                )
            case "breaks":
                send_reply(channel, message, event={"n": 0})
                await asyncio.gather(*(connection.close() for connection in peer.connections))
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
                send_reply(channel, message, event={"n": n})
                await asyncio.sleep(0.05)
            return send_reply(channel, message, done=True)
        while channel.readyState == "open":
            await send_reply_when_drained(channel, message, event={"n": upstream.sent, "p": "x" * 16_384})
            upstream.sent += 1
        return None
