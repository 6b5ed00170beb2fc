"""Reading the statistics: a series of points for each value of a group (tool, key, ...), and its totals."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import (
    CTE,
    ColumnElement,
    Float,
    Select,
    case,
    func,
    literal,
    literal_column,
    null,
    or_,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.calls.stats.histogram import PERCENTILE_SQL, UNTIMED
from app.storage.models import TENANT, CallRecord, CallStat

StatGroup = Literal["tool", "provider", "key", "outcome"]
CallOrigin = Literal["interface", "toolset", "source"]
"""By what else calls are counted; not a StatGroup, since clients of 0.2 know all values of that one."""
StatInterval = Literal["minute", "hour", "day"]

INTERVALS: Final[dict[StatInterval, timedelta]] = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}
NOT_ERRORS: Final = ("ok", "invalid-response", "cancelled", "replayed", "approval-pending")
"""The outcomes that do not count as errors."""

_PERCENTILES: Final = (("p50", 0.50), ("p95", 0.95), ("p99", 0.99))
_COLUMNS: Final[dict[StatGroup | CallOrigin, str]] = {
    "tool": "tool",
    "provider": "provider",
    "key": "key_id",
    "outcome": "outcome",
    "interface": "interface",
    "toolset": "toolset",
    "source": "source",
}


@dataclass(frozen=True, slots=True)
class StatFilters:
    """Filters of the calls that are counted; those that are None do not apply.

    `error` selects the calls that count as errors, or the others.

    `providers` and `tools` (a SELECT of names) are the restrictions of a principal, the others what was
    requested.
    """

    tool: str | None = None
    provider: str | None = None
    key_id: str | None = None
    outcome: str | None = None
    error: bool | None = None
    interface: str | None = None
    toolset: str | None = None
    source: str | None = None
    providers: Collection[str] | None = None
    tools: Select[Any] | None = None


@dataclass(frozen=True, slots=True)
class CallCounts:
    """Counts of calls; durations in milliseconds, None where no duration is known. Sizes in bytes."""

    calls: int = 0
    errors: int = 0
    mean_ms: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    request_bytes: int = 0
    response_bytes: int = 0


@dataclass(slots=True)
class StatSeries:
    """The counts of one value of the group, or of all that are not listed. Buckets without calls have no
    point.
    """

    totals: CallCounts = field(default_factory=CallCounts)
    points: list[tuple[datetime, CallCounts]] = field(default_factory=list)


@dataclass(slots=True)
class CallStatistics:
    """The series of the values with the most calls, in this order, and those of all others as one.

    `others` is the number of other values.
    """

    totals: CallCounts
    series: dict[str, StatSeries]
    other: StatSeries
    others: int


def bucket_range(since: datetime, until: datetime, interval: StatInterval) -> tuple[datetime, datetime]:
    """Return the range of whole buckets, in UTC, that includes `since` (aware) up to, but not, `until`."""
    begin = _truncate_to_bucket(since.astimezone(UTC), interval)
    end = _truncate_to_bucket(until.astimezone(UTC), interval)
    return begin, end if end == until else end + INTERVALS[interval]


async def call_statistics(
    session: AsyncSession,
    *,
    group: StatGroup | CallOrigin,
    interval: StatInterval,
    since: datetime,
    until: datetime,
    limit: int,
    filters: StatFilters,
    tenant: UUID = TENANT,
) -> CallStatistics:
    """Return the statistics of the calls that began in the buckets from `since` until (not at) `until`.

    Both are a result of `bucket_range`. Calls in progress are not counted. At most `limit` values are listed;
    with 0, all calls are those of other values.
    """
    source = _select_counts(group, interval, (since, until), filters, tenant)
    statement = _select_levels(source, limit)
    totals = CallCounts()
    listed: dict[str, StatSeries] = {}
    other = StatSeries()
    others = 0
    for row in (await session.execute(statement)).all():
        counts = _read_counts(row)
        if row.is_total:
            totals = counts
            others = row.values
            continue
        series = other if row.series is None else listed.setdefault(row.series, StatSeries())
        if row.is_series:
            series.totals = counts
        else:
            series.points.append((row.bucket, counts))
    ranked = sorted(listed.items(), key=lambda item: (-item[1].totals.calls, item[0]))
    return CallStatistics(totals, dict(ranked), other, max(others - len(listed), 0))


def _truncate_to_bucket(moment: datetime, interval: StatInterval) -> datetime:
    changes = {"hour": 0} if interval == "day" else {}
    if interval != "minute":
        changes["minute"] = 0
    return moment.replace(second=0, microsecond=0, **changes)  # type: ignore[arg-type]


def _select_counts(
    group: StatGroup | CallOrigin,
    interval: StatInterval,
    between: tuple[datetime, datetime],
    filters: StatFilters,
    tenant: UUID,
) -> CTE:
    """Return the rows of the statistics, and those of calls whose end is overdue and not yet counted."""
    resolution = "minute" if interval == "minute" else "hour"
    name = _COLUMNS[group]
    stored = _apply_filters(
        select(
            getattr(CallStat, name).label("value"),
            func.date_trunc(interval, CallStat.at, "UTC").label("bucket"),
            col(CallStat.bin).label("bin"),
            col(CallStat.calls).label("calls"),
            case((col(CallStat.outcome).in_(NOT_ERRORS), 0), else_=col(CallStat.calls)).label("errors"),
            col(CallStat.duration_ms).label("duration_ms"),
            col(CallStat.max_duration_ms).label("max_duration_ms"),
            col(CallStat.request_bytes).label("request_bytes"),
            col(CallStat.response_bytes).label("response_bytes"),
        ).where(col(CallStat.resolution) == resolution),
        CallStat,
        between,
        filters,
        tenant,
    )
    if filters.outcome is not None:
        stored = stored.where(col(CallStat.outcome) == filters.outcome)
    if filters.error is not None:
        is_error = col(CallStat.outcome).not_in(NOT_ERRORS)
        stored = stored.where(is_error if filters.error else ~is_error)
    # A call whose end is overdue is an error, and has the outcome `unknown`.
    if filters.outcome not in (None, "unknown") or filters.error is False:
        return stored.cte("counted")
    tool = case((col(CallRecord.provider) == "", ""), else_=col(CallRecord.tool))
    value = {"tool": tool, "outcome": literal("unknown")}.get(name, getattr(CallRecord, name))
    overdue = _apply_filters(
        select(
            value,
            func.date_trunc(interval, CallRecord.at, "UTC"),
            literal(UNTIMED), literal(1), literal(1), literal(0.0), literal(0.0), literal(0), literal(0),
        ).where(col(CallRecord.outcome) == "running", col(CallRecord.deadline) <= func.now()),
        CallRecord, between, filters, tenant,
    )  # fmt: skip
    return union_all(stored, overdue).cte("counted")


def _apply_filters(
    query: Select[Any],
    table: type[CallStat] | type[CallRecord],
    between: tuple[datetime, datetime],
    filters: StatFilters,
    tenant: UUID,
) -> Select[Any]:
    query = query.where(table.tenant_id == tenant, table.at >= between[0], table.at < between[1])  # type: ignore[arg-type]
    for name in ("tool", "provider", "key_id", "interface", "toolset", "source"):
        value = getattr(filters, name)
        if value is not None:
            query = query.where(getattr(table, name) == value)
    if filters.providers is not None:
        query = query.where(col(table.provider).in_(sorted(filters.providers)))
    if filters.tools is not None:
        query = query.where(col(table.tool).in_(filters.tools))
    return query


def _select_levels(source: CTE, limit: int) -> Select[Any]:
    """Return the statement for all counts at three levels: points, totals of series, totals of everything."""
    values = (
        select(source.c.value, func.sum(source.c.calls).label("calls"))
        .group_by(source.c.value)
        .having(func.sum(source.c.calls) > 0)
        .cte("groups")
    )
    top = select(values.c.value).order_by(values.c.calls.desc(), values.c.value).limit(limit).cte("top")
    labelled = (
        select(
            top.c.value.label("series"),
            top.c.value.is_(None).label("is_other"),
            *(column for column in source.c if column.name != "value"),
        )
        .select_from(source.outerjoin(top, source.c.value == top.c.value))
        .cte("labelled")
    )
    by = labelled.c
    added = ("calls", "errors", "duration_ms", "request_bytes", "response_bytes")
    binned = (
        select(
            func.grouping(by.is_other, by.bucket).label("level"),
            by.series,
            by.is_other,
            by.bucket,
            by.bin,
            *(func.sum(by[name]).label(name) for name in added),
            func.max(by.max_duration_ms).label("longest"),
        )
        .group_by(
            func.grouping_sets(
                tuple_(by.is_other, by.series, by.bucket, by.bin),
                tuple_(by.is_other, by.series, by.bin),
                tuple_(by.bin),
            )
        )
        .cte("binned")
    )
    return _with_percentiles(binned, added, values)


def _with_percentiles(binned: CTE, added: Sequence[str], values: CTE) -> Select[Any]:
    of = binned.c
    bucket_columns = [of.level, of.is_other, of.series, of.bucket]
    timed = case((of.bin > UNTIMED, of.calls), else_=0)
    ranks = select(
        *of,
        func.sum(timed).over(partition_by=bucket_columns).label("timed"),
        func.sum(timed).over(partition_by=bucket_columns, order_by=of.bin).label("reached"),
    ).cte("ranks")
    rank = ranks.c

    def select_percentile(share: float) -> ColumnElement[Any]:
        """Return the duration of the call whose rank is this share of all calls, rounded up."""
        return literal_column(PERCENTILE_SQL.format(share=share), Float)

    return (
        select(
            (rank.level == 3).label("is_total"),
            (rank.level == 1).label("is_series"),
            rank.series,
            rank.bucket,
            *(func.sum(rank[name]).label(name) for name in added),
            func.max(rank.longest).label("max_duration_ms"),
            func.max(rank.timed).label("timed"),
            *(select_percentile(share).label(name) for name, share in _PERCENTILES),
            case(
                (rank.level == 3, select(func.count()).select_from(values).scalar_subquery()),
                else_=null(),
            ).label("values"),
        )
        .group_by(rank.level, rank.is_other, rank.series, rank.bucket)
        .having(or_(func.sum(rank.calls) > 0, rank.level == 3))
        .order_by(rank.bucket)
    )


def _read_counts(row: Any) -> CallCounts:
    counts = CallCounts(
        calls=int(row.calls or 0),
        errors=int(row.errors or 0),
        request_bytes=int(row.request_bytes or 0),
        response_bytes=int(row.response_bytes or 0),
    )
    timed = int(row.timed or 0)
    if not timed:
        return counts
    return replace(
        counts,
        mean_ms=round(float(row.duration_ms) / timed, 3),
        max_ms=round(float(row.max_duration_ms), 3),
        **{f"{name}_ms": getattr(row, name) for name, _ in _PERCENTILES},
    )
