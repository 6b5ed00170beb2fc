"""Stores, lists (without their values) and deletes the credentials of providers."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlalchemy.ext.asyncio import AsyncSession

from app.access.events import record_event
from app.catalog.feed import record_change
from app.core.errors import FieldError, not_found
from app.core.suggestions import find_similar
from app.providers.credentials.model import (
    DISCOVERY_SLOTS,
    DISCOVERY_STATIC,
    EGRESS_SLOT,
    CredentialDraft,
    CredentialSlot,
    Json,
)
from app.providers.credentials.permissions import UNRESTRICTED, RegistrationPermissions, permissions_of
from app.providers.credentials.sealing import (
    new_credential,
    seal_into_credential_row,
    with_stored_variable_names,
)
from app.providers.credentials.slots import complete
from app.providers.credentials.variable_scope import VariableScope, scope_of
from app.providers.registration.destinations import Destination, Destinations, destinations_of
from app.providers.registration.repository import (
    credentials_of,
    slots_of,
    source_summaries,
    tools_of,
    variables_for,
)
from app.providers.registration.service import RegistrationService
from app.providers.registration.shared_variables import bind_shared_variables
from app.providers.registration.store import require_version
from app.security.principal import Principal
from app.storage.models import Credential, Provider, now


@dataclass(frozen=True, slots=True)
class CredentialStore:
    """Operations on the credentials of a provider."""

    registry: RegistrationService

    async def list_stored(self, provider: str, *, principal: Principal) -> list[Credential]:
        """Return the stored credentials by slot; raise NotFound for the provider."""
        async with self.registry.database.read_session() as session:
            row = await self.registry.visible_provider(session, provider, principal=principal)
            return [one for one in await credentials_of(session, [row.id]) if one.slot != EGRESS_SLOT]

    async def find_destinations(self, provider: str, *, principal: Principal) -> list[Destination]:
        """Return, for each slot, where a credential would be sent that is stored without origins of its own.

        Raises NotFound for the provider.
        """
        async with self.registry.database.read_session() as session:
            row = await self.registry.visible_provider(session, provider, principal=principal)
            scope = await self._read_scope(session, row, permissions=UNRESTRICTED)
            destinations = await _read_destinations(session, row, scope=scope)
            stored = {one.slot: one for one in await credentials_of(session, [row.id])}
        more = DISCOVERY_SLOTS if row.call_template else ()
        slots = dict.fromkeys([*(slot.name for slot in slots_of(row)), *more, *stored])
        return [destinations.of(slot, stored.get(slot)) for slot in slots if slot != EGRESS_SLOT]

    async def put(
        self,
        provider: str,
        slot: str,
        given: CredentialDraft,
        *,
        if_match: str | None,
        principal: Principal,
    ) -> tuple[Credential, bool]:
        """Store a credential or replace the one in its slot; return its row, and whether the slot was empty.

        Without origins (or a token URL) of its own, a credential keeps those of the one it replaces; the
        first in its slot gets the confirmed origins of the provider. Raises NotFound for the provider or the
        slot, InvalidInput where the origins cannot be determined, UnsetVariable, PreconditionFailed, and
        Forbidden where a limited key names a secret variable that all providers share.
        """
        registry = self.registry
        async with registry.database.transaction() as session:
            row = await registry.visible_provider(session, provider, principal=principal, locked=True)
            stored = {one.slot: one for one in await credentials_of(session, [row.id])}.get(slot)
            going = given if stored is None else _as_stored(given, stored)
            ready = await self._complete(session, row, slot, going, principal=principal)
            require_version(None if stored is None else stored.version, if_match)
            if stored is None:
                credential = new_credential(row.id, slot, ready, vault=registry.vault)
                session.add(credential)
            else:
                stored.version += 1
                stored.updated_at = now()
                stored.last_used_at = None
                credential = seal_into_credential_row(stored, ready, vault=registry.vault)
            await session.flush()
            await bind_shared_variables(session, row, [credential], actor=principal.key_id)
            detail: Json = {
                "slot": slot,
                "kind": credential.kind,
                "allowed_origins": credential.allowed_origins,
                "version": credential.version,
            }
            await _record(session, row, credential, "stored", actor=principal.key_id, detail=detail)
        await registry.feed.catch_up()
        return credential, stored is None

    async def delete(self, provider: str, slot: str, *, if_match: str | None, principal: Principal) -> None:
        """Delete a credential; raise NotFound, or PreconditionFailed where `if_match` names another
        version.
        """
        registry = self.registry
        async with registry.database.transaction() as session:
            row = await registry.visible_provider(session, provider, principal=principal, locked=True)
            slots = {one.slot: one for one in await credentials_of(session, [row.id])}
            stored = slots.get(slot)
            if stored is None or slot == EGRESS_SLOT:
                raise not_found(
                    f"No credential is stored in slot {slot!r} of {provider!r}.",
                    _suggest_slots(slot, slots, principal=principal),
                )
            require_version(stored.version, if_match)
            await session.delete(stored)
            await session.flush()
            await _record(session, row, stored, "deleted", actor=principal.key_id, detail={"slot": slot})
        await registry.feed.catch_up()

    async def _complete(
        self,
        session: AsyncSession,
        provider: Provider,
        slot: str,
        given: CredentialDraft,
        *,
        principal: Principal,
    ) -> CredentialDraft:
        slots = {one.name: one for one in slots_of(provider)}
        entry = slots.get(slot)
        if entry is None and slot in DISCOVERY_SLOTS and provider.call_template:
            entry = CredentialSlot(slot, "static" if slot == DISCOVERY_STATIC else "any")
        if entry is None:
            error = FieldError("#/path/slot", "The provider has no such slot.", expected=list(slots))
            unknown = not_found(
                f"The provider {provider.name!r} has no credential slot {slot!r}.",
                _suggest_slots(slot, slots, principal=principal),
            )
            unknown.errors = (error,)
            raise unknown
        scope = await self._read_scope(session, provider, permissions=permissions_of(principal))
        destinations = await _read_destinations(session, provider, scope=scope)
        loopback = self.registry.reader.binding(()).loopback_tokens
        binding = destinations.binding(slot, loopback_tokens=loopback)
        return complete(
            with_stored_variable_names(given, scope=scope, at=""), slot=entry, binding=binding, at=""
        )

    async def _read_scope(
        self, session: AsyncSession, provider: Provider, *, permissions: RegistrationPermissions
    ) -> VariableScope:
        variables = await variables_for(session, provider.id)
        return scope_of(
            provider.name, variables, environment=self.registry.environment, permissions=permissions
        )


def _suggest_slots(slot: str, slots: Iterable[str], *, principal: Principal) -> list[str]:
    """Return up to three names of slots similar to an unknown name, for keys that may list them."""
    if not principal.has_scope("providers:read"):
        return []
    return find_similar(slot, (name for name in slots if name != EGRESS_SLOT), limit=3)


def _as_stored(given: CredentialDraft, stored: Credential) -> CredentialDraft:
    """Return the credential with the origins and token URL of the one it replaces, where it names none."""
    public = dict(given.public)
    urls = ("token_url", "metadata_url")
    if given.kind == stored.kind == "oauth2" and not any(public.get(name) for name in urls):
        public |= {name: stored.public[name] for name in urls if stored.public.get(name)}
    if given.kind == stored.kind == "bearer" and public.get("scheme") is None:
        public["scheme"] = stored.public.get("scheme")
    origins = given.allowed_origins or tuple(stored.allowed_origins) or None
    return replace(given, public=public, allowed_origins=origins)


async def _read_destinations(
    session: AsyncSession, provider: Provider, *, scope: VariableScope
) -> Destinations:
    url = await _read_source_url(session, provider)
    destinations = destinations_of(provider, source_url=url, scope=scope)
    if destinations.source or destinations.base:
        # The tools' origins do not matter then, and there may be thousands of tools.
        return destinations
    tools = await tools_of(session, provider.id)
    return destinations_of(provider, source_url=url, scope=scope, tools=tools)


async def _read_source_url(session: AsyncSession, provider: Provider) -> str | None:
    source = (await source_summaries(session, [provider.id])).get(provider.id)
    return None if source is None else source.url


async def _record(
    session: AsyncSession,
    provider: Provider,
    credential: Credential,
    action: str,
    *,
    actor: str,
    detail: Json,
) -> None:
    await record_event(
        session,
        actor=actor,
        action=action,
        object_type="credential",
        object_name=f"{provider.name}/{credential.slot}",
        detail=detail,
    )
    await record_change(session, kind="credential", provider_id=provider.id, object_id=str(credential.id))
