"""A small application with the routes of API keys, over the services of a gateway on a real PostgreSQL."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import httpx2
import pytest
from fastapi import Depends, FastAPI
from sqlalchemy import text
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from app.access import KeyVerifier, authorise
from app.access.repository import create_key
from app.api.authorisation import anonymous_if, public_route, requires
from app.api.events import routes as routes_events
from app.api.keys import routes
from app.api.me import routes as routes_me
from app.catalog.feed import ChangeFeed
from app.core.settings import Settings
from app.core.telemetry.metrics import Metrics
from app.security.principal import Principal
from app.security.vault import KeyRing, Vault
from app.server import problems
from app.services import Services, build_services
from app.storage.database import Database
from tests.harness.servers import Pair

# Nobody listens there.
_UNREACHABLE = "postgresql://postgres@127.0.0.1:1/nothing"


@dataclass
class AccessGateway:
    """The services of a gateway, and a client of an application with a few routes.

    Of the services, only the change feed and the idempotency store are started. The feed has no listening connection, so that changes are delivered
    by `feed.catch_up()` only.
    """

    services: Services
    app: FastAPI = field(init=False)
    client: httpx2.AsyncClient = field(init=False)
    _sessions: tuple[Any, Any] | None = None

    def __post_init__(self) -> None:
        self.app = _application()
        transport = httpx2.ASGITransport(self._with_services)
        self.client = httpx2.AsyncClient(transport=transport, base_url="http://gateway")

    async def _with_services(self, scope: Any, receive: Any, send: Any) -> None:
        scope["state"] = {"services": self.services}
        await self.app(scope, receive, send)

    @property
    def database(self) -> Database:
        return self.services.database

    @property
    def vault(self) -> Vault:
        return self.services.vault

    @property
    def feed(self) -> ChangeFeed:
        return self.services.feed

    @property
    def keys(self) -> KeyVerifier:
        return self.services.keys

    def configure(self, **settings: Any) -> None:
        """Change settings that are read at each request."""
        changed = self.services.settings.model_copy(update=settings)
        self.services = replace(self.services, settings=changed)

    def disconnect_database(self) -> None:
        """Let the sessions of the database connect to a port where nobody listens."""
        nothing = Database(_UNREACHABLE)
        self._sessions = self.database._sessions, self.database._autocommit_sessions
        self.database._sessions, self.database._autocommit_sessions = (
            nothing._sessions,
            nothing._autocommit_sessions,
        )

    def reconnect_database(self) -> None:
        """Undo `disconnect_database`."""
        if self._sessions is not None:
            self.database._sessions, self.database._autocommit_sessions = self._sessions
            self._sessions = None

    async def key(self, *scopes: str, **limits: Any) -> str:
        """Create a key of these scopes (`admin` without any) and return its text."""
        async with self.database.transaction() as session:
            minted = await create_key(
                session, self.vault, name="test", scopes=scopes or ("admin",), actor="bootstrap", **limits
            )
        return minted.text.reveal()

    async def ask(self, method: str, path: str, key: str | None = None, **more: Any) -> httpx2.Response:
        """Send a request with this key and return its response."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return await self.client.request(method, path, headers=headers | more.pop("headers", {}), **more)


def _application() -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None)
    for part in (routes, routes_me, routes_events):
        app.include_router(part.router)

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

    async def call(request: Request) -> Response:
        principal = await authorise(request, "tools:call")
        return PlainTextResponse(principal.key_id)

    call.scope = "tools:call"  # type: ignore[attr-defined]
    app.router.routes.append(Route("/call", call, methods=["POST"]))
    problems.install(app)
    return app


@pytest.fixture(scope="session")
def own_database_url(servers: Pair) -> Iterator[str]:
    """A database of its own, because other tests may use the given one at the same time."""
    dsn = servers.create_database()
    yield dsn
    servers.drop_database(dsn)


@pytest.fixture(scope="session")
def access_settings(own_database_url: str, redis_url: str) -> Settings:
    """Settings without a rate limit; they are read once, because that takes longer than the rest."""
    return Settings(
        _env_file=None,
        database_url=own_database_url,
        database_listen_url=_UNREACHABLE,
        database_pool_size=5,
        feed_poll_seconds=60,
        redis_url=redis_url,
        sealing_keys=KeyRing.generate("test"),
        key_failure_rate_limit=None,
        log_level="error",
    )


@pytest.fixture
async def gateway(access_settings: Settings) -> AsyncIterator[AccessGateway]:
    """The services on a database without keys, with the application."""
    async with AsyncExitStack() as stack:
        services = await build_services(access_settings, Metrics(), stack)
        async with services.database.transaction() as session:
            await session.execute(text("TRUNCATE keys, events, changes"))
        stack.push_async_callback(services.keys.aclose)
        await services.calls.idempotency.start()
        stack.push_async_callback(services.calls.idempotency.aclose)
        await services.feed.start()
        stack.push_async_callback(services.feed.aclose)
        made = AccessGateway(services)
        await stack.enter_async_context(made.client)
        yield made
        made.reconnect_database()
