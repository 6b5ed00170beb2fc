"""The daily partitions of `calls`: created ahead, dropped after the retention period.

Rows that are stored before their partition exists are in the default one; they are moved when the partition
of their day is created (a statement that reads at that moment may not see them). With a database role that
may not alter tables, all rows remain in the default partition, where old rows are deleted.
"""

from datetime import UTC, date, datetime, timedelta

import structlog
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession

from app.calls.stats.rollup import RETURNED_COLUMNS, count_statement
from app.storage.database import Database, is_unavailable

_log = structlog.get_logger(__name__)

_DAYS_AHEAD = 3
_LOCK = text("SELECT pg_try_advisory_xact_lock(7235)")
_PARTITIONS = text(
    "SELECT child.relname FROM pg_inherits"
    " JOIN pg_class child ON child.oid = inhrelid"
    " WHERE inhparent = to_regclass('calls') AND child.relname ~ '^calls_[0-9]{8}$'"
)
_DELETE_OLD = text(
    "DELETE FROM calls_default WHERE ctid = ANY(ARRAY("
    "SELECT ctid FROM calls_default WHERE at < :before LIMIT 10000))"
)

# `queries.outcome_of` returns `unknown` as soon as the deadline has passed; a late record of the end still
# replaces this outcome.
_MARK_UNKNOWN = text(
    "WITH recorded AS (UPDATE calls"  # noqa: S608 - constants.
    " SET outcome = 'unknown', replaced_outcome = outcome, stored_at = clock_timestamp()"
    " WHERE outcome = 'running' AND deadline < now() - interval '1 minute'"
    f" RETURNING {RETURNED_COLUMNS}) {count_statement('recorded')}"
)


def partition_name(day: date) -> str:
    """Return the name of a day's partition, e.g. `calls_20261121`."""
    return f"calls_{day:%Y%m%d}"


async def maintain_partitions(database: Database, *, retention_days: int, today: date | None = None) -> None:
    """Create the partitions of today and the next days, and delete records beyond the retention period. Calls
    whose end was never recorded become `unknown`.

    Several workers may run this at the same time: one does the work. Raise Unavailable without PostgreSQL.
    """
    today = today or datetime.now(UTC).date()
    oldest = today - timedelta(days=retention_days)
    try:
        await _partition(database, today=today, oldest=oldest)
    except DBAPIError as error:
        if is_unavailable(error):
            raise
        _log.warning(
            "the partitions of the table calls cannot be changed; rows remain in the default partition"
        )
    await _delete_old(database, oldest=oldest)
    async with database.transaction() as session:
        await session.execute(_MARK_UNKNOWN)


async def _partition(database: Database, *, today: date, oldest: date) -> None:
    async with database.transaction() as session:
        existing = set((await session.scalars(_PARTITIONS)).all())
    missing = [
        day
        for day in (today + timedelta(days=ahead) for ahead in range(_DAYS_AHEAD + 1))
        if partition_name(day) not in existing
    ]
    old = sorted(name for name in existing if name < partition_name(oldest))
    # A transaction each: the locks on the table are held for one step only.
    for day in missing:
        async with database.transaction() as session:
            if await _acquire_lock(session):
                await _create(session, day)
    for name in old:
        async with database.transaction() as session:
            if await _acquire_lock(session):
                await session.execute(text(f"DROP TABLE IF EXISTS {name}"))


async def _acquire_lock(session: AsyncSession) -> bool:
    """Return whether this worker has the lock for changing partitions; limit its wait for locks of tables."""
    await session.execute(text("SET LOCAL lock_timeout = '2s'"))
    return bool(await session.scalar(_LOCK))


async def _create(session: AsyncSession, day: date) -> None:
    name = partition_name(day)
    if name in set((await session.scalars(_PARTITIONS)).all()):
        return
    start, end = f"'{day} 00:00:00+00'", f"'{day + timedelta(days=1)} 00:00:00+00'"
    # No rows may arrive in the default partition between the move and the attachment.
    await session.execute(text("LOCK TABLE calls_default IN ACCESS EXCLUSIVE MODE"))
    await session.execute(text(f"CREATE TABLE {name} (LIKE calls INCLUDING ALL)"))
    await session.execute(
        text(
            f"WITH moved AS (DELETE FROM calls_default WHERE at >= {start} AND at < {end} RETURNING *)"  # noqa: S608
            f" INSERT INTO {name} SELECT * FROM moved"
        )
    )
    await session.execute(
        text(f"ALTER TABLE calls ATTACH PARTITION {name} FOR VALUES FROM ({start}) TO ({end})")
    )


async def _delete_old(database: Database, *, oldest: date) -> None:
    before = datetime(oldest.year, oldest.month, oldest.day, tzinfo=UTC)
    while True:
        async with database.transaction() as session:
            if (await session.execute(_DELETE_OLD, {"before": before})).rowcount < 10_000:  # type: ignore[attr-defined]
                return
