"""What the router, the connections and the relay of commands have in common."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeAlias
from uuid import UUID

from app.core.errors import UpstreamTimeout, UpstreamUnreachable
from app.formats.ubp.model import Event

CANCEL_COMMAND: Final = "command.cancel"
"""The reserved command by which an executor is told that nobody waits for the result of a command."""

NO_METADATA: Final[Mapping[str, str]] = MappingProxyType({})
"""The metadata of an envelope that has none."""

ProgressListener: TypeAlias = Callable[[Event], None]
"""Called with each event of a command while it is executed; it must not block."""
ExecutorKey: TypeAlias = tuple[UUID, str]
"""A tenant and the name of its executor."""
ExecutorsListener: TypeAlias = "Callable[[Iterable[ConnectedExecutor], Iterable[ConnectedExecutor]], None]"
"""Called with the connected executors of one worker before and after a change."""


_START_MARGIN: Final = 0.05
RETRY_AFTER_SECONDS: Final = 5
"""The Retry-After of a command for which no executor is connected: executors reconnect within seconds."""


class ExecutorDisconnected(UpstreamUnreachable):
    """The executor, or the way to it, was lost while it had the command, which may have been executed.

    The circuit breaker does not count it: whether an executor is connected is known before each command.
    """

    counts_for_breaker: ClassVar[bool] = False
    hint = "Find out whether the executor has executed the command before you send it again."


class CommandNotSent(UpstreamUnreachable):
    """No executor has received the command, so that it may be sent to another one."""

    counts_for_breaker: ClassVar[bool] = False
    hint = "Send the command again once the executor is connected: GET /executors lists those that are."

    def __init__(self, detail: str) -> None:
        super().__init__(detail, request_sent=False)


def executor_away(executor: str, since: float | None) -> CommandNotSent:
    """Return the error for an executor of which no connection executes commands.

    `since` is when the last one has disconnected, in seconds since 1970 (UTC); None where it is not known.
    """
    return _away(f"No executor of {executor} is connected.", {"executor": executor}, since)


class ExecutorBusy(UpstreamTimeout):
    """The executor had as many commands as it takes until the deadline: it has not received this one.

    The circuit breaker does not count it: the executor responds to others.
    """

    counts_for_breaker: ClassVar[bool] = False
    hint = (
        "Send the command again later, allow more time, connect another executor, or let this one take more "
        "commands at once by `max_commands` of its registration."
    )
    agent_hint = "The executor was busy and has not received the command: send it again later."

    def __init__(self, detail: str = "The executor was busy until the deadline.") -> None:
        super().__init__(detail, request_sent=False)


def latest_start(deadline: float, now: float) -> float:
    """Return until when a command waits for a busy executor, as `deadline` and `now` in `loop.time()`.

    This is a twentieth of a second before the deadline, or a tenth of what is left: it could not be responded
    to in time afterwards, and another worker must still learn that it was not sent.
    """
    return deadline - min(_START_MARGIN, max(deadline - now, 0.0) / 10)


def not_connected(capability: "Capability", since: float | None) -> CommandNotSent:
    """Return the error for a command that no connected executor has registered.

    `since` is when the last executor of this name has disconnected, in seconds since 1970 (UTC); None where
    it is not known. The problem has the members `executor`, `command_name` and `away_since`.
    """
    executor, command_name = capability.executor, capability.command_name
    detail = f"No executor of {executor} is connected that executes {command_name}."
    return _away(detail, {"executor": executor, "command_name": command_name}, since)


def _away(detail: str, members: dict[str, Any], since: float | None) -> CommandNotSent:
    error = CommandNotSent(detail)
    error.extra = members
    if since is not None:
        moment = datetime.fromtimestamp(since, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        error.detail = f"{detail} The last one has disconnected at {moment}."
        error.extra["away_since"] = moment
    error.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return error


@dataclass(frozen=True, slots=True)
class Capability:
    """What an executor has registered: a command, under the name of its provider, for one tenant."""

    tenant_id: UUID
    executor: str
    command_name: str


@dataclass(frozen=True, slots=True)
class ConnectedExecutor:
    """A connection of an executor at any worker, as that worker last described it.

    `commands` are the names that it has registered, `open_commands` counts those that it executes and those
    that wait for it, `max_commands` is how many it executes at once. `connected_at` is in seconds since 1970
    (UTC).
    """

    connection_id: str
    worker_id: str
    tenant_id: UUID
    executor: str
    key_id: str
    commands: frozenset[str]
    max_commands: int
    open_commands: int
    connected_at: float
    transport: str = field(default="")
    """grpc or websocket."""
    registering: frozenset[str] = frozenset()
    """Commands whose tools are being stored: it is not sent them yet, but nobody may remove their tools."""

    @property
    def id(self) -> str:
        """The id of the connection."""
        return self.connection_id

    @property
    def key(self) -> ExecutorKey:
        """The tenant, and the name of the executor."""
        return self.tenant_id, self.executor

    @property
    def is_registered(self) -> bool:
        """Whether it has registered; False while its first registration is being stored."""
        return bool(self.commands) or not self.registering

    def has(self, capability: Capability) -> bool:
        """Return whether it has registered the capability."""
        return (
            self.executor == capability.executor
            and self.tenant_id == capability.tenant_id
            and capability.command_name in self.commands
        )

    @property
    def load(self) -> float:
        """Its open commands in relation to those that it executes at once."""
        return self.open_commands / self.max_commands
