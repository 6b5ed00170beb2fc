"""Synonyms and pinned results behind a real server."""

import pytest

from tests.api.tools.conftest import api, served

__all__ = ["api", "served"]

URL = {"url": "http://127.0.0.1:9/x"}


@pytest.fixture
async def admin(api):
    """A client that may do everything."""
    return await api.client("admin")


@pytest.fixture
async def shop(api):
    """Two providers whose tools say the same in different words."""
    provider = await api.provider("shop")
    for name, description in (
        ("createCoupon", "Issue a coupon."),
        ("createGiftCard", "Issue a gift card."),
        ("listOrders", "List the orders of a customer."),
        ("refundPayment", "Return money to a customer."),
    ):
        await api.tool(provider, name, URL, description=description)
    other = await api.provider("cluster")
    await api.tool(other, "listPods", URL, description="Pods of kubernetes.")
    await api.tool(other, "payments", URL, description="Refund a payment of the cluster.")
    return provider


async def found_by(client, q, path="/tools/search", **params):
    """The names of the tools that a search finds."""
    response = await client.get(path, params={"q": q, **params})
    assert response.status_code == 200, response.text
    return [item["name"] for item in response.json()["items"]]


async def make_synonyms(admin, *terms, **members):
    """Store a set of synonyms and return it."""
    response = await admin.post("/search/synonyms", json={"terms": list(terms), **members})
    assert response.status_code == 201, response.text
    return response.json()


async def make_pin(admin, query, *tools, **members):
    """Store a pinned result and return it."""
    response = await admin.post("/search/pins", json={"query": query, "tools": list(tools), **members})
    assert response.status_code == 201, response.text
    return response.json()


async def limited_client(api, admin, scopes, **limits):
    """A client whose key has these scopes and restrictions."""
    made = await admin.post("/keys", json={"name": "limited", "scopes": scopes, **limits})
    assert made.status_code == 201, made.text
    client = await api.client("tools:read")
    client.headers["Authorization"] = f"Bearer {made.json()['key']}"
    return client
