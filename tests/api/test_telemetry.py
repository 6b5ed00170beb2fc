"""Metrics, traces and log lines of a running gateway of two workers, and no secret in any."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from tests.api.test_canaries import Collected, plant, visit_everything
from tests.harness.canaries import canary, spellings
from tests.harness.collector import Collector, collector
from tests.harness.gateway import RunningGateway, run_command, serve
from tests.harness.servers import Pair
from tests.harness.upstream import Upstream, upstream

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
CALL_REQUESTS = 'utcp_gateway_requests_total{method="POST",route="/tools/{name}/call"'


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


def metrics_of(gateway: RunningGateway) -> dict[str, float]:
    """The series of /metrics and their values."""
    with gateway.client() as client:
        text = client.get("/metrics").text
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


class SentCalls:
    """Counts the calls that the clients of this module have sent."""

    def __init__(self) -> None:
        self.number = 0

    def client(self, gateway: RunningGateway) -> httpx2.Client:
        return gateway.client(event_hooks={"response": [self._count]})

    def _count(self, response: httpx2.Response) -> None:
        self.number += response.request.url.path.endswith("/call")

    def published(self, gateway: RunningGateway) -> dict[str, float]:
        """The metrics, once the workers have published all calls that were sent.

        A request is counted when its response was sent, after everything else about it.
        """
        deadline = time.monotonic() + 30
        while True:
            found = metrics_of(gateway)
            counted = sum(value for name, value in found.items() if name.startswith(CALL_REQUESTS))
            if counted == self.number:
                return found
            assert time.monotonic() < deadline, (counted, self.number)
            time.sleep(0.1)


@pytest.fixture(scope="module")
def sent() -> SentCalls:
    """The calls of this module."""
    return SentCalls()


@pytest.fixture(scope="module")
def planted(gateway: RunningGateway, sent: SentCalls, site: Upstream) -> dict[str, str]:
    """Providers with a canary in every secret field, all of whose tools were called."""
    seen = Collected()
    with sent.client(gateway) as client:
        secrets = plant(client, seen, site)
        visit_everything(client, seen)
    return secrets | {"admin-key": gateway.key, "collector": "canary-of-the-collector"}


def test_no_secret_is_in_what_the_collector_receives(
    planted: dict[str, str], traces: Collector, site: Upstream
) -> None:
    expected = {"POST /tools/{name}/call", "credentials", "fetch token", "POST"}
    deadline = time.monotonic() + 20
    while not expected <= (names := {span.name for span in traces.spans()}) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert expected <= names
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


def test_a_trace_of_the_client_continues_at_the_upstream(
    planted: dict[str, str], gateway: RunningGateway, sent: SentCalls, site: Upstream, traces: Collector
) -> None:
    parent = "00f067aa0ba902b7"
    with sent.client(gateway) as client:
        response = client.post(
            "/tools/custom-static.echo/call",
            json={"body": {}},
            headers={"traceparent": f"00-{TRACE_ID}-{parent}-01", "tracestate": "vendor=1"},
        )
    assert response.status_code == 200, response.text
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
    assert spans["server"].attributes["utcp.call.id"] == response.headers["X-Call-Id"]
    assert spans["client"].span_id == arrived[1].decode()
    assert spans["client"].parent == spans["internal"].parent == spans["server"].span_id


def test_log_lines_of_a_call_name_it_and_its_trace(gateway: RunningGateway, sent: SentCalls) -> None:
    template = {"call_template_type": "http", "http_method": "GET", "url": "http://127.0.0.1:9/"}
    with sent.client(gateway) as client:
        made = client.post(
            "/tools",
            json={"provider": "dead", "name": "end", "description": "d", "call_template": template},
        )
        assert made.status_code == 201, made.text
        response = client.post("/tools/dead.end/call", json={})
    assert response.status_code == 502
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + 10
    while not found and time.monotonic() < deadline:
        # Written when the response was sent.
        lines = [json.loads(line) for line in gateway.log.read_text().splitlines() if line.startswith("{")]
        found = [line for line in lines if line.get("call_id") == response.headers["X-Call-Id"]]
    (line,) = found
    assert line["event"] == "request failed"
    assert re.fullmatch("[0-9a-f]{32}", line["trace_id"])
    assert re.fullmatch("[0-9a-f]{16}", line["span_id"])


def test_no_query_argument_is_in_the_log_the_traces_or_an_error(
    gateway: RunningGateway, sent: SentCalls, site: Upstream, traces: Collector
) -> None:
    argument = canary("query-argument")
    inputs = {"type": "object", "properties": {"q": {"type": "string"}, "limit": {"type": "integer"}}}
    with sent.client(gateway) as client:
        for name, url in (("found", f"{site.url}/echo"), ("dead", "http://127.0.0.1:9/")):
            tool = {"provider": "queried", "name": name, "description": "d", "inputs": inputs}
            template = {"call_template_type": "http", "http_method": "POST", "url": url}
            made = client.post("/tools", json=tool | {"call_template": template})
            assert made.status_code == 201, made.text
        ok = client.post("/tools/queried.found/call", params={"q": argument})
        assert ok.status_code == 200, ok.text
        assert any(quote(argument, safe="") in request["path"] for request in site.requests), site.requests
        failed = [
            client.post(f"/tools/queried.{name}/call", params=query)
            for name, query in (
                ("dead", {"q": argument}),
                ("found", {"limit": argument}),
                ("found", {"q": [argument, argument]}),
                ("found", {"other": argument}),
                ("found", {"format": argument}),
                ("found", {"dry_run": argument}),
                ("unknown", {"q": argument}),
            )
        ]
    assert [response.status_code for response in failed] == [502, 422, 422, 422, 422, 422, 404]
    deadline = time.monotonic() + 20
    while ok.headers["X-Call-Id"] not in (ids := _traced_calls(traces)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert ok.headers["X-Call-Id"] in ids
    while failed[0].headers["X-Call-Id"] not in (log := gateway.log.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    places = [log.encode(), *traces.bodies, *(response.content for response in failed)]
    places += [repr(response.headers).encode() for response in [ok, *failed]]
    for spelling, needle in spellings(argument).items():
        assert [place for place in places if needle in place] == [], spelling


def _traced_calls(traces: Collector) -> set[Any]:
    return {span.attributes.get("utcp.call.id") for span in traces.spans()}


def test_the_metrics_are_the_sums_of_both_workers(
    planted: dict[str, str], gateway: RunningGateway, sent: SentCalls
) -> None:
    before = sent.published(gateway)
    calls = 'utcp_gateway_calls_total{outcome="ok",provider="custom-static"}'
    for _ in range(40):
        # A connection each, so that both workers get some.
        with sent.client(gateway) as client:
            assert client.post("/tools/custom-static.echo/call", json={"body": {}}).status_code == 200
    requests = 'utcp_gateway_requests_total{method="POST",route="/tools/{name}/call",status="200"}'
    after = sent.published(gateway)
    grown = {name: after[name] - before.get(name, 0) for name in after}
    assert grown[calls] == 40
    assert grown['utcp_gateway_upstream_attempts_total{provider="custom-static"}'] == 40
    assert grown['utcp_gateway_call_duration_seconds_count{provider="custom-static"}'] == 40
    assert grown[requests] == 40
    assert grown["utcp_gateway_plan_cache_hits_total"] + grown["utcp_gateway_plan_cache_misses_total"] == 40
    assert after["utcp_gateway_workers"] == 2
    assert after["utcp_gateway_calls_in_flight"] == 0
    assert after["utcp_gateway_redis_up"] == 1
    assert after['utcp_gateway_origins{provider="custom-static",state="closed"}'] >= 1
    assert after['utcp_gateway_bulkhead_running{provider="custom-static"}'] == 0
    assert after["utcp_gateway_token_fetches_total"] >= 1
    assert after["utcp_gateway_feed_lag_seconds"] < 60
    assert after['utcp_gateway_database_connections{state="idle"}'] >= 1
    assert after["utcp_gateway_event_loop_lag_seconds_count"] > 10
    assert after['utcp_gateway_spans_total{outcome="exported"}'] > 0
    assert after['utcp_gateway_spans_total{outcome="failed"}'] == 0
    for worker in "01":
        assert after[f'process_resident_memory_bytes{{worker="{worker}"}}'] > 1e7


def test_serve_reports_a_missing_extra_at_its_start(gateway: RunningGateway, tmp_path: Any) -> None:
    blocker = "import sys\nsys.modules['opentelemetry.exporter'] = None\n"
    (tmp_path / "sitecustomize.py").write_text(blocker)
    environment = dict(gateway.environment) | {"PYTHONPATH": str(tmp_path)}
    found = run_command("serve", "--port", "0", environment=environment)
    assert found.returncode == 1
    assert "utcp-gateway[otlp]" in found.stdout + found.stderr
