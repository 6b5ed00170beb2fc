"""`POST /session`, `DELETE /session` and `POST /session/link`."""

from asyncio import gather

import httpx2
import pytest

from tests.api.session.conftest import PlainBrowser, key_of
from tests.harness.cases import for_each
from tests.harness.plain_http import WITHOUT_CERTIFICATES


async def test_a_key_signs_in(application):
    client = await application.client("tools:read")

    response = await client.post("/session")

    assert response.status_code == 201, response.text
    assert set(response.json()) == {"key_id", "expires_at"}
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Location"] == "/session"
    cookie = response.headers["Set-Cookie"]
    name, _, attributes = cookie.partition("=")
    assert name == f"utcp-session-{application.url.rpartition(':')[2]}"
    assert attributes.partition("; ")[2] == "Path=/; Max-Age=604799; HttpOnly; SameSite=Strict" or (
        attributes.partition("; ")[2] == "Path=/; Max-Age=604800; HttpOnly; SameSite=Strict"
    )


@pytest.mark.parametrize("headers", [{"Host": "192.0.2.1:8000"}, {"X-Forwarded-Host": "tools.example.com"}])
async def test_plain_http_elsewhere_is_rejected_with_the_remedy(application, headers):
    client = await application.client("tools:read")

    response = await client.post("/session", headers=headers)

    assert response.status_code == 403
    assert response.json()["type"] == "urn:utcp-gateway:problem:https-required"
    assert "PUBLIC_BASE_URL" in response.json()["hint"]
    assert "Set-Cookie" not in response.headers


async def test_behind_a_trusted_proxy_the_cookie_is_secure(application):
    client = await application.client("tools:read")
    headers = {"Host": "tools.example.com", "X-Forwarded-Proto": "https", "X-Forwarded-For": "198.51.100.7"}

    response = await client.post("/session", headers=headers)

    assert response.headers["Set-Cookie"].startswith("__Host-utcp-session=ugs_")
    assert response.headers["Set-Cookie"].endswith("; HttpOnly; SameSite=Strict; Secure")


async def test_an_untrusted_proxy_does_not_make_a_request_secure(configured):
    async with configured(forwarded_allow_ips="198.51.100.7") as application:
        client = await application.client("tools:read")
        headers = {"Host": "tools.example.com", "X-Forwarded-Proto": "https"}

        response = await client.post("/session", headers=headers)

    assert response.status_code == 403


async def test_the_cookie_is_no_key_of_the_api(application, browser):
    key = key_of(await application.client("admin"))
    assert (await browser.sign_in(key)).status_code == 303

    response = await browser.get("/me")

    assert response.status_code == 401


async def test_a_failed_sign_in_is_an_event(application):
    client = await application.client("admin")

    response = await client.post("/session", headers={"Authorization": "Bearer ugw_nonsense"})

    assert response.status_code == 401
    # Of an address that had failed within the minute, it is recorded later.
    await application.services.sessions.flush()
    events = (await client.get("/events", params={"object_type": "session"})).json()["items"]
    failed = [one for one in events if one["action"] == "failed"]
    assert [(one["actor"], one["object_name"]) for one in failed] == [("anonymous", "127.0.0.1")]


async def test_signing_out_ends_the_session_and_deletes_the_cookie(application, browser):
    await browser.sign_in(key_of(await application.client("tools:read")))
    session = browser.session

    response = await browser.delete("/session", headers=browser.own)

    assert response.status_code == 204
    assert "Max-Age=0" in response.headers["Set-Cookie"]
    assert await application.services.sessions.find(session) is None


async def test_signing_out_without_a_session_does_nothing(browser):
    response = await browser.delete("/session")

    assert response.status_code == 204
    assert "Set-Cookie" not in response.headers


@for_each(
    "headers",
    [
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_another_page_does_not_sign_out(application, browser, headers):
    await browser.sign_in(key_of(await application.client("tools:read")))

    response = await browser.delete("/session", headers=headers)

    assert response.status_code == 403
    assert response.json()["type"] == "urn:utcp-gateway:problem:cross-site-request"
    assert await application.services.sessions.find(browser.session) is not None


async def test_a_link_signs_in_once(application, browser):
    client = await application.client("tools:read")
    response = await client.post("/session/link")
    assert response.status_code == 200, response.text
    url, _, token = response.json()["url"].partition("#")
    assert url == f"{application.url}/console/sign-in"

    first = await browser.submit("/console/sign-in", sign_in_token=token)
    async with PlainBrowser(application.url) as other:
        second = await other.submit("/console/sign-in", sign_in_token=token)

    assert (first.status_code, second.status_code) == (303, 401)
    assert "sign-in-link" in second.text
    assert (await application.services.sessions.find(browser.session)).key_id == (
        await client.get("/me")
    ).json()["id"]


async def test_reading_the_page_of_a_link_does_not_use_it_up(application, browser):
    token = (
        (await (await application.client("tools:read")).post("/session/link")).json()["url"].partition("#")[2]
    )
    for method in ("GET", "HEAD", "GET"):
        for headers in ({"Purpose": "prefetch"}, {"Sec-Purpose": "prefetch;prerender"}, {}):
            response = await browser.request(
                method, f"/console/sign-in?sign_in_token={token}", headers=headers
            )
            assert response.status_code == 200
            assert token not in response.text

    assert (await browser.submit("/console/sign-in", sign_in_token=token)).status_code == 303


async def test_a_link_begins_with_the_public_url(configured):
    async with configured(public_base_url="https://tools.example.com/gateway") as application:
        client = await application.client("tools:read")
        response = await client.post("/session/link", headers={"Host": "evil.example"})

    assert response.json()["url"].startswith("https://tools.example.com/gateway/console/sign-in#ugl_")


async def test_without_the_console_there_is_no_session(configured):
    async with configured(console=False) as application:
        client = await application.client("tools:read")
        found = [
            (await client.request(method, path)).status_code
            for method, path in (
                ("POST", "/session"), ("POST", "/session/link"), ("DELETE", "/session"),
                ("GET", "/console"), ("GET", "/console/sign-in"), ("POST", "/console/sign-in"),
            )
        ]  # fmt: skip

    assert found == [403, 403, 204, 404, 404, 404]


async def test_too_many_sign_ins_are_limited(application):
    client = await application.client("tools:read")

    # At once, since a permit comes back every other second.
    statuses = [
        response.status_code for response in await gather(*(client.post("/session") for _ in range(60)))
    ]

    assert statuses.count(201) >= 30
    assert set(statuses) == {201, 429}


async def test_many_invalid_keys_of_an_address_are_limited(configured):
    async with (
        configured(key_failure_rate_limit="1/60:3") as application,
        httpx2.AsyncClient(base_url=application.url, trust_env=False, verify=WITHOUT_CERTIFICATES) as client,
    ):
        own = {"Origin": application.url}
        waits = []
        for field in ("sign_in_token", "sign_in_token", "sign_in_token", "sign_in_token"):
            response = await client.post("/console/sign-in", data={field: "nonsense"}, headers=own)
            waits.append((response.status_code, "Retry-After" in response.headers))

    assert waits == [(401, False)] * 3 + [(401, True)]
