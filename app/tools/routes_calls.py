"""`/calls`: the record of calls."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query

from app.access import requires
from app.call_log.queries import list_calls
from app.dependencies import UsesDatabase, UsesVault
from app.schemas import problems
from app.security.principal import Principal
from app.tools import records
from app.tools.schemas_calls import CallBodies, CallOut, CallPage, CallQuery

router = APIRouter(tags=["tools"])

ReadsCalls = Annotated[Principal, Depends(requires("calls:read"))]
ReadsBodies = Annotated[Principal, Depends(requires("calls:bodies"))]
CallId = Annotated[UUID, Path(description="The `X-Call-Id` of its answer.")]


@router.get("/calls", operation_id="listCalls", responses=problems())
async def get_calls(
    principal: ReadsCalls, database: UsesDatabase, asked: Annotated[CallQuery, Query()]
) -> CallPage:
    """Calls that were made, the newest first."""
    filters = asked.filters(records.reach(principal))
    async with database.reading() as session:
        rows, following = await list_calls(session, filters=filters, cursor=asked.cursor, limit=asked.limit)
    return CallPage(items=[CallOut.of(row) for row in rows], next_cursor=following)


@router.get("/calls/{call_id}", operation_id="getCall", responses=problems(404))
async def get_one(call_id: CallId, principal: ReadsCalls, database: UsesDatabase) -> CallOut:
    """One call. With several workers it may take AUDIT_FLUSH_SECONDS until it is here."""
    return CallOut.of(await records.get(call_id, principal=principal, database=database))


@router.get("/calls/{call_id}/bodies", operation_id="getCallBodies", responses=problems(404))
async def get_bodies(
    call_id: CallId, principal: ReadsBodies, database: UsesDatabase, vault: UsesVault
) -> CallBodies:
    """What AUDIT_BODIES kept of a call: its arguments and its answer. Each reading leaves an event."""
    arguments, result = await records.read_bodies(
        call_id, principal=principal, database=database, vault=vault
    )
    return CallBodies(id=call_id, arguments=arguments, result=result)
