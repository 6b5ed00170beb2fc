"""One call: what its stages set while it is executed, and what its interface reads of how it ended."""

import asyncio
from typing import Any, Final

from app.calls.arguments.repairs import repair_mode
from app.calls.rate_limiter import RateLimitState
from app.calls.recorder import APPROVAL_PENDING, CANCELLED, INVALID_RESPONSE, REPLAYED, CallRecorder
from app.calls.request import CallRequest, ClientDisconnected
from app.catalog.plan import Plan
from app.core.errors import GatewayError, UpstreamError, UpstreamTimeout
from app.core.upstream_mode import CallSource, UpstreamMode, choose_mode
from app.formats.json_schema.repair import Repair
from app.formats.toolclad.envelope import Evidence
from app.outbound.resilience import classify_error
from app.protocols.base import Result
from app.security.principal import Principal, RepairMode
from app.security.response_masking import ResponseMasker

CLIENT_CLOSED_REQUEST: Final = 499
"""The recorded status of a call whose client disconnected, as in nginx; no response has it."""
ACCEPTED: Final = 202
"""The status of a call that waits for approval."""
# Timers round to milliseconds: a failure so close to the client's own deadline is due to that deadline.
_DEADLINE_TOLERANCE_SECONDS: Final = 0.005


class CallContext:
    """A call, in progress or ended. `complete`, `replay`, `wait_for_approval` or `fail` ends it; after that,
    they do nothing.

    The outcome is a `result`, an `error`, or the `approval` that it waits for; exactly one is set at the end.
    A result with a whole body has been recorded. One with a `stream` or `events` is recorded once it has been
    passed on: the interface reads it, passes each piece to `add_result`, closes it, and then calls `complete`
    or `fail`. A GatewayError may be shown to the client; any other error is an unexpected one, or
    ClientDisconnected.

    `plan` is set once the tool is found and may be called. `permit` is the permit of `plan.upstream`, 0
    before it is acquired; the end of the call releases it. `deadline` is the `loop.time()` by which the
    upstream must have responded; `events_deadline` is that by which a stream of events must have ended, None
    unless the client accepts events. `client_deadline` is set where the client's own deadline precedes the
    limits of the tool. `headers` are added to the upstream request; `is_repeatable` says that they make it
    safe to send the call again. `streams` says that the response has begun and its body is still being
    received. `detached` says that the call continues without its client, and records its own end. `replayed`
    says that the outcome is the stored one of an earlier call. `has_violations` says that the response was
    validated, and does not fit the output schema of the tool. `repairs` are those of the arguments.
    `upstream` is its upstream mode, None for live calls. `response_masker` has masked the response of the
    upstream; None where nothing is masked. `evidence` is that of a call of a ToolClad tool, once it has been
    made.
    """

    __slots__ = (
        "approval",
        "client_deadline",
        "deadline",
        "detached",
        "error",
        "events_deadline",
        "evidence",
        "has_violations",
        "headers",
        "is_repeatable",
        "permit",
        "plan",
        "preset_masker",
        "rate_limit_state",
        "recorder",
        "repairs",
        "replayed",
        "request",
        "response_masker",
        "result",
        "streams",
        "upstream",
    )

    plan: Plan
    deadline: float

    def __init__(self, request: CallRequest, recorder: CallRecorder) -> None:
        self.request = request
        self.recorder = recorder
        self.result: Result | None = None
        self.error: Exception | None = None
        self.approval: dict[str, Any] | None = None
        self.permit = 0
        self.events_deadline: float | None = None
        self.client_deadline: float | None = None
        self.headers: tuple[tuple[str, str], ...] = ()
        self.is_repeatable = False
        self.rate_limit_state: RateLimitState | None = None
        self.streams = False
        self.detached = False
        self.replayed = False
        self.has_violations = False
        self.repairs: tuple[Repair, ...] = ()
        self.preset_masker: ResponseMasker | None = None
        self.upstream: UpstreamMode | None = None
        if request.principal.upstream is not None or request.upstream is not None:
            self.upstream = choose_mode(request.principal.upstream, request.upstream)
            recorder.source = "upstream" if self.upstream is None else self.upstream.source
        self.response_masker: ResponseMasker | None = None
        self.evidence: Evidence | None = None

    def set_deadlines(self, now: float, *, events: bool) -> None:
        """Set the deadlines: the earlier of the tool's limits, counted from `now` (`loop.time()`), and the
        client's own deadline.
        """
        limits = self.plan.limits
        deadline = now + limits.total
        events_deadline = now + limits.stream if events else None
        client = self.request.deadline
        if client is not None:
            if client < (deadline if events_deadline is None else events_deadline):
                self.client_deadline = client
            deadline = min(deadline, client)
            events_deadline = None if events_deadline is None else min(events_deadline, client)
        self.deadline = deadline
        self.events_deadline = events_deadline

    def complete(self, *, upstream_status: int, response_bytes: int) -> None:
        """End the call successfully: the whole response was passed on; sizes in bytes."""
        recorder = self.recorder
        if self.streams and not recorder.ended:
            self.plan.upstream.record_success(self.permit)
        outcome = INVALID_RESPONSE if self.has_violations else "ok"
        self._end(outcome, 200, upstream_status, response_bytes)

    def replay(self, status: int, *, response_bytes: int) -> None:
        """End the call with the stored outcome of an earlier one."""
        self.replayed = True
        self._end(REPLAYED, status, None, response_bytes)

    def wait_for_approval(self) -> None:
        """End the call, which was not made: it waits for approval."""
        self._end(APPROVAL_PENDING, ACCEPTED, None, 0)

    def fail(
        self, error: BaseException, *, response_bytes: int = 0, upstream_status: int | None = None
    ) -> None:
        """End the call with an error; CancelledError and OSError mean that the client disconnected."""
        if isinstance(error, GatewayError):
            if isinstance(error, UpstreamError):
                if error.response is not None:
                    upstream_status = error.response.status
                    self.recorder.add_error_response(error.response)
                if self.streams:
                    self.report_failure(error)
            self._end(error.slug, error.status, upstream_status, response_bytes)
        elif isinstance(error, Exception) and not isinstance(error, OSError):
            self._end(GatewayError.slug, GatewayError.status, upstream_status, response_bytes)
        else:
            self._end(CANCELLED, CLIENT_CLOSED_REQUEST, upstream_status, response_bytes)

    def report_failure(self, error: UpstreamError) -> None:
        """Report a failed attempt to the upstream's breaker, unless the client's own deadline caused it, or
        the error does not count.
        """
        if not self.permit or not error.counts_for_breaker:
            return
        upstream = self.plan.upstream
        deadline = self.client_deadline
        is_client_deadline = deadline is not None and upstream.now() >= deadline - _DEADLINE_TOLERANCE_SECONDS
        if is_client_deadline and isinstance(error, UpstreamTimeout):
            return
        upstream.record_failure(self.permit, classify_error(error))

    @property
    def call_id(self) -> str:
        """The id of the call; for a replayed outcome, that of the first call."""
        return self.recorder.call_id

    @property
    def status(self) -> int:
        """The HTTP status of the outcome."""
        error = self.error
        if error is None:
            return 200 if self.approval is None else ACCEPTED
        if isinstance(error, GatewayError):
            return error.status
        return CLIENT_CLOSED_REQUEST if isinstance(error, ClientDisconnected) else GatewayError.status

    @property
    def repair_mode(self) -> RepairMode:
        """Which repairs of its arguments the call allowed."""
        return repair_mode(self.request)

    @property
    def provider(self) -> str:
        """The name of the tool's provider; "" where no tool was found."""
        plan: Plan | None = getattr(self, "plan", None)
        return "" if plan is None else plan.provider

    @property
    def tool(self) -> str:
        """The canonical name of the tool; "" where no tool was found."""
        plan: Plan | None = getattr(self, "plan", None)
        return "" if plan is None else plan.name

    @property
    def principal(self) -> Principal:
        """The principal of the call."""
        return self.request.principal

    @property
    def durable(self) -> bool:
        """Whether the end must be recorded before the client has the whole response: then call `conclude`."""
        return self.recorder.durable

    @property
    def upstream_seconds(self) -> float:
        """Seconds that the upstream took: all attempts, and the time between them."""
        return self.recorder.upstream_seconds

    def seconds(self) -> float:
        """Return the seconds since the call began."""
        return self.recorder.seconds()

    @property
    def source(self) -> CallSource:
        """What the response came from."""
        return self.recorder.source

    def add_result(self, piece: bytes) -> None:
        """Add a piece of a streamed response to its recorded body, where bodies are recorded."""
        self.recorder.add_result(piece)

    async def conclude(self, *, upstream_status: int, response_bytes: int) -> None:
        """Do `complete`, and wait until it is recorded; call this before sending the last bytes of a
        `durable` call.
        """
        self.complete(upstream_status=upstream_status, response_bytes=response_bytes)
        await self.recorder.wait_recorded()

    async def conclude_failed(
        self, error: BaseException, *, response_bytes: int = 0, upstream_status: int | None = None
    ) -> None:
        """Do `fail`, and wait until it is recorded, unless the client has disconnected (CancelledError,
        OSError).
        """
        self.fail(error, response_bytes=response_bytes, upstream_status=upstream_status)
        if not isinstance(error, asyncio.CancelledError | OSError):
            await self.recorder.wait_recorded()

    def _end(self, outcome: str, status: int, upstream_status: int | None, response_bytes: int) -> None:
        recorder = self.recorder
        if recorder.ended:
            return
        if self.evidence is not None and not self.replayed:
            recorder.add_evidence(self.evidence)
        recorder.end(outcome, status, upstream_status, response_bytes)
        if self.permit:
            self.plan.upstream.release(self.permit)
