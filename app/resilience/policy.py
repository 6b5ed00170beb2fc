"""The resilience policy of one origin: the settings, overridden by the limits of its provider."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits and thresholds; times are in seconds. A changed policy has a state of its own for its origins.

    Bulkhead: `concurrency` calls run at once, `max_queued` more may wait, each for at most `queue_timeout`.

    Breaker: `failure_threshold` consecutive failures open it, 0 disables it; so does a ratio of failures of
    `failure_ratio` among at least `min_calls` calls within `window_seconds`. It is open for `open_seconds`
    the first time, and each time after that for twice as long, up to `open_max`.

    Retries: a call is sent at most `max_attempts` times; `retry_budget` is the share of all calls that may be
    retried.
    """

    concurrency: int = 128
    queue: int = 128
    queue_seconds: float = 1.0
    failures: int = 5
    ratio: float = 0.5
    volume: int = 20
    window: float = 10.0
    open_seconds: float = 5.0
    open_most: float = 60.0
    attempts: int = 3
    budget: float = 0.1
