"""The whole application behind a real server, with PostgreSQL, Redis and upstreams in the same loop."""

import asyncio
import contextlib
from dataclasses import dataclass, field

import httpx2
import pytest
import uvicorn
from aiohttp import web

from app.access.repository import create_key
from app.cli.server import server_config
from app.database import Database
from app.main import create_app
from app.security.vault import KeyRing
from app.settings import Settings


class Served(uvicorn.Server):
    """A server that leaves the signals of the test run alone."""

    @contextlib.contextmanager
    def capture_signals(self):
        yield


@dataclass
class Site:
    """An upstream whose documents a test sets; it remembers every request."""

    url: str = ""
    pages: dict = field(default_factory=dict)
    seen: list = field(default_factory=list)
    guard: object = None

    @property
    def origin(self):
        return self.url


@contextlib.asynccontextmanager
async def site():
    running = Site()

    async def answer(request):
        body = await request.read()
        running.seen.append((request.method, request.raw_path, dict(request.headers), body))
        if running.guard is not None and not running.guard(request):
            return web.json_response({"detail": "no"}, status=401)
        page = running.pages.get(request.path)
        if page is None:
            return web.json_response({"ok": True})
        if callable(page):
            page = await page()
        if isinstance(page, web.Response):
            return page
        return (
            web.Response(body=page, content_type="application/yaml")
            if isinstance(page, bytes)
            else web.json_response(page)
        )

    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    listener = web.TCPSite(runner, "127.0.0.1", 0)
    await listener.start()
    running.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield running
    finally:
        await runner.cleanup()


@pytest.fixture
async def upstream():
    async with site() as running:
        yield running


@pytest.fixture
async def elsewhere():
    """Another origin."""
    async with site() as running:
        yield running


@dataclass
class Gateway:
    """The running application, an admin's client, and its database."""

    url: str
    database: Database
    vault: object
    clients: list = field(default_factory=list)

    async def client(self, *scopes, **limits):
        async with self.database.writing() as session:
            minted = await create_key(session, self.vault, name="t", scopes=scopes, actor="test", **limits)
        headers = {"Authorization": f"Bearer {minted.text.reveal()}"}
        made = httpx2.AsyncClient(base_url=self.url, headers=headers, trust_env=False, timeout=30)
        self.clients.append(made)
        return made


@contextlib.asynccontextmanager
async def served(servers, **changed):
    """The application with these settings, in this very event loop."""
    dsn = await asyncio.to_thread(servers.create_database)
    settings = Settings(**{
        "_env_file": None,
        "database_url": dsn,
        "redis_url": servers.redis_url,
        "sealing_keys": KeyRing.generate("test"),
        "allow_networks": ("127.0.0.0/8", "::1/128"),
        "variable_env_names": ("GATEWAY_TEST_REGION", "gw_KEY"),
        "max_document_bytes": 2 << 20,
        "log_format": "json",
        "log_level": "error",
        **changed,
    })  # fmt: skip
    app = create_app(settings)
    server = Served(server_config(app, settings, port=0, lifespan="on", timeout_graceful_shutdown=2))
    task = asyncio.create_task(server.serve())
    while not server.started:
        if task.done():
            task.result()
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    state = server.lifespan.state
    running = Gateway(f"http://127.0.0.1:{port}", state["database"], state["vault"])
    yield running
    for client in running.clients:
        await client.aclose()
    server.should_exit = True
    await task
    await asyncio.to_thread(servers.drop_database, dsn)


@pytest.fixture(scope="module")
async def gateway_app(servers):
    async with served(servers) as running:
        yield running


@pytest.fixture
async def admin(gateway_app):
    """An admin's client on an empty registry."""
    client = await gateway_app.client("admin")
    yield client
    for provider in (await client.get("/providers?limit=200")).json()["items"]:
        assert (await client.delete(f"/providers/{provider['name']}")).status_code == 204
    for variable in (await client.get("/variables?limit=200")).json()["items"]:
        assert (await client.delete(f"/variables/{variable['name']}")).status_code == 204
