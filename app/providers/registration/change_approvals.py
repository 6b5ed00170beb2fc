"""Approval of the pending changes of a refresh: origins, token URLs, credentials and security."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.calls.approvals.kinds import ApprovalCounts, Decision
from app.calls.approvals.records import decide, record_approval_event
from app.calls.arguments.shown import Shown
from app.core.errors import ApprovalOutdated, NotFound, PreconditionFailed
from app.core.pagination import matches_etag, write_etag
from app.providers.credentials.model import Json
from app.providers.registration.approval_requirements import apply_requirements, keep_requirements
from app.providers.registration.destinations import with_confirmed
from app.providers.registration.model import PendingDefinitions, ToolDefinition
from app.providers.registration.persist import update_provider
from app.providers.registration.repository import (
    active_revision,
    changes_of,
    drop_pending,
    insert_tools,
    lock_names,
    pending_of,
    slots_of,
    tools_of,
    update_tools,
)
from app.providers.registration.service import RegistrationService
from app.providers.registration.tool_history import ToolHistoryWriter
from app.storage.models import Approval, Provider, Revision

_MAX_NAMED: Final = 100


@dataclass(frozen=True, slots=True)
class ChangeApprovalHandler:
    """Applies the pending changes of a provider exactly as they were shown: nothing is fetched again."""

    registry: RegistrationService
    counts: ApprovalCounts

    async def approve(self, approval: Approval, decision: Decision) -> Approval:
        """See `ApprovalHandler`: the decision and the changes are one transaction.

        Raise NotFound where the key may not see the provider, and PreconditionFailed where `if_match` names
        another version of it.
        """
        registry, principal = self.registry, decision.principal
        async with registry.database.transaction() as session:
            await lock_names(session)
            provider = await registry.visible_provider(
                session, approval.provider, principal=principal, locked=True
            )
            _require_version(provider, decision.if_match)
            decided = await decide(session, approval.id, state="executed", decision=decision)
            pending = await pending_of(session, provider.id)
            if pending is None or pending.id != approval.id or pending.pending_definitions is None:
                raise ApprovalOutdated(f"The provider {provider.name!r} has other changes now.")
            definitions = PendingDefinitions.from_json(pending.pending_definitions)
            history = registry.history_of(principal)
            values = await _apply(session, provider, pending, definitions, history=history)
            keys = [change.source_key for change in changes_of(pending)]
            await drop_pending(session, provider)
            update_provider(provider, values)
            detail = {"operations": keys[:_MAX_NAMED], "count": len(keys), "origins": values["origins"]}
            await record_approval_event(session, decided, "approved", actor=principal.key_id)
            await registry.record_action(session, provider, "approved", actor=principal.key_id, detail=detail)
        self.counts[approval.kind, "executed"] += 1
        await registry.feed.catch_up()
        return decided

    async def describe(self, approval: Approval) -> Shown:
        """See `ApprovalHandler`: nothing is sent."""
        raise NotFound(f"The approval {approval.id} is about changes: nothing is sent.")

    async def discard(self, session: AsyncSession, approval: Approval) -> None:
        """See `ApprovalHandler`. The next refresh requests the same changes again, if they still differ."""
        await session.execute(delete(Revision).where(col(Revision.id) == approval.id))

    async def aclose(self) -> None:
        """Do nothing: changes are applied within the request that approves them."""


def _require_version(provider: Provider, if_match: str | None) -> None:
    if if_match is not None and not matches_etag(if_match, write_etag(provider.version)):
        raise PreconditionFailed(
            "The resource has changed since it was read: read it again before changing it."
        )


async def _apply(
    session: AsyncSession,
    provider: Provider,
    pending: Revision,
    definitions: PendingDefinitions,
    *,
    history: ToolHistoryWriter,
) -> Json:
    """Store the pending tools; return the slots, origins and options that the provider gets with them."""
    drafts = definitions.tools
    await keep_requirements(session, actor=history.actor, provider_id=provider.id)
    existing = {tool.source_key: tool for tool in await tools_of(session, provider.id) if tool.revision_id}
    before = {key: ToolDefinition.from_row(tool) for key, tool in existing.items()}
    await update_tools(session, existing, [one for one in drafts if one.source_key in existing])
    revision = await active_revision(session, provider.id)
    added = [one for one in drafts if one.source_key not in existing]
    await insert_tools(session, provider, added, revision_id=revision or pending.id)
    templates = {key: definition.call_template for key, definition in before.items()}
    await apply_requirements(session, provider, drafts, before=templates, actor=history.actor)
    await history.write_import(
        session,
        provider,
        changes_of(pending),
        before=before,
        after={one.source_key: one.definition for one in drafts},
        revision_id=revision,
        is_approval=True,
    )
    slots = {slot.name: slot for slot in definitions.slots}
    slots |= {slot.name: slot for slot in slots_of(provider) if slot.name not in slots}
    origins = [*provider.origins, *(one.origin for one in drafts)]
    return {
        "slots": [slot.to_json() for slot in slots.values()],
        "origins": list(dict.fromkeys(origin for origin in origins if origin)),
        "options": with_confirmed(provider.options, {one.origin for one in drafts}),
    }
