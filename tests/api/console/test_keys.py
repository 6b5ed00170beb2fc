"""The pages of API keys: what each key is shown, and that the text of a key is shown once."""

import re
from typing import Any

import pytest

from tests.harness.gateway import RunningGateway

KEY_TEXT = re.compile(r"ugw_[A-Za-z0-9]{12}_[A-Za-z0-9]+")


@pytest.fixture
def pages(gateway: RunningGateway) -> Any:
    """A client of the pages with the first key."""
    with gateway.client() as client:
        yield client


@pytest.fixture(scope="module")
def library(gateway: RunningGateway) -> tuple[str, str]:
    """The names of two tools."""
    operations = {
        f"/{name}": {
            "get": {"operationId": name, "summary": name, "responses": {"200": {"description": "ok"}}}
        }
        for name in ("find", "read")
    }
    document = {
        "openapi": "3.1.0", "info": {"title": "Shelf", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}], "paths": operations,
    }  # fmt: skip
    with gateway.client() as client:
        response = client.post("/providers", json={"name": "shelf", "source": {"document": document}})
    assert response.status_code == 201, response.text
    return "shelf.find", "shelf.read"


def make_key(gateway: RunningGateway, name: str, **body: Any) -> dict[str, Any]:
    with gateway.client() as client:
        response = client.post("/keys", json={"name": name, "scopes": ["tools:read"], **body})
    assert response.status_code == 201, response.text
    found: dict[str, Any] = response.json()
    return found


def as_key(gateway: RunningGateway, text: str) -> Any:
    return gateway.client(text)


def test_list_shows_scopes_in_words_restrictions_and_warnings(pages, gateway):
    made = make_key(
        gateway,
        "words",
        scopes=["tools:call", "calls:read"],
        providers=["nope"],
        allow_unknown_providers=True,
    )
    html = pages.get("/console/keys", params={"q": "words"}).text
    assert "call tools, read calls and changes" in html
    assert "nope" in html
    assert "sees nothing" in html
    assert f"/console/keys/{made['id']}" in html
    assert made["key"] not in html


def test_filters_and_order_are_those_of_the_url(pages, gateway):
    with gateway.client() as client:
        for name in ("order-b", "order-a"):
            make_key(gateway, name)
        gone = make_key(gateway, "order-gone")
        client.delete(f"/keys/{gone['id']}")
    by_name = pages.get("/console/keys", params={"q": "order-", "sort": "name"}).text
    assert by_name.index("order-a") < by_name.index("order-b")
    assert "order-gone" not in by_name
    assert "order-gone" in pages.get("/console/keys", params={"q": "order-", "state": "revoked"}).text


def test_text_of_a_new_key_is_shown_once(pages, gateway):
    form = {"name": "once", "role": "agent", "expiry": "90", "once": "the-form-of-once"}
    created = pages.post("/console/keys/new", data=form)
    assert created.status_code == 201
    (text,) = KEY_TEXT.findall(created.text)
    assert "no-store" in created.headers["cache-control"]
    with as_key(gateway, text) as client:
        me = client.get("/me").json()
    assert sorted(me["scopes"]) == ["tools:call", "tools:read"]
    assert me["expires_at"] is not None

    again = pages.post("/console/keys/new", data=form)
    assert again.status_code == 303
    assert again.headers["location"].startswith(f"/console/keys/{me['id']}?")
    shown = pages.get(again.headers["location"])
    assert "shown only once" in shown.text
    for response in (again, shown, pages.get("/console/keys"), pages.get("/console/changes")):
        assert text not in response.text + str(response.headers)
    with gateway.client() as client:
        assert client.get("/keys", params={"q": "once"}).json()["total"] == 1
    assert text.encode() not in gateway.log.read_bytes()


def test_key_for_single_tools_is_limited_to_a_new_toolset(pages, gateway, library):
    first, second = library
    proposed = pages.get("/console/keys/new", params={"tool": [first, second], "name": "Two Tools"}).text
    assert 'value="two-tools"' in proposed
    form = {"name": "Two Tools", "role": "agent", "tools": f"{first}\r\n{second}", "toolset_name": ""}
    created = pages.post("/console/keys/new", data=form)
    assert created.status_code == 201, created.text
    with as_key(gateway, KEY_TEXT.findall(created.text)[0]) as client:
        assert client.get("/me").json()["toolsets"] == ["two-tools"]
        assert client.get("/toolsets/two-tools").json()["tools"] == 2


def test_snippets_connect_to_the_toolset_of_the_key_and_never_have_its_text(pages, gateway):
    form = {"name": "connects", "role": "agent", "toolsets": "not-there-yet"}
    created = pages.post("/console/keys/new", data=form)
    assert created.status_code == 201, created.text
    (text,) = KEY_TEXT.findall(created.text)
    assert created.text.count(text) == 1
    assert "/toolsets/not-there-yet/mcp" in created.text
    for title in ("curl", "Python", "TypeScript", "MCP", "OpenAI", "Anthropic"):
        assert f"<summary>{title}</summary>" in created.text
    monitoring = pages.post("/console/keys/new", data={"name": "watches", "role": "monitoring"})
    assert monitoring.status_code == 201
    assert "Connect a client" not in monitoring.text


def test_no_toolset_is_left_where_the_key_is_rejected(pages, gateway, library):
    form = {
        "name": "left",
        "role": "agent",
        "tools": library[0],
        "expiry": "date",
        "expires_on": "2020-01-01",
    }
    rejected = pages.post("/console/keys/new", data=form)
    assert rejected.status_code == 409
    assert "in the past" in rejected.text
    assert 'value="left"' in rejected.text
    with gateway.client() as client:
        assert client.get("/toolsets/left").status_code == 404


def test_unknown_tools_are_said_at_their_field(pages, gateway, library):
    form = {"name": "typo", "role": "agent", "tools": f"{library[0]}\nlibrary.nope"}
    rejected = pages.post("/console/keys/new", data=form)
    assert rejected.status_code == 422
    assert 'id="tools-error">library.nope' in rejected.text
    with gateway.client() as client:
        assert client.get("/toolsets/typo").status_code == 404
        assert client.get("/keys", params={"q": "typo"}).json()["total"] == 0


def test_errors_of_fields_stand_at_their_fields(pages):
    rejected = pages.post(
        "/console/keys/new", data={"name": "", "role": "custom", "requests": "x", "per_seconds": "9"}
    )
    assert rejected.status_code == 422
    assert 'id="name-error"' in rejected.text
    assert 'id="requests-error"' in rejected.text


def test_edit_changes_only_what_differs(pages, gateway):
    made = make_key(gateway, "edited", owner="a@example.com", tags=["x"], expires_at="2999-01-01T00:00:00Z")
    path = f"/console/keys/{made['id']}/edit"
    tag = re.search(r'name="etag" value="([^"]*)"', pages.get(path).text)[1].replace("&#34;", '"')
    form = {"name": "edited twice", "role": "custom", "scopes": ["tools:read"], "owner": "a@example.com",
            "tags": "x", "expiry": "keep", "etag": tag}  # fmt: skip
    assert pages.post(path, data=form).status_code == 303
    with gateway.client() as client:
        key = client.get(f"/keys/{made['id']}").json()
        events = client.get("/events", params={"object_name": made["id"]}).json()["items"]
    assert (key["name"], key["tags"], key["expires_at"]) == ("edited twice", ["x"], "2999-01-01T00:00:00Z")
    assert events[0]["detail"]["changed"] == ["name"]
    stale = pages.post(path, data={**form, "name": "edited again"})
    assert stale.status_code == 412
    assert 'value="edited again"' in stale.text


def test_rotation_shows_the_successor_once(pages, gateway):
    made = make_key(gateway, "turns")
    form = {"overlap_seconds": "3600", "once": f"rotate-{made['id']}"}
    rotated = pages.post(f"/console/keys/{made['id']}/rotate", data=form)
    assert rotated.status_code == 201
    (text,) = KEY_TEXT.findall(rotated.text)
    assert made["id"] in rotated.text
    assert text != made["key"]
    again = pages.post(f"/console/keys/{made['id']}/rotate", data=form)
    assert again.status_code == 303
    assert text not in str(again.headers)


def test_revocation_needs_the_name(pages, gateway):
    made = make_key(gateway, "leaves")
    path = f"/console/keys/{made['id']}/revoke"
    assert pages.post(path, data={"name": "stays"}).status_code == 422
    with as_key(gateway, made["key"]) as client:
        assert client.get("/me").status_code == 200
        revoked = pages.post(path, data={"name": "leaves"})
        assert revoked.status_code == 303
        assert client.get("/me").status_code == 401
    assert "Revoked the key." in pages.get(revoked.headers["location"]).text


def test_key_without_the_scope_sees_why(gateway):
    made = make_key(gateway, "reads tools")
    with as_key(gateway, made["key"]) as client:
        for path in ("/console/keys", "/console/keys/new", f"/console/keys/{made['id']}"):
            response = client.get(path)
            assert response.status_code == 403
            assert "keys:manage" in response.text
            assert 'href="/console/keys"' not in response.text


def test_only_scopes_of_the_own_key_are_offered(gateway):
    made = make_key(gateway, "manages", scopes=["keys:manage", "tools:read", "tools:call"])
    with as_key(gateway, made["key"]) as client:
        html = client.get("/console/keys/new").text
    assert 'value="agent"' in html
    assert 'value="keys:manage"' in html
    assert 'value="admin"' not in html
    assert 'value="providers:write"' not in html
    assert 'name="tools"' not in html
