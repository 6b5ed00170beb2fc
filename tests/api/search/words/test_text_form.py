"""`/search/synonyms.txt`: all synonyms of a scope as text, in the format of Solr and Elasticsearch."""

from tests.api.search.words.conftest import make_synonyms

PATH = "/search/synonyms.txt"
TEXT = {"Content-Type": "text/plain"}


async def put(admin, text, **params):
    return await admin.put(PATH, content=text, headers=TEXT, params=params)


async def test_text_replaces_the_synonyms_of_its_scope_alone(admin, shop):
    await admin.put("/toolsets/desk", json={"definition": {}})
    own = await make_synonyms(admin, "cab", "taxi", toolset="desk")
    kept = await make_synonyms(admin, "voucher", "coupon")
    await make_synonyms(admin, "car", "auto")
    made = await put(admin, "# words\n\ncoupons,voucher\n k8s,kube=> kubernetes \nK8s, kube => kubernetes\n")
    assert (made.status_code, made.json()) == (200, {"created": 1, "deleted": 1, "unchanged": 1})
    items = (await admin.get("/search/synonyms")).json()["items"]
    assert [(item["terms"], item["expand_to"]) for item in items] == [
        (["cab", "taxi"], None),
        (["voucher", "coupon"], None),
        (["k8s", "kube"], ["kubernetes"]),
    ]
    assert [item["id"] for item in items[:2]] == [own["id"], kept["id"]]
    text = await admin.get(PATH)
    assert text.text == "voucher, coupon\nk8s, kube => kubernetes\n"
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    assert text.headers["etag"] == made.headers["etag"]
    assert (await admin.get(PATH, params={"toolset": "desk"})).text == "cab, taxi\n"
    again = await put(admin, text.text)
    assert again.json() == {"created": 0, "deleted": 0, "unchanged": 2}
    events = (await admin.get("/events", params={"object_type": "search synonyms"})).json()["items"]
    assert events[0]["action"] == "imported"
    assert events[0]["detail"] == {"toolset": None, "created": 0, "deleted": 0}


async def test_text_is_replaced_only_as_it_was_read(admin, shop):
    read = await admin.get(PATH)
    await make_synonyms(admin, "voucher", "coupon")
    sent = TEXT | {"If-Match": read.headers["etag"]}
    assert (await admin.put(PATH, content="cab, taxi", headers=sent)).status_code == 412
    sent = TEXT | {"If-Match": (await admin.get(PATH)).headers["etag"]}
    assert (await admin.put(PATH, content="cab, taxi", headers=sent)).status_code == 200
    assert (await admin.get(PATH)).text == "cab, taxi\n"


async def test_lines_that_are_no_sets_are_named_and_nothing_is_stored(admin, shop):
    await make_synonyms(admin, "voucher", "coupon")
    made = await put(admin, "cab, taxi\nalone\n, \na => b => c\nx => \n")
    assert made.status_code == 422
    errors = [error["detail"] for error in made.json()["errors"]]
    assert [error.partition(":")[0] for error in errors] == ["Line 2", "Line 3", "Line 4", "Line 5"]
    assert (await admin.get(PATH)).text == "voucher, coupon\n"


async def test_bounds_and_forms_of_the_body(admin, shop):
    lines = "".join(f"one{number}, two{number}\n" for number in range(1_001))
    made = await put(admin, lines)
    assert (made.status_code, made.json()["errors"][0]["pointer"]) == (422, "")
    assert (await put(admin, b"\xff\xfe")).status_code == 400
    assert (await put(admin, "")).status_code == 400
    assert (await admin.put(PATH, json={"terms": []})).status_code == 415
    assert (await put(admin, "a1, b1", toolset="none")).status_code == 422
    assert (await admin.get(PATH, params={"toolset": "none"})).status_code == 422
    assert (await put(admin, "# none\n")).json() == {"created": 0, "deleted": 0, "unchanged": 0}


async def test_sets_are_limited_with_those_of_toolsets(admin, shop):
    await admin.put("/toolsets/desk", json={"definition": {}})
    await make_synonyms(admin, "cab", "taxi", toolset="desk")
    lines = [f"one{number}, two{number}" for number in range(1_000)]
    assert (await put(admin, "\n".join(lines))).status_code == 422
    assert (await put(admin, "\n".join(lines[1:]))).json()["created"] == 999
    one_more = await admin.post("/search/synonyms", json={"terms": ["voucher", "coupon"]})
    assert one_more.status_code == 422
    assert "1,000 sets" in one_more.json()["detail"]
