"""A session ends while somebody fills in a form: what was typed is kept until they have signed in again."""

import re
from collections.abc import AsyncIterator
from html import unescape

import pytest

from app.console.forms.kept_forms import FORM_FIELD
from tests.api.console.test_hostile_requests import admin, application
from tests.api.console.test_step_up import confirm, form_of, make_old
from tests.api.session.conftest import PlainBrowser, key_of, text_of
from tests.harness.cases import for_each

__all__ = ["admin", "application"]

NEW_KEY = {"role": "custom", "scopes": "tools:read"}
KEPT = "what you have entered is kept"


@pytest.fixture
async def browser(application, admin) -> AsyncIterator[PlainBrowser]:
    """A browser whose session has ended."""
    async with PlainBrowser(application.url) as client:
        assert (await client.sign_in(key_of(admin))).status_code == 303
        await application.services.sessions.end(client.session)
        yield client


def kept(page) -> dict[str, str]:
    """Return the fields of the sign-in form of a page that keeps a form."""
    form = re.search(r'id="sign-in-by-key".*?</form>', page.text, re.DOTALL)[0]
    return {
        name: unescape(value)
        for name, value in re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', form)
    }


async def go_on(browser, page):
    """Submit the form of the page that goes on after the sign-in."""
    assert (page.status_code, "Submit it" in page.text) == (200, True), text_of(page)[:300]
    action = unescape(re.search(r'<form class="form panel" method="post" action="([^"]+)"', page.text)[1])
    sealed = unescape(re.search(rf'name="{re.escape(FORM_FIELD)}" value="([^"]+)"', page.text)[1])
    return await browser.submit(action, **{FORM_FIELD: sealed})


async def names_of_keys(admin, name):
    return [key["name"] for key in (await admin.get("/keys", params={"q": name})).json()["items"]]


async def test_nothing_typed_is_lost_when_the_session_has_ended(browser, admin):
    page = await browser.submit("/console/keys/new", name="typed for long", **NEW_KEY)
    assert (page.status_code, KEPT in text_of(page)) == (401, True)
    assert "typed for long" not in page.text

    wrong = await browser.submit("/console/sign-in", key="ugw_x", **kept(page))
    assert (wrong.status_code, KEPT in text_of(wrong)) == (401, True)
    signed_in = await browser.submit("/console/sign-in", key=key_of(admin), **kept(wrong))
    assert await names_of_keys(admin, "typed for long") == []
    created = await go_on(browser, signed_in)

    assert created.status_code == 201, text_of(created)[:300]
    assert await names_of_keys(admin, "typed for long") == ["typed for long"]


async def test_secrets_of_a_kept_form_are_in_no_page(browser, admin):
    page = await browser.submit(
        "/console/providers/books/variables", variable="TOKEN", value="canary-secret", secret="1"
    )
    signed_in = await browser.submit("/console/sign-in", key=key_of(admin), **kept(page))
    for response in (page, signed_in):
        assert "canary-secret" not in response.text + str(response.headers)

    assert (await go_on(browser, signed_in)).status_code == 303
    variables = (await admin.get("/providers/books/variables")).json()["items"]
    assert [one["name"] for one in variables] == ["TOKEN"]


async def test_files_and_the_query_of_a_form_are_kept(browser, admin):
    document = (
        b'{"openapi": "3.1.0", "info": {"title": "Shelf", "version": "1"},'
        b' "servers": [{"url": "http://127.0.0.1:9"}], "paths": {"/a": {"get": {"operationId": "list"}}}}'
    )
    page = await browser.post(
        "/console/add?source=file",
        data={"name": "shelf", "source": "file"},
        files={"file": ("shelf.json", document, "application/json"), "other": ("", b"", "")},
        headers=browser.own,
    )
    signed_in = await browser.submit("/console/sign-in", key=key_of(admin), **kept(page))
    assert 'action="/console/add?source=file"' in signed_in.text

    preview = await go_on(browser, signed_in)

    assert (preview.status_code, "Shelf shelf.json" in text_of(preview)) == (200, True), text_of(preview)


async def test_a_link_that_was_opened_in_another_tab_goes_on(browser, admin):
    page = await browser.submit("/console/keys/new", name="by other tab", **NEW_KEY)
    url = (await admin.post("/session/link")).json()["url"]
    opened = await browser.submit("/console/sign-in", sign_in_token=url.partition("#")[2])
    assert opened.status_code == 303

    created = await go_on(browser, await browser.submit("/console/sign-in", key="", **kept(page)))

    assert created.status_code == 201, text_of(created)[:300]


async def test_a_kept_form_is_of_its_browser_only(application, browser, admin):
    page = await browser.submit("/console/keys/new", name="of its browser", **NEW_KEY)
    async with PlainBrowser(application.url) as other:
        signed_in = await other.submit("/console/sign-in", key=key_of(admin), **kept(page))
        assert (signed_in.status_code, other.session is not None) == (303, True)
    damaged = {**kept(page), FORM_FIELD: "AAAA"}
    assert (await browser.submit("/console/sign-in", key=key_of(admin), **damaged)).status_code == 303
    assert browser.session is not None


async def test_a_session_that_ends_at_the_confirmation_keeps_the_form(application, browser, admin):
    assert (await browser.sign_in(key_of(admin))).status_code == 303
    await make_old(application)
    asked = await browser.submit("/console/keys/new", name="twice kept", **NEW_KEY)
    assert form_of(asked)
    await application.services.sessions.end(browser.session)

    page = await confirm(browser, asked, key_of(admin))
    assert page.status_code == 401
    signed_in = await browser.submit("/console/sign-in", key=key_of(admin), **kept(page))
    created = await go_on(browser, signed_in)

    assert created.status_code == 201, text_of(created)[:300]
    assert await names_of_keys(admin, "twice kept") == ["twice kept"]


@for_each(
    ("headers", "fields"),
    [
        ({"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, {"name": "planted"}),
        ({}, {"name": "planted"}),
        (None, {}),
        (None, {"name": ""}),
        (None, {"name": "x" * (64 << 10)}),
    ],
)
async def test_forms_of_strangers_are_not_kept(application, headers, fields):
    async with PlainBrowser(application.url) as stranger:
        response = await stranger.submit("/console/keys/new", headers, **fields)
        assert response.status_code == 303
        assert response.headers["location"].startswith("/console/sign-in")
        assert not stranger.cookies


async def test_a_part_of_a_page_asks_for_a_sign_in_by_its_status(browser):
    headers = {**browser.own, "X-Fragment": "try_it"}
    response = await browser.submit("/console/tools/books.list", headers, do="call", n="1")
    assert (response.status_code, response.text) == (401, "")
