"""Reads records of calls, within what the principal's key may see."""

import asyncio
from uuid import UUID

from app.access.events import record_event
from app.calls.log.bodies import BodyField, CapturedBody, open_body, open_evidence
from app.calls.log.queries import CallFilters, get_call
from app.catalog.tools import visible_tool_names
from app.core.errors import NotFound
from app.formats.toolclad.envelope import Evidence
from app.security.principal import Principal
from app.security.vault import Vault
from app.storage.database import Database
from app.storage.models import CallRecord


def visible_calls(principal: Principal) -> CallFilters:
    """Return the filter for the calls that a principal may see: those of the tools that it may see."""
    return CallFilters(providers=principal.providers, tools=visible_tool_names(principal))


async def get(call_id: UUID, *, principal: Principal, database: Database) -> CallRecord:
    """Return the record of one call; raise NotFound where there is none that this principal may see."""
    async with database.read_session() as session:
        row = await get_call(session, call_id, filters=visible_calls(principal), tenant=principal.tenant_id)
    if row is None:
        raise NotFound(f"There is no record of a call {call_id}.")
    return row


async def read_envelope(call_id: UUID, *, principal: Principal, database: Database, vault: Vault) -> bytes:
    """Return the evidence envelope of a call, made of its record: the bytes that its client could get.

    An audit event with the reader is committed before this returns. Raises NotFound as `get` does, and where
    no evidence was recorded, or it was too long.
    """
    row = await get(call_id, principal=principal, database=database)
    if row.evidence is None:
        raise NotFound(
            "The evidence of this call was not recorded. Calls of ToolClad tools have evidence, and it is "
            "recorded with their arguments and results: CALL_LOG_BODIES selects which."
        )
    form = open_evidence(vault, row.evidence, tenant=row.tenant_id, call_id=row.id)
    if form is None:
        raise NotFound(
            "The evidence of this call was not recorded: its output was longer than CALL_LOG_MAX_BODY_BYTES."
        )
    envelope = await asyncio.to_thread(Evidence.from_json(form).envelope)
    await _record_read(row, principal=principal, database=database)
    return envelope


async def read_bodies(
    call_id: UUID, *, principal: Principal, database: Database, vault: Vault
) -> tuple[CapturedBody | None, CapturedBody | None]:
    """Return the decrypted arguments and result of a call, each None where it was not recorded.

    An audit event with the reader is committed before this returns. Raises NotFound as `get` does, and
    where neither was recorded.
    """
    row = await get(call_id, principal=principal, database=database)
    if row.arguments is None and row.result is None:
        raise NotFound(
            "The arguments and result of this call were not recorded. CALL_LOG_BODIES selects which are."
        )

    def opened(blob: bytes | None, field: BodyField) -> CapturedBody | None:
        if blob is None:
            return None
        return open_body(vault, blob, tenant=row.tenant_id, call_id=row.id, field=field)

    bodies = opened(row.arguments, "arguments"), opened(row.result, "result")
    await _record_read(row, principal=principal, database=database)
    return bodies


async def _record_read(row: CallRecord, *, principal: Principal, database: Database) -> None:
    async with database.transaction() as session:
        await record_event(
            session,
            actor=principal.key_id,
            action="read",
            object_type="call",
            object_name=str(row.id),
            detail={"tool": row.tool, "key_id": row.key_id},
            tenant=principal.tenant_id,
        )
