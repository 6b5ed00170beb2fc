"""The whole application behind a real server, in the event loop of the test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import httpx2
import uvicorn
from fastapi import FastAPI

from app.access.repository import create_key
from app.agents.mcp import McpServer
from app.agents.utcp import Manuals
from app.cli.server import build_server_config
from app.core.settings import Settings
from app.main import create_app
from app.openapi.process.workers import ForkServer
from app.outbound.http1.pool import PROBATION_SECONDS
from app.services import Services, open_services
from tests.harness.plain_http import WITHOUT_CERTIFICATES


class _Server(uvicorn.Server):
    """A server that does not install signal handlers in the test process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass
class Application:
    """A running gateway and its services; `state` has all that its lifespan has opened."""

    url: str
    app: FastAPI
    settings: Settings
    state: Mapping[str, Any]
    clients: list[httpx2.AsyncClient] = field(default_factory=list)

    @property
    def services(self) -> Services:
        """The services that all edges share."""
        services: Services = self.state["services"]
        return services

    @property
    def manuals(self) -> Manuals:
        """The manuals of discovery."""
        manuals: Manuals = self.state["manuals"]
        return manuals

    @property
    def mcp(self) -> McpServer:
        """The server of MCP."""
        server: McpServer = self.state["mcp"]
        return server

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


_fork_server = ForkServer()


async def close_fork_server() -> None:
    """End the process in which the applications of this process convert documents."""
    await _fork_server.aclose()


@asynccontextmanager
async def run_application(
    settings: Settings, *, probation: float = PROBATION_SECONDS
) -> AsyncIterator[Application]:
    """Run the application with these settings on a free port of 127.0.0.1.

    `probation`: seconds in which connections to an upstream that is new are not reused at once.
    """
    opening = partial(open_services, probation=probation, fork_server=_fork_server)
    app = create_app(settings, open_services=opening)
    async with _serve(app, settings, lifespan="on") as server:
        running = Application(_url(server), app, settings, server.lifespan.state)
        try:
            yield running
        finally:
            await running.close_clients()


@asynccontextmanager
async def serve_with(
    application: Application, *, mcp: McpServer | None = None, **services: Any
) -> AsyncIterator[Application]:
    """Serve a running application on another port, too, with other services there in place of its own.

    What was opened with its own services, such as the handlers of approvals, keeps those.
    """
    state = {
        **application.state,
        "services": replace(application.services, **services),
        "mcp": application.mcp if mcp is None else mcp,
    }

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        await application.app({**scope, "state": dict(state)}, receive, send)

    async with _serve(serve, application.settings, lifespan="off") as server:
        running = Application(_url(server), application.app, application.settings, state)
        try:
            yield running
        finally:
            await running.close_clients()


@asynccontextmanager
async def _serve(app: Any, settings: Settings, *, lifespan: str) -> AsyncIterator[_Server]:
    server = _Server(
        build_server_config(app, settings, port=0, lifespan=lifespan, timeout_graceful_shutdown=2)
    )
    task = asyncio.create_task(server.serve())
    while not server.started:
        if task.done():
            task.result()
        await asyncio.sleep(0.01)
    try:
        yield server
    finally:
        server.should_exit = True
        await task


def _url(server: _Server) -> str:
    return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
