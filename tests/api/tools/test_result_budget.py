"""`Prefer: max-bytes=..., fields=..., format=...` on POST /tools/{name}/call, and GET /continuations/{handle}."""

import csv
import io
import json

import pytest
from aiohttp import web

from tests.harness.beside import web_server
from tests.harness.cases import for_each

ITEMS = [{"id": number, "title": f"Book {number}"} for number in range(500)]


class Shop:
    """An upstream that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.body = json.dumps({"total": 500, "items": ITEMS}).encode()
        self.media_type = "application/json"

    async def handle(self, request: web.Request) -> web.Response:
        self.calls += 1
        return web.Response(body=self.body, headers={"Content-Type": self.media_type, "ETag": '"1"'})


@pytest.fixture
async def shop(api):
    shop = Shop()
    application = web.Application()
    application.router.add_get("/books", shop.handle)
    async with web_server(application) as url:
        row = await api.provider("library")
        await api.tool(row, "search", {"http_method": "GET", "url": f"{url}/books"})
        yield shop


PATH = "/tools/library.search/call"


async def test_a_result_is_cut_by_items_and_its_rest_is_read_without_the_upstream(api, shop):
    client = await api.client()
    response = await client.post(PATH, headers={"Prefer": "max-bytes=4000"})
    assert response.status_code == 200, response.text
    assert len(response.content) <= 4000
    assert response.headers["preference-applied"] == "max-bytes=4000"
    assert response.headers["x-result-notes"].startswith('"The result was cut: it has the first ')
    assert "etag" not in response.headers
    items = response.json()["items"]
    assert response.json()["total"] == 500
    path = response.links["next"]["url"]
    assert path == f"/continuations/{response.headers['x-continuation']}"
    while path is not None:
        part = (await client.get(path, params={"max_tokens": 2000})).json()
        items += part["items"]
        assert part["text"] is None
        path = None if part["continuation"] is None else f"/continuations/{part['continuation']}"
    assert items == ITEMS
    assert shop.calls == 1
    assert len(await api.calls()) == 1


async def test_fields_and_format(api, shop):
    client = await api.client()
    response = await client.post(PATH, headers={"Prefer": 'fields="$.items[:3].title /total"'})
    assert response.json() == {"total": 500, "items": [{"title": f"Book {number}"} for number in range(3)]}
    assert response.headers["preference-applied"] == "fields"
    response = await client.post(PATH, headers={"Prefer": 'fields="$.items", Format=CSV, max-bytes=2000'})
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert rows == [{"id": str(row["id"]), "title": row["title"]} for row in ITEMS[: len(rows)]]
    part = await client.get(
        f"/continuations/{response.headers['x-continuation']}", params={"format": "markdown"}
    )
    assert part.json()["items"] is None
    assert part.json()["text"].startswith(
        f"| id | title |\n| --- | --- |\n| {len(rows)} | Book {len(rows)} |\n"
    )


async def test_what_is_within_the_budget_is_unchanged(api, shop):
    client = await api.client()
    response = await client.post(PATH, headers={"Prefer": "max-bytes=900000"})
    assert response.content == shop.body
    assert "x-continuation" not in response.headers
    shop.body, shop.media_type = b"\x89PNG\r\n\x1a\n" + bytes(5000), "image/png"
    response = await client.post(PATH, headers={"Prefer": "max-bytes=1000"})
    assert response.content == shop.body
    assert "preference-applied" not in response.headers


@for_each("preference", ["max-bytes=0", "max-bytes=x", "format=pdf", "fields", "other=1"])
async def test_other_preferences_are_ignored(api, shop, preference):
    client = await api.client()
    response = await client.post(PATH, headers={"Prefer": preference})
    assert response.content == shop.body
    assert "preference-applied" not in response.headers


async def test_fields_that_cannot_be_used_are_rejected_before_the_call(api, shop):
    client = await api.client()
    response = await client.post(PATH, headers={"Prefer": 'fields="$.items[?@.id > 3]"'})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "#/header/Prefer"
    assert shop.calls == 0


async def test_a_continuation_is_of_no_use_to_others(api, shop):
    client = await api.client()
    response = await client.post(PATH, headers={"Prefer": "max-bytes=4000"})
    path = response.links["next"]["url"]
    assert shop.calls == 1
    other = await api.client()
    response = await other.get(path)
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
    reader = await api.client("tools:read")
    assert (await reader.get(path)).status_code == 403
    assert (await client.get(path)).status_code == 200
    assert (await client.get("/continuations/c_unknown")).status_code == 404
