"""What travels with one call while it is executed, and what its interface gets back."""

import asyncio
from typing import Final

from app.calls.rate_limiter import RateLimitState
from app.calls.recorder import CANCELLED, REPLAYED, CallRecorder
from app.calls.request import CallRequest, ClientDisconnected
from app.catalog.plan import Plan
from app.errors import GatewayError, UpstreamError, UpstreamTimeout
from app.protocols.base import Result
from app.resilience import classify_error

CLIENT_LEFT: Final = 499
"""The status of a call whose client left (nginx's own; no response carries it)."""
# Timers round to milliseconds: what fails so near to the client's own deadline failed because of it.
_CLOSE: Final = 0.005


class CallContext:
    """A call under way. `complete`, `replay` or `fail` ends it; after that, all of them do nothing.

    `plan` is set once the tool is found and may be called. `permit` is what `plan.upstream` gave, 0 before
    that; the end of the call returns it. `deadline` is the `loop.time()` until which the upstream must
    respond, `events_deadline` the one until which events may come, None unless the client takes events.
    `client_deadline` is set where the client's own deadline comes before the limits of the tool. `headers`
    are sent along; `is_repeatable` says that they make it safe to send the call again. `streams` says that
    the response is on its way. `detached`: the call goes on without its client and ends itself. `replayed`:
    the outcome is that of an earlier call.
    """

    __slots__ = (
        "client_deadline",
        "deadline",
        "detached",
        "events_deadline",
        "headers",
        "is_repeatable",
        "permit",
        "plan",
        "rate_limit_state",
        "recorder",
        "replayed",
        "request",
        "streams",
    )

    plan: Plan
    deadline: float

    def __init__(self, request: CallRequest, recorder: CallRecorder) -> None:
        self.request = request
        self.recorder = recorder
        self.permit = 0
        self.events_deadline: float | None = None
        self.client_deadline: float | None = None
        self.headers: tuple[tuple[str, str], ...] = ()
        self.is_repeatable = False
        self.rate_limit_state: RateLimitState | None = None
        self.streams = False
        self.detached = False
        self.replayed = False

    def set_deadlines(self, now: float, *, events: bool) -> None:
        """Set when the call ends: by the limits of its tool from `now` (`loop.time()`), or by its client."""
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
        """End the call: the whole response was handed to its interface."""
        recorder = self.recorder
        if self.streams and not recorder.ended:
            self.plan.upstream.record_success(self.permit)
        self._end("ok", 200, upstream_status, response_bytes)

    def replay(self, status: int, *, response_bytes: int) -> None:
        """End the call with the stored outcome of an earlier one."""
        self.replayed = True
        self._end(REPLAYED, status, None, response_bytes)

    def fail(
        self, error: BaseException, *, response_bytes: int = 0, upstream_status: int | None = None
    ) -> None:
        """End the call with an error, or (CancelledError, OSError) because its client left."""
        if isinstance(error, GatewayError):
            if isinstance(error, UpstreamError):
                if error.response is not None:
                    upstream_status = error.response.status
                    self.recorder.add_rejection(error.response)
                if self.streams:
                    self.report_failure(error)
            self._end(error.slug, error.status, upstream_status, response_bytes)
        elif isinstance(error, Exception) and not isinstance(error, OSError):
            self._end(GatewayError.slug, GatewayError.status, upstream_status, response_bytes)
        else:
            self._end(CANCELLED, CLIENT_LEFT, upstream_status, response_bytes)

    def report_failure(self, error: UpstreamError) -> None:
        """Report a failed try to the upstream's breaker, unless the client's own deadline ended it."""
        if not self.permit:
            return
        upstream = self.plan.upstream
        deadline = self.client_deadline
        late = deadline is not None and upstream.now() >= deadline - _CLOSE
        if late and isinstance(error, UpstreamTimeout):
            return
        upstream.record_failure(self.permit, classify_error(error))

    def _end(self, outcome: str, status: int, upstream_status: int | None, response_bytes: int) -> None:
        recorder = self.recorder
        if recorder.ended:
            return
        recorder.end(outcome, status, upstream_status, response_bytes)
        if self.permit:
            self.plan.upstream.release(self.permit)


class CallOutcome:
    """How a call ended: with a `result`, or with an `error`.

    Exactly one of them is set. A result that is whole has been recorded. One with a `stream` or `events` is
    recorded when it has been passed on: the interface reads it, gives each piece to `add_result`, closes it,
    and then calls `complete` or `fail`. A GatewayError is what the client may be told; any other error is one
    that nobody expected, or ClientDisconnected.
    """

    __slots__ = ("_context", "error", "result")

    def __init__(self, context: CallContext) -> None:
        self._context = context
        self.result: Result | None = None
        self.error: Exception | None = None

    @property
    def call_id(self) -> str:
        """The id that the client is told; of a replayed outcome, the first call's."""
        return self._context.recorder.call_id

    @property
    def status(self) -> int:
        """200, the status of the error, 500 for one that nobody expected, 499 where the client left."""
        error = self.error
        if error is None:
            return 200
        if isinstance(error, GatewayError):
            return error.status
        return CLIENT_LEFT if isinstance(error, ClientDisconnected) else GatewayError.status

    @property
    def rate_limit_state(self) -> RateLimitState | None:
        """What the rate limits of the key and of the provider leave; None where neither has one."""
        return self._context.rate_limit_state

    @property
    def replayed(self) -> bool:
        """Whether this is the stored outcome of an earlier call with the same idempotency key."""
        return self._context.replayed

    @property
    def durable(self) -> bool:
        """Whether the end must be recorded before the client has the whole response: use `conclude`."""
        return self._context.recorder.durable

    @property
    def upstream_seconds(self) -> float:
        """Seconds that the upstream took, all tries and what was between them."""
        return self._context.recorder.upstream_seconds

    def seconds(self) -> float:
        """Return the seconds since the beginning of the call."""
        return self._context.recorder.seconds()

    def add_result(self, piece: bytes) -> None:
        """Note a piece of a streamed response, where bodies are recorded."""
        self._context.recorder.add_result(piece)

    def complete(self, *, upstream_status: int, response_bytes: int) -> None:
        """Record that a streamed response was passed on whole, in `response_bytes` bytes."""
        self._context.complete(upstream_status=upstream_status, response_bytes=response_bytes)

    async def conclude(self, *, upstream_status: int, response_bytes: int) -> None:
        """`complete`, and wait until that is recorded: ahead of the last bytes of a `durable` call."""
        self.complete(upstream_status=upstream_status, response_bytes=response_bytes)
        await self._context.recorder.wait_recorded()

    async def fail(
        self, error: BaseException, *, response_bytes: int = 0, upstream_status: int | None = None
    ) -> None:
        """Record that passing the response on failed, and wait until that is recorded where the client is
        still to be told."""
        self._context.fail(error, response_bytes=response_bytes, upstream_status=upstream_status)
        if not isinstance(error, asyncio.CancelledError | OSError):
            await self._context.recorder.wait_recorded()
