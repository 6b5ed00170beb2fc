"""Tools that connected executors register: a provider of their name, whose tools are their commands.

An executor may have several connections, and these may register different tools, such as two releases side by
side. The tools of the provider are those of all connections; the newest definition of a tool is taken.

A name belongs to the API key that has registered it first, and to those that succeed it by rotation
(`Provider.executor_owner`). Who may change the provider admits further keys (`Provider.executor_keys`); what
these add or change waits for approval, and they remove nothing. An executor that was stored without an owner
gets the first key that registers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy.ext.asyncio import AsyncSession

from app.core import exact_json
from app.core.errors import Conflict, Forbidden, Unavailable
from app.formats.ubp.definitions import DefinedTool
from app.protocols.ubp.record import PROTOCOL as UBP
from app.providers.registration.model import RegistrationRequest, RegistrationResult, RegistrationSource
from app.providers.registration.persist import update_provider
from app.providers.registration.repository import provider_named
from app.providers.registration.service import RegistrationService, RegistrationUnit, SourceReplaced
from app.security.principal import Principal
from app.storage.models import TENANT, Provider

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
    key is limited to other providers, or the name belongs to another key and this one is not admitted.
    """
    service.require_permission(_request(name, {}), principal=principal)
    async with service.database.read_session() as session:
        provider = await provider_named(session, name)
    if provider is None:
        return None
    if provider.protocol != PROTOCOL:
        raise Conflict(f"There is a provider {name} that is no executor's. Register under another name.")
    if provider.executor_owner is None or principal.tenant_id != TENANT:
        return provider
    if principal.lineage not in (provider.executor_owner, *provider.executor_keys):
        raise Forbidden(
            f"The executor {name} belongs to another API key.",
            hint=f"Whoever may change the provider admits this key: `PATCH /providers/{name}` with its id in "
            "`executor_keys`. Or register under another name.",
        )
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
    declared = {tool.name: _build_entry(name, tool) for tool in tools}

    async def merge(stored: _Tools) -> _Tools:
        # Read after what is stored: who has stored something has described itself before.
        commands = await others()
        kept = {key: tool for key, tool in stored.items() if commands is None or key in commands}
        return kept | declared

    async def extend(stored: _Tools) -> _Tools:
        await others()
        return stored | declared

    for _ in range(_MAX_ATTEMPTS):
        provider = await require_executor_name(service, name, principal=principal)
        try:
            if provider is None:
                # Describes this connection to other workers, which may store theirs right afterwards.
                await others()
                return await service.register(
                    _request(name, declared), principal=principal, unit=_build_owner_unit(principal)
                )
            if provider.executor_owner is None:
                provider = await _adopt(service, provider, principal=principal)
            if not _is_owner(provider, principal):
                return await _replace_tools(service, provider, extend, principal=principal)
            trusted = frozenset(declared)
            return await _replace_tools(service, provider, merge, principal=principal, trusted=trusted)
        except SourceReplaced:
            continue
        except Conflict:
            # Another connection of the executor has been faster.
            if (
                provider is not None
                or await require_executor_name(service, name, principal=principal) is None
            ):
                raise
    raise _build_congestion_error(name)


async def remove_executor_tools(
    service: RegistrationService,
    name: str,
    commands: Collection[str],
    *,
    principal: Principal,
    others: OtherCommands,
) -> RegistrationResult | None:
    """Remove the tools of commands that no connection of an executor has registered any more.

    Return None where there are none, where that is not known, for a key that the executor does not belong to,
    and for one of another tenant: the registry is written for one. Raise NotFound where the key may not see
    the provider, and Unavailable where others register without end.
    """
    if principal.tenant_id != TENANT:
        return None

    async def keep_remaining(stored: _Tools) -> _Tools:
        registered = await others()
        removed = frozenset() if registered is None else frozenset(commands) - registered
        return {key: tool for key, tool in stored.items() if key not in removed}

    for _ in range(_MAX_ATTEMPTS):
        provider = await require_executor_name(service, name, principal=principal)
        if provider is None or not _is_owner(provider, principal):
            return None
        try:
            return await _replace_tools(service, provider, keep_remaining, principal=principal)
        except SourceReplaced:
            continue
    raise _build_congestion_error(name)


async def _replace_tools(
    service: RegistrationService,
    provider: Provider,
    change: Callable[[_Tools], Awaitable[_Tools]],
    *,
    principal: Principal,
    trusted: frozenset[str] = frozenset(),
) -> RegistrationResult | None:
    """Make the tools of a provider what `change` returns for those that are stored; None where that is the
    same. What it adds or changes under names that are not `trusted` waits for approval. Raise SourceReplaced
    where somebody else has replaced them meanwhile, or other keys are admitted.
    """
    stored = await service.read_stored_manual(provider)
    before = {} if stored is None else {tool["name"]: tool for tool in stored.value["tools"]}
    after = await change(before)
    if stored is not None and await asyncio.to_thread(_is_same, before, after):
        return None
    replaces = None if stored is None else stored.sha256
    return await service.replace_source(
        provider.name,
        _build_source(after),
        principal=principal,
        replaces=replaces,
        trusted=trusted,
        is_current=lambda locked: _list_admitted(locked) == _list_admitted(provider),
    )


def _is_owner(provider: Provider, principal: Principal) -> bool:
    return provider.executor_owner == principal.lineage


def _list_admitted(provider: Provider) -> tuple[str | None, list[str]]:
    return provider.executor_owner, list(provider.executor_keys)


def _build_owner_unit(principal: Principal) -> RegistrationUnit:
    """Return what makes a new provider that of a key, in the transaction that stores it."""

    async def do_nothing(session: AsyncSession) -> None:
        """There is nothing to write before."""

    async def set_owner(session: AsyncSession, result: RegistrationResult) -> None:
        result.provider.executor_owner = principal.lineage
        await session.flush()

    return RegistrationUnit(do_nothing, set_owner)


async def _adopt(service: RegistrationService, provider: Provider, *, principal: Principal) -> Provider:
    """Make a provider without an owner that of a key, and return it; raise SourceReplaced where it has got
    another owner meanwhile, or is gone.
    """
    async with service.database.transaction() as session:
        locked = await provider_named(session, provider.name, locked=True)
        if locked is None or locked.id != provider.id or locked.executor_owner is not None:
            raise SourceReplaced(f"The executor {provider.name} has got an owner meanwhile.")
        update_provider(locked, {"executor_owner": principal.lineage})
        await service.record_action(session, locked, "adopted", actor=principal.key_id)
    await service.feed.catch_up()
    return locked


def _is_same(before: _Tools, after: _Tools) -> bool:
    return exact_json.dumps(_build_manual(before)) == exact_json.dumps(_build_manual(after))


def _request(name: str, tools: _Tools) -> RegistrationRequest:
    return RegistrationRequest(name, _build_source(tools), description=f"Tools of the executor {name}.")


def _build_source(tools: _Tools) -> RegistrationSource:
    return RegistrationSource("manual", value=_build_manual(tools), protocol=PROTOCOL)


def _build_manual(tools: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the tools as a UTCP manual, in the order of their names: the same tools are the same text."""
    return {"utcp_version": "1.0.1", "tools": [tools[name] for name in sorted(tools)]}


def _build_entry(executor: str, tool: DefinedTool) -> dict[str, Any]:
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


def _build_congestion_error(name: str) -> Unavailable:
    return Unavailable(f"Too many connections of the executor {name} register at the same time.")
