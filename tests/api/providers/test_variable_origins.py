"""A secret variable that all providers share is sent to its allowed origins only."""

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import text

from tests.harness.cases import for_each

VALUE = "canary-of-the-shared-secret"


def registration(name, upstream, header="${SHARED}"):
    document = {
        "openapi": "3.1.0",
        "info": {"title": name, "version": "1"},
        "servers": [{"url": upstream.url}],
        "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
        "security": [{"key": []}],
        "paths": {"/a": {"get": {"operationId": "a", "responses": {"200": {"description": "A."}}}}},
    }
    credential = {"kind": "api_key", "value": header, "allowed_origins": [upstream.url]}
    return {"name": name, "source": {"document": document}, "credentials": {"key": credential}}


async def shared(admin):
    items = (await admin.get("/variables")).json()["items"]
    return next(one for one in items if one["name"] == "SHARED")["allowed_origins"]


@pytest.fixture
async def first(admin, upstream):
    """The variable, and the provider of its first use."""
    assert (await admin.put("/variables/SHARED", json={"value": VALUE})).status_code == 201
    assert await shared(admin) is None
    made = await admin.post("/providers", json=registration("first", upstream))
    assert made.status_code == 201, made.text


def keys_seen(site):
    return [headers.get("X-Key") for _, _, headers, _ in site.seen]


async def test_variable_gets_the_origins_of_its_first_use(admin, first, upstream):
    assert await shared(admin) == [upstream.url]
    assert (await admin.post("/tools/first.a/call", json={})).status_code == 200
    assert keys_seen(upstream) == [VALUE]
    events = (await admin.get("/events?object_type=variable&action=updated")).json()["items"]
    assert [one["detail"]["allowed_origins"] for one in events] == [[upstream.url]]


async def test_other_origins_need_the_consent_of_the_owner(admin, first, upstream, elsewhere):
    denied = await admin.post("/providers", json=registration("second", elsewhere))
    assert (denied.status_code, denied.json()["type"].rpartition(":")[2]) == (403, "credential-not-allowed")
    assert (denied.json()["variable"], denied.json()["origin"]) == ("SHARED", elsewhere.url)
    assert VALUE not in denied.text
    body = {"allowed_origins": [upstream.url, elsewhere.url]}
    changed = await admin.patch("/variables/SHARED", json=body)
    assert (changed.status_code, changed.json()["allowed_origins"]) == (200, body["allowed_origins"])
    assert (await admin.post("/providers", json=registration("second", elsewhere))).status_code == 201
    assert (await admin.post("/tools/second.a/call", json={})).status_code == 200
    assert keys_seen(elsewhere) == [VALUE]


async def test_call_to_an_origin_that_is_no_longer_allowed_sends_nothing(admin, first, upstream, elsewhere):
    assert (await admin.post("/tools/first.a/call", json={})).status_code == 200
    await admin.patch("/variables/SHARED", json={"allowed_origins": [elsewhere.url]})
    for _ in range(2):
        denied = await admin.post("/tools/first.a/call", json={})
        assert denied.status_code == 403, denied.text
        assert (denied.json()["variable"], denied.json()["origin"]) == ("SHARED", upstream.url)
    preview = await admin.post("/tools/first.a/call?dry_run=true", json={})
    assert preview.status_code == 403, preview.text
    assert len(upstream.seen) == 1


async def test_credential_and_custom_tool_ask_for_consent_too(admin, first, upstream, elsewhere):
    other = await admin.post("/providers", json=registration("other", elsewhere, header="own"))
    assert other.status_code == 201, other.text
    put = await admin.put("/providers/other/credentials/key", json={"kind": "api_key", "value": "x${SHARED}"})
    assert (put.status_code, put.json().get("variable")) == (403, "SHARED"), put.text
    template = {"call_template_type": "http", "url": f"{elsewhere.url}/b", "headers": {"X-Key": "${SHARED}"}}
    tool = await admin.post("/tools", json={"provider": "own", "name": "b", "call_template": template})
    assert (tool.status_code, tool.json().get("variable")) == (403, "SHARED"), tool.text
    assert elsewhere.seen == []


async def test_origins_are_kept_with_a_new_value(admin, first, upstream):
    assert (await admin.put("/variables/SHARED", json={"value": "another"})).status_code == 200
    assert await shared(admin) == [upstream.url]
    assert (await admin.post("/tools/first.a/call", json={})).status_code == 200
    assert keys_seen(upstream) == ["another"]
    # Deleted and stored again, it has the origins of what names it still.
    await admin.delete("/variables/SHARED")
    assert (await admin.put("/variables/SHARED", json={"value": VALUE})).status_code == 201
    assert await shared(admin) == [upstream.url]


@for_each(
    ("path", "body"),
    [
        ("/variables/OPEN", {"value": "x", "secret": False, "allowed_origins": ["https://a.example"]}),
        ("/providers/first/variables/OWN", {"value": "x", "allowed_origins": ["https://a.example"]}),
        ("/variables/OPEN", {"value": "x", "allowed_origins": ["https://a.example/path"]}),
    ],
)
async def test_only_shared_secrets_have_origins(admin, first, path, body):
    denied = await admin.put(path, json=body)
    assert denied.status_code == 422, denied.text
    assert denied.json()["errors"][0]["pointer"].startswith("/allowed_origins")


async def test_origin_is_changed_by_who_may_write_credentials(gateway_app, admin, first):
    body = {"allowed_origins": ["https://a.example"]}
    for client, status in (
        (await gateway_app.client("providers:write"), 403),
        (await gateway_app.client("credentials:write", providers=["first"]), 403),
        (await gateway_app.client("credentials:write"), 200),
    ):
        assert (await client.patch("/variables/SHARED", json=body)).status_code == status
    assert (await admin.patch("/variables/NONE", json=body)).status_code == 404
    await admin.put("/variables/OPEN", json={"value": "x", "secret": False})
    assert (await admin.patch("/variables/OPEN", json=body)).status_code == 422


async def test_upgrade_allows_the_origins_that_are_in_use(gateway_app, admin, first, upstream):
    await admin.put("/variables/UNUSED", json={"value": "x"})
    migration = ScriptDirectory("migrations").get_revision("0028").module
    async with gateway_app.services.database.transaction() as session:
        await session.execute(text("UPDATE variables SET allowed_origins = NULL"))
        await session.execute(text(migration._SET_ORIGINS))
        found = await session.execute(text("SELECT name, allowed_origins FROM variables ORDER BY name"))
        assert [tuple(row) for row in found] == [("SHARED", [upstream.url]), ("UNUSED", None)]
