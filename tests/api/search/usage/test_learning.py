"""A tool that was called after a search comes first in the next one, whichever interface or worker was used."""

import asyncio
import json

import pytest

from app.search.signals import SearchScope
from app.storage.models import TENANT
from tests.api.search.usage.conftest import WORDS, learner, usage_settings
from tests.harness.mcp_requests import McpClient

UNUSED = ["shop.accounts", "shop.undo"]
"""The order by words alone."""


async def best_two(api, client, words=WORDS):
    return (await api.search(client, words))[:2]


async def test_a_tool_that_is_called_after_a_search_comes_first_in_the_next_one(api, client):
    assert await best_two(api, client) == UNUSED
    await api.use(client, times=2)
    assert await best_two(api, client) == UNUSED[::-1]
    assert await best_two(api, client, "give the customer his money back") == UNUSED[::-1]


async def test_labels_of_a_key_do_not_change_the_searches_of_others(api, client):
    await api.use(client, times=5)
    other = await api.client()
    assert await best_two(api, other) == UNUSED


async def search_by(interface, client, api):
    """Search by one of the interfaces for agents, and return what it has written."""
    if interface == "utcp":
        return (await client.get("/utcp", params={"q": WORDS})).text
    if interface == "toolset":
        return (await client.get("/toolsets/desk/search", params={"q": WORDS})).text
    if interface == "mcp":
        arguments = {"name": "find_tools", "arguments": {"query": WORDS}}
        return (await McpClient(client).legacy("tools/call", arguments)).text
    if interface == "tool-calls":
        function = {"name": "find_tools", "arguments": json.dumps({"query": WORDS})}
        call = {"id": "c", "type": "function", "function": function}
        return (await client.post("/tool-calls", json=[call])).text
    return " ".join(await api.search(client))


@pytest.mark.parametrize("interface", ["rest", "utcp", "toolset", "mcp", "tool-calls"])
async def test_searches_by_every_interface_are_learned_from(api, client, interface):
    admin = await api.client("admin")
    definition = {"tools": ["shop.undo", "shop.accounts"]}
    made = await admin.put("/toolsets/desk", json={"definition": definition})
    assert made.status_code in (200, 201), made.text
    assert "undo" in await search_by(interface, client, api)
    await api.call(client, "shop.undo")
    await api.learn()
    assert await api.labels() == {"shop.undo": 1}


async def test_a_call_by_mcp_makes_a_label(api, client):
    await api.search(client)
    called = await McpClient(client).legacy("tools/call", {"name": "shop_undo", "arguments": {}})
    assert called.json()["result"].get("isError") is not True, called.text
    await api.learn()
    assert await api.labels() == {"shop.undo": 1}


async def test_each_tool_of_a_search_makes_one_label(api, client):
    await api.search(client)
    for name in ("shop.undo", "shop.undo", "shop.accounts"):
        await api.call(client, name)
        await api.learn()
    await api.call(client, "shop.undo")
    await api.learn()
    assert await api.labels() == {"shop.undo": 1, "shop.accounts": 1}


async def test_a_search_with_an_export_counts_once(api, client):
    await api.search(client, format="openai-chat")
    await api.call(client, "shop.undo")
    await api.learn()
    assert await api.labels() == {"shop.undo": 1}


@pytest.mark.parametrize("query", [{}, {"format": "openai-chat"}])
async def test_an_explained_search_is_not_learned_from(api, shop, query):
    operator = await api.client("tools:read", "tools:call", "providers:read")
    await api.search(operator, explain="true", **query)
    await api.call(operator, "shop.undo")
    await api.learn()
    assert await api.labels() == {}


async def test_words_of_two_texts_are_learned_apart(api, client):
    await api.search(client, ["money back", "weather"])
    await api.call(client, "shop.unrelated")
    await api.learn()
    key = (await api.sql("SELECT key_id FROM pending_searches LIMIT 1"))[0][0]
    scope = SearchScope(TENANT, key)
    assert len(api.usage.get_priors(["weather"], scope)) == 1
    assert len(api.usage.get_priors(["money"], scope)) == 0


async def test_what_follows_no_search_of_the_key_makes_no_label(api, client):
    other = await api.client()
    await api.call(client, "shop.undo")
    await api.search(client)
    await api.call(other, "shop.undo")
    await api.call(client, "shop.unrelated")
    await api.learn()
    assert await api.labels() == {}


async def test_failed_calls_make_no_label(api, client):
    assert "shop.fail" in await api.search(client, "break down")
    await api.call(client, "shop.fail", expect=502)
    await api.call(client, "shop.undo", expect=422, q=5)
    await api.learn()
    assert await api.labels() == {}


async def test_a_call_more_than_ten_minutes_later_makes_no_label(api, client):
    await api.search(client)
    await api.learn()
    await api.sql("UPDATE pending_searches SET at = at - interval '10 minutes'")
    await api.call(client, "shop.undo")
    await api.learn()
    assert await api.labels() == {}
    await api.search(client)
    await api.learn()
    await api.sql("UPDATE pending_searches SET at = at - interval '9 minutes 50 seconds'")
    await api.call(client, "shop.undo")
    await api.learn()
    assert await api.labels() == {"shop.undo": 1}


async def test_pending_searches_are_deleted_after_some_minutes(api, client):
    await api.search(client)
    await api.learn()
    await api.sql("UPDATE pending_searches SET at = at - interval '16 minutes'")
    await api.learn()
    assert await api.sql("SELECT id FROM pending_searches") == []


async def test_mocked_calls_make_no_label(api, shop):
    admin = await api.client("admin")
    body = {"name": "m", "scopes": ["tools:read", "tools:call"], "upstream": {"mode": "mock"}}
    made = (await admin.post("/keys", json=body)).json()
    admin.headers["Authorization"] = f"Bearer {made['key']}"
    await api.use(admin)
    assert await api.labels() == {}
    assert await api.sql("SELECT id FROM pending_searches") == []


async def test_anonymous_searches_are_not_noted(database_url, redis_url, api, client):
    settings = usage_settings(database_url, redis_url, utcp_anonymous=True)
    async with learner(settings) as other:
        await other.services.feed.catch_up()
        anonymous = await other.client()
        del anonymous.headers["Authorization"]
        assert "undo" in (await anonymous.get("/utcp", params={"q": WORDS})).text
        await other.learn()
    assert await api.sql("SELECT id FROM pending_searches") == []


async def test_search_and_call_may_be_served_by_different_workers(database_url, redis_url, api, client):
    async with learner(usage_settings(database_url, redis_url)) as other:
        elsewhere = await other.client()
        elsewhere.headers["Authorization"] = client.headers["Authorization"]
        for _ in range(2):
            await api.search(client)
            await other.call(elsewhere, "shop.undo")
            await other.services.call_log.flush()
            await api.learn()
        await other.usage.learn()
        assert await best_two(api, client) == await best_two(other, elsewhere) == UNUSED[::-1]


async def test_workers_that_match_at_the_same_time_count_each_label_once(
    database_url, redis_url, api, client
):
    async with learner(usage_settings(database_url, redis_url)) as other:
        elsewhere = await other.client()
        elsewhere.headers["Authorization"] = client.headers["Authorization"]
        for words in ("money back", "customer money"):
            await api.search(client, words)
            await other.search(elsewhere, words)
        await api.call(client, "shop.undo")
        await other.call(elsewhere, "shop.undo")
        await asyncio.gather(*(one.learn() for one in (api, other) for _ in range(4)))
        # One of them may have matched before the other had stored its searches.
        await api.learn()
    assert await api.labels() == {"shop.undo": 4}


async def test_key_that_succeeds_another_by_rotation_has_its_labels(api, client):
    await api.use(client, times=2)
    key_id = (await api.sql("SELECT key_id FROM pending_searches LIMIT 1"))[0][0]
    admin = await api.client("admin")
    rotated = await admin.post(f"/keys/{key_id}/rotate", json={"overlap_seconds": 0})
    assert rotated.status_code == 201, rotated.text
    client.headers["Authorization"] = f"Bearer {rotated.json()['key']}"
    await api.learn()
    assert await best_two(api, client) == UNUSED[::-1]
    await api.use(client)
    assert await api.labels() == {"shop.undo": 3}
    assert (await api.sql("SELECT count(DISTINCT key_digest) FROM search_labels"))[0][0] == 1


async def test_stored_searches_and_labels_have_digests_in_place_of_words_and_keys(api, client):
    await api.use(client)
    rows = await api.sql("SELECT stem, key_digest FROM search_labels")
    assert {len(part) for row in rows for part in row} == {16}
    stems = (await api.sql("SELECT stems FROM pending_searches"))[0][0]
    assert {row[0] for row in rows} == set(stems)
