"""Tools that a connected executor registers: a provider of its name, whose tools are its commands."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import orjson

from app.errors import Conflict
from app.protocols.ubp.record import PROTOCOL as UBP
from app.registration.model import RegistrationRequest, RegistrationResult, RegistrationSource
from app.registration.repository import provider_named
from app.registration.service import RegistrationService
from app.security.principal import Principal
from app.ubp.definitions import DefinedTool

PROTOCOL: Final = UBP.name
"""The protocol of such a provider, and of its tools."""


async def register_executor_tools(
    service: RegistrationService, name: str, tools: Sequence[DefinedTool], *, principal: Principal
) -> RegistrationResult | None:
    """Make the tools of a provider those that an executor declares; a provider that is not there is created.

    Return None where nothing has changed since the last registration. Raise Conflict where there is a
    provider of this name that is none of an executor, Forbidden where the key is limited to other providers,
    and InvalidInput for tools that cannot be stored.
    """
    source = RegistrationSource("manual", value=_manual(name, tools), protocol=PROTOCOL)
    request = RegistrationRequest(name, source, description=f"Tools of the executor {name}.")
    service.require_permission(request, principal=principal)
    async with service.database.read_session() as session:
        provider = await provider_named(session, name)
    if provider is None:
        try:
            return await service.register(request, principal=principal)
        except Conflict:
            # Another connection of the executor has been faster.
            async with service.database.read_session() as session:
                provider = await provider_named(session, name)
            if provider is None:
                raise
    if provider.protocol != PROTOCOL:
        raise Conflict(f"There is a provider {name} that is no executor's. Register under another name.")
    if await service.has_stored_source(provider, await asyncio.to_thread(orjson.dumps, source.value)):
        return None
    return await service.replace_source(name, source, principal=principal)


def _manual(name: str, tools: Sequence[DefinedTool]) -> dict[str, Any]:
    """Return the tools as a UTCP manual, in the order of their names: the same tools are the same text."""
    return {
        "utcp_version": "1.0.1",
        "tools": [
            {
                "name": tool.name,
                "description": tool.description,
                "inputs": tool.inputs,
                "tool_call_template": {
                    "call_template_type": PROTOCOL,
                    "executor": name,
                    "command_name": tool.name,
                },
            }
            for tool in sorted(tools, key=lambda tool: tool.name)
        ],
    }
