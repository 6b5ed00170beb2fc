"""`/search/synonyms` and `/search/pins`: stored with versions and events, each once, within bounds."""

import asyncio

import pytest

from app.core.uuid7 import uuid7
from tests.api.search.words.conftest import limited_client, make_pin, make_synonyms
from tests.harness.cases import for_each

CASES = {
    "synonyms": ("/search/synonyms", {"terms": ["voucher", "coupon"]}, {"terms": ["cab", "taxi", "ride"]}),
    "pins": (
        "/search/pins",
        {"query": "refund a payment", "tools": ["shop.refundPayment"]},
        {"query": "money back", "tools": ["shop.refundPayment", "cluster.payments"]},
    ),
}
OBJECTS = {"synonyms": "search synonyms", "pins": "search pin"}


@pytest.fixture(params=CASES, name="kind")
def _kind(request):
    return request.param


@pytest.fixture
def case(kind):
    return CASES[kind]


async def test_object_is_created_read_replaced_and_deleted(admin, shop, case, kind):
    path, body, other = case
    created = await admin.post(path, json=body)
    assert created.status_code == 201, created.text
    made = created.json()
    at = f"{path}/{made['id']}"
    assert (created.headers["location"], created.headers["etag"]) == (at, '"1"')
    assert {name: made[name] for name in body} == body
    assert made["toolset"] is None
    found = await admin.get(at)
    assert (found.json(), found.headers["etag"]) == (made, '"1"')
    replaced = await admin.put(at, json=other, headers={"If-Match": '"1"'})
    assert (replaced.status_code, replaced.headers["etag"]) == (200, '"2"')
    assert {name: replaced.json()[name] for name in other} == other
    assert (await admin.put(at, json=body, headers={"If-Match": '"1"'})).status_code == 412
    assert (await admin.delete(at, headers={"If-Match": '"1"'})).status_code == 412
    assert (await admin.delete(at, headers={"If-Match": '"2"'})).status_code == 204
    for response in (await admin.get(at), await admin.delete(at), await admin.put(at, json=body)):
        assert response.status_code == 404
    assert (await admin.get(f"{path}/{uuid7()}")).status_code == 404
    events = (await admin.get("/events", params={"object_type": OBJECTS[kind], "sort": "at"})).json()["items"]
    assert [event["action"] for event in events] == ["created", "updated", "deleted"]
    assert {event["object_name"] for event in events} == {made["id"]}


async def test_same_words_are_stored_once_in_each_scope(admin, shop, case):
    path, body, other = case
    assert (await admin.put("/toolsets/desk", json={"definition": {}})).status_code == 201
    first = (await admin.post(path, json=body)).json()
    again = await admin.post(path, json=body)
    assert again.status_code == 409
    assert again.json()["errors"][0]["pointer"] in ("/terms", "/query")
    assert first["id"] in again.json()["hint"]
    assert (await admin.post(path, json=body | {"toolset": "desk"})).status_code == 201
    second = (await admin.post(path, json=other)).json()
    moved = await admin.put(f"{path}/{second['id']}", json=body)
    assert moved.status_code == 409
    assert (await admin.put(f"{path}/{first['id']}", json=body)).status_code == 200


async def test_order_and_endings_make_no_other_words(admin, shop):
    await make_synonyms(admin, "gift cards", "voucher")
    again = await admin.post("/search/synonyms", json={"terms": ["Vouchers", "gift card"]})
    assert again.status_code == 409
    await make_synonyms(admin, "gift card", expand_to=["voucher"])
    await make_pin(admin, "refund a payment", "shop.refundPayment")
    again = await admin.post("/search/pins", json={"query": "payments refunded", "tools": ["a.b"]})
    assert again.status_code == 409


async def test_concurrent_creations_make_one(admin, shop, case):
    path, body, _ = case
    responses = await asyncio.gather(*(admin.post(path, json=body) for _ in range(4)))
    assert sorted(response.status_code for response in responses) == [201, 409, 409, 409]


async def test_retry_with_an_idempotency_key_gets_the_first_response(admin, shop, case):
    path, body, _ = case
    first, second = [await admin.post(path, json=body, headers={"Idempotency-Key": "one"}) for _ in range(2)]
    assert first.json() == second.json()
    assert second.headers["idempotency-replayed"] == "true"


@for_each(
    ("path", "body", "pointer"),
    [
        ("/search/synonyms", {"terms": ["voucher", "?!"]}, "/terms/1"),
        ("/search/synonyms", {"terms": ["a, b", "c"]}, "/terms/0"),
        ("/search/synonyms", {"terms": ["a => b", "c"]}, "/terms/0"),
        ("/search/synonyms", {"terms": ["# a", "c"]}, "/terms/0"),
        ("/search/synonyms", {"terms": ["voucher"]}, ""),
        ("/search/synonyms", {"terms": ["voucher", "vouchers"]}, ""),
        ("/search/synonyms", {"terms": ["voucher"], "expand_to": ["vouchers"]}, ""),
        ("/search/synonyms", {"terms": ["voucher"], "expand_to": []}, "/expand_to"),
        ("/search/synonyms", {"terms": ["one two three four five six seven eight nine", "c"]}, "/terms/0"),
        ("/search/synonyms", {"terms": ["x" * 101, "c"]}, "/terms/0"),
        ("/search/synonyms", {"terms": [f"term{number}" for number in range(21)]}, "/terms"),
        ("/search/synonyms", {"terms": ["a", "b"], "toolset": "none"}, "/toolset"),
        ("/search/synonyms", {"terms": ["a", "b"], "weight": 2}, "/weight"),
        ("/search/pins", {"query": "?!", "tools": ["shop.listOrders"]}, "/query"),
        ("/search/pins", {"query": "orders", "tools": []}, "/tools"),
        ("/search/pins", {"query": "orders", "tools": ["a.b", "a.b"]}, "/tools"),
        ("/search/pins", {"query": "orders", "tools": ["a b"]}, "/tools/0"),
        ("/search/pins", {"query": "orders", "tools": ["a.b"], "toolset": "none"}, "/toolset"),
    ],
)
async def test_invalid_words_are_rejected(admin, shop, path, body, pointer):
    made = await admin.post(path, json=body)
    assert made.status_code == 422, made.text
    assert [error["pointer"] for error in made.json()["errors"]] == [pointer]
    assert (await admin.get(path)).json()["items"] == []


async def test_lists_are_filtered_by_toolset_and_text(admin, shop):
    await admin.put("/toolsets/desk", json={"definition": {}})
    await make_synonyms(admin, "voucher", "coupon")
    await make_synonyms(admin, "k8s", expand_to=["kubernetes"], toolset="desk")
    await make_pin(admin, "refund", "shop.refundPayment")
    await make_pin(admin, "orders", "shop.listOrders", toolset="desk")
    for params, count in (({}, 2), ({"toolset": "desk"}, 1), ({"q": "KUBER"}, 1), ({"q": "zebra"}, 0)):
        items = (await admin.get("/search/synonyms", params=params)).json()["items"]
        assert len(items) == count, params
    for params, count in (({}, 2), ({"toolset": "desk"}, 1), ({"q": "LISTO"}, 1), ({"q": "refund"}, 1)):
        items = (await admin.get("/search/pins", params=params)).json()["items"]
        assert len(items) == count, params
    ordered = (await admin.get("/search/pins", params={"sort": "-query"})).json()["items"]
    assert [item["query"] for item in ordered] == ["refund", "orders"]


async def test_words_of_a_toolset_are_deleted_with_it(admin, shop):
    await admin.put("/toolsets/desk", json={"definition": {}})
    await make_synonyms(admin, "voucher", "coupon", toolset="desk")
    await make_pin(admin, "refund", "shop.refundPayment", toolset="desk")
    kept = await make_synonyms(admin, "cab", "taxi")
    assert (await admin.delete("/toolsets/desk")).status_code == 204
    assert (await admin.get("/search/synonyms")).json()["items"] == [kept]
    assert (await admin.get("/search/pins")).json()["items"] == []


@pytest.mark.parametrize("limits", [{"providers": ["shop"]}, {"tags": ["x"]}, {"toolsets": ["desk"]}])
async def test_restricted_key_may_neither_read_nor_write(api, admin, shop, limits, case):
    path, body, _ = case
    limited = await limited_client(api, admin, ["admin"], **limits)
    at = f"{path}/{uuid7()}"
    for response in (
        await limited.get(path),
        await limited.post(path, json=body),
        await limited.get(at),
        await limited.put(at, json=body),
        await limited.delete(at),
        await limited.get("/search/synonyms.txt"),
        await limited.put("/search/synonyms.txt", content="a, b", headers={"Content-Type": "text/plain"}),
    ):
        assert response.status_code == 403, response.text


async def test_scopes_are_those_of_providers(api, shop, case):
    path, body, _ = case
    reader = await api.client("providers:read")
    writer = await api.client("providers:write")
    searcher = await api.client("tools:read")
    assert (await reader.get(path)).status_code == 200
    assert (await reader.post(path, json=body)).status_code == 403
    assert (await writer.post(path, json=body)).status_code == 201
    assert (await searcher.get(path)).status_code == 403


async def test_pinned_tools_that_have_no_effect_are_reported(api, admin, shop):
    made = await make_pin(admin, "refund", "shop.refundPayment", "shop.none", "shop_listOrders")
    assert [problem["name"] for problem in made["problems"]] == ["shop.none"]
    at = f"/search/pins/{made['id']}"
    assert (await admin.patch("/tools/shop.refundPayment", json={"enabled": False})).status_code == 200
    assert [one["name"] for one in (await admin.get(at)).json()["problems"]] == [
        "shop.refundPayment",
        "shop.none",
    ]
    await api.tool(shop, "none", {"url": "http://127.0.0.1:9/none"})
    assert [one["name"] for one in (await admin.get(at)).json()["problems"]] == ["shop.refundPayment"]
    await admin.put("/toolsets/desk", json={"definition": {"tools": ["shop.listOrders"]}})
    desk = await make_pin(admin, "refund", "shop.listOrders", "shop.none", toolset="desk")
    assert desk["problems"] == [
        {"name": "shop.none", "detail": "The toolset desk does not have this tool."},
    ]
    listed = (await admin.get("/search/pins", params={"toolset": "desk"})).json()["items"]
    assert listed == [desk]
