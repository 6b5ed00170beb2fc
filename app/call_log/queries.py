"""Reading call records: pages, newest first."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Select, and_, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer
from sqlmodel import col

from app.call_log.entries import RUNNING, UNKNOWN
from app.models import TENANT, CallRecord


@dataclass(frozen=True, slots=True)
class CallFilters:
    """Filters that must all hold, except those that are None; `since` is inclusive, `until` exclusive, both
    aware.

    `outcome` is compared with `outcome_of`. `min_duration_ms` is inclusive; running calls have no duration.

    `providers` and `tools` (a SELECT of names) are the restrictions of a principal, `provider` and `tool` are
    the requested filters.
    """

    tool: str | None = None
    provider: str | None = None
    key_id: str | None = None
    outcome: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    call_id: UUID | None = None
    status: int | None = None
    upstream_status: int | None = None
    safe: bool | None = None
    min_duration_ms: float | None = None
    providers: Collection[str] | None = None
    tools: Select[Any] | None = None


async def list_calls(
    session: AsyncSession,
    *,
    tenant: UUID = TENANT,
    filters: CallFilters | None = None,
    cursor: UUID | None = None,
    limit: int = 50,
) -> tuple[list[CallRecord], UUID | None]:
    """Return a page of records and the cursor of the next one (None at the end).

    Ordered by id, which is a UUIDv7 and so the time of the call: it is the first column of each partition's
    primary key, so that a page reads a few rows of each and sorts nothing. Any UUID is a valid cursor.
    """
    # Sealed bodies may be long, and are not part of lists.
    without = defer(CallRecord.arguments), defer(CallRecord.result)  # type: ignore[arg-type]
    query = _filtered(select(CallRecord), tenant, filters or CallFilters()).options(*without)
    if cursor is not None:
        query = query.where(col(CallRecord.id) < cursor)
    query = query.order_by(col(CallRecord.id).desc()).limit(limit + 1)
    rows = list((await session.scalars(query)).all())
    return rows[:limit], rows[limit - 1].id if len(rows) > limit else None


async def get_call(
    session: AsyncSession, call_id: UUID, *, filters: CallFilters, tenant: UUID = TENANT
) -> CallRecord | None:
    """Return one record with its sealed bodies; None where none matches the filters."""
    query = _filtered(select(CallRecord), tenant, replace(filters, call_id=call_id))
    return (await session.scalars(query)).first()


def outcome_of(row: CallRecord) -> str:
    """Return the outcome; `unknown` for a call that is recorded as running and past its deadline."""
    late = row.outcome == RUNNING and row.deadline is not None and row.deadline <= datetime.now(UTC)
    return UNKNOWN if late else row.outcome


def _filtered(query: Select[CallRecord], tenant: UUID, filters: CallFilters) -> Select[CallRecord]:
    query = query.where(col(CallRecord.tenant_id) == tenant)
    for column in ("tool", "provider", "key_id", "status", "upstream_status", "safe"):
        value = getattr(filters, column)
        if value is not None:
            query = query.where(getattr(CallRecord, column) == value)
    if filters.outcome is not None:
        query = query.where(_has_outcome(filters.outcome))
    if filters.call_id is not None:
        query = query.where(col(CallRecord.id) == filters.call_id)
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


def _has_outcome(outcome: str) -> ColumnElement[bool]:
    """Return the SQL condition for rows whose `outcome_of` is this."""
    late = and_(col(CallRecord.outcome) == RUNNING, col(CallRecord.deadline) <= datetime.now(UTC))
    if outcome == RUNNING:
        return and_(col(CallRecord.outcome) == RUNNING, col(CallRecord.deadline) > datetime.now(UTC))
    stored = col(CallRecord.outcome) == outcome
    return or_(stored, late) if outcome == UNKNOWN else stored
