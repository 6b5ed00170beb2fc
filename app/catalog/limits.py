"""Limits and policies of calls: the gateway's settings, overridden by a provider's own limits."""

from collections.abc import Mapping
from typing import Any

from app.core.settings import Settings
from app.formats.toolclad.contract import Contract
from app.outbound.limits import Limits
from app.outbound.resilience import OriginPolicy


def limits_of(
    overrides: Mapping[str, Any], settings: Settings, *, contract: Contract | None = None
) -> Limits:
    """Return the time and size limits of a call: the gateway's, overridden by the provider's `limits`.

    `timeout_seconds` of a contract takes the place of the gateway's times; the provider's may shorten it.
    """
    first_byte, total, idle = settings.first_byte_timeout, settings.total_timeout, settings.idle_timeout
    if contract is not None:
        first_byte = total = idle = float(contract.timeout_seconds)
    return Limits(
        connect=float(overrides.get("connect") or settings.connect_timeout),
        first_byte=float(overrides.get("first_byte") or first_byte),
        total=min(float(overrides.get("total") or total), total if contract is not None else float("inf")),
        idle=float(overrides.get("idle") or idle),
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
