"""Settings of calls: how long and how much, what fails, what is limited, and what works on this machine."""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings

from app.settings.words import Words


class OutgoingSettings(BaseSettings):
    """Times are in seconds, sizes in bytes."""

    # Protocols that work on this machine
    file_folders: Words = Field(
        (), description="Folders whose files providers and tools of protocol file may read; unset: none."
    )

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
    undecodable_responses: Literal["reject", "pass"] = Field(
        "reject",
        description="What becomes of an HTTP response in a Content-Encoding that is not decoded here: an "
        "error, or its own bytes, in which no secret can be masked.",
    )
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
