"""Settings of calls: destinations, timeouts, sizes, overload, resilience, limits and caching."""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings

from app.core.settings.word_list import WordList


class OutboundSettings(BaseSettings, defer_build=True):
    """Settings of calls to upstreams. Times are in seconds, sizes in bytes."""

    # Protocols that use this machine
    file_folders: WordList = Field(
        (), description="Folders whose files providers and tools of protocol file may read; unset: none."
    )
    filesystem_folders: WordList = Field(
        (),
        description="Folders in which, and below which, tools of protocol filesystem (the plugin filesystem)"
        " may read and write files; unset: none.",
    )
    plugin_folders: WordList = Field(
        (),
        description="Folders with further entries of the plugin catalogue, NAME.yaml each; one replaces the"
        " shipped entry of its name.",
    )

    # Outgoing calls
    allow_networks: WordList = Field(
        (), description="Private networks that may be called, `CIDR` or `CIDR:port`, e.g. 10.2.0.0/16:443."
    )
    allow_ports: WordList = Field((), description="If set, the only ports that may be called.")
    unix_sockets: WordList = Field(
        (),
        description="Absolute paths of the Unix sockets that providers may name (`options.unix_socket`); "
        "unset: none.",
    )
    connect_timeout: float = Field(5, gt=0, description="Timeout for a connection to an upstream.")
    first_byte_timeout: float = Field(30, gt=0, description="Timeout for the first byte of a response.")
    idle_timeout: float = Field(30, gt=0, description="Longest pause within an upstream's response.")
    total_timeout: float = Field(60, gt=0, description="Timeout of a whole call.")
    max_response_bytes: int = Field(256 << 20, ge=1024, description="Largest response of an upstream.")
    undecodable_responses: Literal["reject", "pass"] = Field(
        "reject",
        description="For an HTTP response in an unsupported Content-Encoding: an error, or pass it on"
        " undecoded, in which case no secret in it can be masked.",
    )
    stream_timeout: float = Field(
        3600, gt=0, description="Timeout of a whole call whose response is sent as events."
    )
    stream_event_bytes: int = Field(
        1 << 20, ge=1024, le=64 << 20, description="Largest event of such a response."
    )
    stream_heartbeat_seconds: float = Field(
        15, gt=0, description="Pause in such a response after which a heartbeat is sent."
    )
    client_idle_timeout: float = Field(
        60, gt=0, description="Longest wait for a client to read 64 KiB of a response, or to send its call."
    )
    plan_cache_size: int = Field(10_000, ge=16, description="Compiled tools cached per worker.")

    # Overload, per worker
    max_calls: int = Field(2000, ge=1, description="Concurrent calls; further calls are rejected with 503.")
    overload_max_lag: float = Field(
        0.025, gt=0, le=10, description="Lag of the event loop beyond which calls are rejected, too."
    )

    # Upstreams that fail, per origin and worker
    origin_concurrency: int = Field(128, ge=1, le=10_000, description="Concurrent calls to one origin.")
    origin_queue: int = Field(
        128, ge=0, le=10_000, description="Further calls that may wait for one of these to end."
    )
    origin_queue_timeout: float = Field(1, gt=0, le=60, description="Longest wait of such a call.")
    breaker_failures: int = Field(
        5,
        ge=0,
        le=1000,
        description="Consecutive failures that open an origin's breaker; 0 disables breakers.",
    )
    breaker_failure_ratio: float = Field(0.5, gt=0, le=1, description="Ratio of failures that opens it, too.")
    breaker_min_calls: int = Field(20, ge=1, description="Least number of calls for that ratio.")
    breaker_window: float = Field(10, gt=0, le=3600, description="Period over which that ratio is computed.")
    breaker_open_seconds: float = Field(
        5, gt=0, le=3600, description="How long it is open the first time; each further time, twice as long."
    )
    breaker_open_max: float = Field(60, gt=0, le=3600, description="The longest time for which it is open.")
    retry_attempts: int = Field(3, ge=1, le=3, description="Maximum number of attempts of a call.")
    retry_budget: float = Field(
        0.1, ge=0, le=1, description="Share of an origin's calls that may be retried."
    )
    retry_after_max: float = Field(
        5, ge=0, le=60, description="Longest Retry-After of an upstream that is waited for."
    )

    # Limits and repetition
    key_rate_limit: str | None = Field(
        None,
        description="Calls of keys without a limit of their own: REQUESTS/SECONDS or REQUESTS/SECONDS:BURST.",
    )
    idempotency_retention_seconds: float = Field(
        86400, ge=60, le=30 * 86400, description="How long the outcome of an Idempotency-Key is retained."
    )
    idempotency_max_response_bytes: int = Field(
        1 << 20, ge=1024, le=64 << 20, description="Largest response that is stored for an Idempotency-Key."
    )
    response_cache_bytes: int = Field(
        32 << 20, ge=0, description="Memory per worker for cached responses of providers with `limits.cache`."
    )
