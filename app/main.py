"""`create_app()` and the typed lifespan state: the only file that knows every room."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypedDict

import structlog
from fastapi import FastAPI
from redis.asyncio import Redis
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from app import cache
from app.access import KeyVerifier
from app.access.data_keys import open_vault
from app.access.routes import router as access_router
from app.audit.calls import CallWriter
from app.catalog import Catalog
from app.catalog.feed import Feed
from app.catalog.loader import Loader
from app.database import Database
from app.discovery import Manuals
from app.discovery import router as discovery_router
from app.errors import GatewayError
from app.front import collector, contract, docs, health
from app.front.hot import Gateway, HotRoute
from app.front.middleware import AllowedHosts, BodyLimit, Observe
from app.outbound.credentials import CredentialResolver
from app.outbound.guard import Guard
from app.outbound.http import Engine
from app.outbound.oauth2 import TokenEndpoint
from app.outbound.tokens import TokenCache
from app.problems import Unhandled, cut, respond
from app.problems import install as install_problems
from app.protocols.base import Adapter
from app.protocols.registry import build_adapters
from app.providers import Converter, import_file, registry_of
from app.providers import router as providers_router
from app.search import SearchIndex
from app.security.masking import Masker
from app.security.vault import KeyRing, Vault
from app.settings import Settings
from app.telemetry.logs import configure_logging
from app.telemetry.metrics import Metrics
from app.tools import CALL_ROUTE, call_tool
from app.tools import router as tools_router

log = structlog.get_logger(__name__)

DOCUMENT_PATHS = ("/providers", "/import")


@dataclass(slots=True)
class Readiness:
    """Whether traffic should come here."""

    open: bool = False


class State(TypedDict):
    """What `request.state` holds in every route."""

    settings: Settings
    database: Database
    redis: "Redis"
    vault: Vault
    masker: Masker
    metrics: Metrics
    engine: Engine
    adapters: Mapping[str, Adapter[Any]]
    resolver: CredentialResolver
    feed: Feed
    catalog: Catalog
    search: SearchIndex
    manuals: Manuals
    keys: KeyVerifier
    calls: CallWriter
    converter: Converter
    readiness: Readiness


def _dsn(secret: Any) -> str:
    return str(secret.get_secret_value())


def _engine(settings: Settings) -> Engine:
    guard = Guard(
        allow_networks=settings.allow_networks,
        allow_ports=[int(port) for port in settings.allow_ports] or None,
        own_addresses=(f"{settings.host}:{settings.port}",),
    )
    return Engine(guard)


async def _open_state(settings: Settings, metrics: Metrics, stack: AsyncExitStack) -> State:
    """Builds everything from the bottom up; `stack` closes it in the opposite order."""
    if settings.database_url is None or settings.redis_url is None:
        raise ValueError(
            "DATABASE_URL and REDIS_URL are not set; `utcp-gateway serve` starts an embedded pair."
        )
    masker = Masker()
    configure_logging(settings.log_level, settings.log_format, masker)
    database = Database(_dsn(settings.database_url), pool_size=settings.database_pool_size)
    stack.push_async_callback(database.aclose)
    redis = cache.connect(_dsn(settings.redis_url), timeout=settings.redis_timeout)
    stack.push_async_callback(redis.aclose)
    vault = await open_vault(database, KeyRing.parse(settings.key_ring()))
    engine = _engine(settings)
    stack.push_async_callback(engine.aclose)
    tokens = TokenCache(vault, TokenEndpoint(engine), redis)
    stack.push_async_callback(tokens.aclose)
    adapters = build_adapters(engine, masker)
    listen = settings.database_listen_url or settings.database_url
    feed = Feed(database, listen_dsn=_dsn(listen), poll_seconds=settings.feed_poll_seconds)
    catalog = Catalog(Loader(database, vault, adapters, settings).load, capacity=settings.plan_cache_size)
    search = SearchIndex(database, base_url=settings.base_url)
    manuals = Manuals(database, base_url=settings.base_url)
    keys = KeyVerifier(
        database,
        vault,
        cache_seconds=settings.key_cache_seconds,
        stale_seconds=settings.auth_stale_seconds,
        metrics=metrics,
    )
    calls = CallWriter(
        database,
        flush_seconds=settings.audit_flush_seconds,
        retention_days=settings.call_retention_days,
        metrics=metrics,
    )
    for room in (catalog, search, manuals, keys):
        feed.subscribe(room.on_changes)
    return State(
        settings=settings, database=database, redis=redis, vault=vault, masker=masker, metrics=metrics,
        engine=engine, adapters=adapters, resolver=CredentialResolver(vault, tokens, masker), feed=feed,
        catalog=catalog, search=search, manuals=manuals, keys=keys, calls=calls,
        converter=Converter(settings), readiness=Readiness(),
    )  # fmt: skip


async def _import_providers(path: Path, state: State) -> None:
    """PROVIDERS_FILE, beside the requests: an upstream that does not answer must not hold up the start."""
    try:
        await import_file(path, registry=registry_of(SimpleNamespace(**state)))
    except (OSError, GatewayError) as error:
        reason = error.detail if isinstance(error, GatewayError) else error.strerror
        log.warning("the providers file cannot be used", file=str(path), reason=reason)


def lifespan(settings: Settings, metrics: Metrics) -> Callable[[FastAPI], Any]:
    """The lifespan of an application with these settings."""

    @asynccontextmanager
    async def run(_app: FastAPI) -> AsyncIterator[State]:
        async with AsyncExitStack() as stack:
            state = await _open_state(settings, metrics, stack)
            starts: list[tuple[Callable[[], Awaitable[None]], Callable[[], Awaitable[None]]]] = [
                (state[name].start, state[name].aclose)
                for name in ("feed", "search", "keys", "calls", "converter")
            ]
            for start, close in starts:
                await start()
                stack.push_async_callback(close)
            collector.settle()
            state["readiness"].open = True
            if settings.providers_file is not None:
                state["converter"].spawn(_import_providers(settings.providers_file, state))
            yield state
            state["readiness"].open = False

    return run


def _middleware(settings: Settings, metrics: Metrics) -> list[Middleware]:
    """The layers around every route, the outermost first."""
    middleware = [
        Middleware(Observe, metrics=metrics),
        Middleware(
            BodyLimit,
            small_bytes=settings.max_request_bytes,
            large_bytes=settings.max_document_bytes,
            large=DOCUMENT_PATHS,
        ),
    ]
    if settings.cors_origins:
        middleware.insert(
            0,
            Middleware(
                CORSMiddleware,
                allow_origins=settings.cors_origins,
                allow_methods=["*"],
                allow_headers=[
                    "Authorization",
                    "Content-Type",
                    "If-Match",
                    "If-None-Match",
                    "Prefer",
                    "X-API-Key",
                ],
                expose_headers=["ETag", "Location", "X-Call-Id", "X-Upstream-Status", "X-Error-Source"],
            ),
        )
    if settings.allowed_hosts != ("*",):
        middleware.insert(0, Middleware(AllowedHosts, patterns=settings.allowed_hosts))
    return middleware


def create_app(settings: Settings | None = None) -> FastAPI:
    """The gateway as an ASGI application; without `settings` they are read from the environment."""
    settings = settings or Settings()
    metrics = Metrics()
    app = Gateway(
        title="utcp-gateway",
        version=contract.VERSION,
        description=contract.DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        root_path=settings.root_path,
        middleware=_middleware(settings, metrics),
        lifespan=lifespan(settings, metrics),
        redirect_slashes=False,
    )
    install_problems(app)
    app.router.routes.append(CALL_ROUTE)
    for router in (tools_router, providers_router, discovery_router, access_router, health.router):
        app.include_router(router)
    docs.install(app, is_open=settings.docs_open)
    contract.install(app)
    app.hot = HotRoute(
        CALL_ROUTE,
        endpoint=call_tool,
        metrics=metrics,
        body_bytes=settings.max_request_bytes,
        respond=respond,
        cut=cut,
        replaces=frozenset({Unhandled, Observe, BodyLimit}),
    )
    return app
