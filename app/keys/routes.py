"""`/keys` and `/events`."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Response

from app.access import repository
from app.access.authorise import requires
from app.access.events import list_events
from app.dependencies import UsesDatabase, UsesFeed, UsesVault
from app.keys import service
from app.keys.schemas import EventPage, EventView, KeyCreate, KeyCreated, KeyPage, KeyView
from app.pagination import Limit
from app.schemas import problem_responses
from app.security.keys import KEY_ID_PATTERN
from app.security.principal import Principal

router = APIRouter()

ManagesKeys = Annotated[Principal, Depends(requires("keys:manage"))]
ReadsCalls = Annotated[Principal, Depends(requires("calls:read"))]
KeyIdPath = Annotated[str, Path(pattern=KEY_ID_PATTERN, description="Id of a key, as `GET /keys` shows it.")]
Cursor = Annotated[UUID | None, Query(description="`next_cursor` of the previous page.")]
Filter = Query(min_length=1, max_length=300, pattern=r"^[^\u0000-\u001F\u007F]+$")


@router.post(
    "/keys",
    operation_id="createKey",
    tags=["keys"],
    status_code=201,
    responses=problem_responses(400, 409, 413, 415),
)
async def create_key(
    body: KeyCreate,
    response: Response,
    principal: ManagesKeys,
    database: UsesDatabase,
    vault: UsesVault,
    feed: UsesFeed,
) -> KeyCreated:
    """Create an API key. Its text is in this response and nowhere else.

    A key can grant only what it has: its scopes, within its restrictions to providers and tags. 409 for an
    `expires_at` in the past.
    """
    text, row = await service.create_key(body, database=database, vault=vault, feed=feed, principal=principal)
    response.headers["Cache-Control"] = "no-store"
    return KeyCreated.with_text(row, text.reveal())


@router.get("/keys", operation_id="listKeys", tags=["keys"], responses=problem_responses())
async def list_keys(
    principal: ManagesKeys,
    database: UsesDatabase,
    *,
    limit: Limit = 50,
    cursor: Cursor = None,
    include_revoked: Annotated[bool, Query(description="Include revoked keys.")] = False,
) -> KeyPage:
    """List the keys, newest first."""
    async with database.reading() as session:
        rows, following = await repository.list_keys(
            session, principal=principal, include_revoked=include_revoked, cursor=cursor, limit=limit
        )
    return KeyPage(items=[KeyView.from_row(row) for row in rows], next_cursor=following)


@router.get("/keys/{key_id}", operation_id="getKey", tags=["keys"], responses=problem_responses(404))
async def get_key(key_id: KeyIdPath, principal: ManagesKeys, database: UsesDatabase) -> KeyView:
    """Show one key; a revoked one is not found."""
    async with database.reading() as session:
        row = await repository.find_visible(session, key_id, principal=principal)
    if row is None:
        raise service.no_such_key()
    return KeyView.from_row(row)


@router.delete(
    "/keys/{key_id}",
    operation_id="revokeKey",
    tags=["keys"],
    status_code=204,
    responses=problem_responses(404, 409),
)
async def revoke_key(
    key_id: KeyIdPath, principal: ManagesKeys, database: UsesDatabase, feed: UsesFeed
) -> None:
    """Revoke a key for good: at once here, within seconds on every replica. 409 for the request's own key."""
    await service.revoke_key(key_id, database=database, feed=feed, principal=principal)


@router.get("/events", operation_id="listEvents", tags=["audit"], responses=problem_responses())
async def list_changes(
    principal: ReadsCalls,
    database: UsesDatabase,
    *,
    limit: Limit = 50,
    cursor: Cursor = None,
    actor: Annotated[str | None, Filter] = None,
    object_type: Annotated[str | None, Filter] = None,
    object_name: Annotated[str | None, Filter] = None,
) -> EventPage:
    """List who changed what, newest first. A key restricted to providers or tags sees only its own."""
    if principal.providers is not None or principal.tags is not None:
        if actor not in (None, principal.key_id):
            return EventPage(items=[], next_cursor=None)
        actor = principal.key_id
    async with database.reading() as session:
        rows, following = await list_events(
            session,
            tenant=principal.tenant_id,
            actor=actor,
            object_type=object_type,
            object_name=object_name,
            cursor=cursor,
            limit=limit,
        )
    return EventPage(items=[EventView.from_row(row) for row in rows], next_cursor=following)
