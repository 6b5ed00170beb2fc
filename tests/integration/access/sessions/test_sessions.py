"""Sessions: created by a key, found without SQL, and ended by time, by sign-out and by the end of their key."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import event, text

from app.access.authorise import ANONYMOUS
from app.access.repository import find_key, revoke_key
from app.catalog.feed import ChangeNotice
from app.core.errors import Forbidden, RateLimited, Unauthenticated, Unavailable
from app.security.principal import TokenIdentity
from tests.harness.cases import for_each
from tests.harness.keys import key_id_of


async def revoke(rig, key):
    async with rig.gateway.database.transaction() as session:
        await revoke_key(session, await find_key(session, key_id_of(key)), actor="test")


async def rows(rig, table="console_sessions"):
    async with rig.gateway.database.read_session() as session:
        return (await session.execute(text(f"SELECT count(*) FROM {table}"))).scalar_one()


class Statements:
    def __init__(self, database):
        self.number = 0
        event.listen(database.engine.sync_engine, "before_cursor_execute", self._count)

    def _count(self, *_args):
        self.number += 1


async def test_a_session_has_the_key_and_times(rig):
    key = await rig.gateway.key("tools:read")

    created = await rig.sessions.create(await rig.principal(key))
    found = await rig.sessions.find(created.text.reveal())

    assert found.key_id == key_id_of(key)
    assert found.expires_at == created.expires_at
    assert found.expires_at - found.created_at == timedelta(days=7)
    assert found.authenticated_at == found.created_at


async def test_a_session_ends_no_later_than_its_key_expires(rig):
    key = await rig.gateway.key()
    principal = replace(await rig.principal(key), expires_at=rig.clock() + timedelta(hours=1))

    created = await rig.sessions.create(principal)

    assert created.expires_at == principal.expires_at


async def test_only_a_digest_is_stored(rig):
    created = await rig.session(await rig.gateway.key())

    async with rig.gateway.database.read_session() as session:
        row = (
            await session.execute(text("SELECT row_to_json(s)::text FROM console_sessions s"))
        ).scalar_one()

    assert created not in row
    assert created[4:] not in row


async def test_a_found_session_needs_no_sql(rig):
    text_ = await rig.session(await rig.gateway.key())
    await rig.sessions.find(text_)
    statements = Statements(rig.gateway.database)

    for _ in range(3):
        assert await rig.sessions.find(text_) is not None

    assert statements.number == 0


@for_each(
    "change",
    [lambda t: t[:-1], lambda t: t + "A", lambda t: t[:-1] + "é", lambda t: t[:-4] + "AAAA", str.lower],
)
async def test_a_text_that_was_not_made_here_is_rejected_without_sql(rig, change):
    text_ = await rig.session(await rig.gateway.key())
    statements = Statements(rig.gateway.database)

    assert await rig.sessions.find(change(text_)) is None
    assert statements.number == 0


async def test_an_ended_session_is_read_once(rig):
    text_ = await rig.session(await rig.gateway.key())
    await rig.sessions.end(text_)
    await rig.sessions.find(text_)
    statements = Statements(rig.gateway.database)

    assert await rig.sessions.find(text_) is None
    assert statements.number == 0


async def test_concurrent_requests_share_one_read(rig):
    text_ = await rig.session(await rig.gateway.key())
    other = rig.worker()
    await other._keys.principal_by_id((await rig.sessions.find(text_)).key_id)
    statements = Statements(rig.gateway.database)

    found = await asyncio.gather(*(other.find(text_) for _ in range(20)))

    assert all(found)
    assert statements.number == 1


async def test_an_unused_session_ends_after_twelve_hours(rig):
    text_ = await rig.session(await rig.gateway.key())
    rig.clock.forward(hours=11, minutes=59)
    assert await rig.sessions.find(text_) is not None

    rig.clock.forward(hours=12)

    assert await rig.sessions.find(text_) is None


async def test_use_on_another_worker_counts(rig):
    text_ = await rig.session(await rig.gateway.key())
    other = rig.worker(fresh_seconds=0)
    for _ in range(3):
        rig.clock.forward(hours=11)
        assert await other.find(text_) is not None
        await other.flush()

    assert await rig.worker().find(text_) is not None


async def test_a_used_session_ends_after_seven_days(rig):
    text_ = await rig.session(await rig.gateway.key())
    for _ in range(16):
        rig.clock.forward(hours=10)
        assert await rig.sessions.find(text_) is not None

    rig.clock.forward(hours=10)

    assert await rig.sessions.find(text_) is None


async def test_the_last_use_is_stored_by_the_flush_only(rig):
    text_ = await rig.session(await rig.gateway.key())
    await rig.sessions.find(text_)
    rig.clock.forward(hours=1)
    await rig.sessions.find(text_)

    await rig.sessions.flush()

    async with rig.gateway.database.read_session() as session:
        query = text("SELECT last_used_at - created_at FROM console_sessions")
        assert (await session.execute(query)).scalar_one() >= timedelta(hours=1)


async def test_a_flush_that_fails_is_repeated(rig):
    text_ = await rig.session(await rig.gateway.key())
    rig.clock.forward(hours=1)
    await rig.sessions.find(text_)
    rig.gateway.disconnect_database()
    with pytest.raises(Unavailable):
        await rig.sessions.flush()
    rig.gateway.reconnect_database()

    await rig.sessions.flush()

    async with rig.gateway.database.read_session() as session:
        query = text("SELECT last_used_at - created_at FROM console_sessions")
        assert (await session.execute(query)).scalar_one() >= timedelta(hours=1)


async def test_a_cached_session_is_found_while_postgresql_is_unavailable(rig):
    known = rig.worker(fresh_seconds=0)
    text_ = await rig.session(await rig.gateway.key())
    await known.find(text_)
    rig.gateway.disconnect_database()

    assert await known.find(text_) is not None
    assert await known.find(text_) is not None
    with pytest.raises(Unavailable):
        await rig.worker().find(text_)


async def test_a_session_is_ended_on_every_worker(rig):
    text_ = await rig.session(await rig.gateway.key())
    other = rig.worker()
    assert await other.find(text_) is not None

    assert await rig.sessions.end(text_) is True

    assert await rig.sessions.find(text_) is None
    assert await other.find(text_) is None
    assert await rig.sessions.end(text_) is False


async def test_all_sessions_of_a_key_are_ended(rig):
    key, other_key = await rig.gateway.key(), await rig.gateway.key()
    mine = [await rig.session(key) for _ in range(3)]
    foreign = await rig.session(other_key)
    worker = rig.worker()
    for one in (*mine, foreign):
        await worker.find(one)

    assert await rig.sessions.end_all(key_id_of(key)) == 3

    assert [await worker.find(one) for one in mine] == [None] * 3
    assert await worker.find(foreign) is not None


async def test_a_read_that_began_before_the_end_is_not_cached(rig):
    text_ = await rig.session(await rig.gateway.key())
    other = rig.worker()
    reading = asyncio.create_task(other.find(text_))
    for _ in range(3):
        # Until the read has begun, in a task of its own.
        await asyncio.sleep(0)
    await other.on_changes([ChangeNotice("session", object_id="of any session")])
    await reading

    assert len(other) == 0


async def test_a_revoked_key_ends_its_sessions(rig):
    key = await rig.gateway.key()
    text_ = await rig.session(key)
    other = rig.worker()
    assert await other.find(text_) is not None

    await revoke(rig, key)
    await rig.gateway.feed.catch_up()

    assert len(other) == 0
    assert await other.find(text_) is None


async def test_a_rotated_key_ends_its_sessions_with_its_overlap(rig):
    key = await rig.gateway.key()
    text_ = await rig.session(key)
    assert await rig.sessions.find(text_) is not None
    response = await rig.gateway.ask(
        "POST", f"/keys/{key_id_of(key)}/rotate", key, json={"overlap_seconds": 0}
    )
    assert response.status_code == 201, response.text

    assert await rig.sessions.find(text_) is None


async def test_a_changed_key_has_its_new_rights(rig):
    admin, key = await rig.gateway.key(), await rig.gateway.key("tools:read", "tools:call")
    text_ = await rig.session(key)
    found = await rig.sessions.find(text_)
    response = await rig.gateway.ask(
        "PATCH", f"/keys/{key_id_of(key)}", admin, json={"scopes": ["tools:read"]}
    )
    assert response.status_code == 200, response.text

    assert await rig.sessions.find(text_) == found
    principal = await rig.gateway.keys.principal_by_id(found.key_id)
    assert principal.scopes == {"tools:read"}


async def test_ended_sessions_are_deleted(rig):
    revoked = await rig.gateway.key()
    await rig.session(revoked)
    idle = await rig.session(await rig.gateway.key())
    await revoke(rig, revoked)

    await rig.sessions.sweep()
    assert await rows(rig) == 1
    assert await rig.sessions.find(idle) is not None

    rig.clock.forward(days=8)
    await rig.sessions.sweep()
    assert await rows(rig) == 0


async def test_a_key_has_at_most_a_hundred_sessions(rig):
    principal = await rig.principal(await rig.gateway.key())
    first = (await rig.sessions.create(principal)).text.reveal()
    await rig.sessions.find(first)
    for _ in range(4):
        rig.clock.forward(minutes=1)
        # Each worker admits thirty sign-ins a minute.
        worker = rig.worker()
        for _ in range(25):
            await worker.create(principal)

    assert await rows(rig) == 100
    assert await rig.sessions.find(first) is None


async def test_sign_ins_of_a_key_are_limited(rig):
    principal = await rig.principal(await rig.gateway.key())
    for _ in range(30):
        await rig.sessions.create(principal)

    with pytest.raises(RateLimited) as error:
        await rig.sessions.create(principal)

    assert error.value.headers["Retry-After"] == "2"
    assert await rig.session(await rig.gateway.key())


async def test_only_api_keys_have_sessions(rig):
    principal = await rig.principal(await rig.gateway.key())
    token = replace(principal, token=TokenIdentity("https://issuer.example", "user"))

    for one in (ANONYMOUS, token):
        with pytest.raises(Forbidden):
            await rig.sessions.create(one)

    assert await rows(rig) == 0


async def test_every_session_has_another_text(rig):
    key = await rig.gateway.key()

    assert len({await rig.session(key) for _ in range(5)}) == 5


async def test_a_key_is_asked_for_again_after_five_minutes(rig):
    key = await rig.gateway.key()
    text_ = await rig.session(key)
    assert await rig.sessions.is_recent(text_)
    rig.clock.forward(minutes=5)
    assert not await rig.sessions.is_recent(text_)

    await rig.sessions.confirm(text_, key, host="192.0.2.1")

    assert await rig.sessions.is_recent(text_)
    found = await rig.sessions.find(text_)
    assert rig.clock() - found.authenticated_at < timedelta(minutes=1)


async def test_another_worker_knows_at_once_that_the_key_was_presented(rig):
    key = await rig.gateway.key()
    text_ = await rig.session(key)
    rig.clock.forward(minutes=6)
    other = rig.worker()
    await other.find(text_)
    async with rig.gateway.database.transaction() as session:
        await session.execute(text("UPDATE console_sessions SET authenticated_at = :at"), {"at": rig.clock()})

    # The change feed has not reported it yet.
    assert await other.is_recent(text_)


async def test_another_key_does_not_confirm_a_session(rig):
    text_ = await rig.session(await rig.gateway.key())
    rig.clock.forward(minutes=6)
    other_key = await rig.gateway.key()

    with pytest.raises(Unauthenticated):
        await rig.sessions.confirm(text_, other_key, host="192.0.2.1")

    assert not await rig.sessions.is_recent(text_)


async def test_an_ended_session_is_not_confirmed(rig):
    key = await rig.gateway.key()
    text_ = await rig.session(key)
    await rig.sessions.end(text_)

    with pytest.raises(Unauthenticated):
        await rig.sessions.confirm(text_, key, host="192.0.2.1")


async def test_sign_in_and_sign_out_are_events(rig):
    key = await rig.gateway.key()
    created = await rig.sessions.sign_in(key, host="192.0.2.1")
    await rig.sessions.end(created.text.reveal())

    (actor, created_, detail), (_, ended, _) = await rig.events()
    assert (actor, created_, ended) == (key_id_of(key), "created", "ended")
    assert detail == {"method": "key", "expires_at": created.expires_at.isoformat()}


async def test_failed_sign_ins_of_an_address_are_one_event_a_minute(rig):
    for _ in range(50):
        with pytest.raises(Unauthenticated):
            await rig.sessions.sign_in("ugw_nonsense", host="192.0.2.1")
    assert await rig.events() == [("anonymous", "failed", {"failures": 1})]

    await rig.sessions.flush()

    assert await rig.events() == [
        ("anonymous", "failed", {"failures": 1}),
        ("anonymous", "failed", {"failures": 49}),
    ]


async def test_failed_sign_ins_of_many_addresses_are_few_events(rig):
    for number in range(200):
        with pytest.raises(Unauthenticated):
            await rig.sessions.sign_in("ugw_nonsense", host=f"192.0.2.{number}")
    await rig.sessions.flush()

    events = await rig.events()
    assert len(events) <= 31
    assert sum(detail["failures"] for _, _, detail in events) == 200


async def test_failures_that_could_not_be_recorded_are_recorded_later(rig):
    rig.gateway.disconnect_database()
    await rig.sessions.report_failure("192.0.2.1")
    rig.gateway.reconnect_database()

    await rig.sessions.flush()

    assert await rig.events() == [("anonymous", "failed", {"failures": 1})]
