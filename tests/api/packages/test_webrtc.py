"""A provider of `webrtc`, registered and called through a running gateway."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx2
import orjson
import pytest
from aiohttp import web

from tests.harness.beside import beside
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair
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
def client(gateway: RunningGateway) -> Iterator[httpx2.Client]:
    """A client of the shared gateway with its first key."""
    with gateway.client() as made:
        yield made


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


@pytest.fixture(scope="module")
def gateway_without_package(
    servers: Pair, peer: WebrtcPeer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGateway]:
    """A gateway that has a provider and a tool of webrtc, and then is started without the package."""
    folder = tmp_path_factory.mktemp("without")
    # Of two distributions of one name, importlib.metadata reads the first on the path; this one has no entry points.
    metadata = folder / "utcp_gateway_webrtc-0.2.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: utcp-gateway-webrtc\nVersion: 0.2.0\n")
    template = {
        "call_template_type": "webrtc", "signaling_server": f"{peer.url}/peers", "peer_id": "p1",
        "headers": {"X-Key": "${RTC_KEY}"},
    }  # fmt: skip
    body = {
        "name": "rtc",
        "source": {"call_template": template},
        "variables": {"RTC_KEY": {"value": SECRET}},
        "options": {"direct": True},
    }
    dsn = servers.create_database()
    try:
        with serve(servers, folder, database_url=dsn) as installed:
            with installed.client() as client:
                made = client.post("/providers", json=body)
                assert made.status_code == 201, made.text
            ring = installed.environment["SEALING_KEYS"]
        with serve(servers, folder, database_url=dsn, SEALING_KEYS=ring, PYTHONPATH=str(folder)) as running:
            yield running
    finally:
        servers.drop_database(dsn)


MISSING = "Protocol webrtc needs the package `utcp-gateway-webrtc`: pip install utcp-gateway-webrtc."


def test_without_the_package_new_templates_name_it(gateway_without_package: RunningGateway) -> None:
    template = {"call_template_type": "webrtc", "signaling_server": "https://a.example", "peer_id": "p"}
    with gateway_without_package.client() as client:
        provider = client.post("/providers", json={"name": "new", "source": {"call_template": template}})
        tool = client.post("/tools", json={"provider": "custom", "name": "new", "call_template": template})
    for rejected, at in ((provider, "/source/call_template"), (tool, "/call_template")):
        assert (rejected.status_code, rejected.json()["detail"]) == (422, MISSING)
        assert rejected.json()["errors"] == [{"pointer": f"{at}/call_template_type", "detail": MISSING}]


def test_without_the_package_what_is_stored_is_shown_but_not_called(
    gateway_without_package: RunningGateway,
) -> None:
    with gateway_without_package.client() as client:
        called = client.post("/tools/rtc.echo/call", json={})
        refreshed = client.post("/providers/rtc/refresh")
        shown = [
            client.get(path)
            for path in (
                "/providers", "/providers/rtc", "/providers/health", "/tools", "/tools/rtc.echo", "/export", "/utcp",
                "/utcp?mode=direct", "/utcp?mode=direct&protocol=webrtc&version=0", "/tools/search?q=echo",
                "/providers/rtc/tools",
            )
        ]  # fmt: skip
        checked = client.post("/providers/rtc/check")
        removed = client.delete("/providers/rtc")
    assert (called.status_code, called.json()["detail"]) == (422, MISSING)
    assert (refreshed.status_code, refreshed.json()["detail"]) == (422, MISSING)
    assert [(str(one.url), one.status_code) for one in shown if one.status_code >= 500] == []
    assert checked.status_code < 500, checked.text
    assert removed.status_code in (200, 204), removed.text
