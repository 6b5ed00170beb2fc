"""The response cache: who gets what from memory, and who sends a request to the upstream."""

import asyncio

import pytest

from app.calls.response.cache import CacheKey, ResponseCache
from app.catalog.cache_rule import CacheRule
from app.core.deadlines import get_timer_queue
from app.core.errors import (
    UpstreamErrorResponse,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.protocols.base import Result

RULE = CacheRule(seconds=1000)
LENIENT = CacheRule(seconds=1000, stale_if_error=1000)


class Source:
    """An upstream: it counts, and responses what it was told."""

    def __init__(self, body=b"body", **headers) -> None:
        self.body = body
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.asked: list[dict[str, str]] = []
        self.error: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.streams = False

    async def __call__(self, conditions) -> Result:
        self.asked.append(dict(conditions))
        number = len(self.asked)
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        passed = [("X-Number", str(number))]
        same = (
            self.headers.get("etag") is not None
            and self.asked[-1].get("If-None-Match") == self.headers["etag"]
        )
        if same:
            return Result(304, passed, "", b"", upstream_headers=self.headers)
        if not self.streams:
            return Result(200, passed, "text/plain", self.body, upstream_headers=self.headers)
        return Result(200, passed, "text/plain", None, self._pieces(), upstream_headers=self.headers)

    async def _pieces(self):
        for start in range(0, len(self.body), 100):
            yield self.body[start : start + 100]


@pytest.fixture
async def responses() -> ResponseCache:
    return ResponseCache(get_timer_queue(), capacity=1 << 20)


def key_of(exact=b"GET /", *, identity=b"", client="a", rule=RULE, cache_control="", seconds=5.0) -> CacheKey:
    deadline = asyncio.get_running_loop().time() + seconds
    return CacheKey(
        exact, credentials=identity, client=client, rule=rule, cache_control=cache_control, deadline=deadline
    )


def cache_status(result: Result) -> str:
    [found] = [value for name, value in result.headers if name == "X-Cache"]
    return found


async def ask(responses, source, **more) -> tuple[str, bytes]:
    result = await responses.get(key_of(**more), source)
    return cache_status(result), await result.read()


class TestOneAfterTheOther:
    async def test_what_is_fresh_is_not_requested(self, responses) -> None:
        source = Source(cache_control="max-age=60")
        assert await ask(responses, source) == ("miss", b"body")
        assert await ask(responses, source) == ("hit", b"body")
        assert len(source.asked) == 1

    async def test_its_age_is_in_the_response(self, responses) -> None:
        source = Source(cache_control="max-age=60", age="20")
        await ask(responses, source)
        result = await responses.get(key_of(), source)
        assert ("Age", "20") in result.headers
        assert ("X-Number", "1") in result.headers

    @pytest.mark.parametrize("said", ["no-store", "max-age=0", ""])
    async def test_what_may_not_be_cached_is_requested(self, responses, said) -> None:
        source = Source(cache_control=said)
        assert [await ask(responses, source) for _ in range(2)] == [("miss", b"body")] * 2
        assert len(responses) == 0

    async def test_what_has_grown_stale_is_requested(self, responses) -> None:
        source = Source(cache_control="max-age=60")
        await ask(responses, source)
        assert (await ask(responses, source, rule=CacheRule(seconds=0.000001)))[0] == "miss"

    async def test_other_requests_credentials_and_private_clients_are_kept_apart(self, responses) -> None:
        source = Source(cache_control="private, max-age=60")
        await ask(responses, source)
        assert (await ask(responses, source))[0] == "hit"
        assert (await ask(responses, source, exact=b"GET /2"))[0] == "miss"
        assert (await ask(responses, source, identity=b"other:1"))[0] == "miss"
        assert (await ask(responses, source, client="b"))[0] == "miss"
        assert (await ask(responses, source, client="b"))[0] == "hit"

    async def test_the_parts_of_a_key_do_not_run_together(self) -> None:
        one = key_of(b"ab", identity=b"c")
        other = key_of(b"b", identity=b"ca")
        assert one.shared != other.shared

    async def test_clients_share_what_is_not_private(self, responses) -> None:
        source = Source(cache_control="max-age=60")
        await ask(responses, source, client="a")
        assert (await ask(responses, source, client="b"))[0] == "hit"


class TestRevalidation:
    async def test_a_304_makes_it_fresh_again(self, responses) -> None:
        source = Source(cache_control="no-cache", etag='"1"')
        await ask(responses, source)
        assert await ask(responses, source) == ("revalidated", b"body")
        assert source.asked == [{}, {"If-None-Match": '"1"'}]

    async def test_headers_of_the_304_replace_the_old(self, responses) -> None:
        source = Source(cache_control="no-cache", etag='"1"')
        await ask(responses, source)
        source.headers = {"cache-control": "max-age=60", "etag": '"1"'}
        result = await responses.get(key_of(), source)
        assert ("X-Number", "2") in result.headers
        assert ("X-Number", "1") not in result.headers
        assert (await ask(responses, source))[0] == "hit"

    async def test_a_changed_response_takes_its_place(self, responses) -> None:
        source = Source(cache_control="no-cache", etag='"1"')
        await ask(responses, source)
        source.headers, source.body = {"cache-control": "max-age=60", "etag": '"2"'}, b"new"
        assert await ask(responses, source) == ("miss", b"new")
        assert await ask(responses, source) == ("hit", b"new")
        assert len(responses) == 1

    async def test_a_304_about_something_else_is_not_believed(self, responses) -> None:
        source = Source(cache_control="no-cache", etag='"1"')
        await ask(responses, source)

        async def other(conditions):
            if conditions:
                return Result(304, [], "", b"", upstream_headers={"etag": '"9"'})
            return await source(conditions)

        assert await ask(responses, other) == ("miss", b"body")

    async def test_a_304_that_forbids_keeping_is_followed_by_a_full_response(self, responses) -> None:
        source = Source(cache_control="no-cache", etag='"1"')
        await ask(responses, source)

        async def now_secret(conditions):
            if conditions:
                return Result(304, [], "", b"", upstream_headers={"etag": '"1"', "cache-control": "no-store"})
            return await source(conditions)

        assert await ask(responses, now_secret) == ("miss", b"body")


class TestWhatCallersSay:
    async def test_no_cache_goes_by_and_renews(self, responses) -> None:
        source = Source(cache_control="max-age=60")
        await ask(responses, source)
        source.body = b"new"
        assert await ask(responses, source, cache_control="no-cache") == ("bypass", b"new")
        assert await ask(responses, source) == ("hit", b"new")

    async def test_no_store_leaves_no_trace(self, responses) -> None:
        source = Source(cache_control="max-age=60")
        assert await ask(responses, source, cache_control="no-store") == ("bypass", b"body")
        assert len(responses) == 0

    async def test_max_age(self, responses) -> None:
        source = Source(cache_control="max-age=60", age="20")
        await ask(responses, source)
        assert (await ask(responses, source, cache_control="max-age=30"))[0] == "hit"
        assert (await ask(responses, source, cache_control="max-age=10"))[0] == "miss"


class TestErrors:
    @pytest.mark.parametrize(
        "error",
        [
            UpstreamTimeout(),
            UpstreamUnreachable(),
            UpstreamRejected("no", response=UpstreamErrorResponse(503)),
        ],
    )
    async def test_an_older_response_stands_in_where_that_is_allowed(self, responses, error) -> None:
        source = Source(cache_control="max-age=60", age="59.9")
        source.headers["age"] = "59"
        await ask(responses, source, rule=LENIENT)
        source.error = error
        assert await ask(responses, source, rule=LENIENT, cache_control="max-age=1") == ("stale", b"body")

    @pytest.mark.parametrize(
        "error", [UpstreamRejected("no", response=UpstreamErrorResponse(404)), UpstreamUnauthorized()]
    )
    async def test_not_for_an_error_that_is_about_the_call(self, responses, error) -> None:
        source = Source(cache_control="max-age=60", age="20")
        await ask(responses, source, rule=LENIENT)
        source.error = error
        with pytest.raises(type(error)):
            await ask(responses, source, rule=LENIENT, cache_control="max-age=1")

    async def test_not_where_it_is_not_allowed(self, responses) -> None:
        source = Source(cache_control="max-age=0", etag='"1"')
        await ask(responses, source)
        source.error = UpstreamTimeout()
        with pytest.raises(UpstreamTimeout):
            await ask(responses, source)

    async def test_an_error_is_not_cached(self, responses) -> None:
        source = Source(cache_control="max-age=60")
        source.error = UpstreamTimeout()
        with pytest.raises(UpstreamTimeout):
            await ask(responses, source)
        source.error = None
        assert (await ask(responses, source))[0] == "miss"


class TestAtTheSameTime:
    async def test_a_hundred_misses_are_one_request(self, responses) -> None:
        source = Source(cache_control="max-age=60")
        source.gate = asyncio.Event()
        asking = [asyncio.create_task(ask(responses, source)) for _ in range(100)]
        await asyncio.sleep(0.01)
        source.gate.set()
        found = await asyncio.gather(*asking)
        assert len(source.asked) == 1
        assert sorted(found) == [("hit", b"body")] * 99 + [("miss", b"body")]

    async def test_who_leaves_takes_nothing_from_the_others(self, responses) -> None:
        source = Source(cache_control="max-age=60")
        source.gate = asyncio.Event()
        leader, *others = [asyncio.create_task(ask(responses, source)) for _ in range(10)]
        await asyncio.sleep(0.01)
        leader.cancel()
        await asyncio.sleep(0.01)
        source.gate.set()
        found = await asyncio.gather(*others)
        assert len(source.asked) == 2
        assert [body for _, body in found] == [b"body"] * 9

    async def test_all_get_an_error_of_their_own(self, responses) -> None:
        source = Source()
        source.gate = asyncio.Event()
        source.error = UpstreamRejected(
            "no", response=UpstreamErrorResponse(503, headers={"Retry-After": "7"})
        )
        asking = [asyncio.create_task(ask(responses, source)) for _ in range(10)]
        await asyncio.sleep(0.01)
        source.gate.set()
        errors = await asyncio.gather(*asking, return_exceptions=True)
        assert len(source.asked) == 1
        assert {(type(error), error.status, error.headers["Retry-After"]) for error in errors} == {
            (UpstreamRejected, 502, "7")
        }
        assert len({id(error) for error in errors}) == 10
        assert len({id(error.headers) for error in errors}) == 10

    async def test_each_waits_for_its_own_time(self, responses) -> None:
        source = Source(cache_control="max-age=60")
        source.gate = asyncio.Event()
        leader = asyncio.create_task(ask(responses, source))
        await asyncio.sleep(0.01)
        with pytest.raises(UpstreamTimeout):
            await ask(responses, source, seconds=0.02)
        source.gate.set()
        assert await leader == ("miss", b"body")

    async def test_a_leader_in_a_hurry_does_not_fail_the_others(self, responses) -> None:
        source = Source(cache_control="max-age=60")

        async def hurried(_conditions):
            await asyncio.sleep(0.03)
            raise UpstreamTimeout

        leader = asyncio.create_task(responses.get(key_of(seconds=0.02), hurried))
        await asyncio.sleep(0.005)
        assert await ask(responses, source) == ("miss", b"body")
        with pytest.raises(UpstreamTimeout):
            await leader

    async def test_what_cannot_be_shared_is_requested_side_by_side(self, responses) -> None:
        source = Source(cache_control="no-store")
        await ask(responses, source)
        source.gate = asyncio.Event()
        asking = [asyncio.create_task(ask(responses, source)) for _ in range(10)]
        await asyncio.sleep(0.01)
        assert len(source.asked) == 11
        source.gate.set()
        await asyncio.gather(*asking)

    async def test_private_responses_go_to_their_clients_only(self, responses) -> None:
        source = Source(cache_control="private, max-age=60")
        source.gate = asyncio.Event()
        asking = [asyncio.create_task(ask(responses, source, client=client)) for client in "aabbcc"]
        await asyncio.sleep(0.01)
        source.gate.set()
        await asyncio.gather(*asking)
        assert len(responses) == 3


class TestBounds:
    async def test_the_longest_unused_leaves(self, responses) -> None:
        source = Source(b"x" * 100_000, cache_control="max-age=60")
        for number in range(20):
            await ask(responses, source, exact=b"%d" % number)
        assert responses.bytes <= 1 << 20
        assert len(responses) == 10
        assert (await ask(responses, source, exact=b"19"))[0] == "hit"
        assert (await ask(responses, source, exact=b"0"))[0] == "miss"

    @pytest.mark.parametrize("streams", [True, False])
    async def test_a_large_response_is_passed_on_whole_and_not_cached(self, responses, streams) -> None:
        # An eighth of the memory is the most that one may take.
        body = bytes(range(256)) * 600
        source = Source(body, cache_control="max-age=60")
        source.streams = streams
        result = await responses.get(key_of(), source)
        assert await result.read() == body
        assert len(responses) == 0

    async def test_a_small_stream_is_cached(self, responses) -> None:
        source = Source(b"y" * 1000, cache_control="max-age=60")
        source.streams = True
        assert await ask(responses, source) == ("miss", b"y" * 1000)
        assert await ask(responses, source) == ("hit", b"y" * 1000)

    async def test_memory_of_none(self) -> None:
        responses = ResponseCache(get_timer_queue(), capacity=0)
        source = Source(cache_control="max-age=60")
        assert [await ask(responses, source) for _ in range(2)] == [("bypass", b"body")] * 2

    async def test_headers_count(self, responses) -> None:
        source = Source(b"", cache_control="max-age=60", etag='"' + "x" * 200_000 + '"')
        for number in range(20):
            await ask(responses, source, exact=b"%d" % number)
        assert len(responses) == 5
        for number in range(15, 20):
            assert (await ask(responses, source, exact=b"%d" % number, rule=CacheRule(0)))[0] == "revalidated"
        assert 1_000_000 < responses.bytes <= 1 << 20
