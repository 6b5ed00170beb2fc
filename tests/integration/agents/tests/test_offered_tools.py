"""The tools that a case offers are searched by the ranking of the registry, and only they are found."""

import pytest

from app.agents.tests.definition import PlannedCase
from app.agents.tests.offered_tools import offered_tools
from app.catalog.feed import ChangeFeed, record_change
from app.search.search_index import SearchIndex
from app.security.principal import Principal
from app.storage.models import TENANT, ToolsetRow
from app.toolsets import ToolCollections, ToolSearch
from tests.stored import store_provider, store_tool

ADMIN = Principal(key_id="k", name="k", tenant_id=TENANT, scopes=frozenset({"admin"}))


def case(**fields):
    options = {
        "name": "c", "input": "i", "assertions": (), "models": (), "prompt": "", "plugins": (), "toolsets": (),
        "tools": (), "repeat": 1, "pass_rate": 1.0, "min_score": None, "max_iterations": 1, "max_tokens": 1,
        "temperature": None,
    }  # fmt: skip
    return PlannedCase(**options | fields)


@pytest.fixture
async def collections(registry):
    feed = ChangeFeed(registry, listen_dsn=None, poll_seconds=60)
    search = SearchIndex(registry, base_url="http://gateway.test")
    collections = ToolCollections(registry, search)
    for subscriber in (search, collections):
        feed.subscribe(subscriber.on_changes)
    await feed.start()
    shop = await store_provider(registry, "shop")
    for name in ("findCoupon", "listCoupons", "createOrder", "couponReport"):
        await store_tool(registry, shop, name)
    definition = {"tools": ["shop.findCoupon", "shop.createOrder"]}
    definition["changes"] = {"shop.findCoupon": {"name": "get_voucher"}}
    async with registry.transaction() as session:
        session.add(ToolsetRow(name="sales", definition=definition))
        await session.flush()
        await record_change(session, kind="toolset", object_id="sales")
    await feed.catch_up()
    await search.start()
    await search.wait_loaded()
    yield collections
    await feed.aclose()
    await search.aclose()


async def test_offered_tools_are_found_in_the_order_of_the_registry(collections):
    view = await collections.open_view(ADMIN)
    every = [tool.tool for tool in (await view.find(ToolSearch(["coupon order"], limit=50))).tools]
    offered = await offered_tools(case(toolsets=("sales",), tools=("shop.listCoupons",)), collections, ADMIN)
    found = await offered.find(ToolSearch(["coupon order"], limit=50))
    names = {"shop.findCoupon", "shop.createOrder", "shop.listCoupons"}
    assert [tool.tool for tool in found.tools] == [name for name in every if name in names]
    assert "get_voucher" in [tool.name for tool in found.tools]
    assert [tool.name for tool in (await offered.find(ToolSearch(["get_voucher"]))).tools] == ["get_voucher"]


async def test_what_a_key_reaches_only_by_a_toolset_is_found(collections):
    agent = ADMIN.limited_to_toolsets(["sales"])
    offered = await offered_tools(case(toolsets=("sales",)), collections, agent)
    assert [tool.name for tool in (await offered.find(ToolSearch(["coupon"]))).tools] == ["get_voucher"]


async def test_weak_matches_among_offered_tools_say_so(collections):
    offered = await offered_tools(case(toolsets=("sales",)), collections, ADMIN)
    found = await offered.find(ToolSearch(["zeppelin flights"], advise=True))
    assert found.advice is not None
    assert list(found.advice.unknown_words) == ["zeppelin", "flights"]
