"""The strict mode: on record in PostgreSQL before a call with effects is made, or it is not made."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from sqlalchemy import text

from app.calls.log.batch_writer import BatchCallLog
from app.calls.log.retention import maintain_partitions
from app.calls.log.strict import StrictCallLog
from app.core.errors import CallLogUnavailable
from app.storage.database import Database, asyncpg_dsn
from tests.faults.proxy import proxied
from tests.integration.calls.log.test_calls import AWAY, entry, stored
from tests.integration.storage.database.test_unavailability import address_of


def intent(**changed):
    return entry(
        outcome="running", status=0, upstream_status=None, duration_ms=0.0, response_bytes=0, safe=False,
        deadline=datetime.now(UTC) + timedelta(seconds=60), **changed,
    )  # fmt: skip


def ended(begun, **changed):
    fields = {"outcome": "ok", "status": 200, "upstream_status": 201, "duration_ms": 5.0, "attempts": 1}
    return replace(begun, **fields | changed)


@pytest.fixture
async def recorder(database, own_database_url):
    # A query that runs while the partitions of today are made may miss the rows that are moved.
    await maintain_partitions(database, retention_days=30)
    made = StrictCallLog(BatchCallLog(database, flush_seconds=60), dsn=own_database_url, wait_seconds=2)
    await made.start()
    yield made
    await made.aclose()


async def outcomes(database):
    async with database.read_session() as session:
        rows = await session.execute(text("SELECT id, outcome FROM calls"))
        return {row.id: row.outcome for row in rows}


async def end_connections(dsn):
    """As a restart of the server does."""
    connection = await asyncpg.connect(asyncpg_dsn(dsn))
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await connection.close()


async def test_beginning_and_end_of_a_call_are_one_row(recorder, database):
    begun = intent()
    await recorder.record_intent(begun)
    assert await outcomes(database) == {begun.id: "running"}
    waiting = recorder.record(ended(begun))
    await recorder.wait_recorded(waiting)
    (row,) = await stored(database)
    assert (row.id, row.at, row.outcome, row.status) == (begun.id, begun.at, "ok", 200)
    assert (row.upstream_status, row.attempts, row.safe, row.duration_ms) == (201, 1, False, 5.0)


async def test_calls_without_effects_are_not_waited_for(recorder, database):
    assert recorder.record(entry(safe=True)) is None
    assert await outcomes(database) == {}
    assert await recorder.flush()
    assert len(await outcomes(database)) == 1


async def test_many_calls_at_once_share_commits(recorder, own_database_url):
    begun = [intent() for _ in range(200)]
    before = await transactions(own_database_url)
    await asyncio.gather(*(recorder.record_intent(one) for one in begun))
    for one in begun:
        await recorder.wait_recorded(recorder.record(ended(one)))
    # 200 alone for the ends, which came one after the other; the beginnings came together.
    assert await transactions(own_database_url) - before < 230


async def transactions(dsn):
    connection = await asyncpg.connect(asyncpg_dsn(dsn))
    # The figures of a session come when it has been idle for a second.
    await asyncio.sleep(1.5)
    found = await connection.fetchval(
        "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
    )
    await connection.close()
    return found


async def test_without_postgres_calls_with_effects_are_rejected_at_once():
    recorder = StrictCallLog(BatchCallLog(Database(AWAY)), dsn=AWAY, wait_seconds=30)
    await recorder.start()
    for _ in range(3):
        async with asyncio.timeout(2):
            with pytest.raises(CallLogUnavailable) as caught:
                await recorder.record_intent(intent())
    assert (caught.value.status, caught.value.slug) == (503, "call-log-unavailable")
    assert "Retry-After" in caught.value.headers
    await recorder.aclose()


async def test_a_server_that_does_not_respond_is_waited_for_no_longer_than_set(database):
    async def silent(reader, writer):
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    dsn = f"postgresql://nobody@127.0.0.1:{server.sockets[0].getsockname()[1]}/none"
    recorder = StrictCallLog(BatchCallLog(database), dsn=dsn, wait_seconds=0.4)
    async with asyncio.timeout(3):
        with pytest.raises(CallLogUnavailable):
            await recorder.record_intent(intent())
    await recorder.aclose()
    server.close()


async def test_a_connection_that_ended_costs_no_call(recorder, database, own_database_url):
    first, second = intent(), intent()
    await recorder.record_intent(first)
    await end_connections(own_database_url)
    await recorder.record_intent(second)
    assert set(await outcomes(database)) == {first.id, second.id}


async def test_an_end_that_cannot_be_committed_waits_with_the_others(database, own_database_url):
    begun = intent()
    writer = BatchCallLog(database, flush_seconds=60)
    recorder = StrictCallLog(writer, dsn=own_database_url, wait_seconds=1)
    await recorder.record_intent(begun)
    await recorder.aclose()
    away = StrictCallLog(writer, dsn=AWAY, wait_seconds=1)
    async with asyncio.timeout(3):
        await away.wait_recorded(away.record(ended(begun)))
    assert await outcomes(database) == {begun.id: "running"}
    assert len(writer) == 1
    await away.aclose()
    assert await outcomes(database) == {begun.id: "ok"}


async def test_after_postgres_came_back_calls_are_recorded_again(database, own_database_url):
    target, dsn = address_of(own_database_url)
    async with proxied(target) as link:
        recorder = StrictCallLog(BatchCallLog(database), dsn=dsn(link.address), wait_seconds=1)
        await link.cut()
        with pytest.raises(CallLogUnavailable):
            await recorder.record_intent(intent())
        await link.heal()
        async with asyncio.timeout(10):
            while True:
                begun = intent()
                try:
                    await recorder.record_intent(begun)
                except CallLogUnavailable:
                    await asyncio.sleep(0.05)
                else:
                    break
        assert begun.id in await outcomes(database)
        await recorder.aclose()


async def test_a_server_that_became_read_only_is_left(recorder, database, own_database_url):
    await recorder.record_intent(intent())
    connection = await asyncpg.connect(asyncpg_dsn(own_database_url))
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    # On a busy machine it may not have been told of its end yet when the next one takes its name.
    await connection.close()
    await end_connections(own_database_url)
    connection = await asyncpg.connect(asyncpg_dsn(own_database_url))
    try:
        with pytest.raises(CallLogUnavailable):
            await recorder.record_intent(intent())
    finally:
        await connection.execute("SET default_transaction_read_only = off")
        await connection.execute(f'ALTER DATABASE "{name}" RESET ALL')
        await connection.close()
    assert len(await outcomes(database)) == 1


async def test_a_row_that_is_rejected_fails_its_own_call_only(recorder, database):
    bad, good = intent(), intent()
    bad.status = 1 << 40
    results = await asyncio.gather(
        recorder.record_intent(bad), recorder.record_intent(good), return_exceptions=True
    )
    assert results[1] is None
    assert set(await outcomes(database)) == {good.id}


async def test_the_same_records_again_in_any_order_change_nothing(database):
    begun = intent()
    for batch in ([ended(begun)], [begun], [begun, ended(begun)], [ended(begun), begun]):
        writer = BatchCallLog(database)
        for one in batch:
            writer.record(one)
        assert await writer.flush()
        assert await outcomes(database) == {begun.id: "ok"}


async def test_a_call_whose_end_was_never_recorded_is_unknown_once_its_time_is_over(database):
    now = datetime.now(UTC)
    late, current = intent(), intent()
    late.deadline = now - timedelta(seconds=1)
    writer = BatchCallLog(database)
    for one in (late, current, entry()):
        writer.record(one)
    assert await writer.flush()
    assert {row.id for row in await stored(database, outcome="unknown")} == {late.id}
    assert {row.id for row in await stored(database, outcome="running")} == {current.id}
    assert {row.outcome for row in await stored(database, outcome="ok")} == {"ok"}


async def test_leftovers_are_settled_and_a_late_end_still_counts(database):
    late = intent()
    late.deadline = datetime.now(UTC) - timedelta(minutes=5)
    current = intent()
    writer = BatchCallLog(database)
    for one in (late, current):
        writer.record(one)
    assert await writer.flush()
    await maintain_partitions(database, retention_days=30)
    assert await outcomes(database) == {late.id: "unknown", current.id: "running"}
    writer.record(ended(late))
    assert await writer.flush()
    assert (await outcomes(database))[late.id] == "ok"
