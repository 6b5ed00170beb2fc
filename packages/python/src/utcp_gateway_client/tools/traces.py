"""The trace of the running call (W3C Trace Context), for spans of a function and for its requests."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TraceContext:
    """`traceparent` and `tracestate` as they are sent in headers; `tracestate` is "" where there is none.

    Source: https://www.w3.org/TR/trace-context/.
    """

    traceparent: str
    tracestate: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a request that belongs to the trace."""
        headers = {"traceparent": self.traceparent, "tracestate": self.tracestate}
        return {name: value for name, value in headers.items() if value}


_trace: ContextVar[TraceContext | None] = ContextVar("utcp_gateway_client_trace", default=None)


def current_trace() -> TraceContext | None:
    """Return the trace of the running call; None where its caller has sent none.

    Functions call it in any thread or task that was started with the context of the call, as
    `asyncio.to_thread` and `asyncio.create_task` do.
    """
    return _trace.get()


@contextmanager
def traced_by(trace: TraceContext | None) -> Iterator[None]:
    """Make `trace` that of the calls within."""
    token = _trace.set(trace)
    try:
        yield
    finally:
        _trace.reset(token)
