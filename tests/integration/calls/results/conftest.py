"""The services of a gateway, an upstream whose responses a test sets, and one tool for each of its paths."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from app.calls import CallContext, CallRequest, execute
from app.catalog.feed import ChangeNotice
from app.core.settings import Settings
from app.core.telemetry.metrics import Metrics
from app.security.principal import Principal
from app.security.vault import KeyRing
from app.services import Services, open_services
from app.storage.models import TENANT
from tests.stored import clear, store_provider, store_tool

INPUTS = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1}, "color": {"enum": ["red", "green"]}},
    "additionalProperties": False,
}

OVERRIDES = {"approved": {"requires_approval": True}, "search": {"annotations": {"read_only": True}}}


class Upstream:
    """Responds to each request as `respond` says, or with `body`; counts the requests in `paths`."""

    def __init__(self) -> None:
        self.url = ""
        self.body: bytes = b"{}"
        self.media_type: str | None = "application/json"
        self.status = 200
        self.headers: dict[str, str] = {}
        self.respond: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
        self.requests: list[str] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path_qs)
        if self.respond is not None:
            return await self.respond(request)
        headers = (
            self.headers if self.media_type is None else {"Content-Type": self.media_type, **self.headers}
        )
        return web.Response(body=self.body, status=self.status, headers=headers)


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    upstream = Upstream()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", upstream.handle)
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    listener = web.TCPSite(runner, "127.0.0.1", 0)
    await listener.start()
    upstream.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield upstream
    await runner.cleanup()


@pytest.fixture(scope="module")
async def services(database_url: str, redis_url: str) -> AsyncIterator[Services]:
    settings = Settings(
        _env_file=None,
        database_url=database_url,
        redis_url=redis_url,
        # Rests of 8 MiB are stored, also on a busy machine.
        redis_timeout=5,
        sealing_keys=KeyRing.generate("test"),
        allow_networks=("127.0.0.0/8",),
        public_base_url="https://gateway.example",
        log_level="error",
    )
    async with open_services(settings, Metrics()) as services:
        yield services


@pytest.fixture
async def tools(services: Services, upstream: Upstream) -> None:
    """The tools p.read (GET), p.write (POST) and p.search (a POST that only reads) of the upstream, and
    p.approved, which needs approval.
    """
    await clear(services.database)
    provider = await store_provider(services.database, "p", limits={"total": 5})
    for name, method in (("read", "GET"), ("write", "POST"), ("search", "POST"), ("approved", "POST")):
        template = {"call_template_type": "http", "http_method": method, "url": f"{upstream.url}/{name}"}
        override = OVERRIDES.get(name)
        await store_tool(
            services.database, provider, name, call_template=template, inputs=INPUTS, override=override
        )
    await services.feed.catch_up()
    await services.catalog.on_changes([ChangeNotice("all")])


def principal(**fields: Any) -> Principal:
    usual: dict[str, Any] = {
        "key_id": "k", "name": "k", "tenant_id": TENANT, "scopes": frozenset({"tools:call"}),
    }  # fmt: skip
    return Principal(**(usual | fields))


@pytest.fixture
def call(services: Services, tools: None) -> Callable[..., Awaitable[CallContext]]:
    """`await call("p.read", {"n": 1})` is the outcome of a call over an interface for agents."""

    async def call(tool: str = "p.read", arguments: Any = None, **fields: Any) -> CallContext:
        who = fields.pop("who", None) or principal()
        request = CallRequest(
            who, tool, "test", **{"interface": "mcp", "arguments": arguments or {}, **fields}
        )
        async with asyncio.timeout(20):
            return await execute(request, services.calls)

    return call
