"""`/search/usage`: numbers of what was learned, its deletion, retention and limits."""

import asyncio
from datetime import timedelta
from itertools import product

import pytest
from sqlalchemy import text

from app.access.data_keys import rewrap
from app.search.signals import SearchScope
from app.search.usage.observed import MAX_STEMS
from app.search.usage.store import MAX_ADDED_OF_KEY
from app.security.vault import KeyRing
from app.storage.models import TENANT, now
from tests.api.search.usage.conftest import eventually, learner, usage_settings
from tests.api.search.usage.test_learning import UNUSED, best_two

NOTHING = {"counts": 0, "labels": 0, "words": 0, "tools": 0, "keys": 0, "queries": 0, "pending": 0}


@pytest.fixture
async def admin(api, shop):
    return await api.client("admin")


async def numbers(admin):
    found = await admin.get("/search/usage")
    assert found.status_code == 200, found.text
    return found.json()


def made_up(count, number=0):
    """Words that have no word of another number."""
    letters = ["".join(pair) for pair in product("bcdfgklmpqrtvxz", repeat=3)]
    return " ".join(f"{chr(97 + number)}{letters[place]}" for place in range(count))


async def maintain(api):
    """Delete what is beyond retention and limits, as each worker does once an hour."""
    api.usage._maintain_at = now()
    await api.learn()


async def test_numbers_say_what_was_learned(api, admin, client):
    assert NOTHING.items() <= (await numbers(admin)).items()
    await api.use(client, times=2)
    found = await numbers(admin)
    assert {
        "counts": 3,
        "labels": 6,
        "words": 3,
        "tools": 1,
        "keys": 1,
        "pending": 2,
    }.items() <= found.items()
    assert (found["mode"], found["half_life_days"], found["retention_days"]) == ("key", 30.0, 90)
    assert found["since"] <= found["updated_at"]


async def test_everything_is_forgotten(api, admin, client):
    await api.use(client, times=2)
    await api.search(client)
    assert (await admin.delete("/search/usage")).status_code == 204
    assert NOTHING.items() <= (await numbers(admin)).items()
    assert await best_two(api, client) == UNUSED
    await api.call(client, "shop.undo")
    await api.learn()
    # Only the search after the deletion counts.
    assert await api.labels() == {"shop.undo": 1}


async def test_what_was_learned_of_a_tool_is_forgotten(api, admin, client):
    await api.use(client, times=2)
    await api.use(client, "shop.unrelated", words="weather")
    assert (await admin.delete("/search/usage", params={"tool": "shop.undo"})).status_code == 204
    assert await api.labels() == {"shop.unrelated": 1}
    assert await best_two(api, client) == UNUSED
    missing = await admin.delete("/search/usage", params={"tool": "shop.none"})
    assert missing.status_code == 404


async def test_a_call_before_the_deletion_of_a_tool_is_not_learned_from_afterwards(api, admin, client):
    await api.search(client)
    await api.learn()
    await api.call(client, "shop.undo")
    await api.call(client, "shop.accounts")
    assert (await admin.delete("/search/usage", params={"tool": "shop.undo"})).status_code == 204
    await api.learn()
    assert await api.labels() == {"shop.accounts": 1}


async def test_a_deletion_while_all_is_read_is_not_undone_by_what_was_read_before(api, admin, client):
    await api.use(client, times=2)
    assert await best_two(api, client) == UNUSED[::-1]
    # The gateway knows the key from here on.
    await numbers(admin)
    usage = api.usage
    usage._must_reload = usage._keys_changed = True
    async with api.services.database.transaction() as session:
        # The reading has the labels, and waits for the keys.
        await session.execute(text("LOCK TABLE keys IN ACCESS EXCLUSIVE MODE"))
        reading = asyncio.create_task(usage.refresh())
        await eventually(lambda: has_rows(api, "SELECT FROM pg_locks WHERE NOT granted"))
        deleting = asyncio.create_task(admin.delete("/search/usage"))
        await eventually(lambda: has_rows(api, "SELECT WHERE NOT EXISTS (SELECT FROM search_labels)"))
    assert (await deleting).status_code == 204
    await reading
    assert await best_two(api, client) == UNUSED


async def has_rows(api, statement):
    return bool(await api.sql(statement))


async def test_what_was_learned_from_a_key_is_forgotten(api, admin, client):
    other = await api.client()
    await api.use(client, times=2)
    key_id = (await api.sql("SELECT key_id FROM pending_searches LIMIT 1"))[0][0]
    await api.use(other, times=2)
    assert (await admin.delete("/search/usage", params={"key_id": key_id})).status_code == 204
    assert await best_two(api, client) == UNUSED
    assert await best_two(api, other) == UNUSED[::-1]
    assert await api.labels() == {"shop.undo": 2}


async def test_deletions_reach_the_memory_of_other_workers(database_url, redis_url, api, admin, client):
    await api.use(client, times=2)
    async with learner(usage_settings(database_url, redis_url)) as other:
        await other.usage.learn()
        elsewhere = await other.client()
        elsewhere.headers["Authorization"] = client.headers["Authorization"]
        assert await best_two(other, elsewhere) == UNUSED[::-1]
        assert (await admin.delete("/search/usage")).status_code == 204
        await other.services.feed.catch_up()
        assert await best_two(other, elsewhere) == UNUSED


async def test_deletion_is_in_the_audit(api, admin, client):
    await api.use(client)
    await admin.delete("/search/usage", params={"tool": "shop.undo"})
    event = (await admin.get("/events", params={"object_type": "search-usage"})).json()["items"][0]
    assert (event["action"], event["object_name"], event["detail"]) == ("deleted", "shop.undo", {"counts": 3})


async def test_deleting_a_tool_deletes_what_was_learned_of_it(api, client):
    await api.use(client)
    await api.sql("DELETE FROM tools WHERE name = 'shop.undo'")
    assert await api.labels() == {}


async def test_revoking_a_key_deletes_what_was_learned_from_it(api, admin, client):
    await api.use(client)
    other = await api.client()
    await api.use(other)
    key_id = (await api.sql("SELECT key_id FROM pending_searches ORDER BY at LIMIT 1"))[0][0]
    assert (await admin.delete(f"/keys/{key_id}")).status_code == 204
    await api.learn()
    assert await api.labels() == {"shop.undo": 1}
    assert (await numbers(admin))["keys"] == 1


async def test_labels_beyond_the_retention_period_are_deleted(api, admin, client):
    await api.use(client)
    await api.sql("UPDATE search_labels SET updated_at = updated_at - interval '89 days'")
    await maintain(api)
    assert await api.labels() == {"shop.undo": 1}
    await api.sql("UPDATE search_labels SET updated_at = updated_at - interval '2 days'")
    await maintain(api)
    assert await api.labels() == {}


async def test_a_key_has_at_most_a_twentieth_of_all_counts(database_url, redis_url, api, client):
    await api.use(client, words="money back customer alpha beta gamma delta")
    assert (await api.sql("SELECT count(*) FROM search_labels"))[0][0] == 7
    async with learner(usage_settings(database_url, redis_url, search_usage_max=100)) as small:

        async def is_small():
            # The task of the start may hold the lock.
            await maintain(small)
            return small.usage.stems == 5

        await eventually(is_small)
    assert (await api.sql("SELECT count(*) FROM search_labels"))[0][0] == 5


async def test_a_key_with_very_many_labels_loses_those_beyond_its_share_at_once(
    database_url, redis_url, api, client
):
    async with learner(usage_settings(database_url, redis_url, search_usage_max=100)) as small:
        limited = await small.client()
        small.usage._maintain_at = now() + timedelta(hours=1)
        for number in range(4):
            # Five words each: the share is five counts, and twice of it are retained for an hour.
            await small.search(limited, f"undo {made_up(4, number)}")
            await small.call(limited, "shop.undo")
            await small.learn()
        assert (await small.sql("SELECT count(*) FROM search_labels"))[0][0] <= 10


async def test_thousands_of_words_of_a_search_are_not_learned(api, client):
    await api.search(client, f"undo {made_up(1_000)}")
    await api.call(client, "shop.undo")
    await api.learn()
    assert (await api.sql("SELECT count(*) FROM search_labels"))[0][0] == MAX_STEMS


async def test_of_very_many_searches_a_key_adds_a_bounded_number_of_labels_at_once(api, client):
    for number in range(20):
        await api.search(client, f"undo {made_up(60, number)}")
    await api.call(client, "shop.undo")
    await api.learn()
    assert (await api.sql("SELECT count(*) FROM search_labels"))[0][0] == MAX_ADDED_OF_KEY


async def test_a_label_that_is_thousands_of_half_lives_old_is_added_to(database_url, redis_url, api, client):
    async with learner(usage_settings(database_url, redis_url, search_usage_half_life_days=0.001)) as short:
        user = await short.client()
        await short.use(user)
        await short.sql("UPDATE search_labels SET at = at - interval '80 days'")
        await short.use(user)
        assert await short.labels() == {"shop.undo": 2}
        assert await best_two(short, user) == UNUSED[::-1]


async def test_off_notes_nothing_and_uses_nothing(database_url, redis_url, api, client):
    await api.use(client, times=2)
    async with learner(usage_settings(database_url, redis_url, search_usage="off")) as off:
        elsewhere = await off.client()
        elsewhere.headers["Authorization"] = client.headers["Authorization"]
        assert await best_two(off, elsewhere) == UNUSED
        await off.call(elsewhere, "shop.undo")
        await off.learn()
        assert (off.usage.stems, len(off.usage.searches)) == (0, 0)
        reader = await off.client("calls:read")
        assert (await reader.get("/search/usage")).json()["mode"] == "off"
    assert await api.labels() == {"shop.undo": 2}
    assert (await api.sql("SELECT count(*) FROM pending_searches"))[0][0] == 2


async def test_off_deletes_what_is_beyond_the_retention_period(database_url, redis_url, api, client):
    await api.use(client)
    await api.sql("UPDATE search_labels SET updated_at = updated_at - interval '91 days'")
    async with learner(usage_settings(database_url, redis_url, search_usage="off")) as off:
        await off.usage.learn()
    assert await api.labels() == {}


async def test_reading_and_deleting_needs_scopes_and_no_restrictions(api, shop):
    reader, client = await api.client("calls:read"), await api.client()
    restricted = await api.client("admin", providers=["shop"])
    answers = {
        "numbers": (await reader.get("/search/usage")).status_code,
        "without": (await client.get("/search/usage")).status_code,
        "delete": (await reader.delete("/search/usage")).status_code,
        "queries": (await reader.get("/search/usage/queries")).status_code,
        "restricted": (await restricted.get("/search/usage")).status_code,
        "restricted delete": (await restricted.delete("/search/usage")).status_code,
        "restricted queries": (await restricted.get("/search/usage/queries")).status_code,
    }
    assert answers.pop("numbers") == 200
    assert set(answers.values()) == {403}


async def test_digests_survive_the_rotation_of_the_key_ring(database_url, redis_url, api, client):
    await api.use(client, times=2)
    key_id = (await api.sql("SELECT key_id FROM pending_searches LIMIT 1"))[0][0]
    scope = SearchScope(TENANT, key_id)
    learned = api.usage.get_priors(["money"], scope)
    fresh = KeyRing.generate("fresh")
    old = api.services.settings.sealing_keys.get_secret_value()
    assert await rewrap(api.services.database, KeyRing.parse(f"{fresh},{old}")) > 0
    try:
        async with learner(usage_settings(database_url, redis_url, sealing_keys=fresh)) as rotated:
            await rotated.usage.learn()
            found = rotated.usage.get_priors(["money"], scope)
    finally:
        await rewrap(api.services.database, KeyRing.parse(f"{old},{fresh}"))
    assert found.keys() == learned.keys() != set()
    assert list(found.values()) == pytest.approx(list(learned.values()), rel=1e-3)


async def test_no_texts_are_stored_unless_that_is_set(api, admin, client):
    await api.use(client)
    assert (await admin.get("/search/usage/queries")).json()["items"] == []
    assert await api.sql("SELECT id FROM search_queries") == []
