"""`/events`: the audit events."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from app.access.authorise import requires
from app.access.events import list_events
from app.dependencies import UsesDatabase, UsesPageLinks
from app.keys.schemas import EventPage, EventQuery, EventView
from app.pagination import Page
from app.schemas import PAGE_HEADERS, problem_responses
from app.security.principal import Principal

router = APIRouter(tags=["audit"])

ReadsCalls = Annotated[Principal, Depends(requires("calls:read"))]


@router.get(
    "/events",
    operation_id="listEvents",
    summary="List audit events",
    responses=PAGE_HEADERS | problem_responses(),
)
async def list_audit_events(
    principal: ReadsCalls,
    database: UsesDatabase,
    links: UsesPageLinks,
    query: Annotated[EventQuery, Query()],
) -> EventPage:
    """List the audit events, newest first unless `sort` says otherwise.

    A key restricted to providers or tags sees only its own events.
    """
    actor = query.actor
    if principal.is_restricted:
        if actor not in (None, principal.key_id):
            links.set(None)
            return EventPage.of(Page([], None, 0), [])
        actor = principal.key_id
    async with database.read_session() as session:
        page = await list_events(
            session,
            query.page(),
            tenant=principal.tenant_id,
            actor=actor,
            object_type=query.object_type,
            object_name=query.object_name,
            q=query.q,
        )
    links.set(page.next_cursor)
    return EventPage.of(page, [EventView.from_row(row) for row in page.rows])
