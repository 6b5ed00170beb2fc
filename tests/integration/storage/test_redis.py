"""The Redis client fails with errors of Redis only, and within its time-out."""

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import pytest
import uvloop
from redis.asyncio import Redis
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeout

from app.storage.redis import RedisClient, RedisPoolExhausted, connect
from tests.faults.proxy import FaultProxy, Toxic, proxied
from tests.harness.servers import Pair


def through(servers: Pair, body: Callable[[Redis, FaultProxy], Awaitable[None]]) -> None:
    """Runs `body` in uvloop, whose transports fail in their own way, with a client whose link can be broken."""
    parts = urlsplit(servers.redis_url)
    target = parts.path if parts.scheme == "unix" else (parts.hostname or "127.0.0.1", parts.port or 6379)

    async def run() -> None:
        async with proxied(target) as link:
            client = connect(f"redis://{link.address}/0")
            try:
                assert await client.ping()
                await body(client, link)
            finally:
                await client.aclose()

    uvloop.run(run())


def test_a_connection_that_was_reset_is_an_error_of_redis_and_the_next_one_works(servers):
    async def body(client: Redis, link: FaultProxy) -> None:
        await link.cut()
        await asyncio.sleep(0.05)
        for _ in range(3):
            with pytest.raises(RedisError):
                await client.ping()
        with pytest.raises(RedisError):
            async with client.pipeline(transaction=False) as pipe:
                await pipe.get("x").get("y").execute()
        await link.heal()
        assert await client.ping()

    through(servers, body)


def test_a_command_to_a_black_hole_is_not_retried(servers):
    async def body(client: Redis, link: FaultProxy) -> None:
        link.poison(Toxic("timeout", "up"))
        before = link.accepted
        with pytest.raises(RedisTimeout):
            await client.ping()
        # A retry would open another connection.
        assert link.accepted == before
        link.poison(None)
        assert await client.ping()

    through(servers, body)


@pytest.mark.parametrize("url", ["redis://h/0", "rediss://h/0", "unix:///run/x.sock"])
def test_every_kind_of_url_gets_a_connection_that_maps_its_errors(url):
    kind = connect(url).connection_pool.connection_class
    assert kind.send_packed_command.__module__ == "app.storage.redis"


def test_a_wait_for_the_own_pool_is_no_absence_of_redis(servers):
    async def run() -> None:
        client = connect(servers.redis_url, timeout=2, max_connections=1)
        client.connection_pool.timeout = 0.05
        cache = RedisClient(client)
        held = await client.connection_pool.get_connection()
        try:
            with pytest.raises(RedisPoolExhausted):
                await client.ping()
            with cache:
                await client.ping()
            assert (cache.pool_timeouts, cache.failures, cache.is_unavailable) == (1, 0, False)
            assert cache.available_client() is client
        finally:
            await client.connection_pool.release(held)
        with cache:
            assert await client.ping()
        await client.aclose()

    uvloop.run(run())


def test_a_server_that_does_not_exist_is_unavailable(servers):
    async def run() -> None:
        client = connect("redis://127.0.0.1:1/0")
        cache = RedisClient(client)
        with cache:
            await client.ping()
        assert (cache.pool_timeouts, cache.failures, cache.is_unavailable) == (0, 1, True)
        await client.aclose()

    uvloop.run(run())
