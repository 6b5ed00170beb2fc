"""The page of a tool over HTTP, without a browser: what is shown to whom, and what becomes of a form."""

import html
import json
import re
import time
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web

from tests.harness.beside import beside, web_server
from tests.harness.html_forms import controls_of, successful_controls

SEARCH = "/console/tools/library.searchBooks"
CANCEL = "/console/tools/library.cancelReservation"


@pytest.fixture
def admin(library):
    with library.client() as client:
        yield client


@pytest.fixture
def custom(admin):
    """Creates custom tools, and deletes them."""
    made = []

    def make(name, **fields):
        template = {"call_template_type": "http", "http_method": "GET", **fields.pop("template")}
        body = {"provider": "library", "name": name, "call_template": template, **fields}
        response = admin.post("/tools", json=body)
        assert response.status_code == 201, response.text
        made.append(response.json()["name"])
        return response.json()

    yield make
    for name in made:
        admin.delete(f"/tools/{name}")


@pytest.fixture(scope="module")
def upstream():
    """An upstream with responses of several kinds, and a count of its requests."""
    counted = []

    async def image(_):
        return web.Response(body=b"\x89PNG\r\n\x1a\n\x00\x00", content_type="image/png")

    async def lines(_):
        return web.Response(text='{"n": 1}\n{"n": 2}\n', content_type="application/x-ndjson")

    async def large(_):
        return web.Response(text="x" * 500_000)

    async def count(_):
        counted.append(1)
        return web.json_response({"count": len(counted)})

    async def evil(_):
        return web.Response(text="<script>alert(1)</script>\u202eabc", content_type="text/html")

    application = web.Application()
    for name, handler in (("image", image), ("lines", lines), ("large", large), ("evil", evil)):
        application.router.add_get(f"/{name}", handler)
    application.router.add_post("/count", count)
    with beside(web_server(application)) as url:
        yield url


def fields_of(page):
    assert page.status_code == 200, page.text[:500]
    return successful_controls(page.text)


def submit(client, path, *items):
    data = {}
    for name, value in items:
        data.setdefault(name, []).append(value)
    return client.post(path, data=data)


def test_key_without_call_sees_no_button_of_a_call(library, admin):
    key = admin.post("/keys", json={"name": "reads", "scopes": ["tools:read"]}).json()["key"]
    with library.client(key) as client:
        page = client.get(SEARCH)
        assert page.status_code == 200
        assert 'value="call"' not in page.text
        assert "tools:call" in page.text
        assert "/enabled" not in page.text
        assert client.get(SEARCH, params={"view": "definition"}).text.count("/edit") == 0
        assert "view=versions" not in page.text
        assert (
            client.post(CANCEL, data={"/reservation_id": "x", "do": "call", "confirmed": "1"}).status_code
            == 200
        )
        assert client.post(CANCEL + "/enabled", data={"enabled": "false"}).status_code == 403


def test_unknown_tool_is_a_page_that_says_so(admin):
    page = admin.get("/console/tools/library.nothing")
    assert page.status_code == 404
    assert "There is no tool library.nothing." in html.unescape(page.text)


def test_call_that_changes_something_is_not_made_before_it_is_confirmed(admin, custom, upstream):
    tool = custom("count", template={"http_method": "POST", "url": upstream + "/count"})
    path = f"/console/tools/{tool['name']}"
    asked = submit(admin, path, ("do", "call"))
    assert "This call may change something" in asked.text
    assert f"POST {upstream}/count" in html.unescape(asked.text)
    confirmed = [*fields_of(asked), ("do", "call")]
    first = submit(admin, path, *confirmed)
    assert '<span class="json-number">1</span>' in first.text
    # A reload submits the same form: the response is repeated, not the call.
    assert '<span class="json-number">1</span>' in submit(admin, path, *confirmed).text
    # Another question is another call.
    again = [*fields_of(submit(admin, path, ("do", "call"))), ("do", "call")]
    assert '<span class="json-number">2</span>' in submit(admin, path, *again).text


def test_arguments_are_in_the_url_unless_they_are_secret_or_large(admin, custom, upstream):
    page = submit(admin, SEARCH, ("/q", "sea"), ("do", "call"))
    (url,) = re.findall(r'data-url="([^"]*)"', page.text)
    query = parse_qs(urlsplit(html.unescape(url)).query)
    assert json.loads(query["args"][0]) == {"q": "sea"}
    assert len(query["call"][0]) == 36
    inputs = {
        "type": "object",
        "properties": {"pin": {"type": "string", "format": "password"}, "api_key": {"type": "string"}},
    }
    tool = custom("secret", inputs=inputs, template={"url": upstream + "/lines"})
    for member in ("pin", "api_key"):
        page = submit(admin, f"/console/tools/{tool['name']}", (f"/{member}", "canary-1"), ("do", "json"))
        assert page.status_code == 200
        assert "canary-1" not in "".join(re.findall(r'(?:href|data-url|action)="[^"]*"', page.text))
    assert "args=" not in submit(admin, SEARCH, ("/q", "x" * 3_000), ("do", "dry_run")).text


def test_switch_to_json_keeps_what_was_typed(admin):
    response = admin.post(
        SEARCH, data={"/q": "sea", "/genre": ['"crime"'], "do": "json"}, follow_redirects=False
    )
    assert response.status_code == 303
    query = parse_qs(urlsplit(response.headers["location"]).query)
    assert (query["as"], json.loads(query["args"][0])) == (["json"], {"q": "sea", "genre": ["crime"]})


def test_bytes_are_offered_as_a_file(admin, custom, upstream):
    tool = custom("image", template={"url": upstream + "/image"})
    path = f"/console/tools/{tool['name']}"
    page = submit(admin, path, ("do", "call"))
    assert "The response is not text." in page.text
    file = submit(admin, path, ("do", "download"), ("args", "{}"), ("confirmed", "1"))
    assert file.content.startswith(b"\x89PNG")
    assert file.headers["content-disposition"] == f'attachment; filename="{tool["name"]}.png"'
    assert "sandbox" in file.headers["content-security-policy"]


def test_events_of_a_stream_are_a_list(admin, custom, upstream):
    tool = custom("lines", template={"call_template_type": "streamable_http", "url": upstream + "/lines"})
    page = submit(admin, f"/console/tools/{tool['name']}", ("do", "call"))
    assert "[] 2 items" in page.text


def test_large_text_is_cut_and_hostile_text_is_escaped(admin, custom, upstream):
    large = custom("large", template={"url": upstream + "/large"})
    page = submit(admin, f"/console/tools/{large['name']}", ("do", "call"))
    assert len(page.content) < 300_000
    assert "Only the beginning is shown." in page.text
    evil = custom("evil", template={"url": upstream + "/evil"}, description="\U000e0049\U000e0067nore\u202e")
    page = submit(admin, f"/console/tools/{evil['name']}", ("do", "call"))
    assert "<script>alert" not in page.text
    assert 'title="U+202E RIGHT-TO-LEFT OVERRIDE"' in page.text


def test_errors_of_gateway_and_upstream_are_told_apart(admin, custom):
    page = submit(admin, SEARCH, ("/limit", "many"), ("do", "call"))
    assert "The gateway rejected the call" in page.text
    assert controls_of(page.text).references
    page = submit(admin, "/console/tools/library.getBook", ("/book_id", "bk-999"), ("do", "call"))
    assert "The upstream failed" in page.text
    tool = custom("nobody", template={"url": "http://127.0.0.1:9/x"})
    page = submit(admin, f"/console/tools/{tool['name']}", ("do", "call"))
    assert re.search(r'<span class="badge bad">50[234]</span>', page.text)


def test_call_that_needs_approval_says_so(admin, custom, upstream):
    tool = custom("guarded", template={"http_method": "POST", "url": upstream + "/count"})
    admin.patch(f"/tools/{tool['name']}", json={"requires_approval": True})
    path = f"/console/tools/{tool['name']}"
    asked = submit(admin, path, ("do", "call"))
    assert "It waits until another key has approved it." in asked.text
    done = submit(admin, path, *fields_of(asked), ("do", "call"))
    assert "Waits for approval" in done.text


def test_edit_of_an_older_version_is_rejected_and_nothing_is_lost(admin):
    version = admin.get("/tools/library.getStock").json()["version"]
    form = {"description": "Mine.", "tags": "books", "keywords": "", "version": str(version - 1)}
    page = admin.post("/console/tools/library.getStock/edit", data=form)
    assert page.status_code == 200
    assert "Mine." in page.text
    assert admin.get("/tools/library.getStock").json()["description"] != "Mine."


def test_source_is_told_beside_what_people_changed(admin):
    before = admin.get("/tools/library.listMembers", params={"source": True}).json()
    assert before["source"]["description"] == before["description"]
    assert admin.get("/tools/library.listMembers").json()["source"] is None
    admin.patch("/tools/library.listMembers", json={"description": "Changed.", "tags": ["x"]})
    after = admin.get("/tools/library.listMembers", params={"source": True}).json()
    assert (after["description"], after["source"]) == ("Changed.", before["source"])
    admin.patch("/tools/library.listMembers", json={"description": None, "tags": None})


def test_recorded_arguments_of_a_call_fill_the_form(admin):
    made = admin.post("/tools/library.searchBooks/call", json={"q": "wolf", "limit": 4})
    call_id = made.headers["x-call-id"]
    while admin.get(f"/calls/{call_id}/bodies").status_code == 404:
        time.sleep(0.1)
    page = admin.get(SEARCH, params={"replay": call_id})
    assert dict(fields_of(page))["/q"] == "wolf"
    missing = admin.get(SEARCH, params={"replay": "00000000-0000-7000-8000-000000000000"})
    assert "were not recorded" in missing.text


def test_page_is_small(admin):
    for view in ("", "definition", "versions", "calls", "access"):
        assert len(admin.get("/console/tools/library.createLoan", params={"view": view}).content) < 60 * 1024
