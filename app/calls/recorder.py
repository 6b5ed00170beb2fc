"""The record of one call, its metrics and its trace; written exactly once, however the call ends."""

import time
from asyncio import Future
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from app.calls.log.bodies import BodyBuffers, BodyRecorder
from app.calls.log.entries import RUNNING, CallLog, CallLogEntry
from app.calls.request import CallRequest
from app.catalog.plan import Plan
from app.core import exact_json
from app.core.errors import UpstreamErrorResponse
from app.core.telemetry.context import CALL_ID
from app.core.telemetry.metrics import OTHER, Metrics
from app.core.telemetry.traces import CallTrace, Tracer
from app.core.upstream_mode import CallSource
from app.core.uuid7 import uuid7
from app.formats.toolclad.envelope import Evidence

CANCELLED: Final = "cancelled"
"""The outcome of a call whose client disconnected before its response was complete."""
REPLAYED: Final = "replayed"
"""The outcome of a call that got the stored outcome of an earlier one with its idempotency key."""
APPROVAL_PENDING: Final = "approval-pending"
"""The outcome of a call that waits for approval, and was not made."""
INVALID_RESPONSE: Final = "invalid-response"
"""The outcome of a call whose response was validated and does not fit the output schema of its tool. The
client got it all the same.
"""
# A call that exceeded its deadline is recorded a little later.
_GRACE: Final = timedelta(seconds=5)


class CallRecorder:
    """Records one call in the call log, the metrics and the trace: at the first call of `end` only.

    `id` is the id of this call, `call_id` the one in the response (for a replayed outcome, that of the first
    call). `plan` is None until the tool is known. `source` is what its response comes from. `attempts` is the
    number of requests sent to the upstream, `upstream_seconds` the time that they took. `trace` is None where
    the call is not traced, `bodies` where bodies are not recorded. `stored` is the future that
    `wait_recorded` waits for, if any. While `defers_record` is True, the record of the end is not stored but
    put into `deferred_record`, to be stored together with the outcome of an idempotent call.
    """

    __slots__ = (
        "_began",
        "_body_recorder",
        "_call_log",
        "_deadline",
        "_metrics",
        "_request",
        "at",
        "attempts",
        "bodies",
        "call_id",
        "deferred_record",
        "defers_record",
        "durable",
        "ended",
        "id",
        "plan",
        "request_bytes",
        "source",
        "stored",
        "trace",
        "upstream_seconds",
    )

    def __init__(
        self,
        request: CallRequest,
        *,
        call_log: CallLog,
        metrics: Metrics,
        tracer: Tracer | None = None,
        body_recorder: BodyRecorder | None = None,
    ) -> None:
        self.id = uuid7()
        self.call_id = str(self.id)
        self.at = datetime.now(UTC)
        self.plan: Plan | None = None
        self.attempts = 0
        self.request_bytes = 0
        self.source: CallSource = "upstream"
        self.upstream_seconds = 0.0
        self.ended = False
        self.stored: Future[bool] | None = None
        self.defers_record = False
        self.deferred_record: CallLogEntry | None = None
        self.durable = call_log.durable
        """Whether the end must be recorded before the client has the whole response."""
        self._request = request
        self._call_log = call_log
        self._metrics = metrics
        self._began = time.perf_counter()
        self._deadline: datetime | None = None
        self._body_recorder = body_recorder
        self.bodies: BodyBuffers | None = None if body_recorder is None else body_recorder.create_bodies()
        metrics.calls_in_flight += 1
        CALL_ID.set(self.call_id)
        self.trace: CallTrace | None = None
        if tracer is not None:
            self.trace = tracer.start_trace(
                request.options.trace_headers, route=request.route, call_id=self.call_id
            )

    def seconds(self) -> float:
        """Return the seconds since the call began."""
        return time.perf_counter() - self._began

    @property
    def has_recorded_intent(self) -> bool:
        """Whether the call has been recorded as about to be made."""
        return self._deadline is not None

    def add_arguments(self, body: bytes) -> None:
        """Count the bytes of the arguments (JSON text), and record them where bodies are recorded."""
        self.request_bytes = len(body)
        if self.bodies is not None:
            self.bodies.arguments.add(body)

    def replace_arguments(self, body: bytes) -> None:
        """Count and record these arguments (JSON text) in place of those that were added before."""
        if self.bodies is not None:
            self.bodies.arguments.clear()
        self.add_arguments(body)

    def add_presets(self, presets: Mapping[str, Any]) -> None:
        """Record the arguments that a toolset sets, by JSON pointer, apart from those of the client."""
        if self.bodies is not None:
            self.bodies.presets.add(exact_json.dumps(dict(presets)))

    def add_result(self, piece: bytes) -> None:
        """Add a piece of the response to its recorded body, where bodies are recorded."""
        if self.bodies is not None:
            self.bodies.result.add(piece)

    def begin_result(self, media_type: str) -> None:
        """Record the media type of the response, where bodies are recorded."""
        if self.bodies is not None:
            self.bodies.result.media_type = media_type

    def add_evidence(self, evidence: Evidence) -> None:
        """Record the evidence of the call, where bodies are recorded."""
        if self.bodies is not None:
            self.bodies.evidence = exact_json.dumps(evidence.to_json(), default=str)

    def add_error_response(self, response: UpstreamErrorResponse) -> None:
        """Record the body of the upstream's error response as the result, where bodies are recorded."""
        if self.bodies is not None and response.body is not None:
            self.bodies.result.add(exact_json.dumps(response.body))

    def build_intent_entry(self, seconds: float) -> CallLogEntry:
        """Return the record of a call that is about to be made and takes at most `seconds`."""
        entry = self._build_entry(RUNNING, 0, None, 0)
        entry.deadline = datetime.now(UTC) + timedelta(seconds=seconds) + _GRACE
        return entry

    async def record_intent(self, seconds: float) -> None:
        """Record a call that is about to be made and takes at most `seconds`; raise CallLogUnavailable."""
        entry = self.build_intent_entry(seconds)
        await self._call_log.record_intent(entry)
        self._deadline = entry.deadline

    def set_intent_recorded(self, entry: CallLogEntry) -> None:
        """Set that `entry` was stored together with an idempotency key; defer the record of the end."""
        self._deadline = entry.deadline
        self.defers_record = True

    def take_deferred_record(self) -> CallLogEntry | None:
        """Return and remove the deferred record, if any; the caller stores it, or passes it to `record`."""
        entry, self.deferred_record = self.deferred_record, None
        return entry

    def record(self, entry: CallLogEntry) -> None:
        """Pass a deferred record to the call log; `wait_recorded` waits until it is stored."""
        self.stored = self._call_log.record(entry)

    def stop_deferring(self) -> None:
        """Pass the deferred record to the call log, and from now on each record at once."""
        self.defers_record = False
        entry = self.take_deferred_record()
        if entry is not None:
            self.record(entry)

    async def wait_recorded(self) -> None:
        """Wait, after the end, until the record is as durable as CALL_LOG_MODE says."""
        if self.stored is not None:
            await self._call_log.wait_recorded(self.stored)

    def end(self, outcome: str, status: int, upstream_status: int | None, response_bytes: int) -> None:
        """Record the end of the call, unless it is recorded already.

        `outcome` is `ok`, INVALID_RESPONSE, CANCELLED, REPLAYED, APPROVAL_PENDING or the slug of an error;
        `response_bytes` is a size in bytes.
        """
        if self.ended:
            return
        self.ended = True
        entry = self._build_entry(outcome, status, upstream_status, response_bytes)
        metrics = self._metrics
        metrics.calls_in_flight -= 1
        seconds = entry.duration_ms / 1000
        metrics.observe_call(entry.provider or OTHER, outcome, seconds, self.upstream_seconds, self.attempts)
        if self.trace is not None:
            tool = self.plan.name if self.plan is not None else ""
            self.trace.end(provider=entry.provider, tool=tool, outcome=outcome, status=status)
        if self.defers_record:
            self.deferred_record = entry
        else:
            self.stored = self._call_log.record(entry)

    def _build_entry(
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
            attempts=self.attempts,
            safe=plan.safe if plan is not None else None,
            interface=request.interface,
            toolset=request.toolset,
            source=self.source,
            deadline=self._deadline,
        )
        if self.bodies is not None and self._body_recorder is not None:
            self._body_recorder.seal(self.bodies, entry)
        return entry
