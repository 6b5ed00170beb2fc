"""Outcomes under an Idempotency-Key, on a real PostgreSQL."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest
from sqlalchemy import text

from app.calls.idempotency.store import IdempotencyLease, IdempotencyStore, IdempotentRequest, StoredOutcome
from app.calls.idempotency.table import LeaseRequest
from app.calls.log.entries import CallLogEntry
from app.core.deadlines import get_timer_queue
from app.core.errors import (
    DeadlineExceeded,
    IdempotencyMismatch,
    IdempotencyRunning,
    IdempotencyUnknown,
    Overloaded,
    Unavailable,
)
from app.core.uuid7 import uuid7
from app.security.vault import SealBroken
from app.storage.database import Database, asyncpg_dsn
from tests.harness.servers import with_database

TENANT = UUID(int=1)
_CALL = "SELECT 1 FROM idempotency_keys WHERE call_id = :id"


@pytest.fixture
async def database(database_url):
    database = Database(database_url, pool_size=8)
    yield database
    await database.aclose()


@pytest.fixture
async def store(database, vault):
    made = IdempotencyStore(database, vault)
    yield made
    await made.aclose()


def new_request(**fields) -> IdempotentRequest:
    usual = {
        "tenant": TENANT,
        "key_id": "caller",
        "text": uuid4().hex,
        "content": b"tool and arguments",
        "call_id": uuid7(),
        "seconds": 60.0,
        "safe": False,
    }
    return IdempotentRequest(**(usual | fields))


def sent_again(first: IdempotentRequest, **fields) -> IdempotentRequest:
    """The same, sent again: another call."""
    return replace(first, call_id=uuid7(), **fields)


async def run(database, statement, **parameters):
    async with database.transaction() as session:
        return (await session.execute(text(statement), parameters)).all()


async def transactions(database) -> int:
    """The commits of the test's database."""
    connection = await asyncpg.connect(asyncpg_dsn(database.dsn))
    found = await connection.fetchval(
        "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
    )
    await connection.close()
    return int(found)


def record_of(call: IdempotentRequest, outcome: str = "running") -> CallLogEntry:
    return CallLogEntry(
        id=call.call_id, at=call_time(call), tenant_id=TENANT, key_id=call.key_id, provider="p", tool="p.t",
        outcome=outcome, status=0, duration_ms=0.0, safe=False, deadline=call_time(call) + timedelta(seconds=60),
    )  # fmt: skip


def call_time(call: IdempotentRequest) -> datetime:
    """The time in a UUIDv7."""
    return datetime.fromtimestamp((call.call_id.int >> 80) / 1000, UTC)


async def recorded(database, call: IdempotentRequest) -> str | None:
    rows = await run(database, "SELECT outcome FROM calls WHERE id = :id", id=call.call_id)
    return rows[0].outcome if rows else None


@asynccontextmanager
async def unreachable(database):
    """The database ends all connections and takes no new ones."""
    [row] = await run(database, "SELECT current_database() AS name")
    url = with_database(database.dsn, "postgres")
    connection = await asyncpg.connect(asyncpg_dsn(url))
    try:
        await connection.execute(f'ALTER DATABASE "{row.name}" ALLOW_CONNECTIONS false')
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", row.name
        )
        yield
    finally:
        await connection.execute(f'ALTER DATABASE "{row.name}" ALLOW_CONNECTIONS true')
        await connection.close()


async def died(database, lease: IdempotencyLease) -> None:
    """As if the process had died and the call's time were over."""
    async with database.transaction() as session:
        statement = "UPDATE idempotency_keys SET leased_until = now() - interval '1 s' WHERE call_id = :call"
        await session.execute(text(statement), {"call": lease.request.call_id})


def lease_request_of(store, call: IdempotentRequest) -> LeaseRequest:
    return LeaseRequest(
        store._derive_row_key(call),
        store._digest_content(call),
        call.call_id,
        lease_seconds=75,
        ttl_seconds=100,
        safe=False,
    )


async def batched_behind(store, call: IdempotentRequest) -> tuple[asyncio.Future, asyncio.Task]:
    """The result of another call in the batch of this one, told first; and the beginning of this one."""
    store.table.begins.add(lease_request_of(store, new_request()))
    await asyncio.sleep(0)
    # That is under way, so the next two share a batch.
    other = store.table.begins.add(lease_request_of(store, new_request()))
    beginning = asyncio.create_task(store.begin(call))
    await asyncio.sleep(0)
    assert store.table.begins.waiting == 2
    return other, beginning


@asynccontextmanager
async def rejecting(database, key_id: str):
    """The database rejects calls of this API key; the second insert of any other waits for advisory lock 1."""
    function = (
        "CREATE FUNCTION rejected() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF NEW.key_id = '{key_id}' THEN RAISE check_violation; END IF;"
        # A sequence counts also what is rolled back.
        " IF nextval('inserts') > 1 THEN PERFORM pg_advisory_xact_lock_shared(1); END IF; RETURN NEW; END $$"
    )
    trigger = (
        "CREATE TRIGGER rejected BEFORE INSERT ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION rejected()"
    )
    async with database.transaction() as session:
        await session.execute(text("CREATE SEQUENCE inserts"))
        await session.execute(text(function))
        await session.execute(text(trigger))
    try:
        yield
    finally:
        async with database.transaction() as session:
            await session.execute(text("DROP FUNCTION rejected CASCADE"))
            await session.execute(text("DROP SEQUENCE inserts"))


async def waiting_for_lock(database, locktype: str) -> None:
    """Return once a statement in this database waits for a lock of this type."""
    statement = (
        "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = :locktype"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    async with asyncio.timeout(10):
        while not await run(database, statement, locktype=locktype):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def all_written(store) -> None:
    """Wait until no row is being read or written."""
    async with asyncio.timeout(10):
        while len(store):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class TestACallIsMadeOnce:
    async def test_the_outcome_is_given_to_all_that_come_later(self, store) -> None:
        first = new_request()
        lease = await store.begin(first)
        assert isinstance(lease, IdempotencyLease)
        await store.store(lease, b"the outcome")
        for _ in range(2):
            assert await store.begin(sent_again(first)) == StoredOutcome(first.call_id, b"the outcome")
        assert (store.begun, store.replayed) == (1, 2)

    async def test_fifty_at_once_get_one_lease(self, database, vault) -> None:
        first = new_request()
        workers = [IdempotencyStore(database, vault) for _ in range(3)]
        found = await asyncio.gather(
            *(workers[number % 3].begin(sent_again(first)) for number in range(50)), return_exceptions=True
        )
        for worker in workers:
            await worker.aclose()
        assert len([one for one in found if isinstance(one, IdempotencyLease)]) == 1
        assert len([one for one in found if isinstance(one, IdempotencyRunning)]) == 49

    async def test_while_it_runs_others_are_asked_to_wait(self, store) -> None:
        first = new_request()
        await store.begin(first)
        with pytest.raises(IdempotencyRunning) as refused:
            await store.begin(sent_again(first))
        assert refused.value.headers["Retry-After"] == "5"
        assert refused.value.extra == {"call_id": str(first.call_id)}

    async def test_another_content_is_rejected_whatever_the_state(self, store, database) -> None:
        first = new_request()
        lease = await store.begin(first)
        other = sent_again(first, content=b"other arguments")
        with pytest.raises(IdempotencyMismatch):
            await store.begin(other)
        await store.store(lease, b"x")
        with pytest.raises(IdempotencyMismatch):
            await store.begin(other)

    async def test_clients_and_tenants_have_their_own_keys(self, store) -> None:
        first = new_request()
        await store.begin(first)
        assert isinstance(await store.begin(sent_again(first, key_id="another")), IdempotencyLease)
        assert isinstance(await store.begin(sent_again(first, tenant=UUID(int=2))), IdempotencyLease)

    async def test_a_released_key_may_be_used_again(self, store) -> None:
        first = new_request()
        await store.release(await store.begin(first))
        assert isinstance(await store.begin(sent_again(first, content=b"other")), IdempotencyLease)

    async def test_a_release_that_comes_late_takes_nothing_away(self, store) -> None:
        first = new_request()
        lease = await store.begin(first)
        await store.store(lease, b"x")
        await store.release(lease)
        assert isinstance(await store.begin(sent_again(first)), StoredOutcome)


class TestManyAtOnce:
    async def test_a_call_costs_two_commits_and_many_share_them(self, store, database) -> None:
        async def call() -> None:
            await store.store(await store.begin(new_request()), b"outcome")

        async def commits() -> int:
            # A session tells its figures when it commits, at most once a second.
            await asyncio.sleep(1.2)
            await call()
            return await transactions(database)

        await call()
        before = await commits()
        for _ in range(20):
            await call()
        alone = await commits() - before
        await asyncio.gather(*(call() for _ in range(200)))
        together = await commits() - before - alone
        # A few of each figure are those of the question itself.
        assert 40 <= alone <= 48
        assert together <= 24

    async def test_under_one_key_and_other_content_only_the_first_is_made(self, store) -> None:
        first = new_request()
        found = await asyncio.gather(
            store.begin(first),
            store.begin(sent_again(first)),
            store.begin(sent_again(first, content=b"other")),
            return_exceptions=True,
        )
        assert isinstance(found[0], IdempotencyLease)
        assert [type(one) for one in found[1:]] == [IdempotencyRunning, IdempotencyMismatch]

    async def test_batches_of_several_workers_never_wait_for_each_other(self, database, vault) -> None:
        workers = [IdempotencyStore(database, vault) for _ in range(3)]
        for number in range(10):
            names = [f"shared-{number}-{index}" for index in range(40)]
            calls = [new_request(text=name) for name in names]

            async def call(worker, one) -> str:
                begun = await worker.begin(sent_again(one))
                if isinstance(begun, StoredOutcome):
                    return "replayed"
                await worker.store(begun, b"outcome")
                return "made"

            # Each worker has them in another order.
            mixed = [(worker, one) for index, worker in enumerate(workers) for one in calls[:: (-1) ** index]]
            found = await asyncio.gather(*(call(*pair) for pair in mixed), return_exceptions=True)
            assert found.count("made") == 40
            assert {type(one) for one in found} <= {str, IdempotencyRunning}
        for worker in workers:
            await worker.aclose()

    async def test_the_same_statement_twice_takes_the_key_once(self, store) -> None:
        """The connection may end when the key was taken, before anybody says so; then it is sent again."""
        first = new_request()
        lease = await store.begin(first)
        again = lease_request_of(store, first)
        assert await store.table.acquire(again, seconds=5)
        assert not await store.table.acquire(replace(again, call_id=uuid7()), seconds=5)
        await store.store(lease, b"outcome")
        assert not await store.table.acquire(again, seconds=5)

    async def test_a_key_that_was_taken_for_nobody_is_released(self, store, database) -> None:
        first = new_request()
        await store.store(await store.begin(new_request()), b"connected")
        async with database.transaction() as session:
            await session.execute(text("LOCK TABLE idempotency_keys IN ACCESS EXCLUSIVE MODE"))
            leaving = asyncio.create_task(store.begin(first))
            hurried = asyncio.create_task(store.begin(new_request(seconds=0.3)))
            await asyncio.sleep(0.2)
            leaving.cancel()
            with pytest.raises(DeadlineExceeded):
                await hurried
            # Behind a batch that takes so long, nobody with little time is let in.
            with pytest.raises(Overloaded):
                await store.begin(new_request(seconds=0.2))
        await all_written(store)
        assert isinstance(await store.begin(sent_again(first)), IdempotencyLease)

    async def test_a_cancellation_in_the_turn_of_the_result_releases_the_key(self, store, database) -> None:
        first = new_request()
        other, beginning = await batched_behind(store, first)
        other.add_done_callback(lambda _: beginning.cancel())
        with pytest.raises(asyncio.CancelledError):
            await beginning
        assert other.result() is True
        await all_written(store)
        assert await run(database, _CALL, id=first.call_id) == []
        assert isinstance(await store.begin(sent_again(first)), IdempotencyLease)

    @pytest.mark.parametrize(("seconds", "error"), [(1.9, DeadlineExceeded), (60.0, Unavailable)])
    async def test_a_timeout_in_the_turn_of_the_result_releases_the_key(
        self, store, database, seconds, error
    ) -> None:
        first = new_request(seconds=seconds)
        other, beginning = await batched_behind(store, first)

        def late(_: object) -> None:
            """A loop that is late runs its timers before the task that has its result."""
            for timer in list(get_timer_queue()._waiting):
                if timer.callback is not None:
                    timer.callback()

        other.add_done_callback(late)
        with pytest.raises(error):
            await beginning
        assert other.result() is True
        await all_written(store)
        assert await run(database, _CALL, id=first.call_id) == []
        assert isinstance(await store.begin(sent_again(first)), IdempotencyLease)

    async def test_keys_taken_one_by_one_are_released_when_the_rest_cannot_be_requested(
        self, store, database
    ) -> None:
        """A read that loses the connection comes between the statements of a batch that was rejected."""
        good, bad = new_request(key_id="a"), new_request(key_id="b")
        await store.store(await store.begin(new_request()), b"connected")
        async with rejecting(database, key_id="b"):
            holding = await asyncpg.connect(asyncpg_dsn(database.dsn))
            await holding.execute("SELECT pg_advisory_lock(1)")
            began = asyncio.gather(store.begin(good), store.begin(bad), return_exceptions=True)
            # The batch was rejected; the first key is being taken alone.
            await waiting_for_lock(database, "advisory")
            reading = asyncio.create_task(store.table.read(store._derive_row_key(new_request()), seconds=60))
            locking = await asyncpg.connect(asyncpg_dsn(database.dsn))
            locked = asyncio.create_task(
                locking.execute("BEGIN; LOCK TABLE idempotency_keys IN ACCESS EXCLUSIVE MODE")
            )
            await waiting_for_lock(database, "relation")
            await holding.execute("SELECT pg_advisory_unlock(1)")
            await locked
            async with unreachable(database):
                assert {type(one) for one in await began} == {Unavailable}
                with pytest.raises(Unavailable):
                    await reading
            locking.terminate()
            holding.terminate()
            async with asyncio.timeout(10):
                while await run(database, _CALL, id=good.call_id):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)


class TestTheRecordOfTheCall:
    async def test_it_is_stored_with_the_key_only(self, store, database) -> None:
        first = new_request()
        lease = await store.begin(first, record=record_of(first))
        assert await recorded(database, first) == "running"
        other = sent_again(first)
        with pytest.raises(IdempotencyRunning):
            await store.begin(other, record=record_of(other))
        assert await recorded(database, other) is None
        assert await store.store(lease, b"outcome", record=record_of(first, outcome="ok"))
        assert await recorded(database, first) == "ok"
        assert isinstance(await store.begin(other, record=record_of(other)), StoredOutcome)
        assert await recorded(database, other) is None

    async def test_it_ends_with_the_key_that_is_released(self, store, database) -> None:
        first = new_request()
        lease = await store.begin(first, record=record_of(first))
        assert await store.release(lease, record=record_of(first, outcome="origin-busy"))
        assert await recorded(database, first) == "origin-busy"
        assert isinstance(await store.begin(sent_again(first)), IdempotencyLease)

    async def test_one_that_is_rejected_fails_its_own_call_only(self, store, database) -> None:
        good, bad = new_request(), new_request()
        record = replace(record_of(bad), status=1 << 40)
        found = await asyncio.gather(
            store.begin(good, record=record_of(good)),
            store.begin(bad, record=record),
            return_exceptions=True,
        )
        assert isinstance(found[0], IdempotencyLease)
        assert isinstance(found[1], Unavailable)
        assert await recorded(database, good) == "running"
        # Nothing was sent, and the key is free.
        assert isinstance(await store.begin(sent_again(bad)), IdempotencyLease)


class TestAProcessThatDies:
    async def test_nobody_calls_an_unsafe_tool_again(self, store, database) -> None:
        first = new_request()
        await died(database, await store.begin(first))
        for _ in range(2):
            with pytest.raises(IdempotencyUnknown) as refused:
                await store.begin(sent_again(first))
            assert refused.value.extra == {"call_id": str(first.call_id)}

    async def test_a_safe_one_is_called_again_by_one(self, store, database) -> None:
        first = new_request(safe=True)
        await died(database, await store.begin(first))
        found = await asyncio.gather(
            *(store.begin(sent_again(first)) for _ in range(10)), return_exceptions=True
        )
        assert len([one for one in found if isinstance(one, IdempotencyLease)]) == 1

    async def test_other_arguments_do_not_take_over(self, store, database) -> None:
        first = new_request(safe=True)
        await died(database, await store.begin(first))
        with pytest.raises(IdempotencyMismatch):
            await store.begin(sent_again(first, content=b"other"))

    async def test_an_outcome_that_comes_late_counts_unless_another_call_was_made(
        self, store, database
    ) -> None:
        first = new_request()
        lease = await store.begin(first)
        await died(database, lease)
        await store.store(lease, b"late")
        assert await store.begin(sent_again(first)) == StoredOutcome(first.call_id, b"late")
        safe = new_request(safe=True)
        old = await store.begin(safe)
        await died(database, old)
        second = sent_again(safe)
        lease = await store.begin(second)
        await store.store(old, b"of the first")
        await store.store(lease, b"of the second")
        assert await store.begin(sent_again(safe)) == StoredOutcome(second.call_id, b"of the second")


class TestWhatIsStored:
    async def test_nothing_that_can_be_read(self, store, database) -> None:
        first = new_request(text="the-callers-own-key", content=b'{"secret": "argument"}')
        await store.store(await store.begin(first), b'{"secret": "answer"}')
        [row] = await run(
            database,
            "SELECT kept::text AS all FROM idempotency_keys kept WHERE call_id = :id",
            id=first.call_id,
        )
        for word in (b"the-callers-own-key", b"argument", b"answer"):
            assert word.decode() not in row.all
            assert word.hex() not in row.all

    async def test_an_outcome_opens_in_its_own_row_only(self, store, database) -> None:
        mine, theirs = new_request(key_id="a"), new_request(key_id="b")
        for one in (mine, theirs):
            await store.store(await store.begin(one), b"outcome of " + one.key_id.encode())
        async with database.transaction() as session:
            await session.execute(
                text(
                    "UPDATE idempotency_keys SET sealed = (SELECT sealed FROM idempotency_keys WHERE call_id = :a)"
                    " WHERE call_id = :b"
                ),
                {"a": theirs.call_id, "b": mine.call_id},
            )
        with pytest.raises(SealBroken):
            await store.begin(sent_again(mine))

    async def test_what_has_expired_is_free_and_is_deleted(self, store, database) -> None:
        first = new_request()
        await store.store(await store.begin(first), b"x")
        async with database.transaction() as session:
            await session.execute(text("UPDATE idempotency_keys SET expires_at = now() - interval '1 s'"))
        assert isinstance(await store.begin(sent_again(first, content=b"other")), IdempotencyLease)
        await store.sweep()
        assert len(await run(database, "SELECT 1 FROM idempotency_keys")) == 1

    async def test_it_is_kept_for_the_time_of_the_setting(self, database, vault) -> None:
        store = IdempotencyStore(database, vault, retention_seconds=100)
        await store.begin(first := new_request())
        await store.begin(longer := new_request(seconds=300))
        await store.aclose()
        query = "SELECT extract(epoch FROM expires_at - created_at)::int AS s FROM idempotency_keys WHERE call_id = :id"
        assert [row.s for row in await run(database, query, id=first.call_id)] == [100]
        # Never shorter than the call itself may take.
        assert [row.s for row in await run(database, query, id=longer.call_id)] == [315]


class TestWithoutPostgres:
    async def test_nothing_begins(self, vault) -> None:
        store = IdempotencyStore(Database("postgresql://postgres@127.0.0.1:1/none"), vault)
        with pytest.raises(Unavailable):
            await store.begin(new_request())
        assert len(store) == 0
        await store.aclose()

    async def test_an_outcome_is_stored_as_soon_as_it_is_back(self, store, database) -> None:
        first = new_request()
        lease = await store.begin(first)
        async with unreachable(database):
            assert not await store.store(lease, b"outcome")
            assert len(store) == 1
        await store._watched.aclose(timeout=15)
        assert await store.begin(sent_again(first)) == StoredOutcome(first.call_id, b"outcome")

    async def test_the_end_waits_for_outcomes(self, database, vault) -> None:
        store = IdempotencyStore(database, vault)
        lease = await store.begin(first := new_request())

        async def slow_call() -> None:
            await asyncio.sleep(0.1)
            await store.store(lease, b"outcome")

        store.watch(asyncio.create_task(slow_call()))
        await store.aclose()
        other = IdempotencyStore(database, vault)
        assert isinstance(await other.begin(sent_again(first)), StoredOutcome)
        await other.aclose()
