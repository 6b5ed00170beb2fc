"""Approval of changes that a refresh held back: origins, token URLs and security."""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from app.credentials.model import Json
from app.errors import Conflict
from app.models import Provider, Revision
from app.providers.provider_store import ProviderDetails, ProviderStore, require_version
from app.registration.destinations import with_confirmed
from app.registration.diff import pending_drafts
from app.registration.persist import update_provider
from app.registration.repository import (
    active_revision,
    drop_pending,
    insert_tools,
    lock_names,
    pending_of,
    tools_of,
    update_tools,
)
from app.registration.service import RegistrationService
from app.security.principal import Principal

_MAX_NAMED = 100


@dataclass(frozen=True, slots=True)
class Approvals:
    """Applies pending changes exactly as they were shown: nothing is fetched again."""

    registry: RegistrationService

    async def approve(self, name: str, *, if_match: str | None, principal: Principal) -> ProviderDetails:
        """Apply the pending changes of a provider and return its details.

        Raises NotFound, Conflict where no changes are pending, and PreconditionFailed where `if_match` names
        another version.
        """
        registry = self.registry
        async with registry.database.writing() as session:
            await lock_names(session)
            provider = await registry.visible_provider(session, name, principal=principal, locked=True)
            require_version(provider.version, if_match)
            pending = await pending_of(session, provider.id)
            if pending is None or pending.held is None:
                raise Conflict(f"The provider {name!r} has no pending changes.")
            values = await _apply(session, provider, pending, pending.held)
            keys = [one["source_key"] for one in pending.report["operations"]]
            await drop_pending(session, provider)
            update_provider(provider, values)
            detail = {"operations": keys[:_MAX_NAMED], "count": len(keys), "origins": values["origins"]}
            await registry.record_action(session, provider, "approved", actor=principal.key_id, detail=detail)
        await registry.feed.catch_up()
        return await ProviderStore(registry).get(name, principal=principal)


async def _apply(session: AsyncSession, provider: Provider, pending: Revision, held: Json) -> Json:
    """Store the pending tools; return the slots, origins and options that the provider gets with them."""
    drafts = pending_drafts(held)
    existing = {tool.source_key: tool for tool in await tools_of(session, provider.id) if tool.revision_id}
    await update_tools(session, existing, [one for one in drafts if one.source_key in existing])
    revision = await active_revision(session, provider.id)
    added = [one for one in drafts if one.source_key not in existing]
    await insert_tools(session, provider, added, revision_id=revision or pending.id)
    fresh = {slot["slot"] for slot in held["slots"]}
    slots = [*held["slots"], *(slot for slot in provider.slots if slot["slot"] not in fresh)]
    origins = [*provider.origins, *(one.origin for one in drafts)]
    return {
        "slots": slots,
        "origins": list(dict.fromkeys(origin for origin in origins if origin)),
        "options": with_confirmed(provider.options, {one.origin for one in drafts}),
    }
