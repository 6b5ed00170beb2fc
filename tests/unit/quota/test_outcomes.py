"""Outcomes under an Idempotency-Key, on a real PostgreSQL."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest
from sqlalchemy import text

from app.call_log.entries import CallEntry
from app.calls.idempotency_store import Asked, Kept, Lease, Outcomes
from app.calls.outcome_store import Beginning
from app.database import Database, asyncpg_dsn
from app.deadlines import timers
from app.errors import (
    IdempotencyMismatch,
    IdempotencyRunning,
    IdempotencyUnknown,
    Overloaded,
    TimeOver,
    Unavailable,
)
from app.models import new_id
from app.security.vault import SealBroken
from tests.harness.servers import with_database

TENANT = UUID(int=1)
_CALL = "SELECT 1 FROM idempotency_keys WHERE call_id = :id"


@pytest.fixture
async def database(database_url):
    database = Database(database_url, pool_size=8)
    yield database
    await database.aclose()


@pytest.fixture
async def outcomes(database, vault):
    made = Outcomes(database, vault)
    yield made
    await made.aclose()


def asked(**fields) -> Asked:
    usual = {
        "tenant": TENANT,
        "key_id": "caller",
        "text": uuid4().hex,
        "content": b"tool and arguments",
        "call_id": new_id(),
        "seconds": 60.0,
        "safe": False,
    }
    return Asked(**(usual | fields))


def once_more(first: Asked, **fields) -> Asked:
    """The same, sent again: another call."""
    return replace(first, call_id=new_id(), **fields)


async def run(database, statement, **parameters):
    async with database.writing() as session:
        return (await session.execute(text(statement), parameters)).all()


async def transactions(database) -> int:
    """The commits of the test's database."""
    connection = await asyncpg.connect(asyncpg_dsn(database.dsn))
    found = await connection.fetchval(
        "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
    )
    await connection.close()
    return int(found)


def record_of(call: Asked, outcome: str = "running") -> CallEntry:
    return CallEntry(
        id=call.call_id, at=call_time(call), tenant_id=TENANT, key_id=call.key_id, provider="p", tool="p.t",
        outcome=outcome, status=0, duration_ms=0.0, safe=False, deadline=call_time(call) + timedelta(seconds=60),
    )  # fmt: skip


def call_time(call: Asked) -> datetime:
    """The time in a UUIDv7."""
    return datetime.fromtimestamp((call.call_id.int >> 80) / 1000, UTC)


async def recorded(database, call: Asked) -> str | None:
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


async def died(database, lease: Lease) -> None:
    """As if the process had died and the call's time were over."""
    async with database.writing() as session:
        statement = "UPDATE idempotency_keys SET leased_until = now() - interval '1 s' WHERE call_id = :call"
        await session.execute(text(statement), {"call": lease.asked.call_id})


def beginning_of(outcomes, call: Asked) -> Beginning:
    return Beginning(
        outcomes._place(call), outcomes._fingerprint(call), call.call_id, lease=75, life=100, safe=False
    )


async def told_before(outcomes, call: Asked) -> tuple[asyncio.Future, asyncio.Task]:
    """The result of another call in the batch of this one, told first; and the beginning of this one."""
    outcomes.store.begins.add(beginning_of(outcomes, asked()))
    await asyncio.sleep(0)
    # That is under way, so the next two share a batch.
    other = outcomes.store.begins.add(beginning_of(outcomes, asked()))
    beginning = asyncio.create_task(outcomes.begin(call))
    await asyncio.sleep(0)
    assert outcomes.store.begins.waiting == 2
    return other, beginning


@asynccontextmanager
async def rejecting(database, key_id: str):
    """The database rejects calls of this API key, and takes 0.8 s for each other."""
    function = (
        "CREATE FUNCTION rejected() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF NEW.key_id = '{key_id}' THEN RAISE check_violation; END IF; PERFORM pg_sleep(0.8); RETURN NEW; END $$"
    )
    trigger = (
        "CREATE TRIGGER rejected BEFORE INSERT ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION rejected()"
    )
    async with database.writing() as session:
        await session.execute(text(function))
        await session.execute(text(trigger))
    try:
        yield
    finally:
        async with database.writing() as session:
            await session.execute(text("DROP FUNCTION rejected CASCADE"))


async def all_written(outcomes) -> None:
    """Wait until no row is being read or written."""
    async with asyncio.timeout(10):
        while len(outcomes):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class TestACallIsMadeOnce:
    async def test_the_outcome_is_given_to_all_that_come_later(self, outcomes) -> None:
        first = asked()
        lease = await outcomes.begin(first)
        assert isinstance(lease, Lease)
        await outcomes.keep(lease, b"the outcome")
        for _ in range(2):
            assert await outcomes.begin(once_more(first)) == Kept(first.call_id, b"the outcome")
        assert (outcomes.begun, outcomes.replayed) == (1, 2)

    async def test_fifty_at_once_get_one_lease(self, database, vault) -> None:
        first = asked()
        workers = [Outcomes(database, vault) for _ in range(3)]
        found = await asyncio.gather(
            *(workers[number % 3].begin(once_more(first)) for number in range(50)), return_exceptions=True
        )
        for worker in workers:
            await worker.aclose()
        assert len([one for one in found if isinstance(one, Lease)]) == 1
        assert len([one for one in found if isinstance(one, IdempotencyRunning)]) == 49

    async def test_while_it_runs_others_are_told_to_wait(self, outcomes) -> None:
        first = asked()
        await outcomes.begin(first)
        with pytest.raises(IdempotencyRunning) as refused:
            await outcomes.begin(once_more(first))
        assert refused.value.headers["Retry-After"] == "5"
        assert refused.value.extra == {"call_id": str(first.call_id)}

    async def test_another_content_is_refused_whatever_the_state(self, outcomes, database) -> None:
        first = asked()
        lease = await outcomes.begin(first)
        other = once_more(first, content=b"other arguments")
        with pytest.raises(IdempotencyMismatch):
            await outcomes.begin(other)
        await outcomes.keep(lease, b"x")
        with pytest.raises(IdempotencyMismatch):
            await outcomes.begin(other)

    async def test_callers_and_tenants_have_their_own_keys(self, outcomes) -> None:
        first = asked()
        await outcomes.begin(first)
        assert isinstance(await outcomes.begin(once_more(first, key_id="another")), Lease)
        assert isinstance(await outcomes.begin(once_more(first, tenant=UUID(int=2))), Lease)

    async def test_a_released_key_may_be_used_again(self, outcomes) -> None:
        first = asked()
        await outcomes.release(await outcomes.begin(first))
        assert isinstance(await outcomes.begin(once_more(first, content=b"other")), Lease)

    async def test_a_release_that_comes_late_takes_nothing_away(self, outcomes) -> None:
        first = asked()
        lease = await outcomes.begin(first)
        await outcomes.keep(lease, b"x")
        await outcomes.release(lease)
        assert isinstance(await outcomes.begin(once_more(first)), Kept)


class TestManyAtOnce:
    async def test_a_call_costs_two_commits_and_many_share_them(self, outcomes, database) -> None:
        async def call() -> None:
            await outcomes.keep(await outcomes.begin(asked()), b"outcome")

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

    async def test_under_one_key_and_other_content_only_the_first_is_made(self, outcomes) -> None:
        first = asked()
        found = await asyncio.gather(
            outcomes.begin(first),
            outcomes.begin(once_more(first)),
            outcomes.begin(once_more(first, content=b"other")),
            return_exceptions=True,
        )
        assert isinstance(found[0], Lease)
        assert [type(one) for one in found[1:]] == [IdempotencyRunning, IdempotencyMismatch]

    async def test_batches_of_several_workers_never_wait_for_each_other(self, database, vault) -> None:
        workers = [Outcomes(database, vault) for _ in range(3)]
        for number in range(10):
            names = [f"shared-{number}-{index}" for index in range(40)]
            calls = [asked(text=name) for name in names]

            async def call(worker, one) -> str:
                begun = await worker.begin(once_more(one))
                if isinstance(begun, Kept):
                    return "replayed"
                await worker.keep(begun, b"outcome")
                return "made"

            # Each worker has them in another order.
            mixed = [(worker, one) for index, worker in enumerate(workers) for one in calls[:: (-1) ** index]]
            found = await asyncio.gather(*(call(*pair) for pair in mixed), return_exceptions=True)
            assert found.count("made") == 40
            assert {type(one) for one in found} <= {str, IdempotencyRunning}
        for worker in workers:
            await worker.aclose()

    async def test_the_same_statement_twice_takes_the_key_once(self, outcomes) -> None:
        """The connection may end when the key was taken, before anybody says so; then it is sent again."""
        first = asked()
        lease = await outcomes.begin(first)
        again = beginning_of(outcomes, first)
        assert await outcomes.store.take(again, seconds=5)
        assert not await outcomes.store.take(replace(again, call_id=new_id()), seconds=5)
        await outcomes.keep(lease, b"outcome")
        assert not await outcomes.store.take(again, seconds=5)

    async def test_a_key_that_was_taken_for_nobody_is_released(self, outcomes, database) -> None:
        first = asked()
        await outcomes.keep(await outcomes.begin(asked()), b"connected")
        async with database.writing() as session:
            await session.execute(text("LOCK TABLE idempotency_keys IN ACCESS EXCLUSIVE MODE"))
            leaving = asyncio.create_task(outcomes.begin(first))
            hurried = asyncio.create_task(outcomes.begin(asked(seconds=0.3)))
            await asyncio.sleep(0.2)
            leaving.cancel()
            with pytest.raises(TimeOver):
                await hurried
            # Behind a batch that takes so long, nobody with little time is let in.
            with pytest.raises(Overloaded):
                await outcomes.begin(asked(seconds=0.2))
        await all_written(outcomes)
        assert isinstance(await outcomes.begin(once_more(first)), Lease)

    async def test_a_cancellation_in_the_turn_of_the_result_releases_the_key(
        self, outcomes, database
    ) -> None:
        first = asked()
        other, beginning = await told_before(outcomes, first)
        other.add_done_callback(lambda _: beginning.cancel())
        with pytest.raises(asyncio.CancelledError):
            await beginning
        assert other.result() is True
        await all_written(outcomes)
        assert await run(database, _CALL, id=first.call_id) == []
        assert isinstance(await outcomes.begin(once_more(first)), Lease)

    @pytest.mark.parametrize(("seconds", "error"), [(1.9, TimeOver), (60.0, Unavailable)])
    async def test_a_timeout_in_the_turn_of_the_result_releases_the_key(
        self, outcomes, database, seconds, error
    ) -> None:
        first = asked(seconds=seconds)
        other, beginning = await told_before(outcomes, first)

        def late(_: object) -> None:
            """A loop that is late runs its timers before the task that has its result."""
            for timer in list(timers()._waiting):
                if timer.call is not None:
                    timer.call()

        other.add_done_callback(late)
        with pytest.raises(error):
            await beginning
        assert other.result() is True
        await all_written(outcomes)
        assert await run(database, _CALL, id=first.call_id) == []
        assert isinstance(await outcomes.begin(once_more(first)), Lease)

    async def test_keys_taken_one_by_one_are_released_when_the_rest_cannot_be_asked_for(
        self, outcomes, database
    ) -> None:
        """A read that loses the connection comes between the statements of a batch that was rejected."""
        good, bad = asked(key_id="a"), asked(key_id="b")
        await outcomes.keep(await outcomes.begin(asked()), b"connected")
        async with rejecting(database, key_id="b"):
            began = asyncio.gather(outcomes.begin(good), outcomes.begin(bad), return_exceptions=True)
            await asyncio.sleep(1.2)
            # The batch was rejected; the first key is being taken alone.
            locking = await asyncpg.connect(asyncpg_dsn(database.dsn))
            reading = asyncio.create_task(outcomes.store.read(outcomes._place(asked()), seconds=60))
            await locking.execute("BEGIN; LOCK TABLE idempotency_keys IN ACCESS EXCLUSIVE MODE")
            async with unreachable(database):
                assert {type(one) for one in await began} == {Unavailable}
                with pytest.raises(Unavailable):
                    await reading
            locking.terminate()
            async with asyncio.timeout(10):
                while await run(database, _CALL, id=good.call_id):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)


class TestTheRecordOfTheCall:
    async def test_it_is_stored_with_the_key_only(self, outcomes, database) -> None:
        first = asked()
        lease = await outcomes.begin(first, record=record_of(first))
        assert await recorded(database, first) == "running"
        other = once_more(first)
        with pytest.raises(IdempotencyRunning):
            await outcomes.begin(other, record=record_of(other))
        assert await recorded(database, other) is None
        assert await outcomes.keep(lease, b"outcome", record=record_of(first, outcome="ok"))
        assert await recorded(database, first) == "ok"
        assert isinstance(await outcomes.begin(other, record=record_of(other)), Kept)
        assert await recorded(database, other) is None

    async def test_it_ends_with_the_key_that_is_released(self, outcomes, database) -> None:
        first = asked()
        lease = await outcomes.begin(first, record=record_of(first))
        assert await outcomes.release(lease, record=record_of(first, outcome="origin-busy"))
        assert await recorded(database, first) == "origin-busy"
        assert isinstance(await outcomes.begin(once_more(first)), Lease)

    async def test_one_that_is_rejected_fails_its_own_call_only(self, outcomes, database) -> None:
        good, bad = asked(), asked()
        record = replace(record_of(bad), status=1 << 40)
        found = await asyncio.gather(
            outcomes.begin(good, record=record_of(good)),
            outcomes.begin(bad, record=record),
            return_exceptions=True,
        )
        assert isinstance(found[0], Lease)
        assert isinstance(found[1], Unavailable)
        assert await recorded(database, good) == "running"
        # Nothing was sent, and the key is free.
        assert isinstance(await outcomes.begin(once_more(bad)), Lease)


class TestAProcessThatDies:
    async def test_nobody_calls_an_unsafe_tool_again(self, outcomes, database) -> None:
        first = asked()
        await died(database, await outcomes.begin(first))
        for _ in range(2):
            with pytest.raises(IdempotencyUnknown) as refused:
                await outcomes.begin(once_more(first))
            assert refused.value.extra == {"call_id": str(first.call_id)}

    async def test_a_safe_one_is_called_again_by_one(self, outcomes, database) -> None:
        first = asked(safe=True)
        await died(database, await outcomes.begin(first))
        found = await asyncio.gather(
            *(outcomes.begin(once_more(first)) for _ in range(10)), return_exceptions=True
        )
        assert len([one for one in found if isinstance(one, Lease)]) == 1

    async def test_other_arguments_do_not_take_over(self, outcomes, database) -> None:
        first = asked(safe=True)
        await died(database, await outcomes.begin(first))
        with pytest.raises(IdempotencyMismatch):
            await outcomes.begin(once_more(first, content=b"other"))

    async def test_an_outcome_that_comes_late_counts_unless_another_call_was_made(
        self, outcomes, database
    ) -> None:
        first = asked()
        lease = await outcomes.begin(first)
        await died(database, lease)
        await outcomes.keep(lease, b"late")
        assert await outcomes.begin(once_more(first)) == Kept(first.call_id, b"late")
        safe = asked(safe=True)
        old = await outcomes.begin(safe)
        await died(database, old)
        second = once_more(safe)
        lease = await outcomes.begin(second)
        await outcomes.keep(old, b"of the first")
        await outcomes.keep(lease, b"of the second")
        assert await outcomes.begin(once_more(safe)) == Kept(second.call_id, b"of the second")


class TestWhatIsStored:
    async def test_nothing_that_can_be_read(self, outcomes, database) -> None:
        first = asked(text="the-callers-own-key", content=b'{"secret": "argument"}')
        await outcomes.keep(await outcomes.begin(first), b'{"secret": "answer"}')
        [row] = await run(
            database,
            "SELECT kept::text AS all FROM idempotency_keys kept WHERE call_id = :id",
            id=first.call_id,
        )
        for word in (b"the-callers-own-key", b"argument", b"answer"):
            assert word.decode() not in row.all
            assert word.hex() not in row.all

    async def test_an_outcome_opens_in_its_own_row_only(self, outcomes, database) -> None:
        mine, theirs = asked(key_id="a"), asked(key_id="b")
        for one in (mine, theirs):
            await outcomes.keep(await outcomes.begin(one), b"outcome of " + one.key_id.encode())
        async with database.writing() as session:
            await session.execute(
                text(
                    "UPDATE idempotency_keys SET sealed = (SELECT sealed FROM idempotency_keys WHERE call_id = :a)"
                    " WHERE call_id = :b"
                ),
                {"a": theirs.call_id, "b": mine.call_id},
            )
        with pytest.raises(SealBroken):
            await outcomes.begin(once_more(mine))

    async def test_what_has_expired_is_free_and_is_deleted(self, outcomes, database) -> None:
        first = asked()
        await outcomes.keep(await outcomes.begin(first), b"x")
        async with database.writing() as session:
            await session.execute(text("UPDATE idempotency_keys SET expires_at = now() - interval '1 s'"))
        assert isinstance(await outcomes.begin(once_more(first, content=b"other")), Lease)
        await outcomes.sweep()
        assert len(await run(database, "SELECT 1 FROM idempotency_keys")) == 1

    async def test_it_is_kept_for_the_time_of_the_setting(self, database, vault) -> None:
        outcomes = Outcomes(database, vault, seconds=100)
        await outcomes.begin(first := asked())
        await outcomes.begin(longer := asked(seconds=300))
        await outcomes.aclose()
        query = "SELECT extract(epoch FROM expires_at - created_at)::int AS s FROM idempotency_keys WHERE call_id = :id"
        assert [row.s for row in await run(database, query, id=first.call_id)] == [100]
        # Never shorter than the call itself may take.
        assert [row.s for row in await run(database, query, id=longer.call_id)] == [315]


class TestWithoutPostgres:
    async def test_nothing_begins(self, vault) -> None:
        outcomes = Outcomes(Database("postgresql://postgres@127.0.0.1:1/none"), vault)
        with pytest.raises(Unavailable):
            await outcomes.begin(asked())
        assert len(outcomes) == 0
        await outcomes.aclose()

    async def test_an_outcome_is_stored_as_soon_as_it_is_back(self, outcomes, database) -> None:
        first = asked()
        lease = await outcomes.begin(first)
        async with unreachable(database):
            assert not await outcomes.keep(lease, b"outcome")
            assert len(outcomes) == 1
        await outcomes._watched.aclose(seconds=15)
        assert await outcomes.begin(once_more(first)) == Kept(first.call_id, b"outcome")

    async def test_the_end_waits_for_outcomes(self, database, vault) -> None:
        outcomes = Outcomes(database, vault)
        lease = await outcomes.begin(first := asked())

        async def slow_call() -> None:
            await asyncio.sleep(0.1)
            await outcomes.keep(lease, b"outcome")

        outcomes.watch(asyncio.create_task(slow_call()))
        await outcomes.aclose()
        other = Outcomes(database, vault)
        assert isinstance(await other.begin(once_more(first)), Kept)
        await other.aclose()
