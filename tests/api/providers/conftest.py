"""The whole application behind a real server, with PostgreSQL, Redis and upstreams in the same loop."""

import asyncio
import contextlib
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from tests.harness.application import run_application
from tests.harness.beside import web_server
from tests.harness.profiles import build_settings, empty


@dataclass
class Site:
    """An upstream whose documents a test sets; it records every request."""

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

    async def respond(request):
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
    application.router.add_route("*", "/{rest:.*}", respond)
    async with web_server(application) as running.url:
        yield running


@pytest.fixture
async def upstream():
    async with site() as running:
        yield running


@pytest.fixture
async def elsewhere():
    """Another origin."""
    async with site() as running:
        yield running


SETTINGS = {
    "variable_env_names": ("GATEWAY_TEST_REGION", "gw_KEY"),
    "max_document_bytes": 2 << 20,
    "log_format": "json",
}


@contextlib.asynccontextmanager
async def served(servers, **changed):
    """The application with these settings, in the event loop of the test."""
    dsn = await asyncio.to_thread(servers.create_database)
    async with run_application(
        build_settings(servers, **{"database_url": dsn, **SETTINGS, **changed})
    ) as running:
        yield running
    await asyncio.to_thread(servers.drop_database, dsn)


@pytest.fixture(scope="module")
async def gateway_app(applications):
    return await applications.get(**SETTINGS)


@pytest.fixture
async def admin(gateway_app):
    """An admin's client on an empty registry."""
    yield await gateway_app.client("admin")
    await empty(gateway_app)


@pytest.fixture
async def approver(gateway_app):
    """Another key, which approves what the admin has requested."""
    return await gateway_app.client("credentials:write", "providers:read")
