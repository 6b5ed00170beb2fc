"""A RegistrationPlan -> rows, inside the transaction of `RegistrationService`."""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy.ext.asyncio import AsyncSession

from app.catalog.loader import UNCONFIRMED_ORIGINS
from app.core import exact_json
from app.core.uuid7 import uuid7
from app.providers.credentials.model import Json, compile_security, slot_names
from app.providers.credentials.origins import origin_of_template
from app.providers.credentials.sealing import new_credential
from app.providers.registration import converter
from app.providers.registration.approval_requirements import (
    apply_requirements,
    keep_requirements,
    require_of_others,
)
from app.providers.registration.changes import compare
from app.providers.registration.context import ImportContext
from app.providers.registration.destinations import CONFIRMED_BASE_URL, list_confirmed_origins
from app.providers.registration.header_inputs import find_lost_header_inputs
from app.providers.registration.model import (
    ParsedSource,
    PendingDefinitions,
    RegistrationPlan,
    RegistrationRequest,
    RegistrationResult,
    RegistrationSource,
    SourceDiff,
    ToolDefinition,
)
from app.providers.registration.repository import (
    activate,
    credentials_of,
    delete_tools,
    drop_pending,
    insert_tools,
    restore_overrides,
    retain_overrides,
    slots_of,
    tools_of,
    update_tools,
    write_overrides,
)
from app.providers.registration.shared_variables import bind_shared_variables
from app.providers.registration.tool_history import ToolHistoryWriter
from app.security.vault import Vault
from app.storage.models import Provider, Revision, SourceRow, now

DEFINITION_OPTION = "definition"
"""The member of a provider's options that says which registration it came from; never shown."""
PLUGIN_OPTION = "plugin"
"""The member of a provider's options with the plugin that made it (`app.providers.plugins.enabled`); never
shown.
"""
HIDDEN_OPTIONS = frozenset({DEFINITION_OPTION, PLUGIN_OPTION, UNCONFIRMED_ORIGINS, CONFIRMED_BASE_URL})
"""The members of a provider's options that are the registry's own."""


async def definition_of(request: RegistrationRequest, *, vault: Vault) -> str:
    """Return a keyed hash over everything that a registration says, its secrets included, but not where it
    stood in the HTTP request: equal ones say the same.
    """
    return await asyncio.to_thread(_digest, request, vault)


def _digest(request: RegistrationRequest, vault: Vault) -> str:
    members = _collect_members(request, without=frozenset({"at", "name", "source"}))
    # A registration without them is the one that a gateway without keywords has stored.
    for name in ("language", "document_language"):
        if members[name] is None:
            del members[name]
    members["source"] = _dump_source(request.source)
    text = exact_json.dumps(members, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=str)
    return vault.digest("definition", text, request.source.body).hex()


def _dump_source(source: RegistrationSource) -> Json:
    """Return the members of a source as earlier releases wrote them, which followed no references unless that
    was requested: a registration that does not say whether is the same one now.
    """
    members = _collect_members(source, without=frozenset({"at", "body", "moved"}))
    if members["final_url"] is None:
        del members["final_url"]
    follows: Any = source.options.follow_references
    if source.kind == "template" and follows is False:
        follows = "never"
    members["options"] = replace(source.options, follow_references=follows or False)
    return members


def _collect_members(value: Any, *, without: frozenset[str]) -> dict[str, Any]:
    # Not asdict, which copies a manual value by value: 14 s for 30 MB.
    return {one.name: getattr(value, one.name) for one in fields(value) if one.name not in without}


async def write_provider(
    session: AsyncSession,
    request: RegistrationRequest,
    context: ImportContext,
    plan: RegistrationPlan,
    *,
    definition: str,
    vault: Vault,
    history: ToolHistoryWriter,
) -> RegistrationResult:
    """Store a new provider with everything that belongs to it."""
    provider = build_planned_provider(request, plan)
    provider.id = context.id
    provider.call_template = plan.parsed.call_template
    provider.options = {**request.options, DEFINITION_OPTION: definition}
    provider.limits = dict(request.limits)
    provider.enabled = request.enabled
    session.add(provider)
    await session.flush()
    session.add_all([row for row in context.variables if row.provider_id == provider.id])
    await write_credentials(session, provider, plan, vault=vault, actor=history.actor)
    result = await write_tools(session, provider, plan, vault=vault, history=history, is_first=True)
    if request.unconfirmed_origins:
        # Only now: what a registration brings does not wait for approval.
        unconfirmed = list(request.unconfirmed_origins)
        provider.options = {**provider.options, UNCONFIRMED_ORIGINS: unconfirmed}
    await write_overrides(session, provider, request.overrides)
    await apply_requirements(session, provider, plan.parsed.tools, actor=history.actor)
    keys = [key for key, members in request.overrides.items() if members.get("requires_approval")]
    if keys:
        decided = [tool.id for tool in await tools_of(session, provider.id) if tool.source_key in keys]
        created = await keep_requirements(session, actor=history.actor, decided=decided)
        await require_of_others(session, created, actor=history.actor)
    return result


def build_planned_provider(request: RegistrationRequest, plan: RegistrationPlan) -> Provider:
    """Return the row of a new provider, as far as a preview shows it."""
    parsed = plan.parsed
    return Provider(
        name=request.name,
        title=request.title or parsed.title,
        description=parsed.description if request.description is None else request.description,
        language=request.language,
        document_language=parsed.language or request.document_language,
        protocol=parsed.protocol,
        kind=parsed.kind,
        slots=[slot.to_json() for slot in parsed.slots],
        origins=list(plan.origins),
        tags=list(request.tags),
    )


def build_replanned_provider(provider: Provider, plan: RegistrationPlan) -> Provider:
    """Return the row of a stored provider after a refresh, as far as a preview shows it; it is not stored."""
    parsed = plan.parsed
    return Provider(
        name=provider.name,
        title=provider.title,
        description=provider.description,
        language=provider.language,
        document_language=parsed.language or provider.document_language,
        protocol=provider.protocol,
        kind=provider.kind,
        slots=[slot.to_json() for slot in parsed.slots],
        origins=list(plan.origins),
        tags=list(provider.tags),
    )


def language_of(provider: Provider) -> str | None:
    """Return the language tag of the texts of a provider's tools: the registrar's, else the document's."""
    return provider.language or provider.document_language


async def write_credentials(
    session: AsyncSession, provider: Provider, plan: RegistrationPlan, *, vault: Vault, actor: str
) -> None:
    """Store the credentials of slots that have none: what somebody stored is never replaced by an import.

    Raise CredentialNotAllowed for one that names a shared secret variable which may not be sent there.
    """
    stored = {row.slot for row in await credentials_of(session, [provider.id])}
    rows = [
        new_credential(provider.id, slot, draft, vault=vault)
        for slot, draft in plan.credentials.items()
        if slot not in stored
    ]
    session.add_all(rows)
    await session.flush()
    await bind_shared_variables(session, provider, rows, actor=actor)


async def write_tools(
    session: AsyncSession,
    provider: Provider,
    plan: RegistrationPlan,
    *,
    vault: Vault,
    history: ToolHistoryWriter,
    is_first: bool = False,
) -> RegistrationResult:
    """Make the provider's tools those of the plan: added, changed, removed; custom tools stay.

    `is_first` tells that the provider is new.

    What waits for approval keeps its old definition, or is not there yet; it is stored as a pending revision.
    """
    parsed = plan.parsed
    await keep_requirements(session, actor=history.actor, provider_id=None if is_first else provider.id)
    existing = {
        tool.source_key: tool for tool in await tools_of(session, provider.id) if tool.revision_id is not None
    }
    definitions = {key: ToolDefinition.from_row(tool) for key, tool in existing.items()}
    # Schemas of a hundred kilobytes are walked: in a thread, so that the event loop gets its turns.
    diff = await asyncio.to_thread(compare_with_plan, provider, definitions, plan)
    await drop_pending(session, provider)
    removed = [existing[key] for key in diff.removed]
    await retain_overrides(session, removed)
    await delete_tools(session, removed)
    source = await asyncio.to_thread(_build_source_row, parsed, provider.id, vault=vault)
    revision = await activate(session, provider, source, report={})
    changed, added = set(diff.changed), set(diff.added)
    updates = [tool for tool in parsed.tools if tool.source_key in changed]
    rejected = await update_tools(session, existing, updates)
    inserts = [tool for tool in parsed.tools if tool.source_key in added]
    names, not_inserted = await insert_tools(session, provider, inserts, revision_id=revision.id)
    await restore_overrides(session, provider)
    rejected += not_inserted
    if not is_first:
        templates = {key: definition.call_template for key, definition in definitions.items()}
        drafts = [*updates, *inserts]
        await apply_requirements(session, provider, drafts, before=templates, actor=history.actor)
    report = await asyncio.to_thread(parsed.named_report, names, provider=provider.name, rejected=rejected)
    report = report.with_notes(await find_lost_header_inputs(session, provider.id))
    revision.report = await asyncio.to_thread(report.to_json)
    if diff.pending_approval:
        session.add(_build_pending_revision(provider, parsed, diff))
    await session.flush()
    if is_first:
        await history.write_first_import(session, provider, revision_id=revision.id)
    else:
        applied = [one for one in diff.changes if not one.pending_approval and one.source_key not in rejected]
        after = {tool.source_key: tool.definition for tool in parsed.tools}
        await history.write_import(
            session, provider, applied, before=definitions, after=after, revision_id=revision.id
        )
    stored = replace(
        diff,
        added=tuple(key for key in diff.added if key not in rejected),
        changed=tuple(key for key in diff.changed if key not in rejected),
    )
    return RegistrationResult(provider, plan, report, stored, names, tool_count=len(names))


def _build_pending_revision(provider: Provider, parsed: ParsedSource, diff: SourceDiff) -> Revision:
    pending = frozenset(diff.pending_approval)
    tools = tuple(tool for tool in parsed.tools if tool.source_key in pending)
    return Revision(
        provider_id=provider.id,
        state="pending",
        report={"operations": [change.to_json() for change in diff.changes if change.pending_approval]},
        pending_definitions=PendingDefinitions(tools, parsed.slots).to_json(),
    )


def compare_with_plan(
    provider: Provider, existing: Mapping[str, ToolDefinition], plan: RegistrationPlan
) -> SourceDiff:
    """Return what a re-import would change on a provider, whose tools are `existing` by source key."""
    return compare(
        existing,
        plan.parsed.tools,
        old_slots=slots_of(provider),
        new_slots=plan.parsed.slots,
        origins=[*list_confirmed_origins(provider), *plan.parsed.named_origins],
        trusted=plan.trusted,
    )


async def refreshed_columns(
    session: AsyncSession, provider: Provider, plan: RegistrationPlan, diff: SourceDiff
) -> Json:
    """Return the columns that a refresh changes on the provider itself.

    Slots of custom tools, and of tools that keep their old definition until approval, stay.
    """
    pending = frozenset(diff.pending_approval)
    old = {slot.name: slot for slot in slots_of(provider)}
    tools = await tools_of(session, provider.id)
    staying = [tool for tool in tools if tool.revision_id is None or tool.source_key in pending]
    slots = {
        slot.name: old[slot.name] if slot.name in diff.changed_slots else slot for slot in plan.parsed.slots
    }
    used = frozenset().union(*(slot_names(compile_security(tool.security)) for tool in staying))
    slots |= {name: slot for name, slot in old.items() if name in used and name not in slots}
    applied = [one.origin for one in plan.parsed.tools if one.source_key not in pending]
    origins = [origin_of_template(tool.call_template) or "" for tool in staying]
    # The origin of a template with variables is known from before only.
    before = provider.origins if any(tool.revision_id is not None for tool in staying) else []
    return {
        "title": plan.parsed.title or provider.title,
        "document_language": plan.parsed.language or provider.document_language,
        "slots": [slot.to_json() for slot in slots.values()],
        "origins": list(dict.fromkeys(origin for origin in (*applied, *origins, *before) if origin)),
    }


def open_source_body(source: SourceRow, *, vault: Vault) -> bytes:
    """Return the bytes of a stored source; those of a manual are sealed, because manuals hold secrets."""
    if source.format != "manual":
        return source.body
    return vault.open(source.body, context=("source", str(source.id)))


def update_provider(provider: Provider, values: Mapping[str, Any]) -> None:
    """Set columns of a provider, and increase its version."""
    for name, value in values.items():
        setattr(provider, name, value)
    provider.version += 1
    provider.updated_at = now()


def _build_source_row(parsed: ParsedSource, provider_id: UUID, *, vault: Vault) -> SourceRow:
    key, source = uuid7(), parsed.source
    if parsed.format == "manual":
        body = vault.seal(source.body, context=("source", str(key)))
        # A plain hash would let the content of a sealed body be guessed.
        digest = vault.digest("source", source.body)
    else:
        body, digest = source.body, hashlib.sha256(source.body).digest()
    return SourceRow(
        id=key,
        provider_id=provider_id,
        format=parsed.format,
        url=source.url,
        media_type=source.media_type[:200],
        body=body,
        sha256=digest.hex(),
        root=source.options.root,
        overlay=source.options.overlay,
        follow_references=bool(source.options.follow_references),
        converter=converter.VERSION,
    )
