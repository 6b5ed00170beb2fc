"""The record of one call, its metrics and its trace; written exactly once, whichever way the call ends."""

import random
import time
from asyncio import Future
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import orjson

from app.call_log.bodies import BodyBuffers, BodyRecorder
from app.call_log.entries import RUNNING, CallLog, CallLogEntry
from app.calls.request import CallRequest
from app.catalog.plan import Plan
from app.errors import UpstreamErrorResponse
from app.telemetry.context import CALL_ID
from app.telemetry.metrics import OTHER, Metrics
from app.telemetry.traces import CallTrace, Tracer

CANCELLED: Final = "cancelled"
"""The outcome of a call whose client left before its response was complete."""
REPLAYED: Final = "replayed"
"""The outcome of a call that got the stored outcome of an earlier one with its idempotency key."""
_LOW_62: Final = (1 << 62) - 1
# A call that ran into its deadline is recorded a little later.
_GRACE: Final = timedelta(seconds=5)


def _call_id() -> UUID:
    """A UUIDv7 (RFC 9562 section 5.7) in 1 us; it must be unique, not secret, and `os.urandom` costs 5 us.

    The generator of the `random` module is seeded from the system, and again after a fork.
    """
    noise = random.getrandbits(74)
    value = (time.time_ns() // 1_000_000) << 80 | 0x7 << 76 | (noise >> 62) << 64 | 0x2 << 62
    return UUID(int=value | (noise & _LOW_62))


class CallRecorder:
    """Records one call in the call log, the metrics and the trace. `end` does it once; later ones do nothing.

    `id` is the call's, `call_id` what the client is told (for a replayed outcome, the id of the first call).
    `plan` is None until the tool is known. `tries` counts how often the call was sent to its upstream,
    `upstream_seconds` is how long that took. `trace` is None unless the call is traced, `bodies` unless they
    are recorded. `stored` is what `wait_recorded` waits for, if anything. `holds` says that the record of the
    end is not stored but `held`, to be stored together with the outcome of an idempotent call.
    """

    __slots__ = (
        "_began",
        "_body_keeper",
        "_call_log",
        "_deadline",
        "_metrics",
        "_request",
        "at",
        "bodies",
        "call_id",
        "ended",
        "held",
        "holds",
        "id",
        "plan",
        "request_bytes",
        "stored",
        "trace",
        "tries",
        "upstream_seconds",
    )

    def __init__(
        self,
        request: CallRequest,
        *,
        call_log: CallLog,
        metrics: Metrics,
        tracer: Tracer | None = None,
        body_keeper: BodyRecorder | None = None,
    ) -> None:
        self.id = _call_id()
        self.call_id = str(self.id)
        self.at = datetime.now(UTC)
        self.plan: Plan | None = None
        self.tries = 0
        self.request_bytes = 0
        self.upstream_seconds = 0.0
        self.ended = False
        self.stored: Future[bool] | None = None
        self.holds = False
        self.held: CallLogEntry | None = None
        self._request = request
        self._call_log = call_log
        self._metrics = metrics
        self._began = time.perf_counter()
        self._deadline: datetime | None = None
        self._body_keeper = body_keeper
        self.bodies: BodyBuffers | None = None if body_keeper is None else body_keeper.new_bodies()
        metrics.calls_in_flight += 1
        CALL_ID.set(self.call_id)
        self.trace: CallTrace | None = None
        if tracer is not None:
            self.trace = tracer.start_trace(
                request.trace_headers, route=request.interface, call_id=self.call_id
            )

    def seconds(self) -> float:
        """Return the seconds since the beginning of the call."""
        return time.perf_counter() - self._began

    @property
    def durable(self) -> bool:
        """Whether the end must be recorded before the client has the whole response."""
        return self._call_log.durable

    @property
    def on_record(self) -> bool:
        """Whether the call was recorded before it is made."""
        return self._deadline is not None

    def add_arguments(self, body: bytes) -> None:
        """Note the arguments as they were received."""
        self.request_bytes = len(body)
        if self.bodies is not None:
            self.bodies.arguments.add(body)

    def add_result(self, piece: bytes) -> None:
        """Note a piece of the response, where bodies are recorded."""
        if self.bodies is not None:
            self.bodies.result.add(piece)

    def begin_result(self, media_type: str) -> None:
        """Note the media type of the response, where bodies are recorded."""
        if self.bodies is not None:
            self.bodies.result.media_type = media_type

    def add_rejection(self, answer: UpstreamErrorResponse) -> None:
        """Note what an upstream said when it rejected the call: it is recorded as the result."""
        if self.bodies is not None and answer.body is not None:
            self.bodies.result.add(orjson.dumps(answer.body))

    def intent(self, seconds: float) -> CallLogEntry:
        """Return the record of a call that is about to be made and may take so many seconds."""
        entry = self._entry(RUNNING, 0, None, 0)
        entry.deadline = datetime.now(UTC) + timedelta(seconds=seconds) + _GRACE
        return entry

    async def record_intent(self, seconds: float) -> None:
        """Record a call that is about to be made and may take so many seconds; raises CallLogUnavailable."""
        entry = self.intent(seconds)
        await self._call_log.record_intent(entry)
        self._deadline = entry.deadline

    def intent_recorded(self, entry: CallLogEntry) -> None:
        """Note that the intent was stored with an idempotency key; the record of the end will be `held`."""
        self._deadline = entry.deadline
        self.holds = True

    def take_held(self) -> CallLogEntry | None:
        """Return the held record, to be stored together with something else; `record` takes it back."""
        entry, self.held = self.held, None
        return entry

    def record(self, entry: CallLogEntry) -> None:
        """Store a record that was held in the call log's own way; `wait_recorded` waits for it."""
        self.stored = self._call_log.record(entry)

    def stop_holding(self) -> None:
        """Hold no record any more: one that is held, or comes, is stored in the call log's own way."""
        self.holds = False
        entry = self.take_held()
        if entry is not None:
            self.record(entry)

    async def wait_recorded(self) -> None:
        """Wait, after the end, until the record is as durable as CALL_LOG_MODE says."""
        if self.stored is not None:
            await self._call_log.wait_recorded(self.stored)

    def end(self, outcome: str, status: int, upstream_status: int | None, response_bytes: int) -> None:
        """Record the end: `outcome` is `ok`, CANCELLED, REPLAYED or the slug of an error."""
        if self.ended:
            return
        self.ended = True
        entry = self._entry(outcome, status, upstream_status, response_bytes)
        metrics = self._metrics
        metrics.calls_in_flight -= 1
        seconds = entry.duration_ms / 1000
        metrics.observe_call(entry.provider or OTHER, outcome, seconds, self.upstream_seconds, self.tries)
        if self.trace is not None:
            tool = self.plan.name if self.plan is not None else ""
            self.trace.end(provider=entry.provider, tool=tool, outcome=outcome, status=status)
        if self.holds:
            self.held = entry
        else:
            self.stored = self._call_log.record(entry)

    def _entry(
        self, outcome: str, status: int, upstream_status: int | None, response_bytes: int
    ) -> CallLogEntry:
        plan = self.plan
        request = self._request
        entry = CallLogEntry(
            id=self.id,
            at=self.at,
            tenant_id=request.principal.tenant_id,
            key_id=request.principal.key_id,
            provider=plan.provider if plan is not None else "",
            tool=plan.name if plan is not None else request.tool,
            outcome=outcome,
            status=status,
            duration_ms=self.seconds() * 1000,
            upstream_status=upstream_status,
            request_bytes=self.request_bytes,
            response_bytes=response_bytes,
            attempts=self.tries,
            safe=plan.safe if plan is not None else None,
            deadline=self._deadline,
        )
        if self.bodies is not None and self._body_keeper is not None:
            self._body_keeper.seal(self.bodies, entry)
        return entry
