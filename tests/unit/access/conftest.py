"""A small app with the routes of `access` on a real PostgreSQL."""

import os
from dataclasses import dataclass
from typing import Annotated, Any

import httpx2
import pytest
from fastapi import Depends, FastAPI
from sqlalchemy import text
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from app.access import KeyVerifier, anonymous_if, authorise, public_route, requires
from app.access.data_keys import open_vault
from app.access.repository import create_key
from app.catalog.feed import ChangeFeed
from app.database import Database
from app.keys.routes import router
from app.security.principal import Principal
from app.security.vault import KeyRing
from app.server import problems
from app.settings import Settings


class Switchable(Database):
    """A database that can be unplugged, by having its sessions ask a port where nobody listens."""

    __slots__ = ("_plugged",)

    def unplug(self) -> None:
        self._plugged = self._sessions, self._committing
        nothing = Database("postgresql://postgres@127.0.0.1:1/nothing")
        self._sessions, self._committing = nothing._sessions, nothing._committing

    def plug(self) -> None:
        self._sessions, self._committing = self._plugged


@dataclass
class Gateway:
    """The services that `access` and its routes use, and a client of them."""

    database: Switchable
    vault: Any
    feed: ChangeFeed
    keys: KeyVerifier
    client: httpx2.AsyncClient
    settings: Settings
    app: FastAPI

    async def key(self, *scopes, **limits) -> str:
        async with self.database.writing() as session:
            minted = await create_key(
                session, self.vault, name="test", scopes=scopes or ("admin",), actor="bootstrap", **limits
            )
        return minted.text.reveal()

    async def ask(self, method, path, key=None, **more):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return await self.client.request(method, path, headers=headers | more.pop("headers", {}), **more)


@pytest.fixture(scope="session")
def own_database_url(servers):
    """A database of its own, because other tests may use the given one at the same time."""
    dsn = servers.create_database()
    yield dsn
    servers.drop_database(dsn)


@pytest.fixture
async def gateway(own_database_url):
    database = Switchable(own_database_url, pool_size=5)
    async with database.writing() as session:
        await session.execute(text("TRUNCATE keys, events, changes, data_keys"))
    vault = await open_vault(database, KeyRing({"k1": os.urandom(32)}))
    feed = ChangeFeed(database, listen_dsn=None, poll_seconds=60)
    keys = KeyVerifier(database, vault)
    feed.subscribe(keys.on_changes)
    await feed.start()
    app = FastAPI(docs_url=None, redoc_url=None)
    app.include_router(router)

    @app.get("/open", dependencies=[Depends(public_route)])
    async def _open() -> str:
        return "open"

    @app.get("/manual")
    async def _manual(principal: Annotated[Principal, Depends(anonymous_if("utcp_anonymous"))]) -> str:
        return principal.key_id

    @app.get("/tools", dependencies=[Depends(requires("tools:read"))])
    async def _tools() -> str:
        return "tools"

    @app.get("/undeclared")
    async def _undeclared() -> str:
        return "oops"

    async def call(request):
        principal = await authorise(request, "tools:call")
        return PlainTextResponse(principal.key_id)

    call.scope = "tools:call"
    app.router.routes.append(Route("/call", call, methods=["POST"]))
    problems.install(app)
    state = {}

    async def with_state(scope, receive, send):
        scope["state"] = dict(state)
        await app(scope, receive, send)

    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(with_state), base_url="http://gateway"
    ) as client:
        services = Gateway(database, vault, feed, keys, client, Settings(_env_file=None), app)
        state["services"] = services
        yield services
    await keys.aclose()
    await feed.aclose()
    await database.aclose()
