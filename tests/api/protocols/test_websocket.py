"""Providers of `websocket`, registered and called through a running gateway."""

import asyncio
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from websockets.asyncio.server import ServerConnection

from tests.harness.beside import beside
from tests.harness.gateway import RunningGateway
from tests.protocols.peers.websocket import WebsocketPeer

SECRET = "secret-of-a-websocket-52"


class ManualPeer(WebsocketPeer):
    """A server with a manual; `/count` sends three messages, every other path sends the message back."""

    def __init__(self) -> None:
        super().__init__(self.respond)
        self.seen: list[tuple[str, dict[str, str], Any]] = []

    async def respond(self, connection: ServerConnection) -> None:
        message = await connection.recv()
        headers = {name.lower(): value for name, value in connection.request.headers.raw_items()}
        self.seen.append((connection.request.path, headers, message))
        if message == '{"type": "utcp"}':
            await connection.send(orjson.dumps(self.manual()).decode())
            return
        if connection.request.path.startswith("/count"):
            for n in range(3):
                await connection.send(f'{{"n": {n}}}')
                await asyncio.sleep(0.05)
            return
        await connection.send(message)

    def manual(self) -> dict[str, Any]:
        template = {
            "provider_type": "websocket", "url": f"{self.url}/count?key=${{KEY}}", "headers": {"X-Key": "${KEY}"},
            "message": {"op": "count", "key": "${KEY}", "topic": "UTCP_ARG_topic_UTCP_ARG"}, "responses": 3,
            "response_format": "json", "auth": {"auth_type": "api_key", "api_key": "Bearer ${KEY}", "var_name": "Authorization"},
        }  # fmt: skip
        inputs = {"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]}
        tools = [
            {"name": "count", "description": "Counts.", "inputs": inputs, "tool_provider": template},
            {"name": "echo", "description": "Says it again.", "inputs": {}},
        ]
        return {"version": "0.2.3", "tools": tools}


@pytest.fixture(scope="module")
def peer() -> Iterator[ManualPeer]:
    running = ManualPeer()
    with beside(running.serve()):
        yield running


@pytest.mark.parametrize("spelling", ["provider_type", "call_template_type"])
def test_a_websocket_is_discovered_called_and_streamed(
    gateway: RunningGateway, peer: ManualPeer, spelling: str
) -> None:
    name = f"ws_{spelling}"
    template = {spelling: "websocket", "url": f"{peer.url}/utcp", "headers": {"X-Discovery": "${KEY}"}}
    body = {"name": name, "source": {"call_template": template}, "variables": {"KEY": {"value": SECRET}}}
    with gateway.client() as client:
        made = client.post("/providers", json=body)
        assert made.status_code == 201, made.text
        assert peer.seen[-1][1]["x-discovery"] == SECRET
        provider = client.get(f"/providers/{name}").json()
        assert (provider["protocol"], provider["origins"]) == ("websocket", [peer.url])
        response = client.post(f"/tools/{name}.count/call", json={"topic": 'a", "x": "'})
        assert (response.status_code, response.json()) == (200, [{"n": 0}, {"n": 1}, {"n": 2}]), response.text
        path, headers, message = peer.seen[-1]
        assert (path, headers["x-key"], headers["authorization"]) == (
            f"/count?key={SECRET}",
            SECRET,
            f"Bearer {SECRET}",
        )
        assert orjson.loads(message) == {"op": "count", "key": SECRET, "topic": 'a", "x": "'}
        with client.stream(
            "POST", f"/tools/{name}.count/call", json={"topic": "a"},
            headers={"Accept": "application/json, text/event-stream"},
        ) as streamed:  # fmt: skip
            text = streamed.read().decode()
        assert [f'data: {{"n": {n}}}' in text for n in range(3)] == [True] * 3
        assert "gateway-end" in text
        # The tool without a call template is called with the manual's own, its headers included.
        assert client.post(f"/tools/{name}.echo/call", json={"a": 1}).text == '{"a": 1}'
        assert peer.seen[-1][1]["x-discovery"] == SECRET
        shown = (
            client.get(f"/tools/{name}.count").text + client.get("/utcp").text + client.get("/export").text
        )
        described = client.post(f"/tools/{name}.count/call?dry_run=true", json={"topic": "a"})
        assert SECRET not in shown + described.text
        assert client.delete(f"/providers/{name}").status_code == 204
        assert client.post(f"/tools/{name}.echo/call", json={}).status_code == 404
