"""The request of a call, as an interface of the gateway (e.g. the HTTP route) passes it to `execute`."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.calls.approvals.approved_call import ApprovedCall
from app.calls.arguments.texts import TextArguments
from app.calls.log.entries import Interface
from app.core.upstream_mode import UpstreamMode
from app.formats.ubp.model import Command, Event
from app.protocols.base import ProgressListener
from app.protocols.responses.rule import ResponsePreferences
from app.security.principal import Principal, RepairMode


class ClientDisconnected(ConnectionError):
    """The client disconnected before its call was complete."""


@dataclass(slots=True)
class CallRequest:  # made at each call; a frozen one costs twice as much
    """One call of a tool, from any interface.

    An interface that already has the arguments sets the fields. One that has yet to receive them sets `read`,
    which sets `arguments`, `body`, `deadline` and `idempotency_key`. Errors that it raises are recorded as
    errors of the call; it raises ClientDisconnected where the client disconnects meanwhile.
    """

    principal: Principal
    tool: str
    """Canonical name or alias."""
    route: str
    """The template of the HTTP route by which the call came: a name for traces."""
    interface: Interface = "rest"
    """The interface by which the call came, for its record."""
    toolset: str = ""
    """The name of the toolset by whose address the call came, "" without one, for its record."""
    presets: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that a toolset sets: they are added before validation, and the client may not give them."""
    arguments: Any = None
    """The parsed JSON value; it is rejected unless it is an object that is valid for the tool's inputs."""
    text_arguments: TextArguments | None = None
    """Further arguments as texts, which are coerced and added to `arguments` once the tool is known."""
    body: bytes | None = None
    """The JSON text of the arguments as received; where it is None, `arguments` are serialised."""
    deadline: float | None = None
    """The `loop.time()` until which the client waits; where it is None, only the tool's limits apply."""
    accepts_events: bool = False
    """Whether the client accepts the response as events; False with an idempotency key."""
    idempotency_key: str | None = None
    cache_control: str = ""
    """The client's directives for the response cache (RFC 9111 section 5.2.1)."""
    cdn_loop: bytes = b""
    """The value of the header CDN-Loop (RFC 8586): the gateways that the call has passed through."""
    trace_headers: Mapping[bytes, bytes] = field(default_factory=dict)
    """`traceparent` and `tracestate` (W3C Trace Context), where the client's trace is to be continued."""
    read: Callable[["CallRequest"], Awaitable[None]] | None = None
    approved: ApprovedCall | None = None
    """The approval that the call is made with: its rate limits were counted when it was requested."""
    preferences: ResponsePreferences | None = None
    """What the client prefers for the response; None where the provider's options decide."""
    upstream: UpstreamMode | None = None
    """The upstream mode of the toolset of the call; None: that of the key alone."""
    recording_run: str = ""
    """The run of replays that the call belongs to; "": the one of its key."""
    argument_repair: RepairMode | None = None
    """The repair of arguments that the toolset of the call allows; None: the default of the interface."""
    repair_preference: RepairMode | None = None
    """The repair that the client asks for with this call, which precedes all other settings."""
    command: Command | None = None
    """The command of UBP that the call is made by: an executor gets it as it is, unless its arguments were
    changed.
    """
    on_progress: ProgressListener | None = None
    """Gets the progress that the upstream reports while the response is awaited, secrets masked."""
    on_command_event: Callable[[Event], None] | None = None
    """Called with each event that an executor sends while it executes the command; it must not block."""
    wants_envelope: bool = False
    """Whether the client takes nothing but the evidence envelope, which only ToolClad tools have."""
    disconnected: Callable[[], Awaitable[None]] | None = None
    """Returns once the client has disconnected; it is first awaited 0.1 s after `read`."""
