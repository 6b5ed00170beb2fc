"""The reserved commands of a connection: registration, deregistration, the list of tools, and ping.

`agent.register_tools` has two meanings, which its metadata tells apart by `role`. An `executor` registers
what it executes: its tools become those of a provider of its name. A `reasoner` declares the tools that its
model may ask for, and learns which of them there are. Without a role, it is a reasoner where the registry has
all of the names.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from app.agents.ubp.audit import ConnectionAudit
from app.agents.ubp.commands import CommandCaller, require_scope
from app.agents.ubp.results import success
from app.core import exact_json
from app.core.errors import FieldError, InvalidInput, NotFound
from app.core.resource_names import PROVIDER_NAME
from app.formats.ubp.definitions import (
    DefinedTool,
    build_flat_definition,
    build_registration_payload,
    read_defined_tools,
)
from app.formats.ubp.model import Command, CommandResult, Status
from app.formats.ubp.values import read_value
from app.protocols.command_routing import ExecutorConnection, MessageSender
from app.protocols.command_routing.connection import MAX_COMMANDS
from app.protocols.command_routing.model import CANCEL_COMMAND
from app.providers.registration.executor_tools import (
    OtherCommands,
    register_executor_tools,
    remove_executor_tools,
    require_executor_name,
)
from app.search.parameters import MAX_QUERIES, MAX_QUERY_LENGTH
from app.security.principal import Principal
from app.services import Services
from app.toolsets import AgentTool, AmbiguousTool, ToolCollection, ToolSearch

CONNECT: Final = "executors:connect"
"""The scope that a key needs to register as an executor."""
REGISTER: Final = "agent.register_tools"
DEREGISTER: Final = "agent.deregister_tools"
LIST: Final = "agent.list_tools"
PING: Final = "agent.ping"
PREFIXES: Final = ("agent.", "command.")
"""Beginnings of names that no tool has."""

ROLE: Final = "role"
EXECUTOR: Final = "executor"
REASONER: Final = "reasoner"
MAX_AT_ONCE: Final = "max_commands"
NAMES_ENVELOPES: Final = "reply_to"
LOSSES: Final = "losses"
"""The member of a response's metadata with what a reader of flat definitions loses, as JSON text."""

_MAX_LISTED: Final = 100
_READING: Final = ("tools:read", "tools:call")
"""The scopes of which a key needs one to learn whether there is a tool."""
_PROVIDER_NAME: Final = re.compile(PROVIDER_NAME)


def is_reserved(name: str) -> bool:
    """Return whether a command is for the gateway itself."""
    return name.startswith(PREFIXES)


class ReservedCommands:
    """Executes the reserved commands of one connection; `command.cancel` is its session's.

    `sender` and `audit` are None for a command without a connection.
    """

    def __init__(
        self,
        services: Services,
        caller: CommandCaller,
        sender: MessageSender | None,
        audit: ConnectionAudit | None,
    ) -> None:
        self._services = services
        self._caller = caller
        self._sender = sender
        self._audit = audit
        self._registering = asyncio.Lock()
        self.executor: ExecutorConnection | None = None
        """The connection as an executor, once it has registered as one."""

    async def execute(self, command: Command, principal: Principal) -> CommandResult:
        """Return the response to a reserved command; raise a GatewayError."""
        if command.command_name == PING:
            return success(command, {})
        if command.command_name == LIST:
            return await self._list(command, principal)
        if command.command_name == CANCEL_COMMAND:
            raise InvalidInput(
                "A command is cancelled on the connection that has sent it: connect by gRPC or WebSocket."
            )
        async with self._registering:
            if command.command_name == REGISTER:
                return await self._register(command, principal)
            if command.command_name == DEREGISTER:
                return await self._deregister(command, principal)
        names = f"{REGISTER}, {DEREGISTER}, {LIST}, {PING}, {CANCEL_COMMAND}"
        raise NotFound(f"There is no command {command.command_name}. Reserved are: {names}.")

    async def check_rights(self, principal: Principal) -> None:
        """Raise Forbidden where the peer is an executor that its key may no longer be, and Conflict where its
        name is that of another provider.
        """
        if self.executor is not None:
            require_scope(principal, CONNECT)
            await require_executor_name(self._services.registration, self.executor.name, principal=principal)

    def release(self) -> None:
        """Send commands to the peer from now on: it has the response to its registration."""
        if self.executor is not None:
            self.executor.release()

    @property
    def open_commands(self) -> int:
        """The commands that the peer executes, or that wait for it."""
        return 0 if self.executor is None else self.executor.described("").open_commands

    async def drain(self) -> None:
        """Route no more commands to the peer; those that it has go on."""
        if self.executor is not None:
            self.executor.register(())
            await self._services.commands.announce()

    async def aclose(self, reason: str) -> None:
        """End the connection as an executor: its open commands fail, and other workers are told."""
        executor, self.executor = self.executor, None
        if executor is not None:
            self._services.commands.remove(executor)
            if self._audit is not None:
                self._audit.disconnected(executor, reason)
            await executor.wait_closed()
            await self._services.commands.announce()

    async def _register(self, command: Command, principal: Principal) -> CommandResult:
        tools = read_defined_tools(command.arguments, location="/arguments")
        reserved = [index for index, tool in enumerate(tools) if is_reserved(tool.name)]
        if reserved:
            at = f"/arguments/tools/{reserved[0]}/name"
            problem = FieldError(at, f"Names with {' and '.join(PREFIXES)} are reserved.")
            raise InvalidInput("A tool has a reserved name.", errors=[problem])
        role = command.metadata.get(ROLE, "")
        if role not in ("", EXECUTOR, REASONER):
            problem = FieldError(f"/metadata/{ROLE}", f"Give {EXECUTOR} or {REASONER}.")
            raise InvalidInput("The role is not known.", errors=[problem])
        if role == REASONER:
            require_scope(principal, *_READING)
        if role == EXECUTOR or not any(principal.has_scope(scope) for scope in _READING):
            return await self._register_executor(command, tools, principal)
        known = await self._known(tools, principal)
        if role == REASONER or self._reasons_about(command, known, principal):
            return _reasoner_response(command, tools, known)
        return await self._register_executor(command, tools, principal)

    def _reasons_about(
        self, command: Command, known: Sequence[AgentTool | None], principal: Principal
    ) -> bool:
        """Return whether a peer that names no role only reasons about its tools: the registry has all of
        them, and they are not those that it has itself registered earlier.
        """
        if self.executor is not None or EXECUTOR in command.metadata:
            return False
        return all(tool is not None and tool.provider != principal.name for tool in known)

    async def _register_executor(
        self, command: Command, tools: Sequence[DefinedTool], principal: Principal
    ) -> CommandResult:
        if self._sender is None or self._audit is None:
            raise InvalidInput("An executor registers on a connection: connect by gRPC or WebSocket.")
        require_scope(principal, CONNECT)
        name = self._executor_name(command, principal)
        at_once = _whole_number(command.metadata, MAX_AT_ONCE, MAX_COMMANDS)
        await require_executor_name(self._services.registration, name, principal=principal)
        executor = self.executor
        is_new = executor is None or executor.is_closed
        if executor is None or executor.is_closed:
            executor = ExecutorConnection(
                self._sender,
                tenant_id=principal.tenant_id,
                executor=name,
                key_id=principal.key_id,
                transport=self._audit.transport,
            )
            # A peer that waits for the response to its registration has to be sent nothing else before it.
            executor.hold()
            self._services.commands.add(executor)
        # Described to other workers before anything is stored, so that none of them removes it.
        executor.begin_registration(tool.name for tool in tools)
        try:
            result = await register_executor_tools(
                self._services.registration,
                name,
                tools,
                principal=principal,
                others=self._others(executor),
            )
        except BaseException:
            if is_new:
                self._services.commands.remove(executor)
            executor.abandon_registration()
            raise
        executor.register(
            (tool.name for tool in tools),
            max_commands=at_once,
            names_envelopes=command.metadata.get(NAMES_ENVELOPES) == "true",
        )
        self.executor = executor
        if is_new:
            self._audit.connected(executor)
        if result is not None:
            counts = {change: len(keys) for change, keys in result.diff.keys().items()}
            self._audit.registered(executor, counts, key_id=principal.key_id)
        await self._services.commands.announce()
        response: dict[str, Any] = {"role": EXECUTOR, "executor": name, "changed": result is not None}
        notes = {tool.name: list(tool.notes) for tool in tools if tool.notes}
        if notes:
            response["notes"] = notes
        if result is not None:
            problems = [one for one in result.report.to_json()["operations"] if one.get("reason")]
            if problems:
                response["problems"] = problems
        return success(command, response)

    def _executor_name(self, command: Command, principal: Principal) -> str:
        """Return the name in the metadata, else that of the connection so far, else that of the key."""
        current = self.executor
        name = command.metadata.get(EXECUTOR) or (principal.name if current is None else current.name)
        if _PROVIDER_NAME.fullmatch(name) is None:
            detail = "Give the name of a provider: at most 50 letters, digits, hyphens and underscores."
            problem = FieldError(f"/metadata/{EXECUTOR}", detail)
            raise InvalidInput("The name of the executor is not valid.", errors=[problem])
        if current is not None and current.name != name:
            raise InvalidInput(f"This connection is the executor {current.name}. Open another one.")
        return name

    async def _deregister(self, command: Command, principal: Principal) -> CommandResult:
        """Take away commands of this connection, all where none is named.

        Tools that are named, and that no other connection has registered, are removed. Where none is named,
        they stay, and are away: that is how an executor stops.
        """
        executor = self.executor
        if executor is None:
            raise NotFound("This connection is no executor.")
        value = read_value(command.arguments, location="/arguments")
        names = value.get("names") if isinstance(value, Mapping) else None
        if names is not None and not (isinstance(names, list) and all(isinstance(one, str) for one in names)):
            problem = FieldError("/arguments/names", "Give a list of names.")
            raise InvalidInput("The arguments are not valid.", errors=[problem])
        if names:
            require_scope(principal, CONNECT)
        before = executor.commands
        executor.register(before.difference(names or before))
        if self._audit is not None and before != executor.commands:
            self._audit.deregistered(executor, before - executor.commands, key_id=principal.key_id)
        removed = None
        if names:
            removed = await remove_executor_tools(
                self._services.registration,
                executor.name,
                before - executor.commands,
                principal=principal,
                others=self._others(executor),
            )
        await self._services.commands.announce()
        value = {
            "commands": sorted(executor.commands),
            "removed": [] if removed is None else removed.diff.removed,
        }
        return success(command, value)

    def _others(self, executor: ExecutorConnection) -> OtherCommands:
        """Return what reads the commands of the executor's other connections, at all workers."""
        return partial(self._services.commands.commands_of_others, *executor.key, connection_id=executor.id)

    async def _list(self, command: Command, principal: Principal) -> CommandResult:
        """Return definitions of tools: those that `q` finds, or the first by name."""
        require_scope(principal, "tools:read")
        value = read_value(command.arguments, location="/arguments")
        value = value if isinstance(value, Mapping) else {}
        q, limit = value.get("q", ""), value.get("limit", 20)
        texts = [q] if isinstance(q, str) else q
        if (
            not isinstance(texts, list)
            or len(texts) > MAX_QUERIES
            or not all(isinstance(text, str) and len(text) <= MAX_QUERY_LENGTH for text in texts)
            or not isinstance(limit, int)
            or not 0 < limit <= _MAX_LISTED
        ):
            problem = FieldError(
                "/arguments",
                f"Give q as a text or up to {MAX_QUERIES}, and limit from 1 to {_MAX_LISTED}.",
            )
            raise InvalidInput("The arguments are not valid.", errors=[problem])
        view = await self._services.collections.open_view(principal)
        found = await view.find(ToolSearch(texts, limit=limit))
        flat = [build_flat_definition(tool.name, tool.description, tool.inputs) for tool in found.tools]
        losses = {
            one.definition["name"]: [loss.as_json() for loss in one.losses] for one in flat if one.losses
        }
        payload = build_registration_payload([one.definition for one in flat])
        metadata = {LOSSES: exact_json.dumps(losses).decode()} if losses else {}
        return CommandResult(command.command_id, Status.SUCCESS, payload, "", metadata)

    async def _known(self, tools: Sequence[DefinedTool], principal: Principal) -> list[AgentTool | None]:
        """Return the tool of the registry for each declared one, None where the peer may call none."""
        collection = await self._services.collections.open_view(principal)
        found: list[AgentTool | None] = []
        for tool in tools:
            try:
                found.append(await collection.get(tool.name))
            except AmbiguousTool:
                found.append(None)
            except NotFound:
                found.append(await self._find_command(tool.name, collection, principal))
        return found

    async def _find_command(
        self, name: str, collection: ToolCollection, principal: Principal
    ) -> AgentTool | None:
        """Return the tool of an executor's command, None where the peer may call none of this name."""
        with suppress(NotFound, InvalidInput):
            target = await self._caller.find_target(name, principal)
            return None if target is None else await collection.get(target.tool)
        return None


def _reasoner_response(
    command: Command, tools: Sequence[DefinedTool], known: Sequence[AgentTool | None]
) -> CommandResult:
    """Return which of the declared tools there are, and how their inputs differ from those declared."""
    entries: list[dict[str, Any]] = []
    for tool, found in zip(tools, known, strict=True):
        if found is None:
            entries.append({"name": tool.name, "status": "unknown"})
            continue
        differences = input_differences(tool.inputs, found.inputs)
        entry: dict[str, Any] = {"name": tool.name, "status": "known", "tool": found.tool}
        if differences:
            entry |= {"status": "differs", "differences": differences}
        entries.append(entry)
    answer = success(command, {"role": REASONER, "tools": entries})
    unknown = [entry["name"] for entry in entries if entry["status"] == "unknown"]
    if not unknown:
        return answer
    detail = f"The registry has no tool of these names: {', '.join(unknown)}."
    return replace(answer, status=Status.NOT_FOUND, error=detail)


def input_differences(declared: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Return how the declared inputs of a tool differ from those that the registry has, as sentences."""
    own, theirs = declared.get("properties") or {}, stored.get("properties") or {}
    found = [f"There is no input {name}." for name in own.keys() - theirs.keys()]
    for name in own.keys() & theirs.keys():
        kinds = [one.get("type") if isinstance(one, Mapping) else None for one in (own[name], theirs[name])]
        if None not in kinds and kinds[0] != kinds[1]:
            found.append(f"The input {name} has the type {kinds[1]}, not {kinds[0]}.")
    missing = set(stored.get("required") or ()) - own.keys()
    found += [f"The input {name} is required, and is not declared." for name in missing]
    return sorted(found)


def _whole_number(metadata: Mapping[str, str], name: str, most: int) -> int | None:
    text = metadata.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) <= most):
        problem = FieldError(f"/metadata/{name}", f"Give a whole number from 1 to {most}.")
        raise InvalidInput("The metadata of the command is not valid.", errors=[problem])
    return int(text)
