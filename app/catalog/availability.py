"""Whether tools can be called now: those of executors, while one is connected that executes them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from app.catalog.tools import ToolView
from app.protocols.call_templates import protocol_of
from app.protocols.command_routing import Capability, CommandRouter
from app.protocols.registry import PROTOCOLS


def executor_command(template: Mapping[str, Any]) -> str | None:
    """Return the command that executors execute for a tool with this stored call template; None for tools
    that no executor executes.
    """
    record = PROTOCOLS.get(protocol_of(template))
    return None if record is None else record.command_name(template)


def is_available(
    commands: CommandRouter, *, tenant_id: UUID, provider: str, command_name: str | None
) -> bool | None:
    """Return whether an executor of the provider is connected, at any worker, that executes the command.

    None for a tool that no executor executes. What is known of other workers is about a second old; it is
    known after `CommandRouter.follow_workers`.
    """
    if command_name is None:
        return None
    return commands.is_connected(Capability(tenant_id, provider, command_name))


async def read_availability(
    named: Iterable[tuple[str, str | None]], commands: CommandRouter, *, tenant_id: UUID
) -> list[bool | None]:
    """Return for each provider and command whether an executor is connected that executes it."""
    named = list(named)
    if any(command is not None for _, command in named):
        await commands.follow_workers()
    return [
        is_available(commands, tenant_id=tenant_id, provider=provider, command_name=command)
        for provider, command in named
    ]


async def availability_of_tools(
    tools: Sequence[ToolView], commands: CommandRouter, *, tenant_id: UUID
) -> list[bool | None]:
    """Return for each tool whether an executor is connected that executes it; None where none does."""
    named = [(tool.provider, executor_command(tool.call_template)) for tool in tools]
    return await read_availability(named, commands, tenant_id=tenant_id)
