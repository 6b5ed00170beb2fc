"""Reads, changes and deletes registered providers."""

from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy.ext.asyncio import AsyncSession

from app.access.presented_tokens import TOKEN_ID_PREFIX
from app.access.repository import find_keys
from app.catalog.loader import VariableFinder, sealed_credential
from app.core.errors import FieldError, InvalidInput, PreconditionFailed
from app.core.pagination import Page, PageRequest, matches_etag
from app.openapi.report import SourceReport
from app.providers.credentials.model import EGRESS_SLOT
from app.providers.credentials.permissions import RegistrationPermissions, permissions_of
from app.providers.credentials.sealing import new_credential, seal_into_credential_row
from app.providers.registration.destinations import (
    CONFIRMED_BASE_URL,
    holds_secrets,
    moves_base_url,
    with_base_url,
)
from app.providers.registration.egress_check import reject_unusable_egress
from app.providers.registration.executor_tools import PROTOCOL as UBP
from app.providers.registration.input_models import OptionsInput, ProviderPatch
from app.providers.registration.persist import DEFINITION_OPTION, update_provider
from app.providers.registration.plan import egress_credential
from app.providers.registration.repository import (
    SourceSummary,
    credentials_of,
    lock_names,
    page_of_providers,
    pending_of,
    report_of,
    source_summaries,
    tool_counts,
)
from app.providers.registration.service import RegistrationService
from app.security.principal import Principal
from app.security.sealed_credentials import open_credential
from app.storage.models import Credential, Provider, Revision

ProviderState = Literal["enabled", "disabled", "pending"]
_EXECUTOR_FIELDS: Final = ("executor_owner", "executor_keys")
_SECRETS: Final = frozenset({"proxy_url", "client_key"})
_EGRESS: Final = frozenset({"proxy_url", "ca_bundle", "client_certificate", "client_key"})


@dataclass(frozen=True, slots=True)
class ProviderDetails:
    """A provider's row with the rows that belong to it; `report` and `pending` only where one was read."""

    provider: Provider
    tool_count: int
    credentials: tuple[Credential, ...]
    source: SourceSummary | None
    report: SourceReport | None = None
    pending: Revision | None = None


@dataclass(frozen=True, slots=True)
class ProviderStore:
    """Operations on registered providers, each limited to what the principal may see and change."""

    registry: RegistrationService

    async def page(
        self, page: PageRequest, *, q: str | None, state: ProviderState | None, principal: Principal
    ) -> Page[ProviderDetails]:
        """Return a page of the providers that the key may see; with `q`, those whose name, title or
        description contains it.

        Raise InvalidInput for another list's cursor.
        """
        async with self.registry.database.read_session() as session:
            rows = await page_of_providers(session, principal=principal, page=page, q=q, state=state)
            details = await _read_details(session, rows.rows)
        return Page(details, rows.next_cursor, rows.total, rows.total_at_least)

    async def get(self, name: str, *, principal: Principal) -> ProviderDetails:
        """Return one provider with its report and pending changes; raise NotFound where there is none."""
        async with self.registry.database.read_session() as session:
            provider = await self.registry.visible_provider(session, name, principal=principal)
            return await _read_full_details(session, provider)

    async def patch(
        self, name: str, body: ProviderPatch, *, if_match: str | None, principal: Principal
    ) -> ProviderDetails:
        """Change the fields that the body names, and return the provider.

        Raises NotFound, PreconditionFailed where `if_match` names another version, Forbidden for options that
        redirect a credential or change whom it is trusted to, where the key may not store credentials, and
        InvalidInput for keys of an executor that do not exist, or where the provider is none of an executor.
        """
        registry = self.registry
        async with registry.database.transaction() as session:
            provider = await registry.visible_provider(session, name, principal=principal, locked=True)
            require_version(provider.version, if_match)
            permissions = permissions_of(principal)
            if body.options is not None:
                await _permit_options(session, provider, body.options, permissions=permissions)
            values = _change_values(body, provider, permissions=permissions)
            values |= await _find_executor_keys(session, body, provider)
            update_provider(provider, values)
            if body.options is not None:
                await self._write_egress(session, provider, body.options)
            details = await _read_full_details(session, provider)
            detail = {"changed": sorted(values)}
            await registry.record_action(session, provider, "changed", actor=principal.key_id, detail=detail)
        await registry.feed.catch_up()
        return details

    async def delete(self, name: str, *, if_match: str | None, principal: Principal) -> None:
        """Delete a provider with all its rows, except for the records of calls and events.

        Raises NotFound, PreconditionFailed, and Forbidden where this would delete secrets that the key may
        not delete one by one: anybody could register the next provider of this name.
        """
        registry = self.registry
        async with registry.database.transaction() as session:
            await lock_names(session)
            provider = await registry.visible_provider(session, name, principal=principal, locked=True)
            require_version(provider.version, if_match)
            await registry.delete(session, provider, principal=principal)
        await registry.feed.catch_up()

    async def _write_egress(self, session: AsyncSession, provider: Provider, given: OptionsInput) -> None:
        """Replace the secret options that the body names, and remove those that it sets to null.

        Raises InvalidInput where the resulting settings could reach no upstream.
        """
        named = given.model_fields_set
        rows = {row.slot: row for row in await credentials_of(session, [provider.id])}
        row = rows.get(EGRESS_SLOT)
        finder = VariableFinder(provider.name, (), {})
        vault = self.registry.vault
        old = open_credential(sealed_credential(row, finder=finder), vault=vault) if row is not None else {}
        merged = {key: value for key, value in old.items() if key not in named} | given.secrets()
        if named & _EGRESS:
            await reject_unusable_egress(provider.options, merged, at="/options")
        if row is None:
            if merged:
                session.add(new_credential(provider.id, EGRESS_SLOT, egress_credential(merged), vault=vault))
        elif not merged:
            await session.delete(row)
        else:
            row.version += 1
            seal_into_credential_row(row, egress_credential(merged), vault=vault)
        await session.flush()


def require_version(current: int | None, if_match: str | None) -> None:
    """Raise PreconditionFailed where `If-Match` names another version (RFC 9110 section 13.1.1).

    `current` is None where nothing is stored; then no version matches, not even `*`.
    """
    if if_match is None:
        return
    if current is None or not matches_etag(if_match, f'"{current}"'):
        raise PreconditionFailed(
            "The resource has changed since it was read: read it again before changing it."
        )


async def _permit_options(
    session: AsyncSession, provider: Provider, options: OptionsInput, *, permissions: RegistrationPermissions
) -> None:
    """Raise Forbidden for options that only a key with `credentials:write` may change on this provider."""
    given = {name: getattr(options, name) for name in options.model_fields_set - _SECRETS}
    permissions.require_options_write(given, stored=provider.options, at="/options")
    if options.model_fields_set & _SECRETS:
        permissions.require_credentials_write()
    if permissions.may_write_credentials:
        return
    chosen = {name: given[name] for name in ("server", "server_variables") if name in given}
    moved: list[str] = [name for name, value in chosen.items() if value != provider.options.get(name)]
    if "base_url" in given and moves_base_url(provider.options, options.base_url):
        moved.append("base_url")
    if moved and await holds_secrets(session, provider):
        permissions.require_destination_write(f"/options/{moved[0]}")


def _change_values(
    body: ProviderPatch, provider: Provider, *, permissions: RegistrationPermissions
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if body.description is not None:
        values["description"] = body.description
    if body.tags is not None:
        values["tags"] = list(dict.fromkeys(body.tags))
    if "language" in body.model_fields_set:
        values["language"] = body.language
    if body.enabled is not None:
        values["enabled"] = body.enabled
    if body.limits is not None:
        merged = {**provider.limits, **body.limits.model_dump(include=body.limits.model_fields_set)}
        values["limits"] = {key: value for key, value in merged.items() if value is not None}
    if body.options is not None:
        named = body.options.model_dump(include=body.options.model_fields_set - _SECRETS)
        if named.get("responses") is not None:
            named["responses"] = body.options.stored()["responses"]
        merged = {**provider.options, **named}
        if "base_url" in named:
            merged.pop(CONFIRMED_BASE_URL, None)
            merged |= with_base_url(provider.options, named["base_url"], permissions=permissions)
        values["options"] = {key: value for key, value in merged.items() if value is not None}
        values["options"].setdefault(DEFINITION_OPTION, "")
    return values


async def _find_executor_keys(
    session: AsyncSession, body: ProviderPatch, provider: Provider
) -> dict[str, Any]:
    """Return the columns with the keys that may connect as the executor, each by its lineage."""
    named = [name for name in _EXECUTOR_FIELDS if name in body.model_fields_set]
    if named and provider.protocol != UBP:
        problem = FieldError(f"/{named[0]}", "Only providers of executors have such keys.")
        raise InvalidInput(f"The provider {provider.name} is none of an executor.", errors=[problem])
    owner = [] if body.executor_owner is None else [("/executor_owner", body.executor_owner)]
    keys = [(f"/executor_keys/{index}", key_id) for index, key_id in enumerate(body.executor_keys or ())]
    stored = await find_keys(session, [key_id for _, key_id in owner + keys])
    # Access tokens are not stored.
    given = ((at, key_id) for at, key_id in owner + keys if not key_id.startswith(TOKEN_ID_PREFIX))
    unknown = [at for at, key_id in given if key_id not in stored]
    if unknown:
        problems = [FieldError(at, "There is no API key with this id.") for at in unknown]
        raise InvalidInput("A key of the executor does not exist.", errors=problems)
    lineages = {key_id: row.rate_limit_id or key_id for key_id, row in stored.items()}
    values: dict[str, Any] = {}
    if "executor_owner" in named:
        values["executor_owner"] = lineages.get(body.executor_owner or "", body.executor_owner)
    if body.executor_keys is not None:
        values["executor_keys"] = list(dict.fromkeys(lineages.get(one, one) for one in body.executor_keys))
    return values


async def _read_details(session: AsyncSession, rows: list[Provider]) -> list[ProviderDetails]:
    ids = [row.id for row in rows]
    counts = await tool_counts(session, ids)
    sources = await source_summaries(session, ids)
    credentials = await credentials_of(session, ids)
    return [
        ProviderDetails(
            provider=row,
            tool_count=counts.get(row.id, 0),
            credentials=tuple(one for one in credentials if one.provider_id == row.id),
            source=sources.get(row.id),
        )
        for row in rows
    ]


async def _read_full_details(session: AsyncSession, provider: Provider) -> ProviderDetails:
    details = (await _read_details(session, [provider]))[0]
    report = await report_of(session, provider.id)
    pending = await pending_of(session, provider.id)
    return ProviderDetails(provider, details.tool_count, details.credentials, details.source, report, pending)
