"""However many ask, the token endpoint is asked once; and a refused token is replaced once."""

import asyncio
from dataclasses import replace
from uuid import uuid4

import pytest
from aiohttp import web

from app.core.errors import TokenRequestFailed, UpstreamTimeout
from app.outbound.http import Engine
from app.outbound.oauth2 import TokenEndpoint, TokenRequest
from app.outbound.tokens import TokenCache
from app.security.vault import Vault
from app.storage.redis import RedisClient


@pytest.fixture
async def cache_on(vault: Vault, engine: Engine):
    """`cache_on(redis)` is one process of the gateway; all of them share a prefix."""
    prefix = f"test:{uuid4().hex}:"
    caches: list[TokenCache] = []

    def make(redis=None, *, vault: Vault = vault, endpoint: TokenEndpoint | None = None) -> TokenCache:
        caches.append(TokenCache(vault, endpoint or TokenEndpoint(engine), RedisClient(redis), prefix=prefix))
        return caches[-1]

    make.prefix = prefix
    yield make
    for cache in caches:
        await cache.aclose()


async def tokens(cache: TokenCache, request: TokenRequest, count: int) -> set[str]:
    handles = await asyncio.gather(*(cache.get(request) for _ in range(count)))
    return {handle.token.reveal() for handle in handles}


class TestSingleFlight:
    async def test_sixty_first_calls_in_one_process(self, cache_on, provider, token_request) -> None:
        provider.delay = 0.1
        assert await tokens(cache_on(), token_request, 60) == {"token-number-1"}
        assert len(provider.requests) == 1

    async def test_sixty_first_calls_in_two_processes(self, cache_on, redis, provider, token_request) -> None:
        provider.delay = 0.2
        one, other = cache_on(redis), cache_on(redis)
        found = await asyncio.gather(tokens(one, token_request, 30), tokens(other, token_request, 30))
        assert found == [{"token-number-1"}] * 2
        assert len(provider.requests) == 1

    async def test_third_process_finds_the_token_in_redis(
        self, cache_on, redis, provider, token_request
    ) -> None:
        await cache_on(redis).get(token_request)
        assert await tokens(cache_on(redis), token_request, 5) == {"token-number-1"}
        assert len(provider.requests) == 1

    async def test_cancelled_client_does_not_cancel_the_fetch_for_others(
        self, cache_on, provider, token_request
    ) -> None:
        provider.delay = 0.2
        cache = cache_on()
        first = asyncio.create_task(cache.get(token_request))
        second = asyncio.create_task(cache.get(token_request))
        await asyncio.sleep(0.05)
        first.cancel()
        assert (await second).token.reveal() == "token-number-1"
        assert len(provider.requests) == 1
        assert first.cancelled()

    async def test_client_that_times_out_does_not_cancel_the_fetch_for_others(
        self, cache_on, provider, token_request
    ) -> None:
        provider.delay = 0.6
        cache = cache_on()
        began = asyncio.get_running_loop().time()
        patient = asyncio.create_task(cache.get(token_request, deadline=began + 5))
        with pytest.raises(UpstreamTimeout, match="before the call's deadline"):
            await cache.get(token_request, deadline=began + 0.2)
        # The token endpoint has not responded yet.
        assert not patient.done()
        assert (await patient).token.reveal() == "token-number-1"
        assert len(provider.requests) == 1

    async def test_a_lock_that_was_left_behind_is_waited_for_and_taken(
        self, cache_on, redis, provider, token_request, vault: Vault
    ) -> None:
        key = vault.digest("token", *token_request.parts())
        lock = f"{cache_on.prefix}{key.hex()}:lock"
        await redis.set(lock, "a process that died", px=300)
        await cache_on(redis).get(token_request)
        # It had expired before the token was requested.
        assert await redis.get(lock) != b"a process that died"
        assert len(provider.requests) == 1

    async def test_lock_is_short_lived_and_renewed_by_its_owner(
        self, cache_on, redis, provider, token_request, vault: Vault
    ) -> None:
        provider.delay = 3
        one, other = cache_on(redis), cache_on(redis)
        found = asyncio.gather(tokens(one, token_request, 3), tokens(other, token_request, 3))
        lock = f"{cache_on.prefix}{vault.digest('token', *token_request.parts()).hex()}:lock"
        for _ in range(5):
            await asyncio.sleep(0.5)
            assert 0 < await redis.pttl(lock) <= 2000
        assert await found == [{"token-number-1"}] * 2
        assert len(provider.requests) == 1
        assert await redis.pttl(lock) == -2

    async def test_lock_is_released(self, cache_on, redis, token_request) -> None:
        await cache_on(redis).get(token_request)
        names = [name async for name in redis.scan_iter(match=f"{cache_on.prefix}*")]
        assert len(names) == 1
        assert not names[0].endswith(b":lock")


class TestKeys:
    async def test_requests_that_differ_do_not_share(self, cache_on, redis, provider, token_request) -> None:
        cache = cache_on(redis)
        changes = [{}, {"tenant_id": uuid4()}, {"credential_id": uuid4()}, {"version": 2}, {"scope": "x"}]
        changes += [{"audience": "x"}, {"resource": "x"}, {"auth_method": "client_secret_basic"}]
        found = [await cache.get(replace(token_request, **change)) for change in changes]
        assert len({handle.token.reveal() for handle in found}) == len(changes)


class TestRedisHoldsNothingReadable:
    async def test_stored_names_and_values_reveal_nothing(
        self, cache_on, redis, provider, token_request
    ) -> None:
        await cache_on(redis).get(token_request)
        dump = b""
        async for name in redis.scan_iter(match=f"{cache_on.prefix}*"):
            dump += name + await redis.get(name)
        for clear in (b"token-number", b"s3cr3t", b"client", str(token_request.credential_id).encode()):
            assert clear not in dump

    async def test_a_value_moved_to_another_key_is_not_taken(
        self, cache_on, redis, provider, token_request, vault: Vault
    ) -> None:
        await cache_on(redis).get(token_request)
        other = replace(token_request, tenant_id=uuid4())
        mine, theirs = (
            f"{cache_on.prefix}{vault.digest('token', *request.parts()).hex()}"
            for request in (token_request, other)
        )
        await redis.set(theirs, await redis.get(mine), px=60_000)
        assert (await cache_on(redis).get(other)).token.reveal() == "token-number-2"

    @pytest.mark.parametrize("rubbish", [b"", b"rubbish", b"\xff\xfe", b"AAAA"])
    async def test_invalid_stored_value_is_replaced(
        self, cache_on, redis, provider, token_request, vault: Vault, rubbish: bytes
    ) -> None:
        name = f"{cache_on.prefix}{vault.digest('token', *token_request.parts()).hex()}"
        await redis.set(name, rubbish, px=60_000)
        assert (await cache_on(redis).get(token_request)).token.reveal() == "token-number-1"
        assert (await cache_on(redis).get(token_request)).token.reveal() == "token-number-1"


class TestLife:
    @pytest.mark.parametrize(
        ("expires_in", "least", "most"),
        [(3600, 3565, 3570), (60, 45, 48), (None, 265, 270), (10**12, 86000, 86400)],
    )
    async def test_cached_lifetime_is_shorter_than_the_tokens(
        self, cache_on, redis, provider, token_request, vault: Vault, expires_in, least: int, most: int
    ) -> None:
        provider.reply = {} if expires_in is None else {"expires_in": expires_in}
        await cache_on(redis).get(token_request)
        name = f"{cache_on.prefix}{vault.digest('token', *token_request.parts()).hex()}"
        assert least <= await redis.ttl(name) <= most

    async def test_expired_token_is_fetched_again_in_every_process(
        self, cache_on, redis, provider, token_request
    ) -> None:
        provider.reply = {"expires_in": 1.3}
        one, other = cache_on(redis), cache_on(redis)
        assert await tokens(one, token_request, 3) | await tokens(other, token_request, 3) == {
            "token-number-1"
        }
        await asyncio.sleep(1.1)
        provider.reply = {"expires_in": 3600}
        assert await tokens(one, token_request, 3) | await tokens(other, token_request, 3) == {
            "token-number-2"
        }

    async def test_token_without_lifetime_is_used_once(
        self, cache_on, redis, provider, token_request
    ) -> None:
        provider.reply = {"expires_in": 0}
        cache = cache_on(redis)
        assert [(await cache.get(token_request)).token.reveal() for _ in range(2)] == [
            "token-number-1",
            "token-number-2",
        ]


class TestInvalidation:
    async def test_invalidation_drops_the_token_here_in_redis_and_for_other_processes(
        self, cache_on, redis, provider, token_request
    ) -> None:
        one, other = cache_on(redis), cache_on(redis)
        refused = await one.get(token_request)
        also = await other.get(token_request)
        await one.invalidate(refused)
        assert (await one.get(token_request)).token.reveal() == "token-number-2"
        await other.invalidate(also)
        assert (await other.get(token_request)).token.reveal() == "token-number-2"
        assert len(provider.requests) == 2

    async def test_sixty_rejected_calls_in_two_processes_cause_one_request(
        self, cache_on, redis, provider, token_request
    ) -> None:
        caches = [cache_on(redis), cache_on(redis)]
        handles = [await cache.get(token_request) for cache in caches for _ in range(30)]
        provider.delay = 0.1

        async def again(number: int) -> str:
            cache = caches[number // 30]
            await asyncio.sleep(0.004 * (number % 30))
            await cache.invalidate(handles[number])
            return (await cache.get(token_request)).token.reveal()

        assert set(await asyncio.gather(*(again(number) for number in range(60)))) == {"token-number-2"}
        assert len(provider.requests) == 2

    async def test_an_old_handle_does_not_drop_a_newer_token(
        self, cache_on, redis, provider, token_request
    ) -> None:
        cache = cache_on(redis)
        old = await cache.get(token_request)
        await cache.invalidate(old)
        await cache.get(token_request)
        await cache.invalidate(old)
        assert await tokens(cache, token_request, 3) == {"token-number-2"}
        assert len(provider.requests) == 2

    async def test_an_endpoint_may_give_the_same_token_again(self, cache_on, provider, token_request) -> None:
        provider.reply = {"access_token": "always-the-same", "expires_in": 3600}
        cache = cache_on()
        await cache.invalidate(await cache.get(token_request))
        assert await tokens(cache, token_request, 3) == {"always-the-same"}
        assert len(provider.requests) == 2


class TestFailures:
    async def test_failures_are_cached_for_a_short_time(self, cache_on, provider, token_request) -> None:
        provider.failure = web.json_response({"error": "invalid_scope"}, status=400)
        cache = cache_on()
        results = await asyncio.gather(*(cache.get(token_request) for _ in range(20)), return_exceptions=True)
        with pytest.raises(TokenRequestFailed):
            await cache.get(token_request)
        assert {type(result) for result in results} == {TokenRequestFailed}
        assert len({id(result) for result in results}) == 20
        assert len(provider.requests) == 1
        provider.failure = None
        await asyncio.sleep(1.6)
        assert await tokens(cache, token_request, 3) == {"token-number-2"}

    async def test_failures_of_one_credential_do_not_affect_another(
        self, cache_on, provider, token_request
    ) -> None:
        cache = cache_on()
        with pytest.raises(TokenRequestFailed):
            await cache.get(replace(token_request, client_secret=token_request.client_id))
        await cache.get(token_request)


class TestWithoutRedis:
    async def test_redis_that_refuses_connections_fails_no_call(
        self, cache_on, provider, token_request, quick
    ) -> None:
        cache = cache_on(quick("redis://127.0.0.1:1/0"))
        assert await tokens(cache, token_request, 60) == {"token-number-1"}
        await cache.invalidate(await cache.get(token_request))
        assert await tokens(cache, token_request, 60) == {"token-number-2"}
        assert len(provider.requests) == 2

    async def test_redis_that_never_responds_costs_one_timeout(
        self, cache_on, provider, token_request, quick, raw
    ) -> None:
        async def black_hole(reader, _writer) -> None:
            await reader.read()

        hole = await raw(black_hole)
        cache = cache_on(quick(f"redis://127.0.0.1:{hole.port}/0"))
        handle = await cache.get(token_request)
        await cache.invalidate(handle)
        await cache.get(token_request)
        assert hole.connections == 1
        assert len(provider.requests) == 2

    async def test_redis_that_disappears_fails_no_call(
        self, cache_on, redis, provider, token_request
    ) -> None:
        cache = cache_on(redis)
        await cache.get(token_request)
        async for name in redis.scan_iter(match=f"{cache_on.prefix}*"):
            await redis.delete(name)
        assert await tokens(cache, token_request, 3) == {"token-number-1"}
