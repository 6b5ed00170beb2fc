"""A Valkey that may be flushed and frozen, and limiters as separate processes of the gateway would have them."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from app.calls.rate_limiter import RateLimiter
from app.security.vault import KeyRing, Vault
from app.storage.redis import RedisClient, connect
from tests.harness.valkey import OwnValkey, Wire, own_valkey, wire_to


@pytest.fixture(scope="module")
def valkey() -> Iterator[OwnValkey]:
    with own_valkey() as running:
        yield running


@pytest.fixture
async def wire(valkey: OwnValkey) -> AsyncIterator[Wire]:
    async with wire_to(valkey.path) as wire:
        yield wire


@pytest.fixture
def vault() -> Vault:
    vault = Vault(KeyRing.parse(KeyRing.generate("k")))
    vault.load([vault.new_data_key("data"), vault.new_data_key("digest")])
    return vault


@pytest.fixture
async def clients() -> AsyncIterator[Callable[..., Redis]]:
    made: list[Redis] = []

    def make(url: str, *, timeout: float = 2.0) -> Redis:
        made.append(connect(url, timeout=timeout))
        return made[-1]

    yield make
    for client in made:
        await client.aclose()
        await client.connection_pool.disconnect()


@pytest.fixture
def limiter_on(clients, vault: Vault) -> Callable[..., RateLimiter]:
    """`limiter_on(url)` is one worker of the gateway; those of a test share their counters."""
    prefix = f"test-{uuid4().hex}:"

    def make(
        url: str, *, timeout: float = 2.0, off_seconds: float = 3.0, workers: int = 1, **options: Any
    ) -> RateLimiter:
        cache = RedisClient(clients(url, timeout=timeout), retry_seconds=off_seconds)
        return RateLimiter(cache, vault, workers=workers, prefix=prefix, **options)

    return make
