"""Streams of new records from several workers, until the gateway stops."""

import signal
import threading
import time
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from tests.harness.beside import beside, web_server
from tests.harness.gateway import serve
from tests.harness.servers import Pair

CALLS = 40


async def respond(_request: web.Request) -> web.Response:
    return web.json_response({})


@pytest.mark.long
def test_calls_on_any_worker_are_streamed_and_the_stream_ends_at_shutdown(
    servers: Pair, tmp_path: Path
) -> None:
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", respond)
    received: list[tuple[str, dict[str, object]]] = []
    connected = threading.Event()

    def read(client: object) -> None:
        with client, client.stream("GET", "/calls/stream") as response:  # type: ignore[attr-defined]
            name = ""
            for line in response.iter_lines():
                if line.startswith(":"):
                    connected.set()
                elif line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    received.append((name, orjson.loads(line.removeprefix("data: "))))

    with (
        beside(web_server(application, shutdown_timeout=0.1)) as site,
        serve(servers, tmp_path, workers=2) as gateway,
    ):
        document = {
            "openapi": "3.0.3", "info": {"title": "One", "version": "1"}, "servers": [{"url": site}],
            "paths": {"/a": {"get": {"operationId": "a", "responses": {"200": {"description": "ok"}}}}},
        }  # fmt: skip
        with gateway.client() as client:
            made = client.post("/providers", json={"name": "one", "source": {"document": document}})
            assert made.status_code == 201, made.text
        reader = threading.Thread(target=read, args=(gateway.client(),))
        reader.start()
        assert connected.wait(30)
        called = set()
        for _ in range(CALLS):
            # A connection of its own each: the kernel distributes them among the workers.
            with gateway.client() as client:
                response = client.post("/tools/one.a/call", json={})
                assert response.status_code == 200, response.text
                called.add(response.headers["x-call-id"])
        deadline = time.monotonic() + 30
        while len(received) < CALLS and time.monotonic() < deadline:
            time.sleep(0.05)
        assert {str(call["id"]) for _, call in received} == called
        assert len(received) == CALLS
        with gateway.client() as client:
            found = client.get("/stats?group=outcome").json()
            assert [(one["value"], one["totals"]["calls"]) for one in found["series"]] == [("ok", CALLS)]
            rows = client.get("/calls.csv").text.splitlines()
            assert len(rows) == CALLS + 1
        gateway.process.send_signal(signal.SIGTERM)
        reader.join(30)
        assert not reader.is_alive()
        name, problem = received[-1]
        assert (name, problem["type"]) == ("gateway-error", "urn:utcp-gateway:problem:stopping")
        assert gateway.process.wait(30) == 0
