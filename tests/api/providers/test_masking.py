"""Who may turn masking off, and what a discovery shows of the secrets that it was made with."""

import json

import pytest
from aiohttp import web

from .documents import manual, openapi, tool

SCOPES = ("providers:read", "providers:write", "tools:read", "tools:call")
KEY = "discovery-key-0a1b2c3d4e5f"


@pytest.fixture
async def writer(gateway_app):
    return await gateway_app.client(*SCOPES)


def denied(response):
    assert response.status_code == 403, response.text
    assert response.json()["missing_scopes"] == ["credentials:write"]
    assert response.json()["errors"][0]["pointer"].endswith("/options/mask_responses")


async def test_turning_masking_off_needs_the_scope(admin, writer, upstream):
    body = {"name": "pets", "source": {"manual": manual(tool("echo", f"{upstream.url}/e"))}}
    off = {"options": {"mask_responses": False}}
    denied(await writer.post("/providers", json={**body, **off}))
    made = await writer.post("/providers", json={**body, "options": {"mask_responses": True}})
    assert made.status_code == 201, made.text
    denied(await writer.patch("/providers/pets", json=off))
    changed = await admin.patch("/providers/pets", json=off)
    assert changed.status_code == 200, changed.text
    assert changed.json()["options"]["mask_responses"] is False
    # What stays as it is, is no change; to turn it on again takes the scope, too.
    assert (await writer.patch("/providers/pets", json=off)).status_code == 200
    denied(await writer.patch("/providers/pets", json={"options": {"mask_responses": None}}))


async def test_the_option_applies_from_the_next_call_on(admin, upstream):
    async def reflect():
        return web.json_response({"reflected": upstream.seen[-1][2]["X-S"]})

    upstream.pages["/e"] = reflect
    one = tool("echo", f"{upstream.url}/e", headers={"X-S": KEY})
    assert (await admin.post("/providers?name=m", json=manual(one))).status_code == 201
    for option, expected in ((True, "***"), (False, KEY), (None, "***")):
        changed = await admin.patch("/providers/m", json={"options": {"mask_responses": option}})
        assert changed.status_code == 200, changed.text
        assert (await admin.post("/tools/m.echo/call", json={})).json() == {"reflected": expected}


async def test_a_discovery_shows_nothing_of_the_key_that_it_was_made_with(admin, upstream):
    document = openapi(upstream.url, paths=("/a",))
    document["info"]["description"] = f"Asked by {KEY}"
    document["paths"]["/a"]["get"]["summary"] = f"Your key is {KEY}"
    upstream.pages["/openapi.json"] = document
    described = tool("echo", f"{upstream.url}/e", headers={"X-Key": KEY})
    described["description"] = f"Echoes for {KEY}"
    upstream.pages["/utcp"] = manual(described)
    auth = {"auth_type": "api_key", "api_key": KEY, "var_name": "X-Key"}
    shown = []
    for name, path in (("doc", "/openapi.json"), ("man", "/utcp")):
        source = {
            "call_template": {"call_template_type": "http", "url": f"{upstream.url}{path}", "auth": auth}
        }
        for where in ("/providers/preview", "/providers"):
            response = await admin.post(where, json={"name": name, "source": source})
            assert response.status_code in (200, 201), response.text
            shown.append(response.text)
    for where in (
        "/providers/doc",
        "/providers/man",
        "/tools?limit=50",
        "/utcp",
        "/tools/search?q=key",
        "/export",
    ):
        shown += [(await admin.get(where)).text]
    assert "Your key is ***" in "".join(shown)
    assert "Echoes for ***" in "".join(shown)
    assert [text for text in shown if KEY in text] == []
    # The tool's own header is what it was: it was sealed as the upstream gave it.
    assert (await admin.post("/tools/man.echo/call", json={})).status_code == 200
    assert upstream.seen[-1][2]["X-Key"] == KEY


async def test_a_short_password_is_not_masked_in_what_is_discovered(admin, upstream):
    upstream.pages["/utcp"] = manual(tool("echo", f"{upstream.url}/e"))
    auth = {"auth_type": "basic", "username": "me", "password": "echo"}
    source = {"call_template": {"call_template_type": "http", "url": f"{upstream.url}/utcp", "auth": auth}}
    made = await admin.post("/providers", json={"name": "man", "source": source})
    assert made.status_code == 201, made.text
    assert (await admin.get("/tools/man.echo")).status_code == 200


async def test_a_discovery_that_fails_shows_nothing_of_its_key_either(admin, upstream):
    async def reject():
        return web.json_response({"key": KEY}, status=400, headers={"X-Request-Id": KEY})

    upstream.pages["/utcp"] = reject
    auth = {"auth_type": "api_key", "api_key": KEY, "var_name": "X-Key"}
    source = {"call_template": {"call_template_type": "http", "url": f"{upstream.url}/utcp", "auth": auth}}
    response = await admin.post("/providers", json={"name": "bad", "source": source})
    assert response.status_code == 502, response.text
    assert KEY not in json.dumps([response.text, dict(response.headers)])
