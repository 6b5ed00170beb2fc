"""What executes calls: the services of one worker."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from app.calls.approvals.approved_call import CallApprovals, NoCallApprovals
from app.calls.idempotency.store import IdempotencyStore
from app.calls.log.bodies import BodyRecorder
from app.calls.log.entries import CallLog
from app.calls.rate_limiter import RateLimiter
from app.calls.recordings.interactions import CallRecordings, NoCallRecordings
from app.calls.response.cache import ResponseCache
from app.catalog import Catalog
from app.core.deadlines import TimerQueue
from app.core.telemetry.metrics import Metrics
from app.core.telemetry.traces import Tracer
from app.outbound.credentials import CredentialResolver
from app.security.principal import Principal


class SuggestTools(Protocol):
    """Finds the tools that were probably meant by an unknown name."""

    async def __call__(self, name: str, *, principal: Principal) -> Sequence[str]:
        """Return names of tools that the principal may see, the most similar first."""


async def suggest_nothing(name: str, *, principal: Principal) -> Sequence[str]:  # noqa: ARG001 - a SuggestTools.
    """Return no names: where there is no index of the tools."""
    return ()


@dataclass(slots=True)
class CallServices:
    """The services that execute calls; one instance per worker.

    `call_log` stores the records; `bodies` seals recorded bodies, None where these are not recorded. A
    Retry-After of more than `max_retry_after` seconds is not waited for; a result of more than
    `max_stored_bytes` bytes is not stored under an idempotency key. `tracer` is None where calls are not
    traced. `identity` names this gateway in the header CDN-Loop. `suggest_tools` is asked where a tool is
    unknown. `approvals` stores the calls of tools that require approval, `recordings` what upstreams gave.
    """

    catalog: Catalog
    resolver: CredentialResolver
    clock: TimerQueue
    call_log: CallLog
    metrics: Metrics
    rate_limiter: RateLimiter
    idempotency: IdempotencyStore
    response_cache: ResponseCache
    max_retry_after: float
    max_stored_bytes: int
    identity: str = ""
    tracer: Tracer | None = None
    bodies: BodyRecorder | None = None
    suggest_tools: SuggestTools = suggest_nothing
    approvals: CallApprovals = field(default_factory=NoCallApprovals)
    recordings: CallRecordings = field(default_factory=NoCallRecordings)
