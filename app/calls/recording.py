"""The record of one call, written exactly once, whichever way the call ends."""

import random
import time
from asyncio import Future
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from uuid import UUID

import orjson
from starlette.requests import ClientDisconnect

from app.call_log.bodies import Bodies, BodyKeeper
from app.call_log.entries import RUNNING, CallEntry, Recorder
from app.calls.rate_limiter import Standing
from app.catalog.plan import Plan
from app.errors import GatewayError, UpstreamAnswer, UpstreamError, UpstreamTimeout
from app.resilience import judge
from app.security.principal import Principal
from app.telemetry.context import CALL_ID
from app.telemetry.metrics import OTHER, Metrics
from app.telemetry.tracing import CallTrace

CANCELLED = "cancelled"
"""The outcome of a call whose caller left before its answer was complete."""
REPLAYED = "replayed"
"""The outcome of a call that got what an earlier one with its Idempotency-Key had got."""
_CLIENT_LEFT = 499
_LOW_62 = (1 << 62) - 1
_NO_HEADERS: Mapping[bytes, bytes] = MappingProxyType({})
# A call that ran into its deadline is recorded a little later.
_LATE = timedelta(seconds=5)
# Timers round to milliseconds: what fails so near to the caller's own deadline failed because of it.
_CLOSE = 0.005


def _call_id() -> UUID:
    """A UUIDv7 (RFC 9562 section 5.7) in 1 us; it must be unique, not secret, and `os.urandom` costs 5 us.

    The generator of the `random` module is seeded from the system, and again after a fork.
    """
    noise = random.getrandbits(74)
    value = (time.time_ns() // 1_000_000) << 80 | 0x7 << 76 | (noise >> 62) << 64 | 0x2 << 62
    return UUID(int=value | (noise & _LOW_62))


class Attempt:
    """A call under way. `settle` or `fail` ends it; after that, both do nothing.

    `head` are the caller's headers, in lower case. `permit` is what `plan.upstream` gave, 0 before that; the
    end of the call gives it back. `attempts` counts how often it was sent, `streams` says that its answer is
    on its way. `hurried` is the `loop.time()` at which a caller wants to be answered that is in a hurry.
    `headers` are sent along, `repeatable` says that they make it safe to send it again; `standing` is how its
    rate limits stand, and `detached` that it goes on without its caller, and ends itself. `trace` is None
    unless the call is traced.
    `bodies` takes its bodies where they are kept; `stored` is what `kept` waits for, if anything.
    `holds` says that the record of the end is not stored but `held`, to be stored with something else.
    """

    __slots__ = (
        "_began",
        "_calls",
        "_deadline",
        "_ended",
        "_keeper",
        "_metrics",
        "_name",
        "_principal",
        "at",
        "attempts",
        "bodies",
        "call_id",
        "detached",
        "head",
        "headers",
        "held",
        "holds",
        "hurried",
        "id",
        "permit",
        "plan",
        "repeatable",
        "request_bytes",
        "standing",
        "stored",
        "streams",
        "trace",
        "upstream_seconds",
    )

    def __init__(
        self,
        name: str,
        principal: Principal,
        *,
        calls: Recorder,
        metrics: Metrics,
        head: Mapping[bytes, bytes] = _NO_HEADERS,
        keeper: BodyKeeper | None = None,
    ) -> None:
        self.id = _call_id()
        self.call_id = str(self.id)
        self.at = datetime.now(UTC)
        self.plan: Plan | None = None
        self.head = head
        self.permit = 0
        self.attempts = 0
        self.streams = False
        self.hurried: float | None = None
        self.headers: tuple[tuple[str, str], ...] = ()
        self.repeatable = False
        self.standing: Standing | None = None
        self.detached = False
        self.request_bytes = 0
        self.trace: CallTrace | None = None
        self.upstream_seconds = 0.0
        self._name = name
        self._principal = principal
        self._calls = calls
        self._metrics = metrics
        self._began = time.perf_counter()
        self._ended = False
        self._deadline: datetime | None = None
        self._keeper = keeper
        self.bodies: Bodies | None = None if keeper is None else keeper.begin()
        self.stored: Future[bool] | None = None
        self.holds = False
        self.held: CallEntry | None = None
        metrics.calls_in_flight += 1
        CALL_ID.set(self.call_id)

    def seconds(self) -> float:
        """Since the beginning of the call."""
        return time.perf_counter() - self._began

    @property
    def durable(self) -> bool:
        """Whether the end must be `kept` before the caller has the whole answer."""
        return self._calls.durable

    @property
    def on_record(self) -> bool:
        """Whether the call was put on record before it is made."""
        return self._deadline is not None

    def intent(self, seconds: float) -> CallEntry:
        """The record of a call that is about to be made, and may take so long."""
        entry = self._entry(RUNNING, 0, None, 0)
        entry.deadline = datetime.now(UTC) + timedelta(seconds=seconds) + _LATE
        return entry

    async def intend(self, seconds: float) -> None:
        """Puts a call that is about to be made, and may take so long, on record; AuditUnavailable if not."""
        entry = self.intent(seconds)
        await self._calls.intend(entry)
        self._deadline = entry.deadline

    def intended(self, entry: CallEntry) -> None:
        """The intent has been stored otherwise; the record of the end will be `held` for the same way."""
        self._deadline = entry.deadline
        self.holds = True

    def take_held(self) -> CallEntry | None:
        """The record that is held, to be stored with something else; `record` takes it back."""
        entry, self.held = self.held, None
        return entry

    def record(self, entry: CallEntry) -> None:
        """Stores a record that was held in the recorder's own way; `kept` waits for it."""
        self.stored = self._calls.record(entry)

    def let_go(self) -> None:
        """Holds no record any more: one that is held, or comes, is stored in the recorder's own way."""
        self.holds = False
        entry = self.take_held()
        if entry is not None:
            self.record(entry)

    async def kept(self) -> None:
        """Waits, after the end, until it is as durable as the mode of the audit says."""
        if self.stored is not None:
            await self._calls.kept(self.stored)

    async def conclude(self, *, upstream_status: int, response_bytes: int) -> None:
        """In a durable mode: `settle` and `kept` in one, ahead of the last bytes of the answer."""
        self.settle(upstream_status=upstream_status, response_bytes=response_bytes)
        await self.kept()

    def settle(self, *, upstream_status: int, response_bytes: int) -> None:
        """The whole answer was handed to the server."""
        if self.streams and self.plan is not None and not self._ended:
            self.plan.upstream.answered(self.permit)
        self._end("ok", 200, upstream_status, response_bytes)

    def replay(self, status: int, *, response_bytes: int) -> None:
        """The outcome of an earlier call was given again."""
        self._end(REPLAYED, status, None, response_bytes)

    def fail(
        self, error: BaseException, *, response_bytes: int = 0, upstream_status: int | None = None
    ) -> None:
        """The call ended with an error, or (CancelledError, ClientDisconnect) because its caller left."""
        if isinstance(error, GatewayError):
            if isinstance(error, UpstreamError):
                if error.answer is not None:
                    upstream_status = error.answer.status
                    self._add_refusal(error.answer)
                if self.streams:
                    self.blame(error)
            self._end(error.slug, error.status, upstream_status, response_bytes)
        elif isinstance(error, Exception) and not isinstance(error, OSError | ClientDisconnect):
            self._end(GatewayError.slug, GatewayError.status, upstream_status, response_bytes)
        else:
            self._end(CANCELLED, _CLIENT_LEFT, upstream_status, response_bytes)

    def blame(self, error: UpstreamError) -> None:
        """Tells the upstream's breaker what an attempt came to, unless the caller's own hurry ended it."""
        plan, hurried = self.plan, self.hurried
        if plan is None or not self.permit:
            return
        late = hurried is not None and plan.upstream.now() >= hurried - _CLOSE
        if late and isinstance(error, UpstreamTimeout):
            return
        plan.upstream.failed(self.permit, judge(error))

    def _end(self, outcome: str, status: int, upstream_status: int | None, response_bytes: int) -> None:
        if self._ended:
            return
        self._ended = True
        entry = self._entry(outcome, status, upstream_status, response_bytes)
        plan = self.plan
        if plan is not None and self.permit:
            plan.upstream.leave(self.permit)
        metrics = self._metrics
        metrics.calls_in_flight -= 1
        seconds = entry.duration_ms / 1000
        metrics.observe_call(entry.provider or OTHER, outcome, seconds, self.upstream_seconds, self.attempts)
        if self.trace is not None:
            tool = plan.name if plan is not None else ""
            self.trace.end(provider=entry.provider, tool=tool, outcome=outcome, status=status)
        if self.holds:
            self.held = entry
        else:
            self.stored = self._calls.record(entry)

    def _entry(
        self, outcome: str, status: int, upstream_status: int | None, response_bytes: int
    ) -> CallEntry:
        plan = self.plan
        entry = CallEntry(
            id=self.id,
            at=self.at,
            tenant_id=self._principal.tenant_id,
            key_id=self._principal.key_id,
            provider=plan.provider if plan is not None else "",
            tool=plan.name if plan is not None else self._name,
            outcome=outcome,
            status=status,
            duration_ms=self.seconds() * 1000,
            upstream_status=upstream_status,
            request_bytes=self.request_bytes,
            response_bytes=response_bytes,
            attempts=self.attempts,
            safe=plan.safe if plan is not None else None,
            deadline=self._deadline,
        )
        if self.bodies is not None and self._keeper is not None:
            self._keeper.seal(self.bodies, entry)
        return entry

    def _add_refusal(self, answer: UpstreamAnswer) -> None:
        """What an upstream said when it refused is the result that is kept."""
        if self.bodies is not None and answer.body is not None:
            self.bodies.result.add(orjson.dumps(answer.body))
