"""Reading, changing and deleting providers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.catalog.loader import VariableFinder, stored_form
from app.credentials.model import EGRESS_SLOT, CredentialDraft, Json
from app.credentials.permissions import Reach, reach_of
from app.credentials.sealing import fill_credential, new_credential
from app.errors import PreconditionFailed
from app.models import Credential, Provider, Revision
from app.pagination import fits
from app.registration.destinations import CONFIRMED_BASE_URL, holds_secrets, moves_base_url, with_base_url
from app.registration.egress_check import refuse_unusable
from app.registration.input_models import OptionsInput, ProviderPatch
from app.registration.persist import DEFINITION, touched
from app.registration.plan import egress_credential
from app.registration.repository import (
    credentials_of,
    page_of_providers,
    pending_of,
    report_of,
    source_facts,
    tool_counts,
)
from app.registration.service import Registry
from app.security.credentials import open_credential
from app.security.principal import Principal

_SECRETS: Final = frozenset({"proxy_url", "client_key"})
_EGRESS: Final = frozenset({"proxy_url", "ca_bundle", "client_certificate", "client_key"})


@dataclass(frozen=True, slots=True)
class ProviderFacts:
    """A provider with what is known around it."""

    provider: Provider
    tool_count: int
    credentials: tuple[Credential, ...]
    source: Json | None
    report: Json | None = None
    pending: Revision | None = None


@dataclass(frozen=True, slots=True)
class ProviderChanges:
    """What can be done with providers that exist."""

    registry: Registry

    async def page(
        self, *, principal: Principal, after: str, limit: int
    ) -> tuple[list[ProviderFacts], str | None]:
        """Providers by name after `after`, and the name to go on after."""
        async with self.registry.database.reading() as session:
            rows = await page_of_providers(session, principal=principal, after=after, limit=limit + 1)
            facts = await _facts(session, rows[:limit])
        return facts, rows[limit - 1].name if len(rows) > limit else None

    async def get(self, name: str, *, principal: Principal) -> ProviderFacts:
        """One provider with its report; NotFound."""
        async with self.registry.database.reading() as session:
            provider = await self.registry.visible_provider(session, name, principal=principal)
            return await _whole(session, provider)

    async def patch(
        self, name: str, body: ProviderPatch, *, if_match: str | None, principal: Principal
    ) -> ProviderFacts:
        """Changes what the body names.

        Raises NotFound, PreconditionFailed for another version, and Forbidden for options that move a
        credential or its trust, where the caller may store none.
        """
        registry = self.registry
        async with registry.database.writing() as session:
            provider = await registry.visible_provider(session, name, principal=principal, locked=True)
            refuse_stale(provider.version, if_match)
            reach = reach_of(principal)
            if body.options is not None:
                await _permit_options(session, provider, body.options, reach=reach)
            values = _values(body, provider, reach=reach)
            touched(provider, values)
            if body.options is not None:
                await self._write_egress(session, provider, body.options)
            facts = await _whole(session, provider)
            detail = {"changed": sorted(values)}
            await registry.recorded(session, provider, "changed", actor=principal.key_id, detail=detail)
        await registry.feed.catch_up()
        return facts

    async def delete(self, name: str, *, if_match: str | None, principal: Principal) -> None:
        """Deletes a provider and all that hangs on it, but for the audit.

        Raises NotFound, PreconditionFailed, and Forbidden where secrets go with it that the caller may not
        delete one by one: the next provider of its name could be anybody's.
        """
        registry = self.registry
        async with registry.database.writing() as session:
            provider = await registry.visible_provider(session, name, principal=principal, locked=True)
            refuse_stale(provider.version, if_match)
            if await holds_secrets(session, provider):
                reach_of(principal).permit_deleting(provider.name)
            await session.execute(delete(Provider).where(col(Provider.id) == provider.id))
            await registry.recorded(session, provider, "deleted", actor=principal.key_id)
        await registry.feed.catch_up()

    async def _write_egress(self, session: AsyncSession, provider: Provider, given: OptionsInput) -> None:
        """Secret options that the body names are replaced, those that it sets to null are removed.

        Raises InvalidInput where what comes of it could reach no upstream.
        """
        named = given.model_fields_set
        rows = {row.slot: row for row in await credentials_of(session, [provider.id])}
        row = rows.get(EGRESS_SLOT)
        finder = VariableFinder(provider.name, (), {})
        vault = self.registry.vault
        old = open_credential(stored_form(row, finder=finder), vault=vault) if row is not None else {}
        merged = {key: value for key, value in old.items() if key not in named} | given.secrets()
        if named & _EGRESS:
            await refuse_unusable(provider.options, merged, at="/options")
        if row is None:
            if merged:
                session.add(new_credential(provider.id, EGRESS_SLOT, _given(merged), vault=vault))
        elif not merged:
            await session.delete(row)
        else:
            row.version += 1
            fill_credential(row, _given(merged), vault=vault)
        await session.flush()


def refuse_stale(current: int | None, if_match: str | None) -> None:
    """Raises PreconditionFailed where `If-Match` names another version (RFC 9110 section 13.1.1).

    `current` is None where nothing is stored; then no version matches, not even `*`.
    """
    if if_match is None:
        return
    if current is None or not fits(if_match, f'"{current}"'):
        raise PreconditionFailed("It was changed since it was read: read it again, then decide.")


async def _permit_options(
    session: AsyncSession, provider: Provider, options: OptionsInput, *, reach: Reach
) -> None:
    """Raises Forbidden for options that only a key with `credentials:write` changes on this provider."""
    given = {name: getattr(options, name) for name in options.model_fields_set - _SECRETS}
    reach.permit_options(given, stored=provider.options, at="/options")
    if options.model_fields_set & _SECRETS:
        reach.permit_sealing()
    if "base_url" not in given or reach.seals or not moves_base_url(provider.options, options.base_url):
        return
    if await holds_secrets(session, provider):
        reach.permit_destination("/options/base_url")


def _given(secrets: Mapping[str, Any]) -> CredentialDraft:
    return egress_credential(secrets)


def _values(body: ProviderPatch, provider: Provider, *, reach: Reach) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if body.description is not None:
        values["description"] = body.description
    if body.tags is not None:
        values["tags"] = list(dict.fromkeys(body.tags))
    if body.enabled is not None:
        values["enabled"] = body.enabled
    if body.limits is not None:
        merged = {**provider.limits, **body.limits.model_dump(include=body.limits.model_fields_set)}
        values["limits"] = {key: value for key, value in merged.items() if value is not None}
    if body.options is not None:
        named = body.options.model_dump(include=body.options.model_fields_set - _SECRETS)
        merged = {**provider.options, **named}
        if "base_url" in named:
            merged.pop(CONFIRMED_BASE_URL, None)
            merged |= with_base_url(provider.options, named["base_url"], reach=reach)
        values["options"] = {key: value for key, value in merged.items() if value is not None}
        values["options"].setdefault(DEFINITION, "")
    return values


async def _facts(session: AsyncSession, rows: list[Provider]) -> list[ProviderFacts]:
    ids = [row.id for row in rows]
    counts = await tool_counts(session, ids)
    sources = await source_facts(session, ids)
    credentials = await credentials_of(session, ids)
    return [
        ProviderFacts(
            provider=row,
            tool_count=counts.get(row.id, 0),
            credentials=tuple(one for one in credentials if one.provider_id == row.id),
            source=sources.get(row.id),
        )
        for row in rows
    ]


async def _whole(session: AsyncSession, provider: Provider) -> ProviderFacts:
    facts = (await _facts(session, [provider]))[0]
    report = await report_of(session, provider.id)
    pending = await pending_of(session, provider.id)
    return ProviderFacts(provider, facts.tool_count, facts.credentials, facts.source, report or None, pending)
