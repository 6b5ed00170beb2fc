"""How long clients may cache the list of tools while providers are imported in the background."""

import asyncio
from datetime import timedelta

import pytest
from aiohttp import web
from sqlalchemy import update
from sqlmodel import col

from app.catalog.feed import record_change
from app.providers.registration.first_imports import FirstImports
from app.providers.registration.jobs import HEARTBEAT_TIMEOUT_SECONDS
from app.storage.models import ImportJobRow, now
from tests.harness.beside import web_server
from tests.harness.mcp_requests import McpClient

IN_BACKGROUND = {"Prefer": "respond-async"}


class SlowApi:
    """An API whose document is sent once `gate` is set."""

    def __init__(self):
        self.gate = asyncio.Event()
        self.asked = asyncio.Event()
        self.url = ""

    async def send(self, _request):
        self.asked.set()
        await self.gate.wait()
        paths = {"/one": {"get": {"operationId": "one", "responses": {"200": {"description": "ok"}}}}}
        return web.json_response(
            {"openapi": "3.1.0", "info": {"title": "Slow", "version": "1"}, "servers": [{"url": self.url}],
             "paths": paths}
        )  # fmt: skip


@pytest.fixture
async def slow():
    found = SlowApi()
    application = web.Application()
    application.router.add_get("/openapi.json", found.send)
    async with web_server(application) as url:
        found.url = url
        yield found
        found.gate.set()


async def ttl(client):
    result = (await client.modern("tools/list")).json()["result"]
    assert result["cacheScope"] == "private"
    return result["ttlMs"]


async def ended(admin, response):
    """Wait for the end of a background import; return its state."""
    async with asyncio.timeout(20):
        while (found := (await admin.get(response.headers["location"])).json())["state"] == "running":  # noqa: ASYNC110 - a poll, as clients do it.
            await asyncio.sleep(0.05)
    return found["state"]


async def started(admin, slow, path="/providers", **body):
    response = await admin.post(path, json=body or None, headers=IN_BACKGROUND)
    assert response.status_code == 202, response.text
    await slow.asked.wait()
    return response


async def test_a_list_is_not_cached_while_a_provider_is_imported_for_the_first_time(api, mcp, library, slow):
    admin = await api.client("admin")
    limited = McpClient(await api.client("tools:read", providers={"other"}))
    tagged = McpClient(await api.client("tools:read", tags={"mine"}))
    for name in ("desk", "sky"):
        made = await admin.post("/toolsets", json={"name": name, "definition": {"tools": ["library.find"]}})
        assert made.status_code == 201, made.text
    key = {"name": "agent", "scopes": ["tools:read"], "toolsets": ["desk", "sky"]}
    toolsets = McpClient(await api.client("tools:read"))
    made = (await admin.post("/keys", json=key)).json()
    toolsets.http.headers["Authorization"] = f"Bearer {made['key']}"
    assert await ttl(mcp) == await ttl(toolsets) == 60_000
    body = {"name": "slow", "source": {"url": f"{slow.url}/openapi.json"}, "tags": ["mine"]}
    job = await started(admin, slow, **body)
    assert await ttl(mcp) == 0
    assert await ttl(tagged) == 0
    assert await ttl(toolsets) == 0
    assert await ttl(limited) == 60_000
    # Nothing else about the server changes by it.
    assert (await mcp.modern("server/discover")).json()["result"]["ttlMs"] == 60_000
    slow.gate.set()
    assert await ended(admin, job) == "done"
    assert await ttl(mcp) == 60_000
    tools = (await mcp.modern("tools/list")).json()["result"]["tools"]
    assert "slow_one" in [tool["name"] for tool in tools]
    # A refresh changes what is listed already.
    slow.gate.clear()
    slow.asked.clear()
    job = await started(admin, slow, "/providers/slow/refresh")
    assert await ttl(mcp) == 60_000
    slow.gate.set()
    assert await ended(admin, job) == "done"


async def test_a_preview_and_an_import_that_fails_leave_the_list_as_it_is(api, mcp, library, slow):
    admin = await api.client("admin")
    body = {"name": "slow", "source": {"url": f"{slow.url}/openapi.json"}}
    job = await started(admin, slow, "/providers/preview", **body)
    assert await ttl(mcp) == 60_000
    slow.gate.set()
    assert await ended(admin, job) == "done"
    job = await admin.post(
        "/providers", json={"name": "gone", "url": f"{slow.url}/none"}, headers=IN_BACKGROUND
    )
    assert await ended(admin, job) == "failed"
    assert await ttl(mcp) == 60_000


async def test_an_import_whose_worker_has_ended_counts_no_longer(api, mcp, library, served):
    """Another worker began it: this one knows its row alone."""
    database, feed = served.services.database, served.services.feed
    principal = await served.services.keys.verify(
        mcp.http.headers["authorization"].removeprefix("Bearer "), host="127.0.0.1", is_call=False
    )
    providers = [{"name": "slow", "tags": []}]
    row = ImportJobRow(owner="1-x/k", result={"beat": now().isoformat(), "providers": providers})
    async with database.transaction() as session:
        session.add(row)
        await session.flush()
        await record_change(session, kind="import", object_id=str(row.id))
    await feed.catch_up()
    assert await ttl(mcp) == 0
    beat = (now() - timedelta(seconds=HEARTBEAT_TIMEOUT_SECONDS + 1)).isoformat()
    async with database.transaction() as session:
        state = {"beat": beat, "providers": providers}
        await session.execute(update(ImportJobRow).where(col(ImportJobRow.id) == row.id).values(result=state))
    assert not await FirstImports(database).any_for(principal)
    # Whoever asks for it learns that it has failed, and this worker with them.
    admin = await api.client("admin")
    assert (await admin.get(f"/imports/{row.id}")).json()["state"] == "failed"
    assert await ttl(mcp) == 60_000
