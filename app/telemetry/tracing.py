"""What the call path knows of tracing: these interfaces, and None while tracing is off.

    SERVER    POST /tools/{name}/call
    INTERNAL    credentials
    INTERNAL      fetch token           only where one is fetched
    CLIENT      GET, POST, ...          one for each attempt at the upstream

Spans hold names of ours (tool, provider, origin, slug, status, ids), never a URL, a header, an argument or
the text of an error. `otlp.py` implements them.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from app.settings import Settings
from app.telemetry.families import Sample

_TRACES_PATH = "/v1/traces"

Header = tuple[str, str]


class AttemptTrace(Protocol):
    """One request to an upstream under way."""

    headers: tuple[Header, ...]
    """`traceparent` and `tracestate` for the upstream (W3C Trace Context)."""

    def end(self, *, status: int | None = None, error: str = "") -> None:
        """It was answered with `status`, or failed with an error of this slug."""


class CallTrace(Protocol):
    """One call under way."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits, of the SERVER span."""

    def step(self, name: str) -> AbstractContextManager[None]:
        """Return a part of the call inside the gateway."""

    def attempt(self, method: str, origin: str, *, number: int = 1) -> AttemptTrace:
        """Return the call's `number`th request to an upstream at `origin` (`scheme://host[:port]`)."""

    def end(self, *, provider: str, tool: str, outcome: str, status: int) -> None:
        """The call is over; `provider` and `tool` are stored names, "" where none was found."""


class Tracer(Protocol):
    """Begins traces."""

    def begin(self, head: Mapping[bytes, bytes], *, route: str, call_id: str) -> CallTrace:
        """Continue the trace that a request's headers (in lower case, repeated ones joined by commas) name,
        or begins one where they name none that is valid."""

    def samples(self) -> Iterable[Sample]:
        """How many spans have ended, were exported, and could not be; the rest waits or was dropped."""

    async def aclose(self) -> None:
        """Send what waits, for at most five seconds."""


def open_tracer(settings: Settings) -> Tracer | None:
    """Return the tracer that the OTEL_* settings ask for, None where they name no collector.

    Raises ValueError, in words for an operator, where the extra `otlp` is not installed.
    """
    make = require_tracing(settings)
    endpoint = _endpoint(settings)
    if make is None or endpoint is None:
        return None
    return make(
        endpoint,
        headers=settings.otlp_headers(),
        service=settings.otel_service_name,
        sampler=settings.otel_traces_sampler,
        ratio=settings.otel_traces_sampler_arg,
    )


def require_tracing(settings: Settings) -> Callable[..., Tracer] | None:
    """What makes the tracer where one is asked for; raises as `open_tracer` does, and begins nothing."""
    if _endpoint(settings) is None or settings.otel_sdk_disabled:
        return None
    try:
        # An optional extra, which costs time and memory, too.
        from app.telemetry.otlp import OtlpTracer  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("app"):
            raise
        msg = (
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but what sends traces is not installed:"
            " pip install 'utcp-gateway[otlp]'"
        )
        raise ValueError(msg) from None
    return OtlpTracer


def _endpoint(settings: Settings) -> str | None:
    """Return the URL for traces; the one of its own goes first, as OpenTelemetry says."""
    if settings.otel_exporter_otlp_traces_endpoint is not None:
        return settings.otel_exporter_otlp_traces_endpoint
    base = settings.otel_exporter_otlp_endpoint
    return None if base is None else base.rstrip("/") + _TRACES_PATH
