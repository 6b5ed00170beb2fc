"""Plugins behind a real server, with upstreams of the same process, real folders and the real PostgreSQL."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from app.catalog.feed import ChangeNotice
from tests.api.tools.conftest import BASE_URL, Api
from tests.harness.beside import web_server
from tests.stored import clear

CANARY = "canary-of-the-plugins-4711"


class Vendor:
    """An API: it notes each request, and sends the response that is set."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        self.status = 200
        self.body: Any = {}
        self.headers: Mapping[str, str] = {}

    async def respond(self, request: web.Request) -> web.Response:
        text = await request.text()
        self.requests.append(
            {
                "method": request.method,
                "target": request.raw_path,
                "headers": dict(request.headers),
                "body": text,
            }
        )
        if isinstance(self.body, str):
            return web.Response(text=self.body, status=self.status, headers=self.headers)
        return web.json_response(self.body, status=self.status, headers=self.headers)


@pytest.fixture
async def vendor():
    made = Vendor()
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", made.respond)
    async with web_server(application) as made.url:
        yield made


@pytest.fixture(scope="module")
def workspace(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("workspace") / "prpm-test"


@pytest.fixture(scope="module")
def own_entries(tmp_path_factory) -> Path:
    """The folder of an operator with entries of the catalogue."""
    return tmp_path_factory.mktemp("entries")


@pytest.fixture(scope="module")
async def served(applications, workspace, own_entries):
    workspace.mkdir()
    return await applications.get(
        public_base_url=BASE_URL,
        filesystem_folders=(str(workspace), "/srv"),
        plugin_folders=(str(own_entries),),
    )


@pytest.fixture
async def api(served):
    services = served.services
    await services.call_log.flush()
    await clear(services.database)
    for reader in (services.search, served.manuals, services.catalog, services.collections):
        await reader.on_changes([ChangeNotice("all")])
    yield Api(served)
    await served.close_clients()


@pytest.fixture
async def admin(api):
    return await api.client("admin")
