"""A PostgreSQL that is away is told within a second, however it is away; one that is busy is waited for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.core.errors import Unavailable
from app.storage.database import Database, DatabasePoolExhausted
from tests.faults.proxy import FaultProxy, Toxic, proxied
from tests.harness.servers import Pair


def address_of(dsn: str) -> tuple[tuple[str, int] | str, Callable[[str], str]]:
    """Where the server of a DSN listens, and the same DSN for another address."""
    parts = urlsplit(dsn)
    query = parse_qs(parts.query)
    if "host" in query:
        port = query.get("port", ["5432"])[0]
        target: tuple[str, int] | str = f"{query['host'][0]}/.s.PGSQL.{port}"
    else:
        target = (parts.hostname or "127.0.0.1", parts.port or 5432)
    user = parts.netloc.rpartition("@")[0] or "postgres"
    return target, lambda address: f"postgresql://{user}@{address}{parts.path}"


@pytest.fixture
async def link(servers: Pair) -> AsyncIterator[FaultProxy]:
    """A way to the server that can be broken."""
    async with proxied(address_of(servers.database_url)[0]) as proxy:
        yield proxy


@pytest.fixture
async def database(link: FaultProxy, servers: Pair) -> AsyncIterator[Database]:
    running = Database(address_of(servers.database_url)[1](link.address), pool_size=2)
    assert await one(running) == 1
    yield running
    await link.heal()
    await running.aclose()


async def one(database: Database, statement: str = "SELECT 1") -> int:
    async with database.read_session() as session:
        return int((await session.execute(text(statement))).scalar_one())


async def test_all_waiting_requests_fail_when_the_server_does_not_respond(database, link):
    link.poison(Toxic("timeout", "up"))
    # The limit is a second; the pool alone would wait for 30.
    async with asyncio.timeout(15):
        found = await asyncio.gather(*(one(database) for _ in range(8)), return_exceptions=True)
    assert [type(error) for error in found] == [Unavailable] * 8
    link.poison(None)
    await asyncio.sleep(0.6)
    assert await one(database) == 1


async def test_a_server_that_refuses_connections_is_unavailable_until_it_accepts_them(database, link):
    await link.cut()
    for _ in range(3):
        with pytest.raises(Unavailable):
            await one(database)
    await link.heal()
    assert await one(database) == 1


async def test_connections_that_were_reset_are_replaced_unseen(database, link):
    for _ in range(3):
        link.reset()
        assert await asyncio.gather(one(database), one(database)) == [1, 1]


async def test_a_busy_pool_is_no_absence(database):
    async def long() -> int:
        return await one(database, "SELECT 1 FROM pg_sleep(1.5)")

    assert await asyncio.gather(*(long() for _ in range(2)), *(one(database) for _ in range(4))) == [1] * 6


async def test_a_timeout_of_a_busy_pool_does_not_mean_unavailable(servers):
    database = Database(servers.database_url, pool_size=2, pool_timeout=0.5)
    async with database.read_session(), database.read_session():
        with pytest.raises(DatabasePoolExhausted) as caught:
            await one(database)
        assert caught.value.headers["Retry-After"] == "1"
        assert await database.responds()
    assert await one(database) == 1
    await database.aclose()


async def test_a_server_that_has_too_many_clients_is_there(servers):
    admin = Database(servers.database_url, pool_size=1)
    async with admin.autocommit_session() as session:
        await session.execute(text("CREATE ROLE crowded LOGIN CONNECTION LIMIT 0"))
    target, dsn = address_of(servers.database_url)
    try:
        async with proxied(target) as proxy:
            parts = urlsplit(dsn(proxy.address))
            full = Database(f"postgresql://crowded@{proxy.address}{parts.path}")
            with pytest.raises(DatabasePoolExhausted):
                await one(full)
            assert await full.responds()
            await full.aclose()
    finally:
        async with admin.autocommit_session() as session:
            await session.execute(text("DROP ROLE crowded"))
        await admin.aclose()


async def test_a_client_that_disconnects_while_it_waits_leaves_no_connection_behind(database, link):
    link.poison(Toxic("timeout", "up"))
    waiting = [asyncio.create_task(one(database)) for _ in range(4)]
    await asyncio.sleep(0.05)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    link.poison(None)
    await asyncio.sleep(0.6)
    assert await asyncio.gather(one(database), one(database)) == [1, 1]


async def failing(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute(text("INSERT INTO presence_probe VALUES (1)"))
        raise ZeroDivisionError


async def test_what_raises_is_rolled_back(database):
    async with database.transaction() as session:
        await session.execute(text("CREATE TABLE IF NOT EXISTS presence_probe (n int)"))
        await session.execute(text("TRUNCATE presence_probe"))
    with pytest.raises(ZeroDivisionError):
        await failing(database)
    assert await one(database, "SELECT count(*) FROM presence_probe") == 0
    async with database.transaction() as session:
        await session.execute(text("INSERT INTO presence_probe VALUES (1)"))
    assert await one(database, "SELECT count(*) FROM presence_probe") == 1
    async with database.transaction() as session:
        await session.execute(text("DROP TABLE presence_probe"))


_VICTIM = "SELECT pg_backend_pid()"


async def _end(database: Database, pid: int) -> None:
    async with database.read_session() as session:
        await session.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
        # It has gone when it is no longer listed: the next statement of its client fails.
        while (
            await session.execute(text("SELECT 1 FROM pg_stat_activity WHERE pid = :pid"), {"pid": pid})
        ).first():
            await asyncio.sleep(0.01)
            await session.rollback()


async def test_a_read_whose_connection_is_ended_meanwhile_is_made_once_more(database):
    pids: list[int] = []

    async def work(session: AsyncSession) -> int:
        pids.append((await session.execute(text(_VICTIM))).scalar_one())
        if len(pids) == 1:
            await _end(database, pids[0])
        return int((await session.execute(text("SELECT 7"))).scalar_one())

    assert await database.read(work) == 7
    assert len(set(pids)) == 2


async def test_a_read_that_loses_its_second_connection_too_is_unavailable(database):
    pids: list[int] = []

    async def work(session: AsyncSession) -> int:
        pids.append((await session.execute(text(_VICTIM))).scalar_one())
        await _end(database, pids[-1])
        return int((await session.execute(text("SELECT 7"))).scalar_one())

    with pytest.raises(Unavailable):
        await database.read(work)
    assert len(pids) == 2


async def test_a_write_whose_connection_is_ended_is_not_made_again(database):
    times = 0

    async def write() -> None:
        nonlocal times
        async with database.transaction() as session:
            times += 1
            await _end(database, (await session.execute(text(_VICTIM))).scalar_one())
            await session.execute(text("SELECT 7"))

    with pytest.raises(Unavailable):
        await write()
    assert times == 1
