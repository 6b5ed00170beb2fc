"""Registering, previewing and refreshing providers.

A source is fetched and converted first, while no database connection is held; then everything is written in
one transaction, so that nothing is ever half there.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import delete
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.events import record_event
from app.calls.approvals.kinds import ApprovalCounts, ApprovalKind
from app.calls.approvals.records import add_changes, replace_changes
from app.catalog.feed import ChangeFeed, record_change
from app.catalog.loader import sealed_credential
from app.catalog.tools import similar_providers
from app.core.errors import Conflict, Forbidden, not_found
from app.core.settings import Settings
from app.core.text import pointer
from app.core.uuid7 import uuid7
from app.openapi.report import SourceWarning
from app.outbound.egress import build_egress_settings
from app.providers.credentials.model import EGRESS_SLOT, Json
from app.providers.credentials.permissions import RegistrationPermissions, permissions_of
from app.providers.credentials.sealing import merged_variables, new_variable
from app.providers.registration.approval_requirements import keep_requirements
from app.providers.registration.blocked_destinations import warn_of_blocked_destinations
from app.providers.registration.changes import change_kind
from app.providers.registration.context import ImportContext
from app.providers.registration.destinations import holds_secrets
from app.providers.registration.egress_check import reject_unusable_egress
from app.providers.registration.from_manual import joined
from app.providers.registration.model import (
    DocumentOptions,
    ParsedSource,
    RegistrationPlan,
    RegistrationRequest,
    RegistrationResult,
    RegistrationSource,
    SourceDiff,
    ToolDefinition,
)
from app.providers.registration.overrides import require_approver
from app.providers.registration.persist import (
    DEFINITION_OPTION,
    build_planned_provider,
    build_replanned_provider,
    compare_with_plan,
    definition_of,
    open_source_body,
    refreshed_columns,
    update_provider,
    write_credentials,
    write_provider,
    write_tools,
)
from app.providers.registration.plan import plan_registration
from app.providers.registration.repository import (
    changes_of,
    credentials_of,
    lock_names,
    names_in_use,
    pending_of,
    provider_named,
    slots_of,
    source_of,
    tool_counts,
    tools_of,
    variables_for,
)
from app.providers.registration.server_parts import with_stored_tools
from app.providers.registration.source_reader import SourceReader
from app.providers.registration.tool_checks import reject_empty
from app.providers.registration.tool_history import ToolHistoryWriter
from app.security.principal import Principal
from app.security.sealed_credentials import open_credential
from app.security.vault import Vault
from app.storage.database import Database
from app.storage.models import (
    Credential,
    Provider,
    Revision,
    SourceRow,
    Tool,
    Variable,
)


class SourceReplaced(Conflict):
    """Somebody else has replaced the source of a provider since it was read."""


@dataclass(frozen=True, slots=True)
class StoredManual:
    """The manual that a provider was made of, and the digest that tells it from others."""

    value: Any = field(repr=False)
    sha256: str


@dataclass(frozen=True, slots=True)
class RegistrationUnit:
    """What else is written in the transaction of a registration: `before` the provider is stored, e.g. by
    deleting one of its name, and `after` that. Where either raises, nothing is stored.
    """

    before: Callable[[AsyncSession], Awaitable[None]]
    after: Callable[[AsyncSession, RegistrationResult], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RegistrationService:
    """Registers, previews, refreshes and deletes providers."""

    settings: Settings
    database: Database
    vault: Vault
    feed: ChangeFeed
    reader: SourceReader
    approvals: ApprovalCounts = field(default_factory=ApprovalCounts)
    """Counts the approvals that refreshes request."""

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that the operator lets providers name, with their values."""
        return {name: os.environ[name] for name in self.settings.variable_env_names if os.environ.get(name)}

    def history_of(self, principal: Principal) -> ToolHistoryWriter:
        """Return the writer of the history of tools for changes by this principal."""
        return ToolHistoryWriter(principal.key_id, self.settings.tool_history_max)

    async def register(
        self, request: RegistrationRequest, *, principal: Principal, unit: RegistrationUnit | None = None
    ) -> RegistrationResult:
        """Store a new provider, and what a unit has to write with it.

        Raises Conflict where the name is taken, Forbidden where it lies outside the limits of the API key,
        and what the unit and reading the source raise; then nothing is stored.
        """
        self.require_permission(request, principal=principal)
        async with self.database.read_session() as session:
            if unit is None and await provider_named(session, request.name) is not None:
                raise name_taken(request.name)
        context, plan = await self.plan(request, principal=principal)
        definition = await definition_of(request, vault=self.vault)
        async with self._look_up_destinations(plan, context) as warnings:
            result = await self._store_provider(
                request, context, plan, definition=definition, principal=principal, unit=unit
            )
            return replace(result, report=result.report.with_warnings(*await warnings))

    async def _store_provider(
        self,
        request: RegistrationRequest,
        context: ImportContext,
        plan: RegistrationPlan,
        *,
        definition: str,
        principal: Principal,
        unit: RegistrationUnit | None,
    ) -> RegistrationResult:
        """Store a planned provider in one transaction; raise Conflict where the name is taken."""
        try:
            async with self.database.transaction() as session:
                await lock_names(session)
                if unit is not None:
                    await unit.before(session)
                if await provider_named(session, request.name) is not None:
                    raise name_taken(request.name)
                result = await write_provider(
                    session,
                    request,
                    context,
                    plan,
                    definition=definition,
                    vault=self.vault,
                    history=self.history_of(principal),
                )
                provider = result.provider
                credentials = await credentials_of(session, [provider.id])
                if unit is not None:
                    await unit.after(session, result)
                detail = {"kind": provider.kind, "tools": len(result.names), "origins": provider.origins}
                await self.record_action(session, provider, "created", actor=principal.key_id, detail=detail)
        except IntegrityError:
            raise name_taken(request.name) from None
        await self.feed.catch_up()
        return replace(result, credentials=tuple(credentials))

    async def preview(self, request: RegistrationRequest, *, principal: Principal) -> RegistrationResult:
        """Return what `register` would store, or would change where the name exists; store nothing."""
        self.require_permission(request, principal=principal)
        context, plan = await self.plan(request, principal=principal)
        async with self._look_up_destinations(plan, context) as warnings:
            async with self.database.read_session() as session:
                provider = await provider_named(session, request.name)
                tools = [] if provider is None else await tools_of(session, provider.id)
            if provider is not None and not principal.may_use(provider.name, provider.tags):
                raise name_taken(request.name)
            # In a thread, which shares its time with the event loop: 10,000 operations take tenths of a
            # second.
            planned = build_planned_provider(request, plan)
            seen = await asyncio.to_thread(_build_preview, planned, plan, provider, tools)
            return replace(seen, report=seen.report.with_warnings(*await warnings))

    async def refresh(self, name: str, *, principal: Principal) -> RegistrationResult:
        """Read a provider's source again: from its URL, or else the stored bytes with today's converter.

        Credentials stay as they are, and go where their owner said; what the source asks for otherwise stands
        in `needs_consent`. Raises NotFound, Conflict for one without source, UnsetVariable where a variable
        of a stored tool has no value any more, and what reading raises.
        """
        provider, context, plan = await self._refresh_plan(name, principal=principal)
        async with self._look_up_destinations(plan, context) as warnings:
            result = await self._store_refresh(name, provider.id, plan, principal=principal)
            return replace(result, report=result.report.with_warnings(*await warnings))

    async def preview_refresh(self, name: str, *, principal: Principal) -> RegistrationResult:
        """Return what `refresh` would change; store nothing. Raises as `refresh` does."""
        provider, context, plan = await self._refresh_plan(name, principal=principal)
        async with self._look_up_destinations(plan, context) as warnings:
            async with self.database.read_session() as session:
                tools = await tools_of(session, provider.id)
                credentials = await credentials_of(session, [provider.id])
            planned = build_replanned_provider(provider, plan)
            seen = await asyncio.to_thread(_build_preview, planned, plan, provider, tools)
            report = seen.report.with_warnings(*await warnings)
            return replace(seen, report=report, credentials=tuple(credentials))

    async def _refresh_plan(
        self, name: str, *, principal: Principal
    ) -> tuple[Provider, ImportContext, RegistrationPlan]:
        """Read the source of a stored provider again, and return what it makes of its tools."""
        async with self.database.read_session() as session:
            provider = await self.visible_provider(session, name, principal=principal)
            source = await source_of(session, provider.id)
            rows = await credentials_of(session, [provider.id])
            variables = await variables_for(session, provider.id)
            used = await names_in_use(session, provider)
        if source is None or (source.format == "export" and not provider.call_template):
            raise Conflict(f"All tools of {name!r} are custom tools: there is no source to read again.")
        permissions = permissions_of(principal).with_used_variables(used)
        context = self._build_stored_context(provider, rows, variables, permissions=permissions)
        parsed = await self._read_stored_source(provider, source, context)
        if parsed.unread_parts or parsed.unset_variables:
            async with self.database.read_session() as session:
                tools = [tool for tool in await tools_of(session, provider.id) if tool.revision_id]
            _reject_lost_variables(parsed, tools)
            if parsed.unread_parts:
                parsed = with_stored_tools(parsed, tools, provider=name, slots=context.slots)
        plan = await asyncio.to_thread(plan_registration, parsed, context, reader=self.reader)
        if provider.executor_owner is not None:
            # The source also has what other keys have declared, and nobody has approved.
            plan = replace(plan, trusted=frozenset())
        return provider, context, plan

    async def replace_source(
        self,
        name: str,
        source: RegistrationSource,
        *,
        principal: Principal,
        replaces: str | None,
        trusted: frozenset[str] | None = None,
        is_current: Callable[[Provider], bool] = lambda _: True,
    ) -> RegistrationResult:
        """Make the tools of a provider those of another source, as a refresh does with what it has read.

        `replaces` is the digest of the source that it replaces (`StoredManual.sha256`), None for none. With
        `trusted`, tools of other source keys are added and changed only after approval. Raise SourceReplaced
        where the provider has another source by now, or the locked provider is not `is_current`, NotFound
        where there is no such provider, and what reading raises.
        """
        async with self.database.read_session() as session:
            provider = await self.visible_provider(session, name, principal=principal)
            rows = await credentials_of(session, [provider.id])
            variables = await variables_for(session, provider.id)
        context = self._build_stored_context(provider, rows, variables, permissions=permissions_of(principal))
        parsed = await self.reader.read(source, context)
        plan = await asyncio.to_thread(plan_registration, parsed, context, reader=self.reader)
        plan = replace(plan, trusted=trusted)

        async def check_source(session: AsyncSession, locked: Provider) -> None:
            current = await source_of(session, provider.id)
            if replaces != (None if current is None else current.sha256) or not is_current(locked):
                raise SourceReplaced(f"The source of the provider {name} was replaced meanwhile.")

        return await self._store_refresh(name, provider.id, plan, principal=principal, check=check_source)

    async def _store_refresh(
        self,
        name: str,
        provider_id: UUID,
        plan: RegistrationPlan,
        *,
        principal: Principal,
        check: Callable[[AsyncSession, Provider], Awaitable[None]] | None = None,
    ) -> RegistrationResult:
        """Store the plan of a refresh in one transaction; raise NotFound where the provider is gone, and what
        `check` raises once the provider is locked.
        """
        async with self.database.transaction() as session:
            await lock_names(session)
            current = await provider_named(session, name, locked=True)
            if current is None or current.id != provider_id:
                raise not_found(_describe_missing_provider(name))
            if check is not None:
                await check(session, current)
            await write_credentials(session, current, plan, vault=self.vault, actor=principal.key_id)
            result = await write_tools(
                session, current, plan, vault=self.vault, history=self.history_of(principal)
            )
            update_provider(current, await refreshed_columns(session, current, plan, result.diff))
            pending = await pending_of(session, current.id)
            kind = await self._request_approval(session, current, plan, pending, actor=principal.key_id)
            credentials = await credentials_of(session, [current.id])
            counts = {change: len(keys) for change, keys in result.diff.keys().items()}
            tool_count = (await tool_counts(session, [current.id])).get(current.id, 0)
            await self.record_action(session, current, "refreshed", actor=principal.key_id, detail=counts)
        if kind is not None:
            self.approvals[kind, "pending"] += 1
        await self.feed.catch_up()
        return replace(result, credentials=tuple(credentials), tool_count=tool_count, pending=pending)

    async def _request_approval(
        self,
        session: AsyncSession,
        provider: Provider,
        plan: RegistrationPlan,
        pending: Revision | None,
        *,
        actor: str,
    ) -> ApprovalKind | None:
        """Request approval of a pending revision; return its kind, None where nothing is pending."""
        if pending is None:
            return None
        # The provider keeps the old definitions of slots that have changed.
        kind = change_kind(changes_of(pending), old_slots=slots_of(provider), new_slots=plan.parsed.slots)
        await add_changes(
            session,
            provider,
            revision_id=pending.id,
            kind=kind,
            operations=pending.report["operations"],
            actor=actor,
            seconds=self.settings.approval_change_ttl_seconds,
        )
        return kind

    async def plan(
        self, request: RegistrationRequest, *, principal: Principal
    ) -> tuple[ImportContext, RegistrationPlan]:
        """Read the source of a new provider, and return what is to be stored of it.

        Holds no database connection while something else is awaited. Raises what reading the source raises.
        """
        options_pointer = pointer(request.at, "options")
        await reject_unusable_egress(request.options, request.option_secrets, at=options_pointer)
        provider_id = uuid7()
        async with self.database.read_session() as session:
            stored = await variables_for(session, None)
        given = [
            new_variable(provider_id, name, variable, vault=self.vault)
            for name, variable in request.variables.items()
        ]
        context = ImportContext(
            id=provider_id,
            name=request.name,
            variables=merged_variables(stored, given),
            environment=self.environment,
            options=request.options,
            permissions=permissions_of(principal),
            option_secrets=request.option_secrets,
            limits=request.limits,
            credentials=request.credentials,
            at=request.at,
        )
        parsed = await self.reader.read(request.source, context)
        if request.source.kind != "tools":
            # An export is of a provider that somebody has registered already.
            reject_empty(parsed, options=request.options, at=request.at)
        return context, await asyncio.to_thread(plan_registration, parsed, context, reader=self.reader)

    @asynccontextmanager
    async def _look_up_destinations(
        self, plan: RegistrationPlan, context: ImportContext
    ) -> AsyncIterator[asyncio.Task[tuple[SourceWarning, ...]]]:
        """Look up the destinations that the address guard blocks while the block stores the plan.

        The warnings are for the response only: reports are stored for keys that may only read.
        """
        egress = build_egress_settings(context.options, context.option_secrets)
        network = self.reader.fetcher.network
        origins = [*plan.origins, *(one for one in plan.parsed.named_origins if not plan.parsed.is_fetched)]
        task = asyncio.create_task(warn_of_blocked_destinations(origins, network=network, egress=egress))
        try:
            yield task
        finally:
            task.cancel()

    def require_permission(self, request: RegistrationRequest, *, principal: Principal) -> None:
        """Raise Forbidden for what lies outside of the API key's limits, or has secrets beyond its scopes."""
        if not principal.may_use(request.name, request.tags):
            raise Forbidden(
                "The API key is limited to certain providers or tags; this registration is outside of them."
            )
        permissions = permissions_of(principal)
        permissions.require_options_write(request.options, at=pointer(request.at, "options"))
        if request.credentials or request.variables or request.option_secrets:
            permissions.require_credentials_write()
        for key, members in request.overrides.items():
            overrides_pointer = pointer(request.at, "overrides", key)
            require_approver(principal, requires_approval=False, changes=members, at=overrides_pointer)

    async def visible_provider(
        self, session: AsyncSession, name: str, *, principal: Principal, locked: bool = False
    ) -> Provider:
        """Return the provider, if it exists for this API key; else raise NotFound."""
        provider = await provider_named(session, name, locked=locked)
        if provider is None or not principal.may_use(provider.name, provider.tags):
            raise not_found(
                _describe_missing_provider(name), await similar_providers(session, name, principal=principal)
            )
        return provider

    async def delete(self, session: AsyncSession, provider: Provider, *, principal: Principal) -> None:
        """Delete a provider, which is locked, with all its rows, except for the records of calls and events,
        and for what its tools required approval of. The caller holds the lock of names.

        Raise Forbidden where this would delete secrets that the key may not delete one by one: anybody could
        register the next provider of this name.
        """
        if await holds_secrets(session, provider):
            permissions_of(principal).require_deletion(provider.name)
        await keep_requirements(session, actor=principal.key_id, provider_id=provider.id)
        await replace_changes(session, provider.id)
        await session.execute(delete(Provider).where(col(Provider.id) == provider.id))
        await self.record_action(session, provider, "deleted", actor=principal.key_id)

    async def record_action(
        self,
        session: AsyncSession,
        provider: Provider,
        action: str,
        *,
        actor: str,
        detail: Json | None = None,
    ) -> None:
        """Write the event and the change of a provider; the last statements of a transaction."""
        await record_event(
            session,
            actor=actor,
            action=action,
            object_type="provider",
            object_name=provider.name,
            detail=detail,
        )
        await record_change(session, kind="provider", provider_id=provider.id, object_id=str(provider.id))

    async def is_unchanged(self, request: RegistrationRequest, *, principal: Principal) -> Provider | None:
        """Return the provider that this very registration made earlier, if it is still there."""
        async with self.database.read_session() as session:
            provider = await provider_named(session, request.name)
        if provider is None or not principal.may_use(provider.name, provider.tags):
            return None
        same = provider.options.get(DEFINITION_OPTION) == await definition_of(request, vault=self.vault)
        return provider if same else None

    async def read_stored_manual(self, provider: Provider) -> StoredManual | None:
        """Return the manual that is the newest source of a provider; None where it has no source."""
        async with self.database.read_session() as session:
            source = await source_of(session, provider.id)
        if source is None:
            return None
        return await asyncio.to_thread(
            lambda: StoredManual(orjson.loads(open_source_body(source, vault=self.vault)), source.sha256)
        )

    async def _read_stored_source(
        self, provider: Provider, source: SourceRow, context: ImportContext
    ) -> ParsedSource:
        options = DocumentOptions(source.root, source.overlay, source.follow_references)
        if provider.call_template:
            return await self.reader.rediscover(provider.call_template, context, options=options)
        body = open_source_body(source, vault=self.vault)
        stored = RegistrationSource("document", body, source.media_type, url=source.url, options=options)
        return await self.reader.read(stored, context)

    def _build_stored_context(
        self,
        provider: Provider,
        rows: list[Credential],
        variables: list[Variable],
        *,
        permissions: RegistrationPermissions,
    ) -> ImportContext:
        context = ImportContext(
            id=provider.id,
            name=provider.name,
            variables=variables,
            environment=self.environment,
            options=provider.options,
            permissions=permissions,
            limits=provider.limits,
            stored={row.slot: row for row in rows},
            slots=slots_of(provider),
        )
        egress = context.stored.get(EGRESS_SLOT)
        if egress is None:
            return context
        secrets = open_credential(sealed_credential(egress, finder=context.finder), vault=self.vault)
        return replace(context, option_secrets=secrets)


def name_taken(name: str) -> Conflict:
    """Return the error for a name that exists; it says the same whether or not the client may see it."""
    return Conflict(
        f"A provider named {name!r} exists already. Refresh or change it, or choose another name."
    )


def _describe_missing_provider(name: str) -> str:
    """Return the sentence for a provider that is not there or not visible."""
    return f"There is no provider {name!r}."


def _build_preview(
    planned: Provider, plan: RegistrationPlan, provider: Provider | None, tools: Sequence[Tool]
) -> RegistrationResult:
    """Return the result of a plan that is not stored; `provider` is the stored one with its tools."""
    parsed = plan.parsed
    existing = {tool.source_key: tool for tool in tools if tool.revision_id}
    names = {
        tool.source_key: existing[tool.source_key].name
        if tool.source_key in existing
        else f"{planned.name}.{tool.name}"
        for tool in parsed.tools
    }
    if provider is None:
        diff = SourceDiff(added=tuple(tool.source_key for tool in parsed.tools))
    else:
        definitions = {key: ToolDefinition.from_row(tool) for key, tool in existing.items()}
        diff = compare_with_plan(provider, definitions, plan)
    return RegistrationResult(
        provider=planned,
        plan=plan,
        report=parsed.named_report(names, provider=planned.name),
        diff=diff,
        names=names,
        tool_count=len(names),
        provider_exists=provider is not None,
    )


def _reject_lost_variables(parsed: ParsedSource, tools: Iterable[Tool]) -> None:
    """Raise UnsetVariable where a tool that is stored would be removed because a variable has no value."""
    unset = parsed.unset_variables
    lost = [unset[tool.source_key] for tool in tools if tool.source_key in unset]
    if lost:
        raise joined(lost)
