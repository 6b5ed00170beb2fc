"""The call that the current task works for: for log lines, and for spans that start deep below the call."""

from contextvars import ContextVar

from app.telemetry.traces import CallTrace

CALL_ID: ContextVar[str] = ContextVar("call_id", default="")
"""The id of the call that this task works for. Setting it costs 50 ns; a task has a context of its own."""
TRACE: ContextVar[CallTrace | None] = ContextVar("trace", default=None)
"""The trace of that call; never set while tracing is off."""
