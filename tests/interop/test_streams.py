"""Released clients read the streams of tools through the gateway, value by value, and see a stream that fails."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from tests.harness.beside import beside, web_server
from tests.harness.gateway import RunningGateway
from tests.interop.clients import run

PIECES = {
    "events": ("text/event-stream", b'id: 1\ndata: {"n": 1}\n\nevent: tick\ndata: two\n\n'),
    "lines": ("application/x-ndjson", b'{"n": 1}\n"two"\n'),
    "sequence": ("application/json-seq", b'\x1e{"n":\n1}\n\x1e"two"\n'),
}


@asynccontextmanager
async def upstream() -> AsyncIterator[str]:
    async def stream(request: web.Request) -> web.StreamResponse:
        media, body = PIECES[request.match_info["form"]]
        response = web.StreamResponse(headers={"Content-Type": media})
        await response.prepare(request)
        await response.write(body)
        if "break" in request.query:
            assert request.transport is not None
            request.transport.abort()
        return response

    application = web.Application()
    application.router.add_route("*", "/{form}", stream)
    async with web_server(application) as url:
        yield url


@pytest.fixture(scope="module")
def streams(gateway: RunningGateway) -> Iterator[str]:
    with beside(upstream()) as url, gateway.client() as client:
        templates = {
            "sse": {"call_template_type": "sse", "url": f"{url}/events"},
            "streamable": {"call_template_type": "streamable_http", "url": f"{url}/lines"},
            "http": {
                "call_template_type": "http", "url": f"{url}/sequence",
                "headers": {"Accept": "application/json-seq, application/json;q=0.5"},
            },
            "broken": {"call_template_type": "sse", "url": f"{url}/events?break=1", "reconnect": False},
            "missing": {"call_template_type": "sse", "url": f"{url}/"},
        }  # fmt: skip
        tools = [
            {"name": name, "description": name, "inputs": {}, "tool_call_template": template}
            for name, template in templates.items()
        ]
        manual = {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": tools}
        made = client.post("/providers", json={"name": "streams", "source": {"manual": manual}})
        assert made.status_code == 201, made.text
        yield "streams"
        client.delete("/providers/streams")


@pytest.mark.parametrize("client", ["1", "0"])
def test_a_client_reads_each_value_and_an_error_where_the_stream_fails(
    client: str, gateway: RunningGateway, streams: str
) -> None:
    names = ("sse", "streamable", "http", "broken", "missing")
    calls: list[tuple[str, dict[str, Any]]] = [(f"streams_{name}", {"body": {}}) for name in names]
    found = run(
        client, gateway, calls, query=f"?provider={streams}&protocol=http,streamable_http", mode="stream"
    )
    *whole, broken, missing = found["results"]
    assert whole == [{"ok": [{"n": 1}, "two"]}] * 3
    assert "ClientPayloadError" in broken["error"]
    assert missing["error"].startswith("ClientResponseError: 404")


@pytest.mark.parametrize("client", ["1", "0", "typescript"])
def test_without_the_protocol_a_stream_is_the_result_of_a_call(
    client: str, gateway: RunningGateway, streams: str
) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("streams_sse", {"body": {}}),
        ("streams_streamable", {"body": {}}),
    ]
    found = run(client, gateway, calls, query=f"?provider={streams}")
    assert [json.dumps(one) for one in found["results"]] == ['{"ok": [{"n": 1}, "two"]}'] * 2
