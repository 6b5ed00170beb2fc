"""The header `API-Key-Expires`: on every response to a request with a key that expires soon."""

from datetime import UTC, datetime, timedelta

import pytest

from app.access.repository import find_key
from app.catalog.feed import record_change


@pytest.fixture
async def client_until(api):
    """Returns a client whose key expires after so many days, and the moment."""

    async def make(days):
        client = await api.client("tools:read", "tools:call")
        moment = datetime.now(UTC) + timedelta(days=days)
        async with api.services.database.transaction() as session:
            row = await find_key(session, client.headers["Authorization"].split("_")[1])
            row.expires_at = moment
            session.add(row)
            await record_change(session, kind="key", object_id=row.key_id)
        await api.services.feed.catch_up()
        return client, moment.strftime("%a, %d %b %Y %H:%M:%S GMT")

    return make


async def test_responses_and_problems_have_the_date(api, upstream, client_until):
    provider = await api.provider()
    await api.tool(provider, "one", {"url": f"{upstream.url}/x"})
    client, date = await client_until(3)
    responses = [
        await client.get("/tools"),
        await client.get("/me"),
        await client.get("/tools/unknown.tool"),
        await client.get("/keys"),
        await client.post("/tools/api.one/call", json={}),
        await client.post("/tools/api.absent/call", json={}),
    ]
    assert [one.status_code for one in responses] == [200, 200, 404, 403, 200, 404]
    assert {one.headers.get("api-key-expires") for one in responses} == {date}
    assert upstream.requests[0][2].get("API-Key-Expires") is None


async def test_a_key_that_expires_later_or_never_has_no_date(api, client_until):
    client, _ = await client_until(15)
    assert "api-key-expires" not in (await client.get("/tools")).headers
    assert "api-key-expires" not in (await (await api.client()).get("/tools")).headers
    assert "api-key-expires" not in (await client.get("/health/live")).headers


async def test_the_metric_counts_keys_that_expire_soon(api, client_until):
    await client_until(3)
    await api.services.key_expiry.check()
    reader = await api.client("metrics:read")
    assert "utcp_gateway_api_keys_expiring 1.0" in (await reader.get("/metrics")).text
