"""Isolation of slow or failed upstreams: per origin, in this process, for any protocol.

    Origin --> Bulkhead         how many calls run at once, and which wait
           --> CircuitBreaker   whether calls are sent at all
           --> RetryBudget      how many calls may be retried

Nothing here depends on a protocol, a plan or a request; no state is shared between workers.
"""

from app.outbound.resilience.breaker import BreakerState, CircuitBreaker
from app.outbound.resilience.budget import RetryBudget
from app.outbound.resilience.bulkhead import Bulkhead
from app.outbound.resilience.origin import Origin, Origins
from app.outbound.resilience.outcomes import AttemptOutcome, classify_error
from app.outbound.resilience.policy import OriginPolicy

__all__ = [
    "AttemptOutcome",
    "BreakerState",
    "Bulkhead",
    "CircuitBreaker",
    "Origin",
    "OriginPolicy",
    "Origins",
    "RetryBudget",
    "classify_error",
]
