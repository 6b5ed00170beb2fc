"""The conditions of tools: read in the background while searches arrive, unknown after a change until then."""

import pytest
from sqlalchemy import event

from app.calls.log.batch_writer import BatchCallLog
from app.catalog.feed import ChangeFeed, record_change
from app.search.conditions import ToolCondition, ToolConditions
from app.search.conditions.conditions import CREDENTIAL_SECONDS, REFRESH_SECONDS
from app.storage.database import Database
from app.storage.models import Credential, Variable
from tests.integration.calls.log.test_calls import AWAY, entry
from tests.stored import store_provider

KEY = (("key",),)
BOTH = (("user", "password"), ("key",))


class Clock:
    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def conditions(registry, clock):
    feed = ChangeFeed(registry, listen_dsn=None, poll_seconds=60)
    conditions = ToolConditions(registry, environment=["SHOP_KEY"], clock=clock)
    feed.subscribe(conditions.on_changes)
    await feed.start()
    conditions.feed = feed
    yield conditions
    await feed.aclose()
    await conditions.aclose()


async def store_credential(registry, provider, slot, **fields):
    row = Credential(
        provider_id=provider.id, slot=slot, kind="api_key", sealed=b"-", fingerprint="-", **fields
    )
    async with registry.transaction() as session:
        session.add(row)
        await session.flush()
        await record_change(session, kind="credential", provider_id=provider.id, object_id=str(row.id))


def missing(conditions, provider="shop", slots=KEY):
    return conditions.of(f"{provider}.tool", provider=provider, slots=slots).missing_credential


async def test_before_the_first_refresh_nothing_is_known(registry, conditions):
    await store_provider(registry, "shop")
    await conditions.feed.catch_up()
    assert conditions.of("shop.tool", provider="shop", slots=KEY) == ToolCondition(None, None)
    # Without slots, nothing has to be read.
    assert missing(conditions, slots=()) is False


async def test_a_credential_is_missing_where_no_alternative_has_all_its_slots(registry, conditions):
    shop = await store_provider(registry, "shop")
    await store_credential(registry, shop, "user")
    await conditions.refresh()
    assert missing(conditions, slots=BOTH) is True
    await store_credential(registry, shop, "password")
    await conditions.refresh()
    assert missing(conditions, slots=BOTH) is False
    assert missing(conditions, slots=KEY) is True
    assert missing(conditions, provider="unheard-of") is None


async def test_the_credentials_of_single_users_are_not_those_of_calls(registry, conditions):
    shop = await store_provider(registry, "shop")
    await store_credential(registry, shop, "key", principal="someone")
    await conditions.refresh()
    assert missing(conditions) is True


async def test_a_credential_whose_variable_has_no_value_is_missing(registry, conditions, monkeypatch):
    shop, other = await store_provider(registry, "shop"), await store_provider(registry, "other")
    await store_credential(registry, shop, "key", variable_names=["SHOP_KEY"])
    await conditions.refresh()
    assert missing(conditions) is True
    async with registry.transaction() as session:
        session.add(Variable(provider_id=other.id, name="SHOP_KEY", secret=False, value="1"))
    await conditions.refresh()
    assert missing(conditions) is True
    monkeypatch.setenv("SHOP_KEY", "1")
    await conditions.refresh()
    assert missing(conditions) is False
    monkeypatch.delenv("SHOP_KEY")
    async with registry.transaction() as session:
        session.add(Variable(provider_id=shop.id, name="shop_SHOP_KEY", secret=False, value="1"))
    await conditions.refresh()
    assert missing(conditions) is False


async def test_a_change_makes_the_credentials_of_its_provider_unknown_until_they_are_read(
    registry, conditions, clock
):
    shop = await store_provider(registry, "shop")
    await store_provider(registry, "other")
    await conditions.feed.catch_up()
    await conditions.refresh()
    assert (missing(conditions), missing(conditions, "other")) == (True, True)
    await store_credential(registry, shop, "key")
    await conditions.feed.catch_up()
    assert (missing(conditions), missing(conditions, "other")) == (None, True)
    clock.now += CREDENTIAL_SECONDS
    conditions.refresh_if_due()
    await conditions.wait()
    assert (missing(conditions), missing(conditions, "other")) == (False, True)


async def test_a_change_of_a_variable_of_all_providers_makes_all_unknown(registry, conditions):
    await store_provider(registry, "shop")
    await conditions.feed.catch_up()
    await conditions.refresh()
    async with registry.transaction() as session:
        await record_change(session, kind="variable", object_id="SHOP_KEY")
    await conditions.feed.catch_up()
    assert missing(conditions) is None


async def test_searches_refresh_at_most_every_30_seconds(registry, conditions, clock):
    for _ in range(3):
        conditions.refresh_if_due()
        await conditions.wait()
    assert conditions.refreshes == 1
    clock.now += REFRESH_SECONDS - 1
    conditions.refresh_if_due()
    await conditions.wait()
    assert conditions.refreshes == 1
    clock.now += 1
    for _ in range(3):
        conditions.refresh_if_due()
    await conditions.wait()
    assert conditions.refreshes == 2


async def test_a_refresh_is_three_statements_whatever_there_is(registry, conditions):
    for name in ("a", "b", "c"):
        provider = await store_provider(registry, name)
        await store_credential(registry, provider, "key", variable_names=["X"])
    statements = []
    engine = registry.engine.sync_engine

    def count(*arguments):
        statements.append(arguments[2])

    event.listen(engine, "before_cursor_execute", count)
    try:
        await conditions.refresh()
    finally:
        event.remove(engine, "before_cursor_execute", count)
    assert len([one for one in statements if "FROM" in one]) == 3


async def test_the_health_of_a_tool_is_read(registry, conditions):
    await store_provider(registry, "library")
    log = BatchCallLog(registry)
    for outcome in ("ok", "ok", "ok", "ok", "upstream-error"):
        log.record(entry(outcome=outcome))
    assert await log.flush()
    await conditions.refresh()
    found = conditions.of("library.searchBooks", provider="library", slots=())
    assert found.as_json() == {
        "health": {"error_rate": 0.2, "p95_ms": 12.5, "calls_at_least": 5},
        "missing_credential": False,
    }
    assert conditions.of("library.other", provider="library", slots=()).health is None


async def test_without_the_database_nothing_is_known_and_searches_go_on():
    away = Database(AWAY, pool_size=1)
    conditions = ToolConditions(away)
    conditions.refresh_if_due()
    await conditions.wait()
    assert conditions.refreshes == 0
    assert missing(conditions) is None
    await away.aclose()
