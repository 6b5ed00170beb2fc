"""Reading call records: pages, newest first."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.models import TENANT, CallRecord


@dataclass(frozen=True, slots=True)
class CallFilters:
    """Each that is not None must hold; `since` is inclusive, `until` exclusive, both aware.

    `providers` and `tools` (a SELECT of names) are the limits of a principal, `provider` and `tool` are
    what was asked for.
    """

    tool: str | None = None
    provider: str | None = None
    key_id: str | None = None
    outcome: str | None = None
    since: datetime | None = None
    until: datetime | None = None
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
    """A page of records and the cursor of the next one (None at the end).

    Ordered by id, which is a UUIDv7 and so the time of the call: each partition has it as the first column
    of its primary key, so that a page reads a few rows of each and sorts nothing. Any UUID is a legal cursor.
    """
    query = _filtered(select(CallRecord), tenant, filters or CallFilters())
    if cursor is not None:
        query = query.where(CallRecord.id < cursor)  # type: ignore[arg-type]
    query = query.order_by(CallRecord.id.desc()).limit(limit + 1)  # type: ignore[attr-defined]
    rows = list((await session.scalars(query)).all())
    return rows[:limit], rows[limit - 1].id if len(rows) > limit else None


def _filtered(query: Select[CallRecord], tenant: UUID, filters: CallFilters) -> Select[CallRecord]:
    query = query.where(CallRecord.tenant_id == tenant)  # type: ignore[arg-type]
    for column in ("tool", "provider", "key_id", "outcome"):
        value = getattr(filters, column)
        if value is not None:
            query = query.where(getattr(CallRecord, column) == value)
    if filters.since is not None:
        query = query.where(CallRecord.at >= filters.since)  # type: ignore[arg-type]
    if filters.until is not None:
        query = query.where(CallRecord.at < filters.until)  # type: ignore[arg-type]
    if filters.providers is not None:
        query = query.where(CallRecord.provider.in_(sorted(filters.providers)))  # type: ignore[attr-defined]
    if filters.tools is not None:
        query = query.where(CallRecord.tool.in_(filters.tools))  # type: ignore[attr-defined]
    return query
