"""The resilience policy of one origin: the settings, overridden by the limits of its provider."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OriginPolicy:
    """Limits and thresholds; times are in seconds. A changed policy has a state of its own for its origins.

    Bulkhead: `concurrency` calls run at once, `max_queued` more may wait, each for at most `queue_timeout`.

    Breaker: `failure_threshold` consecutive failures open it, 0 disables it; so does a ratio of failures of
    `failure_ratio` among at least `min_calls` calls within `window_seconds`. It is open for `open_seconds`
    the first time, and each time after that for twice as long, up to `open_max`.

    Retries: a call is sent at most `max_attempts` times; `retry_budget` is the share of all calls that may be
    retried.
    """

    concurrency: int = 128
    max_queued: int = 128
    queue_timeout: float = 1.0
    failure_threshold: int = 5
    failure_ratio: float = 0.5
    min_calls: int = 20
    window_seconds: float = 10.0
    open_seconds: float = 5.0
    open_max: float = 60.0
    max_attempts: int = 3
    retry_budget: float = 0.1
