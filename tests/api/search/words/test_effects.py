"""Synonyms and pinned results in every search: `/tools/search`, toolsets, `find_tools` and manuals."""

import asyncio

import pytest

from tests.api.agents.interfaces.visibility import meta_tool
from tests.api.search.words.conftest import URL, found_by, limited_client, make_pin, make_synonyms
from tests.harness.application import run_application


async def find_tools(client, query, address=""):
    """The names of the tools that the meta-tool finds over MCP."""
    response = await meta_tool("find_tools", {"query": query}).send(client, address)
    assert response.status_code == 200, response.text
    return [tool["name"] for tool in response.json()["result"]["structuredContent"]["tools"]]


async def until(is_expected, client, query):
    """Wait until a search by another worker finds what is expected."""
    async with asyncio.timeout(10):
        while not is_expected(await found_by(client, query)):  # noqa: ASYNC110 - it has no event here.
            await asyncio.sleep(0.02)


async def in_manual(client, query, address=""):
    """The names that agents see of the tools in the manual of a search."""
    response = await client.get(f"{address}/utcp", params={"q": query})
    assert response.status_code == 200, response.text
    return [tool["name"] for tool in response.json()["tools"]]


async def test_equivalent_terms_find_each_other_in_every_search(api, admin, shop):
    assert await found_by(admin, "voucher") == []
    made = await make_synonyms(admin, "voucher", "coupon", "gift card")
    both = ["shop.createCoupon", "shop.createGiftCard"]
    for query in ("voucher", "coupons", "gift cards"):
        assert sorted(await found_by(admin, query)) == both, query
        assert sorted(await find_tools(admin, query)) == ["shop_createCoupon", "shop_createGiftCard"]
        assert len(await in_manual(admin, query)) == 2
    assert (await admin.delete(f"/search/synonyms/{made['id']}")).status_code == 204
    assert await found_by(admin, "voucher") == []


async def test_own_word_counts_more_than_its_synonym(admin, shop):
    await make_synonyms(admin, "coupon", "gift card")
    assert (await found_by(admin, "coupon"))[0] == "shop.createCoupon"
    assert (await found_by(admin, "gift card"))[0] == "shop.createGiftCard"


async def test_one_way_synonym_holds_one_way(admin, shop):
    await make_synonyms(admin, "k8s", "kube grid", expand_to=["kubernetes"])
    for query in ("k8s", "list k8s pods", "K8S", "my kube grid"):
        assert (await found_by(admin, query))[0] == "cluster.listPods", query
    await make_synonyms(admin, "orders", expand_to=["purchases"])
    assert await found_by(admin, "purchases") == []


async def test_terms_of_identifiers_are_found(api, admin, shop):
    await api.tool(shop, "runEC2", URL, description="Start.")
    await make_synonyms(admin, "virtual machine", "EC2")
    assert (await found_by(admin, "boot a virtual machine"))[0] == "shop.runEC2"
    await make_synonyms(admin, "present", expand_to=["giftCard"])
    assert await found_by(admin, "present") == ["shop.createGiftCard"]


async def test_toolset_has_its_own_synonyms_besides_those_of_the_tenant(admin, shop):
    await admin.put("/toolsets/desk", json={"definition": {"providers": ["shop"]}})
    await make_synonyms(admin, "voucher", "coupon")
    await make_synonyms(admin, "voucher", expand_to=["gift card"], toolset="desk")
    assert await found_by(admin, "voucher") == ["shop.createCoupon"]
    desk = await found_by(admin, "voucher", "/toolsets/desk/search")
    assert sorted(desk) == ["shop_createCoupon", "shop_createGiftCard"]
    assert sorted(await find_tools(admin, "voucher", "/toolsets/desk")) == sorted(desk)
    assert len(await in_manual(admin, "voucher", "/toolsets/desk")) == 2
    assert len(await in_manual(admin, "voucher")) == 1


async def test_pinned_tools_come_first_for_the_words_of_the_query_alone(admin, shop):
    assert await found_by(admin, "refund a payment") == ["cluster.payments", "shop.refundPayment"]
    await make_pin(admin, "refund a payment", "shop_refundPayment", "shop.listOrders")
    pinned = ["shop.refundPayment", "shop.listOrders", "cluster.payments"]
    for query in ("refund a payment", "payments: refunding!", "Payment refund please"):
        assert await found_by(admin, query) == pinned, query
    assert await found_by(admin, "payment refund", limit=1) == pinned[:1]
    names = [name.replace(".", "_") for name in pinned]
    assert await find_tools(admin, "refund a payment") == names
    assert set(await in_manual(admin, "refund a payment")) == set(names)
    for query in ("refund", "refund a payment today"):
        assert "shop.listOrders" not in await found_by(admin, query), query


async def test_pinned_tool_precedes_the_tool_of_that_name(admin, shop):
    await make_pin(admin, "list orders", "shop.refundPayment")
    assert (await found_by(admin, "list orders"))[:2] == ["shop.refundPayment", "shop.listOrders"]


async def test_pins_of_a_toolset_replace_those_of_the_tenant(admin, shop):
    await admin.put("/toolsets/desk", json={"definition": {"providers": ["shop"]}})
    await make_pin(admin, "money", "shop.createCoupon")
    address = "/toolsets/desk/search"
    assert (await found_by(admin, "money", address))[0] == "shop_createCoupon"
    await make_pin(admin, "money", "cluster.payments", "shop.createGiftCard", toolset="desk")
    # One that is no member is not shown.
    assert await found_by(admin, "money", address) == ["shop_createGiftCard", "shop_refundPayment"]
    assert await find_tools(admin, "money", "/toolsets/desk") == ["shop_createGiftCard", "shop_refundPayment"]
    assert (await found_by(admin, "money"))[0] == "shop.createCoupon"


async def test_pinned_tools_that_a_client_may_not_call_are_not_shown(api, admin, shop):
    await make_pin(admin, "refund a payment", "cluster.payments", "cluster.listPods", "shop.listOrders")
    limited = await api.client("tools:read", "tools:call", providers=["shop"])
    assert await found_by(limited, "refund a payment") == ["shop.listOrders", "shop.refundPayment"]
    shown = await find_tools(limited, "refund a payment")
    assert shown == ["shop_listOrders", "shop_refundPayment"]
    assert set(await in_manual(limited, "refund a payment")) == set(shown)
    await admin.put("/toolsets/desk", json={"definition": {"tools": ["shop.refundPayment"]}})
    agent = await limited_client(api, admin, ["tools:read", "tools:call"], toolsets=["desk"])
    assert await found_by(agent, "refund a payment", "/toolsets/desk/search") == ["shop_refundPayment"]
    assert await found_by(limited, "refund a payment", provider="cluster") == []


async def test_disabled_tools_and_providers_are_pinned_again_when_they_are_enabled(admin, shop):
    await make_pin(admin, "money", "shop.listOrders")
    for path in ("/tools/shop.listOrders", "/providers/shop"):
        for enabled, expected in ((False, False), (True, True)):
            assert (await admin.patch(path, json={"enabled": enabled})).status_code == 200
            found = await found_by(admin, "money")
            assert (found[:1] == ["shop.listOrders"]) is expected, (path, enabled)


async def test_pin_holds_for_a_tool_that_is_deleted_and_made_again(api, admin, shop):
    made = await make_pin(admin, "money", "shop.listOrders")
    assert (await admin.delete("/providers/shop")).status_code == 204
    found = (await admin.get(f"/search/pins/{made['id']}")).json()
    assert [problem["name"] for problem in found["problems"]] == ["shop.listOrders"]
    assert await found_by(admin, "money") == []
    await api.tool(await api.provider("shop"), "listOrders", URL)
    assert await found_by(admin, "money") == ["shop.listOrders"]
    assert (await admin.get(f"/search/pins/{made['id']}")).json()["problems"] == []


async def test_words_hold_for_each_of_several_queries(admin, shop):
    await make_synonyms(admin, "voucher", "coupon")
    await make_pin(admin, "money", "shop.listOrders")
    response = await admin.get("/tools/search", params={"q": ["voucher", "money"]})
    assert [item["name"] for item in response.json()["items"]][:2] == ["shop.createCoupon", "shop.listOrders"]


async def test_other_worker_sees_a_change_by_the_feed(api, admin, shop):
    async with run_application(api.services.settings) as other:
        await other.services.search.wait_loaded()
        client = await other.client("tools:read")
        await make_synonyms(admin, "voucher", "coupon")
        await make_pin(admin, "money", "shop.listOrders")
        await until(lambda found: found == ["shop.createCoupon"], client, "voucher")
        await until(lambda found: found[0] == "shop.listOrders", client, "money")
        (made,) = (await admin.get("/search/pins")).json()["items"]
        assert (await admin.delete(f"/search/pins/{made['id']}")).status_code == 204
        await until(lambda found: "shop.listOrders" not in found, client, "money")


async def test_worker_that_starts_has_all_words(api, admin, shop):
    await make_synonyms(admin, "voucher", "coupon")
    await make_pin(admin, "money", "shop.listOrders")
    async with run_application(api.services.settings) as other:
        await other.services.search.wait_loaded()
        client = await other.client("tools:read")
        assert await found_by(client, "voucher") == ["shop.createCoupon"]
        assert (await found_by(client, "money"))[0] == "shop.listOrders"


@pytest.mark.parametrize("query", ["", "   ", "?!", "the of a"])
async def test_queries_without_words_have_no_pins(admin, shop, query):
    await make_pin(admin, "money", "shop.listOrders")
    before = await found_by(admin, query)
    await make_synonyms(admin, "the", "shop")
    assert await found_by(admin, "?!") == []
    assert len(before) in (0, 6)
