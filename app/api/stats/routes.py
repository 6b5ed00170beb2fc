"""`/stats`: counts, error counts and durations of calls over time."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query

from app.access.repository import key_names
from app.api.authorisation import requires
from app.api.dependencies import UsesDatabase, UsesSearchVectors
from app.api.stats.schemas import CallStats, StatsQuery
from app.calls.log.service import visible_calls
from app.calls.stats.queries import call_statistics
from app.core.schemas import problem_responses
from app.security.principal import Principal

router = APIRouter(tags=["tools"])

ReadsCalls = Annotated[Principal, Depends(requires("calls:read"))]

_COUNTS: Final = {
    "calls": 120, "errors": 3, "mean_ms": 18.2, "p50_ms": 12.8, "p95_ms": 51.2, "p99_ms": 102.0,
    "max_ms": 240.5, "request_bytes": 1320, "response_bytes": 50400,
}  # fmt: skip
_EXAMPLE: Final = {
    "group": "key",
    "by": None,
    "interval": "hour",
    "since": "2026-11-22T09:00:00Z",
    "until": "2026-11-22T10:00:00Z",
    "percentile_error": 0.189,
    "totals": {**_COUNTS, "calls": 240, "errors": 6, "request_bytes": 2640, "response_bytes": 100800},
    "series": [
        {
            "value": "AbCdEfGhJkMn",
            "totals": _COUNTS,
            "points": [{"at": "2026-11-22T09:00:00Z", **_COUNTS}],
            "key_name": "billing agent",
        }
    ],
    "other": {"values": 4, "totals": _COUNTS, "points": [{"at": "2026-11-22T09:00:00Z", **_COUNTS}]},
    "search_vectors": {"state": "encoding", "model": "all-MiniLM-L6-v2", "encoded": 1200, "total": 1863},
}


@router.get(
    "/stats",
    operation_id="getCallStatistics",
    summary="Get counts and durations of calls over time",
    responses=problem_responses() | {200: {"content": {"application/json": {"example": _EXAMPLE}}}},
)
async def get_call_statistics(
    principal: ReadsCalls,
    database: UsesDatabase,
    vectors: UsesSearchVectors,
    query: Annotated[StatsQuery, Query()],
) -> CallStats:
    """Count the calls of the tools that this key may see, by tool, provider, key, outcome, interface,
    toolset or source.

    The counts are exact: they are written in the transactions that store the call records. A call belongs to
    the minute or hour in which it began, and is counted when its end is recorded. Percentiles are computed
    from a histogram, and differ from the exact ones by less than `percentile_error`. Without `since`, the
    range is the last 1 hour (minute), 24 hours (hour) or 30 days (day). `search_vectors` is the state of now,
    whatever the range.
    """
    since, until = query.range()
    async with database.read_session() as session:
        found = await call_statistics(
            session,
            group=query.by or query.group,
            interval=query.interval,
            since=since,
            until=until,
            limit=query.limit,
            filters=query.filters(visible_calls(principal)),
            tenant=principal.tenant_id,
        )
        is_by_key = query.by is None and query.group == "key"
        names = await key_names(session, found.series.keys() if is_by_key else (), principal=principal)
    is_restricted = principal.providers is not None or principal.tags is not None
    return CallStats.of(
        found,
        query,
        since=since,
        until=until,
        key_names=names,
        search_vectors=None if is_restricted else vectors.status,
    )
