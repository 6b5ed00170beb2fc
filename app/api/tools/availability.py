"""Whether tools of the registry can be called now, as far as their executors decide it."""

from collections.abc import Callable, Iterable, Sequence

from app.catalog.availability import executor_command, is_available
from app.catalog.tools import ToolView
from app.protocols.command_routing import CommandRouter
from app.search.hits import ExecutorCommand, Hit
from app.security.principal import Principal
from app.toolsets import AgentTool


async def availability_of(
    tools: Sequence[ToolView], commands: CommandRouter, *, principal: Principal
) -> list[bool | None]:
    """Return for each tool whether an executor is connected that executes it; None where none does."""
    return await availability(
        [(tool.provider, executor_command(tool.call_template)) for tool in tools],
        commands,
        principal=principal,
    )


async def availability_of_agent_tools(
    tools: Sequence[AgentTool], commands: CommandRouter, *, principal: Principal
) -> list[bool | None]:
    """Return the same for tools as agents see them."""
    named = [(tool.provider, tool.command_name) for tool in tools]
    return await availability(named, commands, principal=principal)


async def availability(
    named: Iterable[tuple[str, str | None]], commands: CommandRouter, *, principal: Principal
) -> list[bool | None]:
    """Return for each provider and command whether an executor is connected that executes it."""
    named = list(named)
    if any(command is not None for _, command in named):
        await commands.follow_workers()
    return [
        is_available(commands, tenant_id=principal.tenant_id, provider=provider, command_name=command)
        for provider, command in named
    ]


async def hit_availability(
    hits: Sequence[Hit], commands: CommandRouter, *, principal: Principal
) -> Callable[[ExecutorCommand], bool | None]:
    """Return what tells of the command of a hit whether an executor is connected that executes it.

    Of tools that no executor executes, nothing is read.
    """
    if any(hit.executor_command is not None for hit in hits):
        await commands.follow_workers()
    return lambda command: is_available(
        commands,
        tenant_id=principal.tenant_id,
        provider=command.provider,
        command_name=command.command_name,
    )
