"""Every interface that searches has one order of the same tools: by one index, with one ranking."""

import json

import pytest

from tests.harness.cases import for_each

from .conftest import manual
from .visibility import meta_tool, tool_calls, ubp

TOOLS = (
    "findCoupon", "redeemCoupon*", "listCoupons", "createOrder*", "listOrders", "cancelOrder*",
    "getInvoice", "sendInvoice*", "listInvoices", "couponReport",
)  # fmt: skip
RENAMES = {"redeemCoupon": "use_voucher", "listOrders": "all_orders"}
QUERIES = [
    pytest.param(["coupon"], id="one-word"),
    pytest.param(["list the coupons of an order"], id="several-words"),
    pytest.param(["coupon", "invoice", "order"], id="several-texts"),
    pytest.param(["cuopon"], id="misspelt"),
    pytest.param(["nothing of this"], id="no-match"),
]


@pytest.fixture(scope="module")
async def clients(gateway_app, upstream):
    admin = await gateway_app.client("admin")
    for provider, tag, tools in (("shop", "sales", TOOLS), ("stock", "internal", TOOLS[::-1])):
        body = {"name": provider, "source": {"manual": manual(upstream.url, *tools)}, "tags": [tag]}
        made = await admin.post("/providers", json=body)
        assert made.status_code == 201, made.text
    changes = {f"shop.{tool}": {"name": name} for tool, name in RENAMES.items()}
    body = {"definition": {"providers": ["shop", "stock"], "changes": changes}}
    made = await admin.put("/toolsets/sales", json=body)
    assert made.status_code == 201, made.text
    yield {
        "all": admin,
        "provider": await gateway_app.client("tools:read", "tools:call", providers=("shop",)),
        "tag": await gateway_app.client("tools:read", "tools:call", tags=("internal",)),
    }
    await admin.delete("/toolsets/sales")
    for provider in ("shop", "stock"):
        await admin.delete(f"/providers/{provider}")


@pytest.fixture(scope="module")
def order_of(clients):
    """Return the search's own order for a key; each search is made once."""
    known = {}

    async def order(key, address, texts, provider):
        search = (key, address, tuple(texts), provider)
        if search not in known:
            known[search] = await searched(clients[key], address, texts, provider)
        return known[search]

    return order


async def searched(client, address, texts, provider):
    path = f"{address}/search" if address else "/tools/search"
    response = await client.get(path, params=params(texts, provider) | {"limit": 20})
    assert response.status_code == 200, response.text
    return [hit["name"].replace(".", "_") for hit in response.json()["items"]]


def params(texts, provider):
    return {"q": texts} | ({} if provider is None else {"provider": provider})


async def by_mcp(client, address, texts, provider):
    arguments = {"query": texts, "limit": 20} | ({} if provider is None else {"provider": provider})
    response = await meta_tool("find_tools", arguments).send(client, address)
    return [tool["name"] for tool in response.json()["result"]["structuredContent"]["tools"]]


async def by_model_calls(client, address, texts, provider):
    arguments = {"query": texts, "limit": 20} | ({} if provider is None else {"provider": provider})
    function = {"name": "find_tools", "arguments": json.dumps(arguments)}
    call = tool_calls("openai-chat", [{"id": "c1", "type": "function", "function": function}])
    response = await call.send(client, address)
    assert response.status_code == 200, response.text
    (message,) = response.json()["messages"]
    return [
        line.partition("(")[0] for line in message["content"].splitlines() if "(" in line.partition(" ")[0]
    ]


async def by_export(client, address, texts, provider):
    path = f"{address}/export" if address else "/tools/export"
    response = await client.get(path, params=params(texts, provider) | {"format": "mcp", "limit": 20})
    assert response.status_code == 200, response.text
    return [tool["name"] for tool in response.json()["tools"]]


async def by_search_with_export(client, address, texts, provider):
    path = f"{address}/search" if address else "/tools/search"
    response = await client.get(path, params=params(texts, provider) | {"format": "mcp", "limit": 20})
    return [tool["name"] for tool in response.json()["tools"]]


async def by_manual(client, address, texts, provider):
    response = await client.get(f"{address}/utcp", params=params(texts, provider))
    assert response.status_code == 200, response.text
    return [tool["name"] for tool in response.json()["tools"]][:20]


async def by_old_manual(client, address, texts, provider):
    response = await client.get(f"{address}/utcp", params=params(texts, provider) | {"version": 0})
    return [tool["name"] for tool in response.json()["tools"]][:20]


async def by_direct_manual(client, address, texts, provider):
    response = await client.get(f"{address}/utcp", params=params(texts, provider) | {"mode": "direct"})
    assert response.status_code == 200, response.text
    return [tool["name"] for tool in response.json()["tools"]][:20]


async def by_ubp(client, address, texts, provider):
    response = await ubp("agent.list_tools", {"q": texts, "limit": 20}).send(client, address)
    assert response.status_code == 200, response.text
    return [tool["name"] for tool in response.json()["result"]["tools"]]


BOTH = {
    "find_tools": by_mcp, "tool-calls": by_model_calls, "export": by_export, "utcp": by_manual,
    "utcp-0": by_old_manual, "search-with-export": by_search_with_export,
}  # fmt: skip
WITHOUT_PROVIDER = {("", "ubp"), ("/toolsets/sales", "utcp"), ("/toolsets/sales", "utcp-0")}
"""The interfaces that have no filter by provider."""
CASES = [
    pytest.param(address, interface, provider, id=f"{address or 'registry'}-{name}-{provider or 'all'}")
    for address, interfaces in (
        ("", BOTH | {"utcp-direct": by_direct_manual, "ubp": by_ubp}),
        ("/toolsets/sales", BOTH),
    )
    for name, interface in interfaces.items()
    for provider in ([None] if (address, name) in WITHOUT_PROVIDER else [None, "shop"])
]


@pytest.mark.parametrize("key", ["all", "provider", "tag"])
@for_each("texts", QUERIES)
@for_each(("address", "interface", "provider"), CASES)
async def test_each_interface_has_the_order_of_the_search(
    address, interface, key, texts, provider, clients, order_of
):
    expected = await order_of(key, address, texts, provider)
    assert await interface(clients[key], address, texts, provider) == expected


@pytest.mark.parametrize("texts", QUERIES[:3])
async def test_a_toolset_has_the_order_of_the_registry(texts, clients):
    registry = await searched(clients["all"], "", texts, None)
    renamed = {f"shop_{tool}": name for tool, name in RENAMES.items()}
    assert await searched(clients["all"], "/toolsets/sales", texts, None) == [
        renamed.get(name, name) for name in registry
    ]


async def test_a_manual_of_another_order_has_another_entity_tag(clients):
    client = clients["all"]
    seen = set()
    for texts in (["coupon", "order"], ["order", "coupon"]):
        for address in ("", "/toolsets/sales"):
            response = await client.get(f"{address}/utcp", params={"q": texts})
            seen.add(response.headers["etag"])
            again = await client.get(
                f"{address}/utcp", params={"q": texts}, headers={"If-None-Match": response.headers["etag"]}
            )
            assert again.status_code == 304
    assert len(seen) == 4


@pytest.mark.parametrize("path", ["/utcp", "/toolsets/sales/utcp", "/providers/shop/utcp", "/tools/export"])
async def test_at_most_four_texts(path, clients):
    assert (await clients["all"].get(path, params={"q": ["a", "b", "c", "d"]})).status_code == 200
    refused = await clients["all"].get(path, params={"q": ["a", "b", "c", "d", "e"]})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "#/query/q"
