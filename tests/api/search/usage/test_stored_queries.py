"""SEARCH_USAGE_QUERIES: the texts of searches, for operators."""

import pytest

from tests.api.search.usage.conftest import WORDS, emptied, fill, learner, usage_settings

SECRET = "the-secret-of-the-shop-4711"


@pytest.fixture(scope="module")
async def storing(database_url, redis_url):
    async with learner(usage_settings(database_url, redis_url, search_usage_queries=True)) as api:
        yield api


@pytest.fixture
async def api(storing, upstream):
    await emptied(storing)
    await fill(storing, upstream)
    yield storing
    await storing.application.close_clients()


async def queries(api, **query):
    admin = await api.client("admin")
    found = await admin.get("/search/usage/queries", params=query)
    assert found.status_code == 200, found.text
    return found.json()


async def test_queries_are_listed_with_what_was_shown_and_called(api):
    client = await api.client()
    await api.search(client, "weather")
    await api.use(client)
    items = (await queries(api))["items"]
    assert [(one["query"], one["called"]) for one in items] == [(WORDS, ["shop.undo"]), ("weather", [])]
    assert items[0]["tools"] == ["shop.accounts", "shop.undo"]
    assert items[1]["tools"] == ["shop.unrelated"]
    assert [one["query"] for one in (await queries(api, q="weat"))["items"]] == ["weather"]
    assert [one["query"] for one in (await queries(api, sort="at"))["items"]] == ["weather", WORDS]


async def test_known_secrets_are_masked(api):
    api.services.masker.add(SECRET)
    await api.search(await api.client(), f"money back with {SECRET}")
    await api.learn()
    assert [one["query"] for one in (await queries(api))["items"]] == ["money back with ***"]


async def test_texts_that_postgresql_does_not_store_are_stored_without_their_nul(api):
    client = await api.client()
    await api.search(client, "money\0 back " + "x" * 5_000)
    await api.learn()
    (item,) = (await queries(api))["items"]
    assert item["query"].startswith("money back xx")
    assert len(item["query"]) == 2_000


async def test_texts_are_deleted_with_what_was_learned(api):
    client = await api.client()
    admin = await api.client("admin")
    await api.use(client)
    await api.search(client, "weather")
    await api.learn()
    await admin.delete("/search/usage", params={"tool": "shop.undo"})
    assert [one["query"] for one in (await queries(api))["items"]] == ["weather"]
    await admin.delete("/search/usage")
    assert (await queries(api))["items"] == []


async def test_texts_of_a_revoked_key_and_old_texts_are_deleted(api):
    client, other = await api.client(), await api.client()
    admin = await api.client("admin")
    await api.search(client, "weather")
    await api.learn()
    key_id = (await queries(api))["items"][0]["key_id"]
    await api.search(other, "money")
    await api.learn()
    assert (await admin.delete(f"/keys/{key_id}")).status_code == 204
    await api.learn()
    assert [one["query"] for one in (await queries(api))["items"]] == ["money"]
