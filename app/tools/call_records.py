"""The record of one call, written exactly once, whichever way the call ends."""

import random
import time
from datetime import UTC, datetime
from uuid import UUID

from app.audit.calls import CallWriter
from app.audit.entries import CallEntry
from app.catalog.plan import Plan
from app.errors import GatewayError, UpstreamError
from app.security.principal import Principal
from app.telemetry.metrics import OTHER, Metrics

CANCELLED = "cancelled"
"""The outcome of a call whose caller left before its answer was complete."""
_CLIENT_LEFT = 499
_LOW_62 = (1 << 62) - 1


def _call_id() -> UUID:
    """A UUIDv7 (RFC 9562 section 5.7) in 1 us; it must be unique, not secret, and `os.urandom` costs 5 us.

    The generator of the `random` module is seeded from the system, and again after a fork.
    """
    noise = random.getrandbits(74)
    value = (time.time_ns() // 1_000_000) << 80 | 0x7 << 76 | (noise >> 62) << 64 | 0x2 << 62
    return UUID(int=value | (noise & _LOW_62))


class Attempt:
    """A call under way. `settle` or `fail` ends it; after that, both do nothing."""

    __slots__ = (
        "_began",
        "_calls",
        "_ended",
        "_metrics",
        "_name",
        "_principal",
        "at",
        "call_id",
        "id",
        "plan",
        "request_bytes",
        "upstream_seconds",
    )

    def __init__(self, name: str, principal: Principal, *, calls: CallWriter, metrics: Metrics) -> None:
        self.id = _call_id()
        self.call_id = str(self.id)
        self.at = datetime.now(UTC)
        self.plan: Plan | None = None
        self.request_bytes = 0
        self.upstream_seconds = 0.0
        self._name = name
        self._principal = principal
        self._calls = calls
        self._metrics = metrics
        self._began = time.perf_counter()
        self._ended = False
        metrics.calls_in_flight.inc()

    def seconds(self) -> float:
        """Since the beginning of the call."""
        return time.perf_counter() - self._began

    def settle(self, *, upstream_status: int, response_bytes: int) -> None:
        """The whole answer was handed to the server."""
        self._end("ok", 200, upstream_status, response_bytes)

    def fail(
        self, error: BaseException, *, response_bytes: int = 0, upstream_status: int | None = None
    ) -> None:
        """The call ended with an error, or (CancelledError, ClientDisconnect) because its caller left."""
        if isinstance(error, GatewayError):
            if isinstance(error, UpstreamError) and error.answer is not None:
                upstream_status = error.answer.status
            self._end(error.slug, error.status, upstream_status, response_bytes)
        elif isinstance(error, Exception) and not isinstance(error, OSError):
            self._end(GatewayError.slug, GatewayError.status, upstream_status, response_bytes)
        else:
            self._end(CANCELLED, _CLIENT_LEFT, upstream_status, response_bytes)

    def _end(self, outcome: str, status: int, upstream_status: int | None, response_bytes: int) -> None:
        if self._ended:
            return
        self._ended = True
        seconds = self.seconds()
        plan = self.plan
        provider = plan.provider if plan is not None else ""
        self._metrics.calls_in_flight.dec()
        self._metrics.observe_call(provider or OTHER, outcome, seconds)
        self._calls.record(
            CallEntry(
                id=self.id,
                at=self.at,
                tenant_id=self._principal.tenant_id,
                key_id=self._principal.key_id,
                provider=provider,
                tool=plan.name if plan is not None else self._name,
                outcome=outcome,
                status=status,
                upstream_status=upstream_status,
                duration_ms=seconds * 1000,
                request_bytes=self.request_bytes,
                response_bytes=response_bytes,
            )
        )
