"""Call records: stored in batches behind the call, once each, also when PostgreSQL comes and goes."""

import asyncio
import time
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime, timedelta

import pytest
from asyncpg.pgproto import pgproto
from sqlalchemy import text

from app.calls.log.batch_writer import BatchCallLog
from app.calls.log.entries import CallLogEntry
from app.calls.log.queries import NEWEST_CALLS, CallFilters, list_calls
from app.calls.log.retention import maintain_partitions
from app.calls.log.store import _COLUMNS
from app.core.uuid7 import uuid7
from app.storage.database import Database
from app.storage.models import TENANT
from tests.harness.cases import for_each

AWAY = "postgresql://postgres@127.0.0.1:1/nothing"


def entry(**changed):
    made = CallLogEntry(
        id=uuid7(),
        at=datetime.now(UTC),
        tenant_id=TENANT,
        key_id="key1",
        provider="library",
        tool="library.searchBooks",
        outcome="ok",
        status=200,
        upstream_status=200,
        duration_ms=12.5,
        request_bytes=10,
        response_bytes=2_000,
    )
    return replace(made, **changed)


async def stored(database, **filters):
    async with database.read_session() as session:
        page = await list_calls(session, replace(NEWEST_CALLS, limit=200), filters=CallFilters(**filters))
    return page.rows


async def test_a_record_is_stored_as_it_was_made(database):
    writer = BatchCallLog(database)
    made = entry(outcome="upstream-timeout", status=504, upstream_status=None)
    writer.record(made)
    assert await writer.flush()
    (row,) = await stored(database)
    assert (row.id, row.at, row.tenant_id, row.key_id) == (made.id, made.at, TENANT, "key1")
    assert (row.provider, row.tool, row.outcome) == ("library", "library.searchBooks", "upstream-timeout")
    assert (row.status, row.upstream_status, row.duration_ms) == (504, None, 12.5)
    assert (row.request_bytes, row.response_bytes) == (10, 2_000)


def test_each_column_is_a_member_of_the_record():
    assert {column.name for column in fields(CallLogEntry)} == set(_COLUMNS)


async def test_every_member_of_a_record_is_stored(database):
    at = datetime(2026, 11, 23, 12, 0, 0, 123_456, tzinfo=UTC)
    made = entry(
        tenant_id=pgproto.UUID(str(TENANT)), attempts=2, safe=False, interface="mcp", toolset="desk", at=at,
        deadline=at + timedelta(seconds=1), arguments=b"\x00sealed\xff", result=b"",
        request_bytes=2**31, response_bytes=2**31 - 1,
    )  # fmt: skip
    writer = BatchCallLog(database)
    await maintain_partitions(database, retention_days=30)
    writer.record(made)
    assert await writer.flush()
    names = ", ".join(_COLUMNS)
    async with database.read_session() as session:
        row = (await session.execute(text(f"SELECT {names} FROM calls WHERE id = '{made.id}'"))).one()
    assert dict(row._mapping) == asdict(made) | {"request_bytes": 2**31 - 1}


async def test_records_are_stored_in_the_background(database):
    writer = BatchCallLog(database, flush_seconds=0.02)
    await writer.start()
    writer.record(entry())
    deadline = time.monotonic() + 60
    while not (rows := await stored(database)) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    # A further statement could run while the partition of the day is attached, and not see the row.
    assert len(rows) == 1
    await writer.aclose()


async def test_closing_stores_what_is_left(database):
    writer = BatchCallLog(database, flush_seconds=60)
    await writer.start()
    for _ in range(5_001):
        writer.record(entry())
    await writer.aclose()
    async with database.read_session() as session:
        assert await session.scalar(text("SELECT count(*) FROM calls")) == 5_001


async def test_a_record_that_is_sent_twice_is_stored_once(database):
    made = entry()
    for _ in range(2):
        writer = BatchCallLog(database)
        writer.record(made)
        assert await writer.flush()
    assert len(await stored(database)) == 1


async def test_records_wait_while_the_database_is_unavailable(database):
    writer = BatchCallLog(Database(AWAY))
    made = [entry() for _ in range(3)]
    for one in made:
        writer.record(one)
    assert not await writer.flush()
    assert not await writer.flush()
    assert len(writer) == 3
    writer.store.database = database
    assert await writer.flush()
    assert {row.id for row in await stored(database)} == {one.id for one in made}
    assert writer.dropped == 0


async def test_beyond_the_capacity_the_oldest_are_lost_and_counted(database):
    writer = BatchCallLog(database, capacity=10)
    made = [entry() for _ in range(25)]
    for one in made:
        writer.record(one)
    assert await writer.flush()
    assert {row.id for row in await stored(database)} == {one.id for one in made[15:]}
    assert writer.dropped == 15


async def test_a_flush_that_is_cancelled_loses_nothing(database):
    writer = BatchCallLog(database)
    made = [entry() for _ in range(50)]
    for one in made:
        writer.record(one)
    task = asyncio.create_task(writer.flush())
    await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await writer.flush()
    assert {row.id for row in await stored(database)} == {one.id for one in made}


async def test_text_that_postgres_cannot_store_does_not_stop_the_others(database):
    writer = BatchCallLog(database)
    writer.record(entry(tool="a\x00b"))
    writer.record(entry(tool="\ud800"))
    writer.record(entry(tool="x" * 10_000, response_bytes=1 << 40))
    writer.record(entry())
    assert await writer.flush()
    assert {row.tool[:5] for row in await stored(database)} == {"ab", "?", "xxxxx", "libra"}


async def test_a_row_that_is_rejected_is_dropped_alone(database):
    writer = BatchCallLog(database)
    writer.record(entry(status=1 << 40))
    good = entry()
    writer.record(good)
    assert await writer.flush()
    assert [row.id for row in await stored(database)] == [good.id]
    assert writer.dropped == 1


async def test_pages_are_newest_first_complete_and_stable(database):
    writer = BatchCallLog(database)
    made = [entry() for _ in range(25)]
    for one in made:
        writer.record(one)
    await writer.flush()
    seen, request = [], replace(NEWEST_CALLS, limit=10)
    async with database.read_session() as session:
        while True:
            page = await list_calls(session, request)
            seen += [row.id for row in page.rows]
            if page.next_cursor is None:
                break
            request = replace(request, cursor=page.next_cursor)
            # What is written meanwhile stands before the first page.
            writer.record(entry())
            await writer.flush()
    assert seen == sorted((one.id for one in made), reverse=True)


async def test_the_last_full_page_has_no_cursor(database):
    writer = BatchCallLog(database)
    for _ in range(10):
        writer.record(entry())
    await writer.flush()
    async with database.read_session() as session:
        page = await list_calls(session, replace(NEWEST_CALLS, limit=10))
    assert len(page.rows) == 10
    assert page.next_cursor is None


@pytest.fixture
async def three_calls(database):
    """What was recorded, by a letter."""
    entries = {
        "a": entry(),
        "b": entry(tool="library.lend", key_id="key2"),
        "c": entry(provider="shop", tool="shop.buy", outcome="not-found"),
    }
    writer = BatchCallLog(database)
    for recorded in entries.values():
        writer.record(recorded)
    assert await writer.flush()
    return entries


@for_each(
    ("filters", "expected"),
    [
        ({"tool": "library.lend"}, {"b"}),
        ({"provider": "shop"}, {"c"}),
        ({"key_id": "key2"}, {"b"}),
        ({"outcome": "not-found"}, {"c"}),
        ({"providers": ["library"]}, {"a", "b"}),
        ({"providers": []}, set()),
        ({"provider": "shop", "providers": ["library"]}, set()),
    ],
)
async def test_filters(database, three_calls, filters, expected):
    rows = await stored(database, **filters)
    assert {row.id for row in rows} == {three_calls[name].id for name in expected}


async def test_the_time_filter_includes_its_start_and_not_its_end(database):
    at = datetime.now(UTC).replace(microsecond=0)
    writer = BatchCallLog(database)
    for seconds in range(3):
        writer.record(entry(at=at + timedelta(seconds=seconds)))
    await writer.flush()
    rows = await stored(database, since=at + timedelta(seconds=1), until=at + timedelta(seconds=2))
    assert [row.at for row in rows] == [at + timedelta(seconds=1)]
