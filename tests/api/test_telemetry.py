"""Metrics, traces and log lines of a running gateway of two workers, and no secret in any."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.test_canaries import Collected, plant, spellings, visit_everything
from tests.harness.collector import Collector, collector
from tests.harness.gateway import RunningGateway, run_command, serve
from tests.harness.servers import Pair
from tests.harness.upstream import Upstream, upstream

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture(scope="module")
def site() -> Iterator[Upstream]:
    with upstream() as running:
        yield running


@pytest.fixture(scope="module")
def traces() -> Iterator[Collector]:
    with collector() as running:
        yield running


@pytest.fixture(scope="module")
def gateway(
    servers: Pair, traces: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGateway]:
    """Two workers that trace every call."""
    with serve(
        servers,
        tmp_path_factory.mktemp("operation"),
        workers=2,
        LOG_LEVEL="debug",
        OTEL_EXPORTER_OTLP_ENDPOINT=traces.url,
        OTEL_EXPORTER_OTLP_HEADERS="x-collector-key=canary-of-the-collector",
        OTEL_BSP_SCHEDULE_DELAY="200",
    ) as running:
        yield running


@pytest.fixture(scope="module")
def planted(gateway: RunningGateway, site: Upstream) -> dict[str, str]:
    """Providers with a canary in every secret field, all of whose tools were called."""
    seen = Collected()
    with gateway.client() as client:
        secrets = plant(client, seen, site)
        visit_everything(client, seen)
    return secrets | {"admin-key": gateway.key, "collector": "canary-of-the-collector"}


def figures(gateway: RunningGateway) -> dict[str, float]:
    """The series of /metrics and their values."""
    with gateway.client() as client:
        text = client.get("/metrics").text
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def test_no_secret_stands_in_what_the_collector_gets(
    planted: dict[str, str], traces: Collector, site: Upstream
) -> None:
    wanted = {"POST /tools/{name}/call", "credentials", "fetch token", "POST"}
    deadline = time.monotonic() + 20
    while not wanted <= (names := {span.name for span in traces.spans()}) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert wanted <= names
    sent = b"\n".join(traces.bodies)
    # In the clear, so that the search is not one of compressed bytes.
    assert b"utcp.tool" in sent
    found = [
        f"{name} ({spelling})"
        for name, value in planted.items()
        for spelling, needle in spellings(value).items()
        if needle in sent
    ]
    assert found == []
    for word in (b"url.full", b"url.path", b"url.query", site.url.encode()):
        assert word not in sent
    assert traces.headers[0]["x-collector-key"] == "canary-of-the-collector"


def test_no_secret_is_in_the_log_or_in_the_metrics(planted: dict[str, str], gateway: RunningGateway) -> None:
    with gateway.client() as client:
        shown = client.get("/metrics").content
    for where in (gateway.log.read_bytes(), shown):
        assert [
            name for name, value in planted.items() for s in spellings(value).values() if s in where
        ] == []


def test_a_clients_trace_goes_through_to_the_upstream(
    planted: dict[str, str], gateway: RunningGateway, site: Upstream, traces: Collector
) -> None:
    parent = "00f067aa0ba902b7"
    with gateway.client() as client:
        answer = client.post(
            "/tools/hand-static.echo/call",
            json={"body": {}},
            headers={"traceparent": f"00-{TRACE_ID}-{parent}-01", "tracestate": "vendor=1"},
        )
    assert answer.status_code == 200, answer.text
    arrived = re.search(rb"00-" + TRACE_ID.encode() + rb"-([0-9a-f]{16})-01", site.wire())
    assert arrived
    assert b"vendor=1" in site.wire()
    deadline = time.monotonic() + 20
    mine: list[Any] = []
    while len(mine) < 3 and time.monotonic() < deadline:
        mine = [span for span in traces.spans() if span.trace_id == TRACE_ID]
        time.sleep(0.1)
    spans = {span.kind: span for span in mine}
    assert spans["server"].parent == parent
    assert spans["server"].attributes["utcp.call.id"] == answer.headers["X-Call-Id"]
    assert spans["client"].span_id == arrived[1].decode()
    assert spans["client"].parent == spans["internal"].parent == spans["server"].span_id


def test_log_lines_of_a_call_name_it_and_its_trace(planted: dict[str, str], gateway: RunningGateway) -> None:
    template = {"call_template_type": "http", "http_method": "GET", "url": "http://127.0.0.1:9/"}
    with gateway.client() as client:
        made = client.post(
            "/tools",
            json={"provider": "dead", "name": "end", "description": "d", "call_template": template},
        )
        assert made.status_code == 201, made.text
        answer = client.post("/tools/dead.end/call", json={})
    assert answer.status_code == 502
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + 10
    while not found and time.monotonic() < deadline:
        # Written when the answer was sent.
        lines = [json.loads(line) for line in gateway.log.read_text().splitlines() if line.startswith("{")]
        found = [line for line in lines if line.get("call_id") == answer.headers["X-Call-Id"]]
    (line,) = found
    assert line["event"] == "request failed"
    assert re.fullmatch("[0-9a-f]{32}", line["trace_id"])
    assert re.fullmatch("[0-9a-f]{16}", line["span_id"])


def test_the_metrics_are_those_of_both_workers_and_right(
    planted: dict[str, str], gateway: RunningGateway
) -> None:
    # What was counted up to now has been published after a second.
    time.sleep(1.5)
    before = figures(gateway)
    calls = 'utcp_gateway_calls_total{outcome="ok",provider="hand-static"}'
    for _ in range(40):
        # A connection each, so that both workers get some.
        with gateway.client() as client:
            assert client.post("/tools/hand-static.echo/call", json={"body": {}}).status_code == 200
    # A request is counted when its answer was sent, a moment after its call.
    requests = 'utcp_gateway_requests_total{method="POST",route="/tools/{name}/call",status="200"}'
    deadline = time.monotonic() + 10
    while (after := figures(gateway))[requests] - before[requests] < 40 and time.monotonic() < deadline:
        time.sleep(0.1)
    grown = {name: after[name] - before.get(name, 0) for name in after}
    assert grown[calls] == 40
    assert grown['utcp_gateway_upstream_attempts_total{provider="hand-static"}'] == 40
    assert grown['utcp_gateway_call_duration_seconds_count{provider="hand-static"}'] == 40
    assert grown[requests] == 40
    assert grown["utcp_gateway_plan_cache_hits_total"] + grown["utcp_gateway_plan_cache_misses_total"] == 40
    assert after["utcp_gateway_workers"] == 2
    assert after["utcp_gateway_calls_in_flight"] == 0
    assert after["utcp_gateway_redis_up"] == 1
    assert after['utcp_gateway_origins{provider="hand-static",state="closed"}'] >= 1
    assert after['utcp_gateway_bulkhead_running{provider="hand-static"}'] == 0
    assert after["utcp_gateway_token_fetches_total"] >= 1
    assert after["utcp_gateway_feed_lag_seconds"] < 60
    assert after['utcp_gateway_database_connections{state="idle"}'] >= 1
    assert after["utcp_gateway_event_loop_lag_seconds_count"] > 10
    assert after['utcp_gateway_spans_total{outcome="exported"}'] > 0
    assert after['utcp_gateway_spans_total{outcome="failed"}'] == 0
    for worker in "01":
        assert after[f'process_resident_memory_bytes{{worker="{worker}"}}'] > 1e7


def test_serve_says_at_once_that_the_extra_is_missing(gateway: RunningGateway, tmp_path: Any) -> None:
    blocker = "import sys\nsys.modules['opentelemetry.exporter'] = None\n"
    (tmp_path / "sitecustomize.py").write_text(blocker)
    environment = dict(gateway.environment) | {"PYTHONPATH": str(tmp_path)}
    found = run_command("serve", "--port", "0", environment=environment)
    assert found.returncode == 1
    assert "utcp-gateway[otlp]" in found.stdout + found.stderr
