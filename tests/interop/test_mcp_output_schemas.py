"""Released clients of MCP, which validate results by the list that they have, raise for no result of a tool whose
output schema is withdrawn meanwhile.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from aiohttp import web

from app.providers.registration.output_deviations import MAX_DEVIATIONS
from tests.harness.beside import beside, web_server
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair
from tests.interop.test_mcp_clients import CLIENTS, run

OUTPUTS = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
BAD, GOOD = '{"a": "one"}', '{"a": 1}'
CALLS = MAX_DEVIATIONS + 3
"""Those that withdraw the schema; one during which it is withdrawn; one that deviates afterwards, and one that does not."""


@dataclass
class Site:
    """An upstream that deviates but for the last call, and begins the calls after the withdrawal with waiting for it."""

    admin: httpx2.Client | None = None
    calls: int = 0

    def is_listed(self) -> bool:
        """Return whether the output schema is in the list."""
        assert self.admin is not None
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        listed = self.admin.post("/mcp/all", json=message).raise_for_status().json()["result"]["tools"]
        return any("outputSchema" in tool for tool in listed if tool["name"] == "site_tool")

    def wait_for_withdrawal(self) -> None:
        """Return once the output schema is in the list no longer."""
        while self.is_listed():
            time.sleep(0.05)

    async def respond(self, _request: web.Request) -> web.Response:
        self.calls += 1
        if self.calls > MAX_DEVIATIONS:
            await asyncio.to_thread(self.wait_for_withdrawal)
        return web.Response(text=GOOD if self.calls == CALLS else BAD, content_type="application/json")


@pytest.fixture(scope="module")
def gateway(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningGateway, Site]]:
    """A gateway with a tool of the site."""
    site = Site()
    application = web.Application()
    application.router.add_get("/", site.respond)
    with (
        beside(web_server(application)) as url,
        serve(servers, tmp_path_factory.mktemp("outputs")) as running,
        running.client() as admin,
    ):
        site.admin = admin
        template = {"call_template_type": "http", "url": f"{url}/", "http_method": "GET"}
        tool = {
            "name": "tool",
            "inputs": {"type": "object"},
            "outputs": OUTPUTS,
            "tool_call_template": template,
        }
        manual = {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": [tool]}
        created = admin.post("/providers", json={"name": "site", "source": {"manual": manual}})
        assert created.status_code == 201, created.text
        yield running, site


@pytest.mark.parametrize("client", CLIENTS)
def test_no_client_raises_before_at_and_after_the_withdrawal(
    gateway: tuple[RunningGateway, Site], client: str
) -> None:
    running, site = gateway
    assert site.admin is not None
    published = site.admin.patch("/tools/site.tool", json={"publish_output_schema": True})
    assert published.status_code == 200, published.text
    assert site.is_listed()
    site.calls = 0
    calls: list[tuple[str, dict[str, Any]]] = [("site_tool", {})] * CALLS
    results = run(client, f"{running.url}/mcp/all", running.key, calls)["results"]
    assert site.calls == CALLS
    *deviating, good = results
    for is_error, contents in deviating:
        # The adapter returns the text of an error to the model, without the flag.
        assert is_error is (client != "langchain-mcp"), contents
        [(_, sentence), (_, body)] = contents
        assert "deviates from the published output schema at /a" in sentence
        assert body == BAD
    assert good[0] is False
    assert good[1][0] == ["text", GOOD]
    tool = site.admin.get("/tools/site.tool").raise_for_status().json()
    assert tool["publish_output_schema"] is False
    assert tool["output_schema_withdrawn_at"] is not None
