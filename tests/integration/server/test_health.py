"""What /health/ready finds out, and what it costs when many ask."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import event

from app.server.health import HealthProbes
from app.storage.database import Database
from app.storage.redis import connect
from tests.faults.proxy import proxied
from tests.harness.servers import Pair
from tests.integration.storage.database.test_unavailability import address_of


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    made = Database(database_url, pool_size=1)
    yield made
    await made.aclose()


async def test_many_who_ask_at_once_cost_one_statement(database: Database, servers: Pair) -> None:
    statements: list[str] = []
    event.listen(
        database.engine.sync_engine, "before_cursor_execute", lambda *args: statements.append(args[2])
    )
    redis = connect(servers.redis_url)
    probes = HealthProbes(database, redis)
    found = await asyncio.gather(*(probes.probe_states() for _ in range(300)))
    assert set(found) == {("ok", "ok")}
    assert statements == ["SELECT 1"]
    before = await redis.info("commandstats")
    assert await asyncio.gather(*(probes.probe_states() for _ in range(300))) == found
    after = await redis.info("commandstats")
    assert after["cmdstat_ping"]["calls"] == before["cmdstat_ping"]["calls"]
    await redis.aclose()


async def test_pools_without_a_free_connection_are_no_absence(database_url: str, servers: Pair) -> None:
    database = Database(database_url, pool_size=1, pool_timeout=0.3)
    redis = connect(servers.redis_url, max_connections=1)
    held = await redis.connection_pool.get_connection()
    async with database.read_session():
        assert await HealthProbes(database, redis).probe_states() == ("ok", "ok")
    await redis.connection_pool.release(held)
    await redis.aclose()
    await database.aclose()


async def test_a_cut_link_is_unavailable(database_url: str) -> None:
    target, dsn = address_of(database_url)
    redis = connect("redis://127.0.0.1:1/0")
    async with proxied(target) as link:
        database = Database(dsn(link.address), pool_size=1)
        probes = HealthProbes(database, redis)
        assert await probes.probe_states() == ("ok", "unavailable")
        await link.cut()
        await asyncio.sleep(0.6)
        assert await probes.probe_states() == ("unavailable", "unavailable")
        await link.heal()
        await database.aclose()
    await redis.aclose()
