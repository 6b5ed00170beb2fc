"""Audit events of the control plane: who changed what and when, written in the transaction of the change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import literal, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.core.pagination import Ordering, Page, PageRequest, SortField, contains, read_page
from app.storage.models import TENANT, Event

NEWEST_EVENTS: Final = PageRequest("-at")
_ORDER: Final = Ordering({"at": SortField(col(Event.id), "id", UUID, unique=True)}, item_id=col(Event.id))


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

    `actor` is the id of the API key of the request, or the name of a command (`bootstrap`); `action` is a
    past participle (`created`); `detail` is JSON without secrets.
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


async def record_events(
    session: AsyncSession,
    *,
    actor: str,
    action: str,
    object_type: str,
    details: Mapping[str, dict[str, Any]],
    tenant: UUID = TENANT,
) -> None:
    """Add events of one action to the session's transaction: `details` by the name of each object."""
    session.add_all(
        Event(
            tenant_id=tenant,
            actor=actor,
            action=action,
            object_type=object_type,
            object_name=name,
            detail=detail,
        )
        for name, detail in details.items()
    )
    await session.flush()


class ControlPlaneEvents:
    """The events in the order of their times: the source of a stream of changes."""

    # Events are written at any time in the transaction of their change, by the clock of their worker.
    overlap = timedelta(seconds=60)

    async def now(self, session: AsyncSession) -> datetime:  # noqa: ARG002 - of the interface.
        """Return the current time of this worker, aware."""
        return datetime.now(UTC)

    async def read(
        self, session: AsyncSession, *, after: datetime, after_id: UUID | None, limit: int
    ) -> Sequence[Event]:
        """Return events in the order of their times, from `after` on; with an id, only later ones."""
        at, event_id = col(Event.at), col(Event.id)
        query = select(Event).where(col(Event.tenant_id) == TENANT, at >= after)
        if after_id is not None:
            query = query.where(tuple_(at, event_id) > tuple_(literal(after), literal(after_id)))
        return (await session.scalars(query.order_by(at, event_id).limit(limit))).all()

    async def time_of(self, session: AsyncSession, record_id: UUID) -> datetime | None:
        """Return the time of an event; None where there is none with this id."""
        query = select(col(Event.at)).where(col(Event.tenant_id) == TENANT, col(Event.id) == record_id)
        return (await session.scalars(query)).first()

    def position(self, row: Event) -> tuple[datetime, UUID]:
        """Return the time and the id of an event."""
        return row.at, row.id

    def identity(self, row: Event) -> UUID:
        """Return the id of an event."""
        return row.id


@dataclass(frozen=True, slots=True)
class EventFilters:
    """Which events: those with these values, at or after `since`, before `until` (aware), and, with `q`,
    those whose action, object type or object name contains it. None is no filter.
    """

    actor: str | None = None
    action: str | None = None
    object_type: str | None = None
    object_name: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    q: str | None = None


ALL_EVENTS: Final = EventFilters()


async def list_events(
    session: AsyncSession,
    page: PageRequest = NEWEST_EVENTS,
    *,
    tenant: UUID = TENANT,
    filters: EventFilters = ALL_EVENTS,
) -> Page[Event]:
    """Return a page of events.

    They are sorted by id, which is a UUIDv7 and so the time of the event. Raise InvalidInput for another
    list's cursor.
    """
    query = select(Event).where(col(Event.tenant_id) == tenant)
    for name in ("actor", "action", "object_type", "object_name"):
        value = getattr(filters, name)
        if value is not None:
            query = query.where(getattr(Event, name) == value)
    if filters.since is not None:
        query = query.where(col(Event.at) >= filters.since)
    if filters.until is not None:
        query = query.where(col(Event.at) < filters.until)
    if filters.q is not None:
        names = (col(Event.action), col(Event.object_type), col(Event.object_name))
        query = query.where(contains(filters.q, *names))
    return await read_page(session, query, ordering=_ORDER, page=page)
