"""The names, kinds, labels and texts of all metrics: the one list, which docs/operations.md explains.

Names follow Prometheus' conventions: a prefix, base units, `_total` for counters. A family with the label
`worker` has one series per process; all others are put together over the workers, as `merge` says.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

PREFIX = "utcp_gateway_"
WORKER = "worker"
PROVIDER = "provider"
"""The label that names a provider: a key with limits is shown those of its own only."""
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets of requests and calls."""
LAG_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""The same of the event loop's lateness."""

Number = int | float
Value = Number | list[Number]
"""A number, or of a histogram the count in each bucket, the last one open, and then the sum."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. `name` is the full one, without the `_total` of a counter."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str
    labels: tuple[str, ...] = ()
    merge: Literal["sum", "max", "min"] = "sum"
    bounds: tuple[float, ...] = ()

    @property
    def outlives(self) -> bool:
        """Whether what a worker counted stays counted when the worker has ended."""
        return self.kind != "gauge" and WORKER not in self.labels


Sample = tuple[Family, tuple[str, ...], Value]
"""A family, the values of its labels, and the value."""

_families: dict[str, Family] = {}


def families() -> Iterable[Family]:
    """Return all of them, in the order in which they were declared."""
    return _families.values()


def family(name: str) -> Family | None:
    """Return the family of this name."""
    return _families.get(name)


def counter(name: str, text: str, *labels: str, prefix: str = PREFIX) -> Family:
    """Declare a counter; its series show as `<name>_total`."""
    return _declare(Family(prefix + name, "counter", text, labels))


def gauge(
    name: str,
    text: str,
    *labels: str,
    merge: Literal["sum", "max", "min"] = "sum",
    prefix: str = PREFIX,
) -> Family:
    """Declare a gauge."""
    return _declare(Family(prefix + name, "gauge", text, labels, merge))


def histogram(name: str, text: str, *labels: str, bounds: tuple[float, ...] = SECONDS) -> Family:
    """Declare a histogram; its series show as `<name>_bucket`, `_count` and `_sum`."""
    return _declare(Family(PREFIX + name, "histogram", text, labels, bounds=bounds))


def _declare(made: Family) -> Family:
    if made.name in _families:
        raise ValueError(f"The metric {made.name} is declared twice.")
    _families[made.name] = made
    return made


REQUESTS = counter("requests", "Requests answered", "route", "method", "status")
REQUEST_SECONDS = histogram("request_duration_seconds", "Time to answer a request", "route", "method")
CALLS = counter("calls", "Calls of tools that have ended", "provider", "outcome")
CALL_SECONDS = histogram("call_duration_seconds", "Time of a call of a tool", "provider")
UPSTREAM_SECONDS = counter("upstream_seconds", "Time in which calls waited for upstreams", "provider")
UPSTREAM_ATTEMPTS = counter("upstream_attempts", "Requests sent to upstreams for calls", "provider")
CALLS_IN_FLIGHT = gauge("calls_in_flight", "Calls of tools under way")
BUILD = gauge(
    "build_info", "Version of the gateway and of Python; always 1", "version", "python", merge="max"
)
WORKERS = gauge("workers", "Worker processes alive")
LOOP_LAG = histogram(
    "event_loop_lag_seconds", "How late the event loop was, asked ten times a second", bounds=LAG_SECONDS
)
SERIES_REFUSED = counter("series_refused", "Observations put under `other` because the bound was reached")

PLANS = gauge("plans", "Compiled tools in the plan cache")
PLAN_HITS = counter("plan_cache_hits", "Calls whose tool was compiled already")
PLAN_MISSES = counter("plan_cache_misses", "Tools read from the database and compiled")
KEYS = gauge("keys_remembered", "API keys in the cache")
KEY_HITS = counter("key_cache_hits", "Requests whose key was remembered")
KEY_MISSES = counter("key_cache_misses", "Requests whose key was looked up, or was none")
KEY_IDS = gauge("key_ids", "Ids of API keys that go first in look-ups", merge="max")
KEY_LOOKUPS = counter("key_lookups", "API keys looked up in the database, or rejected before", "kind")
KEY_STATEMENTS = counter("key_lookup_statements", "Statements of these look-ups, each of many keys", "kind")
KEY_WAITING = gauge("key_lookups_waiting", "API keys that wait to be looked up", "kind")
TOKENS = gauge("tokens", "OAuth2 tokens in the cache of the process")
TOKEN_HITS = counter("token_cache_hits", "Tokens that were in the cache of the process")
TOKEN_MISSES = counter("token_cache_misses", "Tokens that were not, and came from Redis or were fetched")
TOKEN_FETCHES = counter("token_fetches", "Requests to token endpoints")
TOKEN_FAILURES = counter("token_failures", "Requests to token endpoints that gave no token")
RECORDS_WAITING = gauge("call_records_waiting", "Call records not yet stored")
RECORDS_LOST = counter("call_records_lost", "Call records that could not be kept")
FEED_POSITION = gauge("feed_position", "Number of the last change that every worker knows", merge="min")
FEED_BEHIND = gauge(
    "feed_behind_seconds", "Time since a worker has last read the changes; the longest", merge="max"
)
DATABASE_CONNECTIONS = gauge("database_connections", "Connections to PostgreSQL", "state")
DATABASE_LIMIT = gauge("database_connections_limit", "Connections to PostgreSQL that there may be")
REDIS_UP = gauge("redis_up", "1 while every worker uses Redis, 0 while one leaves it alone", merge="min")
REDIS_FAILURES = counter("redis_failures", "Commands that Redis did not answer")
REDIS_BUSY = counter("redis_busy", "Commands not sent, because all connections to Redis were in use")
HTTP_CONNECTIONS = gauge("http_connections", "Connections to upstreams", "state")
HTTP_WAITING = gauge("http_connections_waiting", "Requests that wait for a connection")
ORIGINS = gauge("origins", "Origins of a provider, by the state of their breaker", "provider", "state")
PLACES_TAKEN = gauge("bulkhead_running", "Calls that hold a place at an origin", "provider")
PLACES_WAITED = gauge("bulkhead_waiting", "Calls that wait for a place at an origin", "provider")
PLACES = gauge("bulkhead_limit", "Places at the origins of a provider", "provider")
RATE_CHECKS = counter("rate_limit_checks", "Calls judged by a rate limit", "outcome")
RATE_ALONE = counter("rate_limit_alone", "Calls judged by a worker alone, at its share, without Redis")
QUEUE_WAITING = gauge(
    "commit_queue_waiting", "Calls that wait for a group commit of PostgreSQL, by what they commit", "queue"
)
QUEUE_REJECTED = counter(
    "commit_queue_rejected", "Calls rejected because too many wait for a group commit", "queue"
)
KEPT_OUTCOMES = counter("idempotency", "Calls with an Idempotency-Key, by what became of them", "outcome")
ANSWERS = counter("response_cache", "Calls that might be answered from memory, by how they were", "outcome")
ANSWERS_BYTES = gauge("response_cache_bytes", "Memory of the answers that are kept")
SHED = counter("admission_refused", "Calls refused at once, because the worker was overloaded")
PRESSURE = gauge("admission_pressure", "Share of new calls that the most loaded worker refuses", merge="max")
CLIENT_CONNECTIONS = gauge("client_connections", "Connections of clients", "state")
EDGE_REJECTED = counter(
    "edge_rejected", "Requests and connections that the HTTP server rejected or ended by itself", "reason"
)
SPANS = counter("spans", "Spans of traces, by whether the collector took them", "outcome")

CPU = counter("process_cpu_seconds", "User and system CPU time spent in seconds", WORKER, prefix="")
RESIDENT = gauge("process_resident_memory_bytes", "Resident memory size in bytes", WORKER, prefix="")
VIRTUAL = gauge("process_virtual_memory_bytes", "Virtual memory size in bytes", WORKER, prefix="")
OPEN_FDS = gauge("process_open_fds", "Number of open file descriptors", WORKER, prefix="")
MAX_FDS = gauge("process_max_fds", "Maximum number of open file descriptors", WORKER, prefix="")
STARTED = gauge(
    "process_start_time_seconds", "Start time of the process in seconds since the epoch", WORKER, prefix=""
)
