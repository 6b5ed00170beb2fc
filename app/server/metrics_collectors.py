"""Reads the counters of all packages, and returns them as the samples of `/metrics`.

Packages count in plain attributes, at little cost, and know nothing of metrics; they are read at each scrape.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from app.access import KeyVerifier
from app.access.expiry_monitor import KeyExpiryMonitor
from app.calls import CallServices
from app.calls.approvals.kinds import KINDS
from app.calls.approvals.service import ApprovalService
from app.calls.log.entries import CallLog
from app.calls.log.strict import StrictCallLog
from app.catalog import Catalog
from app.catalog.feed import ChangeFeed
from app.core.telemetry import families as of
from app.core.telemetry.families import Sample
from app.core.telemetry.heartbeat import Heartbeat
from app.core.telemetry.metrics import Metrics
from app.outbound.http1.pool import ConnectionPool
from app.outbound.resilience import BreakerState, Origins
from app.outbound.tokens import TokenCache
from app.protocols.command_routing import CommandRouter
from app.protocols.command_routing.counts import OUTCOMES, REJECTIONS
from app.providers.registration.output_deviations import OutputDeviations
from app.search.vectors import SearchVectors
from app.server.admission import Admission
from app.server.connections import ConnectionTable
from app.services import Services
from app.storage.database import Database
from app.storage.database.group_commit import CommitQueue
from app.storage.redis import RedisClient


def start_collecting(
    services: Services, admission: Admission, connections: ConnectionTable
) -> Callable[[], None]:
    """Add the sources of all metrics and start the heartbeat; return the function that stops it."""
    metrics, keys = services.metrics, services.keys
    metrics.add_source(lambda: _list_caches(services.catalog, keys, services.tokens))
    metrics.add_source(lambda: _list_lookups(keys))
    metrics.add_source(lambda: _list_expiring(services.key_expiry))
    metrics.add_source(lambda: _list_records(services.call_log))
    metrics.add_source(lambda: _feed(services.feed))
    metrics.add_source(lambda: _list_vectors(services.vectors))
    metrics.add_source(lambda: _list_database(services.database))
    metrics.add_source(lambda: _list_redis(services.redis_client))
    metrics.add_source(lambda: _list_upstream_connections(services.engine.pool))
    metrics.add_source(lambda: _list_origins(services.origins, metrics))
    metrics.add_source(lambda: _list_calls(services.calls))
    metrics.add_source(lambda: _list_commands(services.commands))
    metrics.add_source(lambda: _list_approvals(services.approvals))
    metrics.add_source(lambda: _list_output_deviations(services.output_deviations))
    if services.tracer is not None:
        metrics.add_source(services.tracer.list_samples)
    metrics.add_source(lambda: _list_admission(admission))
    metrics.add_source(lambda: _list_connections(connections))
    heartbeat = Heartbeat(metrics)
    heartbeat.start()
    return heartbeat.aclose


def _list_admission(admission: Admission) -> Iterator[Sample]:
    yield of.ADMISSION_REJECTED, (), admission.rejected
    yield of.ADMISSION_PRESSURE, (), admission.pressure


def _list_connections(connections: ConnectionTable) -> Iterator[Sample]:
    idle = len(connections.idle) + len(connections.fresh)
    yield of.CLIENT_CONNECTIONS, ("idle",), idle
    yield of.CLIENT_CONNECTIONS, ("head",), len(connections.heads)
    yield of.CLIENT_CONNECTIONS, ("busy",), connections.open - idle - len(connections.heads)
    for reason, number in connections.rejected.items():
        yield of.HTTP_SERVER_REJECTED, (reason,), number


def _list_caches(catalog: Catalog, keys: KeyVerifier, tokens: TokenCache) -> Iterator[Sample]:
    yield of.PLAN_CACHE_ENTRIES, (), len(catalog)
    yield of.PLAN_HITS, (), catalog.hits
    yield of.PLAN_MISSES, (), catalog.misses
    yield of.KEY_CACHE_ENTRIES, (), len(keys)
    yield of.KEY_HITS, (), keys.hits
    yield of.KEY_MISSES, (), keys.misses
    yield of.TOKEN_CACHE_ENTRIES, (), len(tokens)
    yield of.TOKEN_HITS, (), tokens.hits
    yield of.TOKEN_MISSES, (), tokens.misses
    yield of.TOKEN_FETCHES, (), tokens.fetches
    yield of.TOKEN_FAILURES, (), tokens.failures


def _list_lookups(keys: KeyVerifier) -> Iterator[Sample]:
    lookups = keys.lookups
    yield of.KEY_IDS, (), keys.known_id_count
    for kind, number in lookups.requested.items():
        yield of.KEY_LOOKUPS, (kind,), number
    yield of.KEY_LOOKUPS, ("rejected_address",), keys.rejected
    yield of.KEY_LOOKUPS, ("rejected_queue",), lookups.rejected
    for kind, number in lookups.statements().items():
        yield of.KEY_STATEMENTS, (kind,), number
    for kind, number in lookups.waiting().items():
        yield of.KEY_WAITING, (kind,), number


def _list_expiring(monitor: KeyExpiryMonitor) -> Iterator[Sample]:
    yield of.KEYS_EXPIRING, (), monitor.expiring


def _list_records(calls: CallLog) -> Iterator[Sample]:
    yield of.RECORDS_WAITING, (), len(calls)
    yield of.RECORDS_DROPPED, (), calls.dropped
    if isinstance(calls, StrictCallLog):
        yield from _list_queue("record", calls.queue)


def _list_vectors(vectors: SearchVectors) -> Iterator[Sample]:
    status = vectors.status
    yield of.SEARCH_VECTORS_ENCODED, (), status.encoded
    yield of.SEARCH_VECTORS_TOTAL, (), status.total
    yield of.SEARCH_VECTORS_READY, (), int(vectors.is_ready)
    for outcome, number in vectors.counts.by_outcome.items():
        yield of.SEARCH_QUERY_VECTORS, (outcome,), number


def _feed(feed: ChangeFeed) -> Iterator[Sample]:
    yield of.FEED_POSITION, (), feed.position
    yield of.FEED_LAG, (), feed.lag_seconds()


def _list_database(database: Database) -> Iterator[Sample]:
    busy, idle = database.connection_counts()
    yield of.DATABASE_CONNECTIONS, ("busy",), busy
    yield of.DATABASE_CONNECTIONS, ("idle",), idle
    yield of.DATABASE_LIMIT, (), database.pool_size


def _list_redis(client: RedisClient) -> Iterator[Sample]:
    yield of.REDIS_UP, (), 0 if client.is_unavailable else 1
    yield of.REDIS_FAILURES, (), client.failures
    yield of.REDIS_POOL_TIMEOUTS, (), client.pool_timeouts


def _list_upstream_connections(pool: ConnectionPool) -> Iterator[Sample]:
    idle = pool.idle
    yield of.HTTP_CONNECTIONS, ("busy",), pool.open - idle
    yield of.HTTP_CONNECTIONS, ("idle",), idle
    yield of.HTTP_WAITING, (), pool.waiting


def _list_origins(origins: Origins, metrics: Metrics) -> Iterator[Sample]:
    """Yield the states of origins by provider: the text of an origin is chosen by whoever registers it.

    An origin that several providers share counts for each of them.
    """
    states: Counter[tuple[str, str]] = Counter()
    taken: Counter[str] = Counter()
    waited: Counter[str] = Counter()
    permits: Counter[str] = Counter()
    for origin in origins:
        bulkhead = origin.bulkhead
        for provider in {metrics.limit_provider_label(name) for name in origin.providers}:
            states.update({(provider, state): origin.breaker.state is state for state in BreakerState})
            taken[provider] += bulkhead.running
            waited[provider] += len(bulkhead.waiting)
            permits[provider] += bulkhead.max_running
    for labels, number in states.items():
        yield of.ORIGINS, labels, number
    for provider in permits:
        yield of.BULKHEAD_RUNNING, (provider,), taken[provider]
        yield of.BULKHEAD_WAITING, (provider,), waited[provider]
        yield of.BULKHEAD_LIMIT, (provider,), permits[provider]


def _list_commands(router: CommandRouter) -> Iterator[Sample]:
    transports: Counter[str] = Counter({"websocket": 0, "grpc": 0})
    running = waiting = 0
    for connection in router.connections():
        transports[connection.transport] += 1
        running += connection.running
        waiting += connection.waiting
    for transport, number in transports.items():
        yield of.EXECUTORS, (transport,), number
    yield of.COMMANDS_OPEN, ("running",), running
    yield of.COMMANDS_OPEN, ("waiting",), waiting
    for outcome in OUTCOMES:
        yield of.COMMANDS, (outcome,), router.counts.outcomes[outcome]
    yield of.COMMANDS_RELAYED, (), router.counts.relayed
    yield of.COMMANDS_UNREADABLE, (), router.counts.unreadable
    for reason in REJECTIONS:
        yield of.UBP_MESSAGES_REJECTED, (reason,), router.counts.rejected[reason]


def _list_approvals(approvals: ApprovalService) -> Iterator[Sample]:
    for labels, number in approvals.counts.items():
        yield of.APPROVALS, labels, number
    for kind in KINDS:
        yield of.APPROVALS_PENDING, (kind,), approvals.pending.get(kind, 0)


def _list_output_deviations(deviations: OutputDeviations) -> Iterator[Sample]:
    yield of.OUTPUT_DEVIATIONS, (), deviations.observed
    yield of.OUTPUT_SCHEMAS_WITHDRAWN, (), deviations.withdrawn


def _list_queue(name: str, queue: CommitQueue[Any, Any]) -> Iterator[Sample]:
    yield of.QUEUE_WAITING, (name,), queue.waiting
    yield of.QUEUE_REJECTED, (name,), queue.rejected


def _list_calls(calls: CallServices) -> Iterator[Sample]:
    rates, idempotency, responses = calls.rate_limiter, calls.idempotency, calls.response_cache
    yield of.RATE_LIMIT_CHECKS, ("admitted",), rates.admitted
    yield of.RATE_LIMIT_CHECKS, ("rejected",), rates.rejected
    yield of.RATE_LIMIT_FALLBACK, (), rates.without_redis
    yield of.IDEMPOTENT_CALLS, ("begun",), idempotency.begun
    yield of.IDEMPOTENT_CALLS, ("replayed",), idempotency.replayed
    yield of.IDEMPOTENT_CALLS, ("rejected",), idempotency.rejected
    yield of.IDEMPOTENT_CALLS, ("lost",), idempotency.lost
    table = idempotency.table
    for name, queue in (("begin", table.begins), ("read", table.reads), ("end", table.ends)):
        yield from _list_queue(f"idempotency-{name}", queue)
    for cache_status, number in responses.lookups.items():
        yield of.RESPONSE_CACHE_LOOKUPS, (cache_status,), number
    yield of.RESPONSE_CACHE_BYTES, (), responses.bytes
