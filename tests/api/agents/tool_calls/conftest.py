"""A gateway behind a real server, and an upstream with a tool for each kind of response."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from app.catalog.feed import ChangeNotice
from tests.harness.application import Application
from tests.harness.beside import web_server
from tests.harness.profiles import Applications
from tests.stored import clear, store_provider, store_tool

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
PDF = b"%PDF-1.7\n" + bytes(20)
BODIES = {
    "/image": ("image/png", PNG),
    "/large": ("image/png", PNG + bytes(5_000_000)),
    "/pdf": ("application/pdf", PDF),
    "/text": ("text/plain", "café".encode()),
    "/list": ("application/json", b"[1, 2.50]"),
    "/lines": ("application/json", b'{\r\n  "total": 1,\n\n  "items": []\r}'),
    "/precise": ("application/json", b'{"n": 1.10}'),
}
INPUTS = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1}, "color": {"enum": ["red", "green"]}},
    "additionalProperties": False,
}
METHODS = {"write": "POST", "approved": "POST"}
TOOLS = (
    "read",
    "write",
    "approved",
    "slow",
    "fail",
    "image",
    "pdf",
    "text",
    "list",
    "lines",
    "precise",
    "many",
    "large",
)


class Upstream:
    """Responds by path; `/slow` once `released` is set. `running` and `most` count concurrent requests."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[str] = []
        self.released = asyncio.Event()
        self.arrived = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.running = self.most = 0
        self.wanted = 1
        self.listed: list[dict[str, object]] = []

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append(f"{request.method} {request.path_qs}")
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if request.path == "/slow":
                if self.running >= self.wanted:
                    self.arrived.set()
                await self.released.wait()
            if request.path == "/fail":
                return web.json_response({"detail": "no such book"}, status=404)
            if request.path == "/many":
                return web.json_response(self.listed)
            if request.path in BODIES:
                media, body = BODIES[request.path]
                return web.Response(body=body, headers={"Content-Type": media})
            return web.json_response({"path": request.path_qs, "sent": (await request.read()).decode()})
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        finally:
            self.running -= 1


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    site = Upstream()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", site.handle)
    async with web_server(application, handler_cancellation=True) as site.url:
        yield site


@pytest.fixture(scope="module")
async def application(applications: Applications) -> Application:
    return await applications.get(
        public_base_url="https://gateway.example",
        max_request_bytes=256 << 10,
        tool_calls_parallel=4,
        # So that no rest of a result is lost on a busy machine.
        redis_timeout=5,
    )


@pytest.fixture
async def tools(application: Application, upstream: Upstream) -> AsyncIterator[None]:
    services = application.services
    await services.call_log.flush()
    await clear(services.database)
    provider = await store_provider(services.database, "p", limits={"total": 10})
    for name in TOOLS:
        template = {
            "call_template_type": "http",
            "http_method": METHODS.get(name, "GET"),
            "url": f"{upstream.url}/{name}",
        }
        override = {"requires_approval": True} if name == "approved" else None
        await store_tool(
            services.database, provider, name, call_template=template, inputs=INPUTS, override=override,
            agent_name=f"p_{name}",
        )  # fmt: skip
    await services.feed.catch_up()
    for reader in (services.search, services.catalog, services.collections):
        await reader.on_changes([ChangeNotice("all")])
    yield
    await application.close_clients()


@pytest.fixture
async def client(application: Application, tools: None):
    return await application.client("tools:read", "tools:call", "calls:read", seconds=20)
