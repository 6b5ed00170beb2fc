"""Calls above the limit of a worker are rejected at once, while health and all other routes respond."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiohttp import web

from tests.harness.beside import web_server
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair


class Gate:
    """An upstream whose responses wait until it is opened."""

    def __init__(self):
        self.url = ""
        self.opened = asyncio.Event()
        self.inside = 0

    async def respond(self, _request):
        self.inside += 1
        await self.opened.wait()
        return web.json_response({})


@pytest.fixture
async def gate():
    made = Gate()
    application = web.Application()
    application.router.add_post("/x", made.respond)
    async with web_server(application) as made.url:
        yield made
        made.opened.set()


@pytest.fixture(scope="module", params=["", "https://page.example"], ids=["call route", "all layers"])
def small(request, servers: Pair, tmp_path_factory) -> Iterator[RunningGateway]:
    """A gateway that takes five calls at a time; CORS takes calls through all layers of the app."""
    with serve(
        servers, tmp_path_factory.mktemp("small"), MAX_CALLS="5", CORS_ORIGINS=request.param
    ) as running:
        yield running


async def test_calls_above_the_limit_are_rejected_and_other_routes_respond(
    small: RunningGateway, gate: Gate
) -> None:
    template = {"call_template_type": "http", "http_method": "POST", "url": f"{gate.url}/x"}
    tool = {"name": "wait", "inputs": {"type": "object"}, "tool_call_template": template}
    with small.client() as client, ThreadPoolExecutor(8) as pool:
        loop = asyncio.get_running_loop()

        async def sent(method, path, **options):
            return await loop.run_in_executor(pool, lambda: client.request(method, path, **options))

        made = await sent(
            "POST", "/providers", json={"name": "gate", "source": {"manual": {"tools": [tool]}}}
        )
        assert made.status_code == 201, made.text
        held = [asyncio.create_task(sent("POST", "/tools/gate.wait/call", json={})) for _ in range(5)]
        async with asyncio.timeout(30):
            while gate.inside < 5:  # noqa: ASYNC110 - there is no event for it.
                await asyncio.sleep(0.01)
        rejected = await sent("POST", "/tools/gate.wait/call", json={})
        assert (rejected.status_code, rejected.headers["Retry-After"]) == (503, "1")
        assert rejected.headers["Content-Type"] == "application/problem+json"
        assert rejected.json()["type"].endswith(":overloaded")
        # Before the key is looked at, too: checking it is work.
        without = await sent("POST", "/tools/gate.wait/call", headers={"Authorization": "Bearer no"})
        assert without.status_code == 503
        for path in ("/health/live", "/health/ready", "/tools", "/providers", "/utcp"):
            assert (await sent("GET", path)).status_code == 200, path
        gate.opened.set()
        assert {response.status_code for response in await asyncio.gather(*held)} == {200}
        assert (await sent("POST", "/tools/gate.wait/call", json={})).status_code == 200
        assert gate.inside == 6
        metrics = (await sent("GET", "/metrics")).text
        assert 'route="/tools/{name}/call",status="503"' in metrics
        (await sent("DELETE", "/providers/gate")).raise_for_status()
