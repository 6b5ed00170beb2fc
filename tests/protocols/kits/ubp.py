"""UBP, by executors that are connected to the router in this process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from app.formats.ubp.model import (
    REPLY_TO,
    Command,
    CommandResult,
    Message,
    Status,
)
from app.formats.ubp.values import build_value_payload, read_value
from app.protocols.command_routing import CommandRouter, ExecutorConnection
from app.storage.models.base import TENANT
from tests.protocols.kits.base import HUGE, Kit, Template, Upstream

COMMANDS = CommandRouter()
"""The router that the adapters of these suites have: executors connect to the gateway."""
EXECUTOR = "kit"
CASES = frozenset({"echo", "silent", "breaks", "huge", "rejects"})


class KitExecutor:
    """An executor that responds by the name of the command."""

    def __init__(self, upstream: Upstream, commands: frozenset[str] = CASES) -> None:
        self.upstream = upstream
        self.connection = ExecutorConnection(self, tenant_id=TENANT, executor=EXECUTOR, key_id="kit")
        self.connection.register(commands, max_commands=1000, names_envelopes=True)

    async def send(self, message: Message) -> None:
        """Take a command of the gateway, and respond to it."""
        command = message.payload
        assert isinstance(command, Command)
        if command.command_name == "command.cancel":
            self.upstream.gone.set()
            return
        self.upstream.seen.append(dict(command.metadata))
        asyncio.get_running_loop().call_soon(self.respond, message, command)

    def respond(self, message: Message, command: Command) -> None:
        """Respond as the command's name says."""
        match command.command_name:
            case "echo":
                result = CommandResult(
                    command.command_id,
                    Status.SUCCESS,
                    build_value_payload(read_value(command.arguments)).payload,
                )
            case "huge":
                result = CommandResult(
                    command.command_id, Status.SUCCESS, build_value_payload("x" * HUGE).payload
                )
            case "rejects":
                result = CommandResult(command.command_id, Status.NOT_FOUND, None, "There is no such order.")
            case "breaks":
                COMMANDS.remove(self.connection)
                return
            case _:
                return
        self.connection.receive(Message("r", result, {REPLY_TO: message.message_id}))


class UbpKit(Kit):
    protocol = "ubp"
    cases = CASES | {"unreachable"}
    places = ()
    discovers = False

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Upstream]:
        upstream = Upstream(EXECUTOR)
        executor = KitExecutor(upstream)
        COMMANDS.add(executor.connection)
        try:
            yield upstream
        finally:
            COMMANDS.remove(executor.connection)

    def template(self, upstream: Upstream, case: str) -> Template:
        executor = "absent" if case == "unreachable" else EXECUTOR
        return {"call_template_type": "ubp", "executor": executor, "command_name": case}

    def discovery(self, upstream: Upstream) -> Template:
        return self.template(upstream, "echo")
