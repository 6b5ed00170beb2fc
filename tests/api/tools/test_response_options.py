"""`response_options` of PATCH /tools/{name}: stored, shown, in effect at the next call, and reverted by null."""

import pytest
from aiohttp import web

from tests.harness.beside import web_server
from tests.harness.cases import for_each


@pytest.fixture
async def books(api):
    async def handle(request: web.Request) -> web.Response:
        offset = int(request.query.get("offset", 0))
        headers = {"Link": f'</books?offset={offset + 2}>; rel="next"'} if offset < 4 else {}
        return web.json_response([offset, offset + 1], headers=headers)

    application = web.Application()
    application.router.add_get("/books", handle)
    async with web_server(application) as url:
        row = await api.provider("library")
        await api.tool(row, "list", {"http_method": "GET", "url": f"{url}/books"})
        yield "/tools/library.list"


async def test_all_pages_are_read_once_the_option_is_set(api, books):
    admin = await api.client("admin")
    assert (await admin.get(books)).json()["response_options"] is None
    assert (await admin.post(f"{books}/call")).json() == [0, 1]
    options = {"all_pages": {"by": "link", "max_pages": 10}}
    changed = await admin.patch(books, json={"response_options": options})
    assert changed.status_code == 200, changed.text
    assert changed.json()["response_options"]["all_pages"]["max_pages"] == 10
    response = await admin.post(f"{books}/call")
    assert response.json() == [0, 1, 2, 3, 4, 5]
    assert response.headers["x-pages"] == "3"
    assert (await admin.patch(books, json={"response_options": None})).json()["response_options"] is None
    assert (await admin.post(f"{books}/call")).json() == [0, 1]


@for_each(
    ("options", "pointer"),
    [
        ({"all_pages": {"by": "guess"}}, "/response_options/all_pages/by"),
        ({"all_pages": {"by": "cursor", "argument": "c"}}, "/response_options/all_pages"),
        ({"all_pages": {"by": "page"}}, "/response_options/all_pages"),
        ({"all_pages": {"by": "link", "items": "data"}}, "/response_options/all_pages/items"),
        ({"all_pages": {"by": "link", "max_pages": 1000}}, "/response_options/all_pages/max_pages"),
        ({"poll": 1}, "/response_options/poll"),
        ({"other": True}, "/response_options/other"),
    ],
)
async def test_options_that_cannot_be_used_are_rejected(api, books, options, pointer):
    admin = await api.client("admin")
    response = await admin.patch(books, json={"response_options": options})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == pointer
