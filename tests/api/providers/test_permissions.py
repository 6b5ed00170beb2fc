"""Whose secrets a registration may use: those that its key may store, and those that are shared."""

import orjson
import pytest

from tests.harness.cases import for_each

from .documents import manual, openapi, tool

SEALED = [
    {"auth": {"auth_type": "api_key", "api_key": "literal"}},
    {"auth": {"auth_type": "api_key", "api_key": "${TENANT_SECRET}"}},
    {"headers": {"X-Any": "literal"}},
    {"headers": {"Accept": "${TENANT_SECRET}"}},
    {"url": "{url}/e?key=literal"},
    {"url": "{userinfo}/e"},
]
SCOPES = ("providers:read", "providers:write", "tools:read", "tools:call")


@pytest.fixture
async def writer(admin, gateway_app):
    await admin.put("/variables/TENANT_SECRET", json={"value": "the-tenants-own"})
    return await gateway_app.client(*SCOPES, providers=("leak", "leak2", "leak3"))


def at(template, upstream):
    url = template.get("url", "{url}/e").format(
        url=upstream.url, userinfo=upstream.url.replace("://", "://u:p@")
    )
    return {**template, "url": url}


def assert_denied(response, scope="credentials:write"):
    assert response.status_code == 403, response.text
    assert response.json()["missing_scopes"] == [scope]


@for_each("template", SEALED)
async def test_credentials_of_any_template_need_their_scope(admin, writer, upstream, template):
    one = tool("echo", **at(template, upstream))
    discovery = {"call_template_type": "http", **at(template, upstream)}
    upstream.pages["/utcp"] = manual(tool("echo", f"{upstream.url}/e"))
    for path in ("/providers", "/providers/preview"):
        for response in (
            await writer.post(f"{path}?name=leak", json=manual(one)),
            await writer.post(f"{path}?name=leak", json=discovery),
            await writer.post(path, json={"name": "leak", "source": {"manual": manual(one)}}),
            await writer.post(path, json={"name": "leak", "source": {"call_template": discovery}}),
            await writer.post(
                path, files={"file": ("m.json", orjson.dumps(manual(one)))}, data={"name": "leak"}
            ),
        ):
            if "${" in str(template):
                assert response.status_code == 403, response.text
            else:
                assert_denied(response)
    body = {"provider": "leak", "name": "x", "call_template": at(template, upstream)}
    assert (await writer.post("/tools", json=body)).status_code == 403
    assert upstream.seen == []
    assert (await admin.get("/providers")).json()["items"] == []


async def test_auth_for_the_tools_needs_the_scope_before_anything_is_fetched(writer, upstream):
    auth = {"auth_type": "api_key", "api_key": "literal", "var_name": "X-Key"}
    source = {"url": f"{upstream.url}/openapi.json", "auth_tools": auth}
    assert_denied(await writer.post("/providers", json={"name": "leak", "source": source}))
    assert upstream.seen == []


async def test_a_fetched_manual_with_credentials_needs_the_scope_at_a_refresh_too(writer, upstream):
    upstream.pages["/utcp"] = manual(tool("echo", f"{upstream.url}/e"))
    made = await writer.post("/providers", json={"name": "leak", "source": {"url": f"{upstream.url}/utcp"}})
    assert made.status_code == 201, made.text
    assert (await writer.post("/providers/leak/refresh")).status_code == 200
    upstream.pages["/utcp"] = manual(tool("echo", f"{upstream.url}/e", headers={"X-Any": "v"}))
    assert_denied(await writer.post("/providers/leak/refresh"))


async def test_each_entry_of_a_list_gets_its_status(writer, upstream):
    upstream.pages["/utcp"] = manual(tool("echo", f"{upstream.url}/e"))
    plain = {"name": "leak", "call_template_type": "http", "url": f"{upstream.url}/utcp"}
    keyed = {**plain, "name": "leak2", "headers": {"X-Any": "literal"}}
    with_variable = {
        "name": "leak3",
        "source": {"url": f"{upstream.url}/utcp"},
        "variables": {"A": {"value": "x"}},
    }
    response = await writer.post("/providers", json={"manual_call_templates": [plain, keyed, with_variable]})
    assert response.status_code == 207, response.text
    assert [one["status"] for one in response.json()["entries"]] == [201, 403, 403]


async def test_headers_that_are_no_credential_need_no_scope(writer, upstream):
    one = tool("echo", f"{upstream.url}/e?q={{q}}", headers={"Accept": "a/b", "User-Agent": "me"})
    assert (await writer.post("/providers?name=leak", json=manual(one))).status_code == 201
    assert (await writer.post("/providers?name=leak2", json=openapi(upstream.url))).status_code == 201


async def test_a_limited_key_cannot_use_shared_secrets(admin, gateway_app, upstream):
    await admin.put("/variables/TENANT_SECRET", json={"value": "the-tenants-own"})
    await admin.put("/variables/REGION", json={"value": "eu", "secret": False})
    limited = await gateway_app.client(*SCOPES, "credentials:write", providers=("leak",))
    keyed = {"auth": {"auth_type": "api_key", "api_key": "${TENANT_SECRET}"}}
    stolen = await limited.post(
        "/providers?name=leak", json=manual(tool("echo", f"{upstream.url}/e", **keyed))
    )
    assert stolen.status_code == 403, stolen.text
    template = {"url": f"{upstream.url}/e", **keyed}
    written = await limited.post("/tools", json={"provider": "leak", "name": "x", "call_template": template})
    assert written.status_code == 403, written.text
    open_ = {"url": f"{upstream.url}/${{REGION}}", "auth": {"auth_type": "api_key", "api_key": "${OWN}"}}
    body = {"provider": "leak", "name": "x", "call_template": open_, "variables": {"OWN": {"value": "mine"}}}
    assert (await limited.post("/tools", json=body)).status_code == 201
    put = await limited.put("/providers/leak/credentials/default",
                            json={"kind": "bearer", "token": "${TENANT_SECRET}"})  # fmt: skip
    assert put.status_code == 403, put.text
    # Without the provider's own variable, the name would refer to the shared one.
    assert (await limited.delete("/providers/leak/variables/OWN")).status_code == 409
    assert (await admin.delete("/providers/leak/variables/OWN")).status_code == 204


async def test_a_limited_key_refreshes_a_provider_that_may_use_shared_secrets(admin, gateway_app, upstream):
    await admin.put("/variables/TENANT_SECRET", json={"value": "the-tenants-own"})
    keyed = {"auth": {"auth_type": "api_key", "api_key": "${TENANT_SECRET}"}}
    made = await admin.post("/providers?name=leak", json=manual(tool("echo", f"{upstream.url}/e", **keyed)))
    assert made.status_code == 201, made.text
    limited = await gateway_app.client(*SCOPES, providers=("leak",))
    again = await limited.post("/providers/leak/refresh")
    assert again.status_code == 200, again.text


async def test_a_fetched_manual_shows_no_environment_value_and_sends_it_nowhere_else(
    admin, upstream, elsewhere, monkeypatch
):
    monkeypatch.setenv("gw_KEY", "the-operators-own")
    upstream.pages["/utcp"] = manual(
        tool("path", f"{elsewhere.url}/${{gw_KEY}}"),
        tool("query", f"{elsewhere.url}/e?k=${{gw_KEY}}"),
        tool("near", f"{upstream.url}/n", headers={"X-Key": "${gw_KEY}"}),
    )
    made = await admin.post("/providers", json={"name": "gw", "source": {"url": f"{upstream.url}/utcp"}})
    assert made.status_code == 201, made.text
    outcomes = {one["source_key"]: one["outcome"] for one in made.json()["report"]["operations"]}
    assert outcomes == {"path": "skipped", "query": "accepted", "near": "accepted"}
    for name in ("query", "near"):
        shown = await admin.post(f"/tools/gw.{name}/call?dry_run=true", json={})
        assert "the-operators-own" not in shown.text
    assert (await admin.post("/tools/gw.query/call", json={})).status_code == 403
    assert elsewhere.seen == []
    assert (await admin.post("/tools/gw.near/call", json={})).status_code == 200
    assert upstream.seen[-1][2]["X-Key"] == "the-operators-own"


async def test_a_fetched_manual_reaches_no_environment_value_behind_a_deleted_variable(
    admin, upstream, monkeypatch
):
    await admin.put("/variables/gw_KEY", json={"value": "v1", "secret": False})
    upstream.pages["/utcp"] = manual(tool("path", f"{upstream.url}/${{gw_KEY}}"))
    made = await admin.post("/providers", json={"name": "gw", "source": {"url": f"{upstream.url}/utcp"}})
    assert made.status_code == 201, made.text
    assert (await admin.post("/tools/gw.path/call", json={})).status_code == 200
    monkeypatch.setenv("gw_KEY", "the-operators-own")
    assert (await admin.delete("/variables/gw_KEY")).status_code == 204
    rejected = await admin.post("/tools/gw.path/call", json={})
    assert rejected.status_code == 422, rejected.text
    assert [path for _, path, _, _ in upstream.seen] == ["/utcp", "/v1"]


async def test_an_environment_value_needs_the_scope_to_store_credentials(
    admin, writer, gateway_app, upstream, monkeypatch
):
    monkeypatch.setenv("GATEWAY_TEST_REGION", "eu")
    body = manual(tool("echo", f"{upstream.url}/${{GATEWAY_TEST_REGION}}"))
    assert_denied(await writer.post("/providers?name=leak", json=body))
    limited = await gateway_app.client(*SCOPES, "credentials:write", providers=("leak",))
    assert (await limited.post("/providers?name=leak", json=body)).status_code == 403
    assert (await admin.post("/providers?name=leak", json=body)).status_code == 201
    assert (await writer.post("/providers/leak/refresh")).status_code == 200
