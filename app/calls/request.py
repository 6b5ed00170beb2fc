"""What an interface of the gateway (the HTTP route, a protocol server, a job) hands over to be executed."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.security.principal import Principal


class ClientDisconnected(ConnectionError):
    """The client left before its call was complete."""


@dataclass(slots=True)
class CallRequest:  # made at each call; a frozen one costs twice as much
    """One call of a tool, whichever interface it came in by.

    An interface that has everything at hand fills the fields. One that must still receive the arguments gives
    `read`, which sets `arguments`, `body`, `deadline` and `idempotency_key` and whose errors are recorded as
    the call's; it raises ClientDisconnected where the client leaves meanwhile.
    """

    principal: Principal
    tool: str
    """Canonical name or alias."""
    interface: str
    """What the call came in by, e.g. the template of an HTTP route; traces name it."""
    arguments: Any = None
    """The parsed JSON value; anything but an object that fits the tool's inputs is rejected."""
    body: bytes | None = None
    """The arguments as they were received; None: they are serialised from `arguments`."""
    deadline: float | None = None
    """The `loop.time()` until which the client waits; None leaves it to the limits of the tool."""
    accepts_events: bool = False
    """Whether the response may be taken as events; never with an idempotency key."""
    idempotency_key: str | None = None
    cache_control: str = ""
    """The client's directives for the response cache (RFC 9111 section 5.2.1)."""
    cdn_loop: bytes = b""
    """The gateways that the call has been through (CDN-Loop, RFC 8586)."""
    trace_headers: Mapping[bytes, bytes] = field(default_factory=dict)
    """Holds `traceparent` and `tracestate` (W3C Trace Context) where the client's trace is continued."""
    read: Callable[["CallRequest"], Awaitable[None]] | None = None
    disconnected: Callable[[], Awaitable[None]] | None = None
    """Returns once the client has left; it is first awaited 0.1 s after `read`."""
