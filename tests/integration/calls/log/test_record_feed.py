"""New records of all workers reach each subscription once; too many waiting ones end it."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from app.access.events import ControlPlaneEvents, record_event
from app.calls.log.queries import EndedCalls
from app.calls.log.record_feed import RecordFeed, RecordSubscription
from app.calls.log.store import CallStore
from app.core.errors import Overloaded, Unavailable
from app.core.uuid7 import uuid7
from app.storage.database import Database
from app.storage.models import Event
from tests.integration.calls.log.test_calls import AWAY, entry


async def taken(subscription, number):
    found = []
    async with asyncio.timeout(20):
        while len(found) < number:
            found += await subscription.take(seconds=1)
    return found


async def test_records_before_the_subscription_are_not_delivered(database):
    feed, store = RecordFeed(EndedCalls(), database), CallStore(database)
    await store.store([entry()])
    async with feed.subscribe() as first:
        await store.store([one := entry()])
        assert [row.id for row in await taken(first, 1)] == [one.id]
        async with feed.subscribe() as second:
            await store.store([two := entry()])
            assert [row.id for row in await taken(first, 1)] == [two.id]
            assert [row.id for row in await taken(second, 1)] == [two.id]
    assert feed._tasks == []


async def test_a_subscription_that_begins_while_another_ends_gets_no_old_records(database):
    feed, store = RecordFeed(EndedCalls(), database), CallStore(database)
    await store.store([entry() for _ in range(5)])
    for _ in range(5):
        async with feed.subscribe():
            other = asyncio.create_task(anext(aiter_subscription(feed)))
            await asyncio.sleep(0)
        subscription = await other
        assert await subscription.take(seconds=0.01) == []


async def aiter_subscription(feed):
    async with feed.subscribe() as subscription:
        yield subscription


async def test_more_records_than_one_page_are_delivered_in_order(database):
    feed, store = RecordFeed(EndedCalls(), database), CallStore(database)
    async with feed.subscribe() as subscription:
        made = [entry() for _ in range(2_500)]
        await store.store(made)
        rows = await taken(subscription, 2_500)
    assert {row.id for row in rows} == {one.id for one in made}
    assert [(row.stored_at, row.id) for row in rows] == sorted((row.stored_at, row.id) for row in rows)


async def test_beginnings_of_calls_are_not_delivered_and_ends_that_replace_unknown_are(database):
    feed, store = RecordFeed(EndedCalls(), database), CallStore(database)
    deadline = datetime.now(UTC) + timedelta(minutes=1)
    begun = entry(outcome="running", deadline=deadline)
    async with feed.subscribe() as subscription:
        await store.store([begun])
        async with database.transaction() as session:
            await session.execute(text("UPDATE calls SET outcome = 'unknown', stored_at = clock_timestamp()"))
        assert [row.outcome for row in await taken(subscription, 1)] == ["unknown"]
        begun.outcome = "ok"
        await store.store([begun])
        assert [row.outcome for row in await taken(subscription, 1)] == ["ok"]


async def test_an_event_of_a_slow_transaction_is_delivered_after_later_ones(database):
    feed = RecordFeed(ControlPlaneEvents(), database)
    async with feed.subscribe() as subscription:
        async with database.transaction() as slow:
            await record_event(slow, actor="a", action="created", object_type="x", object_name="slow")
            async with database.transaction() as fast:
                await record_event(fast, actor="a", action="created", object_type="x", object_name="fast")
            assert [row.object_name for row in await taken(subscription, 1)] == ["fast"]
        assert [row.object_name for row in await taken(subscription, 1)] == ["slow"]


async def test_records_are_delivered_later_where_the_database_was_unavailable(database, own_database_url):
    feed, store = RecordFeed(EndedCalls(), database), CallStore(database)
    async with feed.subscribe() as subscription:
        feed.database = Database(AWAY)
        await store.store([one := entry()])
        with pytest.raises(Unavailable):
            await feed._advance()
        await feed.database.aclose()
        feed.database = database
        assert [row.id for row in await taken(subscription, 1)] == [one.id]
    with pytest.raises(Unavailable):
        async with RecordFeed(EndedCalls(), Database(AWAY)).subscribe():
            pass


async def test_a_subscription_with_too_many_records_ends_without_a_gap():
    subscription = RecordSubscription()
    rows = [Event(id=uuid7(), actor="", action="", object_type="", object_name="") for _ in range(3_000)]
    for _ in range(3):
        subscription.offer(rows)
    subscription.offer(rows[:1])
    assert await subscription.take(seconds=1) == rows
    with pytest.raises(Overloaded):
        await subscription.take(seconds=0.01)


async def test_places_are_limited():
    feed = RecordFeed(EndedCalls(), Database(AWAY))
    for _ in range(100):
        feed.acquire()
    with pytest.raises(Overloaded):
        feed.acquire()
    feed.release()
    feed.acquire()
    assert len(feed) == 100
