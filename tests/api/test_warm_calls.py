"""A warm call sends nothing to PostgreSQL or Redis; concurrent first calls share one token request."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
import redis

from tests.harness.cases import for_each
from tests.harness.gateway import RunningGateway, serve
from tests.harness.postgres_proxy import PostgresProxy, postgres_proxy
from tests.harness.servers import Pair
from tests.harness.upstream import Upstream, upstream

SETTINGS = {"FEED_POLL_SECONDS": "60", "CALL_LOG_FLUSH_SECONDS": "60", "KEY_CACHE_SECONDS": "900"}
"""Background writes are rare enough to count without them."""
WARM_CALLS = 150


@pytest.fixture(scope="module")
def site() -> Iterator[Upstream]:
    """The upstream."""
    with upstream() as running:
        yield running


@pytest.fixture(scope="module")
def database(database_url: str) -> Iterator[PostgresProxy]:
    """The way to the database of `two_workers`."""
    with postgres_proxy(database_url) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def two_workers(
    servers: Pair, database: PostgresProxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGateway]:
    """A gateway with two worker processes."""
    folder = tmp_path_factory.mktemp("warm")
    with serve(servers, folder, database_url=database.dsn, workers=2, **SETTINGS) as running:
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


def commands_of(gateway: RunningGateway) -> int:
    """Commands that the Redis of the gateway has run."""
    with redis.Redis.from_url(gateway.redis_url) as client:
        return int(client.info("stats")["total_commands_processed"])


def call_many(gateway: RunningGateway, tool: str, number: int, *, threads: int = 8) -> list[int]:
    """The statuses of `number` calls."""

    def one(_index: int) -> int:
        return int(client.post(f"/tools/{tool}/call", json={}).status_code)

    with gateway.client() as client, ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, range(number)))


@pytest.fixture(scope="module")
def costs(two_workers: RunningGateway, database: PostgresProxy, site: Upstream) -> dict[str, tuple[int, int]]:
    """Transactions of PostgreSQL and commands of Redis during the warm calls of each tool."""
    register(two_workers, site, "warm")
    for tool in TOOLS:
        assert set(call_many(two_workers, f"warm.{tool}", 60)) == {200}
    found = {}
    for tool in TOOLS:
        before = database.transactions, commands_of(two_workers)
        assert set(call_many(two_workers, f"warm.{tool}", WARM_CALLS)) == {200}
        after = database.transactions, commands_of(two_workers)
        found[tool] = after[0] - before[0], after[1] - before[1]
    return found


@for_each("tool", TOOLS)
def test_a_warm_call_sends_nothing_to_either_server(tool: str, costs: dict[str, tuple[int, int]]) -> None:
    transactions, commands = costs[tool]
    # What runs in the background: records are stored 200 at a time, on connections that are perhaps used for
    # the first time (each step of asyncpg counts), and the two commands that count.
    assert transactions <= WARM_CALLS / 5, "SQL on warm calls"
    assert commands <= WARM_CALLS / 10, "Redis on warm calls"


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


def transactions_of_payments(
    gateway: RunningGateway, database: PostgresProxy, site: Upstream, number: int
) -> int:
    """Transactions during so many calls, one after the other, each with an Idempotency-Key of its own."""
    operation = {"operationId": "pay", "responses": {"200": {"description": "ok"}}}
    document = site.openapi() | {"paths": {"/echo/open": {"post": operation}}}

    def pay(client: httpx2.Client, key: str) -> int:
        return client.post("/tools/till.pay/call", json={}, headers={"Idempotency-Key": key}).status_code

    with gateway.client() as client:
        made = client.post("/providers", json={"name": "till", "source": {"document": document}})
        assert made.status_code == 201, made.text
        # On one connection, hence all by the same worker.
        assert pay(client, "first") == 200
        before = database.transactions
        assert {pay(client, f"counted-{index}") for index in range(number)} == {200}
        deadline = time.monotonic() + 10
        while database.transactions - before < 2 * number and time.monotonic() < deadline:
            time.sleep(0.01)
        return database.transactions - before


def test_a_call_with_an_idempotency_key_costs_two_commits(
    two_workers: RunningGateway, database: PostgresProxy, site: Upstream
) -> None:
    # One after the other, so that none are shared; beside them the gateway's own.
    assert 200 <= transactions_of_payments(two_workers, database, site, 100) <= 230


def test_in_strict_mode_the_record_of_the_call_costs_no_further_commit(
    servers: Pair, site: Upstream, tmp_path: Path
) -> None:
    dsn = servers.create_database()
    with (
        postgres_proxy(dsn) as database,
        serve(servers, tmp_path, database_url=database.dsn, CALL_LOG_MODE="strict", **SETTINGS) as gateway,
    ):
        assert 200 <= transactions_of_payments(gateway, database, site, 100) <= 230
    servers.drop_database(dsn)
