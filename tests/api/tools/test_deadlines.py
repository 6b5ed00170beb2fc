"""X-Timeout-Ms: a client may shorten the timeouts of the settings, never extend them."""

import asyncio

import pytest
from sqlalchemy import text

from app.calls.log.strict import StrictCallLog
from tests.harness.cases import for_each

AMPLE_SECONDS = 15
"""Within which each of these calls ends; without its deadline it would take 30 s or more."""


async def client_of_tool(api, upstream, path, **limits):
    provider = await api.provider("api", limits=limits)
    await api.tool(provider, "one", {"url": upstream.url + path})
    return await api.client()


@pytest.fixture
async def client(api, upstream):
    """A client of a tool."""
    return await client_of_tool(api, upstream, "/x")


@pytest.mark.parametrize(
    "path", ["/slow", "/drip?pause=0.1&size=200", "/drip?pause=5"], ids=["first byte", "total", "idle"]
)
async def test_the_clients_timeout_ends_a_call(api, upstream, path):
    client = await client_of_tool(api, upstream, path)
    async with asyncio.timeout(AMPLE_SECONDS):
        response = await client.post(
            "/tools/api.one/call", headers={"X-Timeout-Ms": "300", "Accept": "application/json"}
        )
    assert (response.status_code, response.json()["type"].rpartition(":")[2]) == (504, "upstream-timeout")
    record = (await api.calls())[0]
    assert record["outcome"] == "upstream-timeout"
    # Not before its time either.
    assert record["duration_ms"] > 250


async def test_the_header_does_not_extend_the_timeout_of_the_provider(api, upstream):
    client = await client_of_tool(api, upstream, "/slow", total=0.3)
    async with asyncio.timeout(AMPLE_SECONDS):
        response = await client.post("/tools/api.one/call", headers={"X-Timeout-Ms": "60000"})
    assert response.status_code == 504


async def test_a_call_within_its_timeout_succeeds(api, upstream):
    client = await client_of_tool(api, upstream, "/x")
    assert (await client.post("/tools/api.one/call", headers={"X-Timeout-Ms": "5000"})).status_code == 200


@for_each("value", ["", "0", "-1", "1.5", "1e3", "soon", "10, 20", "9" * 10, "٣"])
async def test_an_invalid_timeout_header_is_rejected_and_nothing_sent(client, upstream, value):
    response = await client.post("/tools/api.one/call", headers=[("X-Timeout-Ms", value.encode())])
    assert response.status_code == 422
    assert [error["pointer"] for error in response.json()["errors"]] == ["#/header/X-Timeout-Ms"]
    twice = await client.post("/tools/api.one/call", headers=[("X-Timeout-Ms", "10"), ("X-Timeout-Ms", "10")])
    assert twice.status_code == 422
    assert upstream.requests == []


async def test_client_timeouts_do_not_open_the_breaker(api, upstream):
    provider = await api.provider("api")
    await api.tool(provider, "late", {"url": f"{upstream.url}/slow"})
    await api.tool(provider, "fine", {"url": f"{upstream.url}/x"})
    client = await api.client()
    for _ in range(12):
        late = await client.post("/tools/api.late/call", headers={"X-Timeout-Ms": "20"})
        assert late.status_code == 504
    assert (await client.post("/tools/api.fine/call")).status_code == 200


async def test_the_wait_for_a_record_ends_with_the_clients_timeout(api, upstream):
    provider = await api.provider("api")
    await api.tool(provider, "pay", {"url": f"{upstream.url}/x", "http_method": "POST"})
    recorder = StrictCallLog(api.services.call_log, dsn=api.services.database.dsn, wait_seconds=60)
    async with (
        asyncio.timeout(AMPLE_SECONDS),
        api.with_services(calls={"call_log": recorder}) as strict,
        api.services.database.transaction() as session,
    ):
        client = await strict.client()
        await session.execute(text("LOCK TABLE calls IN ACCESS EXCLUSIVE MODE"))
        response = await client.post("/tools/api.pay/call", headers={"X-Timeout-Ms": "300"})
    assert (response.status_code, response.json()["type"].rpartition(":")[2]) == (503, "call-log-unavailable")
    assert upstream.requests == []
    await recorder.flush()
    [call] = await api.calls()
    assert call["outcome"] == "call-log-unavailable"
    await recorder._connection.aclose()


async def test_the_wait_for_an_idempotency_key_ends_with_the_clients_timeout(api, upstream):
    provider = await api.provider("api")
    await api.tool(provider, "pay", {"url": f"{upstream.url}/x", "http_method": "POST"})
    client = await api.client()
    async with api.services.database.transaction() as session:
        await session.execute(text("LOCK TABLE idempotency_keys IN ACCESS EXCLUSIVE MODE"))
        response = await client.post(
            "/tools/api.pay/call", headers={"X-Timeout-Ms": "800", "Idempotency-Key": "once"}
        )
        second = await client.post(
            "/tools/api.pay/call", headers={"X-Timeout-Ms": "400", "Idempotency-Key": "once"}
        )
    # Without the header it would be 503, after the two seconds of the store.
    assert (response.status_code, response.json()["type"].rpartition(":")[2]) == (504, "deadline-exceeded")
    # The second has not even the time that the first has waited already.
    assert (second.status_code, second.json()["type"].rpartition(":")[2]) == (503, "overloaded")
    assert "Retry-After" in second.headers
    assert all("X-Error-Source" not in one.headers for one in (response, second))
    assert upstream.requests == []
    async with asyncio.timeout(10):
        # What was begun for a call that has ended is released.
        while api.services.database.connection_counts()[0] or len(api.services.calls.idempotency):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    made = await client.post("/tools/api.pay/call", headers={"Idempotency-Key": "once"})
    assert (made.status_code, len(upstream.requests)) == (200, 1)


async def test_nothing_is_sent_after_the_deadline(api, upstream):
    provider = await api.provider("api")
    await api.tool(provider, "pay", {"url": f"{upstream.url}/x", "http_method": "POST"})
    client = await api.client()
    async with api.services.database.transaction() as session:
        # The plan is not known yet, and waits for the lock.
        await session.execute(text("LOCK TABLE tools IN ACCESS EXCLUSIVE MODE"))
        call = asyncio.create_task(client.post("/tools/api.pay/call", headers={"X-Timeout-Ms": "100"}))
        await asyncio.sleep(0.4)
    response = await call
    assert (response.status_code, response.json()["type"].rpartition(":")[2]) == (504, "deadline-exceeded")
    assert upstream.requests == []
    assert (await api.calls())[0]["outcome"] == "deadline-exceeded"
