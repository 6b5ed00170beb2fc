"""Group commits: shared by what comes at the same time, bounded, and never for somebody who has gone."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from app.core.errors import Overloaded
from app.storage.database import asyncpg_dsn
from app.storage.database.group_commit import CommitConnection, CommitQueue, DatabaseUnavailable


class Site:
    """What commits batches: it takes as long as it is held, and remembers them."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.open = asyncio.Event()
        self.error: Exception | None = None

    async def commit(self, batch: list[int]) -> list[bool]:
        self.batches.append(batch)
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return [item >= 0 for item in batch]


@pytest.fixture
def site() -> Site:
    return Site()


class TestBatches:
    async def test_what_comes_during_a_commit_shares_the_next_one(self, site: Site) -> None:
        queue = CommitQueue(site.commit, failed=False)
        futures = [queue.add(0)]
        await asyncio.sleep(0)
        futures += [queue.add(number) for number in range(1, 50)]
        assert (len(queue), queue.waiting) == (50, 49)
        site.open.set()
        assert all(await asyncio.gather(*futures))
        assert site.batches == [[0], list(range(1, 50))]
        await queue.drain()
        assert len(queue) == 0

    async def test_a_batch_is_bounded_in_items_and_bytes(self, site: Site) -> None:
        site.open.set()
        queue = CommitQueue(site.commit, failed=False, max_batch=3, max_bytes=100, size_of=lambda item: item)
        futures = [queue.add(item) for item in (1, 2, 3, 4, 99, 1, 500, 1)]
        await asyncio.gather(*futures)
        assert site.batches == [[1, 2, 3], [4], [99, 1], [500], [1]]

    async def test_each_item_gets_its_own_result_and_a_failure_is_everybodys(self, site: Site) -> None:
        site.open.set()
        queue = CommitQueue(site.commit, failed=False)
        assert await asyncio.gather(queue.add(1), queue.add(-1), queue.add(2)) == [True, False, True]
        site.error = DatabaseUnavailable(maybe_committed=True)
        assert await asyncio.gather(queue.add(1), queue.add(2)) == [False, False]
        site.error = None
        assert await queue.add(1) is True


class TestTheGate:
    async def test_so_many_wait_and_no_more(self, site: Site) -> None:
        queue = CommitQueue(site.commit, failed=False, max_waiting=5)
        futures = [queue.add(0, max_wait=60)]
        await asyncio.sleep(0)
        futures += [queue.add(number, max_wait=60) for number in range(1, 6)]
        with pytest.raises(Overloaded) as rejected:
            queue.add(6, max_wait=60)
        assert (rejected.value.status, int(rejected.value.headers["Retry-After"])) == (503, 1)
        assert queue.rejected == 1
        # The end of a call that was made has no choice.
        futures.append(queue.add(7))
        site.open.set()
        assert all(await asyncio.gather(*futures))

    async def test_who_would_wait_too_long_is_rejected_at_once(self, site: Site) -> None:
        queue = CommitQueue(site.commit, failed=False)
        first = queue.add(0, max_wait=60)
        await asyncio.sleep(0.3)
        with pytest.raises(Overloaded):
            queue.add(1, max_wait=0.1)
        second = queue.add(2, max_wait=60)
        site.open.set()
        assert await first
        assert await second
        # Whoever finds nobody there is let in, so that a queue that was slow once is tried again.
        await queue.drain()
        assert await queue.add(3, max_wait=0.001)

    async def test_slow_commits_still_carry_many(self, site: Site) -> None:
        """A queue that let one item in at a time would never be quicker."""
        queue = CommitQueue(site.commit, failed=False, expected_seconds=1.0)
        site.open.set()
        first = queue.add(0, max_wait=1.5)
        await asyncio.sleep(0)
        site.open.clear()
        second = queue.add(1, max_wait=1.5)
        while len(site.batches) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            queue.add(2, max_wait=1.5)
        await asyncio.sleep(0.7)
        more = [queue.add(number, max_wait=1.5) for number in range(3, 100)]
        site.open.set()
        assert all(await asyncio.gather(first, second, *more))
        assert site.batches[2] == list(range(3, 100))

    async def test_who_has_stopped_waiting_is_not_sent(self, site: Site) -> None:
        told: list[tuple[int, bool]] = []
        queue = CommitQueue(
            site.commit, failed=False, on_abandoned=lambda item, result: told.append((item, result))
        )
        sent = queue.add(0)
        await asyncio.sleep(0)
        gone, stays = queue.add(1), queue.add(2)
        gone.cancel()
        sent.cancel()
        site.open.set()
        assert await stays
        assert site.batches == [[0], [2]]
        assert told == [(0, True)]

    async def test_who_leaves_just_after_the_commit_is_told_as_one_who_left_before(self, site: Site) -> None:
        told: list[tuple[int, bool]] = []
        queue = CommitQueue(
            site.commit, failed=False, on_abandoned=lambda item, result: told.append((item, result))
        )
        before, after = queue.add(0), queue.add(1)
        await asyncio.sleep(0)
        queue.withdraw(0, before)
        queue.withdraw(0, before)
        site.open.set()
        await after
        queue.withdraw(1, after)
        assert told == [(0, True), (1, True)]


class TestTheConnection:
    @pytest.fixture
    async def connection(self, database_url: str) -> AsyncIterator[CommitConnection]:
        made = CommitConnection(database_url, statement_timeout=5, purpose="a test")
        yield made
        await made.aclose()

    async def test_one_that_ended_is_replaced_without_a_word(
        self, connection: CommitConnection, database_url: str
    ) -> None:
        [(pid,)] = await connection.run("SELECT pg_backend_pid()")
        other = await asyncpg.connect(asyncpg_dsn(database_url))
        await other.execute("SELECT pg_terminate_backend($1)", pid)
        await other.close()
        [(next_pid,)] = await connection.run("SELECT pg_backend_pid()")
        assert next_pid != pid

    async def test_statements_wait_for_each_other(self, connection: CommitConnection) -> None:
        found = await asyncio.gather(*(connection.run("SELECT $1::int", number) for number in range(20)))
        assert [rows[0][0] for rows in found] == list(range(20))

    async def test_a_rejected_statement_is_the_clients_error(self, connection: CommitConnection) -> None:
        with pytest.raises(asyncpg.DivisionByZeroError):
            await connection.run("SELECT 1 / 0")
        assert await connection.run("SELECT 1")

    async def test_nothing_is_sent_while_nobody_is_there(self) -> None:
        away = CommitConnection(
            "postgresql://postgres@127.0.0.1:1/none", statement_timeout=5, purpose="a test"
        )
        for _ in range(2):
            with pytest.raises(DatabaseUnavailable) as caught:
                await away.run("SELECT 1")
            assert not caught.value.maybe_committed
        await away.aclose()

    async def test_a_silent_server_is_given_up_after_the_time_limit(self, database_url: str) -> None:
        short = CommitConnection(database_url, statement_timeout=0.5, purpose="a test")
        with pytest.raises(DatabaseUnavailable) as caught:
            await short.run("SELECT pg_sleep(30)")
        assert caught.value.maybe_committed
        async with asyncio.timeout(10):
            while True:
                try:
                    assert await short.run("SELECT 1")
                    break
                except DatabaseUnavailable:
                    await asyncio.sleep(0.05)
        await short.aclose()
