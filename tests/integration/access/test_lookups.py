"""Looking up keys: made-up ids cost little, stand back, and say nothing about PostgreSQL."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import event, text

from app.access import KeyCachePolicy, KeyVerifier
from app.access.failures import KeyFailureLimiter
from app.access.key_ids import KeyIds
from app.access.lookups import KeyLookups, LookupTimeout
from app.access.repository import create_key, find_key, revoke_key
from app.catalog.feed import ChangeNotice
from app.core.errors import Unauthenticated, Unavailable
from app.core.rate_limit import RateLimit
from app.security.keys import ID_SLICE, SECRET_LENGTH, _checksum, mint
from app.storage.database import Database, DatabasePoolExhausted
from tests.faults.proxy import Toxic, proxied
from tests.harness.keys import key_id_of
from tests.integration.storage.database.test_unavailability import address_of

_LIMIT = RateLimit.parse("1/60:3")
_SHORT_CACHE = KeyCachePolicy(fresh_seconds=0.05, stale_seconds=60)


class Statements:
    """The statements on keys that reach PostgreSQL, and with how many ids."""

    def __init__(self, database):
        self.ids: list[int] = []
        self.all: list[str] = []
        event.listen(database.engine.sync_engine, "before_cursor_execute", self._count)

    def _count(self, _connection, _cursor, statement, parameters, *_rest):
        self.all.append(statement)
        if "ANY" in statement and "FROM keys" in statement:
            self.ids.append(len(parameters[0]))


@pytest.fixture
def statements(gateway):
    return Statements(gateway.database)


async def revoked(gateway, key):
    async with gateway.database.transaction() as session:
        await revoke_key(session, await find_key(session, key_id_of(key)), actor="test")


async def refused(keys, **options) -> Unauthenticated:
    with pytest.raises(Unauthenticated) as caught:
        await keys.verify(mint().text.reveal(), **options)
    return caught.value


async def test_unknown_keys_share_statements(gateway, statements):
    found = await asyncio.gather(
        *(gateway.keys.verify(mint().text.reveal()) for _ in range(300)), return_exceptions=True
    )
    assert {type(error) for error in found} == {Unauthenticated}
    assert sum(statements.ids) == 300
    assert len(statements.ids) <= 7


async def test_a_key_that_exists_overtakes_unknown_keys(gateway, statements):
    keys = [await gateway.key() for _ in range(30)]
    await gateway.feed.catch_up()
    strangers = [asyncio.create_task(refused(gateway.keys)) for _ in range(1000)]
    await asyncio.sleep(0)
    principals = await asyncio.gather(*(gateway.keys.verify(key) for key in keys))
    assert [one.key_id for one in principals] == [key_id_of(key) for key in keys]
    assert sum(task.done() for task in strangers) < 500
    for task in strangers:
        task.cancel()
    await asyncio.gather(*strangers, return_exceptions=True)


async def test_a_key_of_which_the_feed_reports_overtakes_too(gateway):
    """Its look-up began among the strangers, before this worker knew that there is such a key."""
    strangers = [asyncio.create_task(refused(gateway.keys)) for _ in range(1000)]
    key = await gateway.key()
    waiting = asyncio.create_task(gateway.keys.verify(key))
    await asyncio.sleep(0)
    assert gateway.keys.lookups.waiting()["unknown"] > 500
    await gateway.feed.catch_up()
    assert await waiting
    assert sum(task.done() for task in strangers) < 500
    for task in strangers:
        task.cancel()
    await asyncio.gather(*strangers, return_exceptions=True)


async def test_a_new_key_works_before_the_feed_reports_it(gateway):
    await gateway.keys.start()
    key = await gateway.key()
    assert await gateway.keys.verify(key, host="192.0.2.1")


async def test_more_unknown_keys_than_may_wait_are_rejected_without_a_word_about_the_database(gateway):
    found = await asyncio.gather(
        *(gateway.keys.verify(mint().text.reveal()) for _ in range(3000)), return_exceptions=True
    )
    kinds = {type(error) for error in found}
    assert kinds == {Unauthenticated, LookupTimeout}
    # On a busy machine some that may wait do so in vain.
    assert 0 < gateway.keys.lookups.rejected <= sum(isinstance(error, LookupTimeout) for error in found)
    assert gateway.keys._is_database_down is False


class TestAWaitInThisProcess:
    """A cached key whose time is over is read again; what keeps it waiting here is no absence of PostgreSQL."""

    async def test_a_crowded_pool_lets_no_revoked_key_live_on(self, gateway, own_database_url):
        database = Database(own_database_url, pool_size=1, pool_timeout=0.5)
        keys = KeyVerifier(database, gateway.vault, cache_policy=_SHORT_CACHE)
        key = await gateway.key()
        assert await keys.verify(key)
        await revoked(gateway, key)
        await asyncio.sleep(0.1)
        async with database.read_session():
            with pytest.raises(DatabasePoolExhausted):
                await keys.verify(key)
            with pytest.raises(DatabasePoolExhausted):
                await keys.verify(mint().text.reveal())
            assert keys.verify_cached(key) is None
        with pytest.raises(Unauthenticated):
            await keys.verify(key)
        await keys.aclose()
        await database.aclose()

    async def test_waiting_unknown_keys_let_no_revoked_key_live_on(self, gateway):
        keys = KeyVerifier(gateway.database, gateway.vault, cache_policy=_SHORT_CACHE)
        key = await gateway.key()
        assert await keys.verify(key)
        strangers = [asyncio.create_task(refused(keys)) for _ in range(1500)]
        await revoked(gateway, key)
        await asyncio.sleep(0.1)
        with pytest.raises(Unauthenticated):
            await keys.verify(key)
        assert sum(task.done() for task in strangers) < 1500
        for task in strangers:
            task.cancel()
        await asyncio.gather(*strangers, return_exceptions=True)
        await keys.aclose()


class TestAStatementThatWasSent:
    """Its silence is PostgreSQL's, and cached keys work on."""

    async def test_a_black_hole_behind_an_open_connection(self, gateway, own_database_url):
        target, dsn = address_of(own_database_url)
        async with proxied(target) as link:
            database = Database(dsn(link.address), pool_size=2)
            keys = KeyVerifier(database, gateway.vault, cache_policy=_SHORT_CACHE)
            key = await gateway.key()
            assert await keys.verify(key)
            link.poison(Toxic("timeout", "up"))
            await asyncio.sleep(0.1)
            assert await keys.verify(key)
            with pytest.raises(Unavailable):
                await keys.verify(mint().text.reveal())
            link.poison(None)
            await keys.aclose()
            await database.aclose()

    async def test_a_statement_that_waits_for_a_lock_for_long(self, gateway):
        keys = KeyVerifier(gateway.database, gateway.vault, cache_policy=_SHORT_CACHE)
        key = await gateway.key()
        assert await keys.verify(key)
        await asyncio.sleep(0.1)
        async with gateway.database.transaction() as session:
            await session.execute(text("LOCK TABLE keys IN ACCESS EXCLUSIVE MODE"))
            assert await keys.verify(key)
        await keys.aclose()


class TestLimit:
    """Keys that are not valid, by address."""

    @pytest.fixture
    async def keys(self, gateway, own_database_url):
        made = KeyVerifier(gateway.database, gateway.vault, failure_limit=_LIMIT, feed=gateway.feed)
        gateway.feed.subscribe(made.on_changes)
        await made.start()
        yield made
        await made.aclose()

    async def test_beyond_the_limit_nothing_is_looked_up(self, keys, statements):
        for _ in range(3):
            assert "Retry-After" not in (await refused(keys, host="192.0.2.1")).headers
        before = len(statements.ids)
        limited = await asyncio.gather(*(refused(keys, host="192.0.2.1") for _ in range(20)))
        assert all(1 <= int(error.headers["Retry-After"]) <= 60 for error in limited)
        assert len(statements.ids) == before
        # The change feed is read once for all of them: the pool's check, a BEGIN, the statement.
        assert len(statements.all) - before <= 3
        assert keys.rejected == 20

    async def test_another_address_is_not_concerned(self, keys):
        for _ in range(4):
            await refused(keys, host="192.0.2.1")
        assert "Retry-After" not in (await refused(keys, host="192.0.2.2")).headers

    @pytest.mark.parametrize("other", ["2001:db8::2", "2001:db8::ffff:1:2:3"])
    async def test_a_network_of_ipv6_is_one_address(self, keys, other):
        for _ in range(3):
            await refused(keys, host="2001:db8::1")
        assert "Retry-After" in (await refused(keys, host=other)).headers

    async def test_a_valid_key_of_the_same_address_works_cold_and_cached(self, keys, gateway):
        mine = [await gateway.key() for _ in range(5)]
        await gateway.feed.catch_up()
        for _ in range(4):
            await refused(keys, host="192.0.2.1")
        for key in mine:
            assert await keys.verify(key, host="192.0.2.1")
            assert await keys.verify(key, host="192.0.2.1")

    async def test_so_does_one_that_was_created_a_moment_ago_elsewhere(self, keys, gateway):
        """No change has told of it: this worker reads the changes itself before it says no."""
        for _ in range(4):
            await refused(keys, host="192.0.2.1")
        assert await keys.verify(await gateway.key(), host="192.0.2.1")

    async def test_valid_keys_count_for_nothing_although_they_are_new(self, keys, gateway):
        for _ in range(6):
            assert await keys.verify(await gateway.key(), host="192.0.2.1")
        assert "Retry-After" not in (await refused(keys, host="192.0.2.1")).headers

    async def test_a_wrong_secret_counts_like_a_wrong_id(self, keys, gateway):
        key = await gateway.key()
        await gateway.feed.catch_up()
        assert await keys.verify(key, host="192.0.2.9")
        secret = slice(ID_SLICE.stop + 1, ID_SLICE.stop + 1 + SECRET_LENGTH)
        wrong = resigned(key[: secret.start] + mint().text.reveal()[secret])
        for _ in range(3):
            with pytest.raises(Unauthenticated):
                await keys.verify(wrong, host="192.0.2.1")
        with pytest.raises(Unauthenticated) as caught:
            await keys.verify(wrong, host="192.0.2.1")
        assert "Retry-After" in caught.value.headers
        assert await keys.verify(key, host="192.0.2.1")

    async def test_no_key_is_called_invalid_while_the_database_is_unavailable(self, keys, gateway):
        for _ in range(4):
            await refused(keys, host="192.0.2.1")
        gateway.disconnect_database()
        with pytest.raises(Unavailable):
            await keys.verify(mint().text.reveal(), host="192.0.2.1")
        gateway.reconnect_database()

    async def test_the_response_has_retry_after(self, keys, gateway):
        gateway.services = replace(gateway.services, keys=keys)
        *within, beyond = [await gateway.ask("GET", "/tools", mint().text.reveal()) for _ in range(4)]
        assert [response.status_code for response in (*within, beyond)] == [401] * 4
        assert not any("retry-after" in response.headers for response in within)
        assert 1 <= int(beyond.headers["retry-after"]) <= 60
        assert beyond.headers["www-authenticate"] == "Bearer"


async def until_complete(keys):
    async with asyncio.timeout(5):
        while not keys._ids.is_complete:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def resigned(body: str) -> str:
    """A key of this text with a right checksum."""
    return body + _checksum(body)


class TestIds:
    """Which ids are known to exist."""

    async def test_they_are_read_at_the_start_without_those_that_are_over(self, gateway):
        keys = [await gateway.key() for _ in range(3)]
        await revoked(gateway, keys[0])
        made = KeyVerifier(gateway.database, gateway.vault)
        await made.start()
        assert made.known_id_count == 2
        assert key_id_of(keys[1]) in made._ids
        assert key_id_of(keys[0]) not in made._ids
        await made.aclose()

    async def test_they_are_read_by_pages(self, gateway):
        for _ in range(5):
            await gateway.key()
        made = KeyVerifier(gateway.database, gateway.vault, id_page_size=2)
        await made.start()
        assert made.known_id_count == 5
        await made.aclose()

    async def test_they_are_read_again_when_too_much_was_missed(self, gateway):
        await gateway.keys.start()
        async with gateway.database.transaction() as session:
            minted = await create_key(session, gateway.vault, name="x", scopes=("admin",), actor="bootstrap")
        assert minted.key_id not in gateway.keys._ids
        await gateway.keys.on_changes([ChangeNotice("all")])
        assert not gateway.keys._ids.is_complete
        await until_complete(gateway.keys)
        assert minted.key_id in gateway.keys._ids

    async def test_and_until_then_nobody_is_over_a_limit(self, gateway):
        keys = KeyVerifier(gateway.database, gateway.vault, failure_limit=RateLimit.parse("1/60:1"))
        assert not keys._ids.is_complete
        for _ in range(2):
            assert await keys.verify(await gateway.key(), host="192.0.2.1")
        await keys.aclose()

    def test_a_set_of_many(self):
        ids, present, absent = (
            KeyIds(),
            [mint().key_id for _ in range(3000)],
            [mint().key_id for _ in range(3000)],
        )
        for key_id in [*present, *present]:
            ids.add(key_id)
        assert len(ids) == 3000
        assert all(key_id in ids for key_id in present)
        assert not any(key_id in ids for key_id in absent)


async def test_the_index_serves_a_look_up_by_ids_alone(gateway):
    async with gateway.database.read_session() as session:
        await session.execute(text("SET LOCAL enable_seqscan = off"))
        plan = (
            (
                await session.execute(
                    text("EXPLAIN SELECT * FROM keys WHERE key_id = ANY(CAST(:ids AS text[]))"),
                    {"ids": ["a", "b"]},
                )
            )
            .scalars()
            .all()
        )
    assert any("keys_key_id" in line for line in plan), plan


async def test_a_look_up_that_nobody_waits_for_is_not_made(gateway, statements):
    lookups = KeyLookups(gateway.database)
    waiting = [asyncio.create_task(lookups.look_up(mint().key_id, "unknown", timeout=5)) for _ in range(200)]
    await asyncio.sleep(0)
    for task in waiting[1:]:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert sum(statements.ids) <= 64
    assert lookups.waiting() == {"known": 0, "unknown": 0}
    await lookups.aclose()


@pytest.mark.parametrize("lane", ["known", "unknown"])
async def test_an_id_that_is_requested_again_is_found_for_both(gateway, statements, lane):
    lookups = KeyLookups(gateway.database)
    key = await gateway.key()
    async with gateway.database.transaction() as session:
        await session.execute(text("LOCK TABLE keys IN ACCESS EXCLUSIVE MODE"))
        # All statements of the lane are under way.
        others = []
        for number in range(2):
            others.append(asyncio.create_task(lookups.look_up(f"other-{number}", lane, timeout=60)))
            await asyncio.sleep(0.05)
        both = [asyncio.create_task(lookups.look_up(key_id_of(key), lane, timeout=60)) for _ in range(2)]
        await asyncio.sleep(0)
        lookups.promote(key_id_of(key))
        await asyncio.sleep(0)
    found = await asyncio.gather(*both, *others)
    assert [one.row and one.row.key_id for one in found[:2]] == [key_id_of(key)] * 2
    await lookups.aclose()


async def test_a_close_leaves_nobody_waiting(gateway):
    lookups = KeyLookups(gateway.database)
    waiting = [asyncio.create_task(lookups.look_up(mint().key_id, "unknown", timeout=5)) for _ in range(200)]
    await asyncio.sleep(0)
    await lookups.aclose()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError | tuple) for one in found)


def test_a_limit_forgets_the_address_that_failed_longest_ago():
    limit = KeyFailureLimiter(RateLimit.parse("1/60:1"), capacity=2)
    assert [limit.try_consume(f"192.0.2.{number}") for number in (1, 2, 3)] == [True] * 3
    assert len(limit) == 2
    assert [limit.try_consume("192.0.2.3"), limit.try_consume("192.0.2.1")] == [False, True]


def test_no_limit_limits_nothing():
    limit = KeyFailureLimiter(None)
    assert all(limit.try_consume("192.0.2.1") for _ in range(1000))
    assert limit.retry_after("192.0.2.1") == 1
