"""The MCP server behind a real HTTP server, with real upstreams, PostgreSQL and Redis."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.catalog.feed import ChangeNotice
from tests.api.tools.conftest import Api, served, upstream
from tests.harness.mcp_requests import McpClient
from tests.stored import clear

__all__ = ["served", "upstream"]


@pytest.fixture
async def api(served: Api) -> AsyncIterator[Api]:
    """The gateway with an empty registry."""
    services = served.services
    await services.call_log.flush()
    await clear(services.database)
    for reader in (services.search, services.collections, services.catalog):
        await reader.on_changes([ChangeNotice("all")])
    yield served
    await served.application.close_clients()


@pytest.fixture
async def mcp(api: Api) -> McpClient:
    """Raw requests to `/mcp` with a key that may read and call."""
    return McpClient(await api.client())


@pytest.fixture
async def library(api: Api, upstream: Any) -> Any:
    """A provider with some tools of the upstream; the name of the first in the list is `library_find`."""
    row = await api.provider("library")
    inputs = {
        "type": "object",
        "properties": {"q": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["q"],
        "additionalProperties": False,
    }
    await api.tool(row, "find", {"url": f"{upstream.url}/echo"}, inputs=inputs, description="Find books.")
    await api.tool(row, "json", {"url": f"{upstream.url}/respond/200/json"})
    return row
