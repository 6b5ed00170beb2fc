"""Reading call records: pages, newest first."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Select, and_, case, func, literal, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer
from sqlmodel import col

from app.calls.log.entries import RUNNING, UNKNOWN
from app.calls.stats.queries import NOT_ERRORS
from app.core.pagination import Ordering, Page, PageRequest, SortField, contains, read_page
from app.storage.models import TENANT, CallRecord


@dataclass(frozen=True, slots=True)
class CallFilters:
    """Filters for records; those that are None do not apply. `since` is inclusive, `until` exclusive; both
    are aware datetimes.

    `outcome` is compared with `outcome_of`; `error` selects the calls that `app.calls.stats` counts as
    errors, or the others. `min_duration_ms` is inclusive; running calls have no duration.

    `before` is the id of a call: only calls that began before it. `text` is searched in the name of the tool.
    `providers` and `tools` (a SELECT of names) are the restrictions of a principal, `provider` and `tool` are
    the requested filters.
    """

    tool: str | None = None
    provider: str | None = None
    key_id: str | None = None
    outcome: str | None = None
    error: bool | None = None
    interface: str | None = None
    toolset: str | None = None
    source: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    call_id: UUID | None = None
    before: UUID | None = None
    status: int | None = None
    upstream_status: int | None = None
    safe: bool | None = None
    min_duration_ms: float | None = None
    text: str | None = None
    providers: Collection[str] | None = None
    tools: Select[Any] | None = None


NEWEST_CALLS: Final = PageRequest("-at")
# Filters that are compared with the column of their name, in SQL and in streams.
_EQUAL: Final = (
    "tool", "provider", "key_id", "interface", "toolset", "source", "status", "upstream_status", "safe",
)  # fmt: skip
_ORDER: Final = Ordering(
    {"at": SortField(col(CallRecord.id), "id", UUID, unique=True)}, item_id=col(CallRecord.id)
)


async def list_calls(
    session: AsyncSession,
    page: PageRequest = NEWEST_CALLS,
    *,
    tenant: UUID = TENANT,
    filters: CallFilters | None = None,
    count: bool = False,
) -> Page[CallRecord]:
    """Return a page of records; with `count`, with their total number.

    Ordered by id, which is a UUIDv7 and so the time of the call: it is the first column of each partition's
    primary key, so that a page reads a few rows of each and sorts nothing. Raise InvalidInput for another
    list's cursor.
    """
    query = _apply_filters(select(CallRecord), tenant, filters or CallFilters()).options(*_without_bodies())
    return await read_page(session, query, ordering=_ORDER, page=page, count=count)


class EndedCalls:
    """The ended calls in the order in which their ends were stored: the source of a stream of calls."""

    overlap = timedelta(seconds=3)

    async def now(self, session: AsyncSession) -> datetime:
        """Return the current time of the database, aware."""
        moment: datetime = (await session.execute(select(func.clock_timestamp()))).scalar_one()
        return moment

    async def read(
        self, session: AsyncSession, *, after: datetime, after_id: UUID | None, limit: int
    ) -> Sequence[CallRecord]:
        """Return records in the order of their storing, from `after` on; with an id, only later ones."""
        stored_at, call_id = col(CallRecord.stored_at), col(CallRecord.id)
        query = select(CallRecord).where(
            col(CallRecord.tenant_id) == TENANT, col(CallRecord.outcome) != RUNNING, stored_at >= after
        )
        if after_id is not None:
            query = query.where(tuple_(stored_at, call_id) > tuple_(literal(after), literal(after_id)))
        query = query.order_by(stored_at, call_id).limit(limit).options(*_without_bodies())
        return (await session.scalars(query)).all()

    async def time_of(self, session: AsyncSession, record_id: UUID) -> datetime | None:
        """Return when the end of a call was stored; None where that is not known.

        A call that was unknown has been delivered before it ended: the time is that of its beginning.
        """
        was_unknown = col(CallRecord.replaced_outcome) == UNKNOWN
        stored_at = case((was_unknown, col(CallRecord.at)), else_=col(CallRecord.stored_at))
        query = select(stored_at).where(col(CallRecord.tenant_id) == TENANT, col(CallRecord.id) == record_id)
        return (await session.scalars(query)).first()

    def position(self, row: CallRecord) -> tuple[datetime, UUID]:
        """Return when the record was stored, and the id of the call."""
        return row.stored_at or row.at, row.id

    def identity(self, row: CallRecord) -> tuple[UUID, str]:
        """Return the id and the outcome: a call that is unknown may end later."""
        return row.id, row.outcome


async def get_call(
    session: AsyncSession, call_id: UUID, *, filters: CallFilters, tenant: UUID = TENANT
) -> CallRecord | None:
    """Return one record with its sealed bodies; None where none matches the filters."""
    query = _apply_filters(select(CallRecord), tenant, replace(filters, call_id=call_id))
    return (await session.scalars(query)).first()


def matches(row: CallRecord, filters: CallFilters, *, tools: Collection[str] | None) -> bool:
    """Return whether a record matches the filters; `tools` are the names that `filters.tools` selects."""
    wanted = {column: getattr(filters, column) for column in _EQUAL}
    return (
        all(value is None or value == getattr(row, column) for column, value in wanted.items())
        and (filters.outcome is None or filters.outcome == outcome_of(row))
        and (filters.call_id is None or filters.call_id == row.id)
        and (filters.error is None or filters.error is _is_error(outcome_of(row)))
        and (filters.min_duration_ms is None or row.duration_ms >= filters.min_duration_ms)
        and (filters.since is None or row.at >= filters.since)
        and (filters.until is None or row.at < filters.until)
        and (filters.providers is None or row.provider in filters.providers)
        and (filters.tools is None or (tools is not None and row.tool in tools))
    )


def outcome_of(row: CallRecord) -> str:
    """Return the outcome; `unknown` for a call that is recorded as running and past its deadline."""
    is_overdue = row.outcome == RUNNING and row.deadline is not None and row.deadline <= datetime.now(UTC)
    return UNKNOWN if is_overdue else row.outcome


def _is_error(outcome: str) -> bool:
    return outcome != RUNNING and outcome not in NOT_ERRORS


def _has_error() -> ColumnElement[bool]:
    """Return the SQL condition for rows whose `outcome_of` is an error."""
    deadline = col(CallRecord.deadline)
    is_over = and_(deadline.is_not(None), deadline <= datetime.now(UTC))
    return and_(col(CallRecord.outcome).not_in(NOT_ERRORS), or_(col(CallRecord.outcome) != RUNNING, is_over))


def _without_bodies() -> tuple[Any, Any, Any]:
    """Return the options of a query without sealed bodies, which may be long and are not part of lists."""
    bodies: tuple[Any, Any, Any] = (CallRecord.arguments, CallRecord.result, CallRecord.evidence)
    return defer(bodies[0]), defer(bodies[1]), defer(bodies[2])


def _apply_filters(query: Select[CallRecord], tenant: UUID, filters: CallFilters) -> Select[CallRecord]:
    query = query.where(col(CallRecord.tenant_id) == tenant)
    for column in _EQUAL:
        value = getattr(filters, column)
        if value is not None:
            query = query.where(getattr(CallRecord, column) == value)
    query = query.where(*_build_outcome_conditions(filters))
    if filters.text is not None:
        query = query.where(contains(filters.text, col(CallRecord.tool)))
    if filters.call_id is not None:
        query = query.where(col(CallRecord.id) == filters.call_id)
    if filters.before is not None:
        query = query.where(col(CallRecord.id) < filters.before)
    if filters.min_duration_ms is not None:
        query = query.where(col(CallRecord.duration_ms) >= filters.min_duration_ms)
    if filters.since is not None:
        query = query.where(col(CallRecord.at) >= filters.since)
    if filters.until is not None:
        query = query.where(col(CallRecord.at) < filters.until)
    if filters.providers is not None:
        query = query.where(col(CallRecord.provider).in_(sorted(filters.providers)))
    if filters.tools is not None:
        query = query.where(col(CallRecord.tool).in_(filters.tools))
    return query


def _build_outcome_conditions(filters: CallFilters) -> list[ColumnElement[bool]]:
    conditions = [] if filters.outcome is None else [_has_outcome(filters.outcome)]
    if filters.error is not None:
        conditions.append(_has_error() if filters.error else ~_has_error())
    return conditions


def _has_outcome(outcome: str) -> ColumnElement[bool]:
    """Return the SQL condition for rows whose `outcome_of` is this."""
    overdue = and_(col(CallRecord.outcome) == RUNNING, col(CallRecord.deadline) <= datetime.now(UTC))
    if outcome == RUNNING:
        return and_(col(CallRecord.outcome) == RUNNING, col(CallRecord.deadline) > datetime.now(UTC))
    stored = col(CallRecord.outcome) == outcome
    return or_(stored, overdue) if outcome == UNKNOWN else stored
