"""What a search says by which a client decides: effects, cost, health, missing credentials, and where to go on."""

from datetime import UTC, datetime

import pytest

from app.calls.log.entries import CallLogEntry
from app.core.uuid7 import uuid7
from app.storage.models import TENANT

SLOT = [[{"slot": "token"}]]
SECRET = "canary-of-the-shop"
TOOL = {"call_template_type": "http", "http_method": "GET", "url": "https://shop.example.com/orders"}


@pytest.fixture
async def shop(api):
    shop = await api.provider("shop", tags=["sales"])
    inputs = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "internalCode": {"type": "string"}},
        "required": ["id"],
    }
    await api.tool(
        shop, "getOrder", TOOL, description="One order of a customer.", inputs=inputs, security=SLOT,
        average_response_size=120_000,
    )  # fmt: skip
    await api.tool(shop, "deleteOrder", TOOL | {"http_method": "DELETE"}, description="Delete an order.")
    await refresh(api)
    return shop


async def refresh(api):
    await api.services.conditions.refresh()


async def record(api, outcome, count, *, duration_ms=20.0, tool="shop.getOrder"):
    for _ in range(count):
        call_id = uuid7()
        entry = CallLogEntry(
            id=call_id, at=datetime.now(UTC), tenant_id=TENANT, key_id="other", provider="shop", tool=tool,
            outcome=outcome, status=200, upstream_status=200, duration_ms=duration_ms, request_bytes=1,
            response_bytes=1,
        )  # fmt: skip
        api.services.call_log.record(entry)
    await api.services.call_log.flush()


async def hit(client, q="getOrder", path="/tools/search"):
    response = await client.get(path, params={"q": q})
    assert response.status_code == 200, response.text
    return response.json()["items"][0]


async def find(client, query, path="/mcp", **arguments):
    body = {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "find_tools", "arguments": {"query": query, **arguments}},
    }  # fmt: skip
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
    response = await client.post(path, json=body, headers=headers)
    assert response.status_code == 200, response.text
    result = response.json()["result"]
    assert not result["isError"], result
    return result["content"][0]["text"], result["structuredContent"]


async def test_a_hit_has_what_decides(api, shop):
    found = await hit(await api.client())
    assert found["signature"] == "shop.getOrder(id*: integer, internalCode: string)"
    assert found["effects"] == {
        "read_only": True, "destructive": False, "idempotent": None, "requires_approval": False,
        "deprecated": False,
    }  # fmt: skip
    assert found["cost"]["average_response_size"] == 120_000
    assert 30 < found["cost"]["tokens"] < 80
    assert (found["health"], found["missing_credential"]) == (None, True)


async def test_a_credential_is_missing_until_it_is_stored(api, shop):
    agent = await api.client()
    assert (await hit(agent))["missing_credential"] is True
    text, found = await find(agent, "getOrder", limit=1)
    assert "needs a credential" in text
    assert found["tools"][0]["missing_credential"] is True
    # A key that reads only tools learns that one is missing, not which.
    assert "token" not in text.replace("tokens", "")
    await api.credential(shop, "token", "bearer", {"token": SECRET}, origins=["https://shop.example.com"])
    assert (await hit(agent))["missing_credential"] is None
    await refresh(api)
    assert (await hit(agent))["missing_credential"] is False
    text, found = await find(agent, "getOrder", limit=1)
    assert "needs a credential" not in text
    assert SECRET not in text


async def test_health_is_that_of_the_calls_of_all_keys_in_rates(api, shop):
    agent = await api.client()
    await record(api, "ok", 8)
    await record(api, "upstream-error", 2, duration_ms=8_000.0)
    await api.services.conditions.refresh(force=True)
    health = (await hit(agent))["health"]
    assert (health["error_rate"], health["calls_at_least"]) == (0.2, 10)
    assert health["p95_ms"] == pytest.approx(8_000, rel=0.1)
    text, found = await find(agent, "getOrder", limit=1)
    assert "20% errors" in text
    assert "takes up to 8 s" in text
    assert "responses of about 120 kB" in text
    assert found["tools"][0]["health"] == health
    # A healthy tool has no such marks.
    text, _ = await find(agent, "deleteOrder", limit=1)
    assert "errors" not in text


async def test_a_toolset_has_the_same_for_its_own_names(api, shop):
    admin = await api.client("admin")
    changes = {"shop.getOrder": {"name": "fetch_purchase", "presets": {"internalCode": "x"}}}
    body = {"definition": {"providers": ["shop"], "changes": changes}}
    assert (await admin.put("/toolsets/sales", json=body)).status_code == 201
    found = await hit(admin, "fetch_purchase", "/toolsets/sales/search")
    assert found["signature"] == "fetch_purchase(id*: integer)"
    assert found["effects"]["read_only"] is True
    assert found["missing_credential"] is True
    registry = await hit(admin)
    assert found["cost"]["tokens"] < registry["cost"]["tokens"]
    # What a toolset hides is in no suggestion.
    response = await admin.get("/toolsets/sales/search", params={"q": "intxrnxl zeppelin quixotic"})
    assert response.json()["weak"] is True
    suggestions = response.json()["suggestions"]
    assert suggestions["did_you_mean"] == []
    assert "code" not in " ".join(suggestions["words"]).lower()
    response = await admin.get("/tools/search", params={"q": "intxrnxl zeppelin quixotic"})
    assert response.json()["suggestions"]["did_you_mean"] != []


@pytest.mark.parametrize(
    "query", ["zeppelin", "ordr of a zepplin quixotically flown over mountains", "x" * 400]
)
async def test_what_is_said_of_weak_matches_is_short(api, shop, query):
    agent = await api.client()
    text, found = await find(agent, query)
    assert found["weak"] is True
    advice = [line for line in text.splitlines() if line.startswith("Weak match")]
    assert len(advice) == 1
    assert len(advice[0]) <= 240


async def test_a_good_match_says_nothing_more(api, shop):
    text, found = await find(await api.client(), "delete an order")
    assert found["weak"] is False
    assert "suggestions" not in found
    assert "Weak" not in text


async def test_find_tools_suggests_plugins_to_keys_that_may_read_providers(api, shop):
    reader = await api.client("tools:read", "tools:call", "providers:read")
    text, found = await find(reader, "run a SQL query on our database")
    assert "postgres" in [one["name"] for one in found["plugins"]]
    assert "Plugins that are off and fit better: " in text
    for client in (
        await api.client(),
        await api.client("tools:read", "tools:call", "providers:read", providers=["shop"]),
    ):
        text, found = await find(client, "run a SQL query on our database")
        assert "plugins" not in found
        assert "postgres" not in text
    admin = await api.client("admin")
    await admin.put("/toolsets/sales", json={"definition": {"providers": ["shop"]}})
    _, found = await find(admin, "run a SQL query on our database", path="/toolsets/sales/mcp")
    assert "plugins" not in found


async def test_a_search_reads_no_database_for_the_conditions(api, shop):
    before = api.services.conditions.refreshes
    agent = await api.client()
    for _ in range(5):
        await hit(agent)
    await api.services.conditions.wait()
    assert api.services.conditions.refreshes == before
