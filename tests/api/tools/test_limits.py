"""Rate limits, Idempotency-Key and the response cache, at the route itself."""

import asyncio
import json
from contextlib import AsyncExitStack
from uuid import UUID, uuid4

import pytest
from aiohttp import web
from sqlalchemy import text

from app.calls.idempotency.call import ReplayedError
from app.calls.idempotency.store import IdempotencyStore
from app.calls.rate_limiter import RateLimiter
from app.catalog.feed import record_change
from app.core.rate_limit import RateLimit
from app.storage.database import Database
from app.storage.redis import RedisClient, connect
from tests.harness.beside import web_server
from tests.harness.cases import for_each
from tests.harness.valkey import own_valkey, wire_to

RATE_LIMIT_HEADERS = (
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
)
SLUG = "urn:utcp-gateway:problem:"


class Site:
    """An upstream that counts its requests, with the delays and errors that the test sets."""

    def __init__(self) -> None:
        self.url = ""
        self.done = 0
        self.begun = 0
        self.keys: list[str | None] = []
        self.conditions: list[str | None] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.gate: asyncio.Event | None = None
        self.started = asyncio.Event()
        self.size = 0

    async def act(self, request: web.Request) -> web.Response:
        await request.read()
        self.begun += 1
        self.keys.append(request.headers.get("Idempotency-Key"))
        self.conditions.append(request.headers.get("If-None-Match"))
        number = self.begun
        self.started.set()
        if self.gate is not None:
            await self.gate.wait()
        self.done += 1
        if self.headers.get("ETag") and request.headers.get("If-None-Match") == self.headers["ETag"]:
            return web.Response(status=304, headers=self.headers)
        if self.size:
            return web.Response(body=b"x" * self.size, headers=self.headers)
        return web.json_response({"number": number}, status=self.status, headers=self.headers)


@pytest.fixture
async def site():
    site = Site()
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", site.act)
    async with web_server(application) as site.url:
        yield site


@pytest.fixture
async def tool(api, site):
    """`await tool(method, **limits)` gives the path of a call; its provider has these limits."""

    async def make(method="POST", *, limits=None):
        name = f"p{uuid4().hex[:8]}"
        provider = await api.provider(name, limits={"attempts": 1, **(limits or {})})
        await api.tool(
            provider,
            "act",
            {"url": f"{site.url}/act", "http_method": method},
            inputs={"type": "object"},
        )
        return f"/tools/{name}.act/call"

    return make


async def count_scripts(api) -> int:
    """Return how often a script has run: limits run no other command, and nothing else runs a script."""
    counts = await api.services.redis.info("commandstats")
    return sum(counts.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))


class TestRateLimits:
    async def test_calls_above_the_limit_of_a_key_are_rejected(self, api, tool):
        path = await tool()
        client = await api.client(rate=RateLimit(60, 60, 2))
        first = await client.post(path, json={})
        assert first.status_code == 200
        assert first.headers["ratelimit-policy"] == '"key";q=60;w=60'
        assert first.headers["ratelimit"] == '"key";r=1;t=1'
        assert [first.headers[name] for name in RATE_LIMIT_HEADERS[2:]] == ["60", "1", "1"]
        await client.post(path, json={})
        rejected = await client.post(path, json={})
        assert rejected.status_code == 429
        assert rejected.json()["type"] == SLUG + "rate-limited"
        assert rejected.headers["retry-after"] == "1"
        assert rejected.headers["ratelimit-remaining"] == "0"
        assert rejected.headers["x-call-id"] == rejected.json()["call_id"]
        assert (await api.calls())[0]["outcome"] == "rate-limited"

    async def test_a_provider_with_a_limit_counts_all_clients(self, api, tool, site):
        path = await tool(limits={"rate": {"requests": 1, "per_seconds": 60, "burst": 3}})
        clients = [await api.client() for _ in range(3)]
        statuses = [(await client.post(path, json={})).status_code for client in clients * 2]
        assert sorted(statuses) == [200] * 3 + [429] * 3
        assert site.done == 3

    async def test_one_command_for_a_limited_call_and_none_for_another(self, api, tool):
        limited = await tool(limits={"rate": {"requests": 1000, "per_seconds": 1}})
        free = await tool()
        client = await api.client(rate=RateLimit(1000, 1, 1000))
        other = await api.client()
        for path, sender in ((limited, client), (free, other)):
            await sender.post(path, json={})
        before = await count_scripts(api)
        for _ in range(10):
            assert (await other.post(free, json={})).status_code == 200
        assert await count_scripts(api) == before
        for _ in range(10):
            assert (await client.post(limited, json={})).status_code == 200
        assert await count_scripts(api) - before == 10

    async def test_an_upstreams_own_limit_is_passed_on_where_the_gateway_has_none(self, api, tool, site):
        path = await tool()
        site.headers = {"RateLimit-Limit": "7", "RateLimit": '"theirs";r=1', "X-RateLimit-Limit": "8"}
        free = await (await api.client()).post(path, json={})
        assert (free.headers["ratelimit-limit"], free.headers["ratelimit"]) == ("7", '"theirs";r=1')
        limited = await (await api.client(rate=RateLimit(60, 60, 60))).post(path, json={})
        assert limited.headers.get_list("ratelimit-limit") == ["60"]
        assert limited.headers["ratelimit"].startswith('"key"')
        assert limited.headers["x-ratelimit-limit"] == "8"
        site.status = 404
        rejected = await (await api.client(rate=RateLimit(60, 60, 60))).post(path, json={})
        assert rejected.status_code == 404
        assert rejected.headers.get_list("ratelimit-limit") == ["60"]

    async def test_invalid_arguments_and_dry_runs_do_not_count(self, api, tool):
        path = await tool()
        client = await api.client(rate=RateLimit(1, 60, 1))
        assert (await client.post(path, json=[])).status_code == 422
        assert (await client.post(path + "?dry_run=true", json={})).status_code == 200
        assert (await client.post(path, json={})).status_code == 200

    async def test_without_redis_no_call_fails(self, api, tool):
        with own_valkey() as valkey:
            async with wire_to(valkey.path) as wire, AsyncExitStack() as stack:
                client = connect(wire.url, timeout=0.1)
                patient, eager = (RedisClient(client, retry_seconds=seconds) for seconds in (600, 0.05))
                path = await tool()

                async def limited_by(redis):
                    limiter = RateLimiter(redis, api.services.vault)
                    running = await stack.enter_async_context(
                        api.with_services(calls={"rate_limiter": limiter})
                    )
                    return await running.client(rate=RateLimit(1000, 1, 1000))

                async def many(number):
                    return {(await limited.post(path, json={})).status_code for _ in range(number)}

                limited = await limited_by(patient)
                assert await many(5) == {200}
                wire.hole = True
                assert await many(30) == {200}
                # One of them has waited for the timeout of a command.
                assert patient.failures == 1
                limited = await limited_by(eager)
                wire.hole = False
                await wire.cut()
                assert await many(10) == {200}
                assert eager.is_unavailable
                await wire.open()
                async with asyncio.timeout(15):
                    while eager.is_unavailable:
                        assert await many(2) == {200}
                other = connect(valkey.url)
                await other.flushall()
                await other.script_flush()
                assert await many(5) == {200}
                for one in (client, other):
                    await one.aclose()
                    await one.connection_pool.disconnect()


class TestIdempotencyKeys:
    async def test_a_call_is_carried_out_once(self, api, tool, site):
        path, client = await tool(), await api.client()
        headers = {"Idempotency-Key": uuid4().hex}
        first = await client.post(path, json={"a": 1, "b": 2}, headers=headers)
        again = await client.post(path, content=b'{"b": 2, "a": 1}', headers=headers)
        assert site.done == 1
        assert (first.status_code, first.json()) == (again.status_code, again.json()) == (200, {"number": 1})
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
        assert again.headers["x-call-id"] == first.headers["x-call-id"]
        assert again.headers["content-type"] == first.headers["content-type"]
        assert again.headers["x-upstream-status"] == "200"
        assert sorted(call["outcome"] for call in await api.calls()) == ["ok", "replayed"]

    async def test_the_key_in_quotes_is_the_same_key(self, api, tool, site):
        path, client, key = await tool(), await api.client(), uuid4().hex
        await client.post(path, json={}, headers={"Idempotency-Key": key})
        again = await client.post(path, json={}, headers={"Idempotency-Key": f'"{key}"'})
        assert again.headers["idempotency-replayed"] == "true"
        assert site.done == 1

    @for_each("key", ["", '"', '"a', 'a"b"'[3:], "a b", "x" * 256, "é", '"a";p=1', '""', '"a\\b"'])
    async def test_an_invalid_key_is_rejected(self, api, tool, site, key):
        path, client = await tool(), await api.client()
        response = await client.post(path, json={}, headers={b"Idempotency-Key": key.encode("latin-1")})
        assert response.status_code == 400
        assert response.json()["errors"][0]["pointer"] == "#/header/Idempotency-Key"
        assert site.done == 0

    async def test_two_keys_are_rejected(self, api, tool, site):
        path, client = await tool(), await api.client()
        headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "a")]
        assert (await client.post(path, json={}, headers=headers)).status_code == 400
        assert site.done == 0

    async def test_another_call_with_the_same_key_is_rejected(self, api, tool, site):
        path, other, client = await tool(), await tool(), await api.client()
        headers = {"Idempotency-Key": uuid4().hex}
        await client.post(path, json={"a": 1}, headers=headers)
        for where, arguments in ((path, {"a": 2}), (other, {"a": 1})):
            rejected = await client.post(where, json=arguments, headers=headers)
            assert rejected.status_code == 422
            assert rejected.json()["type"] == SLUG + "idempotency-mismatch"
        assert site.done == 1

    async def test_clients_have_separate_keys(self, api, tool, site):
        path = await tool()
        headers = {"Idempotency-Key": uuid4().hex}
        for client in (await api.client(), await api.client()):
            assert (await client.post(path, json={}, headers=headers)).status_code == 200
        assert site.done == 2

    async def test_a_repetition_is_rejected_while_the_first_request_runs(self, api, tool, site):
        path, client = await tool(), await api.client()
        headers = {"Idempotency-Key": uuid4().hex}
        site.gate = asyncio.Event()
        running = asyncio.create_task(client.post(path, json={}, headers=headers))
        await site.started.wait()
        rejected = await client.post(path, json={}, headers=headers)
        assert rejected.status_code == 409
        assert rejected.json()["type"] == SLUG + "idempotency-running"
        assert int(rejected.headers["retry-after"]) >= 1
        site.gate.set()
        first = await running
        assert rejected.headers["x-call-id"] == first.headers["x-call-id"]
        again = await client.post(path, json={}, headers=headers)
        assert (again.status_code, site.done) == (200, 1)

    async def test_thirty_at_once_are_one_call(self, api, tool, site):
        path, client = await tool(), await api.client()
        headers = {"Idempotency-Key": uuid4().hex}
        responses = await asyncio.gather(*(client.post(path, json={}, headers=headers) for _ in range(30)))
        assert site.done == 1
        assert {response.status_code for response in responses} <= {200, 409}

    async def test_a_client_that_disconnects_finds_the_outcome_later(self, api, tool, site):
        path, client = await tool(), await api.client()
        headers = {"Idempotency-Key": uuid4().hex}
        site.gate = asyncio.Event()
        leaving = asyncio.create_task(client.post(path, json={}, headers=headers))
        await site.started.wait()
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        await asyncio.sleep(0.3)
        site.gate.set()
        for _ in range(100):
            again = await client.post(path, json={}, headers=headers)
            if again.status_code != 409:
                break
            await asyncio.sleep(0.02)
        assert (again.status_code, again.json()) == (200, {"number": 1})
        assert (site.begun, site.done) == (1, 1)
        assert again.headers["idempotency-replayed"] == "true"
        assert sorted(call["outcome"] for call in await api.calls()).count("ok") == 1

    async def test_a_crashed_process_leaves_an_unknown_outcome(self, api, tool, site):
        path, client = await tool(), await api.client()
        headers = {"Idempotency-Key": uuid4().hex}
        first = await client.post(path, json={}, headers=headers)
        statement = "UPDATE idempotency_keys SET sealed = NULL, leased_until = now() WHERE call_id = :id"
        async with api.services.database.transaction() as session:
            await session.execute(text(statement), {"id": UUID(first.headers["x-call-id"])})
        again = await client.post(path, json={}, headers=headers)
        assert again.status_code == 409
        assert again.json()["type"] == SLUG + "idempotency-unknown"
        assert again.json()["call_id"] == first.headers["x-call-id"]
        assert site.done == 1

    async def test_a_safe_tool_is_called_again_after_a_crash(self, api, tool, site):
        path, client = await tool("GET"), await api.client()
        headers = {"Idempotency-Key": uuid4().hex}
        first = await client.post(path, json={}, headers=headers)
        statement = "UPDATE idempotency_keys SET sealed = NULL, leased_until = now() WHERE call_id = :id"
        async with api.services.database.transaction() as session:
            await session.execute(text(statement), {"id": UUID(first.headers["x-call-id"])})
        assert (await client.post(path, json={}, headers=headers)).status_code == 200
        assert site.done == 2

    @pytest.mark.parametrize(("status", "shown"), [(500, 502), (503, 502), (404, 404), (409, 409)])
    async def test_the_outcome_of_a_rejected_request_is_stored(self, api, tool, site, status, shown):
        path, client = await tool(), await api.client()
        headers = {"Idempotency-Key": uuid4().hex}
        site.status = status
        first = await client.post(path, json={}, headers=headers)
        site.status = 200
        again = await client.post(path, json={}, headers=headers)
        assert site.done == 1
        assert first.status_code == again.status_code == shown
        assert again.json() == {**first.json(), "hint": ReplayedError.hint}
        assert again.headers["idempotency-replayed"] == "true"
        assert again.headers["x-upstream-status"] == str(status)
        assert again.headers["content-type"] == "application/problem+json"

    @pytest.mark.parametrize("status", [401, 429])
    async def test_the_outcome_of_an_unexecuted_call_is_not_stored(self, api, tool, site, status):
        path, client = await tool(), await api.client()
        headers = {"Idempotency-Key": uuid4().hex}
        site.status = status
        assert (await client.post(path, json={}, headers=headers)).status_code >= 400
        site.status = 200
        assert (await client.post(path, json={}, headers=headers)).status_code == 200

    async def test_the_outcome_of_an_unsent_request_is_not_stored(self, api, site):
        provider = await api.provider("unreachable", limits={"attempts": 1, "breaker_failures": 0})
        row = await api.tool(
            provider,
            "act",
            {"url": "http://127.0.0.1:1/act", "http_method": "POST"},
            inputs={"type": "object"},
        )
        client = await api.client()
        headers = {"Idempotency-Key": uuid4().hex}
        assert (await client.post("/tools/unreachable.act/call", json={}, headers=headers)).status_code == 502
        assert row.name == "unreachable.act"
        async with api.services.database.transaction() as session:
            statement = "UPDATE tools SET call_template = jsonb_set(call_template, '{url}', to_jsonb(CAST(:u AS text)))"
            await session.execute(text(statement), {"u": f"{site.url}/act"})
        api.services.catalog._plans.clear()
        assert (await client.post("/tools/unreachable.act/call", json={}, headers=headers)).status_code == 200

    async def test_the_outcome_of_a_timeout_is_stored(self, api, tool, site):
        path, client = await tool(), await api.client()
        headers = {"Idempotency-Key": uuid4().hex}
        site.gate = asyncio.Event()
        first = await client.post(path, json={}, headers={**headers, "X-Timeout-Ms": "200"})
        site.gate.set()
        again = await client.post(path, json={}, headers=headers)
        assert (first.status_code, again.status_code, site.begun) == (504, 504, 1)

    async def test_a_large_response_goes_to_the_first_client_only(self, api, tool, site):
        path, client = await tool(), await api.client()
        headers = {"Idempotency-Key": uuid4().hex}
        site.size = (1 << 20) + 1
        first = await client.post(path, json={}, headers=headers)
        assert (first.status_code, len(first.content)) == (200, site.size)
        again = await client.post(path, json={}, headers=headers)
        assert again.status_code == 409
        assert again.json()["type"] == SLUG + "idempotency-not-stored"
        assert again.headers["x-call-id"] == first.headers["x-call-id"]
        assert site.done == 1

    async def test_a_replayed_response_that_accepts_events_is_complete(self, api, tool, site):
        path, client = await tool(), await api.client()
        headers = {"Idempotency-Key": uuid4().hex, "Accept": "text/event-stream, application/json"}
        first = await client.post(path, json={}, headers=headers)
        again = await client.post(path, json={}, headers=headers)
        assert first.json() == again.json() == {"number": 1}

    async def test_without_postgres_nothing_is_sent(self, api, tool, site):
        path, client = await tool(), await api.client()
        await client.post(path, json={})
        unavailable = IdempotencyStore(Database("postgresql://p@127.0.0.1:1/x"), api.services.vault)
        async with api.with_services(calls={"idempotency": unavailable}) as other:
            client = await other.client()
            rejected = await client.post(path, json={}, headers={"Idempotency-Key": uuid4().hex})
        await unavailable.aclose()
        assert rejected.status_code == 503
        assert int(rejected.headers["retry-after"]) >= 1
        assert site.done == 1

    async def test_an_upstream_that_takes_keys_gets_one_of_its_own(self, api, tool, site):
        path, client = await tool(limits={"idempotency_header": "Idempotency-Key"}), await api.client()
        key = uuid4().hex
        await client.post(path, json={}, headers={"Idempotency-Key": key})
        assert str(UUID(site.keys[0])) == site.keys[0] != key
        await client.post(path, json={})
        assert site.keys[1] is None

    async def test_a_call_with_an_idempotency_key_may_be_retried(self, api, tool, site):
        path = await tool(limits={"idempotency_header": "Idempotency-Key", "attempts": 3})
        client = await api.client()
        # The budget of retries is a share of the calls that were made.
        for _ in range(30):
            await client.post(path, json={})
        before, site.status = site.done, 503
        await client.post(path, json={}, headers={"Idempotency-Key": uuid4().hex})
        assert site.done - before > 1
        assert len(set(site.keys[before:])) == 1


class TestResponseCache:
    async def test_hits_misses_and_their_age(self, api, tool, site):
        path = await tool("GET", limits={"cache": {"seconds": 60}})
        site.headers = {"Cache-Control": "max-age=60"}
        client, other = await api.client(), await api.client()
        first = await client.post(path, json={})
        again = await other.post(path, json={})
        assert (first.headers["x-cache"], again.headers["x-cache"]) == ("miss", "hit")
        assert first.json() == again.json() == {"number": 1}
        assert 0 <= int(again.headers["age"]) <= 2
        assert first.headers["x-call-id"] != again.headers["x-call-id"]
        assert [call["outcome"] for call in await api.calls()] == ["ok", "ok"]

    async def test_nothing_is_cached_by_default_or_for_unsafe_tools(self, api, tool, site):
        site.headers = {"Cache-Control": "max-age=60"}
        client = await api.client()
        for path in (
            await tool("GET"),
            await tool("POST", limits={"cache": {"seconds": 60, "default_seconds": 60}}),
        ):
            for _ in range(2):
                assert "x-cache" not in (await client.post(path, json={})).headers
        assert site.done == 4

    async def test_only_the_named_tools_are_cached(self, api, site):
        provider = await api.provider("some", limits={"cache": {"seconds": 60, "tools": ["some.one"]}})
        for name in ("one", "two"):
            await api.tool(provider, name, {"url": f"{site.url}/{name}"})
        site.headers = {"Cache-Control": "max-age=60"}
        client = await api.client()
        assert "x-cache" in (await client.post("/tools/some.one/call", json={})).headers
        assert "x-cache" not in (await client.post("/tools/some.two/call", json={})).headers

    async def test_private_responses_are_cached_per_key(self, api, tool, site):
        path = await tool("GET", limits={"cache": {"seconds": 60}})
        site.headers = {"Cache-Control": "private, max-age=60"}
        one, other = await api.client(), await api.client()
        found = [(await client.post(path, json={})).headers["x-cache"] for client in (one, other, one, other)]
        assert found == ["miss", "miss", "hit", "hit"]

    async def test_a_304_of_the_upstream_revalidates_a_response(self, api, tool, site):
        path = await tool("GET", limits={"cache": {"seconds": 60}})
        site.headers = {"Cache-Control": "no-cache", "ETag": '"v1"'}
        client = await api.client()
        first = await client.post(path, json={})
        again = await client.post(path, json={})
        assert (first.headers["x-cache"], again.headers["x-cache"]) == ("miss", "revalidated")
        assert again.json() == first.json()
        assert site.conditions == [None, '"v1"']

    async def test_a_client_may_bypass_the_cache(self, api, tool, site):
        path = await tool("GET", limits={"cache": {"seconds": 60}})
        site.headers = {"Cache-Control": "max-age=60"}
        client = await api.client()
        await client.post(path, json={})
        response = await client.post(path, json={}, headers={"Cache-Control": "no-cache"})
        assert (response.headers["x-cache"], response.json()) == ("bypass", {"number": 2})

    async def test_a_new_credential_is_another_identity(self, api, tool, site):
        provider = await api.provider("mine", limits={"cache": {"seconds": 60}})
        security = [[{"slot": "key"}]]
        await api.tool(provider, "act", {"url": f"{site.url}/act"}, security=security)
        await api.credential(provider, "key", "bearer", {"token": "first-token"}, origins=[site.url])
        site.headers = {"Cache-Control": "max-age=60"}
        client = await api.client()
        path = "/tools/mine.act/call"
        found = [(await client.post(path, json={})).headers["x-cache"] for _ in range(2)]
        async with api.services.database.transaction() as session:
            await session.execute(text("DELETE FROM credentials"))
        await api.credential(provider, "key", "bearer", {"token": "other-token"}, origins=[site.url])
        found.append((await client.post(path, json={})).headers["x-cache"])
        assert found == ["miss", "hit", "miss"]

    async def test_the_second_of_two_slots_is_another_identity(self, api, tool, site):
        provider = await api.provider("slots", limits={"cache": {"seconds": 60}})
        either = [[{"slot": "one"}], [{"slot": "two"}]]
        made = await api.tool(provider, "act", {"url": f"{site.url}/act"}, security=either)
        for slot in ("one", "two"):
            await api.credential(provider, slot, "bearer", {"token": f"token-{slot}"}, origins=[site.url])
        site.headers = {"Cache-Control": "max-age=60"}
        client = await api.client()
        path = "/tools/slots.act/call"
        found = [(await client.post(path, json={})).headers["x-cache"] for _ in range(2)]
        async with api.services.database.transaction() as session:
            turned = {"security": json.dumps(either[::-1])}
            await session.execute(text("UPDATE tools SET security = CAST(:security AS jsonb)"), turned)
            await record_change(session, kind="tool", provider_id=provider.id, object_id=str(made.id))
        await api.services.feed.catch_up()
        found.append((await client.post(path, json={})).headers["x-cache"])
        assert found == ["miss", "hit", "miss"]

    async def test_fifty_misses_at_once_are_one_request(self, api, tool, site):
        path = await tool("GET", limits={"cache": {"seconds": 60}})
        site.headers = {"Cache-Control": "max-age=60"}
        site.gate = asyncio.Event()
        client = await api.client()
        calls = [asyncio.create_task(client.post(path, json={})) for _ in range(50)]
        await site.started.wait()
        await asyncio.sleep(0.1)
        site.gate.set()
        responses = await asyncio.gather(*calls)
        assert site.done == 1
        assert {response.json()["number"] for response in responses} == {1}

    async def test_a_first_client_that_disconnects_does_not_fail_the_others(self, api, tool, site):
        path = await tool("GET", limits={"cache": {"seconds": 60}})
        site.headers = {"Cache-Control": "max-age=60"}
        site.gate = asyncio.Event()
        first, client = await api.client(), await api.client()
        leader = asyncio.create_task(first.post(path, json={}))
        await site.started.wait()
        followers = [asyncio.create_task(client.post(path, json={})) for _ in range(10)]
        await asyncio.sleep(0.2)
        leader.cancel()
        await asyncio.sleep(0.3)
        site.gate.set()
        responses = await asyncio.gather(*followers)
        assert {response.status_code for response in responses} == {200}
        assert site.begun == 2

    async def test_a_stale_response_is_served_while_the_upstream_fails(self, api, tool, site):
        path = await tool("GET", limits={"cache": {"seconds": 60, "stale_if_error": 60}})
        site.headers = {"Cache-Control": "max-age=60", "Age": "59"}
        client = await api.client()
        await client.post(path, json={})
        site.status = 503
        response = await client.post(path, json={}, headers={"Cache-Control": "max-age=1"})
        assert (response.status_code, response.headers["x-cache"]) == (200, "stale")
