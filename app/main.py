"""`create_app()` and the typed lifespan state: the only file that knows every room."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypedDict

import structlog
from fastapi import FastAPI
from redis.asyncio import Redis
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from app.access import KeyVerifier
from app.access.data_keys import open_vault
from app.call_api.endpoint import CALL_ROUTE, call_tool
from app.call_log.entries import Recorder
from app.call_log.modes import bodies_for, recorder_for
from app.calls.event_stream import Streams
from app.calls.execution import Rooms
from app.calls.quota import Quota
from app.catalog import Catalog
from app.catalog.feed import Feed
from app.catalog.loader import Loader
from app.database import Database
from app.discovery import Manuals
from app.discovery import router as discovery_router
from app.errors import GatewayError, Overloaded
from app.keys.routes import router as access_router
from app.outbound.credentials import CredentialResolver
from app.outbound.guard import Guard
from app.outbound.http import Engine
from app.outbound.oauth2 import TokenEndpoint
from app.outbound.tokens import TokenCache
from app.protocols.base import AdapterContext
from app.protocols.registry import Adapters
from app.providers import Converter, import_file, registry_of
from app.providers import router as providers_router
from app.redis_client import Cache, connect
from app.resilience import Origins
from app.search import SearchIndex
from app.security.identity import identity_of
from app.security.masking import Masker
from app.security.vault import KeyRing, Vault
from app.server import docs_page, gc_tuning, health, metrics_collectors, openapi_document
from app.server.admission import Admission
from app.server.call_route import Gateway, HotRoute
from app.server.connections import Connections, EdgeLimits
from app.server.middleware import AllowedHosts, BodyLimit, Observe
from app.server.problems import Unhandled, cut, problem, respond
from app.server.problems import install as install_problems
from app.settings import Settings
from app.telemetry.logs import configure_logging
from app.telemetry.metrics import Metrics
from app.telemetry.tracing import Tracer, open_tracer
from app.tools import router as tools_router

log = structlog.get_logger(__name__)

EXPOSED = (
    "Age", "ETag", "Idempotency-Replayed", "Location", "RateLimit", "RateLimit-Limit", "RateLimit-Policy",
    "RateLimit-Remaining", "RateLimit-Reset", "Retry-After", "X-Cache", "X-Call-Id", "X-Error-Source",
    "X-Upstream-Status",
)  # fmt: skip
ALLOWED = (
    "Authorization", "Cache-Control", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match",
    "Prefer", "X-API-Key", "X-Timeout-Ms",
)  # fmt: skip
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
    cache: Cache
    vault: Vault
    masker: Masker
    metrics: Metrics
    tracer: Tracer | None
    engine: Engine
    adapters: Adapters
    tokens: TokenCache
    resolver: CredentialResolver
    feed: Feed
    catalog: Catalog
    search: SearchIndex
    manuals: Manuals
    keys: KeyVerifier
    calls: Recorder
    converter: Converter
    readiness: Readiness
    probes: health.Probes
    origins: Origins
    rooms: Rooms
    quota: Quota
    connections: Connections
    """Those of clients, which the HTTP server counts and bounds."""
    stopping: asyncio.Event
    """Set when streams must end: the gateway stops, and their time is nearly over."""


def _dsn(secret: Any) -> str:
    return str(secret.get_secret_value())


def _engine(settings: Settings, identity: str) -> Engine:
    guard = Guard(
        allow_networks=settings.allow_networks,
        allow_ports=[int(port) for port in settings.allow_ports] or None,
        own_addresses=(f"{settings.host}:{settings.port}",),
    )
    # Enough that no call waits for those of others, which its breaker would take for a silent upstream.
    return Engine(guard, connections=settings.max_calls + 100, connections_per_origin=None, identity=identity)


def _keys(settings: Settings, database: Database, vault: Vault, feed: Feed) -> KeyVerifier:
    return KeyVerifier(
        database,
        vault,
        cache_seconds=settings.key_cache_seconds,
        stale_seconds=settings.auth_stale_seconds,
        rate=settings.usual_rate(),
        failures=settings.failure_rate(),
        feed=feed,
    )


def _streams(settings: Settings, engine: Engine, stopping: asyncio.Event) -> Streams:
    """What answers in pieces share."""
    heartbeat, stall = settings.stream_heartbeat_seconds, settings.caller_idle_timeout
    return Streams(engine.clock, stopping, heartbeat=heartbeat, stall=stall)


def _telemetry(settings: Settings, stack: AsyncExitStack) -> tuple[Masker, Tracer | None]:
    masker = Masker()
    configure_logging(settings.log_level, settings.log_format, masker)
    tracer = open_tracer(settings)
    if tracer is not None:
        stack.push_async_callback(tracer.aclose)
    return masker, tracer


async def _open_state(settings: Settings, metrics: Metrics, stack: AsyncExitStack) -> State:
    """Builds everything from the bottom up; `stack` closes it in the opposite order."""
    if settings.database_url is None or settings.redis_url is None:
        raise ValueError(
            "DATABASE_URL and REDIS_URL are not set; `utcp-gateway serve` starts an embedded pair."
        )
    masker, tracer = _telemetry(settings, stack)
    database = Database(_dsn(settings.database_url), pool_size=settings.database_pool_size)
    stack.push_async_callback(database.aclose)
    redis = connect(_dsn(settings.redis_url), timeout=settings.redis_timeout)
    stack.push_async_callback(redis.aclose)
    shared = Cache(redis)
    vault = await open_vault(database, KeyRing.parse(settings.key_ring()))
    identity = identity_of(vault)
    engine = _engine(settings, identity)
    stack.push_async_callback(engine.aclose)
    tokens = TokenCache(vault, TokenEndpoint(engine), shared)
    stack.push_async_callback(tokens.aclose)
    adapters = Adapters(AdapterContext(engine, engine.network, masker, settings))
    stack.push_async_callback(adapters.aclose)
    listen = settings.database_listen_url or settings.database_url
    feed = Feed(database, listen_dsn=_dsn(listen), poll_seconds=settings.feed_poll_seconds)
    origins = Origins(engine.clock)
    catalog = Catalog(
        Loader(database, vault, adapters, origins, settings).load, capacity=settings.plan_cache_size
    )
    search = SearchIndex(database, base_url=settings.base_url)
    manuals = Manuals(database, base_url=settings.base_url, identity=identity)
    keys = _keys(settings, database, vault, feed)
    calls = recorder_for(settings, database)
    resolver = CredentialResolver(vault, tokens, masker)
    stopping = asyncio.Event()
    quota = Quota.of(settings, database=database, cache=shared, vault=vault, clock=engine.clock)
    rooms = Rooms(
        catalog=catalog, resolver=resolver, clock=engine.clock, calls=calls, metrics=metrics, tracer=tracer,
        body_bytes=settings.max_request_bytes, argument_values=settings.max_argument_values,
        longest_wait=settings.retry_after_most,
        streams=_streams(settings, engine, stopping), quota=quota,
        bodies=bodies_for(settings, vault), identity=identity,
    )  # fmt: skip
    for room in (catalog, search, manuals, keys):
        feed.subscribe(room.on_changes)
    return State(
        settings=settings, database=database, redis=redis, cache=shared, vault=vault, masker=masker,
        metrics=metrics, tracer=tracer, engine=engine, adapters=adapters, tokens=tokens,
        resolver=resolver, feed=feed, catalog=catalog, search=search, manuals=manuals, keys=keys, calls=calls,
        converter=Converter(settings), readiness=Readiness(), origins=origins, rooms=rooms,
        stopping=stopping, quota=quota, probes=health.Probes(database, redis),
        connections=Connections(EdgeLimits.of(settings)),
    )  # fmt: skip


async def _import_providers(path: Path, state: State) -> None:
    """PROVIDERS_FILE, beside the requests: an upstream that does not answer must not hold up the start."""
    try:
        await import_file(path, registry=registry_of(SimpleNamespace(**state)))
    except (OSError, GatewayError) as error:
        reason = error.detail if isinstance(error, GatewayError) else error.strerror
        log.warning("the providers file cannot be used", file=str(path), reason=reason)


@contextmanager
def _start_failure(app: FastAPI) -> Iterator[None]:
    """Note why the start fails (a key that the ring lacks, say) for one line in the log."""
    try:
        yield
    except GatewayError as error:
        if isinstance(app, Gateway):
            app.start_failure = f"The gateway cannot start: {error.detail}"
        raise


def lifespan(settings: Settings, metrics: Metrics, admission: Admission) -> Callable[[FastAPI], Any]:
    """The lifespan of an application with these settings."""

    @asynccontextmanager
    async def run(app: FastAPI) -> AsyncIterator[State]:
        async with AsyncExitStack() as stack:
            with _start_failure(app):
                state = await _open_state(settings, metrics, stack)
            starts: list[tuple[Callable[[], Awaitable[None]], Callable[[], Awaitable[None]]]] = [
                (state[name].start, state[name].aclose)
                for name in ("feed", "search", "keys", "calls", "quota", "converter")
            ]
            for start, close in starts:
                await start()
                stack.push_async_callback(close)
            stack.callback(metrics_collectors.start(metrics, state, admission))
            admission.unverified = lambda: state["keys"].unverified_calls
            gc_tuning.settle()
            admission.start()
            stack.callback(admission.stop)
            state["readiness"].open = True
            if settings.providers_file is not None:
                state["converter"].spawn(_import_providers(settings.providers_file, state))
            yield state
            state["readiness"].open = False
            state["stopping"].set()

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
                allow_headers=ALLOWED,
                expose_headers=EXPOSED,
            ),
        )
    if settings.allowed_hosts != ("*",):
        middleware.insert(0, Middleware(AllowedHosts, patterns=settings.allowed_hosts))
    return middleware


def create_app(settings: Settings | None = None) -> FastAPI:
    """The gateway as an ASGI application; without `settings` they are read from the environment."""
    settings = settings or Settings()
    metrics = Metrics()
    admission = Admission(most=settings.max_calls, lag=settings.overload_lag)
    app = Gateway(
        title="utcp-gateway",
        version=openapi_document.VERSION,
        description=openapi_document.DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        root_path=settings.root_path,
        middleware=_middleware(settings, metrics),
        lifespan=lifespan(settings, metrics, admission),
        redirect_slashes=False,
    )
    install_problems(app)
    app.router.routes.append(CALL_ROUTE)
    for router in (tools_router, providers_router, discovery_router, access_router, health.router):
        app.include_router(router)
    docs_page.install(app, is_open=settings.docs_open)
    openapi_document.install(app)
    app.admission = admission
    app.hot = HotRoute(
        CALL_ROUTE,
        endpoint=call_tool,
        metrics=metrics,
        body_bytes=settings.max_request_bytes,
        overloaded=problem(Overloaded("The gateway has more calls than it can answer in time; try again.")),
        respond=respond,
        cut=cut,
        replaces=frozenset({Unhandled, Observe, BodyLimit}),
    )
    return app
