"""A provider of `webrtc`, registered and called through a running gateway."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import orjson
import pytest
from aiohttp import web

from tests.harness.beside import beside
from tests.protocols.peers.http import http_server
from tests.protocols.peers.webrtc import MANUAL, WebrtcPeer, send_reply

SECRET = "canary-of-signalling-99"


def authorize(request: web.Request) -> web.Response | None:
    if request.headers.get("X-Key") == SECRET:
        return None
    return web.json_response({"detail": f"not {request.headers.get('X-Key')}"}, status=401)


async def respond(message: dict[str, Any], channel: Any) -> None:
    if message["type"] == "utcp":
        tools = [*MANUAL["tools"], {"name": "ticks", "inputs": {}}]
        send_reply(channel, message, result={**MANUAL, "tools": tools})
    elif message["tool"] == "echo":
        send_reply(channel, message, result=message["arguments"])
    else:
        for n in range(3):
            send_reply(channel, message, event={"n": n})
            await asyncio.sleep(0.05)
        send_reply(channel, message, done=True)


@pytest.fixture(scope="module")
def peer() -> Iterator[WebrtcPeer]:
    """A peer behind a signalling server that requires the secret."""
    running = WebrtcPeer(respond)
    running.authorize = authorize
    with beside(running.serve()):
        yield running


@pytest.mark.parametrize("kind", ["provider_type", "call_template_type"])
def test_a_peer_is_discovered_called_and_streamed(client: httpx2.Client, peer: WebrtcPeer, kind: str) -> None:
    name = "rtc_old" if kind == "provider_type" else "rtc_new"
    template = {
        kind: "webrtc", "name": name, "signaling_server": f"{peer.url}/peers", "peer_id": "p1",
        "data_channel_name": name, "headers": {"X-Key": "${RTC_KEY}"},
    }  # fmt: skip
    made = client.post(
        "/providers",
        json={
            "name": name,
            "source": {"call_template": template},
            "variables": {"RTC_KEY": {"value": SECRET}},
        },
    )
    assert made.status_code == 201, made.text
    assert made.json()["origins"] == [peer.url]
    assert peer.labels[-1] == name
    arguments = {"a": [1, {"b": None}]}
    dry = client.post(f"/tools/{name}.echo/call?dry_run=true", json=arguments)
    assert SECRET not in dry.text
    response = client.post(f"/tools/{name}.echo/call", json=arguments)
    assert (response.status_code, response.json()) == (200, arguments)
    assert client.post(f"/tools/{name}.ticks/call", json={}).json() == [{"n": 0}, {"n": 1}, {"n": 2}]
    with client.stream(
        "POST", f"/tools/{name}.ticks/call", json={}, headers={"Accept": "application/x-ndjson"}
    ) as streamed:
        lines = [orjson.loads(line) for line in streamed.iter_lines() if line.strip()]
    assert [line.get("data", line) for line in lines[:-1]] == [{"n": 0}, {"n": 1}, {"n": 2}]
    shown = client.get(f"/tools/{name}.echo").text + client.get(f"/providers/{name}").text
    assert SECRET not in shown + client.get("/export").text
    gone = client.delete(f"/providers/{name}")
    assert gone.status_code in (200, 204), gone.text


def test_a_peer_that_names_inner_addresses_only(client: httpx2.Client) -> None:
    async def signal(request: web.Request) -> web.Response:
        sdp = "v=0\r\na=candidate:1 1 udp 1 10.255.255.1 5000 typ host\r\n"
        return web.Response(text=sdp, content_type="application/sdp")

    with beside(http_server(signal)) as url:
        template = {"call_template_type": "webrtc", "signaling_server": url, "peer_id": "p"}
        rejected = client.post("/providers", json={"name": "rtcinner", "source": {"call_template": template}})
    assert (rejected.status_code, rejected.json()["type"]) == (
        403,
        "urn:utcp-gateway:problem:blocked-address",
    )
