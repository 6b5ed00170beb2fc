"""The pages that sign in and out, without script."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from app.access.authorise import PUBLIC
from tests.api.session.conftest import PlainBrowser, key_of, text_of
from tests.harness.cases import for_each

FORM = re.compile(r'<form [^>]*id="sign-in-by-key"[\s\S]*?</form>')


async def signed_in(application, browser, *scopes):
    client = await application.client(*(scopes or ("tools:read",)))
    response = await browser.sign_in(key_of(client))
    assert response.status_code == 303, response.text
    return client


async def forget_authentication(application):
    """Have the key of every session presented six minutes ago."""
    async with application.services.database.transaction() as session:
        await session.execute(
            text("UPDATE console_sessions SET authenticated_at = :at"),
            {"at": datetime.now(UTC) - timedelta(minutes=6)},
        )


async def test_the_form_asks_for_a_key_and_works_without_script(browser):
    response = await browser.get("/console/sign-in?next=/console/tools")

    assert response.status_code == 200
    form = FORM.search(response.text)[0]
    assert 'method="post"' in form
    assert re.search(r'<input [^>]*name="key"[^>]*type="password"[^>]*autocomplete="off"', form)
    assert '<input type="hidden" name="next" value="/console/tools">' in form
    assert "A sign-in link needs JavaScript" in response.text


async def test_security_headers(browser):
    response = await browser.get("/console/sign-in")

    assert response.headers["Content-Security-Policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert response.headers["Cache-Control"] == "no-store"
    # With no-referrer, browsers would send forms with `Origin: null`.
    assert response.headers["Referrer-Policy"] == "same-origin"


async def test_no_page_has_inline_script_or_style(application, browser):
    await signed_in(application, browser)
    for path in ("/console/sign-in", "/console/signed-in", "/console/confirm"):
        html = (await browser.get(path)).text
        assert not re.search(r"<script(?![^>]* src=)|<style| style=| on[a-z]+=", html), path


async def test_signing_in_says_what_the_key_may_do(application, browser):
    client = await application.client("tools:read", "tools:call")

    response = await browser.sign_in(key_of(client))
    assert (response.status_code, response.headers["Location"]) == (303, "/console/signed-in")
    page = await browser.get(response.headers["Location"])

    shown = text_of(page)
    for scope in (await client.get("/me")).json()["scope_descriptions"]:
        assert scope["name"] in shown
        assert scope["description"] in shown


async def test_signing_in_goes_on_to_the_page_that_was_asked_for(application, browser):
    asked = await browser.get("/console/tools?q=sea%20fish&tag=a&tag=b")
    assert asked.status_code == 303
    page = await browser.get(asked.headers["Location"])
    target = re.search(r'name="next" value="([^"]*)"', page.text)[1].replace("&amp;", "&")
    assert target == "/console/tools?q=sea%20fish&tag=a&tag=b"

    response = await browser.sign_in(key_of(await application.client("tools:read")), next=target)

    assert response.headers["Location"] == target


@for_each(
    ("target", "page"),
    [(target, "/console/signed-in") for target in (
        "https://evil.example/console", "//evil.example/console", "/\\evil.example", "\\\\evil.example",
        "/console\\..\\evil", "/console/../../evil", "/console/%2e%2e/x", "/console/..", "/consolex", "/docs",
        "/console/\tx", "/console/\nx", "/console\r\nSet-Cookie: a=b", "javascript:alert(1)", "console", "",
        "/console/é", " /console", "/console/ x", "///console", "/console" + "/x" * 1500, "http:/console",
        "//console@evil.example", "/.//evil.example", "/console/x\x00",
    )] + [("/console/tools", "/console/tools")],
    ids=repr,
)  # fmt: skip
async def test_signing_in_goes_to_no_other_site(application, browser, target, page):
    browser.cookies.clear()
    response = await browser.sign_in(key_of(await application.client("tools:read")), next=target)

    assert response.status_code == 303
    assert response.headers["Location"] == page


async def test_a_wrong_key_is_said_and_not_repeated(browser):
    response = await browser.sign_in("ugw_this-is-no-key", next="/console/tools")

    assert response.status_code == 401
    assert "The API key is not valid." in text_of(response)
    assert "this-is-no-key" not in response.text
    assert 'name="next" value="/console/tools"' in response.text
    assert browser.session is None


async def test_a_key_with_spaces_around_it_signs_in(application, browser):
    key = key_of(await application.client("tools:read"))

    assert (await browser.sign_in(f"  {key}\n")).status_code == 303


async def test_the_session_has_another_text_after_each_sign_in(application, browser):
    await signed_in(application, browser)
    first = browser.session

    await signed_in(application, browser)

    assert browser.session != first
    assert await application.services.sessions.find(first) is None


async def test_a_planted_session_is_not_adopted(application):
    port = application.url.rpartition(":")[2]
    async with PlainBrowser(application.url) as attacker, PlainBrowser(application.url) as victim:
        await signed_in(application, attacker)
        planted = attacker.session
        victim.cookies.set(f"utcp-session-{port}", planted, domain="127.0.0.1")
        key = key_of(await application.client("admin"))
        response = await victim.sign_in(key)

    assert f"={planted};" not in response.headers["Set-Cookie"]
    assert await application.services.sessions.find(planted) is None


async def test_two_cookies_of_the_name_are_no_session(application, browser):
    await signed_in(application, browser)
    port = application.url.rpartition(":")[2]
    name = f"utcp-session-{port}"
    async with PlainBrowser(application.url) as other:
        cookie = f"{name}={browser.session}; {name}=ugs_planted"
        response = await other.get("/console/signed-in", headers={"Cookie": cookie})

    assert response.status_code == 303


CROSS_SITE = [
    {},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
]


@for_each("headers", CROSS_SITE)
async def test_another_page_does_not_sign_in(application, browser, headers):
    key = key_of(await application.client("tools:read"))

    response = await browser.submit("/console/sign-in", headers, key=key)

    assert response.status_code == 403
    assert browser.session is None


@for_each("path", ["/console/sign-out", "/console/confirm", "/console/language"])
@for_each("headers", CROSS_SITE)
async def test_another_page_submits_no_form_of_a_session(application, browser, path, headers):
    client = await signed_in(application, browser)

    response = await browser.submit(path, headers, key=key_of(client))

    assert response.status_code == 403
    assert (await browser.get("/console/signed-in")).status_code == 200


async def test_every_form_handler_checks_where_it_comes_from(application, browser):
    """Also those of pages that are added later."""
    await signed_in(application, browser, "admin")
    paths = {
        re.sub(r"\{[^}]+\}", "x", route.path)
        for route in application.app.router.routes
        if getattr(route, "path", "").startswith("/console")
        and "POST" in (getattr(route, "methods", None) or ())
    }
    assert "/console/sign-out" in paths

    for path in paths:
        response = await browser.submit(path, {"Origin": "https://evil.example"})
        assert response.status_code == 403, path


async def test_every_page_asks_for_a_session(application, browser):
    """Also those that are added later."""
    paths = {
        re.sub(r"\{[^}]+\}", "x", route.path)
        for route in application.app.router.routes
        if getattr(route, "path", "").startswith("/console")
        and "GET" in (getattr(route, "methods", None) or ())
    }
    open_to_all = {"/console/sign-in", "/console/static/x/x"}
    assert paths > open_to_all

    for path in paths - open_to_all:
        response = await browser.get(path)
        assert (response.status_code, response.headers.get("Location", "").partition("?")[0]) == (
            303,
            "/console/sign-in",
        ), path


async def test_signing_out(application, browser):
    await signed_in(application, browser)
    session = browser.session

    response = await browser.submit("/console/sign-out")

    assert response.status_code == 303
    assert browser.session is None
    assert await application.services.sessions.find(session) is None
    assert "You are signed out." in text_of(await browser.get(response.headers["Location"]))
    assert (await browser.get("/console/signed-in")).status_code == 303


async def test_a_link_of_another_site_gets_a_page_that_goes_on(application, browser):
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}

    first = await browser.get("/console/signed-in?x=%22%3E", headers=headers)

    assert first.status_code == 200
    target = re.search(r'http-equiv="refresh" content="0; url=([^"]*)"', first.text)[1]
    assert target == "/console/signed-in?x=%22%3E"
    # The browser has said that the second request comes from us.
    second = await browser.get(target, headers={**headers, "Sec-Fetch-Site": "same-origin"})
    assert second.headers["Location"].startswith("/console/sign-in?next=")


async def test_over_plain_http_there_is_no_form_for_the_key(browser):
    response = await browser.get("/console/sign-in", headers={"Host": "192.0.2.1:8000"})

    assert response.status_code == 403
    assert not FORM.search(response.text)
    assert "PUBLIC_BASE_URL" in response.text


async def test_the_key_is_presented_again(application, browser):
    client = await signed_in(application, browser)
    await forget_authentication(application)
    assert not await application.services.sessions.is_recent(browser.session)
    other = key_of(await application.client("admin"))

    wrong = await browser.submit("/console/confirm", key=other, next="/console/keys")
    assert (wrong.status_code, "This is not the key" in text_of(wrong)) == (401, True)
    assert not await application.services.sessions.is_recent(browser.session)
    right = await browser.submit("/console/confirm", key=key_of(client), next="/console/keys")

    assert (right.status_code, right.headers["Location"]) == (303, "/console/keys")
    assert await application.services.sessions.is_recent(browser.session)


async def test_a_revoked_key_ends_the_session(application, browser):
    client = await signed_in(application, browser)
    key_id = (await client.get("/me")).json()["id"]
    assert (await browser.get("/console/signed-in")).status_code == 200

    admin = await application.client("admin")
    assert (await admin.delete(f"/keys/{key_id}")).status_code == 204

    assert (await browser.get("/console/signed-in")).headers["Location"].startswith("/console/sign-in")


@pytest.mark.filterwarnings("ignore:The `root_path` parameter is deprecated")
async def test_pages_behind_a_path_lead_below_it(configured):
    async with configured(root_path="/gateway") as application, PlainBrowser(application.url) as browser:
        asked = await browser.get("/console/signed-in")
        assert asked.headers["Location"] == "/gateway/console/sign-in?next=%2Fconsole%2Fsigned-in"
        page = await browser.get("/console/sign-in?next=%2Fgateway%2Fconsole%2Ftools")
        assert 'action="/gateway/console/sign-in"' in page.text
        assert 'name="next" value="/console/tools"' in page.text
        key = key_of(await application.client("tools:read"))

        response = await browser.sign_in(key, next="/console/tools")

    assert response.headers["Location"] == "/gateway/console/tools"


def test_the_handlers_are_public(application):
    routes = [
        one for one in application.app.router.routes if getattr(one, "path", "").startswith("/console/sign-")
    ]
    assert [one.endpoint.scope for one in routes] == [PUBLIC] * 3
