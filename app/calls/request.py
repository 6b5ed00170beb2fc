"""The request of a call, as an interface of the gateway (e.g. the HTTP route) passes it to `execute`."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.calls.approvals.approved_call import ApprovedCall
from app.calls.arguments.texts import TextArguments
from app.calls.log.entries import Interface
from app.calls.options import CallOptions
from app.core.upstream_mode import UpstreamMode
from app.formats.ubp.model import Command, Event
from app.protocols.base import ProgressListener
from app.security.principal import Principal, RepairMode


class ClientDisconnected(ConnectionError):
    """The client disconnected before its call was complete."""


@dataclass(slots=True)
class CallRequest:  # made at each call; a frozen one costs twice as much
    """One call of a tool, from any interface.

    An interface that could not read the request sets `error`: the call fails with it, and is recorded.
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
    options: CallOptions = field(default_factory=CallOptions)
    """What the client says of the call beside the arguments."""
    error: Exception | None = None
    """Why the request cannot be read; ClientDisconnected where its client has disconnected."""
    approved: ApprovedCall | None = None
    """The approval that the call is made with: its rate limits were counted when it was requested."""
    upstream: UpstreamMode | None = None
    """The upstream mode of the toolset of the call; None: that of the key alone."""
    argument_repair: RepairMode | None = None
    """The repair of arguments that the toolset of the call allows; None: the default of the interface."""
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
    """Returns once the client has disconnected; it is first awaited after 0.1 s."""
