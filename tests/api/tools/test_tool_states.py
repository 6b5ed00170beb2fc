"""GET /tools by state (used, destructive, ...), by names, and with the usage of each tool."""

from datetime import UTC, datetime, timedelta

import pytest

from app.storage.models import CallStat


async def names(client, query):
    response = await client.get(f"/tools?{query}")
    assert response.status_code == 200, response.text
    return [tool["name"] for tool in response.json()["items"]]


@pytest.fixture
async def books(api):
    return await api.provider("library")


async def count(api, tool, *, calls, outcome="ok", hours=1, duration_bin=20):
    at = (datetime.now(UTC) - timedelta(hours=hours)).replace(minute=0, second=0, microsecond=0)
    async with api.services.database.transaction() as session:
        session.add(
            CallStat(
                resolution="hour", at=at, provider=tool.partition(".")[0], tool=tool, key_id="k",
                outcome=outcome, bin=duration_bin, shard=0, calls=calls, duration_ms=calls * duration_bin,
                max_duration_ms=duration_bin, request_bytes=0, response_bytes=0,
            )
        )  # fmt: skip


async def test_used_are_the_tools_that_were_called_in_the_last_seven_days(api, books):
    for name in ("now", "before", "never"):
        await api.tool(books, name, {"url": "https://x.example/a"})
    await count(api, "library.now", calls=2)
    await count(api, "library.before", calls=2, hours=24 * 8)
    client = await api.client("tools:read", "calls:read")
    assert await names(client, "state=used") == ["library.now"]
    assert await names(client, "state=unused") == ["library.before", "library.never"]


async def test_destructive_is_what_the_annotations_say(api, books):
    async def tool(name, template, annotations=None):
        override = None if annotations is None else {"annotations": annotations}
        await api.tool(books, name, template, override=override)

    url = {"url": "https://x.example/a"}
    await tool("deletes", {**url, "http_method": "DELETE"})
    await tool("replaces", {**url, "http_method": "PUT"})
    await tool("posts", {**url, "http_method": "POST"})
    await tool("gets", url)
    await tool("said", {**url, "http_method": "POST"}, {"destructive": True})
    await tool("denied", {**url, "http_method": "DELETE"}, {"destructive": False})
    await tool("reads", {**url, "http_method": "DELETE"}, {"read_only": True})
    await tool("unset", {**url, "http_method": "DELETE"}, {"open_world": False})
    await tool("risky", {**url, "toolclad": {"risk_tier": "high"}})
    await tool(
        "writes",
        {"call_template_type": "filesystem", "operation": "write", "root": "/x", "http_method": None},
    )
    await tool("opens", {"call_template_type": "filesystem", "operation": "read", "root": "/x"})
    client = await api.client()
    found = await names(client, "state=destructive")
    assert found == [
        f"library.{name}" for name in ("deletes", "replaces", "risky", "said", "unset", "writes")
    ]
    listed = (await client.get("/tools")).json()["items"]
    assert found == [tool["name"] for tool in listed if tool["annotations"]["destructive"]]


async def test_missing_credential_is_decided_by_whole_alternatives(api):
    need = lambda *slots: [{"slot": slot, "scopes": []} for slot in slots]  # noqa: E731
    url = {"url": "https://x.example/a"}
    books = await api.provider("library")
    other = await api.provider("other")
    await api.credential(books, "key", "api_key", {"value": "v"}, origins=["https://x.example"])
    await api.credential(
        books,
        "unset",
        "api_key",
        {"value": "${NO_SUCH}"},
        origins=["https://x.example"],
        variables=["NO_SUCH"],
    )
    await api.tool(books, "open", url)
    await api.tool(books, "has", url, security=[need("key")])
    await api.tool(books, "half", url, security=[need("key", "oauth")])
    await api.tool(books, "either", url, security=[need("oauth"), need("key")])
    await api.tool(books, "optional", url, security=[need("oauth"), []])
    await api.tool(books, "variable", url, security=[need("unset")])
    await api.tool(other, "foreign", url, security=[need("key")])
    client = await api.client()
    found = await names(client, "state=missing-credential")
    assert found == ["library.half", "library.variable", "other.foreign"]
    await api.services.conditions.refresh(force=True)
    listed = (await client.get("/tools")).json()["items"]
    assert found == [tool["name"] for tool in listed if tool["missing_credential"]]
    assert (await client.get("/tools/library.half")).json()["missing_credential"] is True


async def test_usage_is_that_of_the_last_seven_days(api, books):
    await api.tool(books, "a", {"url": "https://x.example/a"})
    await api.tool(books, "b", {"url": "https://x.example/a"})
    await count(api, "library.a", calls=90, duration_bin=10)
    await count(api, "library.a", calls=10, duration_bin=30)
    await count(api, "library.a", calls=7, outcome="upstream-error", duration_bin=30)
    await count(api, "library.a", calls=500, hours=24 * 8, duration_bin=40)
    client = await api.client("tools:read", "calls:read")
    one, other = (await client.get("/tools?usage=true")).json()["items"]
    assert one["usage"] == {"calls": 107, "errors": 7, "p95_ms": 30, "last_called_at": None}
    assert other["usage"] == {"calls": 0, "errors": 0, "p95_ms": None, "last_called_at": None}
    assert (await client.get("/tools")).json()["items"][0]["usage"] is None


async def test_last_call_is_that_of_the_records(api, books, upstream):
    await api.tool(books, "a", {"url": f"{upstream.url}/a"})
    caller = await api.client()
    assert (await caller.post("/tools/library.a/call", json={})).status_code == 200
    record = await api.recorded_call()
    client = await api.client("tools:read", "calls:read")
    (tool,) = (await client.get("/tools?usage=true")).json()["items"]
    assert (tool["usage"]["calls"], tool["usage"]["last_called_at"]) == (1, record["at"])


@pytest.mark.parametrize("query", ["usage=true", "state=used", "state=unused"])
async def test_what_tells_of_calls_needs_the_scope_for_reading_them(api, query):
    response = await (await api.client("tools:read")).get(f"/tools?{query}")
    assert response.status_code == 403
    assert "calls:read" in response.json()["detail"]


async def test_names_select_and_the_key_still_decides(api, books):
    other = await api.provider("other")
    for provider in (books, other):
        for name in ("a", "b"):
            await api.tool(provider, name, {"url": "https://x.example/a"})
    client = await api.client()
    assert await names(client, "names=other.b&names=library.a&names=library.none") == ["library.a", "other.b"]
    limited = await api.client("tools:read", providers=["other"])
    assert await names(limited, "names=other.b&names=library.a") == ["other.b"]
    assert (await client.get("/tools?names=no%20name")).status_code == 422


async def test_cost_is_that_of_the_search(api, books):
    schema = {"type": "object", "properties": {"q": {"type": "string", "description": "Words."}}}
    await api.tool(books, "a", {"url": "https://x.example/a"}, inputs=schema, average_response_size=300)
    client = await api.client()
    (hit,) = (await client.get("/tools/search?q=")).json()["items"]
    (tool,) = (await client.get("/tools")).json()["items"]
    assert tool["cost"] == hit["cost"]
    assert tool["cost"]["average_response_size"] == 300
