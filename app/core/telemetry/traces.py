"""The interfaces of tracing that the call path uses; None takes their place while tracing is off.

    SERVER    POST /tools/{name}/call
    INTERNAL    credentials
    INTERNAL      fetch token           only where a token is requested
    CLIENT      GET, POST, ...          one for each attempt at the upstream

Spans contain names (tool, provider, origin, slug), statuses and ids, never a URL, a header, an argument or
the text of an error. `otlp.py` implements these interfaces, `tracing.py` opens them.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from app.core.telemetry.families import Sample

Header = tuple[str, str]


class AttemptTrace(Protocol):
    """The trace of one request to an upstream."""

    headers: tuple[Header, ...]
    """`traceparent` and `tracestate` for the upstream (W3C Trace Context)."""

    def end(self, *, status: int | None = None, error: str = "") -> None:
        """End the span: the upstream responded with `status`, or the request failed with the slug `error`."""


class CallTrace(Protocol):
    """The trace of one call."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits, of the SERVER span."""

    def step(self, name: str) -> AbstractContextManager[None]:
        """Return a context manager that traces a part of the call inside the gateway."""

    def attempt(self, method: str, origin: str, *, number: int = 1) -> AttemptTrace:
        """Start the span of the call's `number`th request to an upstream at `origin`
        (`scheme://host[:port]`).
        """

    def end(self, *, provider: str, tool: str, outcome: str, status: int) -> None:
        """End the call's span; `provider` and `tool` are stored names, "" where none was found."""


class Tracer(Protocol):
    """Starts the traces of calls."""

    def start_trace(self, head: Mapping[bytes, bytes], *, route: str, call_id: str) -> CallTrace:
        """Start the SERVER span of a call: in the trace of the request's headers, or in a new trace without
        one.

        `head` has the headers by lower-case name, repeated ones joined by commas; `route` is the template of
        the route.
        """

    def list_samples(self) -> Iterable[Sample]:
        """Return the numbers of spans that ended, were exported and failed; others wait or were dropped."""

    async def aclose(self) -> None:
        """Send the waiting spans, for at most five seconds."""
