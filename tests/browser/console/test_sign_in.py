"""Signing in to the console in Chromium: by key, by link, without script, from other sites."""

import http.server
import threading
from contextlib import contextmanager
from html import escape

import pytest
from playwright.async_api import expect

from tests.browser.harness import origin_of


@pytest.fixture
def link(gateway):
    """Return a function that makes a new sign-in link."""

    def make():
        with gateway.client() as client:
            return client.post("/session/link").json()["url"]

    return make


CHAT = "http://chat.example/"
"""A page of another site, which the test fills."""


async def open_foreign(page, html):
    """Open a page of another site with this content."""

    async def respond(route):
        await route.fulfill(status=200, content_type="text/html", body=html)

    await page.context.route(CHAT, respond)
    await page.goto(CHAT)


@contextmanager
def neighbour(html):
    """Serve a page on another port of the gateway's host, which is of the same site."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


async def sign_in(page, key):
    await page.get_by_label("API key").fill(key)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url("**/console/signed-in")


async def sessions_of(opened):
    return [one for one in await opened.context.cookies() if "utcp-session" in one["name"]]


@pytest.mark.parametrize("width", [360, 768, 1440])
async def test_pages_have_no_axe_violations_and_no_horizontal_scrolling(opened, gateway, width):
    opened_page = await opened("/console/sign-in?signed_out=1", width=width)
    page = opened_page.page

    async def check():
        for color_scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=color_scheme)
            assert await opened_page.axe_violations() == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= width

    await page.get_by_text("Where do I find a key?").click()
    await check()
    await sign_in(page, gateway.key)
    await check()
    await page.goto(gateway.url + "/console/confirm")
    await check()


async def test_a_key_signs_in_by_keyboard_and_leaves_no_trace(opened, gateway):
    opened_page = await opened("/console/sign-in")
    page = opened_page.page
    # The field has the focus.
    await page.keyboard.type(gateway.key)
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/console/signed-in")

    await expect(page.get_by_role("heading", name="You are signed in")).to_be_visible()
    (cookie,) = await sessions_of(opened_page)
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    assert not cookie["secure"]
    assert await page.evaluate("document.cookie") == ""
    assert gateway.key not in await opened_page.stored()
    urls = [request.url for request in opened_page.observed.requests]
    assert all(gateway.key not in url and cookie["value"] not in url for url in urls)


async def test_a_wrong_key_is_said(opened):
    opened_page = await opened("/console/sign-in")
    page = opened_page.page

    await page.get_by_label("API key").fill("ugw_wrong")
    await page.get_by_role("button", name="Sign in").click()

    await expect(page.get_by_role("alert")).to_contain_text("The API key is not valid.")
    await expect(page.get_by_label("API key")).to_have_value("")
    # Chromium reports the status of the page.
    opened_page.observed.errors[:] = [one for one in opened_page.observed.errors if "401" not in one]
    assert await opened_page.axe_violations() == []


async def test_one_comes_back_to_the_page_that_was_asked_for(opened, gateway):
    opened_page = await opened("/console/confirm?next=/console/signed-in%3Fq%3Dsea")
    page = opened_page.page
    await page.get_by_label("API key").fill(gateway.key)
    await page.get_by_role("button", name="Sign in").click()

    await expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()
    await page.get_by_label("API key").fill(gateway.key)
    await page.get_by_role("button", name="Confirm").click()

    await page.wait_for_url("**/console/signed-in?q=sea")


async def test_a_link_signs_in_by_a_button_and_disappears_from_the_url(opened, gateway, link):
    opened_page = await opened("/console/sign-in")
    page = opened_page.page
    url = link()
    token = url.partition("#")[2]
    await page.goto("about:blank")
    await page.goto(url)

    await expect(page.get_by_text("This link signs you in to the console.")).to_be_visible()
    await expect(page.get_by_label("API key")).to_be_hidden()
    assert page.url == gateway.url + "/console/sign-in"
    assert await opened_page.axe_violations() == []
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url("**/console/signed-in")

    assert all(token not in request.url.partition("#")[0] for request in opened_page.observed.requests)
    assert token not in await opened_page.stored()
    await page.go_back()
    assert token not in await opened_page.stored()


async def test_opening_a_link_does_not_use_it_up(opened, link):
    opened_page = await opened("/console/sign-in")
    page = opened_page.page
    url = link()
    for _ in range(3):
        await page.goto("about:blank")
        await page.goto(url)
        await expect(page.get_by_text("This link signs you in to the console.")).to_be_visible()

    await page.get_by_role("button", name="Sign in").click()

    await page.wait_for_url("**/console/signed-in")


async def test_without_script_a_key_signs_in_and_a_link_says_what_to_do(browser, gateway, link):
    context = await browser.new_context(java_script_enabled=False)
    try:
        page = await context.new_page()
        await page.goto(link())
        await expect(page.get_by_text("A sign-in link needs JavaScript")).to_be_visible()

        await sign_in(page, gateway.key)

        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_text("You are signed out.")).to_be_visible()
        assert [one for one in await context.cookies() if "utcp-session" in one["name"]] == []
    finally:
        await context.close()


async def test_a_link_from_another_site_reaches_the_page(opened, gateway):
    opened_page = await opened("/console/sign-in")
    page = opened_page.page
    await sign_in(page, gateway.key)
    await open_foreign(page, f'<a href="{gateway.url}/console/signed-in?x=1%22">a chat</a>')

    await page.get_by_role("link", name="a chat").click()

    await expect(page.get_by_role("heading", name="You are signed in")).to_be_visible()
    assert page.url == gateway.url + "/console/signed-in?x=1%22"
    requests = [one for one in opened_page.observed.requests if one.url.endswith("signed-in?x=1%22")]
    assert len(requests) == 2
    opened_page.observed.requests[:] = [
        one for one in opened_page.observed.requests if origin_of(one.url) == gateway.url
    ]


async def test_without_a_session_a_link_from_another_site_asks_for_the_key(opened, gateway):
    opened_page = await opened("/console/sign-in")
    page = opened_page.page
    await open_foreign(page, f'<a href="{gateway.url}/console/signed-in?x=1">a chat</a>')

    await page.get_by_role("link", name="a chat").click()

    await expect(page.get_by_label("API key")).to_be_visible()
    assert page.url == gateway.url + "/console/sign-in?next=%2Fconsole%2Fsigned-in%3Fx%3D1"
    opened_page.observed.requests[:] = [
        one for one in opened_page.observed.requests if origin_of(one.url) == gateway.url
    ]


@pytest.mark.parametrize("path", ["/console/sign-out", "/console/sign-in", "/console/confirm"])
async def test_a_form_of_another_site_does_nothing(browser, gateway, path):
    context = await browser.new_context()
    try:
        page = await context.new_page()
        await page.goto(gateway.url + "/console/sign-in")
        await sign_in(page, gateway.key)
        field = f'<input name="key" value="{gateway.key}">'
        await open_foreign(
            page, f'<form method="post" action="{gateway.url}{path}">{field}<button>a game</button></form>'
        )
        cookies = await context.cookies()

        async with page.expect_navigation() as navigation:
            await page.get_by_role("button", name="a game").click()

        response = await navigation.value
        if path == "/console/confirm":
            # Without the cookie, which Chromium does not send, nobody is signed in.
            assert response.url.startswith(gateway.url + "/console/sign-in")
        else:
            assert response.status == 403
        assert await context.cookies() == cookies
        await page.goto(gateway.url + "/console/signed-in")
        await expect(page.get_by_role("heading", name="You are signed in")).to_be_visible()
    finally:
        await context.close()


async def test_a_page_of_another_port_of_the_same_host_does_nothing(browser, gateway):
    """It is of the same site, so that Chromium does send the cookie."""
    context = await browser.new_context()
    try:
        page = await context.new_page()
        await page.goto(gateway.url + "/console/sign-in")
        await sign_in(page, gateway.key)
        form = f'<form method="post" action="{gateway.url}/console/sign-out"><button>a game</button></form>'
        top = escape(form.replace("<form", "<form target=_top"))
        framed = f'<iframe sandbox="allow-forms allow-top-navigation" srcdoc="{top}"></iframe>'
        for content in (form, framed):
            with neighbour(content) as url:
                await page.goto(url)
                async with page.expect_navigation() as navigation:
                    scope = page.frame_locator("iframe") if content is framed else page
                    await scope.get_by_role("button", name="a game").click()
                response = await navigation.value
            assert (
                "utcp-session" in (await response.request.all_headers()).get("cookie", "")
                or content is framed
            )
            assert response.status == 403
        await page.goto(gateway.url + "/console/signed-in")
        await expect(page.get_by_role("heading", name="You are signed in")).to_be_visible()
    finally:
        await context.close()


async def test_no_other_site_frames_a_page(browser, gateway):
    context = await browser.new_context()
    try:
        page = await context.new_page()
        await open_foreign(page, f'<iframe src="{gateway.url}/console/sign-in"></iframe>')

        assert await page.frame_locator("iframe").get_by_label("API key").count() == 0
    finally:
        await context.close()
