"""The statistics agree with the records that they count, in every mode, and whatever is stored twice."""

import asyncio
import math
import random
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from app.calls.idempotency.table import IdempotencyTable, LeaseCompletion, LeaseRequest, RowKey
from app.calls.log.batch_writer import BatchCallLog
from app.calls.log.queries import NEWEST_CALLS, list_calls, outcome_of
from app.calls.log.retention import maintain_partitions
from app.calls.log.strict import StrictCallLog
from app.calls.stats.histogram import BIN_SQL, BINS_PER_DOUBLING, FIRST_BIN_MS, RELATIVE_ERROR
from app.calls.stats.queries import NOT_ERRORS, StatFilters, bucket_range, call_statistics
from app.calls.stats.retention import maintain_stats
from app.core.background import TaskSet
from app.storage.models import TENANT
from tests.integration.calls.log.test_calls import entry

NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
OUTCOMES = ("ok", "ok", "ok", "cancelled", "replayed", "upstream-timeout", "invalid-arguments")


def random_entry(chance, **changed):
    provider = chance.choice(("library", "weather", "shop"))
    return entry(
        at=NOON + timedelta(seconds=chance.uniform(0, 7_200)),
        key_id=chance.choice(("key1", "key2")),
        provider=provider,
        tool=f"{provider}.{chance.choice('abc')}",
        interface=chance.choice(("rest", "mcp", "tool-calls")),
        toolset=chance.choice(("", "", "support", "sales")),
        outcome=chance.choice(OUTCOMES),
        duration_ms=10 ** chance.uniform(-2, 4),
        request_bytes=chance.randrange(1_000),
        response_bytes=chance.randrange(100_000),
        **changed,
    )


def intent(chance, *, seconds=60.0):
    begun = random_entry(chance, safe=False, deadline=datetime.now(UTC) + timedelta(seconds=seconds))
    return replace(begun, outcome="running", status=0, duration_ms=0.1, request_bytes=7, response_bytes=0)


def end(chance, begun):
    return replace(
        begun, outcome=chance.choice(OUTCOMES), duration_ms=chance.uniform(1, 500), response_bytes=9
    )


async def read(database, group, interval="hour", *, limit=50, **filters):
    since, until = bucket_range(NOON - timedelta(days=2), NOON + timedelta(days=3), interval)
    async with database.read_session() as session:
        return await call_statistics(
            session, group=group, interval=interval, since=since, until=until, limit=limit,
            filters=StatFilters(**filters),
        )  # fmt: skip


async def ended_calls(database):
    rows, cursor = [], None
    async with database.read_session() as session:
        while True:
            page = await list_calls(session, replace(NEWEST_CALLS, limit=200, cursor=cursor))
            rows += [row for row in page.rows if outcome_of(row) != "running"]
            cursor = page.next_cursor
            if cursor is None:
                return rows


def exact(values, share):
    return sorted(values)[math.ceil(share * len(values)) - 1]


def assert_counts(counts, rows):
    timed = [row.duration_ms for row in rows if outcome_of(row) != "unknown"]
    assert counts.calls == len(rows)
    assert counts.errors == sum(outcome_of(row) not in NOT_ERRORS for row in rows)
    for name in ("request_bytes", "response_bytes"):
        known = sum(getattr(row, name) for row in rows if outcome_of(row) != "unknown")
        assert getattr(counts, name) == known
    if not timed:
        assert (counts.mean_ms, counts.p50_ms, counts.p95_ms, counts.p99_ms, counts.max_ms) == (None,) * 5
        return
    assert counts.mean_ms == pytest.approx(sum(timed) / len(timed), abs=0.001)
    assert counts.max_ms == pytest.approx(max(timed), abs=0.001)
    for name, share in (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99)):
        # Below 0.1 ms all durations are one bin.
        value = max(exact(timed, share), 0.1)
        error = RELATIVE_ERROR if len(timed) > 2 else 0
        assert max(getattr(counts, name), 0.1) == pytest.approx(value, rel=error, abs=0.001)


async def assert_agrees(database):
    """Compare every group, interval, value and point with the records."""
    rows = await ended_calls(database)
    of = {
        "tool": lambda row: row.tool if row.provider else "",
        "provider": lambda row: row.provider,
        "key": lambda row: row.key_id,
        "outcome": outcome_of,
        "interface": lambda row: row.interface,
        "toolset": lambda row: row.toolset,
    }
    for group, value_of in of.items():
        for interval in ("minute", "hour", "day"):
            found = await read(database, group, interval)
            assert_counts(found.totals, rows)
            assert (found.others, found.other.points) == (0, [])
            by_value = defaultdict(list)
            for row in rows:
                by_value[value_of(row)].append(row)
            assert set(found.series) == set(by_value)
            for value, series in found.series.items():
                assert_counts(series.totals, by_value[value])
                by_bucket = defaultdict(list)
                for row in by_value[value]:
                    by_bucket[bucket_range(row.at, row.at + timedelta(microseconds=1), interval)[0]].append(
                        row
                    )
                assert [at for at, _ in series.points] == sorted(by_bucket)
                for at, counts in series.points:
                    assert_counts(counts, by_bucket[at])
    return rows


async def test_batches_agree_with_the_records_also_where_they_are_stored_twice(database):
    chance = random.Random(11)
    made = [random_entry(chance) for _ in range(400)]
    for start in (0, 0, 150, 300):
        writer = BatchCallLog(database)
        for one in made[start : start + 200]:
            writer.record(one)
        assert await writer.flush()
    assert len(await assert_agrees(database)) == 400


async def test_concurrent_writers_of_the_same_calls_count_each_once(database):
    chance = random.Random(12)
    made = [random_entry(chance) for _ in range(300)]
    writers = [BatchCallLog(database) for _ in range(4)]
    for writer in writers:
        for one in chance.sample(made, 300):
            writer.record(one)
    assert all(await asyncio.gather(*(writer.flush() for writer in writers)))
    assert len(await assert_agrees(database)) == 300


async def test_the_strict_mode_counts_the_end_and_not_the_beginning(database, own_database_url):
    chance = random.Random(13)
    log = StrictCallLog(BatchCallLog(database, flush_seconds=60), dsn=own_database_url, wait_seconds=5)
    await log.start()
    begun = [intent(chance) for _ in range(60)]
    await asyncio.gather(*(log.record_intent(one) for one in begun))
    assert (await read(database, "tool")).totals.calls == 0
    for one in begun[:50]:
        waiting = log.record(end(chance, one))
        await log.wait_recorded(waiting)
    for _ in range(20):
        log.record(random_entry(chance))
    await log.aclose()
    assert len(await assert_agrees(database)) == 70


async def test_a_call_whose_end_is_missing_is_unknown_until_its_end_is_recorded_late(
    database, own_database_url
):
    chance = random.Random(14)
    log = StrictCallLog(BatchCallLog(database, flush_seconds=60), dsn=own_database_url, wait_seconds=5)
    await log.start()
    begun = [intent(chance, seconds=-120) for _ in range(20)]
    await asyncio.gather(*(log.record_intent(one) for one in begun))
    # Overdue, and not yet marked in the table.
    rows = await assert_agrees(database)
    assert Counter(map(outcome_of, rows)) == {"unknown": 20}
    await maintain_partitions(database, retention_days=30)
    await assert_agrees(database)
    for one in [*begun[:15], *begun[:5]]:
        await log.wait_recorded(log.record(end(chance, one)))
    rows = await assert_agrees(database)
    assert Counter(map(outcome_of, rows))["unknown"] == 5
    # The end of another process's batch that is stored again changes nothing.
    await log.aclose()
    await maintain_partitions(database, retention_days=30)
    await assert_agrees(database)


async def test_calls_with_an_idempotency_key_are_counted_with_their_outcome(database, own_database_url):
    chance = random.Random(15)
    tasks = TaskSet()
    table = IdempotencyTable(own_database_url, watched=tasks)
    begun = [intent(chance) for _ in range(20)]
    for number, one in enumerate(begun):
        key = RowKey(TENANT, one.key_id, number.to_bytes(16, "big"))
        request = LeaseRequest(
            key, b"f" * 16, one.id, lease_seconds=60, ttl_seconds=600, safe=False, record=one
        )
        assert await table.acquire(request, seconds=5)
        ends_at = asyncio.get_running_loop().time() + 60
        done = LeaseCompletion(key, one.id, b"sealed", ends_at, record=end(chance, one))
        assert await table.complete(done)
    await table.aclose()
    assert len(await assert_agrees(database)) == 20


async def test_merging_and_retention(database):
    chance = random.Random(16)
    for _ in range(6):
        writer = BatchCallLog(database)
        for _ in range(50):
            writer.record(random_entry(chance))
        assert await writer.flush()
    await maintain_stats(database, hour_days=30, minute_days=30)
    async with database.read_session() as session:
        shards = (await session.scalars(text("SELECT DISTINCT shard FROM call_stats"))).all()
    assert shards == [0]
    await assert_agrees(database)
    await maintain_stats(database, hour_days=30, minute_days=1, moment=NOON + timedelta(days=2))
    assert (await read(database, "tool", "minute")).totals.calls == 0
    assert (await read(database, "tool", "hour")).totals.calls == 300
    await maintain_stats(database, hour_days=1, minute_days=1, moment=NOON + timedelta(days=2))
    assert (await read(database, "tool", "day")).totals.calls == 0


async def test_values_beyond_the_limit_are_one_series(database):
    writer = BatchCallLog(database)
    for number in range(6):
        for _ in range(number + 1):
            writer.record(entry(tool=f"library.t{number}", at=NOON, duration_ms=10.0))
    assert await writer.flush()
    found = await read(database, "tool", limit=2)
    assert [(name, one.totals.calls) for name, one in found.series.items()] == [
        ("library.t5", 6),
        ("library.t4", 5),
    ]
    assert (found.others, found.other.totals.calls, found.totals.calls) == (4, 10, 21)
    assert [counts.calls for _, counts in found.other.points] == [10]


async def test_names_that_clients_made_up_are_one_series(database):
    writer = BatchCallLog(database)
    for number in range(5):
        writer.record(entry(provider="", tool=f"no.such{number}", outcome="not-found", at=NOON))
    assert await writer.flush()
    assert list((await read(database, "tool")).series) == [""]


async def test_filters_and_restrictions(database):
    writer = BatchCallLog(database)
    for number, provider in enumerate(("a", "b", "c")):
        for _ in range(number + 1):
            writer.record(entry(provider=provider, tool=f"{provider}.x", key_id=f"k{number}", at=NOON))
    assert await writer.flush()
    assert list((await read(database, "key", provider="b")).series) == ["k1"]
    restricted = await read(database, "provider", limit=1, providers={"a", "b"})
    assert (list(restricted.series), restricted.others, restricted.totals.calls) == (["b"], 1, 3)
    assert (await read(database, "tool", outcome="unknown")).totals.calls == 0


async def test_filters_by_interface_and_toolset_count_the_records_that_match(database):
    chance = random.Random(17)
    writer = BatchCallLog(database)
    for _ in range(200):
        writer.record(random_entry(chance))
    assert await writer.flush()
    rows = await ended_calls(database)
    for interface, toolset in (("mcp", None), (None, "support"), ("rest", "sales"), ("utcp", None)):
        chosen = [
            row for row in rows if interface in (None, row.interface) and toolset in (None, row.toolset)
        ]
        found = await read(database, "tool", interface=interface, toolset=toolset)
        assert_counts(found.totals, chosen)
        assert {name: one.totals.calls for name, one in found.series.items()} == Counter(
            row.tool for row in chosen
        )


FEW = (
    ((86.804,), (86.804, 86.804, 86.804)),
    ((0.9, 77.31, 86.804), (77.31, 86.804, 86.804)),
    ((80.0,) * 5, (80.0, 80.0, 80.0)),
    ((10.0, 20.0, 40.0, 1_234.567), (20.0, 1_234.567, 1_234.567)),
    ((0.02, 0.05), (0.02, 0.05, 0.05)),
)


async def test_percentiles_of_few_calls_are_exact(database):
    writer = BatchCallLog(database)
    for number, (durations, _) in enumerate(FEW):
        for duration in durations:
            writer.record(entry(at=NOON, provider="few", tool=f"few.{number}", duration_ms=duration))
    assert await writer.flush()
    series = (await read(database, "tool")).series
    for number, (_, percentiles) in enumerate(FEW):
        counts = series[f"few.{number}"].totals
        assert (counts.p50_ms, counts.p95_ms, counts.p99_ms) == percentiles


async def test_bins_of_the_database_contain_their_durations(database):
    chance = random.Random(17)
    values = [10 ** chance.uniform(-3, 7.9) for _ in range(500)]
    statement = text(f"SELECT ms, {BIN_SQL.format(ms='ms')} FROM unnest(cast(:values AS float8[])) AS v(ms)")
    async with database.read_session() as session:
        for value, number in (await session.execute(statement, {"values": values})).all():
            end = FIRST_BIN_MS * 2 ** (int(number) / BINS_PER_DOUBLING)
            assert end / (1 + RELATIVE_ERROR) * 0.999999 < max(value, FIRST_BIN_MS) <= end * 1.000001


@pytest.mark.parametrize(
    ("interval", "since", "until"),
    [
        ("minute", "2026-03-01T10:02:00+00:00", "2026-03-01T11:38:00+00:00"),
        ("hour", "2026-03-01T10:00:00+00:00", "2026-03-01T12:00:00+00:00"),
        ("day", "2026-03-01T00:00:00+00:00", "2026-03-02T00:00:00+00:00"),
    ],
)
def test_a_range_is_extended_to_whole_buckets(interval, since, until):
    found = bucket_range(
        datetime.fromisoformat("2026-03-01T12:02:03+02:00"),
        datetime.fromisoformat("2026-03-01T13:37:01+02:00"),
        interval,
    )
    assert [one.isoformat() for one in found] == [since, until]
    assert bucket_range(*found, interval) == found
