"""Events: who changed what."""

import pytest

from app.access.events import list_events, record_event


async def record(database, **changed):
    made = {
        "actor": "key1",
        "action": "created",
        "object_type": "provider",
        "object_name": "library",
    } | changed
    async with database.writing() as session:
        await record_event(session, **made)


async def test_an_event_says_who_did_what_to_which_object(database):
    await record(database, detail={"tools": 3})
    async with database.reading() as session:
        ((event,), cursor) = await list_events(session)
    assert (event.actor, event.action, event.object_type, event.object_name) == (
        "key1",
        "created",
        "provider",
        "library",
    )
    assert event.detail == {"tools": 3}
    assert event.at.tzinfo is not None
    assert cursor is None


async def test_an_event_is_gone_when_its_change_is_rolled_back(database):
    async def fail():
        async with database.writing() as session:
            await record_event(session, actor="a", action="created", object_type="key", object_name="k")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    async with database.reading() as session:
        assert (await list_events(session))[0] == []


async def test_pages_and_filters(database):
    for number in range(7):
        await record(database, object_name=f"p{number}", actor="key1" if number % 2 else "key2")
    async with database.reading() as session:
        first, cursor = await list_events(session, limit=5)
        rest, end = await list_events(session, limit=5, cursor=cursor)
        mine, _ = await list_events(session, actor="key1")
        one, _ = await list_events(session, object_type="provider", object_name="p3")
        none, _ = await list_events(session, object_type="key")
    assert sorted(event.object_name for event in first + rest) == [f"p{n}" for n in range(7)]
    assert [event.id for event in first + rest] == sorted((e.id for e in first + rest), reverse=True)
    assert end is None
    assert {event.object_name for event in mine} == {"p1", "p3", "p5"}
    assert [event.object_name for event in one] == ["p3"]
    assert none == []
