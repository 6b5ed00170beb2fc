"""A warm call sends nothing to PostgreSQL or Redis; concurrent first calls share one token request."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest
import redis

from app.database import asyncpg_dsn
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair, with_database
from tests.harness.upstream import Upstream, upstream


@pytest.fixture(scope="module")
def site() -> Iterator[Upstream]:
    """The upstream."""
    with upstream() as running:
        yield running


@pytest.fixture(scope="module")
def two_workers(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with two worker processes, whose background writes are rare enough to count without them."""
    with serve(
        servers,
        tmp_path_factory.mktemp("warm"),
        workers=2,
        FEED_POLL_SECONDS="60",
        CALL_LOG_FLUSH_SECONDS="60",
        KEY_CACHE_SECONDS="900",
    ) as running:
        yield running


TOOLS = ("withKey", "withLogin", "withToken", "withOAuth", "open")


def register(gateway: RunningGateway, site: Upstream, name: str) -> None:
    """A provider whose operations need an API key, basic, bearer and OAuth2."""
    body: dict[str, Any] = {
        "name": name,
        "source": {"document": site.openapi()},
        "credentials": {
            "key": {"kind": "api_key", "value": "the-api-key-value"},
            "login": {"kind": "basic", "username": "user", "password": "the-password"},
            "token": {"kind": "bearer", "token": "the-bearer-token"},
            "oauth": {
                "kind": "oauth2",
                "client_id": "client",
                "client_secret": "the-client-secret",
                "token_url": f"{site.url}/token",
            },
        },
    }
    with gateway.client() as client:
        made = client.post("/providers", json=body)
    assert made.status_code == 201, made.text


async def _transactions(dsn: str) -> int:
    name = dsn.partition("?")[0].rpartition("/")[2]
    connection = await asyncpg.connect(asyncpg_dsn(with_database(dsn, "postgres")))
    found = await connection.fetchval(
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1", name
    )
    await connection.close()
    return int(found)


def counts(gateway: RunningGateway) -> tuple[int, int]:
    """Transactions of the gateway's database, and commands that its Redis has run."""
    # Sessions report their statistics at most once a second.
    time.sleep(1.5)
    client = redis.Redis.from_url(gateway.redis_url)
    commands = int(client.info("stats")["total_commands_processed"])
    client.close()
    return asyncio.run(_transactions(gateway.database_url)), commands


def call_many(gateway: RunningGateway, tool: str, number: int, *, threads: int = 8) -> list[int]:
    """The statuses of `number` calls."""

    def one(_index: int) -> int:
        return int(client.post(f"/tools/{tool}/call", json={}).status_code)

    with gateway.client() as client, ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, range(number)))


@pytest.fixture(scope="module")
def asked(two_workers: RunningGateway, site: Upstream) -> dict[str, tuple[int, int]]:
    """What 300 warm calls of each tool asked of PostgreSQL and of Redis."""
    register(two_workers, site, "warm")
    for tool in TOOLS:
        assert set(call_many(two_workers, f"warm.{tool}", 60)) == {200}
    found = {}
    before = counts(two_workers)
    for tool in TOOLS:
        assert set(call_many(two_workers, f"warm.{tool}", 300)) == {200}
        after = counts(two_workers)
        found[tool] = after[0] - before[0], after[1] - before[1]
        before = after
    return found


@pytest.mark.parametrize("tool", TOOLS)
def test_a_warm_call_asks_neither_server(tool: str, asked: dict[str, tuple[int, int]]) -> None:
    statements, commands = asked[tool]
    # Of 300 calls; the rest is what runs in the background: records are stored 200 at a time, on connections
    # that are perhaps used for the first time (each step of asyncpg counts), and the two commands that count.
    assert statements <= 60, "SQL on warm calls"
    assert commands <= 20, "Redis on warm calls"


def test_sixty_first_calls_on_two_workers_make_one_token_request(
    two_workers: RunningGateway, site: Upstream
) -> None:
    register(two_workers, site, "stampede")
    before = site.tokens
    assert set(call_many(two_workers, "stampede.withOAuth", 60, threads=60)) == {200}
    assert site.tokens - before == 1


def test_a_token_revoked_upstream_is_fetched_once_more_and_the_calls_succeed(
    two_workers: RunningGateway, site: Upstream
) -> None:
    register(two_workers, site, "revoked")
    assert set(call_many(two_workers, "revoked.withOAuth", 20)) == {200}
    before = site.tokens
    site.revoked.update(f"token-{number}" for number in range(site.tokens + 1))
    assert set(call_many(two_workers, "revoked.withOAuth", 40, threads=20)) == {200}
    assert site.tokens - before == 1


async def _flushed(dsn: str) -> int:
    await asyncio.sleep(0.3)
    return await _transactions(dsn)


@pytest.mark.parametrize("mode", ["fast", "strict"])
def test_a_call_with_an_idempotency_key_costs_two_commits(
    servers: Pair, site: Upstream, tmp_path: Path, mode: str
) -> None:
    operation = {"operationId": "pay", "responses": {"200": {"description": "ok"}}}
    document = site.openapi() | {"paths": {"/echo/open": {"post": operation}}}
    settings = {"FEED_POLL_SECONDS": "60", "CALL_LOG_FLUSH_SECONDS": "60", "KEY_CACHE_SECONDS": "900"}
    dsn = servers.create_database()
    with (
        serve(servers, tmp_path, database_url=dsn, CALL_LOG_MODE=mode, **settings) as gateway,
        gateway.client() as client,
    ):
        made = client.post("/providers", json={"name": "till", "source": {"document": document}})
        assert made.status_code == 201, made.text

        def commits() -> int:
            # A session tells its figures when it commits, at most once a second.
            time.sleep(1.3)
            assert pay("flush").status_code == 200
            return asyncio.run(_flushed(gateway.database_url))

        def pay(name: str) -> httpx2.Response:
            headers = {"Idempotency-Key": f"{name}-{time.time_ns()}"}
            return client.post("/tools/till.pay/call", json={}, headers=headers)

        assert pay("first").status_code == 200
        before = commits()
        assert {pay("counted").status_code for _ in range(100)} == {200}
        spent = commits() - before
    servers.drop_database(dsn)
    # One after the other, so that none are shared; beside them the gateway's own, and those that count.
    assert 200 <= spent <= 230
