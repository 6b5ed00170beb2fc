"""Outcomes under an Idempotency-Key, on a real PostgreSQL."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID, uuid4

import asyncpg
import pytest
from sqlalchemy import text

from app.database import Database, asyncpg_dsn
from app.errors import IdempotencyMismatch, IdempotencyRunning, IdempotencyUnknown, Unavailable
from app.models import new_id
from app.quota.outcomes import Asked, Kept, Lease, Outcomes
from app.security.vault import SealBroken
from tests.harness.servers import with_database

TENANT = UUID(int=1)


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
