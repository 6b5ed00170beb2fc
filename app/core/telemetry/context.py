"""Context variables of the current call: for log lines, and for spans that start in code without the call."""

from contextvars import ContextVar

from app.core.telemetry.traces import CallTrace

CALL_ID: ContextVar[str] = ContextVar("call_id", default="")
"""The id of the call that the current task executes. Setting it takes 50 ns; each task has its own context.
"""
TRACE: ContextVar[CallTrace | None] = ContextVar("trace", default=None)
"""The trace of that call; None where it is not traced."""
