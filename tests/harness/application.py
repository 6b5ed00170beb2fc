"""The whole application behind a real server, in the event loop of the test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import uvicorn
from fastapi import FastAPI

from app.access.repository import create_key
from app.cli.server import server_config
from app.discovery import Manuals
from app.main import create_app
from app.mcp_server import McpServer
from app.services import Services
from app.settings import Settings
from tests.harness.plain_http import WITHOUT_CERTIFICATES


class _Server(uvicorn.Server):
    """A server that does not install signal handlers in the test process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass
class Application:
    """A running gateway and its services."""

    url: str
    app: FastAPI
    services: Services
    manuals: Manuals
    mcp: McpServer
    clients: list[httpx2.AsyncClient] = field(default_factory=list)

    async def client(self, *scopes: str, seconds: float = 30, **limits: Any) -> httpx2.AsyncClient:
        """Return a client with a new key of these scopes and limits."""
        services = self.services
        async with services.database.transaction() as session:
            minted = await create_key(
                session, services.vault, name="test", scopes=scopes, actor="test", **limits
            )
        await services.feed.catch_up()
        headers = {"Authorization": f"Bearer {minted.text.reveal()}"}
        made = httpx2.AsyncClient(
            base_url=self.url, headers=headers, trust_env=False, verify=WITHOUT_CERTIFICATES, timeout=seconds
        )
        self.clients.append(made)
        return made

    async def close_clients(self) -> None:
        """Close the clients that were created so far."""
        for client in self.clients:
            await client.aclose()
        self.clients.clear()


@asynccontextmanager
async def run_application(settings: Settings) -> AsyncIterator[Application]:
    """Run the application with these settings on a free port of 127.0.0.1."""
    app = create_app(settings)
    server = _Server(server_config(app, settings, port=0, lifespan="on", timeout_graceful_shutdown=2))
    task = asyncio.create_task(server.serve())
    while not server.started:
        if task.done():
            task.result()
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    state = server.lifespan.state
    running = Application(f"http://127.0.0.1:{port}", app, state["services"], state["manuals"], state["mcp"])
    try:
        yield running
    finally:
        await running.close_clients()
        server.should_exit = True
        await task
