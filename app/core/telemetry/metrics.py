"""Prometheus metrics: rate, errors and duration of requests and calls, and the counters of the packages.

Label values are route templates, methods, statuses, provider names and slugs of errors; nothing else that a
client chooses becomes a label, and the number of providers with series of their own is bounded.

Observations of calls are counted in plain lists: 0.4 us for one with its bucket, compared to 1 to 2 us with
prometheus-client. Everything else is counted by the packages as plain attributes, which are read when metrics
are rendered (`add_source`). With several workers, the environment variable PROMETHEUS_MULTIPROC_DIR names an
empty folder in which each publishes its metrics (`worker_metrics.py`).
"""

import asyncio
import os
import platform
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

import structlog
from prometheus_client import ProcessCollector

from app.core.telemetry import families
from app.core.telemetry.exposition import MEDIA_TYPE, expose
from app.core.telemetry.families import SECONDS, Number, Sample
from app.core.telemetry.worker_metrics import FOLDER_VARIABLE, MergedSamples, MetricsFolder, Published

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_MAX_PROVIDERS = 1_000
_MAX_SERIES = 20_000
_PROCESS_SECONDS = 2.0
OTHER = "other"
_PROCESS_METRICS = {
    "process_cpu_seconds": families.CPU,
    "process_resident_memory_bytes": families.RESIDENT,
    "process_virtual_memory_bytes": families.VIRTUAL,
    "process_open_fds": families.OPEN_FDS,
    "process_max_fds": families.MAX_FDS,
    "process_start_time_seconds": families.START_TIME,
}
_process_collector = ProcessCollector(registry=None)
Source = Callable[[], Iterable[Sample]]

_log = structlog.get_logger(__name__)


class _Series:
    """The counts of one series by duration; `observe_*` update it in place."""

    __slots__ = ("attempts", "buckets", "seconds", "upstream")

    def __init__(self) -> None:
        self.buckets = [0] * (len(SECONDS) + 1)
        self.seconds = 0.0
        self.upstream = 0.0
        self.attempts = 0


class Metrics:
    """All metrics of a worker; not thread-safe. Instances share nothing.

    From `start` to `aclose`, `publish` writes them to the shared folder, if there is one.
    """

    def __init__(self) -> None:
        self.calls_in_flight = 0
        self.lag = [0] * (len(families.LAG_SECONDS) + 1)
        self.lag_seconds = 0.0
        self._requests: dict[tuple[str, str, int], _Series] = {}
        self._calls: dict[tuple[str, str], _Series] = {}
        self._providers: set[str] = set()
        self._overflowed = 0
        self._sources: list[Source] = []
        self._folder: MetricsFolder | None = None
        self._process: list[tuple[families.Family, Number]] = []
        self._process_read = 0.0

    def observe_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one request with its duration; `route` is the template (`/tools/{name}`), never the path."""
        series = self._requests.get((route, method, status))
        if series is None:
            series = self._add_request_series(route, method, status)
        series.buckets[bisect_left(SECONDS, seconds)] += 1
        series.seconds += seconds

    def observe_call(
        self, provider: str, outcome: str, seconds: float, upstream: float = 0.0, attempts: int = 0
    ) -> None:
        """Count one call with its duration; `provider` is a stored name, `outcome` is `ok` or an error's
        slug.

        `upstream` is the part of `seconds` spent waiting for the upstream, `attempts` the number of requests
        to it.
        """
        series = self._calls.get((provider, outcome))
        if series is None:
            series = self._add_call_series(provider, outcome)
        series.buckets[bisect_left(SECONDS, seconds)] += 1
        series.seconds += seconds
        series.upstream += upstream
        series.attempts += attempts

    def observe_lag(self, seconds: float) -> None:
        """Count a measured lag of the event loop."""
        self.lag[bisect_left(families.LAG_SECONDS, seconds)] += 1
        self.lag_seconds += seconds

    def limit_provider_label(self, provider: str) -> str:
        """Return the label value of a provider: its name, or `other` beyond the first thousand providers."""
        if provider in self._providers:
            return provider
        if len(self._providers) >= _MAX_PROVIDERS:
            self._overflowed += 1
            return OTHER
        self._providers.add(provider)
        return provider

    def add_source(self, read: Source) -> None:
        """Add a source: a function that returns samples, and is called whenever metrics are published or
        rendered.
        """
        self._sources.append(read)

    def start(self) -> None:
        """Acquire this worker's slot in the shared folder, if PROMETHEUS_MULTIPROC_DIR names one."""
        folder = os.environ.get(FOLDER_VARIABLE)
        self._folder = MetricsFolder(Path(folder)) if folder else None
        self.publish()

    def aclose(self) -> None:
        """Publish the last values and release the slot; counters are retained in the folder."""
        if self._folder is not None:
            self.publish()
            self._folder.close()
            self._folder = None

    def publish(self) -> None:
        """Write the current values to the shared folder, where the other workers read them."""
        if self._folder is not None:
            self._folder.publish(self._take_snapshot())

    async def render(self, providers: Collection[str] | None = None) -> tuple[bytes, str]:
        """Return the text format and its media type. Counters never decrease, whichever worker renders them.

        Where `providers` is not None, series with the label `provider` are included for these only.
        """
        snapshot = self._take_snapshot()
        folder = self._folder
        if folder is not None:
            # Published before it is rendered: the worker that renders next must not have lower values.
            folder.publish(snapshot)
        return await asyncio.to_thread(_render, snapshot, folder, providers), MEDIA_TYPE

    @property
    def worker(self) -> str:
        """The label value `worker` of this process: its slot number, which a later worker reuses."""
        return self._folder.slot if self._folder is not None else "0"

    def _take_snapshot(self) -> Published:
        return [(family.name, labels, value) for family, labels, value in self._list_samples()]

    def _list_samples(self) -> Iterator[Sample]:
        yield from self._list_request_samples()
        yield from self._list_call_samples()
        yield families.CALLS_IN_FLIGHT, (), self.calls_in_flight
        yield families.SERIES_OVERFLOW, (), self._overflowed
        yield families.WORKERS, (), 1
        yield families.BUILD, (version("utcp-gateway"), platform.python_version()), 1
        yield families.LOOP_LAG, (), [*self.lag, self.lag_seconds]
        yield from self._list_process_samples()
        for read in self._sources:
            try:
                yield from read()
            except Exception:  # noqa: BLE001 - an error in one source must not hide the metrics of the others.
                _log.exception("a source of metrics raised an error")

    def _list_request_samples(self) -> Iterator[Sample]:
        times: dict[tuple[str, ...], list[Number]] = {}
        for (route, method, status), series in self._requests.items():
            yield families.REQUESTS, (route, method, str(status)), sum(series.buckets)
            _add(times, (route, method), series)
        for labels, value in times.items():
            yield families.REQUEST_SECONDS, labels, value

    def _list_call_samples(self) -> Iterator[Sample]:
        times: dict[tuple[str, ...], list[Number]] = {}
        waited: dict[str, float] = {}
        attempts: dict[str, int] = {}
        for (provider, outcome), series in self._calls.items():
            yield families.CALLS, (provider, outcome), sum(series.buckets)
            _add(times, (provider,), series)
            waited[provider] = waited.get(provider, 0.0) + series.upstream
            attempts[provider] = attempts.get(provider, 0) + series.attempts
        for labels, value in times.items():
            yield families.CALL_SECONDS, labels, value
        for provider, seconds in waited.items():
            yield families.UPSTREAM_SECONDS, (provider,), seconds
            yield families.UPSTREAM_ATTEMPTS, (provider,), attempts[provider]

    def _list_process_samples(self) -> Iterator[Sample]:
        # Counting thousands of open files takes a millisecond: done at most every two seconds.
        now = time.monotonic()
        if not self._process or now - self._process_read > _PROCESS_SECONDS:
            self._process, self._process_read = _read_process(), now
        for family, value in self._process:
            yield family, (self.worker,), value

    def _add_request_series(self, route: str, method: str, status: int) -> _Series:
        if method not in _METHODS:
            # Methods are chosen by clients, and unbounded.
            return self._requests.setdefault((route, OTHER, status), _Series())
        if len(self._requests) >= _MAX_SERIES:
            self._overflowed += 1
            return self._requests.setdefault((OTHER, method, status), _Series())
        return self._requests.setdefault((route, method, status), _Series())

    def _add_call_series(self, provider: str, outcome: str) -> _Series:
        known = self.limit_provider_label(provider)
        if len(self._calls) >= _MAX_SERIES:
            self._overflowed += 1
            known = OTHER
        return self._calls.setdefault((known, outcome), _Series())


def _add(times: dict[tuple[str, ...], list[Number]], labels: tuple[str, ...], series: _Series) -> None:
    """Add the buckets and the sum of `series` to those of `labels`."""
    added = [*series.buckets, series.seconds]
    before = times.get(labels)
    times[labels] = added if before is None else [a + b for a, b in zip(before, added, strict=True)]


def _render(snapshot: Published, folder: MetricsFolder | None, providers: Collection[str] | None) -> bytes:
    """Render the metrics of all workers of the folder, or of this one; of all or of some providers."""
    if folder is None:
        merged = MergedSamples()
        merged.add(snapshot)
    else:
        merged = folder.gather()
    samples = merged.list_samples()
    return expose(samples if providers is None else _select_providers(samples, providers))


def _select_providers(samples: Iterable[Sample], providers: Collection[str]) -> Iterator[Sample]:
    for family, labels, value in samples:
        named = dict(zip(family.labels, labels, strict=False)).get(families.PROVIDER)
        if named is None or named in providers:
            yield family, labels, value


def _read_process() -> list[tuple[families.Family, Number]]:
    """Return CPU time, memory and open files of this process; an empty list where there is no /proc."""
    return [
        (_PROCESS_METRICS[metric.name], metric.samples[0].value)
        for metric in _process_collector.collect()
        if metric.name in _PROCESS_METRICS
    ]
