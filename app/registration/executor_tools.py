"""Tools that connected executors register: a provider of their name, whose tools are their commands.

An executor may have several connections, and these may register different tools, such as two releases side by
side. The tools of the provider are those of all connections; the newest definition of a tool is taken.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

import orjson

from app.errors import Conflict, Unavailable
from app.models import TENANT, Provider
from app.protocols.ubp.record import PROTOCOL as UBP
from app.registration.model import RegistrationRequest, RegistrationResult, RegistrationSource
from app.registration.repository import provider_named
from app.registration.service import RegistrationService, SourceReplaced
from app.security.principal import Principal
from app.ubp.definitions import DefinedTool

PROTOCOL: Final = UBP.name
"""The protocol of such a provider, and of its tools."""
OtherCommands: TypeAlias = Callable[[], Awaitable[frozenset[str] | None]]
"""Returns what the other connections of the executor have registered, at all workers; None where that is not
known. Before that it describes the connections of this worker to others.
"""

_Tools: TypeAlias = dict[str, dict[str, Any]]
"""The tools of a manual, by name."""
_MAX_ATTEMPTS: Final = 100
"""Of several connections that register at the same time, one succeeds at each attempt of the others."""


async def require_executor_name(
    service: RegistrationService, name: str, *, principal: Principal
) -> Provider | None:
    """Return the provider of an executor, None where there is none yet.

    Raise Conflict where there is a provider of this name that is none of an executor, and Forbidden where the
    key is limited to other providers.
    """
    service.require_permission(_request(name, {}), principal=principal)
    async with service.database.read_session() as session:
        provider = await provider_named(session, name)
    if provider is not None and provider.protocol != PROTOCOL:
        raise Conflict(f"There is a provider {name} that is no executor's. Register under another name.")
    return provider


async def register_executor_tools(
    service: RegistrationService,
    name: str,
    tools: Sequence[DefinedTool],
    *,
    principal: Principal,
    others: OtherCommands,
) -> RegistrationResult | None:
    """Make the tools of a provider those that an executor declares, and those of its other connections; a
    provider that is not there is created.

    Return None where nothing changes, as for a key of another tenant: the registry is written for one. Raise
    what `require_executor_name` raises, InvalidInput for tools that cannot be stored, and Unavailable where
    others register without end.
    """
    if principal.tenant_id != TENANT:
        return None
    declared = {tool.name: _entry(name, tool) for tool in tools}

    async def merged(stored: _Tools) -> _Tools:
        # Read after what is stored: who has stored something has described itself before.
        commands = await others()
        kept = {key: tool for key, tool in stored.items() if commands is None or key in commands}
        return kept | declared

    for _ in range(_MAX_ATTEMPTS):
        provider = await require_executor_name(service, name, principal=principal)
        try:
            if provider is None:
                # Describes this connection to other workers, which may store theirs right afterwards.
                await others()
                return await service.register(_request(name, declared), principal=principal)
            return await _replaced(service, provider, merged, principal=principal)
        except SourceReplaced:
            continue
        except Conflict:
            # Another connection of the executor has been faster.
            if (
                provider is not None
                or await require_executor_name(service, name, principal=principal) is None
            ):
                raise
    raise _too_many(name)


async def remove_executor_tools(
    service: RegistrationService,
    name: str,
    commands: Collection[str],
    *,
    principal: Principal,
    others: OtherCommands,
) -> RegistrationResult | None:
    """Remove the tools of commands that no connection of an executor has registered any more.

    Return None where there are none, where that is not known, and for a key of another tenant: the registry
    is written for one. Raise NotFound where the key may not see the provider, and Unavailable where others
    register without end.
    """
    if principal.tenant_id != TENANT:
        return None

    async def remaining(stored: _Tools) -> _Tools:
        registered = await others()
        removed = frozenset() if registered is None else frozenset(commands) - registered
        return {key: tool for key, tool in stored.items() if key not in removed}

    for _ in range(_MAX_ATTEMPTS):
        provider = await require_executor_name(service, name, principal=principal)
        if provider is None:
            return None
        try:
            return await _replaced(service, provider, remaining, principal=principal)
        except SourceReplaced:
            continue
    raise _too_many(name)


async def _replaced(
    service: RegistrationService,
    provider: Provider,
    change: Callable[[_Tools], Awaitable[_Tools]],
    *,
    principal: Principal,
) -> RegistrationResult | None:
    """Make the tools of a provider what `change` returns for those that are stored; None where that is the
    same. Raise SourceReplaced where somebody else has replaced them meanwhile.
    """
    stored = await service.stored_manual(provider)
    before = {} if stored is None else {tool["name"]: tool for tool in stored.value["tools"]}
    after = await change(before)
    if stored is not None and await asyncio.to_thread(_is_same, before, after):
        return None
    replaces = None if stored is None else stored.sha256
    return await service.replace_source(provider.name, _source(after), principal=principal, replaces=replaces)


def _is_same(before: _Tools, after: _Tools) -> bool:
    return orjson.dumps(_manual(before)) == orjson.dumps(_manual(after))


def _request(name: str, tools: _Tools) -> RegistrationRequest:
    return RegistrationRequest(name, _source(tools), description=f"Tools of the executor {name}.")


def _source(tools: _Tools) -> RegistrationSource:
    return RegistrationSource("manual", value=_manual(tools), protocol=PROTOCOL)


def _manual(tools: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the tools as a UTCP manual, in the order of their names: the same tools are the same text."""
    return {"utcp_version": "1.0.1", "tools": [tools[name] for name in sorted(tools)]}


def _entry(executor: str, tool: DefinedTool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "inputs": tool.inputs,
        "tool_call_template": {
            "call_template_type": PROTOCOL,
            "executor": executor,
            "command_name": tool.name,
        },
    }


def _too_many(name: str) -> Unavailable:
    return Unavailable(f"Too many connections of the executor {name} register at the same time.")
