"""Prometheus figures: rate, errors and duration of requests and of calls, and a few gauges.

Label values are route templates, methods, statuses, provider names and slugs of errors; nothing else that a
caller chooses becomes a label, and the number of providers that get series of their own is bounded.

With several workers the environment variable PROMETHEUS_MULTIPROC_DIR must name an empty folder before this
module is imported, since prometheus-client picks its storage at import; each worker then writes files
there, and `render()` in any of them gives the sums.
"""

import os
from collections.abc import Iterable

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_MOST_PROVIDERS = 1_000
_MOST_SERIES = 20_000
OTHER = "other"


class Metrics:
    """All figures of a worker. Every method is synchronous and takes about 2 us."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._requests = self._counter("requests", "Requests answered", ("route", "method", "status"))
        self._request_seconds = self._histogram("request_seconds", "Time to answer", ("route", "method"))
        self._calls = self._counter("calls", "Calls of tools", ("provider", "outcome"))
        self._call_seconds = self._histogram("call_seconds", "Time of a call of a tool", ("provider",))
        self._lost = self._counter("call_records_lost", "Call records that could not be kept")
        self.calls_in_flight = self._gauge("calls_in_flight", "Calls of tools under way")
        self.call_records_waiting = self._gauge("call_records_waiting", "Call records not yet stored")
        self.keys_remembered = self._gauge("keys_remembered", "API keys in the cache")
        self._request_series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._call_series: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self._providers: set[str] = set()

    def observe_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Counts and times one request; `route` is the template (`/tools/{name}`), never the path."""
        series = self._request_series.get((route, method, status))
        if series is None:
            series = self._new_request_series(route, method, status)
        series[0].inc()
        series[1].observe(seconds)

    def observe_call(self, provider: str, outcome: str, seconds: float) -> None:
        """Counts and times one call; `provider` is a stored name, `outcome` is `ok` or an error's slug."""
        series = self._call_series.get((provider, outcome))
        if series is None:
            series = self._new_call_series(provider, outcome)
        series[0].inc()
        series[1].observe(seconds)

    def call_records_lost(self, number: int) -> None:
        """Counts call records that were dropped."""
        self._lost.inc(number)

    def render(self) -> tuple[bytes, str]:
        """The text format and its media type; many series take milliseconds, so call it in a thread."""
        registry = self._registry
        if os.environ.get(_FOLDER):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry), CONTENT_TYPE_LATEST

    def _new_request_series(self, route: str, method: str, status: int) -> tuple[Counter, Histogram]:
        known = method if method in _METHODS else OTHER
        series = (
            self._requests.labels(route, known, str(status)),
            self._request_seconds.labels(route, known),
        )
        # An unknown method is not remembered: there is no end of them.
        if known == method and len(self._request_series) < _MOST_SERIES:
            self._request_series[route, method, status] = series
        return series

    def _new_call_series(self, provider: str, outcome: str) -> tuple[Counter, Histogram]:
        known = provider
        if provider not in self._providers:
            if len(self._providers) < _MOST_PROVIDERS:
                self._providers.add(provider)
            else:
                known = OTHER
        series = (self._calls.labels(known, outcome), self._call_seconds.labels(known))
        if len(self._call_series) < _MOST_SERIES:
            self._call_series[provider, outcome] = series
        return series

    def _counter(self, name: str, text: str, labels: Iterable[str] = ()) -> Counter:
        return Counter(name, text, tuple(labels), namespace="utcp_gateway", registry=self._registry)

    def _histogram(self, name: str, text: str, labels: Iterable[str]) -> Histogram:
        return Histogram(
            name, text, tuple(labels), namespace="utcp_gateway", registry=self._registry, buckets=_SECONDS
        )

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(
            name, text, namespace="utcp_gateway", registry=self._registry, multiprocess_mode="livesum"
        )


def forget_process(pid: int) -> None:
    """Drops the gauges of a worker that has ended; the parent of the workers calls it."""
    if os.environ.get(_FOLDER):
        mark_process_dead(pid)  # type: ignore[no-untyped-call]
