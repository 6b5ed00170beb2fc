"""Verifying keys: cached, honest about expiry and revocation, and able to go on while PostgreSQL is away."""

import asyncio
import contextlib
import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import event, text, update

from app.access import KeyCachePolicy, KeyVerifier
from app.access.repository import KeyDescription, find_key, issue_key, revoke_key
from app.catalog.feed import ChangeNotice
from app.core.errors import Unauthenticated, Unavailable
from app.security.keys import mint
from app.security.principal import Grant
from app.storage.models import TENANT, Key
from tests.harness.keys import key_id_of

_END_WAITING = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


class Counted:
    """Counts the statements that reach PostgreSQL."""

    def __init__(self, database):
        self.number = 0
        event.listen(database.engine.sync_engine, "before_cursor_execute", self._count)

    def _count(self, *_args):
        self.number += 1


@pytest.fixture
def counted(gateway):
    return Counted(gateway.database)


def verifier(gateway, **policy):
    return KeyVerifier(gateway.database, gateway.vault, cache_policy=KeyCachePolicy(**policy))


async def revoke(gateway, text_of_key):
    async with gateway.database.transaction() as session:
        await revoke_key(session, await find_key(session, key_id_of(text_of_key)), actor="test")


@contextlib.asynccontextmanager
async def locked_keys(gateway):
    """No key can be read meanwhile."""
    async with gateway.database.transaction() as session:
        await session.execute(text("LOCK TABLE keys IN ACCESS EXCLUSIVE MODE"))
        yield session


async def test_the_principal_has_what_was_granted(gateway):
    key = await gateway.key("tools:call", "tools:read", providers=["library"], tags=["safe"])
    principal = await gateway.keys.verify(key)
    assert principal.key_id == key_id_of(key)
    assert principal.tenant_id == TENANT
    assert principal.scopes == {"tools:call", "tools:read"}
    assert (principal.providers, principal.tags) == ({"library"}, {"safe"})
    assert not principal.anonymous


async def test_the_second_time_needs_no_statement(gateway, counted):
    key = await gateway.key()
    await gateway.keys.verify(key)
    before = counted.number
    for _ in range(100):
        assert gateway.keys.verify_cached(key) is not None
        assert await gateway.keys.verify(key)
    assert counted.number == before


async def test_an_unknown_key_is_rejected_and_looked_up_once(gateway, counted):
    stranger = mint().text.reveal()
    await gateway.key()
    before = None
    for _ in range(5):
        with pytest.raises(Unauthenticated):
            await gateway.keys.verify(stranger)
        before = before or counted.number
    assert counted.number == before


async def test_the_right_id_with_another_secret_is_rejected(gateway, counted):
    """Both keys have a right checksum; only the digest tells them apart."""
    key, other = await gateway.key(), mint()
    async with gateway.database.transaction() as session:
        await session.execute(update(Key).values(key_id=other.key_id).where(Key.key_id == key_id_of(key)))
    await asyncio.sleep(0)
    with pytest.raises(Unauthenticated):
        await gateway.keys.verify(other.text.reveal())
    before = counted.number
    for _ in range(3):
        assert gateway.keys.verify_cached(other.text.reveal()) is None
        with pytest.raises(Unauthenticated):
            await gateway.keys.verify(other.text.reveal())
    assert counted.number == before


async def test_a_key_ends_at_its_expiry_though_it_is_cached(gateway):
    end = datetime.now(UTC) + timedelta(seconds=0.3)
    async with gateway.database.transaction() as session:
        grant = Grant(frozenset({"admin"}), expires_at=end)
        minted, _ = await issue_key(
            session, gateway.vault, KeyDescription("short"), grant=grant, actor="test"
        )
    key = minted.text.reveal()
    assert await gateway.keys.verify(key)
    await asyncio.sleep(0.35)
    assert gateway.keys.verify_cached(key) is None
    with pytest.raises(Unauthenticated, match="expired"):
        await gateway.keys.verify(key)


async def test_revocation_reaches_a_cached_key_through_the_feed(gateway):
    key = await gateway.key()
    assert await gateway.keys.verify(key)
    await revoke(gateway, key)
    await gateway.feed.catch_up()
    with pytest.raises(Unauthenticated):
        await gateway.keys.verify(key)


async def test_without_the_feed_revocation_is_noticed_after_the_cache_time(gateway):
    keys = verifier(gateway, fresh_seconds=0.2)
    key = await gateway.key()
    assert await keys.verify(key)
    await revoke(gateway, key)
    await asyncio.sleep(0.25)
    with pytest.raises(Unauthenticated):
        await keys.verify(key)


async def test_a_read_that_was_under_way_during_a_revocation_is_not_cached(gateway):
    key = await gateway.key()
    async with gateway.database.transaction() as session:
        await session.execute(text("LOCK TABLE keys IN ACCESS EXCLUSIVE MODE"))
        reading = asyncio.create_task(gateway.keys.verify(key))
        await asyncio.sleep(0.2)
        await gateway.keys.on_changes([ChangeNotice("key", object_id=key_id_of(key))])
    assert await reading
    assert gateway.keys.verify_cached(key) is None


@pytest.mark.parametrize("kind", ["key", "all"])
async def test_a_request_after_a_revocation_joins_no_read_from_before(gateway, kind):
    keys = verifier(gateway)
    key = await gateway.key()
    async with locked_keys(gateway) as session:
        before = asyncio.create_task(keys.verify(key))
        await asyncio.sleep(0.2)
        await keys.on_changes([ChangeNotice(kind, object_id=key_id_of(key))])
        after = asyncio.create_task(keys.verify(key))
        await asyncio.sleep(0.2)
        assert not before.done()
        assert sum(keys.lookups.requested.values()) == 2
        # Who comes now joins the read from after the change.
        joined = asyncio.create_task(keys.verify(key))
        await asyncio.sleep(0)
        await revoke_key(session, await find_key(session, key_id_of(key)), actor="test")
    await asyncio.wait([before])
    for request in (after, joined):
        with pytest.raises(Unauthenticated):
            await request
    assert before.exception() is None or isinstance(before.exception(), Unauthenticated)
    assert sum(keys.lookups.requested.values()) == 2
    assert keys.verify_cached(key) is None
    await keys.aclose()


@pytest.mark.parametrize("kind", ["key", "all"])
async def test_a_key_whose_change_was_delivered_is_not_used_while_the_database_is_unavailable(gateway, kind):
    keys = verifier(gateway, fresh_seconds=0.05, stale_seconds=60)
    key = await gateway.key()
    await keys.verify(key)
    await asyncio.sleep(0.1)
    async with locked_keys(gateway) as session:
        verifying = asyncio.create_task(keys.verify(key))
        await asyncio.sleep(0.2)
        await keys.on_changes([ChangeNotice(kind, object_id=key_id_of(key))])
        gateway.disconnect_database()
        await session.execute(text(_END_WAITING))
        with pytest.raises(Unavailable):
            await verifying
    gateway.reconnect_database()
    await keys.aclose()


async def test_reads_from_before_a_change_end_with_the_verifier(gateway):
    keys = verifier(gateway)
    key = await gateway.key()
    async with locked_keys(gateway):
        waiting = []
        for kind in ("key", "all", "key"):
            waiting.append(asyncio.create_task(keys.verify(key)))
            await asyncio.sleep(0.1)
            await keys.on_changes([ChangeNotice(kind, object_id=key_id_of(key))])
        await keys.aclose()
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "key-read"]
        await asyncio.wait(waiting, timeout=1)
        assert all(task.cancelled() for task in waiting)


async def test_a_change_of_everything_forgets_all_keys(gateway):
    key = await gateway.key()
    await gateway.keys.verify(key)
    await gateway.keys.on_changes([ChangeNotice("tool", object_id="x")])
    assert gateway.keys.verify_cached(key)
    await gateway.keys.on_changes([ChangeNotice("all")])
    assert gateway.keys.verify_cached(key) is None


async def test_many_first_uses_at_once_read_once(gateway, counted):
    key = await gateway.key()
    before = counted.number
    await asyncio.gather(*(gateway.keys.verify(key) for _ in range(50)))
    # The pool's ping and the query.
    assert counted.number - before <= 2


async def test_a_client_that_disconnects_does_not_take_the_others_read_along(gateway):
    key = await gateway.key()
    first = asyncio.create_task(gateway.keys.verify(key))
    second = asyncio.create_task(gateway.keys.verify(key))
    await asyncio.sleep(0)
    first.cancel()
    assert await second


async def test_while_the_database_is_unavailable_a_cached_key_works(gateway):
    keys = verifier(gateway, fresh_seconds=0.05, stale_seconds=60)
    key = await gateway.key()
    await keys.verify(key)
    gateway.disconnect_database()
    await asyncio.sleep(0.1)
    assert await keys.verify(key)
    # Now that it is known to be away, nobody waits for it.
    assert keys.verify_cached(key)
    gateway.reconnect_database()
    await keys.aclose()


async def test_an_unknown_key_gets_503_while_the_database_is_unavailable(gateway):
    gateway.disconnect_database()
    for _ in range(3):
        with pytest.raises(Unavailable) as caught:
            await gateway.keys.verify(mint().text.reveal())
        # Not a look-up that reached its own timeout.
        assert type(caught.value) is Unavailable
    response = await gateway.ask("GET", "/tools", mint().text.reveal())
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    gateway.reconnect_database()


async def test_a_cached_key_works_no_longer_than_the_stale_time(gateway):
    keys = verifier(gateway, fresh_seconds=0.05, stale_seconds=0.3)
    key = await gateway.key()
    await keys.verify(key)
    gateway.disconnect_database()
    await asyncio.sleep(0.1)
    assert await keys.verify(key)
    await asyncio.sleep(0.3)
    assert keys.verify_cached(key) is None
    with pytest.raises(Unavailable):
        await keys.verify(key)
    gateway.reconnect_database()
    await keys.aclose()


async def test_what_was_revoked_meanwhile_ends_soon_after_the_database_is_back(gateway):
    keys = verifier(gateway, fresh_seconds=0.05, stale_seconds=60)
    key = await gateway.key()
    await keys.verify(key)
    gateway.disconnect_database()
    await asyncio.sleep(0.1)
    assert await keys.verify(key)
    gateway.reconnect_database()
    await revoke(gateway, key)

    async def use_for(seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            await keys.verify(key)
            await asyncio.sleep(0.05)

    with pytest.raises(Unauthenticated):
        await use_for(5)
    await keys.aclose()


async def test_a_stale_key_with_another_secret_is_rejected_while_the_database_is_unavailable(gateway):
    keys = verifier(gateway, fresh_seconds=0.05)
    key = await gateway.key()
    await keys.verify(key)
    gateway.disconnect_database()
    await asyncio.sleep(0.1)
    assert await keys.verify(key)
    other = mint().text.reveal()
    with pytest.raises((Unauthenticated, Unavailable)):
        await keys.verify(other)
    assert keys.verify_cached(key[:17] + other[17:]) is None
    gateway.reconnect_database()
    await keys.aclose()


async def test_the_cache_is_bounded_for_known_and_unknown_keys(gateway):
    keys = verifier(gateway, capacity=3)
    mine = [await gateway.key() for _ in range(6)]
    for key in mine:
        await keys.verify(key)
    for _ in range(6):
        with pytest.raises(Unauthenticated):
            await keys.verify(mint().text.reveal())
    assert [keys.verify_cached(key) is not None for key in mine] == [False] * 3 + [True] * 3
    assert len(keys._absent) <= 3
    await keys.aclose()


async def test_the_last_use_is_written_later_and_never_backwards(gateway, counted):
    keys = verifier(gateway)
    key = await gateway.key()
    began = datetime.now(UTC)
    for _ in range(10):
        await keys.verify(key)

    async def last_used():
        async with gateway.database.read_session() as session:
            return (await find_key(session, key_id_of(key))).last_used_at

    assert await last_used() is None
    await keys.flush()
    assert began <= await last_used() <= datetime.now(UTC)
    before = counted.number
    await keys.flush()
    assert counted.number == before
    newest = await last_used()
    keys._used[key_id_of(key)] = began.timestamp() - 100
    await keys.flush()
    assert await last_used() == newest


async def test_the_last_use_waits_while_the_database_is_unavailable(gateway):
    keys = verifier(gateway)
    await keys.verify(await gateway.key())
    gateway.disconnect_database()
    with pytest.raises(Unavailable):
        await keys.flush()
    gateway.reconnect_database()
    await keys.start()
    await keys.aclose()
    async with gateway.database.read_session() as session:
        assert await session.scalar(text("SELECT count(*) FROM keys WHERE last_used_at IS NOT NULL")) == 1


async def test_neither_cache_nor_database_hold_the_text_of_a_key(gateway):
    key = await gateway.key()
    await gateway.keys.verify(key)
    assert key not in repr(gateway.keys._cached)
    assert key[17:] not in repr(vars(gateway.keys))
    async with gateway.database.read_session() as session:
        rows = (await session.execute(text("SELECT keys::text, encode(digest, 'escape') FROM keys"))).all()
        rows += (await session.execute(text("SELECT events::text FROM events"))).all()
    assert key[17:] not in str(rows)


async def test_a_principal_is_found_by_the_id_of_its_key(gateway, counted):
    key = await gateway.key("tools:read")
    keys = verifier(gateway)

    found = await keys.principal_by_id(key_id_of(key))

    assert found == await keys.verify(key)
    before = counted.number
    assert await keys.principal_by_id(key_id_of(key)) is found
    assert counted.number == before


async def test_there_is_no_principal_of_an_unknown_a_revoked_and_an_expired_key(gateway):
    revoked, expired = await gateway.key(), await gateway.key()
    keys = verifier(gateway)
    assert await keys.principal_by_id(key_id_of(revoked)) is not None
    await revoke(gateway, revoked)
    async with gateway.database.transaction() as session:
        await session.execute(
            update(Key).where(Key.key_id == key_id_of(expired)).values(expires_at=datetime.now(UTC))
        )
    await keys.on_changes([ChangeNotice("key", object_id=key_id_of(revoked))])

    for key_id in (mint().key_id, key_id_of(revoked), key_id_of(expired)):
        assert await keys.principal_by_id(key_id) is None
        assert await keys.principal_by_id(key_id) is None


async def test_a_principal_by_id_is_cached_while_postgresql_is_unavailable(gateway):
    known, unknown = await gateway.key(), await gateway.key()
    keys = verifier(gateway, fresh_seconds=0)
    await keys.principal_by_id(key_id_of(known))
    gateway.disconnect_database()

    assert await keys.principal_by_id(key_id_of(known)) is not None
    for _ in range(2):
        with pytest.raises(Unavailable):
            await keys.principal_by_id(key_id_of(unknown))


async def test_a_principal_by_id_counts_as_a_use_of_its_key(gateway):
    key = await gateway.key()
    keys = verifier(gateway)
    await keys.principal_by_id(key_id_of(key))

    await keys.flush()

    async with gateway.database.read_session() as session:
        assert (await find_key(session, key_id_of(key))).last_used_at is not None
