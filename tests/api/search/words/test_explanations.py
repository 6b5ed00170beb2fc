"""`explain=true`: each match says why it has its score, to keys from which nothing is hidden."""

import pytest

from tests.api.search.words.conftest import URL, limited_client, make_pin, make_synonyms


async def explained(client, q, path="/tools/search", **params):
    response = await client.get(path, params={"q": q, "explain": "true", **params})
    assert response.status_code == 200, response.text
    return response.json()


@pytest.fixture
async def lab(api, shop):
    return await api.client("tools:read", "providers:read")


async def test_words_add_up_to_the_score(lab, shop):
    found = await explained(lab, "customers of the orders, zebra")
    first = found["items"][0]
    assert first["name"] == "shop.listOrders"
    explanation = first["explanation"]
    assert {(word["word"], word["field"]) for word in explanation["words"]} == {
        ("customers", "head"),
        ("orders", "head"),
    }
    assert all(word["synonym_of"] is None for word in explanation["words"])
    total = sum(word["score"] for word in explanation["words"])
    assert explanation["words_score"] == pytest.approx(total, abs=0.01)
    assert (explanation["words_share"], first["score"]) == (1.0, 1.0)
    assert (explanation["cosine"], explanation["vector_share"]) == (None, 0.0)
    assert (explanation["prior"], explanation["prior_share"]) == (0.0, 0.0)
    assert (explanation["exact"], explanation["pinned"]) == (False, False)
    second = found["items"][1]
    assert second["score"] == second["explanation"]["words_share"] < 1
    query = found["explanation"]["queries"][0]
    assert found["ranking"] == "words"
    assert query["q"] == "customers of the orders, zebra"
    assert query["words"] == ["custom", "order", "zebra"]
    assert (query["unknown_words"], query["synonyms"]) == (["zebra"], {})
    assert 0 < query["coverage"] < 1


async def test_synonyms_pins_and_names_are_shown(admin, lab, shop):
    await make_synonyms(admin, "voucher", "coupon", "gift card")
    await make_pin(admin, "voucher", "shop.listOrders")
    found = await explained(lab, "vouchers")
    by_name = {item["name"]: item["explanation"] for item in found["items"]}
    assert next(iter(by_name)) == "shop.listOrders"
    assert by_name["shop.listOrders"]["pinned"]
    assert by_name["shop.listOrders"]["words"] == []
    (word,) = by_name["shop.createCoupon"]["words"]
    assert (word["word"], word["synonym_of"]) == ("coupon", "vouchers")
    assert found["explanation"]["queries"][0]["synonyms"] == {"vouchers": ["coupon", "gift card"]}
    named = await explained(lab, "create gift card")
    assert named["items"][0]["explanation"]["exact"]
    assert named["items"][0]["score"] > 100


async def test_order_and_scores_are_those_of_the_search(lab, shop):
    plain = (await lab.get("/tools/search", params={"q": "refund a payment of a customer"})).json()
    found = await explained(lab, "refund a payment of a customer")
    assert "explanation" not in plain
    assert all("explanation" not in item for item in plain["items"])
    without = [{key: value for key, value in item.items() if key != "explanation"} for item in found["items"]]
    assert without == plain["items"]


async def test_several_queries_are_explained_each(lab, shop):
    found = await explained(lab, ["coupon", "refund"])
    assert [query["q"] for query in found["explanation"]["queries"]] == ["coupon", "refund"]
    assert all(item["explanation"]["words"] for item in found["items"])


async def test_lists_have_no_explanations(lab, shop):
    found = await explained(lab, "")
    assert len(found["items"]) == 6
    assert all(item["explanation"] is None for item in found["items"])
    assert found["explanation"] == {"queries": []}


async def test_export_is_explained_too(lab, shop):
    found = await explained(lab, "coupon", format="openai-chat")
    assert found["items"][0]["explanation"]["words"]
    assert found["tools"]


async def test_search_of_a_toolset_is_explained(api, admin, lab, shop):
    definition = {
        "providers": ["shop"],
        "changes": {"shop.createCoupon": {"name": "coupons"}},
    }
    await admin.put("/toolsets/desk", json={"definition": definition})
    await make_synonyms(admin, "voucher", "coupon", toolset="desk")
    found = await explained(lab, "voucher", "/toolsets/desk/search")
    (item,) = found["items"]
    assert item["name"] == "coupons"
    assert item["explanation"]["words"][0]["synonym_of"] == "voucher"
    assert found["explanation"]["queries"][0]["synonyms"] == {"voucher": ["coupon"]}
    plain = (await lab.get("/toolsets/desk/search", params={"q": "voucher"})).json()
    assert "explanation" not in plain
    assert "explanation" not in plain["items"][0]
    # Found by its name in the toolset, which the registry does not know.
    await api.tool(shop, "other", URL, description="Nothing.")
    await admin.put(
        "/toolsets/desk",
        json={"definition": {"tools": ["shop.other"], "changes": {"shop.other": {"name": "zebra"}}}},
    )
    named = await explained(lab, "zebra", "/toolsets/desk/search")
    assert [item["name"] for item in named["items"]] == ["zebra"]
    assert named["items"][0].get("explanation") is None


@pytest.mark.parametrize(
    ("scopes", "limits"),
    [
        (["tools:read"], {}),
        (["tools:read", "providers:read"], {"providers": ["shop"]}),
        (["admin"], {"tags": ["x"]}),
        (["admin"], {"toolsets": ["desk"]}),
    ],
)
async def test_keys_to_which_something_is_hidden_get_no_explanation(api, admin, shop, scopes, limits):
    await admin.put("/toolsets/desk", json={"definition": {"providers": ["shop"]}})
    client = await limited_client(api, admin, scopes, **limits)
    for path in ("/tools/search", "/toolsets/desk/search"):
        response = await client.get(path, params={"q": "coupon", "explain": "true"})
        assert response.status_code == 403, response.text
        assert "explanation" not in response.text
    missing = (await client.get("/toolsets/desk/search", params={"q": "coupon", "explain": "true"})).json()
    assert missing.get("missing_scopes") == (["providers:read"] if scopes == ["tools:read"] else None)


async def test_explain_is_a_boolean(lab, shop):
    response = await lab.get("/tools/search", params={"q": "coupon", "explain": "much"})
    assert response.status_code == 422
