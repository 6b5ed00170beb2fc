"""The change feed: every change reaches every subscriber, in order, whatever happens on the way."""

import asyncio
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from sqlalchemy import text

from app.catalog.feed import ChangeFeed, ChangeNotice, record_change
from app.core.errors import Unavailable
from tests.faults.proxy import Toxic, proxied


class Told:
    """A subscriber that remembers; `fail` makes it raise once."""

    def __init__(self):
        self.changes: list[ChangeNotice] = []
        self.batches = 0
        self.fail = False
        self._news = asyncio.Event()

    async def __call__(self, changes):
        if self.fail:
            self.fail = False
            raise RuntimeError("broken subscriber")
        self.batches += 1
        self.changes += changes
        self._news.set()

    def forget(self):
        self._news.clear()

    async def within(self, seconds):
        async with asyncio.timeout(seconds):
            await self._news.wait()


@pytest.fixture
async def feeds(database, database_url):
    made = []

    async def make(*, listen=True, poll_seconds=60.0):
        feed = ChangeFeed(database, listen_dsn=database_url if listen else None, poll_seconds=poll_seconds)
        told = Told()
        feed.subscribe(told)
        await feed.start()
        made.append(feed)
        return feed, told

    yield make
    for feed in made:
        await feed.aclose()


async def write(database, *, kind="tool", count=1):
    provider = uuid4()
    for number in range(count):
        async with database.transaction() as session:
            await record_change(session, kind=kind, provider_id=provider, object_id=str(number))
    return provider


async def listeners(database):
    async with database.read_session() as session:
        found = await session.execute(
            text(
                "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
            )
        )
        return [row.pid for row in found]


async def until(condition, seconds=5):
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - the server's state has no event to wait for
            await asyncio.sleep(0.02)


async def test_catch_up_delivers_what_is_committed(database, feeds):
    feed, told = await feeds(listen=False)
    provider = await write(database, kind="credential")
    await feed.catch_up()
    assert [(change.kind, change.provider_id, change.object_id) for change in told.changes] == [
        ("credential", provider, "0")
    ]


async def test_nothing_is_delivered_twice_and_what_was_before_the_start_is_not_delivered(database, feeds):
    await write(database)
    feed, told = await feeds(listen=False)
    await feed.catch_up()
    assert told.changes == []
    await write(database)
    await feed.catch_up()
    await feed.catch_up()
    assert len(told.changes) == 1


async def test_another_worker_hears_within_a_second_by_notify(database, feeds):
    _, told = await feeds(poll_seconds=60)
    await until(lambda: _some(listeners(database)))
    await write(database)
    await told.within(1)
    assert len(told.changes) == 1


async def _some(found):
    return bool(await found)


async def test_without_listen_the_poll_finds_changes(database, feeds):
    _, told = await feeds(listen=False, poll_seconds=0.05)
    await write(database)
    await told.within(2)
    assert len(told.changes) == 1


async def test_a_killed_listening_connection_is_opened_again_and_nothing_is_lost(database, feeds):
    _, told = await feeds(poll_seconds=60)
    await until(lambda: _some(listeners(database)))
    async with database.transaction() as session:
        for pid in await listeners(database):
            await session.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
    await write(database)
    await told.within(5)
    assert len(told.changes) == 1


async def test_concurrent_writers_are_numbered_without_gaps_and_none_is_missed(database, feeds):
    feed, told = await feeds(listen=False)
    start = feed.position

    async def writer():
        await write(database, count=5)

    reader_done = asyncio.Event()

    async def reader():
        while not reader_done.is_set():
            await feed.catch_up()

    reading = asyncio.create_task(reader())
    await asyncio.gather(*(writer() for _ in range(3)))
    reader_done.set()
    await reading
    await feed.catch_up()
    assert [change.seq for change in told.changes] == list(range(start + 1, start + 16))


async def test_a_rolled_back_write_leaves_no_trace(database, feeds):
    feed, told = await feeds(listen=False)
    with pytest.raises(ZeroDivisionError):  # noqa: PT012
        async with database.transaction() as session:
            await record_change(session, kind="tool", object_id="x")
            raise ZeroDivisionError
    await write(database)
    await feed.catch_up()
    assert [change.kind for change in told.changes] == ["tool"]
    assert told.changes[0].object_id == "0"


async def test_pruned_changes_become_one_all(database, feeds):
    feed, told = await feeds(listen=False)
    await write(database, count=3)
    async with database.transaction() as session:
        await session.execute(text("DELETE FROM changes WHERE seq = :seq"), {"seq": feed.position + 1})
    await feed.catch_up()
    assert [change.kind for change in told.changes] == ["all"]
    await write(database)
    await feed.catch_up()
    assert [change.kind for change in told.changes] == ["all", "tool"]


async def test_a_counter_that_went_back_means_a_restored_backup(database, feeds):
    feed, told = await feeds(listen=False)
    await write(database, count=3)
    await feed.catch_up()
    before = feed.position
    told.changes.clear()
    async with database.transaction() as session:
        await session.execute(text("DELETE FROM changes WHERE seq > :seq"), {"seq": before - 2})
        await session.execute(text("UPDATE change_counter SET last = :last"), {"last": before - 2})
    await feed.catch_up()
    assert [change.kind for change in told.changes] == ["all"]
    assert feed.position == before - 2


async def test_a_failing_subscriber_keeps_nobody_else_waiting_and_reads_everything_later(database, feeds):
    feed, told = await feeds(listen=False)
    broken = Told()
    broken.fail = True
    feed.subscribe(broken)
    await write(database)
    await feed.catch_up()
    assert len(told.changes) == 1
    assert broken.changes == []
    await feed.catch_up()
    assert [change.kind for change in broken.changes] == ["all"]
    assert len(told.changes) == 1


async def test_a_cancelled_catch_up_swallows_nothing(database, feeds):
    feed, _ = await feeds(listen=False)
    entered, gate = asyncio.Event(), asyncio.Event()

    async def slow(changes):
        entered.set()
        await gate.wait()

    seen = Told()
    feed.subscribe(slow)
    feed.subscribe(seen)
    await write(database)
    waiting = asyncio.create_task(feed.catch_up())
    await entered.wait()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    gate.set()
    await feed.catch_up()
    assert len(seen.changes) == 1


async def test_closing_leaves_no_listening_connection(database, database_url):
    feed = ChangeFeed(database, listen_dsn=database_url, poll_seconds=60)
    await feed.start()
    await until(lambda: _some(listeners(database)))
    await feed.aclose()

    async def gone():
        return not await listeners(database)

    await until(gone)


async def test_a_listening_connection_that_is_silent_for_good_is_given_up(database, database_url, servers):
    parts = parse_qs(urlsplit(database_url).query)
    if "host" not in parts:
        pytest.skip("TEST_DATABASE_URL names no socket folder that a proxy could stand before")
    async with proxied(f"{parts['host'][0]}/.s.PGSQL.{parts['port'][0]}") as link:
        name = urlsplit(database_url).path
        dsn = f"postgresql://postgres@{link.address}{name}"
        feed = ChangeFeed(database, listen_dsn=dsn, poll_seconds=60, silence_seconds=0.3)
        told = Told()
        feed.subscribe(told)
        await feed.start()
        await write(database)
        await told.within(5)
        link.poison(Toxic("timeout", "up"))
        async with asyncio.timeout(5):
            while link.accepted < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        told.forget()
        link.poison(None)
        await write(database)
        await told.within(5)
        await feed.aclose()


async def test_a_subscriber_that_cannot_read_the_database_gets_a_change_of_everything_later(database, feeds):
    feed, told = await feeds(listen=False)

    async def away(changes):
        calls.append(changes)
        if len(calls) == 1:
            raise Unavailable

    calls: list[list[ChangeNotice]] = []
    feed.subscribe(away)
    await write(database)
    await feed.catch_up()
    await feed.catch_up()
    assert [change.kind for change in calls[1]] == ["all"]
    assert [change.kind for change in told.changes] == ["tool"]
