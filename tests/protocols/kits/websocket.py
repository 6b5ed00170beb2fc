"""WebSocket, by the server of the library `websockets`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from tests.protocols.kits.base import HUGE, Kit, Template, Upstream, free_port
from tests.protocols.peers.websocket import websocket_server


class WebsocketKit(Kit):
    protocol = "websocket"
    peer_members = frozenset({"message"})
    places = ("header", "query", "cookie", "/message/key")

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Upstream]:
        upstream = Upstream("")

        async def handle(connection: ServerConnection) -> None:
            try:
                await self._answer(upstream, connection)
            except (ConnectionClosed, asyncio.CancelledError):
                upstream.gone.set()
                raise

        async with websocket_server(handle) as upstream.place:
            yield upstream

    def template(self, upstream: Upstream, case: str) -> Template:
        base = f"ws://127.0.0.1:{free_port()}" if case == "unreachable" else upstream.place
        names = ("word", "number", "yes", "list", "deep")
        arguments = {name: f"UTCP_ARG_{name}_UTCP_ARG" for name in names}
        return {
            "call_template_type": "websocket", "url": f"{base}/{case}", "response_format": "json",
            "message": {"key": "", "arguments": arguments},
            "responses": 100 if case == "stream" else 100_000 if case == "endless" else 1,
        }  # fmt: skip

    def discovery(self, upstream: Upstream) -> Template:
        return {"call_template_type": "websocket", "url": f"{upstream.place}/utcp"}

    def addresses(self, text: str) -> list[Template]:
        return [{"call_template_type": "websocket", "url": f"ws://{text}/"}]

    def found(self, seen: dict[str, str], place: str) -> str | None:
        return seen.get(place) if place.startswith("/") else super().found(seen, place)

    async def _answer(self, upstream: Upstream, connection: ServerConnection) -> None:
        message = await connection.recv()
        request = connection.request
        seen = {name.lower(): value for name, value in request.headers.raw_items()}
        parts = urlsplit(request.path)
        case = parts.path.strip("/")
        upstream.seen.append(
            seen | {f"query:{name.lower()}": value for name, value in parse_qsl(parts.query)}
        )
        if case == "utcp":
            template = self.template(upstream, "echo")
            tool = {"name": "echo", "description": "", "tool_call_template": template}
            await connection.send("hello")
            await connection.send(orjson.dumps({"utcp_version": "1.0.1", "tools": [tool]}).decode())
            return
        asked: Any = orjson.loads(message)
        upstream.seen[-1]["/message/key"] = asked["key"]
        match case:
            case "echo":
                await connection.send(orjson.dumps(asked["arguments"]).decode())
            case "silent":
                await connection.wait_closed()
                upstream.gone.set()
            case "breaks":
                connection.transport.write(b"\x81\x20half of a frame")
                await asyncio.sleep(0.05)
                connection.transport.abort()
            case "huge":
                await connection.send("x" * HUGE)
            case "rejects":
                await connection.close(4404, "no such thing")
            case "stream":
                for n in range(3):
                    await connection.send(f'{{"n": {n}}}')
                    await asyncio.sleep(0.05)
            case "endless":
                while True:
                    await connection.send(f'{{"n": {upstream.sent}, "p": "{"x" * 4096}"}}')
                    upstream.sent += 1
