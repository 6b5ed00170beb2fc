"""Rate limits: how many calls are admitted, with Redis, without it, and while it comes and goes."""

import asyncio
import time
from uuid import UUID, uuid4

import pytest

from app.calls.rate_limiter import RateLimiter
from app.core.errors import RateLimited
from app.core.rate_limit import RateLimit
from app.security.gcra import Bucket, admit
from app.storage.redis import RedisClient
from tests.harness.cases import for_each

TENANT = UUID(int=1)
PROVIDER = uuid4()


async def ask(limiter, key=None, provider=None, *, key_id="k", provider_id=PROVIDER):
    return await limiter.admit(TENANT, key_id=key_id, key=key, provider_id=provider_id, provider=provider)


async def admitted(limiter, number, key=None, provider=None, **more) -> int:
    """How many of so many calls were admitted."""
    count = 0
    for _ in range(number):
        try:
            await ask(limiter, key, provider, **more)
        except RateLimited:
            continue
        count += 1
    return count


async def commands(client) -> int:
    return (await client.info("stats"))["total_commands_processed"]


class TestWithRedis:
    async def test_a_burst_and_then_the_rate(self, limiter_on, valkey) -> None:
        limiter = limiter_on(valkey.url)
        slow = RateLimit(1, 3600, 5)
        assert await admitted(limiter, 20, slow) == 5
        with pytest.raises(RateLimited) as refused:
            await ask(limiter, slow)
        assert 3590 <= int(refused.value.headers["Retry-After"]) <= 3600

    async def test_what_was_waited_for_is_admitted(self, limiter_on, valkey) -> None:
        limiter = limiter_on(valkey.url)
        quick = RateLimit(20, 1, 1)
        assert await admitted(limiter, 1, quick) == 1
        await asyncio.sleep(0.06)
        assert await admitted(limiter, 1, quick) == 1

    async def test_a_call_costs_one_command_even_with_two_limits(self, limiter_on, valkey, clients) -> None:
        limiter = limiter_on(valkey.url)
        both = RateLimit(1000, 1, 1000)
        # The first loads the script and says that this worker is there.
        await ask(limiter, both, both)
        counter = clients(valkey.url)
        before = await commands(counter)
        for _ in range(50):
            await ask(limiter, both, both)
        # A script counts as one, and so does everything that it does: TIME, and GET and SET of two limits.
        in_scripts = 50 * 5
        assert await commands(counter) - before - in_scripts - 1 == 50

    async def test_a_call_that_the_provider_rejects_does_not_use_the_key(self, limiter_on, valkey) -> None:
        limiter = limiter_on(valkey.url)
        key, provider = RateLimit(1, 3600, 10), RateLimit(1, 3600, 3)
        assert await admitted(limiter, 9, key, provider) == 3
        assert await admitted(limiter, 9, key) == 7

    async def test_a_call_that_the_key_rejects_does_not_use_the_provider(self, limiter_on, valkey) -> None:
        limiter = limiter_on(valkey.url)
        key, provider = RateLimit(1, 3600, 3), RateLimit(1, 3600, 10)
        assert await admitted(limiter, 9, key, provider) == 3
        assert await admitted(limiter, 9, provider=provider) == 7

    async def test_keys_have_their_own(self, limiter_on, valkey) -> None:
        limiter = limiter_on(valkey.url)
        limit = RateLimit(1, 3600, 2)
        assert await admitted(limiter, 5, limit, key_id="one") == 2
        assert await admitted(limiter, 5, limit, key_id="other") == 2

    async def test_workers_share_one(self, limiter_on, valkey) -> None:
        limit = RateLimit(1, 3600, 10)
        counts = await asyncio.gather(*(admitted(limiter_on(valkey.url), 9, limit) for _ in range(4)))
        assert sum(counts) == 10

    async def test_names_hold_no_id_and_end(self, limiter_on, valkey, clients) -> None:
        limiter = limiter_on(valkey.url)
        await ask(limiter, RateLimit(10, 60, 10), RateLimit(10, 60, 10), key_id="SomeKeyId")
        client = clients(valkey.url)
        names = [name.decode() async for name in client.scan_iter(match=f"{limiter._prefix}*")]
        assert len(names) == 3
        for name in names:
            assert "SomeKeyId" not in name
            assert PROVIDER.hex not in name
            assert 0 < await client.pttl(name) <= 61_000

    async def test_a_changed_limit_begins_anew(self, limiter_on, valkey) -> None:
        limiter = limiter_on(valkey.url)
        assert await admitted(limiter, 9, RateLimit(1, 86_400, 1)) == 1
        assert await admitted(limiter, 9, RateLimit(1, 86_400, 2)) == 2

    @pytest.mark.long
    async def test_ten_thousand_requests_over_three_workers_are_admitted_within_one_percent(
        self, limiter_on, valkey
    ) -> None:
        """Scenario N: what is admitted is the burst and the rate times the time that it took.

        The burst is ten seconds of the rate, so that a pause of this process loses no call.
        """
        limiters = [limiter_on(valkey.url, timeout=20) for _ in range(3)]
        limit = RateLimit(100, 1, 1000)
        began = time.monotonic()
        left = [10_000]

        async def client(number: int) -> int:
            count = 0
            while left[0] > 0:
                left[0] -= 1
                count += await admitted(limiters[number % 3], 1, limit)
            return count

        count = sum(await asyncio.gather(*(client(number) for number in range(12))))
        expected = 1000 + 100 * (time.monotonic() - began)
        assert sum(limiter.without_redis for limiter in limiters) == 0
        assert count == pytest.approx(expected, rel=0.01)


class TestHeaders:
    async def test_what_is_left_and_when_all_is_there_again(self, limiter_on, valkey) -> None:
        limiter = limiter_on(valkey.url)
        key, provider = RateLimit(60, 60, 10), RateLimit(600, 60, 100)
        await ask(limiter, key, provider)
        headers = (await ask(limiter, key, provider)).headers()
        assert headers == {
            "RateLimit-Policy": '"key";q=60;w=60, "provider";q=600;w=60',
            "RateLimit": '"key";r=8;t=2, "provider";r=98;t=1',
            "RateLimit-Limit": "60",
            "RateLimit-Remaining": "8",
            "RateLimit-Reset": "2",
        }

    async def test_a_rejection_names_what_rejected_it(self, limiter_on, valkey) -> None:
        limiter = limiter_on(valkey.url)
        key, provider = RateLimit(60, 60, 10), RateLimit(1, 60, 1)
        await ask(limiter, key, provider)
        with pytest.raises(RateLimited) as refused:
            await ask(limiter, key, provider)
        error = refused.value
        assert error.extra == {"limit": "provider", "retry_after": 60}
        assert error.headers["Retry-After"] == "60"
        assert error.headers["RateLimit"].startswith('"key";r=9;t=1, "provider";r=0;t=60')


class TestWithoutRedis:
    async def test_a_server_that_is_not_there(self, limiter_on) -> None:
        limiter = limiter_on("redis://127.0.0.1:1")
        assert await admitted(limiter, 9, RateLimit(1, 3600, 4)) == 4
        assert limiter.without_redis == 9

    async def test_a_share_of_rate_and_burst(self, limiter_on) -> None:
        limiter = limiter_on("redis://127.0.0.1:1", workers=4)
        assert await admitted(limiter, 50, RateLimit(1, 3600, 20)) == 5

    async def test_a_share_is_never_nothing(self, limiter_on) -> None:
        limiter = limiter_on("redis://127.0.0.1:1", workers=8)
        assert await admitted(limiter, 5, RateLimit(1, 3600, 2)) == 1

    async def test_the_rate_is_shared_too(self) -> None:
        bucket = Bucket("name", RateLimit(100, 1, 10), kind="key")
        count, now = 0, 0.0
        while now < 60_000_000:
            count += admit((bucket,), now, process_count=5).admitted
            now += 1_000
        # 60 s at a fifth of 100/s, and a fifth of the burst.
        assert count == pytest.approx(1200 + 2, abs=1)

    async def test_both_or_none(self, limiter_on) -> None:
        limiter = limiter_on("redis://127.0.0.1:1")
        key, provider = RateLimit(1, 3600, 10), RateLimit(1, 3600, 3)
        assert await admitted(limiter, 9, key, provider) == 3
        assert await admitted(limiter, 9, key) == 7

    async def test_a_limiter_without_any_redis(self, vault) -> None:
        assert await admitted(RateLimiter(RedisClient(None), vault), 9, RateLimit(1, 3600, 4)) == 4


class TestWhileRedisComesAndGoes:
    @pytest.mark.parametrize("way", ["cut", "hole"])
    async def test_what_was_used_stays_used_and_no_call_fails(self, limiter_on, wire, way) -> None:
        limiter = limiter_on(wire.url, timeout=0.2)
        limit = RateLimit(1, 3600, 10)
        assert await admitted(limiter, 6, limit) == 6
        if way == "cut":
            await wire.cut()
        else:
            wire.hole = True
        assert await admitted(limiter, 20, limit) == 4
        assert limiter.without_redis == 20

    async def test_a_frozen_server_costs_its_timeout_once(self, limiter_on, valkey) -> None:
        limiter = limiter_on(valkey.url, timeout=0.2, off_seconds=30)
        limit = RateLimit(1000, 1, 1000)
        await ask(limiter, limit)
        valkey.freeze()
        try:
            assert await admitted(limiter, 50, limit) == 50
        finally:
            valkey.thaw()
        assert limiter._redis_client.failures == 1

    async def test_one_probe_brings_it_back(self, limiter_on, wire) -> None:
        limiter = limiter_on(wire.url, timeout=0.2, off_seconds=0.1)
        limit = RateLimit(1000, 1, 1000)
        await ask(limiter, limit)
        await wire.cut()
        await admitted(limiter, 5, limit)
        assert limiter._redis_client.is_unavailable
        await wire.open()
        await asyncio.sleep(0.12)
        await asyncio.gather(*(ask(limiter, limit) for _ in range(5)))
        # The first was the probe; those beside it did not wait for it.
        assert limiter.without_redis == 9
        assert not limiter._redis_client.is_unavailable

    async def test_scripts_that_are_forgotten_are_sent_again(self, limiter_on, valkey, clients) -> None:
        limiter = limiter_on(valkey.url)
        limit = RateLimit(1, 3600, 10)
        assert await admitted(limiter, 4, limit) == 4
        await clients(valkey.url).script_flush()
        assert await admitted(limiter, 20, limit) == 6
        assert limiter.without_redis == 0

    async def test_a_flush_gives_one_burst_more_and_fails_no_call(self, limiter_on, valkey, clients) -> None:
        limiter = limiter_on(valkey.url)
        limit = RateLimit(1, 3600, 10)
        assert await admitted(limiter, 20, limit) == 10
        client = clients(valkey.url)
        await client.flushall()
        await client.script_flush()
        assert await admitted(limiter, 20, limit) == 10
        assert limiter.without_redis == 0

    async def test_workers_are_counted_while_it_is_there(self, limiter_on, wire) -> None:
        limiters = [limiter_on(wire.url, timeout=0.2, heartbeat_seconds=0.0) for _ in range(3)]
        limit = RateLimit(1, 3600, 30)
        for limiter in limiters:
            await ask(limiter, limit)
        await ask(limiters[0], limit)
        assert limiters[0].workers == 3
        await wire.cut()
        # 26 of 30 are left, and a third of them are this worker's.
        assert await admitted(limiters[0], 30, limit) == pytest.approx(26 / 3, abs=1)

    async def test_a_value_that_is_no_number_counts_as_unused(self, limiter_on, valkey, clients) -> None:
        limiter = limiter_on(valkey.url)
        limit = RateLimit(1, 3600, 3)
        await ask(limiter, limit)
        [bucket] = limiter._buckets.values()
        await clients(valkey.url).set(bucket.name, "rubbish", px=60_000)
        assert await admitted(limiter, 9, limit) == 3

    async def test_a_key_of_another_type_fails_no_call(self, limiter_on, valkey, clients) -> None:
        limiter = limiter_on(valkey.url)
        limit = RateLimit(1, 3600, 3)
        await ask(limiter, limit)
        [bucket] = limiter._buckets.values()
        client = clients(valkey.url)
        await client.delete(bucket.name)
        await client.rpush(bucket.name, "x")
        assert await admitted(limiter, 9, limit) == 2
        await client.delete(bucket.name)


class TestTheForm:
    @pytest.mark.parametrize(
        ("text", "limit"),
        [
            ("600/60", RateLimit(600, 60, 600)),
            ("600/60:50", RateLimit(600, 60, 50)),
            (" 1/1 ", RateLimit(1, 1, 1)),
        ],
    )
    def test_text(self, text, limit) -> None:
        assert RateLimit.parse(text) == limit

    @for_each("text", ["", "600", "0/60", "60/0", "600/60:0", "1/86401", "9999999/1", "-1/1", "a/b"])
    def test_other_text(self, text) -> None:
        with pytest.raises(ValueError, match="REQUESTS/SECONDS"):
            RateLimit.parse(text)

    def test_a_limit_covers_what_allows_no_more(self) -> None:
        own = RateLimit(100, 60, 20)
        assert own.covers(RateLimit(100, 60, 20))
        assert own.covers(RateLimit(1, 1, 1))
        assert not own.covers(RateLimit(100, 60, 21))
        assert not own.covers(RateLimit(2, 1, 1))
        assert not own.covers(None)


async def read(limiter, key=None, provider=None):
    return await limiter.read(TENANT, key_id="k", key=key, provider_id=PROVIDER, provider=provider)


class TestReading:
    """`read` says what `admit` would do, and counts nothing."""

    @pytest.mark.parametrize("has_redis", [True, False])
    async def test_reading_counts_nothing_and_agrees_with_the_next_call(
        self, limiter_on, valkey, vault, has_redis
    ) -> None:
        limiter = limiter_on(valkey.url) if has_redis else RateLimiter(RedisClient(None), vault)
        key, provider = RateLimit(1, 3600, 3), RateLimit(1, 3600, 2)
        for left in ([3, 2], [2, 1]):
            for _ in range(3):
                state = await read(limiter, key, provider)
                assert (state.admitted, state.remaining()) == (True, left)
            await ask(limiter, key, provider)
        state = await read(limiter, key, provider)
        assert (state.admitted, state.remaining()) == (False, [1, 0])
        assert state.longest_wait_bucket().kind == "provider"
        with pytest.raises(RateLimited) as rejected:
            await ask(limiter, key, provider)
        assert abs(int(rejected.value.headers["Retry-After"]) - state.retry_after()) <= 5

    async def test_without_limits_a_call_is_admitted(self, limiter_on, valkey) -> None:
        assert (await read(limiter_on(valkey.url))).admitted

    async def test_a_read_leaves_no_key_in_redis(self, limiter_on, valkey, clients) -> None:
        limiter, client = limiter_on(valkey.url), clients(valkey.url)
        before = await client.dbsize()
        await read(limiter, RateLimit(7, 3600, 7))
        assert await client.dbsize() == before
