"""The one composition root: what the gateway is made of, built once for a process, bottom up.

The application puts it into `request.state.services`, where every edge finds it; a test that needs a gateway
opens the same. It stands below the edges, which import it: what belongs to a single edge is opened by that
edge (`discovery.open_manuals`).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from pydantic import SecretStr
from redis.asyncio import Redis

from app.access import KeyVerifier
from app.access.data_keys import open_vault
from app.call_log.entries import CallLog
from app.call_log.modes import open_body_recorder, open_call_log
from app.calls import CallServices
from app.calls.idempotency_store import IdempotencyStore
from app.calls.rate_limiter import RateLimiter
from app.calls.response_cache import ResponseCache
from app.calls.streams import StreamRegistry
from app.catalog import Catalog
from app.catalog.feed import ChangeFeed
from app.catalog.loader import PlanLoader
from app.database import Database
from app.outbound.credentials import CredentialResolver
from app.outbound.guard import Guard
from app.outbound.http import Engine
from app.outbound.oauth2 import TokenEndpoint
from app.outbound.tokens import TokenCache
from app.protocols.base import AdapterContext
from app.protocols.registry import Adapters
from app.redis_client import RedisClient, connect
from app.registration.converter import Converter
from app.registration.fetch import Fetcher
from app.registration.service import RegistrationService
from app.registration.source_reader import SourceReader
from app.resilience import Origins
from app.search import SearchIndex
from app.security.loop_detection import gateway_identity
from app.security.masking import Masker
from app.security.vault import KeyRing, Vault
from app.settings import Settings
from app.telemetry.logs import configure_logging
from app.telemetry.metrics import Metrics
from app.telemetry.traces import Tracer
from app.telemetry.tracing import open_tracer


@dataclass(slots=True)
class Readiness:
    """Whether traffic should come here."""

    open: bool = False


@dataclass(frozen=True, slots=True)
class Services:
    """What the edges use; one for the whole application.

    `identity` is this gateway in CDN-Loop. `stopping` is set when streams must end: the gateway stops, and
    their time is nearly over.
    """

    settings: Settings
    database: Database
    redis: Redis
    cache: RedisClient
    vault: Vault
    masker: Masker
    metrics: Metrics
    tracer: Tracer | None
    engine: Engine
    adapters: Adapters
    tokens: TokenCache
    resolver: CredentialResolver
    origins: Origins
    feed: ChangeFeed
    catalog: Catalog
    search: SearchIndex
    keys: KeyVerifier
    call_log: CallLog
    calls: CallServices
    streams: StreamRegistry
    converter: Converter
    registration: RegistrationService
    identity: str
    stopping: asyncio.Event
    readiness: Readiness


@asynccontextmanager
async def open_services(settings: Settings, metrics: Metrics) -> AsyncIterator[Services]:
    """Build and start the services of these settings; stop and close them at the end, the last one first.

    `metrics` is where they count. Raises ValueError without the URLs of PostgreSQL and Redis, and a
    GatewayError where the database cannot be used (its sealing key is missing, say).
    """
    async with AsyncExitStack() as stack:
        services = await _build(settings, metrics, stack)
        for part in (
            services.feed,
            services.search,
            services.keys,
            services.call_log,
            services.calls.idempotency,
            services.converter,
        ):
            await part.start()
            stack.push_async_callback(part.aclose)
        yield services


async def _build(settings: Settings, metrics: Metrics, stack: AsyncExitStack) -> Services:
    if settings.database_url is None or settings.redis_url is None:
        raise ValueError(
            "DATABASE_URL and REDIS_URL are not set; `utcp-gateway serve` starts an embedded pair."
        )
    masker = Masker()
    configure_logging(settings.log_level, settings.log_format, masker)
    tracer = open_tracer(settings)
    if tracer is not None:
        stack.push_async_callback(tracer.aclose)
    database = Database(_dsn(settings.database_url), pool_size=settings.database_pool_size)
    stack.push_async_callback(database.aclose)
    redis = connect(_dsn(settings.redis_url), timeout=settings.redis_timeout)
    stack.push_async_callback(redis.aclose)
    cache = RedisClient(redis)
    vault = await open_vault(database, KeyRing.parse(settings.key_ring()))
    identity = gateway_identity(vault)
    engine = _engine(settings, identity)
    stack.push_async_callback(engine.aclose)
    tokens = TokenCache(vault, TokenEndpoint(engine), cache)
    stack.push_async_callback(tokens.aclose)
    adapters = Adapters(AdapterContext(engine, engine.network, masker, settings))
    stack.push_async_callback(adapters.aclose)
    listen = settings.database_listen_url or settings.database_url
    feed = ChangeFeed(database, listen_dsn=_dsn(listen), poll_seconds=settings.feed_poll_seconds)
    origins = Origins(engine.timers)
    loader = PlanLoader(database, vault, adapters, origins, settings)
    catalog = Catalog(loader.load, capacity=settings.plan_cache_size)
    search = SearchIndex(database, base_url=settings.base_url)
    keys = KeyVerifier(
        database,
        vault,
        cache_seconds=settings.key_cache_seconds,
        stale_seconds=settings.auth_stale_seconds,
        default_rate_limit=settings.default_key_rate_limit(),
        failure_limit=settings.key_failure_limit(),
        feed=feed,
    )
    for reader in (catalog, search, keys):
        feed.subscribe(reader.on_changes)
    call_log = open_call_log(settings, database)
    resolver = CredentialResolver(vault, tokens, masker)
    stopping = asyncio.Event()
    converter = Converter(settings)
    fetcher = Fetcher(adapters, resolver, settings.max_document_bytes)
    return Services(
        settings=settings,
        database=database,
        redis=redis,
        cache=cache,
        vault=vault,
        masker=masker,
        metrics=metrics,
        tracer=tracer,
        engine=engine,
        adapters=adapters,
        tokens=tokens,
        resolver=resolver,
        origins=origins,
        feed=feed,
        catalog=catalog,
        search=search,
        keys=keys,
        call_log=call_log,
        calls=CallServices(
            catalog=catalog,
            resolver=resolver,
            clock=engine.timers,
            call_log=call_log,
            metrics=metrics,
            rate_limiter=RateLimiter(cache, vault, workers=settings.workers),
            idempotency=IdempotencyStore(database, vault, seconds=settings.idempotency_retention_seconds),
            response_cache=ResponseCache(engine.timers, capacity=settings.response_cache_bytes),
            max_retry_after=settings.retry_after_max,
            max_stored_bytes=settings.idempotency_max_response_bytes,
            identity=identity,
            tracer=tracer,
            bodies=open_body_recorder(settings, vault),
        ),
        streams=StreamRegistry(
            engine.timers,
            stopping,
            heartbeat=settings.stream_heartbeat_seconds,
            stall=settings.client_idle_timeout,
        ),
        converter=converter,
        registration=RegistrationService(
            settings, database, vault, feed, SourceReader(settings, vault, fetcher, converter)
        ),
        identity=identity,
        stopping=stopping,
        readiness=Readiness(),
    )


def _dsn(secret: SecretStr) -> str:
    return secret.get_secret_value()


def _engine(settings: Settings, identity: str) -> Engine:
    guard = Guard(
        allow_networks=settings.allow_networks,
        allow_ports=[int(port) for port in settings.allow_ports] or None,
        own_addresses=(f"{settings.host}:{settings.port}",),
    )
    # Enough that no call waits for those of others, which its breaker would take for a silent upstream.
    return Engine(guard, connections=settings.max_calls + 100, connections_per_origin=None, identity=identity)
