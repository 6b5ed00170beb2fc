"""All settings of the gateway: environment variables or a `.env` file, read once, frozen.

The names are the upper-case field names (`DATABASE_URL`). Outside the embedded mode the gateway refuses to
start without a sealing key of 32 random bytes; there are no default secrets.
"""

from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import unquote

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.rates import RateLimit

Sampler = Literal[
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
]
Words = Annotated[tuple[str, ...], NoDecode]
"""A list given as words separated by commas or white space."""


class Settings(BaseSettings):
    """Times are in seconds, sizes in bytes. `.env.example` is generated from these descriptions."""

    model_config = SettingsConfigDict(
        env_file=".env", frozen=True, extra="ignore", hide_input_in_errors=True, env_ignore_empty=True
    )

    # Servers
    database_url: SecretStr | None = Field(
        None,
        description="PostgreSQL 15 or later; several hosts allowed. Unset: the embedded pair is started.",
    )
    database_listen_url: SecretStr | None = Field(
        None, description="A direct DSN for LISTEN/NOTIFY, where DATABASE_URL goes through PgBouncer."
    )
    database_pool_size: int = Field(10, ge=1, le=200, description="Connections to PostgreSQL per worker.")
    redis_url: SecretStr | None = Field(None, description="Redis 7 or Valkey 8 and later.")
    redis_timeout: float = Field(0.1, gt=0, le=5, description="Longest wait for one Redis command.")
    data_dir: Path = Field(Path(".data"), description="Folder of the embedded servers and their sealing key.")
    embedded: bool = Field(
        default=False, description="Set by `serve` when it started the embedded pair itself."
    )

    # Web
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on.")
    workers: int = Field(1, ge=1, le=64, description="Worker processes.")
    public_base_url: str | None = Field(
        None, description="How clients reach the gateway, e.g. https://tools.example.com; goes into manuals."
    )
    root_path: str = Field("", description="Path prefix that a proxy strips before it passes requests on.")
    forwarded_allow_ips: str = Field(
        "127.0.0.1", description="Proxies whose X-Forwarded-For and X-Forwarded-Proto are believed."
    )
    allowed_hosts: Words = Field(("*",), description="Host headers that are answered.")
    cors_origins: Words = Field((), description="Origins of web pages that may call the gateway.")
    docs_open: bool = Field(default=True, description="/docs and /openapi.json need no key.")
    max_request_bytes: int = Field(8 << 20, ge=1024, description="Largest request body, but for documents.")
    max_document_bytes: int = Field(64 << 20, ge=1024, description="Largest OpenAPI document or manual.")

    # Secrets
    sealing_keys: SecretStr | None = Field(
        None, description="Key ring `id:base64,...` of 32 random bytes each; the first seals, all open."
    )
    sealing_keys_file: Path | None = Field(None, description="The same in a file, e.g. a mounted secret.")
    key_cache_seconds: float = Field(
        60, ge=0, le=900, description="How long a verified API key is remembered."
    )
    auth_stale_seconds: float = Field(
        900, ge=0, le=86400, description="How long a remembered key works while PostgreSQL is away."
    )

    # Registry
    providers_file: Path | None = Field(None, description="A providers.json to import at every start.")
    sample: bool = Field(default=True, description="Embedded mode: serve and register the sample API.")
    sample_port: int = Field(8001, ge=0, le=65535, description="Port of the sample API.")
    variable_env_names: Words = Field(
        (), description="Environment variables that `${NAME}` in a provider may read."
    )
    conversion_seconds: float = Field(120, gt=0, description="Longest conversion of one document.")
    conversion_memory_bytes: int = Field(4 << 30, ge=256 << 20, description="Memory of one conversion.")
    conversion_processes: int = Field(2, ge=1, le=16, description="Conversions at a time per worker.")

    # Protocols that work on this machine
    file_folders: Words = Field(
        (), description="Folders whose files providers and tools of protocol file may read; unset: none."
    )

    # Discovery
    manual_version: Literal["1", "0"] = Field(
        "1", description="UTCP generation that /utcp serves by default."
    )
    utcp_anonymous: bool = Field(default=False, description="/utcp may be read without a key.")

    # Outgoing calls
    allow_networks: Words = Field(
        (), description="Private networks that may be called, `CIDR` or `CIDR:port`, e.g. 10.2.0.0/16:443."
    )
    allow_ports: Words = Field((), description="If set, the only ports that may be called.")
    connect_timeout: float = Field(5, gt=0, description="Longest wait for a connection to an upstream.")
    first_byte_timeout: float = Field(30, gt=0, description="Longest wait for an upstream's first byte.")
    idle_timeout: float = Field(30, gt=0, description="Longest silence within an upstream's answer.")
    total_timeout: float = Field(60, gt=0, description="Longest call in all.")
    max_response_bytes: int = Field(256 << 20, ge=1024, description="Largest answer of an upstream.")
    stream_timeout: float = Field(
        3600, gt=0, description="Longest call in all where the caller takes the answer as events."
    )
    stream_event_bytes: int = Field(
        1 << 20, ge=1024, le=64 << 20, description="Largest event of such an answer."
    )
    stream_heartbeat_seconds: float = Field(
        15, gt=0, description="Silence after which such a caller gets a heartbeat."
    )
    caller_idle_timeout: float = Field(
        60, gt=0, description="Longest wait for a caller to take 64 KiB of its answer, or to send its call."
    )
    plan_cache_size: int = Field(10_000, ge=16, description="Compiled tools kept per worker.")

    # Overload, per worker
    max_calls: int = Field(2000, ge=1, description="Calls under way; what comes on top is refused with 503.")
    overload_lag: float = Field(
        0.025, gt=0, le=10, description="How late the event loop may be before calls are refused, too."
    )

    # Upstreams that fail, per origin and worker
    origin_concurrency: int = Field(
        128, ge=1, le=10_000, description="Calls of one upstream origin that run at once."
    )
    origin_queue: int = Field(
        128, ge=0, le=10_000, description="Calls that may wait for one of these to end."
    )
    origin_queue_timeout: float = Field(1, gt=0, le=60, description="Longest wait of such a call.")
    breaker_failures: int = Field(
        5, ge=0, le=1000, description="Failures in a row that pause an origin's calls; 0 turns breakers off."
    )
    breaker_ratio: float = Field(0.5, gt=0, le=1, description="Share of failures that pauses them, too.")
    breaker_volume: int = Field(20, ge=1, description="Fewest calls that such a share is taken of.")
    breaker_window: float = Field(10, gt=0, le=3600, description="Time over which that share is taken.")
    breaker_open_seconds: float = Field(
        5, gt=0, le=3600, description="The first pause; each further one is twice as long."
    )
    breaker_open_most: float = Field(60, gt=0, le=3600, description="The longest pause.")
    retry_attempts: int = Field(3, ge=1, le=3, description="How often one call is sent at most.")
    retry_budget: float = Field(
        0.1, ge=0, le=1, description="Share of an origin's calls that may be repeated."
    )
    retry_after_most: float = Field(
        5, ge=0, le=60, description="Longest Retry-After of an upstream that is waited for."
    )

    # Limits and repetition
    key_rate_limit: str | None = Field(
        None,
        description="Calls of keys without a limit of their own: REQUESTS/SECONDS or REQUESTS/SECONDS:BURST.",
    )
    idempotency_seconds: float = Field(
        86400, ge=60, le=30 * 86400, description="How long the outcome under an Idempotency-Key is kept."
    )
    idempotency_bytes: int = Field(
        1 << 20, ge=1024, le=64 << 20, description="Largest answer that is kept under an Idempotency-Key."
    )
    response_cache_bytes: int = Field(
        32 << 20, ge=0, description="Memory per worker for answers of providers with `limits.cache`."
    )

    # Operation
    feed_poll_seconds: float = Field(3, gt=0, le=60, description="How often changes are polled for.")
    call_retention_days: int = Field(30, ge=1, description="How long call records are kept.")
    audit_flush_seconds: float = Field(0.5, gt=0, le=60, description="How often call records are written.")
    audit_mode: Literal["fast", "spool", "strict"] = Field(
        "fast",
        description="When a call is on record: soon after it (fast), before its answer in a file (spool), or,"
        " with effects, in PostgreSQL before it is made (strict).",
    )
    audit_wait_seconds: float = Field(
        1, gt=0, le=30, description="Longest wait for a record before a call with effects is refused."
    )
    audit_spool_dir: Path | None = Field(
        None, description="Folder of the records that AUDIT_MODE=spool keeps; unset: DATA_DIR/spool."
    )
    audit_spool_bytes: int = Field(
        256 << 20, ge=1 << 20, description="Most that a worker keeps there while PostgreSQL is away."
    )
    audit_bodies: Literal["off", "errors", "all"] = Field(
        "off", description="Of which calls arguments and answers are kept, sealed, with the record."
    )
    audit_body_bytes: int = Field(
        16 << 10, ge=256, le=1 << 20, description="Most of the arguments, and of an answer, that is kept."
    )
    shutdown_grace_seconds: float | None = Field(
        None,
        ge=0,
        le=60,
        description="After SIGTERM: not ready, but still accepting. Unset: 2, embedded 0.",
    )
    shutdown_seconds: float = Field(
        30, gt=0, le=600, description="After that: longest wait for calls under way."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level logged.")
    log_format: Literal["console", "json"] = Field("console", description="How log lines look.")

    # Traces; further OTEL_* variables are read by OpenTelemetry itself (docs/operations.md)
    otel_exporter_otlp_endpoint: str | None = Field(
        None, description="Base URL of an OpenTelemetry collector (OTLP over HTTP). Unset: no traces."
    )
    otel_exporter_otlp_traces_endpoint: str | None = Field(
        None, description="The whole URL for traces, where it is not the base URL and /v1/traces."
    )
    otel_exporter_otlp_protocol: Literal["http/protobuf"] = Field(
        "http/protobuf", description="The one protocol that traces are sent with."
    )
    otel_exporter_otlp_headers: SecretStr | None = Field(
        None, description="Headers for the collector, `name=value,...`, e.g. its key."
    )
    otel_service_name: str = Field("utcp-gateway", description="The service's name in traces.")
    otel_traces_sampler: Sampler = Field(
        "parentbased_traceidratio", description="Which calls are traced; the specification's names."
    )
    otel_traces_sampler_arg: float = Field(1.0, ge=0, le=1, description="The share of calls of a ratio.")
    otel_sdk_disabled: bool = Field(default=False, description="No traces, whatever else is set.")

    @field_validator(
        "allowed_hosts",
        "cors_origins",
        "variable_env_names",
        "allow_networks",
        "allow_ports",
        "file_folders",
        mode="before",
    )
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value

    @field_validator("public_base_url", "otel_exporter_otlp_endpoint", "otel_exporter_otlp_traces_endpoint")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            msg = "must begin with https:// or http://"
            raise ValueError(msg)
        return value.rstrip("/") if value else None

    @field_validator("key_rate_limit")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        if value is not None:
            RateLimit.parse(value)
        return value

    @model_validator(mode="after")
    def _one_key_source(self) -> Self:
        if self.sealing_keys is not None and self.sealing_keys_file is not None:
            msg = "set SEALING_KEYS or SEALING_KEYS_FILE, not both"
            raise ValueError(msg)
        return self

    def usual_rate(self) -> RateLimit | None:
        """The rate limit of keys that have none of their own."""
        return None if self.key_rate_limit is None else RateLimit.parse(self.key_rate_limit, own=False)

    @property
    def base_url(self) -> str:
        """The public address without a trailing slash, `root_path` included."""
        if self.public_base_url:
            return self.public_base_url
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104
        return f"http://{host}:{self.port}{self.root_path.rstrip('/')}"

    def otlp_headers(self) -> dict[str, str]:
        """The headers for the collector; names and values are percent-decoded, as OpenTelemetry says."""
        if self.otel_exporter_otlp_headers is None:
            return {}
        pairs = (
            pair.partition("=") for pair in self.otel_exporter_otlp_headers.get_secret_value().split(",")
        )
        return {
            unquote(name).strip().lower(): unquote(value).strip() for name, _, value in pairs if name.strip()
        }

    @property
    def spool_dir(self) -> Path:
        """Where the spool lies."""
        return self.audit_spool_dir or self.data_dir / "spool"

    @property
    def grace_seconds(self) -> float:
        """Ctrl-C of a developer is quick; a balancer needs a moment to see that we are not ready."""
        if self.shutdown_grace_seconds is not None:
            return self.shutdown_grace_seconds
        return 0.0 if self.embedded or self.database_url is None else 2.0

    def key_ring(self) -> str:
        """The text of the key ring; `ValueError` when there is none, because no key is ever made up."""
        if self.sealing_keys is not None:
            return self.sealing_keys.get_secret_value()
        if self.sealing_keys_file is not None:
            return self.sealing_keys_file.read_text().strip()
        msg = "Set SEALING_KEYS or SEALING_KEYS_FILE: `utcp-gateway bootstrap --new-sealing-key` prints one."
        raise ValueError(msg)
