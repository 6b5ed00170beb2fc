"""Isolation of slow or failed upstreams: per origin, in this process, for any protocol.

    Origin --> Bulkhead         how many calls run at once, and which wait
           --> CircuitBreaker   whether calls are sent at all
           --> RetryBudget      how many calls may be retried

Nothing here depends on a protocol, a plan or a request; no state is shared between workers.
"""

from app.resilience.breaker import Breaker, BreakerState
from app.resilience.budget import Budget
from app.resilience.bulkhead import Bulkhead
from app.resilience.origin import Origin, Origins
from app.resilience.policy import Policy
from app.resilience.verdicts import Verdict, judge

__all__ = [
    "Breaker",
    "BreakerState",
    "Budget",
    "Bulkhead",
    "Origin",
    "Origins",
    "Policy",
    "Verdict",
    "judge",
]
