"""Day partitions of the call records."""

import asyncio
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import text

from app.calls.log.batch_writer import BatchCallLog
from app.calls.log.retention import maintain_partitions, partition_name
from app.core.uuid7 import uuid7
from app.storage.models import TENANT
from tests.integration.calls.log.test_calls import entry

TODAY = date(2026, 11, 21)


async def partitions(database):
    async with database.read_session() as session:
        found = await session.scalars(
            text(
                "SELECT relname FROM pg_inherits JOIN pg_class ON oid = inhrelid"
                " WHERE inhparent = 'calls'::regclass"
            )
        )
        return {name for name in found if name != "calls_default"}


async def places(database):
    async with database.read_session() as session:
        rows = await session.execute(text("SELECT tableoid::regclass::text, id FROM calls"))
        return {row.id: row.tableoid for row in rows}


async def write(database, *entries):
    writer = BatchCallLog(database)
    for one in entries:
        writer.record(one)
    assert await writer.flush()


def at(day: date, hour: int = 12) -> datetime:
    return datetime(day.year, day.month, day.day, hour, tzinfo=UTC)


async def test_today_and_three_days_ahead_get_partitions(database):
    await maintain_partitions(database, retention_days=30, today=TODAY)
    assert await partitions(database) == {partition_name(TODAY + timedelta(days=n)) for n in range(4)}
    await maintain_partitions(database, retention_days=30, today=TODAY)
    assert len(await partitions(database)) == 4


async def test_rows_go_to_the_partition_of_their_day(database):
    await maintain_partitions(database, retention_days=30, today=TODAY)
    first, last = entry(at=at(TODAY, 0)), entry(at=at(TODAY, 23))
    await write(database, first, last)
    assert await places(database) == {first.id: "calls_20261121", last.id: "calls_20261121"}


async def test_rows_that_came_before_their_partition_are_moved_into_it(database):
    early, other = entry(at=at(TODAY)), entry(at=at(TODAY - timedelta(days=1)))
    await write(database, early, other)
    assert set((await places(database)).values()) == {"calls_default"}
    await maintain_partitions(database, retention_days=30, today=TODAY)
    assert await places(database) == {early.id: "calls_20261121", other.id: "calls_default"}


async def test_old_rows_are_forgotten_wherever_they_lie(database):
    long_ago = TODAY - timedelta(days=10)
    await maintain_partitions(database, retention_days=30, today=long_ago)
    old, kept = entry(at=at(long_ago)), entry(at=at(long_ago + timedelta(days=3)))
    unpartitioned = entry(at=at(TODAY - timedelta(days=20)))
    await write(database, old, kept, unpartitioned)
    await maintain_partitions(database, retention_days=7, today=TODAY)
    assert set(await places(database)) == {kept.id}
    assert partition_name(long_ago) not in await partitions(database)
    assert partition_name(long_ago + timedelta(days=3)) in await partitions(database)


async def test_two_workers_at_once_do_not_disturb_each_other(database):
    await asyncio.gather(*(maintain_partitions(database, retention_days=30, today=TODAY) for _ in range(4)))
    await maintain_partitions(database, retention_days=30, today=TODAY)
    assert len(await partitions(database)) == 4


async def test_a_role_that_may_not_change_tables_still_stores_and_forgets(database, own_database_url):
    async with database.transaction() as session:
        await session.execute(
            text(
                "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'gateway_plain')"
                " THEN CREATE ROLE gateway_plain; END IF; END $$"
            )
        )
        await session.execute(
            text("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO gateway_plain")
        )
    limited = type(database)(own_database_url, pool_size=1)
    async with limited.transaction() as session:
        await session.execute(text("SET ROLE gateway_plain"))
        await session.commit()
    old, kept = entry(at=at(TODAY - timedelta(days=40))), entry(at=at(TODAY))
    await write(limited, old, kept)
    await maintain_partitions(limited, retention_days=30, today=TODAY)
    await limited.aclose()
    assert set(await places(database)) == {kept.id}
    assert await partitions(database) == set()
    async with database.transaction() as session:
        await session.execute(text("DROP OWNED BY gateway_plain"))
        await session.execute(text("DROP ROLE gateway_plain"))


async def test_records_of_another_tenant_are_not_listed(database):
    other = uuid7()
    await write(database, entry(tenant_id=other))
    from app.calls.log.queries import list_calls

    async with database.read_session() as session:
        assert (await list_calls(session, tenant=TENANT)).rows == []
        assert len((await list_calls(session, tenant=other)).rows) == 1
