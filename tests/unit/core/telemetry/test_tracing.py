"""Traces: what is sent to a collector, how a caller's trace is continued, and that none of it can hurt."""

import asyncio
import socket
import subprocess
import sys

import pytest

from app.core.settings import Settings
from app.core.telemetry.context import CALL_ID, TRACE
from app.core.telemetry.logs import configure_logging
from app.core.telemetry.tracing import open_tracer
from tests.harness.cases import for_each
from tests.harness.collector import collector

ROUTE = "/tools/{name}/call"
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


@pytest.fixture
def site():
    with collector() as running:
        yield running


def _settings(url: str, **settings) -> Settings:
    return Settings(_env_file=None, otel_exporter_otlp_endpoint=url, **settings)


def _tracer(site, **settings):
    return open_tracer(_settings(site.url, **settings))


def _parent(flags: str = "01", **others: str) -> dict[bytes, bytes]:
    headers = {"traceparent": f"00-{TRACE_ID}-{PARENT}-{flags}", **others}
    return {name.encode(): value.encode() for name, value in headers.items()}


@pytest.fixture(autouse=True)
def _no_call():
    yield
    TRACE.set(None)
    CALL_ID.set("")


def test_nothing_is_traced_without_an_endpoint():
    assert open_tracer(Settings(_env_file=None)) is None
    assert open_tracer(_settings("http://127.0.0.1:9", otel_sdk_disabled=True)) is None


async def test_a_call_is_a_tree_of_spans(site):
    tracer = _tracer(site)
    call = tracer.start_trace({}, route=ROUTE, call_id="the-call")
    with call.step("credentials"), call.step("fetch token"):
        pass
    first = call.attempt("GET", "https://api.example.com")
    first.end(error="upstream-timeout")
    second = call.attempt("GET", "https://api.example.com:8443", number=2)
    second.end(status=200)
    call.end(provider="library", tool="library.search", outcome="ok", status=200)
    await tracer.aclose()
    spans = {span.name + str(span.attributes.get("server.port", "")): span for span in site.spans()}
    server = spans[f"POST {ROUTE}"]
    assert (server.kind, server.parent, server.error) == ("server", "", False)
    assert server.attributes == {
        "http.request.method": "POST",
        "http.route": ROUTE,
        "http.response.status_code": 200,
        "utcp.call.id": "the-call",
        "utcp.provider": "library",
        "utcp.tool": "library.search",
        "utcp.outcome": "ok",
    }
    assert spans["credentials"].parent == server.span_id
    assert spans["fetch token"].parent == spans["credentials"].span_id
    failed, answered = spans["GET443"], spans["GET8443"]
    assert failed.kind == answered.kind == "client"
    assert failed.parent == answered.parent == server.span_id
    assert failed.error
    assert failed.attributes["error.type"] == "upstream-timeout"
    assert answered.attributes == {
        "http.request.method": "GET",
        "http.request.resend_count": 1,
        "http.response.status_code": 200,
        "server.address": "api.example.com",
        "server.port": 8443,
        "url.scheme": "https",
    }
    assert {span.trace_id for span in spans.values()} == {call.trace_id}
    assert site.resource()["service.name"] == "utcp-gateway"
    assert site.paths == ["/v1/traces"]


async def test_a_clients_trace_is_continued_and_passed_on(site):
    tracer = _tracer(site)
    call = tracer.start_trace(_parent(tracestate="vendor=1,other=2"), route=ROUTE, call_id="c")
    attempt = call.attempt("POST", "http://upstream.example")
    attempt.end(status=204)
    call.end(provider="p", tool="p.t", outcome="ok", status=200)
    await tracer.aclose()
    client, server = site.spans()
    assert server.trace_id == client.trace_id == TRACE_ID
    assert server.parent == PARENT
    assert server.state == "vendor=1,other=2"
    assert dict(attempt.headers) == {
        "traceparent": f"00-{TRACE_ID}-{client.span_id}-01",
        "tracestate": "vendor=1,other=2",
    }


@for_each(
    "value",
    [
        "",
        "nonsense",
        f"00-{TRACE_ID}-{PARENT}",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"ff-{TRACE_ID}-{PARENT}-01",
        f"00-{TRACE_ID.upper()}-{PARENT}-01",
        f"00-{TRACE_ID}-{PARENT}-01-more",
        f"00-{TRACE_ID}-{PARENT}-01, 00-{TRACE_ID}-{PARENT}-01",
        "\xff" * 55,
    ],
)
async def test_a_traceparent_that_is_not_valid_begins_a_trace_of_our_own(site, value):
    tracer = _tracer(site)
    head = {b"traceparent": value.encode("latin-1"), b"tracestate": b"a=1"}
    call = tracer.start_trace(head, route=ROUTE, call_id="c")
    attempt = call.attempt("GET", "http://u.example")
    assert call.trace_id != TRACE_ID
    assert "tracestate" not in dict(attempt.headers)
    await tracer.aclose()


async def test_what_the_client_does_not_sample_is_passed_on_and_not_sent(site):
    tracer = _tracer(site)
    call = tracer.start_trace(_parent("00"), route=ROUTE, call_id="c")
    attempt = call.attempt("GET", "http://u.example")
    attempt.end(status=200)
    call.end(provider="p", tool="t", outcome="ok", status=200)
    await tracer.aclose()
    assert site.bodies == []
    traceparent = dict(attempt.headers)["traceparent"]
    assert traceparent.startswith(f"00-{TRACE_ID}-")
    assert traceparent.endswith("-00")


@for_each(
    ("sampler", "ratio", "flags", "sent"),
    [
        ("parentbased_traceidratio", 0.0, None, False),
        ("parentbased_traceidratio", 0.0, "01", True),
        ("parentbased_traceidratio", 1.0, None, True),
        ("traceidratio", 0.0, "01", False),
        ("always_on", 0.0, "00", True),
        ("always_off", 1.0, "01", False),
        ("parentbased_always_off", 1.0, None, False),
        ("parentbased_always_on", 0.0, None, True),
    ],
)
async def test_the_samplers_of_the_specification(site, sampler, ratio, flags, sent):
    site.bodies.clear()
    tracer = _tracer(site, otel_traces_sampler=sampler, otel_traces_sampler_arg=ratio)
    call = tracer.start_trace(_parent(flags) if flags else {}, route=ROUTE, call_id="c")
    call.end(provider="p", tool="t", outcome="ok", status=200)
    await tracer.aclose()
    assert bool(site.bodies) is sent


@pytest.mark.parametrize(
    ("outcome", "status", "error"),
    [("ok", 200, False), ("rate-limited", 429, False), ("upstream-timeout", 504, True)],
)
async def test_only_the_gateways_own_failures_make_its_span_an_error(site, outcome, status, error):
    tracer = _tracer(site)
    tracer.start_trace({}, route=ROUTE, call_id="c").end(provider="", tool="", outcome=outcome, status=status)
    await tracer.aclose()
    (span,) = site.spans()
    assert span.error is error
    assert span.attributes.get("error.type", "ok") == outcome


async def test_an_error_in_a_step_leaves_its_kind_and_not_its_text(site):
    tracer = _tracer(site)
    call = tracer.start_trace({}, route=ROUTE, call_id="c")
    with pytest.raises(ValueError, match="secret"), call.step("credentials"):
        raise ValueError("the-secret-text")
    await tracer.aclose()
    (span,) = site.spans()
    assert span.attributes == {"error.type": "ValueError"}
    assert span.events == 0
    assert b"the-secret-text" not in site.bodies[0]


async def test_the_collectors_own_headers_and_address_are_sent(site):
    tracer = open_tracer(
        Settings(
            _env_file=None,
            otel_exporter_otlp_traces_endpoint=f"{site.url}/elsewhere",
            otel_exporter_otlp_headers="X-Key=a%20b, other=1",
            otel_service_name="gw",
        )
    )
    tracer.start_trace({}, route=ROUTE, call_id="c").end(provider="", tool="", outcome="ok", status=200)
    await tracer.aclose()
    assert site.paths == ["/elsewhere"]
    assert site.headers[0]["x-key"] == "a b"
    assert site.headers[0]["other"] == "1"
    assert site.resource()["service.name"] == "gw"


def _finished(tracer, number: int) -> None:
    for _ in range(number):
        tracer.start_trace({}, route=ROUTE, call_id="c").end(provider="", tool="", outcome="ok", status=200)


def _counted(tracer) -> dict[str, float]:
    return {labels[0]: value for _, labels, value in tracer.list_samples()}


async def test_what_the_collector_rejects_is_counted(site):
    tracer = _tracer(site)
    site.status = 400
    _finished(tracer, 3)
    await tracer.aclose()
    assert _counted(tracer) == {"ended": 3, "exported": 0, "failed": 3}


async def test_the_queue_is_bounded_and_never_waited_for(monkeypatch):
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    # It accepts connections, and never answers.
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        tracer = open_tracer(_settings(f"http://127.0.0.1:{deaf.getsockname()[1]}"))
        _finished(tracer, 1_000)
        assert len(tracer._queue._batch_processor._queue) <= 10
        await tracer.aclose()
    assert _counted(tracer)["ended"] == 1_000


async def test_the_end_does_not_wait_for_a_collector_that_is_stuck(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600")
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        tracer = open_tracer(_settings(f"http://127.0.0.1:{deaf.getsockname()[1]}"))
        _finished(tracer, 1)
        # Its deadline is five seconds; the exporter's is ten minutes.
        async with asyncio.timeout(60):
            await tracer.aclose()


async def test_log_lines_name_the_call_and_its_trace(site, capsys):
    configure_logging("info", "json")
    import structlog

    tracer = _tracer(site)
    CALL_ID.set("0190-call")
    call = tracer.start_trace({}, route=ROUTE, call_id="0190-call")
    structlog.get_logger().warning("something")
    await tracer.aclose()
    line = capsys.readouterr().err
    assert '"call_id":"0190-call"' in line
    assert f'"trace_id":"{call.trace_id}"' in line
    assert f'"span_id":"{call.span_id}"' in line
    structlog.reset_defaults()


_WITHOUT = """
import sys
sys.modules["opentelemetry.sdk"] = None
sys.modules["opentelemetry.exporter"] = None
from app.core.settings import Settings
from app.core.telemetry.tracing import open_tracer
assert open_tracer(Settings(_env_file=None)) is None
open_tracer(Settings(_env_file=None, otel_exporter_otlp_endpoint="http://127.0.0.1:9"))
"""


def test_without_the_extra_an_endpoint_is_rejected_with_a_message_that_says_what_to_install():
    found = subprocess.run([sys.executable, "-c", _WITHOUT], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "pip install 'utcp-gateway[otlp]'" in found.stderr.splitlines()[-1]


_IMPORTS = """
import sys
import app.main
assert "app.core.telemetry.otlp" not in sys.modules
assert "opentelemetry.exporter" not in sys.modules
"""


def test_the_exporter_is_not_loaded_while_tracing_is_off():
    subprocess.run([sys.executable, "-c", _IMPORTS], check=True)
