"""What another site, a stranger, and somebody with a stolen session cannot do by the pages of the console."""

from collections.abc import AsyncIterator

import pytest

from app.console.pages import PAGES
from tests.api.console.test_hostile_requests import GETS, POSTS, admin, application, with_names
from tests.api.session.conftest import PlainBrowser, key_of
from tests.harness.cases import for_each

__all__ = ["admin", "application"]

STREAMS = ["/console/calls/stream", "/console/changes/stream"]
PUBLIC = {"/console/sign-in", "/console/sign-out"}


@pytest.fixture(scope="module")
async def browser(application, admin) -> AsyncIterator[PlainBrowser]:
    async with PlainBrowser(application.url) as client:
        signed_in = await client.sign_in(key_of(admin))
        assert signed_in.status_code == 303, signed_in.text
        yield client


@for_each("path", [path for path in POSTS if path != "/console/sign-in"])
async def test_forms_of_other_sites_do_nothing(application, browser, path):
    url = with_names(path)
    for headers in (
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": application.url, "Sec-Fetch-Site": "same-site"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "none"},
        {},
        {"X-Fragment": "results"},
        {"Origin": application.url + ".evil.example", "Sec-Fetch-Site": "same-origin"},
    ):
        response = await browser.post(url, data={"name": "books", "typed": "few"}, headers=headers)
        assert response.status_code == 403, (headers, response.text[:200])


async def test_pages_ask_for_a_session_before_they_read_anything(application):
    async with PlainBrowser(application.url) as stranger:
        for path in [*GETS, *STREAMS, *POSTS]:
            if path in PUBLIC:
                continue
            methods = [stranger.get] * (path not in POSTS) + [stranger.submit] * (path in POSTS)
            for method in methods:
                response = await method(with_names(path))
                assert response.status_code == 303, path
                assert response.headers["location"].startswith("/console/sign-in"), path
                assert "books" not in response.text


async def test_links_of_others_say_nothing_in_the_name_of_the_gateway(browser):
    page = await browser.get(
        "/console/tools?notice=provider-deleted&subject=call+555+now&undo=/console/sign-out"
    )
    assert "call 555" not in page.text
    assert "Deleted the provider" not in page.text


@for_each("back", ["//evil.example", "/console/../docs", "/console\\evil", "https://evil.example",
                                  "/console/%2e%2e/x", "/consolex", "/console\r\nX: y"])  # fmt: skip
async def test_one_goes_on_to_the_console_only(browser, back):
    for path, field in (("/console/language", "back"), ("/console/confirm", "next")):
        response = await browser.submit(path, **{field: back, "key": "x"})
        assert response.headers.get("location", "/console") == "/console", path
    response = await browser.submit("/console/language", back="/console/tools?q=a", language="en")
    assert response.headers["location"] == "/console/tools?q=a"
    assert len(PAGES) > 10
