"""Dangerous acts of a session need its key, or a link of it, presented a short time ago; routes declare them."""

import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from sqlalchemy import text
from starlette.requests import Request
from starlette.responses import Response

from app.api.authorisation import declared_recent, declared_scope, iter_routes
from app.console.forms.confirmation import FORM_FIELD, PROOF_FIELD
from app.console.http.api_client import ApiClient, ConfirmationRequired, path_of
from app.console.http.page import Page
from app.console.http.page_router import PageRouter
from app.console.pages import PAGES
from app.security.principal import Principal
from app.storage.models import TENANT
from tests.api.console.test_hostile_requests import FORMS, POSTS, admin, application, with_names
from tests.api.session.conftest import PlainBrowser, key_of, text_of
from tests.harness.cases import for_each

__all__ = ["admin", "application"]

pytestmark = pytest.mark.time_limit(120)

WITHOUT_SESSION = {"/console/sign-in", "/console/sign-out"}
HARMLESS_FORMS = {
    "/console/add",
    "/console/add/provider",
    "/console/add/read-only",
    "/console/add/tool",
    "/console/confirm",
    "/console/language",
    "/console/new-toolset",
    "/console/providers/{name}/check",
    "/console/providers/{name}/pause",
    "/console/providers/{name}/refresh",
    "/console/providers/{name}/refresh/preview",
    "/console/providers/{name}/resume",
    "/console/search/pins",
    "/console/search/pins/delete",
    "/console/search/synonyms",
    "/console/search/synonyms/delete",
    "/console/tools",
    "/console/tools/{name}",
    "/console/tools/{name}/edit",
    "/console/tools/{name}/enabled",
}
"""Forms that show no key, widen no right and delete nothing that cannot be undone."""
HARMLESS_OPERATIONS = {
    "DELETE /search/pins/{id}",
    "DELETE /search/synonyms/{id}",
    "DELETE /session",
    "PATCH /providers/{name}",
    "PATCH /recordings/{name}",
    "PATCH /tools/{name}",
    "POST /agent-tests",
    "POST /agent-tests/{id}/cancel",
    "POST /approvals/{id}/reject",
    "POST /import",
    "POST /mcp",
    "POST /mcp/all",
    "POST /mcp/search",
    "POST /providers",
    "POST /providers/preview",
    "POST /providers/{name}/check",
    "POST /providers/{name}/refresh",
    "POST /providers/{name}/refresh/preview",
    "POST /recordings",
    "POST /recordings/{name}/runs",
    "POST /search/pins",
    "POST /search/synonyms",
    "POST /session",
    "POST /tool-calls",
    "POST /tools",
    "POST /tools/{name}/call",
    "POST /tools:batch",
    "POST /toolsets",
    "POST /toolsets/{name}/mcp",
    "POST /toolsets/{name}/tool-calls",
    "POST /toolsets/{name}/tools/{tool}/call",
    "POST /ubp/commands",
    "PUT /recordings/{name}",
    "PUT /search/pins/{id}",
    "PUT /search/synonyms.txt",
    "PUT /search/synonyms/{id}",
}
"""Operations of the API that a session may use however long ago its key was presented."""
SECRETS = {"GET /calls/{call_id}/bodies", "GET /calls/{call_id}/envelope"}
"""Operations that only read, and show secrets."""


@pytest.fixture
async def browser(application, admin) -> AsyncIterator[PlainBrowser]:
    """A browser whose session has presented its key six minutes ago."""
    async with PlainBrowser(application.url) as client:
        signed_in = await client.sign_in(key_of(admin))
        assert signed_in.status_code == 303, signed_in.text
        await make_old(application)
        yield client


async def make_old(application) -> None:
    async with application.services.database.transaction() as session:
        await session.execute(
            text("UPDATE console_sessions SET authenticated_at = :at"),
            {"at": datetime.now(UTC) - timedelta(minutes=6)},
        )
    application.services.sessions._cached.clear()


async def state_of(admin) -> dict[str, object]:
    """Return what the API lists, without the times at which something was used."""
    found: dict[str, object] = {}
    for path in ("/keys", "/providers", "/toolsets", "/recordings", "/plugins", "/variables"):
        listed = (await admin.get(path, params={"limit": 200})).json()["items"]
        found[path] = [
            {key: value for key, value in item.items() if "last_used" not in key} for item in listed
        ]
    return found


def asks(response) -> bool:
    """Return whether a response asks for the key of the session."""
    location = response.headers.get("location", "")
    is_page = response.status_code == 403 and f'name="{PROOF_FIELD}"' in response.text
    return is_page or location.startswith("/console/confirm?next=")


def form_of(response) -> dict[str, str]:
    """Return the hidden field of a confirmation page, with the action of its form."""
    action = re.search(r'<form class="form panel" method="post" action="([^"]+)"', response.text)[1]
    sealed = re.search(rf'name="{re.escape(FORM_FIELD)}" value="([^"]+)"', response.text)[1]
    return {"action": unescape(action), FORM_FIELD: unescape(sealed)}


async def confirm(browser, page, proof: str):
    fields = form_of(page)
    return await browser.submit(fields.pop("action"), **fields, **{PROOF_FIELD: proof})


def fields_of(path: str) -> Iterator[dict[str, object]]:
    """Yield what to submit to a form: nothing, its hostile fields, and names that are typed for deletions."""
    yield {}
    yield {
        "name": "books",
        "typed": "few",
        "decision": "approve",
        "id": "x",
        "everything": "1",
        "what": "bodies",
    }
    for _, form_path, fields in FORMS:
        if form_path.replace("OWN", "a1b2c3d4e5f6") == with_names(path):
            yield fields


async def test_confirming_the_origin_of_a_redirect_asks_for_the_key(browser):
    source = {"source": "url", "url": "http://127.0.0.1:9/openapi.json", "name": "moved"}
    for origin in ("", "http://localhost:9"):
        response = await browser.post(
            "/console/add/provider", data={**source, "redirect_origin": origin}, headers=browser.own
        )
        assert asks(response) is bool(origin)


async def test_a_session_whose_key_was_presented_long_ago_does_nothing_dangerous(browser, admin):
    before = await state_of(admin)
    failed = []
    for path in POSTS:
        if path in WITHOUT_SESSION:
            continue
        for fields in fields_of(path):
            response = await browser.post(with_names(path), data=fields, headers=browser.own)
            if asks(response) is (path in HARMLESS_FORMS):
                failed.append((path, fields, response.status_code, text_of(response)[:100]))
    assert not failed
    after = await state_of(admin)
    assert after["/keys"] == before["/keys"]
    assert after["/variables"] == before["/variables"]
    for kind in ("/providers", "/toolsets", "/plugins", "/recordings"):
        # Nothing is gone; new toolsets are harmless.
        assert {item["name"] for item in before[kind]} <= {item["name"] for item in after[kind]}


def test_every_form_declares_whether_it_is_dangerous():
    declared = {
        route.path: getattr(route.endpoint, "recent", None)
        for router in PAGES
        for route in router.routes
        if "POST" in route.methods
    }
    assert {path for path, recent in declared.items() if recent is False} == HARMLESS_FORMS | WITHOUT_SESSION
    assert all(recent is not None for recent in declared.values())


async def test_the_api_declares_what_a_session_needs_its_key_for(application):
    """A page that has not declared what it does is stopped by the operation."""
    principal = Principal(key_id="k", name="x", tenant_id=TENANT, scopes=frozenset({"admin"}))
    app = application.app

    async def current() -> Principal:
        return principal

    async def is_recent() -> bool:
        return False

    operations = {
        f"{method} {route.path.rstrip('/')}": route
        for route in iter_routes(app.routes)
        if declared_scope(route) is not None and not route.path.startswith("/console")
        for method in set(getattr(route, "methods", None) or ()) - {"GET", "HEAD", "OPTIONS"}
    }
    undeclared = {name for name, route in operations.items() if not declared_recent(route)}
    # A new operation is put among these, or declares `recent=True`.
    assert sorted(undeclared) == sorted(HARMLESS_OPERATIONS)
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "app": app, "method": "POST", "path": "/console",
        "query_string": b"", "headers": [], "state": dict(application.state),
    }  # fmt: skip
    failed = []
    for name in sorted((operations.keys() - HARMLESS_OPERATIONS) | SECRETS):
        method, path = name.split(" ")
        client = ApiClient(Request(scope), current, is_recent=is_recent)
        try:
            response = await client.send(method, re.sub(r"\{[^}]*\}", "x", path), check=False)
        except ConfirmationRequired:
            continue
        failed.append((name, response.status))
    assert not failed


@for_each("value", [False, None])
async def test_a_session_ends_the_requirement_of_approval_only_with_its_key(application, value):
    principal = Principal(key_id="k", name="x", tenant_id=TENANT, scopes=frozenset({"admin"}))

    async def current() -> Principal:
        return principal

    async def is_recent() -> bool:
        return False

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "app": application.app, "method": "POST", "path": "/console",
        "query_string": b"", "headers": [], "state": dict(application.state),
    }  # fmt: skip

    async def send(method: str, path: str, changes: dict[str, Any], body: Any) -> int:
        client = ApiClient(Request(scope), current, is_recent=is_recent)
        return (await client.send(method, path, json=body(changes), check=False)).status

    for method, path, body in (
        ("PATCH", "/tools/no.tool", dict),
        ("POST", "/tools:batch", lambda patch: {"operations": [{"tool": "no.tool", "patch": patch}]}),
    ):
        with pytest.raises(ConfirmationRequired):
            await send(method, path, {"requires_approval": value}, body)
        for harmless in ({"requires_approval": True}, {"enabled": True}):
            assert await send(method, path, harmless, body) in (207, 404)


async def test_nothing_typed_is_lost_by_the_confirmation(browser, admin):
    page = await browser.submit("/console/keys/new", name="typed by hand", role="custom", scopes="tools:read")
    assert asks(page)
    assert "typed by hand" not in page.text

    wrong = await confirm(browser, page, "ugw_x")
    assert (wrong.status_code, "What you have entered is kept." in wrong.text) == (401, True)
    created = await confirm(browser, wrong, key_of(admin))

    assert created.status_code == 201, text_of(created)[:300]
    listed = (await admin.get("/keys", params={"q": "typed by hand"})).json()["items"]
    assert [key["name"] for key in listed] == ["typed by hand"]


async def test_secrets_of_a_form_are_not_in_the_page_that_asks(browser):
    page = await browser.submit(
        "/console/providers/books/variables", variable="TOKEN", value="canary-secret", secret="1"
    )

    assert asks(page)
    assert "canary-secret" not in page.text
    assert "canary-secret" not in str(page.headers)


async def test_a_kept_form_is_of_its_page_only(application, browser, admin):
    page = await browser.submit("/console/keys/new", name="kept", role="custom", scopes="tools:read")
    fields = form_of(page)
    fields.pop("action")

    for path, sealed in (
        ("/console/new-toolset", None),
        ("/console/providers/books/delete", fields[FORM_FIELD]),
    ):
        body = {FORM_FIELD: sealed or fields[FORM_FIELD], PROOF_FIELD: key_of(admin)}
        response = await browser.submit(path, **body)
        assert response.status_code in (400, 422), (path, response.status_code)
    assert (await admin.get("/providers/books")).status_code == 200


@pytest.mark.parametrize("form", ["token", "url"])
async def test_a_sign_in_link_confirms_in_place_of_the_key(browser, admin, form):
    page = await browser.submit("/console/keys/new", name=f"by {form}", role="custom", scopes="tools:read")
    assert "utcp-gateway sign-in-link" in page.text
    url = (await admin.post("/session/link")).json()["url"]

    created = await confirm(browser, page, url if form == "url" else url.partition("#")[2])

    assert created.status_code == 201, text_of(created)[:300]
    again = await confirm(browser, page, url)
    assert again.status_code in (201, 303)


async def test_a_link_of_another_key_confirms_nothing(application, browser, admin):
    other = await application.client("admin")
    page = await browser.submit("/console/keys/new", name="by other", role="custom", scopes="tools:read")
    url = (await other.post("/session/link")).json()["url"]

    response = await confirm(browser, page, url)

    assert response.status_code == 401
    assert "not a link of the key" in text_of(response)


async def test_an_opened_link_confirms_the_session_and_returns(application, browser, admin):
    back = {**browser.own, "Referer": f"{application.url}/console/keys/new?role=admin"}
    page = await browser.submit("/console/keys/new", back, name="by tab", role="custom", scopes="tools:read")
    before = browser.session
    url = (await admin.post("/session/link")).json()["url"]

    opened = await browser.submit("/console/sign-in", sign_in_token=url.partition("#")[2])

    assert (opened.status_code, opened.headers["location"]) == (303, "/console/confirmed")
    assert browser.session == before
    told = await browser.get("/console/confirmed")
    assert 'href="/console/keys/new?role=admin"' in told.text
    # The tab that has asked goes on without a key.
    created = await confirm(browser, page, "")
    assert created.status_code == 201, text_of(created)[:300]


async def test_a_page_that_has_declared_nothing_is_stopped_by_what_it_asks_of_the_api(
    application, browser, admin
):
    router = PageRouter()

    @router.post("/console/undeclared", recent=False)
    async def delete(page: Page) -> Response:
        name = str((await page.form())["name"])
        await page.api.delete(path_of("toolsets", name))
        return page.redirect("/console/toolsets")

    made = await admin.post("/toolsets", json={"name": "gone", "definition": {"tools": ["books.list"]}})
    assert made.status_code == 201, made.text
    application.app.router.routes[:0] = router.routes
    try:
        page = await browser.submit("/console/undeclared", name="gone")
        assert asks(page)
        assert (await admin.get("/toolsets/gone")).status_code == 200

        confirmed = await confirm(browser, page, key_of(admin))
    finally:
        del application.app.router.routes[: len(router.routes)]

    assert confirmed.headers["location"] == "/console/toolsets"
    assert (await admin.get("/toolsets/gone")).status_code == 404


async def test_cancelling_leads_back_to_the_form_also_after_a_wrong_key(application, browser):
    back = {**browser.own, "Referer": f"{application.url}/console/keys/new"}
    page = await browser.submit("/console/keys/new", back, name="x", role="custom", scopes="tools:read")
    fields = form_of(page)
    own = {**browser.own, "Referer": application.url + fields["action"] + "?x=1"}

    wrong = await browser.submit(fields.pop("action"), own, **fields, **{PROOF_FIELD: "ugw_x"})

    assert 'href="/console/keys/new">Cancel' in wrong.text


async def test_a_page_of_secrets_comes_after_the_confirmation(browser, admin):
    path = "/console/providers/books/delete"
    asked = await browser.get(path)
    assert asked.headers["location"] == "/console/confirm?next=%2Fconsole%2Fproviders%2Fbooks%2Fdelete"

    confirmed = await browser.submit("/console/confirm", key=key_of(admin), next=path)

    assert confirmed.headers["location"] == path
    assert (await browser.get(path)).status_code == 200
