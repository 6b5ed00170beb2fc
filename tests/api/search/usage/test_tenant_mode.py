"""SEARCH_USAGE=tenant: three keys that agree have an effect on others, and nobody has one alone."""

import pytest

from tests.api.search.usage.conftest import emptied, fill, learner, usage_settings
from tests.api.search.usage.test_learning import UNUSED, best_two


@pytest.fixture(scope="module")
async def tenant_wide(database_url, redis_url):
    async with learner(usage_settings(database_url, redis_url, search_usage="tenant")) as api:
        yield api


@pytest.fixture
async def api(tenant_wide, upstream):
    await emptied(tenant_wide)
    await fill(tenant_wide, upstream)
    yield tenant_wide
    await tenant_wide.application.close_clients()


async def test_three_keys_that_agree_change_the_searches_of_others(api):
    for _ in range(2):
        await api.use(await api.client(), times=2)
        assert await best_two(api, await api.client()) == UNUSED
    await api.use(await api.client(), times=2)
    assert await best_two(api, await api.client()) == UNUSED[::-1]


async def test_a_key_that_floods_changes_its_own_searches_only(api):
    flooding = await api.client()
    await api.use(flooding, times=2)
    await api.sql("UPDATE search_labels SET labels = 1000000, weight = 50, updated_at = clock_timestamp()")
    await api.usage.learn()
    assert await best_two(api, flooding) == UNUSED[::-1]
    assert await best_two(api, await api.client()) == UNUSED


async def test_a_key_gets_no_further_votes_by_rotation(api):
    admin = await api.client("admin")
    client = await api.client()
    for _ in range(3):
        await api.use(client)
        key_id = (await api.sql("SELECT key_id FROM pending_searches ORDER BY at DESC LIMIT 1"))[0][0]
        rotated = await admin.post(f"/keys/{key_id}/rotate", json={"overlap_seconds": 0})
        assert rotated.status_code == 201, rotated.text
        client.headers["Authorization"] = f"Bearer {rotated.json()['key']}"
    await api.learn()
    assert await api.labels() == {"shop.undo": 3}
    assert await best_two(api, client) == UNUSED[::-1]
    assert await best_two(api, await api.client()) == UNUSED
