"""Rendering of samples in Prometheus' text format, by prometheus-client."""

from collections.abc import Iterable
from itertools import accumulate

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from app.core.telemetry.families import Family, Number, Sample, list_families

MEDIA_TYPE = CONTENT_TYPE_LATEST


def expose(samples: Iterable[Sample]) -> bytes:
    """Return the text format of all families; those without samples have only their name, kind and help."""
    return generate_latest(_SampleCollector(samples))


class _SampleCollector(Collector):
    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterable[Metric]:
        """Return the metrics; see prometheus_client.registry.Collector."""
        shown = {known.name: _build_metric(known) for known in list_families()}
        for known, labels, value in self._samples:
            metric = shown[known.name]
            if isinstance(metric, HistogramMetricFamily) and isinstance(value, list):
                metric.add_metric(labels, buckets=_sum_buckets(known.bounds, value[:-1]), sum_value=value[-1])
            elif isinstance(metric, CounterMetricFamily | GaugeMetricFamily) and not isinstance(value, list):
                metric.add_metric(labels, value)
        return shown.values()


def _build_metric(known: Family) -> CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily:
    kinds = {
        "counter": CounterMetricFamily,
        "gauge": GaugeMetricFamily,
        "histogram": HistogramMetricFamily,
    }
    metric: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
    metric = kinds[known.kind](known.name, known.description, labels=known.labels)
    return metric


def _sum_buckets(bounds: tuple[float, ...], counts: list[Number]) -> list[tuple[str, float]]:
    names = [str(floatToGoString(bound)) for bound in (*bounds, float("inf"))]  # type: ignore[no-untyped-call]
    return [(name, float(below)) for name, below in zip(names, accumulate(counts), strict=True)]
