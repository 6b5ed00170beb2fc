"""Registering, previewing and refreshing providers.

A source is fetched and converted first, while no database connection is held; then everything is written in
one transaction, so that nothing is ever half there.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from app.access.events import record_event
from app.catalog.feed import Feed, record_change
from app.catalog.loader import stored_form
from app.credentials.model import EGRESS_SLOT, Json
from app.credentials.permissions import Reach, reach_of
from app.credentials.sealing import new_variable, overlaid
from app.database import Database
from app.errors import Conflict, Forbidden
from app.models import Credential, Provider, Tool, Variable, new_id
from app.models import Source as SourceRow
from app.registration.context import Subject
from app.registration.diff import NOTHING
from app.registration.egress_check import refuse_unusable
from app.registration.fingerprint import definition_of
from app.registration.model import Draft
from app.registration.persist import (
    DEFINITION,
    compared_with,
    opened_body,
    refreshed_columns,
    stored_slots,
    touched,
    write_credentials,
    write_provider,
    write_tools,
)
from app.registration.plan import draft
from app.registration.report import difference, named_report
from app.registration.repository import (
    columns_of,
    credentials_of,
    lock_names,
    names_in_use,
    pending_of,
    provider_named,
    source_of,
    tool_counts,
    tools_of,
    variables_for,
)
from app.registration.request_model import DocumentOptions, Registration, Source
from app.registration.result import Imported, imported_of, name_taken, not_found
from app.registration.source_reader import Reading, SourceReader
from app.security.credentials import open_credential
from app.security.principal import Principal
from app.security.vault import Vault
from app.settings import Settings
from app.text import pointer


@dataclass(frozen=True, slots=True)
class Registry:
    """The control plane's work on providers."""

    settings: Settings
    database: Database
    vault: Vault
    feed: Feed
    reader: SourceReader

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that the operator lets providers name."""
        return {name: os.environ[name] for name in self.settings.variable_env_names if os.environ.get(name)}

    async def register(self, registration: Registration, *, principal: Principal) -> Imported:
        """Stores a new provider.

        Raises Conflict where the name is taken, Forbidden where it lies outside the limits of the caller
        and what reading the source raises; then nothing is stored.
        """
        self.permit(registration, principal=principal)
        async with self.database.reading() as session:
            if await provider_named(session, registration.name) is not None:
                raise name_taken(registration.name)
        subject, drafted = await self.prepare(registration, principal=principal)
        definition = await definition_of(registration, vault=self.vault)
        try:
            async with self.database.writing() as session:
                await lock_names(session)
                if await provider_named(session, registration.name) is not None:
                    raise name_taken(registration.name)
                provider, written = await write_provider(
                    session,
                    registration,
                    subject,
                    drafted,
                    definition=definition,
                    vault=self.vault,
                )
                detail = {"kind": provider.kind, "tools": len(written.names), "origins": provider.origins}
                credentials = await credentials_of(session, [provider.id])
                await self.recorded(session, provider, "created", actor=principal.key_id, detail=detail)
        except IntegrityError:
            raise name_taken(registration.name) from None
        await self.feed.catch_up()
        return imported_of(provider, drafted, written, credentials)

    async def preview(self, registration: Registration, *, principal: Principal) -> Imported:
        """What `register` would store, or would change where the name exists; stores nothing."""
        self.permit(registration, principal=principal)
        subject, drafted = await self.prepare(registration, principal=principal)
        async with self.database.reading() as session:
            provider = await provider_named(session, registration.name)
            tools = [] if provider is None else await tools_of(session, provider.id)
        if provider is not None and not principal.may_use(provider.name, provider.tags):
            raise name_taken(registration.name)
        # In a thread, which shares its time with the event loop: 10,000 operations take tenths of a second.
        return await asyncio.to_thread(_previewed, registration, subject, drafted, provider, tools)

    async def refresh(self, name: str, *, principal: Principal) -> Imported:
        """Reads a provider's source again: from its URL, or else the stored bytes with today's converter.

        Credentials stay as they are, and go where their owner said; what the source would like otherwise
        stands in `needs_consent`. Raises NotFound, Conflict for one without source, and what reading raises.
        """
        async with self.database.reading() as session:
            provider = await self.visible_provider(session, name, principal=principal)
            source = await source_of(session, provider.id)
            rows = await credentials_of(session, [provider.id])
            variables = await variables_for(session, provider.id)
            used = await names_in_use(session, provider)
        if source is None or (source.format == "export" and not provider.call_template):
            raise Conflict(f"The tools of {name!r} were written by hand: there is no source to read again.")
        reach = reach_of(principal).using(used)
        subject = self._stored_subject(provider, rows, variables, reach=reach)
        reading = await self._read_again(provider, source, subject)
        drafted = await asyncio.to_thread(draft, reading, subject, reader=self.reader)
        async with self.database.writing() as session:
            await lock_names(session)
            current = await provider_named(session, name, locked=True)
            if current is None or current.id != provider.id:
                raise not_found(name)
            await write_credentials(session, current, drafted, vault=self.vault)
            written = await write_tools(session, current, drafted, vault=self.vault)
            touched(current, await refreshed_columns(session, current, drafted, written.comparison))
            pending = await pending_of(session, current.id)
            credentials = await credentials_of(session, [current.id])
            counts = {what: len(keys) for what, keys in written.difference.items()}
            count = (await tool_counts(session, [current.id])).get(current.id, 0)
            await self.recorded(session, current, "refreshed", actor=principal.key_id, detail=counts)
        await self.feed.catch_up()
        return replace(imported_of(current, drafted, written, credentials, count=count), pending=pending)

    async def prepare(self, registration: Registration, *, principal: Principal) -> tuple[Subject, Draft]:
        """Reads the source of a new provider; holds no connection while something else is awaited."""
        at = pointer(registration.at, "options")
        await refuse_unusable(registration.options, registration.option_secrets, at=at)
        provider_id = new_id()
        async with self.database.reading() as session:
            stored = await variables_for(session, None)
        given = [
            new_variable(provider_id, name, variable, vault=self.vault)
            for name, variable in registration.variables.items()
        ]
        subject = Subject(
            id=provider_id,
            name=registration.name,
            variables=overlaid(stored, given),
            environment=self.environment,
            options=registration.options,
            reach=reach_of(principal),
            option_secrets=registration.option_secrets,
            limits=registration.limits,
            given=registration.credentials,
            at=registration.at,
        )
        reading = await self.reader.read(registration.source, subject)
        return subject, await asyncio.to_thread(draft, reading, subject, reader=self.reader)

    def permit(self, registration: Registration, *, principal: Principal) -> None:
        """Raises Forbidden for what lies outside of the caller's limits, or has secrets beyond its scopes."""
        if not principal.may_use(registration.name, registration.tags):
            raise Forbidden(
                "The API key is limited to certain providers or tags; this registration is outside of them."
            )
        reach = reach_of(principal)
        reach.permit_options(registration.options, at=pointer(registration.at, "options"))
        if registration.credentials or registration.variables or registration.option_secrets:
            reach.permit_sealing()

    async def visible_provider(
        self, session: AsyncSession, name: str, *, principal: Principal, locked: bool = False
    ) -> Provider:
        """The provider, if it exists for this caller; else NotFound."""
        provider = await provider_named(session, name, locked=locked)
        if provider is None or not principal.may_use(provider.name, provider.tags):
            raise not_found(name)
        return provider

    async def recorded(
        self,
        session: AsyncSession,
        provider: Provider,
        action: str,
        *,
        actor: str,
        detail: Json | None = None,
    ) -> None:
        """Writes the event and the change of a provider; the last statements of a transaction."""
        await record_event(
            session,
            actor=actor,
            action=action,
            object_type="provider",
            object_name=provider.name,
            detail=detail,
        )
        await record_change(session, kind="provider", provider_id=provider.id, object_id=str(provider.id))

    async def is_unchanged(self, registration: Registration, *, principal: Principal) -> Provider | None:
        """The provider that this very registration made earlier, if it is still there."""
        async with self.database.reading() as session:
            provider = await provider_named(session, registration.name)
        if provider is None or not principal.may_use(provider.name, provider.tags):
            return None
        same = provider.options.get(DEFINITION) == await definition_of(registration, vault=self.vault)
        return provider if same else None

    async def _read_again(self, provider: Provider, source: SourceRow, subject: Subject) -> Reading:
        how = DocumentOptions(source.root, source.overlay, source.follows)
        if provider.call_template:
            return await self.reader.rediscover(provider.call_template, subject, how=how)
        body = opened_body(source, vault=self.vault)
        again = Source("document", body=body, media_type=source.media_type, url=source.url, how=how)
        return await self.reader.read(again, subject)

    def _stored_subject(
        self, provider: Provider, rows: list[Credential], variables: list[Variable], *, reach: Reach
    ) -> Subject:
        subject = Subject(
            id=provider.id,
            name=provider.name,
            variables=variables,
            environment=self.environment,
            options=provider.options,
            reach=reach,
            limits=provider.limits,
            stored=stored_slots(rows),
            slots=provider.slots,
        )
        egress = subject.stored.get(EGRESS_SLOT)
        if egress is None:
            return subject
        secrets = open_credential(stored_form(egress, finder=subject.finder), vault=self.vault)
        return subject.with_option_secrets(secrets)


def _previewed(
    registration: Registration,
    subject: Subject,
    drafted: Draft,
    provider: Provider | None,
    tools: Sequence[Tool],
) -> Imported:
    existing = {tool.source_key: (tool.name, columns_of(tool)) for tool in tools if tool.revision_id}
    columns = {key: held[1] for key, held in existing.items()}
    compared = NOTHING if provider is None else compared_with(provider, columns, drafted)
    names = {
        tool.source_key: existing.get(tool.source_key, (f"{subject.name}.{tool.name}",))[0]
        for tool in drafted.tool_set.tools
    }
    shown = Provider(
        name=subject.name,
        title=registration.title or drafted.tool_set.title,
        description=registration.description or drafted.tool_set.description,
        protocol=drafted.tool_set.protocol,
        kind=drafted.tool_set.kind,
        slots=list(drafted.tool_set.slots),
        origins=list(drafted.origins),
        tags=list(registration.tags),
    )
    return Imported(
        provider=shown,
        drafted=drafted,
        report=named_report(drafted.tool_set, names, provider=subject.name),
        names=names,
        tool_count=len(names),
        difference=difference(existing, drafted.tool_set.tools, held=compared.held),
        comparison=compared,
        exists=provider is not None,
    )
