"""`/calls`: read records of calls."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query

from app.access import requires
from app.call_log.queries import list_calls
from app.dependencies import UsesDatabase, UsesVault
from app.schemas import problem_responses
from app.security.principal import Principal
from app.tools import call_records
from app.tools.schemas_calls import CallBodies, CallOut, CallPage, CallQuery

router = APIRouter(tags=["tools"])

ReadsCalls = Annotated[Principal, Depends(requires("calls:read"))]
ReadsBodies = Annotated[Principal, Depends(requires("calls:bodies"))]
CallId = Annotated[UUID, Path(description="The `X-Call-Id` of the call's response.")]


@router.get("/calls", operation_id="listCalls", responses=problem_responses())
async def get_calls(
    principal: ReadsCalls, database: UsesDatabase, query: Annotated[CallQuery, Query()]
) -> CallPage:
    """List the calls of tools that this key may see, newest first."""
    filters = query.filters(call_records.visible_calls(principal))
    async with database.reading() as session:
        rows, next_cursor = await list_calls(session, filters=filters, cursor=query.cursor, limit=query.limit)
    return CallPage(items=[CallOut.of(row) for row in rows], next_cursor=next_cursor)


@router.get("/calls/{call_id}", operation_id="getCall", responses=problem_responses(404))
async def get_one(call_id: CallId, principal: ReadsCalls, database: UsesDatabase) -> CallOut:
    """Return one call. With several workers its record may appear only after CALL_LOG_FLUSH_SECONDS."""
    return CallOut.of(await call_records.get(call_id, principal=principal, database=database))


@router.get("/calls/{call_id}/bodies", operation_id="getCallBodies", responses=problem_responses(404))
async def get_bodies(
    call_id: CallId, principal: ReadsBodies, database: UsesDatabase, vault: UsesVault
) -> CallBodies:
    """Return the recorded arguments and response of a call (CALL_LOG_BODIES). Each read is an event."""
    arguments, result = await call_records.read_bodies(
        call_id, principal=principal, database=database, vault=vault
    )
    return CallBodies(id=call_id, arguments=arguments, result=result)
