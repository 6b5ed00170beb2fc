"""The default allowed origins of a credential, and which keys may change them (decision 35).

An address that a key without `credentials:write` brought to a provider after its registration is not
confirmed: it is never part of that default, and a client certificate is not presented there.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import exists, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.catalog.loader import UNCONFIRMED_ORIGINS
from app.providers.credentials.model import Json, compile_security, slot_names
from app.providers.credentials.origins import named_origins, origin_of, origin_of_template, origins_of
from app.providers.credentials.permissions import RegistrationPermissions
from app.providers.credentials.slots import Binding
from app.providers.credentials.variable_scope import VariableScope
from app.storage.models import Credential, Provider, Tool, Variable

CONFIRMED_BASE_URL: Final = "confirmed_base_url"
"""The member of a provider's options that holds the base URL from before a key without `credentials:write`
changed it, "" where there was none; never shown.
"""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the next credential of a slot goes that is stored without `allowed_origins`.

    `origins` is empty where these must be given; `registered` are the origins that the provider's source
    itself has.
    """

    slot: str
    origins: tuple[str, ...]
    registered: tuple[str, ...]
    stored: bool
    token_url: str | None = None


@dataclass(frozen=True, slots=True)
class Destinations:
    """The confirmed origins of a provider: of its source, of its base URL, and of its tools.

    `tools` has the slots that each tool names, and its origin.
    """

    source: tuple[str, ...]
    base: tuple[str, ...]
    tools: Sequence[tuple[frozenset[str], str]]

    def binding(self, slot: str, *, loopback_tokens: bool) -> Binding:
        """Return where a credential of the slot goes by default, for `complete`."""
        named = tuple(dict.fromkeys([*self.source, *self.base]))
        return Binding(named, () if named else self._of_tools(slot), loopback_tokens=loopback_tokens)

    def of(self, slot: str, stored: Credential | None) -> Destination:
        """Return where the next credential of the slot goes: where the stored one does, if there is one."""
        binding = self.binding(slot, loopback_tokens=False)
        default = binding.registrar_origins or (
            binding.tool_origins if len(binding.tool_origins) == 1 else ()
        )
        return Destination(
            slot=slot,
            origins=default if stored is None else tuple(stored.allowed_origins),
            registered=self.source or self.base or self._of_tools(slot),
            stored=stored is not None,
            token_url=None
            if stored is None
            else stored.public.get("token_url") or stored.public.get("metadata_url"),
        )

    def _of_tools(self, slot: str) -> tuple[str, ...]:
        origins = (origin for slots, origin in self.tools if slot in slots)
        return tuple(dict.fromkeys(origins))


def destinations_of(
    provider: Provider, *, source_url: str | None, scope: VariableScope, tools: Sequence[Tool] = ()
) -> Destinations:
    """Return the confirmed origins of a stored provider, its variables written out."""
    source = list(origins_of([str(scope.resolved(source_url))] if source_url else []))
    if provider.call_template:
        source += named_origins(scope.resolved(provider.call_template))
        source += redirect_origins(provider.options)
    base = confirmed_base_url(provider.options)
    unconfirmed = unconfirmed_origins(provider)
    tool_origins = [(tool, origin_of_template(scope.resolved(tool.call_template)) or "") for tool in tools]
    return Destinations(
        source=tuple(dict.fromkeys(source)),
        base=origins_of([base] if base else []),
        tools=[
            (slot_names(compile_security(tool.security)), origin)
            for tool, origin in tool_origins
            if origin and origin not in unconfirmed
        ],
    )


async def holds_secrets(session: AsyncSession, provider: Provider) -> bool:
    """Return whether a credential (or secret option) or a secret variable of its own is stored for it."""
    credential = exists().where(col(Credential.provider_id) == provider.id)
    variable = exists().where(col(Variable.provider_id) == provider.id, col(Variable.secret).is_(True))
    return bool((await session.execute(select(or_(credential, variable)))).scalar_one())


def confirmed_base_url(options: Mapping[str, Any]) -> str | None:
    """Return the base URL that may decide where credentials go, None where there is none."""
    return options.get(CONFIRMED_BASE_URL, options.get("base_url")) or None


def redirect_origins(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the origin that a key with `credentials:write` has confirmed for the redirects of the source."""
    confirmed = options.get("redirect_origin")
    return (confirmed,) if confirmed else ()


def moves_base_url(options: Mapping[str, Any], given: str | None) -> bool:
    """Return whether a new base URL has another origin than the present one."""
    return origin_of(str(options.get("base_url") or "")) != origin_of(given or "")


def with_base_url(
    options: Mapping[str, Any], given: str | None, *, permissions: RegistrationPermissions
) -> Json:
    """Return the members of the options that are not the client's, once `base_url` is `given`."""
    kept = {key: options[key] for key in (CONFIRMED_BASE_URL,) if key in options}
    if permissions.may_write_credentials:
        return {}
    if moves_base_url(options, given):
        kept.setdefault(CONFIRMED_BASE_URL, options.get("base_url") or "")
    return kept


def unconfirmed_origins(provider: Provider) -> frozenset[str]:
    """Return the origins that only keys without `credentials:write` have brought."""
    return frozenset(provider.options.get(UNCONFIRMED_ORIGINS, ()))


def list_confirmed_origins(provider: Provider) -> list[str]:
    """Return the origins of the provider without the unconfirmed ones."""
    unconfirmed = unconfirmed_origins(provider)
    return [origin for origin in provider.origins if origin not in unconfirmed]


def with_tool_origin(provider: Provider, origin: str, *, permissions: RegistrationPermissions) -> Json:
    """Return the options of a provider that gets one more custom tool, at this origin."""
    if permissions.may_write_credentials:
        return with_confirmed(provider.options, {origin})
    if not origin or origin in provider.origins:
        return provider.options
    return {
        **provider.options,
        UNCONFIRMED_ORIGINS: sorted({*provider.options.get(UNCONFIRMED_ORIGINS, ()), origin}),
    }


def with_confirmed(options: Mapping[str, Any], origins: Collection[str]) -> Json:
    """Return the options after a key with `credentials:write` has confirmed these origins."""
    unconfirmed = [one for one in options.get(UNCONFIRMED_ORIGINS, ()) if one not in origins]
    rest = {key: value for key, value in options.items() if key != UNCONFIRMED_ORIGINS}
    return {**rest, UNCONFIRMED_ORIGINS: unconfirmed} if unconfirmed else rest
