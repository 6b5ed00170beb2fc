"""Limits and policies of calls: the gateway's settings, overridden by a provider's own limits."""

from collections.abc import Mapping
from typing import Any

from app.outbound.limits import Limits
from app.resilience import OriginPolicy
from app.settings import Settings


def limits_of(overrides: Mapping[str, Any], settings: Settings) -> Limits:
    """Return the time and size limits of a call: the gateway's, overridden by the provider's `limits`."""
    return Limits(
        connect=float(overrides.get("connect") or settings.connect_timeout),
        first_byte=float(overrides.get("first_byte") or settings.first_byte_timeout),
        total=float(overrides.get("total") or settings.total_timeout),
        idle=float(overrides.get("idle") or settings.idle_timeout),
        response_bytes=int(overrides.get("response_bytes") or settings.max_response_bytes),
        stream=float(overrides.get("stream") or settings.stream_timeout),
        event_bytes=settings.stream_event_bytes,
    )


def policy_of(overrides: Mapping[str, Any], settings: Settings) -> OriginPolicy:
    """Return the policy for an origin: the gateway's, overridden by the provider's `limits`."""

    def own(name: str, otherwise: int) -> int:
        value = overrides.get(name)
        return otherwise if value is None else int(value)

    return OriginPolicy(
        concurrency=own("concurrency", settings.origin_concurrency),
        max_queued=settings.origin_queue,
        queue_timeout=settings.origin_queue_timeout,
        failure_threshold=own("breaker_failures", settings.breaker_failures),
        failure_ratio=settings.breaker_failure_ratio,
        min_calls=settings.breaker_min_calls,
        window_seconds=settings.breaker_window,
        open_seconds=settings.breaker_open_seconds,
        open_max=max(settings.breaker_open_max, settings.breaker_open_seconds),
        max_attempts=own("attempts", settings.retry_attempts),
        retry_budget=settings.retry_budget,
    )
