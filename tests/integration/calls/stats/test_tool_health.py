"""The health of tools: of the calls of the last hour that reached their upstreams, in rates alone."""

from datetime import UTC, datetime, timedelta

import pytest

from app.calls.log.batch_writer import BatchCallLog
from app.calls.stats.tool_health import FAILURES, read_recent_health
from tests.harness.cases import for_each
from tests.integration.calls.log.test_calls import entry

NOW = datetime.now(UTC)


@pytest.fixture
def log(database):
    return BatchCallLog(database)


async def store(log, count, **fields):
    for _ in range(count):
        log.record(entry(**{"at": NOW - timedelta(minutes=10)} | fields))
    assert await log.flush()


async def health(database, **options):
    async with database.read_session() as session:
        return await read_recent_health(session, **options)


async def test_rate_and_percentile_of_the_calls_of_the_last_hour(database, log):
    await store(log, 17, duration_ms=10.0)
    await store(log, 2, duration_ms=1_000.0, outcome="upstream-timeout")
    await store(log, 1, duration_ms=20.0, outcome="upstream-rejected")
    await store(log, 20, at=NOW - timedelta(minutes=70), outcome="upstream-error")
    found = (await health(database))["library.searchBooks"]
    assert (found.error_rate, found.calls_at_least) == (0.1, 10)
    assert found.p95_ms == 1_000


async def test_what_clients_do_wrong_is_no_error_of_the_tool(database, log):
    await store(log, 5)
    for outcome in ("invalid-arguments", "rate-limited", "forbidden", "credential-missing", "cancelled"):
        await store(log, 5, outcome=outcome)
    found = (await health(database))["library.searchBooks"]
    assert (found.error_rate, found.calls_at_least) == (0.0, 5)


@pytest.mark.parametrize("source", ["recording", "mock"])
async def test_responses_that_are_not_the_upstreams_do_not_count(database, log, source):
    await store(log, 9, source=source)
    assert await health(database) == {}


async def test_of_few_calls_nothing_is_said(database, log):
    await store(log, 4)
    assert await health(database) == {}
    await store(log, 1)
    assert (await health(database))["library.searchBooks"].calls_at_least == 5


@for_each("outcome", FAILURES)
async def test_each_failure_of_an_upstream_is_an_error(database, log, outcome):
    tool = f"library.{outcome}"
    await store(log, 5, tool=tool, outcome=outcome)
    assert (await health(database))[tool].error_rate == 1.0
