"""The names, kinds, labels and descriptions of all metrics: the one list, explained in docs/operations.md.

Names follow Prometheus' conventions: a prefix, base units, `_total` for counters. A family with the label
`worker` has one series per process; all others are merged over the workers by `merge`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

PREFIX = "utcp_gateway_"
WORKER = "worker"
PROVIDER = "provider"
"""The label that names a provider: a key restricted to some providers is shown the series of these only."""
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets for durations of requests and calls."""
LAG_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""Upper bounds of the buckets for the lag of the event loop."""

Number = int | float
Value = Number | list[Number]
"""A number; for a histogram, the count of each bucket, the last one being unbounded, followed by the sum."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. `name` is the full one, without the `_total` of a counter."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    description: str
    labels: tuple[str, ...] = ()
    merge: Literal["sum", "max", "min"] = "sum"
    bounds: tuple[float, ...] = ()

    @property
    def is_retained(self) -> bool:
        """Whether the values of a worker are retained after it has ended."""
        return self.kind != "gauge" and WORKER not in self.labels


Sample = tuple[Family, tuple[str, ...], Value]
"""A family, its label values, and the value."""

_families: dict[str, Family] = {}


def list_families() -> Iterable[Family]:
    """Return all families, in the order of their declaration."""
    return _families.values()


def get_family(name: str) -> Family | None:
    """Return the family with this full name, or None."""
    return _families.get(name)


def declare_counter(name: str, text: str, *labels: str, prefix: str = PREFIX) -> Family:
    """Declare a counter; its series are exposed as `<name>_total`."""
    return _declare(Family(prefix + name, "counter", text, labels))


def declare_gauge(
    name: str,
    text: str,
    *labels: str,
    merge: Literal["sum", "max", "min"] = "sum",
    prefix: str = PREFIX,
) -> Family:
    """Declare a gauge; `merge` says how the values of several workers are combined."""
    return _declare(Family(prefix + name, "gauge", text, labels, merge))


def declare_histogram(name: str, text: str, *labels: str, bounds: tuple[float, ...] = SECONDS) -> Family:
    """Declare a histogram; its series are exposed as `<name>_bucket`, `_count` and `_sum`."""
    return _declare(Family(PREFIX + name, "histogram", text, labels, bounds=bounds))


def _declare(family: Family) -> Family:
    if family.name in _families:
        raise ValueError(f"The metric {family.name} is declared twice.")
    _families[family.name] = family
    return family


REQUESTS = declare_counter("requests", "Requests that were responded to", "route", "method", "status")
REQUEST_SECONDS = declare_histogram("request_duration_seconds", "Duration of a request", "route", "method")
CALLS = declare_counter("calls", "Tool calls that have ended", "provider", "outcome")
CALL_SECONDS = declare_histogram("call_duration_seconds", "Duration of a tool call", "provider")
UPSTREAM_SECONDS = declare_counter(
    "upstream_seconds", "Time for which calls waited for upstreams", "provider"
)
UPSTREAM_ATTEMPTS = declare_counter("upstream_attempts", "Requests sent to upstreams for calls", "provider")
CALLS_IN_FLIGHT = declare_gauge("calls_in_flight", "Tool calls in progress")
BUILD = declare_gauge(
    "build_info", "Version of the gateway and of Python; always 1", "version", "python", merge="max"
)
WORKERS = declare_gauge("workers", "Worker processes alive")
LOOP_LAG = declare_histogram(
    "event_loop_lag_seconds", "Lag of the event loop, measured ten times per second", bounds=LAG_SECONDS
)
SERIES_OVERFLOW = declare_counter(
    "series_overflow", "Observations counted as `other` because the limit of series was reached"
)

PLAN_CACHE_ENTRIES = declare_gauge("plan_cache_entries", "Compiled tools in the plan cache")
PLAN_HITS = declare_counter("plan_cache_hits", "Calls whose tool was in the plan cache")
PLAN_MISSES = declare_counter("plan_cache_misses", "Tools read from the database and compiled")
KEY_CACHE_ENTRIES = declare_gauge("key_cache_entries", "API keys in the cache")
KEY_HITS = declare_counter("key_cache_hits", "Requests whose key was in the cache")
KEY_MISSES = declare_counter("key_cache_misses", "Requests whose key was not in the cache")
KEYS_EXPIRING = declare_gauge(
    "api_keys_expiring", "Valid API keys that expire within KEY_EXPIRY_WARNING_DAYS", merge="max"
)
KEY_IDS = declare_gauge("key_ids", "Ids of API keys that are looked up first", merge="max")
KEY_LOOKUPS = declare_counter(
    "key_lookups", "API keys looked up in the database, or rejected without a look-up", "kind"
)
KEY_STATEMENTS = declare_counter(
    "key_lookup_statements", "Statements for these look-ups, each for many keys", "kind"
)
KEY_WAITING = declare_gauge("key_lookups_waiting", "API keys that wait for a look-up", "kind")
TOKEN_CACHE_ENTRIES = declare_gauge("token_cache_entries", "OAuth2 tokens in the cache of the process")
TOKEN_HITS = declare_counter("token_cache_hits", "Tokens that were in the cache of the process")
TOKEN_MISSES = declare_counter(
    "token_cache_misses", "Tokens that were not, and came from Redis or a token endpoint"
)
TOKEN_FETCHES = declare_counter("token_fetches", "Requests to token endpoints")
TOKEN_FAILURES = declare_counter("token_failures", "Requests to token endpoints that returned no token")
RECORDS_WAITING = declare_gauge("call_records_waiting", "Call records not yet stored")
RECORDS_DROPPED = declare_counter("call_records_dropped", "Call records that could not be stored")
FEED_POSITION = declare_gauge(
    "feed_position", "Number of the last change that every worker has read", merge="min"
)
FEED_LAG = declare_gauge(
    "feed_lag_seconds", "Time since the changes were last read; the longest of all workers", merge="max"
)
SEARCH_VECTORS_ENCODED = declare_gauge(
    "search_vectors_encoded", "Tools with vectors for search by meaning in every worker", merge="min"
)
SEARCH_VECTORS_TOTAL = declare_gauge(
    "search_vectors_tools", "Tools whose texts are to be encoded", merge="max"
)
SEARCH_VECTORS_READY = declare_gauge(
    "search_vectors_ready", "1 while every worker ranks by meaning, 0 while one does not", merge="min"
)
SEARCH_QUERY_VECTORS = declare_counter("search_query_vectors", "Queries of searches by meaning", "outcome")
DATABASE_CONNECTIONS = declare_gauge("database_connections", "Connections to PostgreSQL", "state")
DATABASE_LIMIT = declare_gauge("database_connections_limit", "Maximum number of connections to PostgreSQL")
REDIS_UP = declare_gauge("redis_up", "1 while every worker uses Redis, 0 while one does not", merge="min")
REDIS_FAILURES = declare_counter("redis_failures", "Redis commands that failed")
REDIS_POOL_TIMEOUTS = declare_counter(
    "redis_pool_timeouts", "Redis commands not sent, because all connections were in use"
)
HTTP_CONNECTIONS = declare_gauge("http_connections", "Connections to upstreams", "state")
HTTP_WAITING = declare_gauge("http_connections_waiting", "Requests that wait for a connection")
ORIGINS = declare_gauge(
    "origins", "Origins of a provider, by the state of their breaker", "provider", "state"
)
BULKHEAD_RUNNING = declare_gauge("bulkhead_running", "Calls that hold a permit of an origin", "provider")
BULKHEAD_WAITING = declare_gauge("bulkhead_waiting", "Calls that wait for a permit of an origin", "provider")
BULKHEAD_LIMIT = declare_gauge("bulkhead_limit", "Permits of a provider's origins", "provider")
RATE_LIMIT_CHECKS = declare_counter("rate_limit_checks", "Calls checked against a rate limit", "outcome")
RATE_LIMIT_FALLBACK = declare_counter(
    "rate_limit_fallback", "Calls checked by a worker alone, against its share of the limit, without Redis"
)
QUEUE_WAITING = declare_gauge(
    "commit_queue_waiting", "Calls that wait for a group commit of PostgreSQL, by what they commit", "queue"
)
QUEUE_REJECTED = declare_counter(
    "commit_queue_rejected", "Calls rejected because too many wait for a group commit", "queue"
)
IDEMPOTENT_CALLS = declare_counter("idempotency", "Calls with an Idempotency-Key, by outcome", "outcome")
EXECUTORS = declare_gauge("executors", "Connections of executors", "transport")
COMMANDS_OPEN = declare_gauge(
    "commands_open", "Commands that connected executors execute, or that wait for them", "state"
)
COMMANDS = declare_counter("commands", "Commands for executors that have ended, by outcome", "outcome")
COMMANDS_RELAYED = declare_counter(
    "commands_relayed", "Commands that were sent to an executor of another worker"
)
COMMANDS_UNREADABLE = declare_counter(
    "command_entries_unreadable", "Messages between workers about commands that could not be read"
)
UBP_MESSAGES_REJECTED = declare_counter(
    "ubp_messages_rejected", "Messages of agents and executors that were rejected or ignored", "reason"
)
APPROVALS = declare_counter(
    "approvals", "Approvals by kind and the state that they have come into", "kind", "state"
)
APPROVALS_PENDING = declare_gauge(
    "approvals_pending", "Approvals that wait for a decision", "kind", merge="max"
)
OUTPUT_DEVIATIONS = declare_counter(
    "output_schema_deviations", "Results of MCP that deviated from the published output schema of their tool"
)
OUTPUT_SCHEMAS_WITHDRAWN = declare_counter(
    "output_schemas_withdrawn", "Published output schemas that were withdrawn because of deviations"
)
RESPONSE_CACHE_LOOKUPS = declare_counter(
    "response_cache", "Cacheable calls, by the outcome of the cache look-up", "outcome"
)
RESPONSE_CACHE_BYTES = declare_gauge("response_cache_bytes", "Memory of the cached responses")
ADMISSION_REJECTED = declare_counter(
    "admission_rejected", "Calls rejected at once, because the worker was overloaded"
)
ADMISSION_PRESSURE = declare_gauge(
    "admission_pressure", "Share of new calls that the most loaded worker rejects", merge="max"
)
CLIENT_CONNECTIONS = declare_gauge("client_connections", "Connections of clients", "state")
HTTP_SERVER_REJECTED = declare_counter(
    "http_server_rejected",
    "Requests and connections that the HTTP server itself rejected or closed",
    "reason",
)
SPANS = declare_counter("spans", "Spans of traces: ended, exported, or failed to be exported", "outcome")

CPU = declare_counter("process_cpu_seconds", "User and system CPU time spent in seconds", WORKER, prefix="")
RESIDENT = declare_gauge("process_resident_memory_bytes", "Resident memory size in bytes", WORKER, prefix="")
VIRTUAL = declare_gauge("process_virtual_memory_bytes", "Virtual memory size in bytes", WORKER, prefix="")
OPEN_FDS = declare_gauge("process_open_fds", "Number of open file descriptors", WORKER, prefix="")
MAX_FDS = declare_gauge("process_max_fds", "Maximum number of open file descriptors", WORKER, prefix="")
START_TIME = declare_gauge(
    "process_start_time_seconds", "Start time of the process in seconds since the epoch", WORKER, prefix=""
)
