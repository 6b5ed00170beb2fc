"""Audit events of the control plane: who changed what and when, written in the transaction of the change."""

from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from app.models import TENANT, Event


async def record_event(
    session: AsyncSession,
    *,
    actor: str,
    action: str,
    object_type: str,
    object_name: str,
    detail: dict[str, Any] | None = None,
    tenant: UUID = TENANT,
) -> None:
    """Add an event to the session's transaction.

    `actor` is the id of the API key of the request (or the command: `bootstrap`), `action` a verb
    (`created`), `detail` JSON without secrets.
    """
    session.add(
        Event(
            tenant_id=tenant,
            actor=actor,
            action=action,
            object_type=object_type,
            object_name=object_name,
            detail=detail or {},
        )
    )
    await session.flush()


async def list_events(
    session: AsyncSession,
    *,
    tenant: UUID = TENANT,
    actor: str | None = None,
    object_type: str | None = None,
    object_name: str | None = None,
    cursor: UUID | None = None,
    limit: int = 50,
) -> tuple[list[Event], UUID | None]:
    """Return a page of events, newest first, and the cursor of the next one (None at the end)."""
    query = select(Event).where(Event.tenant_id == tenant)  # type: ignore[arg-type]
    filters = (("actor", actor), ("object_type", object_type), ("object_name", object_name))
    for column, value in filters:
        if value is not None:
            query = query.where(getattr(Event, column) == value)
    if cursor is not None:
        query = query.where(Event.id < cursor)  # type: ignore[arg-type]
    query = query.order_by(Event.id.desc()).limit(limit + 1)  # type: ignore[attr-defined]
    rows = list((await session.scalars(query)).all())
    return rows[:limit], rows[limit - 1].id if len(rows) > limit else None
