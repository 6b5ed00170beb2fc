"""Traces by OpenTelemetry's SDK, sent to a collector as OTLP over HTTP.

Only `open_tracer` imports this, when an endpoint is set: the SDK is the optional extra `otlp`, and takes time
to load. Spans wait in the SDK's bounded queue and are sent by a thread: an unavailable collector costs spans,
never a call. The exporter is not subject to the address guard, since the operator sets its destination, most
often a private address; it reads no proxy and no netrc from the environment.
"""

import asyncio
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib.metadata import version
from urllib.parse import urlsplit

import requests
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    DEFAULT_OFF,
    DEFAULT_ON,
    ParentBased,
    Sampler,
    TraceIdRatioBased,
)
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, format_span_id, format_trace_id
from opentelemetry.trace import Tracer as SdkTracer
from opentelemetry.trace.propagation import set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from app.core.telemetry.context import TRACE
from app.core.telemetry.families import SPANS, Sample
from app.core.telemetry.traces import Header

_SHUTDOWN_TIMEOUT = 5.0
_propagator = TraceContextTextMapPropagator()
_NO_ATTRIBUTES: Mapping[str, AttributeValue] = {}


class OtlpAttempt:
    """A CLIENT span."""

    __slots__ = ("_span", "headers")

    def __init__(self, span: Span, headers: tuple[Header, ...]) -> None:
        self._span = span
        self.headers = headers

    def end(self, *, status: int | None = None, error: str = "") -> None:
        """See AttemptTrace. A status of 400 and above is an error of a CLIENT span (HTTP conventions)."""
        span = self._span
        if not span.is_recording():
            return
        if status is not None:
            span.set_attribute("http.response.status_code", status)
        if not error and status is not None and status >= 400:
            error = str(status)
        if error:
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR))
        span.end()


class OtlpCall:
    """A SERVER span, and the spans below it."""

    __slots__ = ("_context", "_recording", "_span", "_tracer", "span_id", "trace_id")

    def __init__(self, tracer: SdkTracer, span: Span) -> None:
        self._tracer = tracer
        self._span = span
        self._context = set_span_in_context(span, Context())
        self._recording = span.is_recording()
        context = span.get_span_context()
        self.trace_id = format_trace_id(context.trace_id)
        self.span_id = format_span_id(context.span_id)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """See CallTrace; spans that start within the block are children of this one."""
        if not self._recording:
            yield
            return
        span = self._tracer.start_span(name, self._context)
        parent, self._context = self._context, set_span_in_context(span, self._context)
        try:
            yield
        except BaseException as error:
            span.set_attribute("error.type", getattr(error, "slug", type(error).__name__))
            span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            self._context = parent
            span.end()

    def attempt(self, method: str, origin: str, *, number: int = 1) -> OtlpAttempt:
        """See CallTrace. A trace that is not sampled is propagated too, with the SERVER span's id."""
        if not self._recording:
            return OtlpAttempt(self._span, _write_trace_headers(self._context))
        attributes: dict[str, AttributeValue] = {"http.request.method": method, **_describe_server(origin)}
        if number > 1:
            attributes["http.request.resend_count"] = number - 1
        span = self._tracer.start_span(method, self._context, SpanKind.CLIENT, attributes)
        return OtlpAttempt(span, _write_trace_headers(set_span_in_context(span, Context())))

    def end(self, *, provider: str, tool: str, outcome: str, status: int) -> None:
        """See CallTrace. Only a status of 500 and above is an error of a SERVER span (HTTP conventions)."""
        span = self._span
        if self._recording:
            span.set_attributes(
                {
                    "http.response.status_code": status,
                    "utcp.provider": provider,
                    "utcp.tool": tool,
                    "utcp.outcome": outcome,
                }
            )
            if outcome != "ok":
                span.set_attribute("error.type", outcome)
            if status >= 500:
                span.set_status(Status(StatusCode.ERROR))
        span.end()


class OtlpTracer:
    """Sends traces to `endpoint`, the whole URL for traces, from a thread of its own."""

    def __init__(
        self, endpoint: str, *, headers: Mapping[str, str], service: str, sampler: str, ratio: float
    ) -> None:
        session = requests.Session()
        session.trust_env = False
        self._exporter = _CountingExporter(
            OTLPSpanExporter(endpoint, headers=headers or None, session=session)
        )
        self._provider = TracerProvider(
            sampler=_choose_sampler(sampler, ratio),
            resource=Resource.create(
                {
                    "service.name": service,
                    "service.version": version("utcp-gateway"),
                    "service.instance.id": os.urandom(8).hex(),
                }
            ),
            # `aclose` shuts it down, with a timeout.
            shutdown_on_exit=False,
            span_limits=SpanLimits(max_attribute_length=256),
        )
        self._queue = _CountingSpanProcessor(self._exporter)
        self._provider.add_span_processor(self._queue)
        self._tracer = self._provider.get_tracer("utcp-gateway", version("utcp-gateway"))

    def start_trace(self, head: Mapping[bytes, bytes], *, route: str, call_id: str) -> OtlpCall:
        """See Tracer; log lines of this task have the ids of this trace from now on."""
        span = self._tracer.start_span(
            f"POST {route}",
            _read_parent_context(head),
            SpanKind.SERVER,
            {"http.request.method": "POST", "http.route": route, "utcp.call.id": call_id},
        )
        trace = OtlpCall(self._tracer, span)
        TRACE.set(trace)
        return trace

    def list_samples(self) -> Iterable[Sample]:
        """See Tracer."""
        yield SPANS, ("ended",), self._queue.ended
        yield SPANS, ("exported",), self._exporter.exported
        yield SPANS, ("failed",), self._exporter.failed

    async def aclose(self) -> None:
        """See Tracer. The SDK waits longer for an unavailable collector; this does not wait for the SDK."""
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()

        def end() -> None:
            self._provider.shutdown()
            # The loop may be closed by now, where this took longer than the timeout.
            if not loop.is_closed():
                loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=end, name="traces-end", daemon=True).start()
        with suppress(TimeoutError):
            async with asyncio.timeout(_SHUTDOWN_TIMEOUT):
                await ended.wait()
        # Stops the exporter's retries, if any are pending.
        self._exporter.shutdown()


class _CountingSpanProcessor(BatchSpanProcessor):
    """The SDK's processor, counting spans. At most OTEL_BSP_MAX_QUEUE_SIZE spans wait; further ones are
    dropped.
    """

    ended = 0

    def on_end(self, span: ReadableSpan) -> None:
        """See SpanProcessor."""
        self.ended += 1
        super().on_end(span)


class _CountingExporter(SpanExporter):
    """Counts exported and failed spans in plain attributes, which the metrics read."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter: SpanExporter | None = exporter
        self.exported = 0
        self.failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """See SpanExporter."""
        exporter = self._exporter
        result = SpanExportResult.FAILURE if exporter is None else exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.exported += len(spans)
        else:
            self.failed += len(spans)
        return result

    def shutdown(self) -> None:
        """See SpanExporter. A second call does nothing."""
        exporter, self._exporter = self._exporter, None
        if exporter is not None:
            exporter.shutdown()


def _write_trace_headers(context: Context) -> tuple[Header, ...]:
    """Return the headers `traceparent` and `tracestate` for an upstream."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, context)
    return tuple(carrier.items())


def _read_parent_context(head: Mapping[bytes, bytes]) -> Context:
    """Return the client's span as context where `traceparent` is valid; `tracestate` is used only with it."""
    parent = head.get(b"traceparent")
    if parent is None:
        return Context()
    carrier = {"traceparent": parent.decode("latin-1")}
    state = head.get(b"tracestate")
    if state is not None:
        carrier["tracestate"] = state.decode("latin-1")
    return _propagator.extract(carrier, Context())


def _choose_sampler(name: str, ratio: float) -> Sampler:
    """Return the sampler with this name, one of the six that are specified for OTEL_TRACES_SAMPLER."""
    known: dict[str, Sampler] = {
        "always_on": ALWAYS_ON,
        "always_off": ALWAYS_OFF,
        "traceidratio": TraceIdRatioBased(ratio),
        "parentbased_always_on": DEFAULT_ON,
        "parentbased_always_off": DEFAULT_OFF,
        "parentbased_traceidratio": ParentBased(TraceIdRatioBased(ratio)),
    }
    return known[name]


@lru_cache(maxsize=4_096)
def _describe_server(origin: str) -> Mapping[str, AttributeValue]:
    """Return the span attributes of an origin (`scheme://host[:port]`)."""
    parts = urlsplit(origin)
    if not parts.hostname:
        return _NO_ATTRIBUTES
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return {"server.address": parts.hostname, "server.port": port, "url.scheme": parts.scheme}
