"""A gateway whose models are scripted servers, and the toolsets `filesystem` and `github` of an upstream."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from aiohttp import web

from app.catalog.feed import ChangeNotice
from tests.harness.application import Application
from tests.harness.beside import web_server
from tests.harness.model_peers import ModelServer
from tests.harness.profiles import Applications
from tests.stored import clear, store_provider, store_tool

CANARIES = {
    "anthropic": "canary-anthropic-key-7Qx",
    "openai": "canary-openai-key-7Qx",
    "gemini": "canary-gemini-key-7Qx",
}
PATH = {"path": {"type": "string"}}
TOOLS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "readFile": ("filesystem", "read_file", PATH, "GET"),
    "writeFile": ("filesystem", "write_file", {**PATH, "content": {"type": "string"}}, "POST"),
    "getContents": (
        "github",
        "github_get_file",
        {"owner": {"type": "string"}, "repo": {"type": "string"}, **PATH},
        "GET",
    ),
    "login": ("accounts", "login", {"password": {"type": "string"}}, "GET"),
}


class Upstream:
    """Responds with the path and the arguments that it got; `/slow` once `released` is set."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[str] = []
        self.arrived = asyncio.Event()
        self.released = asyncio.Event()

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append(f"{request.method} {request.path_qs}")
        if request.query.get("path") == "slow":
            self.arrived.set()
            await self.released.wait()
        if request.query.get("path") == "missing":
            return web.json_response({"detail": "no such file"}, status=404)
        if request.query.get("path") == "long":
            return web.Response(text="ä" * 1_000)
        return web.json_response({"path": request.query.get("path"), "content": "milk and bread"})


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    site = Upstream()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", site.handle)
    async with web_server(application) as site.url:
        yield site


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """The server that all configured models are."""
    with ModelServer([]) as running:
        yield running


@pytest.fixture
def models(server: Any) -> Any:
    """The server, without a script and what was recorded before."""
    server.turns, server.requests[:], server.heads[:], server.held = [], [], [], None
    return server


@pytest.fixture(scope="module")
async def application(applications: Applications, server: Any) -> Application:
    return await applications.get(
        redis_timeout=5,
        log_level="info",
        agent_test_max_runs=12,
        agent_test_max_running=2,
        anthropic_api_key=CANARIES["anthropic"],
        anthropic_base_url=server.url,
        openai_api_key=CANARIES["openai"],
        openai_base_url=f"{server.url}/v1",
        gemini_api_key=CANARIES["gemini"],
        gemini_base_url=server.url,
    )


@pytest.fixture
async def toolsets(application: Application, upstream: Upstream) -> AsyncIterator[None]:
    """The toolsets `filesystem`, `github` and `accounts`."""
    services = application.services
    await services.call_log.flush()
    await clear(services.database)
    provider = await store_provider(services.database, "up")
    for name, (_, _, properties, method) in TOOLS.items():
        template = {
            "call_template_type": "http",
            "http_method": method,
            "url": f"{upstream.url}/{name}",
        }
        await store_tool(
            services.database, provider, name, call_template=template,
            inputs={"type": "object", "properties": properties, "additionalProperties": False},
            agent_name=f"up_{name}",
        )  # fmt: skip
    await services.feed.catch_up()
    for reader in (services.search, services.catalog, services.collections):
        await reader.on_changes([ChangeNotice("all")])
    admin = await application.client("admin")
    for toolset in sorted({one[0] for one in TOOLS.values()}):
        changes = {f"up.{name}": {"name": one[1]} for name, one in TOOLS.items() if one[0] == toolset}
        definition = {"tools": list(changes), "changes": changes}
        made = await admin.put(f"/toolsets/{toolset}", json={"definition": definition})
        assert made.status_code == 201, made.text
    yield
    await application.close_clients()


@pytest.fixture
async def client(application: Application, toolsets: None) -> Any:
    return await application.client("agent-tests:run", "tools:call", "calls:read", seconds=60)


@pytest.fixture
def run(client: Any) -> Callable[..., Any]:
    """Run a test of one case with one model, and return its result."""

    async def execute(model: Any, case: dict[str, Any] | None = None, **options: Any) -> Any:
        body = {"input": "What does notes.txt say?", "models": [model], **(case or {}), **options}
        response = await client.post("/agent-tests", json=body)
        assert response.status_code == 200, response.text
        (result,) = response.json()["results"]
        return result

    return execute
