"""A provider of `webrtc`, registered and called through a running gateway."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import orjson
import pytest
from aiohttp import web

from tests.harness.beside import beside, web_server
from tests.harness.gateway import RunningGateway
from tests.protocols.kits.webrtc import MANUAL, PeerSide, say

SECRET = "canary-of-signalling-99"


class Site:
    """A peer, and a signalling server that lets in who brings the secret."""

    def __init__(self) -> None:
        self.url = ""
        self.labels: list[str] = []
        self.side: PeerSide

    async def signal(self, request: web.Request) -> web.Response:
        if request.headers.get("X-Key") != SECRET:
            return web.json_response({"detail": f"not {request.headers.get('X-Key')}"}, status=401)
        return web.Response(
            text=await self.side.answered(await request.text()), content_type="application/sdp"
        )

    async def answer(self, message: dict[str, Any], channel: Any) -> None:
        self.labels.append(channel.label)
        if message["type"] == "utcp":
            say(
                channel,
                message,
                result={**MANUAL, "tools": [*MANUAL["tools"], {"name": "ticks", "inputs": {}}]},
            )
        elif message["tool"] == "echo":
            say(channel, message, result=message["arguments"])
        else:
            for n in range(3):
                say(channel, message, event={"n": n})
                await asyncio.sleep(0.05)
            say(channel, message, done=True)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    made = Site()
    application = web.Application()
    application.router.add_post("/peers/{peer}", made.signal)

    async def begin(_: web.Application) -> None:
        made.side = PeerSide(made.answer)

    async def end(_: web.Application) -> None:
        await made.side.aclose()

    application.on_startup.append(begin)
    application.on_cleanup.append(end)
    with beside(web_server(application)) as made.url:
        yield made


@pytest.fixture
def client(gateway: RunningGateway) -> Iterator[httpx2.Client]:
    with gateway.client() as made:
        yield made


@pytest.mark.parametrize("kind", ["provider_type", "call_template_type"])
def test_a_peer_is_discovered_called_and_streamed(client: httpx2.Client, site: Site, kind: str) -> None:
    name = "rtc_old" if kind == "provider_type" else "rtc_new"
    template = {
        kind: "webrtc", "name": name, "signaling_server": f"{site.url}/peers", "peer_id": "p1",
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
    assert made.json()["origins"] == [site.url]
    assert site.labels[-1] == name
    arguments = {"a": [1, {"b": None}]}
    dry = client.post(f"/tools/{name}.echo/call?dry_run=true", json=arguments)
    assert SECRET not in dry.text
    answer = client.post(f"/tools/{name}.echo/call", json=arguments)
    assert (answer.status_code, answer.json()) == (200, arguments)
    assert client.post(f"/tools/{name}.ticks/call", json={}).json() == [{"n": 0}, {"n": 1}, {"n": 2}]
    with client.stream(
        "POST", f"/tools/{name}.ticks/call", json={}, headers={"Accept": "application/x-ndjson"}
    ) as streamed:
        began = [(orjson.loads(line), time.monotonic()) for line in streamed.iter_lines() if line.strip()]
    assert [line.get("data", line) for line, _ in began[:-1]] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert began[2][1] - began[0][1] > 0.03
    shown = client.get(f"/tools/{name}.echo").text + client.get(f"/providers/{name}").text
    assert SECRET not in shown + client.get("/export").text
    gone = client.delete(f"/providers/{name}")
    assert gone.status_code in (200, 204), gone.text


def test_a_peer_that_names_inner_addresses_only(client: httpx2.Client) -> None:
    async def signal(request: web.Request) -> web.Response:
        sdp = "v=0\r\na=candidate:1 1 udp 1 10.255.255.1 5000 typ host\r\n"
        return web.Response(text=sdp, content_type="application/sdp")

    application = web.Application()
    application.router.add_post("/{rest:.*}", signal)
    with beside(web_server(application)) as url:
        template = {"call_template_type": "webrtc", "signaling_server": url, "peer_id": "p"}
        refused = client.post("/providers", json={"name": "rtcinner", "source": {"call_template": template}})
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:utcp-gateway:problem:blocked-address")
