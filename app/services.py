"""The composition root: the services of the gateway, built once per process, in the order of dependencies.

The application puts them into `request.state.services`, where every edge finds them; tests use the same
function. This module is below the edges, which import it: a service of a single edge is opened by that edge
(`discovery.open_manuals`).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from pydantic import SecretStr
from redis.asyncio import Redis

from app.access import KeyCachePolicy, KeyVerifier
from app.access.data_keys import open_vault
from app.access.events import ControlPlaneEvents
from app.access.expiry_monitor import KeyExpiryMonitor
from app.access.presented_tokens import TokenVerifier
from app.access.sessions import SessionPolicy, Sessions
from app.calls import CallServices
from app.calls.approvals.call_handler import CallApprovalHandler
from app.calls.approvals.call_store import CallApprovalStore
from app.calls.approvals.kinds import CHANGE_KINDS, ApprovalCounts, ApprovalHandler, ApprovalKind
from app.calls.approvals.service import ApprovalRetention, ApprovalService
from app.calls.idempotency.store import IdempotencyStore
from app.calls.log.entries import CallLog
from app.calls.log.modes import open_body_recorder, open_call_log
from app.calls.log.queries import EndedCalls
from app.calls.log.record_feed import RecordFeed
from app.calls.rate_limiter import RateLimiter
from app.calls.recordings.service import RecordingService
from app.calls.recordings.store import RecordingBounds, RecordingStore
from app.calls.response.cache import ResponseCache
from app.calls.response.streams import StreamRegistry
from app.calls.results import ContinuationStore
from app.catalog import Catalog
from app.catalog.feed import ChangeFeed
from app.catalog.loader import PlanLoader
from app.core.settings import Settings
from app.core.telemetry.logs import configure_logging
from app.core.telemetry.metrics import Metrics
from app.core.telemetry.traces import Tracer
from app.core.telemetry.tracing import open_tracer
from app.openapi.process.workers import ForkServer
from app.outbound.credentials import CredentialResolver
from app.outbound.guard import Guard
from app.outbound.http import Engine
from app.outbound.http1.pool import PROBATION_SECONDS
from app.outbound.oauth2 import TokenEndpoint
from app.outbound.resilience import Origins
from app.outbound.tokens import TokenCache
from app.protocols.base import AdapterContext
from app.protocols.command_routing import CommandRouter
from app.protocols.command_routing.relay import WorkerRelay
from app.protocols.registry import Adapters
from app.providers.credentials.last_use import CredentialUses
from app.providers.credentials.refresh_tokens import IssuedRefreshTokens
from app.providers.plugins import PluginCatalogue, PluginService, PluginWords
from app.providers.registration.approval_requirements import ApprovalRequirements
from app.providers.registration.change_approvals import ChangeApprovalHandler
from app.providers.registration.converter import Converter
from app.providers.registration.fetch import Fetcher
from app.providers.registration.output_deviations import OutputDeviations
from app.providers.registration.service import RegistrationService
from app.providers.registration.source_reader import SourceReader
from app.search.conditions import ToolConditions
from app.search.search_index import SearchIndex
from app.search.signals import Signals
from app.search.usage import SearchUsage, SearchUsageAdministration, UsageOptions
from app.search.vectors import SearchVectors
from app.search.words import SearchWords, SearchWordsService
from app.security.loop_detection import gateway_identity
from app.security.masking import Masker
from app.security.vault import KeyRing, Vault
from app.storage.database import Database
from app.storage.models import CallRecord, Event
from app.storage.redis import RedisClient, connect
from app.toolsets import ToolCollections
from app.toolsets.exports import ToolExporter
from app.toolsets.meta_tools import FindAids, StoredRests

_RELAY_TIMEOUT: Final = 5.0


@dataclass(slots=True)
class Readiness:
    """Whether the process accepts traffic: `open` is False while it starts and stops."""

    open: bool = False


@dataclass(frozen=True, slots=True)
class Services:
    """The services that the edges use; one instance per process.

    `redis` is the plain client, for health probes; all others use `redis_client`, which has the circuit
    breaker. `identity` names this gateway in the header CDN-Loop. `stopping` is set while the gateway stops,
    when open streams must end.
    """

    settings: Settings
    database: Database
    redis: Redis
    redis_client: RedisClient
    vault: Vault
    masker: Masker
    metrics: Metrics
    tracer: Tracer | None
    engine: Engine
    adapters: Adapters
    commands: CommandRouter
    tokens: TokenCache
    resolver: CredentialResolver
    credential_uses: CredentialUses
    origins: Origins
    feed: ChangeFeed
    catalog: Catalog
    search: SearchIndex
    vectors: SearchVectors
    conditions: ToolConditions
    collections: ToolCollections
    words: SearchWords
    search_words: SearchWordsService
    continuations: ContinuationStore
    exporter: ToolExporter
    keys: KeyVerifier
    access_tokens: TokenVerifier | None
    key_expiry: KeyExpiryMonitor
    call_log: CallLog
    calls: CallServices
    streams: StreamRegistry
    call_feed: RecordFeed[CallRecord]
    event_feed: RecordFeed[Event]
    converter: Converter
    registration: RegistrationService
    plugins: PluginService
    output_deviations: OutputDeviations
    approvals: ApprovalService
    approval_requirements: ApprovalRequirements
    recordings: RecordingService
    search_usage: SearchUsageAdministration
    sessions: Sessions
    identity: str
    stopping: asyncio.Event
    readiness: Readiness

    @property
    def find_aids(self) -> FindAids:
        """What `find_tools` knows besides the tools."""
        return FindAids(self.conditions, self.plugins.suggestions)

    @property
    def stored_rests(self) -> StoredRests:
        """What `read_more` reads."""
        return StoredRests(self.continuations, self.approvals)


@asynccontextmanager
async def open_services(
    settings: Settings,
    metrics: Metrics,
    *,
    probation: float = PROBATION_SECONDS,
    fork_server: ForkServer | None = None,
) -> AsyncIterator[Services]:
    """Build and start the services of these settings; stop them at the end of the block, in reverse order.

    They count in `metrics`; `probation` is that of the `Engine`, `fork_server` that of the `Converter`. Raise
    ValueError without the URLs of PostgreSQL and Redis, and a GatewayError where the database cannot be used
    (e.g. because a sealing key is missing).
    """
    async with AsyncExitStack() as stack:
        services = await build_services(
            settings, metrics, stack, probation=probation, fork_server=fork_server
        )
        for service in (
            services.feed,
            services.words,
            services.search,
            services.vectors,
            services.conditions,
            services.keys,
            services.credential_uses,
            services.key_expiry,
            services.call_log,
            services.calls.idempotency,
            services.converter,
            services.approvals,
            services.recordings.store,
            services.search_usage.usage,
            services.sessions,
        ):
            await service.start()
            stack.push_async_callback(service.aclose)
        stack.push_async_callback(services.output_deviations.aclose)
        yield services


async def build_services(
    settings: Settings,
    metrics: Metrics,
    stack: AsyncExitStack,
    *,
    probation: float = PROBATION_SECONDS,
    fork_server: ForkServer | None = None,
) -> Services:
    """Return the services of these settings, with no background task started.

    `stack` closes what was opened; `metrics` is where they count. Raises like `open_services`.
    """
    if settings.database_url is None or settings.redis_url is None:
        raise ValueError(
            "DATABASE_URL and REDIS_URL are not set; `utcp-gateway serve` starts embedded servers for both."
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
    redis_client = RedisClient(redis)
    vault = await open_vault(database, KeyRing.parse(settings.read_key_ring()))
    identity = gateway_identity(vault)
    engine = _engine(settings, identity, probation)
    stack.push_async_callback(engine.aclose)
    tokens = TokenCache(
        vault,
        TokenEndpoint(engine, refresh_tokens=IssuedRefreshTokens(database, vault)),
        redis_client,
    )
    stack.push_async_callback(tokens.aclose)
    commands = CommandRouter()
    # A client of its own: it waits for entries for up to a second, where other commands have a tenth of one.
    relay_redis = connect(_dsn(settings.redis_url), timeout=_RELAY_TIMEOUT)
    stack.push_async_callback(relay_redis.aclose)
    commands.use(WorkerRelay(relay_redis, vault, commands))
    stack.push_async_callback(commands.aclose)
    adapters = Adapters(AdapterContext(engine, engine.network, masker, settings, commands))
    stack.push_async_callback(adapters.aclose)
    listen = settings.database_listen_url or settings.database_url
    feed = ChangeFeed(database, listen_dsn=_dsn(listen), poll_seconds=settings.feed_poll_seconds)
    origins = Origins(engine.timers)
    # An executor that has connected again is not what has failed before.
    commands.listen(lambda tenant_id, executor: origins.reset(tenant_id, f"ubp://{executor}"))
    catalog = Catalog(
        PlanLoader(database, vault, adapters, origins, settings).load, capacity=settings.plan_cache_size
    )
    usage = SearchUsage(database, vault, masker, options=_usage_options(settings))
    searching = _search_parts(settings, database, listen, usage)
    search = searching.index
    conditions = ToolConditions(database, environment=settings.variable_env_names)
    collections = ToolCollections(database, search)
    keys = KeyVerifier(
        database,
        vault,
        cache_policy=KeyCachePolicy(
            fresh_seconds=settings.key_cache_seconds, stale_seconds=settings.auth_stale_seconds
        ),
        default_rate_limit=settings.get_default_key_rate_limit(),
        failure_limit=settings.get_key_failure_limit(),
        feed=feed,
    )
    for subscriber in (catalog, search, searching.words, usage, conditions, keys, collections):
        feed.subscribe(subscriber.on_changes)
    call_log = open_call_log(settings, database)
    credential_uses = CredentialUses(database)
    resolver = CredentialResolver(vault, tokens, masker, used_at=credential_uses.used_at)
    call_feed, event_feed = _record_feeds(database, stack)
    stopping = asyncio.Event()
    converter = Converter(settings, fork_server)
    counts = ApprovalCounts()
    approval_store = CallApprovalStore(
        database,
        vault,
        masker,
        counts,
        seconds=settings.approval_ttl_seconds,
        max_pending=settings.approval_pending_max,
    )
    recording_store = RecordingStore(database, vault, masker, bounds=_recording_bounds(settings))
    feed.subscribe(recording_store.on_changes)
    calls = CallServices(
        catalog=catalog,
        resolver=resolver,
        clock=engine.timers,
        call_log=call_log,
        metrics=metrics,
        rate_limiter=RateLimiter(redis_client, vault, workers=settings.workers),
        idempotency=IdempotencyStore(
            database, vault, retention_seconds=settings.idempotency_retention_seconds
        ),
        response_cache=ResponseCache(engine.timers, capacity=settings.response_cache_bytes),
        max_retry_after=settings.retry_after_max,
        max_stored_bytes=settings.idempotency_max_response_bytes,
        identity=identity,
        tracer=tracer,
        bodies=open_body_recorder(settings, vault),
        suggest_tools=search.suggest_tools,
        approvals=approval_store,
        recordings=recording_store,
    )
    registration = RegistrationService(
        settings,
        database,
        vault,
        feed,
        SourceReader(
            settings,
            vault,
            Fetcher(adapters, resolver, engine.network, settings.max_document_bytes),
            converter,
        ),
        approvals=counts,
    )
    return Services(
        settings=settings,
        database=database,
        redis=redis,
        redis_client=redis_client,
        vault=vault,
        masker=masker,
        metrics=metrics,
        tracer=tracer,
        engine=engine,
        adapters=adapters,
        commands=commands,
        tokens=tokens,
        resolver=resolver,
        credential_uses=credential_uses,
        origins=origins,
        feed=feed,
        catalog=catalog,
        search=search,
        vectors=searching.vectors,
        conditions=conditions,
        collections=collections,
        words=searching.words,
        search_words=SearchWordsService(database, feed, collections),
        continuations=ContinuationStore(redis_client, vault, collections),
        exporter=ToolExporter(base_url=settings.base_url),
        keys=keys,
        access_tokens=_access_tokens(settings, engine, stack),
        key_expiry=KeyExpiryMonitor(
            database, redis_client, within=timedelta(days=settings.key_expiry_warning_days)
        ),
        call_log=call_log,
        calls=calls,
        streams=StreamRegistry(
            engine.timers,
            stopping,
            heartbeat=settings.stream_heartbeat_seconds,
            stall=settings.client_idle_timeout,
        ),
        call_feed=call_feed,
        event_feed=event_feed,
        converter=converter,
        registration=registration,
        plugins=_plugins(settings, registration),
        output_deviations=OutputDeviations(database, feed, max_history=settings.tool_history_max),
        approval_requirements=ApprovalRequirements(database),
        approvals=_approvals(settings, approval_store, calls, registration, collections),
        recordings=RecordingService(database, feed, recording_store),
        search_usage=SearchUsageAdministration(usage, feed),
        sessions=_sessions(settings, database, vault, keys, feed),
        identity=identity,
        stopping=stopping,
        readiness=Readiness(),
    )


@dataclass(frozen=True, slots=True)
class _SearchParts:
    """The search index, and the signals by which it ranks."""

    index: SearchIndex
    vectors: SearchVectors
    words: SearchWords


def _search_parts(
    settings: Settings, database: Database, listen: SecretStr, usage: SearchUsage
) -> _SearchParts:
    vectors = SearchVectors(settings, database_url=database.dsn, listen_url=_dsn(listen))
    words = SearchWords(database)
    signals = Signals(operator_words=words, usage=usage, vectors=vectors)
    index = SearchIndex(database, base_url=settings.base_url, signals=signals)
    index.on_search = usage.on_search
    return _SearchParts(index, vectors, words)


def _recording_bounds(settings: Settings) -> RecordingBounds:
    return RecordingBounds(
        body_bytes=settings.recording_max_body_bytes,
        events=settings.recording_max_events,
        interactions=settings.recording_max_interactions,
        total_bytes=settings.recording_max_bytes,
        days=settings.recording_retention_days,
    )


def _sessions(
    settings: Settings, database: Database, vault: Vault, keys: KeyVerifier, feed: ChangeFeed
) -> Sessions:
    sessions = Sessions(
        database,
        vault,
        keys,
        feed,
        policy=SessionPolicy(
            idle_seconds=settings.session_idle_seconds,
            max_seconds=settings.session_max_seconds,
            fresh_seconds=settings.key_cache_seconds,
            stale_seconds=settings.auth_stale_seconds,
        ),
    )
    feed.subscribe(sessions.on_changes)
    return sessions


def _record_feeds(
    database: Database, stack: AsyncExitStack
) -> tuple[RecordFeed[CallRecord], RecordFeed[Event]]:
    """Return the feeds of call records and of events, which `stack` closes."""
    call_feed = RecordFeed(EndedCalls(), database)
    event_feed = RecordFeed(ControlPlaneEvents(), database)
    for records in (call_feed, event_feed):
        stack.push_async_callback(records.aclose)
    return call_feed, event_feed


def _usage_options(settings: Settings) -> UsageOptions:
    return UsageOptions(
        mode=settings.search_usage,
        seconds=settings.search_usage_seconds,
        half_life_days=settings.search_usage_half_life_days,
        retention_days=settings.search_usage_retention_days,
        max_counts=settings.search_usage_max,
        stores_queries=settings.search_usage_queries,
    )


def _approvals(
    settings: Settings,
    store: CallApprovalStore,
    calls: CallServices,
    registration: RegistrationService,
    collections: ToolCollections,
) -> ApprovalService:
    """Return the approvals, with the one list of what handles each kind."""
    changes = ChangeApprovalHandler(registration, store.counts)
    call = CallApprovalHandler(
        store.database,
        store,
        calls,
        settings.get_default_key_rate_limit(),
        toolsets=collections,
        issuer=settings.oauth_issuer,
    )
    retention = ApprovalRetention(
        settings.approval_result_seconds,
        settings.idempotency_retention_seconds,
        settings.approval_retention_days,
    )
    handlers: dict[ApprovalKind, ApprovalHandler] = {"call": call, **dict.fromkeys(CHANGE_KINDS, changes)}
    return ApprovalService(store.database, store, handlers, retention=retention, visibility=collections)


def _plugins(settings: Settings, registration: RegistrationService) -> PluginService:
    """Return the plugins, those of the operator included."""
    catalogue = PluginCatalogue(*map(Path, settings.plugin_folders))
    return PluginService(catalogue, registration, PluginWords(catalogue))


def _access_tokens(settings: Settings, engine: Engine, stack: AsyncExitStack) -> TokenVerifier | None:
    """Return the verifier of access tokens, which `stack` closes; None where no issuer is configured."""
    if settings.oauth_issuer is None:
        return None
    # Most gateways accept API keys alone, and need no library for JWTs.
    from app.access.access_tokens import AccessTokens  # noqa: PLC0415
    from app.access.issuer_keys import IssuerKeys  # noqa: PLC0415

    keys = IssuerKeys(
        engine,
        issuer=settings.oauth_issuer,
        url=settings.oauth_jwks_url,
        seconds=settings.oauth_jwks_seconds,
        stale_seconds=settings.auth_stale_seconds,
    )
    tokens = AccessTokens(settings, keys)
    stack.push_async_callback(tokens.aclose)
    return tokens


def _dsn(secret: SecretStr) -> str:
    return secret.get_secret_value()


def _engine(settings: Settings, identity: str, probation: float) -> Engine:
    guard = Guard(
        allow_networks=settings.allow_networks,
        allow_ports=[int(port) for port in settings.allow_ports] or None,
        own_addresses=(f"{settings.host}:{settings.port}",),
        unix_sockets=settings.unix_sockets,
    )
    # So many that no call waits for a connection: its breaker would count that as an unresponsive upstream.
    return Engine(
        guard,
        connections=settings.max_calls + 100,
        connections_per_origin=None,
        identity=identity,
        probation=probation,
    )
