"""A circuit breaker: calls to a failing upstream are rejected at once, except for one that probes it.

    closed --consecutive failures, or their ratio--> open --time--> half open --probe succeeds--> closed
                                                       ^                 |
                                                       +--probe fails----+

A call gets a permit, a number that changes with each change of state, and reports its outcome with it: the
outcome of a call that began before such a change is ignored. A success costs an increment and does not read
the clock.
"""

import random
from collections.abc import Callable
from enum import StrEnum

from app.outbound.resilience.outcomes import AttemptOutcome
from app.outbound.resilience.policy import OriginPolicy

# Random variation, so that the replicas do not all probe at once.
_JITTER = 0.2
_MIN_RETRY_SECONDS = 1.0


class BreakerState(StrEnum):
    """The state of a breaker, with its value in metrics and logs."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class CircuitBreaker:
    """The breaker of one origin. `now` returns seconds; `on_change` is called with each new state.

    While `is_tripped` is False, calls may be made with the permit `epoch`; while it is True, `admit` decides.
    """

    __slots__ = (
        "_backoff_level",
        "_closed_at",
        "_consecutive_failures",
        "_failed",
        "_now",
        "_on_change",
        "_open_until",
        "_policy",
        "_probing",
        "_responded",
        "_window_end",
        "epoch",
        "is_tripped",
    )  # fmt: skip

    def __init__(
        self,
        policy: OriginPolicy,
        *,
        now: Callable[[], float],
        on_change: Callable[[BreakerState], None] = lambda _state: None,
    ) -> None:
        self._policy = policy
        self._now = now
        self._on_change = on_change
        self.epoch = 1
        self.is_tripped = False
        self._probing = False
        self._consecutive_failures = 0
        self._responded = 0
        self._failed = 0
        self._window_end = 0.0
        self._open_until = 0.0
        self._backoff_level = 0
        self._closed_at = -policy.open_max

    @property
    def state(self) -> BreakerState:
        """The state; an open breaker is half open while a probe is in progress."""
        if not self.is_tripped:
            return BreakerState.CLOSED
        return BreakerState.HALF_OPEN if self._probing else BreakerState.OPEN

    def admit(self) -> int:
        """Return a permit, or 0 for a call that must not be made. A call admitted while open is the only
        probe.
        """
        if not self.is_tripped:
            return self.epoch
        if not self.would_admit():
            return 0
        self._probing = True
        self.epoch += 1
        self._on_change(BreakerState.HALF_OPEN)
        return self.epoch

    def would_admit(self) -> bool:
        """Return whether `admit` would return a permit now."""
        return not self.is_tripped or self.can_probe()

    def can_probe(self) -> bool:
        """Return whether an open breaker would admit a probe now."""
        return not self._probing and self._now() >= self._open_until

    def retry_after(self) -> float:
        """Return the seconds until the next probe, at least 1: for Retry-After."""
        return max(self._open_until - self._now(), _MIN_RETRY_SECONDS)

    def record_success(self, permit: int) -> None:
        """Record that the upstream responded; close the breaker where this call was the probe."""
        if permit != self.epoch:
            return
        self._responded += 1
        if self._consecutive_failures:
            self._consecutive_failures = 0
        if self._probing:
            self._close()

    def record_failure(self, permit: int, outcome: AttemptOutcome) -> None:
        """Record a failure or a server error; open the breaker where its thresholds are reached."""
        if permit != self.epoch or not self._policy.failure_threshold:
            return
        if self._probing:
            self._open()
            return
        now = self._now()
        if now >= self._window_end:
            # A window begins with a failure, so that successes need not read the clock.
            self._window_end = now + self._policy.window_seconds
            self._responded = self._failed = 0
        self._failed += 1
        if outcome is AttemptOutcome.FAILURE:
            self._consecutive_failures += 1
        calls = self._responded + self._failed
        is_ratio_reached = (
            calls >= self._policy.min_calls and self._failed >= self._policy.failure_ratio * calls
        )
        if is_ratio_reached or self._consecutive_failures >= self._policy.failure_threshold:
            self._open()

    def reset(self) -> None:
        """Close it, and forget all failures: the upstream is known to have been replaced."""
        if self.is_tripped:
            self._close()
        self._consecutive_failures = self._responded = self._failed = self._backoff_level = 0
        self._closed_at = -self._policy.open_max

    def release(self, permit: int) -> None:
        """Release the permit of a call that has ended; a probe without an outcome is followed by another."""
        if self._probing and permit == self.epoch:
            self._probing = False
            self.epoch += 1
            self._on_change(BreakerState.OPEN)

    def _open(self) -> None:
        policy, now = self._policy, self._now()
        is_repeated = self.is_tripped or now < self._closed_at + policy.open_max
        self._backoff_level = self._backoff_level + 1 if is_repeated else 0
        seconds = min(policy.open_seconds * 2.0 ** min(self._backoff_level, 30), policy.open_max)
        self._open_until = now + seconds * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311  Not a secret.
        self.is_tripped = True
        self._change_state(BreakerState.OPEN)

    def _close(self) -> None:
        self.is_tripped = False
        self._closed_at = self._now()
        self._change_state(BreakerState.CLOSED)

    def _change_state(self, state: BreakerState) -> None:
        self._probing = False
        self.epoch += 1
        self._consecutive_failures = self._responded = self._failed = 0
        self._window_end = 0.0
        self._on_change(state)
