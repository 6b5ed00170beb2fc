"""The connection of one executor: its open commands, and which response belongs to which of them.

Each command goes out in an envelope with a `message_id` of its own, and the response names it in `reply_to`
(`app.formats.ubp.model.REPLY_TO`). An executor that does not do so is understood by the `command_id`: until
it has named an envelope once, commands of the same id are sent one after the other.
"""

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol
from uuid import UUID

from app.core.background import TaskSet
from app.core.uuid7 import uuid7
from app.formats.ubp.model import (
    Command,
    CommandResult,
    Event,
    JsonPayload,
    Message,
)
from app.protocols.command_routing.model import (
    CANCEL_COMMAND,
    NO_METADATA,
    Capability,
    CommandNotSent,
    ConnectedExecutor,
    ExecutorBusy,
    ExecutorDisconnected,
    ExecutorKey,
    ProgressListener,
)

DEFAULT_MAX_COMMANDS: Final = 32
"""The commands that an executor is given at once, unless it says otherwise when it registers."""
MAX_COMMANDS: Final = 1_000

_GONE: Final = "The executor has disconnected."
_CLOSE_SECONDS: Final = 1.0
_ABANDONED_SECONDS: Final = 30.0
"""How long a command that nobody waits for any more delays one of the same id: the response of the first
could be taken for that of the second.
"""


class MessageNotSent(ConnectionError):
    """The connection has ended before anything of the message was sent."""


class MessageSender(Protocol):
    """The transport of a connection: a WebSocket, or a stream of gRPC."""

    async def send(self, message: Message) -> None:
        """Send a message once the peer takes it.

        Where the connection has ended, raise MessageNotSent if the peer has certainly received nothing of the
        message, and another ConnectionError if it may have received it.
        """


@dataclass(slots=True, eq=False)
class _OpenCommand:
    """A command that was sent, and what waits for its result."""

    message_id: str
    command_id: str
    result: "asyncio.Future[CommandResult]"
    on_progress: ProgressListener | None = field(default=None, repr=False)
    is_abandoned: bool = False
    """Whether nobody waits for the result any more."""


class ExecutorConnection:
    """A connected executor. `close` ends it: its open commands fail at once."""

    def __init__(
        self, sender: MessageSender, *, tenant_id: UUID, executor: str, key_id: str, transport: str = ""
    ) -> None:
        self._sender = sender
        self._open: dict[str, _OpenCommand] = {}
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._names_envelopes = False
        self._running = 0
        self._held = False
        self._closed = False
        self._cancellations = TaskSet()
        self._described = ConnectedExecutor(
            connection_id=uuid7().hex,
            worker_id="",
            tenant_id=tenant_id,
            executor=executor,
            key_id=key_id,
            commands=frozenset(),
            max_commands=DEFAULT_MAX_COMMANDS,
            open_commands=0,
            connected_at=time.time(),
            transport=transport,
        )

    @property
    def id(self) -> str:
        """Its id, unique among all workers."""
        return self._described.connection_id

    @property
    def key(self) -> ExecutorKey:
        """The tenant, and the name of the executor."""
        return self._described.key

    @property
    def name(self) -> str:
        """The name of the executor."""
        return self._described.executor

    @property
    def commands(self) -> frozenset[str]:
        """The names of the commands that it has registered."""
        return self._described.commands

    @property
    def transport(self) -> str:
        """The transport: `grpc` or `websocket`."""
        return self._described.transport

    @property
    def running(self) -> int:
        """How many commands it executes."""
        return self._running

    @property
    def waiting(self) -> int:
        """How many commands wait until it executes fewer."""
        return len(self._waiting)

    @property
    def registering(self) -> frozenset[str]:
        """The names of the commands whose registration has begun and not ended."""
        return self._described.registering

    @property
    def is_registered(self) -> bool:
        """Whether it has registered; False while its first registration is being stored."""
        return self._described.is_registered

    @property
    def is_closed(self) -> bool:
        """Whether it has ended."""
        return self._closed

    @property
    def load(self) -> float:
        """Its commands, with those that wait for it, in relation to those that it executes at once."""
        return (self._running + len(self._waiting)) / self._described.max_commands

    def has(self, capability: Capability) -> bool:
        """Return whether it has registered the capability."""
        return not self._closed and self._described.has(capability)

    def begin_registration(self, commands: Iterable[str]) -> None:
        """Note that the tools of these commands are being stored, until `register` or
        `abandon_registration`.
        """
        self._described = replace(self._described, registering=frozenset(commands))

    def abandon_registration(self) -> None:
        """Note that nothing was stored: the commands stay as they are."""
        self._described = replace(self._described, registering=frozenset())

    def register(
        self, commands: Iterable[str], *, max_commands: int | None = None, names_envelopes: bool = False
    ) -> None:
        """Replace the commands that it executes.

        `max_commands`, at most MAX_COMMANDS, stays as it is where it is None. `names_envelopes` says that the
        responses of the executor have `reply_to`.
        """
        most = self._described.max_commands
        if max_commands is not None:
            most = max(1, min(max_commands, MAX_COMMANDS))
        self._described = replace(
            self._described, commands=frozenset(commands), registering=frozenset(), max_commands=most
        )
        self._names_envelopes = self._names_envelopes or names_envelopes
        self._admit()

    def hold(self) -> None:
        """Send no commands until `release`: those for the executor wait."""
        self._held = True

    def release(self) -> None:
        """Send the commands that wait since `hold`. Idempotent."""
        self._held = False
        self._admit()

    def described(self, worker_id: str) -> ConnectedExecutor:
        """Return its description for other workers."""
        return replace(self._described, worker_id=worker_id, open_commands=self._running + len(self._waiting))

    async def execute(
        self,
        command: Command,
        on_progress: ProgressListener | None = None,
        metadata: Mapping[str, str] = NO_METADATA,
        *,
        wait_until: float | None = None,
    ) -> CommandResult:
        """Send a command as it is, in an envelope with `metadata`, and return its result.

        While the executor has as many commands as it takes, the command waits. Raise ExecutorBusy where it
        still does at `wait_until` (`loop.time()`), CommandNotSent where the connection ends before anything
        of the command was sent, else ExecutorDisconnected. Where the task is cancelled, the executor is told
        so.
        """
        try:
            async with asyncio.timeout_at(wait_until):
                await self._enter()
        except TimeoutError:
            raise ExecutorBusy from None
        try:
            while not self._names_envelopes and (earlier := self._find(command.command_id)) is not None:
                await asyncio.wait([earlier.result])
            return await self._sent(command, on_progress, metadata)
        finally:
            self._running -= 1
            self._admit()

    def receive(self, message: Message) -> bool:
        """Give a response or an event to the command that it belongs to; return whether there is one."""
        payload = message.payload
        if isinstance(payload, CommandResult):
            opened = self._addressed(message, payload.command_id)
            if opened is None or opened.result.done():
                return False
            opened.result.set_result(payload)
            return True
        if isinstance(payload, Event):
            opened = self._addressed(message, payload.metadata.get("command_id", ""))
            if opened is None:
                return False
            if opened.on_progress is not None:
                opened.on_progress(payload)
            return True
        return False

    def close(self) -> None:
        """End it: open commands fail with ExecutorDisconnected, waiting ones with CommandNotSent."""
        self._closed = True
        for opened in list(self._open.values()):
            if not opened.result.done():
                opened.result.set_exception(ExecutorDisconnected(_GONE))
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(CommandNotSent(_GONE))

    async def wait_closed(self) -> None:
        """Wait until cancellations are sent, for at most a second."""
        await self._cancellations.aclose(timeout=_CLOSE_SECONDS)

    async def _enter(self) -> None:
        """Wait until the executor takes another command."""
        if self._closed:
            raise CommandNotSent(_GONE)
        if not self._held and self._running < self._described.max_commands and not self._waiting:
            self._running += 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                # Admitted and cancelled at once: the next one is admitted in its place.
                self._running -= 1
                self._admit()
            raise
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def _admit(self) -> None:
        """Admit waiting commands while the executor takes more."""
        while not self._held and self._waiting and self._running < self._described.max_commands:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._running += 1
                waiter.set_result(None)

    async def _sent(
        self, command: Command, on_progress: ProgressListener | None, metadata: Mapping[str, str]
    ) -> CommandResult:
        if self._closed:
            raise CommandNotSent(_GONE)
        message_id = uuid7().hex
        result: asyncio.Future[CommandResult] = asyncio.get_running_loop().create_future()
        opened = self._open[message_id] = _OpenCommand(message_id, command.command_id, result, on_progress)
        try:
            await self._send(Message(message_id, command, metadata, time.time()))
            # Shielded: an abandoned command may still be responded to.
            return await asyncio.shield(result)
        except ExecutorDisconnected:
            if result.done() and result.exception() is None:
                # The response came before the sender knew that the message had arrived.
                return result.result()
            raise
        except asyncio.CancelledError:
            self._abandon(opened, command)
            raise
        finally:
            if not opened.is_abandoned:
                self._forget(opened)

    async def _send(self, message: Message) -> None:
        try:
            await self._sender.send(message)
        except MessageNotSent:
            self.close()
            raise CommandNotSent(_GONE) from None
        except ConnectionError:
            self.close()
            raise ExecutorDisconnected(_GONE) from None

    def _abandon(self, opened: _OpenCommand, command: Command) -> None:
        """Tell the executor, in a task of its own, that nobody waits for a command.

        Where its responses name no envelopes, the command stays open until it is responded to, so that its
        response is not taken for that of another one.
        """
        if self._closed or opened.result.done():
            return
        if not self._names_envelopes:
            opened.on_progress = None
            opened.is_abandoned = True
            opened.result.add_done_callback(lambda _: self._forget(opened))
            asyncio.get_running_loop().call_later(_ABANDONED_SECONDS, opened.result.cancel)
        arguments = JsonPayload({"command_id": command.command_id, "message_id": opened.message_id})
        cancel = Command(uuid7().hex, CANCEL_COMMAND, arguments)
        message = Message(uuid7().hex, cancel, sent_at=time.time())
        self._cancellations.add(asyncio.ensure_future(self._send(message)))

    def _forget(self, opened: _OpenCommand) -> None:
        self._open.pop(opened.message_id, None)
        if opened.result.done() and not opened.result.cancelled():
            # Marks it as retrieved: `close` may have failed it while nobody waited.
            opened.result.exception()

    def _addressed(self, message: Message, command_id: str) -> _OpenCommand | None:
        """Return the open command of a response: by the envelope that it names, else by the command's id."""
        named = message.reply_to
        if named is not None:
            opened = self._open.get(named)
            if opened is not None:
                self._names_envelopes = True
            return opened
        return self._find(command_id)

    def _find(self, command_id: str) -> _OpenCommand | None:
        """Return the first command of this id that has no result yet."""
        found = (one for one in self._open.values() if one.command_id == command_id)
        return next((one for one in found if not one.result.done()), None)
