"""How the upstreams of tools have responded lately: error rate and p95 duration of the calls of all keys."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.calls.stats.histogram import PERCENTILE_SQL, UNTIMED
from app.core.errors import (
    CircuitOpen,
    ResponseTooLarge,
    TokenRequestFailed,
    UpstreamError,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.storage.models import TENANT

HEALTH_PERIOD: Final = timedelta(hours=1)
MIN_CALLS: Final = 5
"""Of fewer calls nothing is said: a rate of them would tell what single clients do."""
MAX_TOOLS: Final = 10_000
"""The tools with the most calls whose health is read at once."""

FAILURES: Final = tuple(
    error.slug
    for error in (
        UpstreamError,
        UpstreamTimeout,
        UpstreamUnreachable,
        UpstreamUnauthorized,
        UpstreamMalformed,
        ResponseTooLarge,
        TokenRequestFailed,
        CircuitOpen,
    )
)
"""The outcomes that count as errors of a tool."""
RESPONSES: Final = ("ok", "invalid-response", UpstreamRejected.slug)
"""The outcomes that count as its responses. All others say nothing of a tool: they are errors of the client,
such as arguments that are not valid, or of the gateway.
"""
_COUNT_STEPS: Final = (MIN_CALLS, 10, 100, 1_000, 10_000, 100_000)

# Only the minutes of the period are read, by the primary key, and one row for each tool is returned.
_STATEMENT: Final = text(
    f"""
    WITH binned AS (
        SELECT tool, bin, sum(calls) AS calls,
            coalesce(sum(calls) FILTER (WHERE outcome = ANY(:failures)), 0) AS errors,
            CASE WHEN bin > {UNTIMED} THEN sum(calls) ELSE 0 END AS timed,
            sum(duration_ms) AS duration_ms, max(max_duration_ms) AS longest
        FROM call_stats
        WHERE resolution = 'minute' AND at >= :since AND tenant_id = :tenant AND provider <> ''
            AND source = 'upstream' AND outcome = ANY(:outcomes)
        GROUP BY tool, bin
    ), ranked AS (
        SELECT tool, bin, calls, errors, duration_ms, longest, sum(timed) OVER (PARTITION BY tool) AS timed,
            sum(timed) OVER (PARTITION BY tool ORDER BY bin) AS reached
        FROM binned
    )
    SELECT tool, sum(calls) AS calls, sum(errors) AS errors,
        {PERCENTILE_SQL.format(share=0.95)} AS p95_ms
    FROM ranked GROUP BY tool HAVING sum(calls) >= :min_calls ORDER BY sum(calls) DESC, tool LIMIT :max_tools
    """  # noqa: S608 - constants.
)


@dataclass(frozen=True, slots=True)
class ToolHealth:
    """How the upstream of a tool has responded in the last hour.

    `error_rate` is from 0 to 1, `p95_ms` in milliseconds (None where no duration is known). `calls_at_least`
    is a power of ten, or 5: the exact number would tell what other keys do.
    """

    error_rate: float
    p95_ms: float | None
    calls_at_least: int

    def as_json(self) -> dict[str, Any]:
        """Return the members as JSON values."""
        return {
            "error_rate": self.error_rate,
            "p95_ms": self.p95_ms,
            "calls_at_least": self.calls_at_least,
        }


async def read_recent_health(
    session: AsyncSession, *, tenant: UUID = TENANT, moment: datetime | None = None
) -> dict[str, ToolHealth]:
    """Return the health of the tools that were called at least five times in the hour before `moment` (now),
    by canonical name: one statement, and at most 10,000 tools. Raise Unavailable without PostgreSQL.
    """
    since = (moment or datetime.now(UTC)) - HEALTH_PERIOD
    parameters = {
        "failures": list(FAILURES),
        "outcomes": [*FAILURES, *RESPONSES],
        "since": since.replace(second=0, microsecond=0),
        "tenant": tenant,
        "min_calls": MIN_CALLS,
        "max_tools": MAX_TOOLS,
    }
    rows = (await session.execute(_STATEMENT, parameters)).all()
    return {row.tool: _read_health(row) for row in rows}


def _read_health(row: Any) -> ToolHealth:
    calls = int(row.calls)
    return ToolHealth(
        error_rate=round(int(row.errors) / calls, 2),
        p95_ms=row.p95_ms,
        calls_at_least=max(step for step in _COUNT_STEPS if step <= calls),
    )
