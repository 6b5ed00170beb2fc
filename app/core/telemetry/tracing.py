"""Opens the tracer that the OTEL_* settings configure."""

from collections.abc import Callable

from app.core.settings import Settings
from app.core.telemetry.traces import Tracer

_TRACES_PATH = "/v1/traces"


def open_tracer(settings: Settings) -> Tracer | None:
    """Return the tracer that the OTEL_* settings configure, None where they name no collector.

    Raise ValueError, with a message for the operator, where the extra `otlp` is not installed.
    """
    make = load_tracer_class(settings)
    endpoint = _get_endpoint(settings)
    if make is None or endpoint is None:
        return None
    return make(
        endpoint,
        headers=settings.read_otlp_headers(),
        service=settings.otel_service_name,
        sampler=settings.otel_traces_sampler,
        ratio=settings.otel_traces_sampler_arg,
    )


def load_tracer_class(settings: Settings) -> Callable[..., Tracer] | None:
    """Return the class of the tracer, None where no collector is configured; raise as `open_tracer` does."""
    if _get_endpoint(settings) is None or settings.otel_sdk_disabled:
        return None
    try:
        # An optional extra, which costs time and memory, too.
        from app.core.telemetry.otlp import OtlpTracer  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("app"):
            raise
        msg = (
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but the exporter of traces is not installed:"
            " pip install 'utcp-gateway[otlp]'"
        )
        raise ValueError(msg) from None
    return OtlpTracer


def _get_endpoint(settings: Settings) -> str | None:
    """Return the URL for traces; the setting for traces alone has precedence, as OpenTelemetry specifies."""
    if settings.otel_exporter_otlp_traces_endpoint is not None:
        return settings.otel_exporter_otlp_traces_endpoint
    base = settings.otel_exporter_otlp_endpoint
    return None if base is None else base.rstrip("/") + _TRACES_PATH
