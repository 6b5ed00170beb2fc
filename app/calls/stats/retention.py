"""Maintenance of the statistics: old rows are deleted, and rows of connections are added up."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import text

from app.calls.stats.rollup import DELETE_OLD, MERGE_SHARDS
from app.storage.database import Database

_SHARDED_SECONDS: Final = 3_600
_DELETE_OLD = text(DELETE_OLD)
_MERGE_SHARDS = text(MERGE_SHARDS)


async def maintain_stats(
    database: Database, *, hour_days: int, minute_days: int, moment: datetime | None = None
) -> None:
    """Delete statistics beyond their retention periods in days, and merge the shards of past hours.

    `moment` is the current time by default. Several workers may run this at the same time. Raise Unavailable
    without PostgreSQL.
    """
    moment = moment or datetime.now(UTC)
    for resolution, days in (("hour", hour_days), ("minute", minute_days)):
        before = moment - timedelta(days=days)
        await _repeat(database, _DELETE_OLD, {"resolution": resolution, "before": before})
    await _repeat(database, _MERGE_SHARDS, {"before": moment - timedelta(seconds=_SHARDED_SECONDS)})


async def _repeat(database: Database, statement: Any, parameters: dict[str, Any]) -> None:
    """Execute a statement, each time in a transaction of its own, until it changes no row."""
    while True:
        async with database.transaction() as session:
            result: Any = await session.execute(statement, parameters)
        if not result.rowcount:
            return
