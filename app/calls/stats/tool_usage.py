"""How single tools have been used lately: calls, errors, p95 duration, and when they were called last."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, select, text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.calls.stats.histogram import PERCENTILE_SQL, UNTIMED
from app.calls.stats.queries import NOT_ERRORS
from app.storage.models import TENANT, CallStat, Tool

USAGE_DAYS: Final = 7
"""Calls of so many days are the usage of a tool."""

# The rows of a tool in an hour are found by the primary key; the last call by the index of the records.
_STATEMENT: Final = text(
    f"""
    WITH binned AS (
        SELECT tool, bin, sum(calls) AS calls,
            coalesce(sum(calls) FILTER (WHERE outcome <> ALL(:not_errors)), 0) AS errors,
            CASE WHEN bin > {UNTIMED} THEN sum(calls) ELSE 0 END AS timed,
            sum(duration_ms) AS duration_ms, max(max_duration_ms) AS longest
        FROM call_stats
        WHERE resolution = 'hour' AND at >= :since AND tenant_id = :tenant AND provider = ANY(:providers)
            AND tool = ANY(:names)
        GROUP BY tool, bin
    ), ranked AS (
        SELECT tool, bin, calls, errors, duration_ms, longest, sum(timed) OVER (PARTITION BY tool) AS timed,
            sum(timed) OVER (PARTITION BY tool ORDER BY bin) AS reached
        FROM binned
    ), counted AS (
        SELECT tool, sum(calls) AS calls, sum(errors) AS errors,
            {PERCENTILE_SQL.format(share=0.95)} AS p95_ms
        FROM ranked GROUP BY tool
    )
    SELECT named.name, counted.calls, counted.errors, counted.p95_ms,
        (SELECT max(calls.at) FROM calls WHERE calls.tenant_id = :tenant AND calls.tool = named.name) AS last
    FROM unnest(CAST(:names AS text[])) AS named (name) LEFT JOIN counted ON counted.tool = named.name
    """  # noqa: S608 - constants.
)


@dataclass(frozen=True, slots=True)
class ToolUsage:
    """The calls of a tool in the last days. `p95_ms` is None where no duration is known, `last_called_at`
    where no call is recorded any more.
    """

    calls: int = 0
    errors: int = 0
    p95_ms: float | None = None
    last_called_at: datetime | None = None


def find_usage_start(moment: datetime | None = None) -> datetime:
    """Return the hour (UTC) in which the days of usage begin."""
    since = (moment or datetime.now(UTC)) - timedelta(days=USAGE_DAYS)
    return since.replace(minute=0, second=0, microsecond=0)


async def tool_usage(
    session: AsyncSession, names: Collection[str], *, tenant: UUID = TENANT
) -> dict[str, ToolUsage]:
    """Return the usage of tools by their canonical names, with one statement for all of them."""
    if not names:
        return {}
    parameters = {
        "not_errors": list(NOT_ERRORS),
        "since": find_usage_start(),
        "tenant": tenant,
        "providers": sorted({name.partition(".")[0] for name in names}),
        "names": sorted(names),
    }
    rows = (await session.execute(_STATEMENT, parameters)).all()
    return {
        row.name: ToolUsage(
            int(row.calls or 0),
            int(row.errors or 0),
            row.p95_ms,
            row.last,
        )
        for row in rows
    }


def is_used(*, tenant: UUID = TENANT) -> ColumnElement[bool]:
    """Return the condition that a tool was called in the days of usage."""
    called = (
        select(col(CallStat.tool))
        .where(
            col(CallStat.resolution) == "hour",
            col(CallStat.at) >= find_usage_start(),
            col(CallStat.tenant_id) == tenant,
            col(CallStat.provider) != "",
        )
        .distinct()
    )
    return col(Tool.name).in_(called)
