"""A gateway with two tools that searches rank by their names alone, and an upstream that counts their calls."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from sqlalchemy import text

from app.catalog.feed import ChangeNotice
from app.core.settings import Settings
from app.security.vault import KeyRing
from app.storage.models import PendingSearch, SearchLabel
from tests.api.tools.conftest import Api
from tests.harness.application import run_application
from tests.harness.beside import web_server
from tests.stored import clear

RING = KeyRing.generate("test")
WORDS = "money back customer"


class Learner(Api):
    """A gateway whose learning the test drives."""

    @property
    def usage(self):
        return self.services.search_usage.usage

    async def learn(self):
        """Store searches and calls, match them, and read what was learned."""
        await self.services.call_log.flush()
        await self.usage.learn()

    async def search(self, client, words=WORDS, **query):
        """The names of the tools that a search by REST finds, best first."""
        found = await client.get("/tools/search", params={"q": words, **query})
        assert found.status_code == 200, found.text
        return [item["name"] for item in found.json()["items"]]

    async def call(self, client, name, *, expect=200, **arguments):
        called = await client.post(f"/tools/{name}/call", json=arguments)
        assert called.status_code == expect, called.text

    async def use(self, client, name="shop.undo", *, words=WORDS, times=1):
        """Search and then call a tool."""
        for _ in range(times):
            assert name in await self.search(client, words)
            await self.call(client, name)
            await self.learn()

    async def sql(self, statement, **parameters):
        async with self.services.database.transaction() as session:
            result = await session.execute(text(statement), parameters)
            return result.all() if result.returns_rows else result.rowcount

    async def labels(self):
        """The sum of the labels of the word that was searched by most, by tool."""
        rows = await self.sql(
            "SELECT name, max(labels) FROM (SELECT tools.name, stem, sum(labels) AS labels"
            " FROM search_labels JOIN tools ON tools.id = tool_id GROUP BY tools.name, stem) AS of_stems"
            " GROUP BY name"
        )
        return {name: int(labels) for name, labels in rows}


def usage_settings(database_url, redis_url, **settings):
    return Settings(
        _env_file=None,
        database_url=database_url,
        redis_url=redis_url,
        allow_networks=("127.0.0.0/8",),
        search_usage_seconds=600,
        log_level="error",
        **{"sealing_keys": RING, **settings},
    )


@asynccontextmanager
async def learner(settings):
    async with run_application(settings) as application:
        await application.services.search.wait_loaded()
        yield Learner(application)


async def emptied(api):
    """Remove what the test before has left."""
    await api.services.call_log.flush()
    await api.usage.learn()
    await clear(api.services.database)
    for table in (PendingSearch, SearchLabel):
        await api.sql(f"DELETE FROM {table.__tablename__}")
    await api.sql("DELETE FROM search_queries")
    services = api.services
    for reader in (services.search, services.catalog, services.collections, api.usage):
        await reader.on_changes([ChangeNotice("all")])


@pytest.fixture
async def upstream():
    """An upstream whose tools succeed, but for `/fail`."""

    async def answer(request):
        return web.json_response({"ok": True}, status=500 if request.path == "/fail" else 200)

    application = web.Application()
    application.router.add_route("*", "/{name}", answer)
    async with web_server(application, handler_cancellation=True) as url:
        yield url


async def fill(api, upstream):
    """The provider `shop`, of which searches for `WORDS` find first `accounts` and then `undo`."""
    provider = await api.provider("shop", tags=["public"])
    texts = {
        "accounts": "List money of a customer.",
        "undo": "Undo money of a customer.",
        "fail": "Break down.",
        "unrelated": "Show the weather.",
    }
    for name, description in texts.items():
        await api.tool(
            provider,
            name,
            {"url": f"{upstream}/{name}"},
            description=description,
            inputs={"type": "object", "properties": {"q": {"type": "string"}}},
        )
    return provider


@pytest.fixture(scope="module")
async def served(applications):
    return Learner(await applications.get(sealing_keys=RING, search_usage_seconds=600))


@pytest.fixture(scope="module")
def database_url(served):
    """The database of the gateway, on which a test may run another one."""
    return served.services.database.dsn


@pytest.fixture
async def api(served):
    await emptied(served)
    yield served
    await served.application.close_clients()


@pytest.fixture
async def shop(api, upstream):
    return await fill(api, upstream)


@pytest.fixture
async def client(api, shop):
    return await api.client()


async def eventually(condition):
    """Wait for an asynchronous condition; fail after ten seconds."""
    async with asyncio.timeout(10):
        while not await condition():  # noqa: ASYNC110 - what is stored has no event.
            await asyncio.sleep(0.02)
