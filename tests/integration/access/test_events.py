"""Events: who changed what."""

from dataclasses import replace

import pytest

from app.access.events import NEWEST_EVENTS, EventFilters, list_events, record_event


async def record(database, **changed):
    made = {
        "actor": "key1",
        "action": "created",
        "object_type": "provider",
        "object_name": "library",
    } | changed
    async with database.transaction() as session:
        await record_event(session, **made)


async def test_an_event_says_who_did_what_to_which_object(registry):
    await record(registry, detail={"tools": 3})
    async with registry.read_session() as session:
        page = await list_events(session)
    (event,) = page.rows
    assert (event.actor, event.action, event.object_type, event.object_name) == (
        "key1",
        "created",
        "provider",
        "library",
    )
    assert event.detail == {"tools": 3}
    assert event.at.tzinfo is not None
    assert (page.next_cursor, page.total) == (None, 1)


async def test_an_event_is_gone_when_its_change_is_rolled_back(registry):
    async def fail():
        async with registry.transaction() as session:
            await record_event(session, actor="a", action="created", object_type="key", object_name="k")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    async with registry.read_session() as session:
        assert (await list_events(session)).rows == []


async def test_pages_and_filters(registry):
    for number in range(7):
        await record(registry, object_name=f"p{number}", actor="key1" if number % 2 else "key2")
    async with registry.read_session() as session:
        request = replace(NEWEST_EVENTS, limit=5)
        first = await list_events(session, request)
        rest = await list_events(session, replace(request, cursor=first.next_cursor))
        mine = await list_events(session, filters=EventFilters(actor="key1"))
        one = await list_events(session, filters=EventFilters(object_type="provider", object_name="p3"))
        none = await list_events(session, filters=EventFilters(object_type="key"))
    both = first.rows + rest.rows
    assert sorted(event.object_name for event in both) == [f"p{n}" for n in range(7)]
    assert [event.id for event in both] == sorted((event.id for event in both), reverse=True)
    assert rest.next_cursor is None
    assert {event.object_name for event in mine.rows} == {"p1", "p3", "p5"}
    assert [event.object_name for event in one.rows] == ["p3"]
    assert none.rows == []
