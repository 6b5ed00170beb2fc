"""One connection of UBP, whatever its transport: what each message from the peer does.

A peer may ask for commands, execute them, or both. Commands of the gateway itself have reserved names,
`agent.*` and `command.*`; all other names are those of tools, which are called like any tool of the registry.
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

from app.agents.ubp.audit import ConnectionAudit
from app.agents.ubp.progress import ProgressSender
from app.agents.ubp.reserved import DEREGISTER, REGISTER, ReservedCommands, is_reserved
from app.agents.ubp.results import error_result, success
from app.agents.ubp.server import ExecutorServer
from app.calls import ClientDisconnected
from app.core.background import TaskSet
from app.core.errors import (
    BadRequest,
    Conflict,
    FieldError,
    Forbidden,
    GatewayError,
    InvalidInput,
    NotFound,
    TooManyRequests,
    Unavailable,
)
from app.core.uuid7 import uuid7
from app.formats.ubp.json_form import convert_command, write_json
from app.formats.ubp.model import (
    REPLY_TO,
    Command,
    CommandResult,
    Message,
    Status,
    WirePayload,
)
from app.formats.ubp.values import read_value
from app.protocols.command_routing import MessageSender
from app.protocols.command_routing.counts import MessageRejection
from app.protocols.command_routing.model import CANCEL_COMMAND
from app.security.principal import Principal

MAX_OPEN: Final = 256
"""The commands of one connection that may be open at once; more are rejected with RATE_LIMITED."""
CLIENT_ID: Final = "client_id"
"""The member of a command's metadata that names its sender across connections: the results of its commands
are stored, and repeated commands are answered from there.
"""
MAX_ANSWER_BYTES: Final = 8 << 20
"""The size of the responses that are stored for repeated commands, per connection."""
MAX_ID_CHARACTERS: Final = 256
"""The length of a command's id. Ids are stored, so that repeated commands are known."""
MAX_IDS: Final = 10_000
"""The ids of completed commands that are stored, per connection."""
_ANSWER_SECONDS: Final = 86_400.0
_POLL_SECONDS: Final = 0.05

Verify: TypeAlias = Callable[[], Awaitable[Principal]]
"""Returns the principal of the connection's key as it is now; raises what `authorise` raises."""


@dataclass(slots=True)
class _OpenCall:
    """A call of a tool that is being made; `error` is what ends it, once its key has lost the right to it."""

    command_name: str
    error: GatewayError | None = None


@dataclass(slots=True)
class _Answered:
    """A command of this connection, and its response; None once that is no longer stored."""

    digest: bytes
    at: float
    answer: "asyncio.Task[CommandResult] | None"
    size: int = 0


class Session:
    """A connection. Its transport calls `receive` with each message, and `aclose` at the end.

    `address` is that of the peer, "" where it has none.
    """

    def __init__(
        self,
        server: ExecutorServer,
        sender: MessageSender,
        *,
        verify: Verify,
        transport: str,
        address: str,
    ) -> None:
        self._sender = sender
        self._caller = server.caller
        self._base_url = server.services.settings.base_url
        self._rejected = server.services.commands.counts.rejected
        self._route = f"ubp:{transport}"
        audit = ConnectionAudit(server.audit, transport=transport, address=address)
        self._reserved = ReservedCommands(server.services, server.caller, sender, audit)
        self._verify = verify
        self._tasks = TaskSet()
        self._calls: dict[asyncio.Task[Any], _OpenCall] = {}
        self._answered: OrderedDict[str, _Answered] = OrderedDict()
        self._with_answers: OrderedDict[str, _Answered] = OrderedDict()
        self._answer_bytes = 0
        self._registrations = asyncio.Lock()
        self._open = 0
        self._draining = False

    async def receive(self, message: Message) -> None:
        """Do what a message says. A command is executed in a task of its own, which sends the response."""
        payload = message.payload
        if not isinstance(payload, Command):
            executor = self._reserved.executor
            is_expected = executor is not None and payload is not None and executor.receive(message)
            if not is_expected:
                self._rejected["unexpected"] += 1
            return
        if self._open >= MAX_OPEN:
            error: GatewayError = TooManyRequests(f"A connection may have at most {MAX_OPEN} open commands.")
            await self.reject(message, error, "too-many-commands")
            return
        if self._draining and payload.command_name != CANCEL_COMMAND:
            error = Unavailable("The gateway is stopping; connect again.")
            await self.reject(message, error, "stopping")
            return
        self._open += 1
        self._tasks.add(asyncio.ensure_future(self._answer(message, payload)))

    async def reject(self, message: Message, error: GatewayError, reason: MessageRejection) -> None:
        """Respond to a command with an error, without executing it; count it under its reason."""
        self._rejected[reason] += 1
        if isinstance(message.payload, Command):
            await self._respond(message, self._failed(message.payload, error))

    async def receive_malformed(self, identified: Message | None, error: BadRequest) -> None:
        """Reject a malformed message, of which the ids could be read: a command is responded to, the command
        of a response fails, an event is ignored. Raise the error where no id could be read.
        """
        if identified is None:
            raise error
        await self.reject(identified, error, "malformed")
        payload, executor = identified.payload, self._reserved.executor
        if isinstance(payload, CommandResult) and executor is not None:
            first = error.errors[0] if error.errors else FieldError("", error.detail)
            text = f"The response of the executor is malformed: {first.pointer} {first.detail}"
            executor.receive(replace(identified, payload=replace(payload, error=text)))

    async def check_rights(self, principal: Principal) -> None:
        """Raise Forbidden or Conflict where the key may no longer do what the connection does without a
        further command: be an executor. End the calls that the key may not make any more.
        """
        await self._reserved.check_rights(principal)
        for task, call in list(self._calls.items()):
            try:
                await self._caller.require_right(call.command_name, principal)
            except (Forbidden, NotFound) as error:
                call.error = error
                task.cancel()
            except InvalidInput:
                # The name means several tools by now, which is no loss of a right.
                continue

    async def drain(self) -> None:
        """Take no new commands, neither from the peer nor for it, and wait until the open ones have ended."""
        self._draining = True
        await self._reserved.drain()
        # Neither has an event for it.
        while self._open or self._reserved.open_commands:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_SECONDS)

    async def aclose(self, reason: str) -> None:
        """End the connection: commands that it has asked for are cancelled, those for it fail.

        `reason` is what the audit event of an executor says.
        """
        await self._reserved.aclose(reason)
        await self._tasks.aclose(timeout=0)
        answers = [one.answer for one in self._answered.values() if one.answer is not None]
        for answer in answers:
            answer.cancel()
        await asyncio.gather(*answers, return_exceptions=True)

    async def _answer(self, message: Message, command: Command) -> None:
        """Execute a command, or take the answer of the same one, and send it."""
        progress = ProgressSender(self._sender, message)
        try:
            if command.command_name == CANCEL_COMMAND:
                result = self._cancel(command)
            elif not command.command_id:
                result = await self._execute(command, progress)
            else:
                result = await self._execute_once(command, progress)
            await progress.aclose()
            await self._respond(message, result)
        except GatewayError as error:
            await self._respond(message, self._failed(command, error))
        finally:
            if command.command_name == REGISTER:
                self._reserved.release()
            self._open -= 1

    async def _execute_once(self, command: Command, progress: ProgressSender) -> CommandResult:
        """Return the answer of a command, that of the same one where its id was used before.

        Raise InvalidInput for an id that is too long.
        """
        if len(command.command_id) > MAX_ID_CHARACTERS:
            problem = FieldError("/command_id", f"Give at most {MAX_ID_CHARACTERS} characters.")
            raise InvalidInput("The command_id is too long.", errors=[problem])
        self._forget_old_answers()
        digest = _digest(command)
        answered = self._answered.get(command.command_id)
        if answered is not None and answered.digest != digest:
            return self._failed(command, InvalidInput("The command_id was used for another command."))
        if answered is None:
            task = asyncio.ensure_future(self._execute(command, progress))
            answered = _Answered(digest, time.monotonic(), task)
            self._answered[command.command_id] = answered
            task.add_done_callback(partial(self._store, command.command_id, answered))
        if answered.answer is None:
            gone = "The command was executed before; its response is no longer stored."
            return self._failed(command, Conflict(gone))
        try:
            # Shielded: the sender of a repeated command does not cancel the first one.
            return await asyncio.shield(answered.answer)
        except asyncio.CancelledError:
            if answered.answer.cancelled():
                # Cancelled before it began.
                return _cancelled(command)
            raise

    async def _execute(self, command: Command, progress: ProgressSender) -> CommandResult:
        try:
            if command.command_name in (REGISTER, DEREGISTER):
                # In the order in which they were sent, however long each key is verified.
                async with self._registrations:
                    return await self._reserved.execute(command, await self._verify())
            principal = await self._verify()
            if is_reserved(command.command_name):
                return await self._reserved.execute(command, principal)
            client = command.metadata.get(CLIENT_ID)
            # The length of the first part says where the second one begins.
            key = (
                f"ubp:{len(client)}:{client}:{command.command_id}" if client and command.command_id else None
            )
            return await self._call(command, principal, key, progress)
        except asyncio.CancelledError:
            return _cancelled(command)
        except ClientDisconnected:
            return CommandResult(command.command_id, Status.CANCELLED, None, "The connection has ended.")
        except Exception as error:  # noqa: BLE001 - the peer gets an answer to each command.
            return self._failed(command, error)

    async def _call(
        self, command: Command, principal: Principal, idempotency_key: str | None, progress: ProgressSender
    ) -> CommandResult:
        """Return the response to a command for a tool; raise what ends it because a right is lost."""
        task = asyncio.current_task()
        open_call = _OpenCall(command.command_name)
        if task is not None:
            self._calls[task] = open_call
        try:
            return await self._caller.call(
                command,
                principal,
                route=self._route,
                idempotency_key=idempotency_key,
                on_event=progress.add,
            )
        except asyncio.CancelledError:
            if open_call.error is not None:
                raise open_call.error from None
            raise
        finally:
            if task is not None:
                self._calls.pop(task, None)

    def _failed(self, command: Command, error: Exception) -> CommandResult:
        return error_result(command, error, base_url=self._base_url)

    def _cancel(self, command: Command) -> CommandResult:
        """Cancel an open command of this connection by its id; do nothing where there is none.

        Raise InvalidInput where the arguments name no command.
        """
        value = read_value(command.arguments, location="/arguments")
        wanted = value.get("command_id") if isinstance(value, Mapping) else None
        if not isinstance(wanted, str) or not wanted:
            problem = FieldError("/arguments/command_id", "Give the id of a command, as a text.")
            raise InvalidInput("The arguments are not valid.", errors=[problem])
        answered = self._answered.get(wanted)
        answer = None if answered is None else answered.answer
        is_open = answer is not None and not answer.done()
        if answer is not None and is_open:
            answer.cancel()
        return success(command, {"cancelled": is_open})

    def _store(self, command_id: str, answered: _Answered, task: "asyncio.Task[CommandResult]") -> None:
        """Count the size of a response, and drop the oldest ones beyond the limit; their ids stay."""
        answered.size = 0 if task.cancelled() or task.exception() is not None else _size(task.result())
        self._with_answers[command_id] = answered
        self._answer_bytes += answered.size
        while self._answer_bytes > MAX_ANSWER_BYTES:
            self._drop_answer(self._with_answers.popitem(last=False)[1])

    def _drop_answer(self, answered: _Answered) -> None:
        self._answer_bytes -= answered.size
        answered.answer = None

    async def _respond(self, message: Message, result: CommandResult) -> None:
        response = Message(uuid7().hex, result, {REPLY_TO: message.message_id}, time.time())
        try:
            await self._sender.send(response)
        except ConnectionError:
            return
        except InvalidInput as error:
            # A payload that has no form in which this peer could read it.
            request = message.payload
            if isinstance(request, Command):
                await self._sender.send(replace(response, payload=self._failed(request, error)))

    def _forget_old_answers(self) -> None:
        before = time.monotonic() - _ANSWER_SECONDS
        while self._answered:
            command_id, oldest = next(iter(self._answered.items()))
            is_open = oldest.answer is not None and not oldest.answer.done()
            if is_open or (len(self._answered) < MAX_IDS and oldest.at > before):
                return
            del self._answered[command_id]
            if self._with_answers.pop(command_id, None) is not None:
                self._drop_answer(oldest)


def _cancelled(command: Command) -> CommandResult:
    return CommandResult(command.command_id, Status.CANCELLED, None, "The command was cancelled.")


def _size(result: CommandResult) -> int:
    """Return about how many bytes a response takes."""
    payload = result.result
    if isinstance(payload, WirePayload):
        content = len(payload.value)
    else:
        content = 0 if payload is None else _json_size(payload.members)
    return content + len(result.error) + sum(len(name) + len(text) for name, text in result.metadata.items())


def _json_size(members: Mapping[str, object]) -> int:
    try:
        return len(write_json(members))
    except InvalidInput:
        # It is never sent: an error is.
        return 0


def _digest(command: Command) -> bytes:
    """Return a digest of what a command is, whatever the form in which it arrived."""
    payload = command.arguments
    if isinstance(payload, WirePayload):
        content = payload.type_url.encode() + b"\0" + payload.value
    else:
        content = write_json(convert_command(replace(command, metadata={}, command_id="")))
    return hashlib.sha256(command.command_name.encode() + b"\0" + content).digest()
