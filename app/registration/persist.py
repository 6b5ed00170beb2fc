"""Drafts into tables, inside the caller's transaction."""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from app.catalog.loader import UNCONFIRMED_ORIGINS
from app.credentials.model import Json
from app.credentials.origins import origin_of_template
from app.credentials.sealing import new_credential
from app.credentials.slots import slots_of
from app.models import Credential, Provider, Revision, Source, new_id, now
from app.registration import converter
from app.registration.context import Subject
from app.registration.destinations import CONFIRMED_BASE_URL, confirmed_origins
from app.registration.diff import NOTHING, Comparison, compare, held_form
from app.registration.model import Draft, StoredSource
from app.registration.overrides import keep_overrides, restore_overrides, write_overrides
from app.registration.report import difference, named_report
from app.registration.repository import (
    activate,
    columns_of,
    credentials_of,
    delete_tools,
    drop_pending,
    insert_tools,
    tools_of,
    update_tools,
)
from app.registration.request_model import Registration
from app.security.vault import Vault

DEFINITION = "definition"
"""The member of a provider's options that says which registration it came from; never shown."""
HIDDEN = frozenset({DEFINITION, UNCONFIRMED_ORIGINS, CONFIRMED_BASE_URL})
"""The members of a provider's options that are the registry's own."""


@dataclass(frozen=True, slots=True)
class Written:
    """What an import did. `names` maps source keys to canonical names."""

    names: dict[str, str]
    report: Json
    difference: dict[str, list[str]]
    comparison: Comparison = NOTHING


async def write_provider(
    session: AsyncSession,
    registration: Registration,
    subject: Subject,
    drafted: Draft,
    *,
    definition: str,
    vault: Vault,
) -> tuple[Provider, Written]:
    """Stores a new provider with everything that hangs on it."""
    tool_set = drafted.tool_set
    provider = Provider(
        id=subject.id,
        name=subject.name,
        title=registration.title or tool_set.title,
        description=registration.description
        if registration.description is not None
        else tool_set.description,
        protocol=tool_set.protocol,
        kind=tool_set.kind,
        call_template=drafted.call_template,
        options={**registration.options, DEFINITION: definition},
        limits=dict(registration.limits),
        slots=list(tool_set.slots),
        origins=list(drafted.origins),
        tags=list(registration.tags),
        enabled=registration.enabled,
    )
    session.add(provider)
    await session.flush()
    session.add_all([row for row in subject.variables if row.provider_id == provider.id])
    await write_credentials(session, provider, drafted, vault=vault)
    written = await write_tools(session, provider, drafted, vault=vault)
    if registration.unconfirmed_origins:
        # Only now: what a registration brings does not wait for approval.
        unconfirmed = list(registration.unconfirmed_origins)
        provider.options = {**provider.options, UNCONFIRMED_ORIGINS: unconfirmed}
    await write_overrides(session, provider, registration.overrides)
    return provider, written


async def write_credentials(
    session: AsyncSession, provider: Provider, drafted: Draft, *, vault: Vault
) -> None:
    """Stores the credentials of slots that have none: what somebody stored is never replaced by an import."""
    stored = {row.slot for row in await credentials_of(session, [provider.id])}
    session.add_all(
        new_credential(provider.id, slot, given, vault=vault)
        for slot, given in drafted.credentials.items()
        if slot not in stored
    )
    await session.flush()


async def write_tools(session: AsyncSession, provider: Provider, drafted: Draft, *, vault: Vault) -> Written:
    """Makes the provider's tools those of the draft: added, changed, removed; tools made by hand stay.

    What waits for approval keeps its old definition, or is not there yet; it is stored as a pending revision.
    """
    tools = drafted.tool_set.tools
    existing = {
        tool.source_key: tool for tool in await tools_of(session, provider.id) if tool.revision_id is not None
    }
    columns = {key: columns_of(tool) for key, tool in existing.items()}
    # Schemas of a hundred kilobytes are walked: in a thread, so that the event loop gets its turns.
    compared = await asyncio.to_thread(compared_with, provider, columns, drafted)
    old = {key: (tool.name, columns[key]) for key, tool in existing.items()}
    found = await asyncio.to_thread(difference, old, tools, held=compared.held)
    await drop_pending(session, provider)
    removed = [existing[key] for key in found["removed"]]
    await keep_overrides(session, removed)
    await delete_tools(session, removed)
    source = await asyncio.to_thread(_source_row, drafted.tool_set.source, provider.id, vault=vault)
    revision = await activate(session, provider, source, report={})
    changed, added = set(found["changed"]), set(found["added"])
    refused = await update_tools(session, existing, [tool for tool in tools if tool.source_key in changed])
    names, lost = await insert_tools(
        session, provider, [tool for tool in tools if tool.source_key in added], revision_id=revision.id
    )
    await restore_overrides(session, provider)
    refused += lost
    revision.report = await asyncio.to_thread(
        named_report, drafted.tool_set, names, provider=provider.name, refused=refused
    )
    if compared.held:
        waiting = [tool for tool in tools if tool.source_key in compared.held]
        form = held_form(waiting, slots=drafted.tool_set.slots)
        report: Json = {"operations": compared.waiting}
        session.add(Revision(provider_id=provider.id, state="pending", report=report, held=form))
    await session.flush()
    for what in ("added", "changed"):
        found[what] = [key for key in found[what] if key not in refused]
    return Written(names, revision.report, found, compared)


def compared_with(provider: Provider, columns: Mapping[str, Json], drafted: Draft) -> Comparison:
    """What a re-import would change on a provider; a new one has the origins and slots of its draft."""
    return compare(
        columns,
        drafted.tool_set.tools,
        old_slots=provider.slots,
        new_slots=drafted.tool_set.slots,
        origins=[*confirmed_origins(provider), *drafted.named_origins],
    )


async def refreshed_columns(
    session: AsyncSession, provider: Provider, drafted: Draft, compared: Comparison
) -> Json:
    """What a refresh changes on the provider itself.

    Slots of tools made by hand, and of those that keep their old definition until approval, stay.
    """
    old = {slot["slot"]: slot for slot in provider.slots}
    tools = await tools_of(session, provider.id)
    kept = [tool for tool in tools if tool.revision_id is None or tool.source_key in compared.held]
    fresh = [old[slot["slot"]] if slot["slot"] in compared.slots else slot for slot in drafted.tool_set.slots]
    used = set().union(*(slots_of(tool.security) for tool in kept)) - {slot["slot"] for slot in fresh}
    applied = [one.origin for one in drafted.tool_set.tools if one.source_key not in compared.held]
    origins = [origin_of_template(tool.call_template) or "" for tool in kept]
    # The origin of a template with variables is known from before only.
    before = provider.origins if any(tool.revision_id is not None for tool in kept) else []
    return {
        "title": drafted.tool_set.title or provider.title,
        "slots": [*fresh, *(slot for slot in provider.slots if slot["slot"] in used)],
        "origins": list(dict.fromkeys(origin for origin in (*applied, *origins, *before) if origin)),
    }


def opened_body(source: Source, *, vault: Vault) -> bytes:
    """The bytes of a stored source; those of a manual are sealed, because manuals hold secrets."""
    if source.format != "manual":
        return source.body
    return vault.open(source.body, context=("source", str(source.id)))


def touched(provider: Provider, values: Mapping[str, Any]) -> None:
    """Sets columns of a provider and counts its version on."""
    for name, value in values.items():
        setattr(provider, name, value)
    provider.version += 1
    provider.updated_at = now()


def _source_row(source: StoredSource, provider_id: UUID, *, vault: Vault) -> Source:
    key = new_id()
    body = vault.seal(source.body, context=("source", str(key))) if source.sealed else source.body
    # A sealed body's plain hash would let its content be guessed, so that one is keyed.
    digest = vault.digest("source", source.body) if source.sealed else hashlib.sha256(source.body).digest()
    return Source(
        id=key,
        provider_id=provider_id,
        format=source.format,
        url=source.url,
        media_type=source.media_type[:200],
        body=body,
        sha256=digest.hex(),
        root=source.how.root,
        overlay=source.how.overlay,
        follows=source.how.follows,
        converter=converter.VERSION,
    )


def stored_slots(rows: list[Credential]) -> dict[str, Credential]:
    """Credentials by slot."""
    return {row.slot: row for row in rows}
