"""The figures that `/metrics` shows."""

import os
import subprocess
import sys

from app.telemetry.metrics import Metrics


def _text(metrics: Metrics) -> str:
    return metrics.render()[0].decode()


def test_requests_are_counted_by_route_method_and_status():
    metrics = Metrics()
    metrics.observe_request("/tools/{name}", "GET", 200, 0.002)
    metrics.observe_request("/tools/{name}", "GET", 200, 0.002)
    metrics.observe_request("/tools/{name}", "GET", 404, 0.002)
    text = _text(metrics)
    assert 'utcp_gateway_requests_total{method="GET",route="/tools/{name}",status="200"} 2.0' in text
    assert 'utcp_gateway_requests_total{method="GET",route="/tools/{name}",status="404"} 1.0' in text
    assert 'utcp_gateway_request_seconds_count{method="GET",route="/tools/{name}"} 3.0' in text
    assert 'le="0.0025",method="GET",route="/tools/{name}"} 3.0' in text


def test_methods_that_callers_invent_share_one_label():
    metrics = Metrics()
    for number in range(50):
        metrics.observe_request("(none)", f"METHOD{number}", 405, 0.001)
    text = _text(metrics)
    assert "METHOD" not in text
    assert 'method="other",route="(none)",status="405"} 50.0' in text
    assert not metrics._request_series


def test_calls_are_counted_by_provider_and_outcome():
    metrics = Metrics()
    metrics.observe_call("library", "ok", 0.2)
    metrics.observe_call("library", "upstream-timeout", 30)
    text = _text(metrics)
    assert 'utcp_gateway_calls_total{outcome="ok",provider="library"} 1.0' in text
    assert 'utcp_gateway_calls_total{outcome="upstream-timeout",provider="library"} 1.0' in text
    assert 'utcp_gateway_call_seconds_count{provider="library"} 2.0' in text


def test_beyond_a_thousand_providers_share_one_series():
    metrics = Metrics()
    for number in range(1_200):
        metrics.observe_call(f"provider{number}", "ok", 0.01)
    text = _text(metrics)
    assert 'calls_total{outcome="ok",provider="provider999"} 1.0' in text
    assert 'calls_total{outcome="ok",provider="other"} 200.0' in text
    assert "provider1000" not in text


def test_two_gateways_in_one_process_do_not_share_figures():
    first, second = Metrics(), Metrics()
    first.observe_call("library", "ok", 0.01)
    assert "library" not in _text(second)


def test_lost_records_and_gauges_are_shown():
    metrics = Metrics()
    metrics.call_records_lost(3)
    metrics.calls_in_flight.inc()
    text = _text(metrics)
    assert "utcp_gateway_call_records_lost_total 3.0" in text
    assert "utcp_gateway_calls_in_flight 1.0" in text


_WORKER = """
import sys
from app.telemetry.metrics import Metrics
metrics = Metrics()
metrics.observe_call("library", "ok", 0.01)
metrics.calls_in_flight.inc()
if sys.argv[1] == "show":
    sys.stdout.write(metrics.render()[0].decode())
"""


def test_one_worker_shows_the_figures_of_all(tmp_path):
    env = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", _WORKER, "work"], env=env, check=True)
    shown = subprocess.run([sys.executable, "-c", _WORKER, "show"], env=env, check=True, capture_output=True)
    assert 'utcp_gateway_calls_total{outcome="ok",provider="library"} 2.0' in shown.stdout.decode()
