"""Settings of the change feed, call records, shutdown, logs and traces."""

from typing import Literal
from urllib.parse import unquote

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings

Sampler = Literal[
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
]


class OperationSettings(BaseSettings, defer_build=True):
    """Settings for operators. Times are in seconds, sizes in bytes."""

    # Operation
    feed_poll_seconds: float = Field(3, gt=0, le=60, description="Interval at which changes are polled.")
    call_retention_days: int = Field(30, ge=1, description="How long call records are retained.")
    tool_history_max: int = Field(
        100,
        ge=1,
        le=10_000,
        description="Entries of the history of a tool; the oldest ones are deleted.",
    )
    stats_retention_days: int = Field(
        400, ge=1, le=3650, description="How long the statistics of calls by hour are retained."
    )
    stats_minute_retention_days: int = Field(
        400, ge=1, le=3650, description="How long the statistics of calls by minute are retained."
    )
    call_log_flush_seconds: float = Field(
        0.5, gt=0, le=60, description="Interval at which call records are stored."
    )
    call_log_mode: Literal["fast", "strict"] = Field(
        "fast",
        description="When a call is recorded in PostgreSQL: soon after it (fast), or, if it has effects,"
        " before it is made (strict).",
    )
    call_log_commit_timeout: float = Field(
        1,
        gt=0,
        le=30,
        description="Longest wait for the record of a call with effects, before it is rejected.",
    )
    call_log_bodies: Literal["off", "errors", "all"] = Field(
        "off", description="Calls whose arguments and responses are stored, sealed, with the record."
    )
    call_log_max_body_bytes: int = Field(
        16 << 10, ge=256, le=1 << 20, description="Bytes that are stored of arguments, and of a response."
    )
    approval_ttl_seconds: float = Field(
        86_400, gt=0, le=31_536_000, description="How long a call waits for approval before it expires."
    )
    approval_change_ttl_seconds: float = Field(
        2_592_000,
        gt=0,
        le=31_536_000,
        description="How long the pending changes of a provider wait for approval before they are discarded.",
    )
    approval_result_seconds: float = Field(
        86_400,
        gt=0,
        le=31_536_000,
        description="How long the result of an approved call is retained, sealed.",
    )
    approval_retention_days: int = Field(
        90, ge=1, le=3650, description="How long approvals are retained after they have ended."
    )
    approval_pending_max: int = Field(
        100, ge=1, le=100_000, description="Calls of one key that may wait for approval at a time."
    )
    recording_max_body_bytes: int = Field(
        1 << 20, ge=1_024, le=16 << 20, description="Largest response that a recording stores."
    )
    recording_max_events: int = Field(
        1_000, ge=1, le=100_000, description="Events of a stream that a recording stores, the first ones."
    )
    recording_max_interactions: int = Field(
        5_000, ge=1, le=100_000, description="Calls that one recording has at most."
    )
    recording_max_bytes: int = Field(
        64 << 20, ge=65_536, le=1 << 30, description="Size of one recording at most."
    )
    recording_retention_days: int = Field(
        90,
        ge=0,
        le=3650,
        description="How long a recording is retained after its last use; 0: until it is deleted.",
    )
    shutdown_grace_seconds: float | None = Field(
        None,
        ge=0,
        le=60,
        description="Time after SIGTERM for which requests are still accepted, while /health/ready says 503."
        " Unset: 2, embedded 0.",
    )
    shutdown_timeout: float = Field(
        30, gt=0, le=600, description="Longest wait for the calls in progress after that."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level that is logged."
    )
    log_format: Literal["console", "json"] = Field("console", description="Format of log lines.")

    # Traces; further OTEL_* variables are read by OpenTelemetry itself (docs/operations.md)
    otel_exporter_otlp_endpoint: str | None = Field(
        None, description="Base URL of an OpenTelemetry collector (OTLP over HTTP). Unset: no traces."
    )
    otel_exporter_otlp_traces_endpoint: str | None = Field(
        None, description="The complete URL for traces, where it is not the base URL with /v1/traces."
    )
    otel_exporter_otlp_protocol: Literal["http/protobuf"] = Field(
        "http/protobuf", description="The only supported protocol for traces."
    )
    otel_exporter_otlp_headers: SecretStr | None = Field(
        None, description="Headers for the collector, `name=value,...`, e.g. with its API key."
    )
    otel_service_name: str = Field("utcp-gateway", description="The service's name in traces.")
    otel_traces_sampler: Sampler = Field(
        "parentbased_traceidratio", description="Sampler of traces, by the names of the specification."
    )
    otel_traces_sampler_arg: float = Field(
        1.0, ge=0, le=1, description="Share of calls for the ratio samplers."
    )
    otel_sdk_disabled: bool = Field(default=False, description="Disables traces, whatever else is set.")

    @field_validator("call_log_mode", mode="before")
    @classmethod
    def _removed(cls, value: object) -> object:
        if value == "spool":
            msg = (
                "the mode spool was removed: set strict, which records calls with effects in PostgreSQL"
                " before they are made, or fast. Records that are still in the spool folder (DATA_DIR/spool)"
                " are stored by the version that wrote them: start it once, with PostgreSQL reachable"
            )
            raise ValueError(msg)
        return value

    def read_otlp_headers(self) -> dict[str, str]:
        """Return the headers for the collector, percent-decoded as OpenTelemetry specifies."""
        if self.otel_exporter_otlp_headers is None:
            return {}
        pairs = (
            pair.partition("=") for pair in self.otel_exporter_otlp_headers.get_secret_value().split(",")
        )
        return {
            unquote(name).strip().lower(): unquote(value).strip() for name, _, value in pairs if name.strip()
        }
