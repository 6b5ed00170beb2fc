"""`PUT` and `DELETE /plugins/{name}`: all or nothing, again and again, and nothing of others is touched."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from app.core.errors import InvalidInput
from app.providers.plugins import PluginConfiguration
from app.providers.plugins.enabled import EnabledPlugin
from app.security.principal import Principal
from app.storage.models import TENANT
from tests.api.plugins.conftest import CANARY
from tests.harness.cases import for_each

ORDERS: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Orders", "version": "7"},
    "servers": [{"url": "https://orders.example.com/v1"}],
    "paths": {
        "/orders": {
            "parameters": [{"name": "region", "in": "query", "schema": {"type": "string"}}],
            "get": {
                "operationId": "listOrders",
                "summary": "The vendor's text",
                "security": [{"unused": []}],
                "parameters": [
                    {"name": "limit", "in": "query", "schema": {"type": "integer"}},
                    {"name": "q", "in": "query", "schema": {"type": "string"}},
                ],
                "responses": {"200": {"description": "ok"}},
            },
            "post": {"operationId": "createOrder", "responses": {"201": {"description": "ok"}}},
        },
        "/orders/{id}": {
            "get": {
                "operationId": "getOrder",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
                "responses": {"200": {"description": "ok"}},
            },
            "delete": {"operationId": "deleteOrder", "responses": {"204": {"description": "ok"}}},
        },
    },
}
ENTRY = """
name: orders
version: {version}
title: Orders
description: The orders of a shop.
tags: [shop]
base_url: https://orders.example.com/v1
document:
  url: https://orders.example.com/openapi.json
  version: "7"
  license: MIT
  checked_on: 2026-11-24
  operations:
    - operation: listOrders
      name: find_orders
      description: Find orders by their text.
      presets: {{limit: 20}}
      output: {{from: /data, each: {{members: {{id: /id, name: /customer/name}}}}}}
      outputs: {{type: array, items: {{type: object}}}}
    - {{operation: "GET /orders/{{id}}", name: get_order}}
    - {{operation: "POST /refunds", name: refund}}
settings:
  base_url: {{title: URL of the API, type: url, default: https://orders.example.com/v1}}
credentials:
  token:
    kind: bearer
    title: Token
    help: Create one under Settings.
    url: https://orders.example.com/settings
    environment: ORDERS_TOKEN
    scheme: {{type: http, scheme: bearer}}
"""


@pytest.fixture
def orders(own_entries):
    """An entry of a vendor's document, in the folder of the operator."""

    def write(version: int = 1, **changes: str) -> None:
        text = ENTRY.format(version=version)
        for old, new in changes.items():
            text = text.replace(f"{old}: https://orders.example.com/openapi.json", f"{old}: {new}")
        (own_entries / "orders.yaml").write_text(text)

    write()
    yield write
    (own_entries / "orders.yaml").unlink()


async def state_of(admin) -> tuple[Any, ...]:
    """All that enabling may have written."""
    found = []
    for path in ("/providers", "/toolsets", "/tools", "/variables"):
        response = await admin.get(path)
        found.append([item["name"] for item in response.json()["items"]])
    return tuple(found)


async def test_one_request_enables_a_plugin_and_one_disables_it(api, admin, vendor) -> None:
    body = {"settings": {"base_url": vendor.url}, "credentials": {"token": CANARY}}
    enabled = await admin.put("/plugins/github", json=body)
    assert (enabled.status_code, enabled.headers["location"]) == (201, "/plugins/github")
    view = enabled.json()
    assert (view["state"], view["provider"], view["toolset"]) == ("enabled", "github", "github")
    assert view["credentials"][0]["configured"] is True
    assert (await admin.get("/plugins/github")).json() == view
    toolset = (await admin.get("/toolsets/github")).json()
    assert [(one["name"], one["tool"], one["read_only"]) for one in toolset["members"]] == [
        ("github_get_file", "github.github_get_file", True)
    ]
    assert CANARY not in enabled.text + str(toolset) + (await admin.get("/providers/github")).text
    assert (await admin.delete("/plugins/github")).status_code == 204
    assert await state_of(admin) == ([], [], [], [])
    assert (await admin.delete("/plugins/github")).status_code == 404
    events = (await admin.get("/events", params={"object_type": "plugin", "sort": "at"})).json()["items"]
    assert [(one["action"], one["object_name"]) for one in events] == [
        ("enabled", "github"),
        ("disabled", "github"),
    ]
    assert CANARY not in str((await admin.get("/events")).json())


async def test_enabling_again_changes_nothing(api, admin, vendor) -> None:
    body = {"settings": {"base_url": vendor.url}, "credentials": {"token": CANARY}}
    await admin.put("/plugins/github", json=body)
    before = (await admin.get("/providers/github")).json()
    for again in (body, {}, {"settings": body["settings"]}, {"credentials": body["credentials"]}):
        response = await admin.put("/plugins/github", json=again)
        assert response.status_code == 200, response.text
    after = (await admin.get("/providers/github")).json()
    assert (after["version"], after["created_at"]) == (before["version"], before["created_at"])
    assert (await admin.get("/toolsets/github")).json()["version"] == 1


async def test_what_is_left_out_stays_and_what_people_have_changed_too(api, admin, vendor) -> None:
    body = {"settings": {"base_url": vendor.url}, "credentials": {"token": CANARY}}
    await admin.put("/plugins/github", json=body)
    await admin.patch("/providers/github", json={"tags": ["approved"], "limits": {"total": 7}})
    await admin.patch("/tools/github.github_get_file", json={"description": "Read a file."})
    changed = await admin.put("/plugins/github", json={"settings": {"base_url": f"{vendor.url}/api/v3"}})
    assert changed.status_code == 200, changed.text
    provider = (await admin.get("/providers/github")).json()
    assert (provider["tags"], provider["limits"]["total"]) == (["approved"], 7)
    assert (await admin.get("/tools/github.github_get_file")).json()["description"] == "Read a file."
    vendor.body = {"content": "", "encoding": "base64", "sha": "1", "size": 0}
    arguments = {"owner": "o", "repo": "r", "path": "p"}
    response = await admin.post("/toolsets/github/tools/github_get_file/call", json=arguments)
    assert response.json() == {"path": "p", "content": "", "sha": "1", "size": 0}
    assert vendor.requests[-1]["target"] == "/api/v3/repos/o/r/contents/p"
    assert vendor.requests[-1]["headers"]["Authorization"] == f"Bearer {CANARY}"
    other = await admin.put("/plugins/github", json={"credentials": {"token": "another-token-0815"}})
    assert other.status_code == 200
    await admin.post("/toolsets/github/tools/github_get_file/call", json=arguments)
    assert vendor.requests[-1]["headers"]["Authorization"] == "Bearer another-token-0815"


@for_each(
    ("name", "body", "pointer", "detail"),
    [
        ("brave-search", {}, "/credentials/key", "BRAVE_API_KEY not configured"),
        ("github", {}, "/credentials/token", "GITHUB_TOKEN not configured"),
        ("github", {"credentials": {"other": "x"}}, "/credentials/other", ""),
        ("github", {"credentials": {"token": "x"}, "settings": {"no": 1}}, "/settings/no", ""),
        ("github", {"credentials": {"token": "x"}, "settings": {"base_url": "ftp://x"}}, "/settings/base_url", ""),
        ("github", {"credentials": {"token": "x"}, "settings": {"base_url": "https://u:p@x"}}, "/settings/base_url", ""),
        ("github", {"credentials": {"token": "x"}, "settings": {"base_url": "https://${A}"}}, "/settings/base_url", ""),
        ("github", {"credentials": {"token": "x"}, "document": {}}, "/document", ""),
        ("filesystem", {"settings": {"root": "relative"}}, "/settings/root", ""),
        ("filesystem", {"settings": {"root": "/etc"}}, "", "can be called"),
        ("filesystem", {"settings": {"root": "/srv", "max_bytes": 0}}, "/settings/max_bytes", ""),
        ("filesystem", {"settings": {"root": "/srv", "max_bytes": True}}, "/settings/max_bytes", ""),
        ("postgres", {"credentials": {"database": "mysql://u:p@h/d"}}, "/credentials/database", ""),
        ("postgres", {"credentials": {"database": "postgresql://u:p@h/d?sslmode=prefer"}}, "/credentials/database", ""),
        ("postgres", {"credentials": {"database": "postgresql://u:p@h/d?passfile=/etc/x"}}, "/credentials/database", ""),
        ("postgres", {"credentials": {"database": "postgresql:///d"}}, "/credentials/database", ""),
    ],
)  # fmt: skip
async def test_what_cannot_be_enabled_leaves_nothing(api, admin, name, body, pointer, detail) -> None:
    response = await admin.put(f"/plugins/{name}", json=body)
    assert response.status_code == 422, response.text
    problem = response.json()
    assert pointer in [error["pointer"] for error in problem["errors"]] or not pointer
    assert detail in problem["detail"]
    assert await state_of(admin) == ([], [], [], [])


async def test_a_missing_credential_says_where_to_get_it(api, admin) -> None:
    problem = (await admin.put("/plugins/github", json={})).json()
    assert "https://github.com/settings/personal-access-tokens/new" in problem["hint"]
    assert "--credential-env GITHUB_TOKEN" in problem["hint"]


async def test_a_credential_that_is_deleted_later_is_named_by_the_call(api, admin, vendor) -> None:
    body = {"settings": {"base_url": vendor.url}, "credentials": {"key": CANARY}}
    await admin.put("/plugins/brave-search", json=body)
    deleted = await admin.delete("/providers/brave-search/variables/BRAVE_API_KEY")
    assert deleted.status_code == 204, deleted.text
    response = await admin.post("/toolsets/brave-search/tools/web_search/call", json={"query": "x"})
    assert "BRAVE_API_KEY not configured" in response.json()["detail"]
    assert vendor.requests == []
    assert (await admin.get("/plugins/brave-search")).json()["credentials"][0]["configured"] is False
    assert (
        await admin.put("/plugins/brave-search", json={"credentials": {"key": CANARY}})
    ).status_code == 200
    assert (await admin.post("/toolsets/brave-search/tools/web_search/call", json={"query": "x"})).is_success


async def test_what_somebody_else_has_made_is_a_conflict(api, admin) -> None:
    body = {"credentials": {"token": CANARY}}
    await admin.post("/toolsets", json={"name": "github", "definition": {}})
    before = await state_of(admin)
    taken = await admin.put("/plugins/github", json=body)
    assert taken.status_code == 409
    assert taken.json()["detail"] == "There is a toolset github already, which is not the plugin's."
    assert taken.json()["hint"].endswith("DELETE /toolsets/github.")
    assert (await admin.delete("/plugins/github")).status_code == 404
    assert await state_of(admin) == before
    await admin.delete("/toolsets/github")
    await api.provider("github")
    assert (
        "There is a provider github already"
        in (await admin.put("/plugins/github", json=body)).json()["detail"]
    )
    assert (await admin.delete("/plugins/github")).status_code == 404
    assert (await admin.get("/providers/github")).status_code == 200


async def test_a_part_that_was_deleted_is_made_again(api, admin, vendor) -> None:
    body = {"settings": {"base_url": vendor.url}, "credentials": {"token": CANARY}}
    await admin.put("/plugins/github", json=body)
    await admin.delete("/toolsets/github")
    assert (await admin.put("/plugins/github", json={})).status_code == 200
    assert (await admin.get("/toolsets/github")).json()["tools"] == 1
    await admin.delete("/providers/github")
    assert (await admin.get("/plugins/github")).json()["state"] == "off"
    assert (await admin.put("/plugins/github", json=body)).status_code == 201
    await admin.delete("/providers/github")
    assert (await admin.delete("/plugins/github")).status_code == 204
    assert await state_of(admin) == ([], [], [], [])


async def test_a_toolset_that_people_have_edited_is_still_the_plugins(api, admin, vendor) -> None:
    body = {"settings": {"base_url": vendor.url}, "credentials": {"token": CANARY}}
    await admin.put("/plugins/github", json=body)
    definition = (await admin.get("/toolsets/github")).json()["definition"]
    await admin.put("/toolsets/github", json={"title": "Mine", "definition": definition})
    assert (await admin.put("/plugins/github", json={})).status_code == 200
    assert (await admin.get("/toolsets/github")).json()["title"] == "Mine"
    assert (await admin.delete("/plugins/github")).status_code == 204
    assert await state_of(admin) == ([], [], [], [])


async def test_requests_at_the_same_time_enable_it_once(api, admin) -> None:
    body = {"settings": {"root": "/srv"}}
    responses = await asyncio.gather(*(admin.put("/plugins/filesystem", json=body) for _ in range(5)))
    statuses = sorted(response.status_code for response in responses)
    assert statuses.count(201) == 1
    assert set(statuses) <= {200, 201, 409}
    assert await state_of(admin) == (
        ["filesystem"], ["filesystem"], ["filesystem.read_file", "filesystem.write_file"], [],
    )  # fmt: skip


async def test_what_the_operator_has_not_allowed(api) -> None:
    registration = api.services.registration
    settings = registration.settings.model_copy(update={"filesystem_folders": ()})
    plugins = replace(api.services.plugins, registration=replace(registration, settings=settings))
    admin = Principal(key_id="k", name="k", tenant_id=TENANT, scopes=frozenset({"admin"}))
    assert (await plugins.get("filesystem", principal=admin)).is_allowed is False
    with pytest.raises(InvalidInput, match="FILESYSTEM_FOLDERS is not set"):
        await plugins.enable("filesystem", PluginConfiguration(settings={"root": "/srv"}), principal=admin)


async def test_scopes_and_restrictions(api, admin) -> None:
    body = {"credentials": {"token": CANARY}}
    for scopes, limits, expected in (
        (("tools:read",), {}, 403),
        (("providers:read",), {}, 403),
        (("providers:write",), {}, 403),
        (("providers:write", "credentials:write"), {"providers": ["github"]}, 403),
        (("providers:write", "credentials:write"), {}, 201),
    ):
        client = await api.client(*scopes, **limits)
        response = await client.put("/plugins/github", json=body)
        assert response.status_code == expected, (scopes, response.text)
    writer = await api.client("providers:write")
    # It would delete the credential.
    assert (await writer.delete("/plugins/github")).status_code == 403
    # It would send the credential elsewhere.
    moved = await writer.put("/plugins/github", json={"settings": {"base_url": "https://evil.example"}})
    assert moved.status_code == 403
    assert (await admin.get("/plugins/github")).json()["settings"][0]["value"] == "https://api.github.com"
    assert (await writer.put("/plugins/filesystem", json={"settings": {"root": "/srv"}})).status_code == 201
    assert (await writer.delete("/plugins/filesystem")).status_code == 204


async def test_a_document_that_is_given_becomes_the_chosen_operations(api, admin, vendor, orders) -> None:
    body = {
        "document": ORDERS,
        "settings": {"base_url": f"{vendor.url}/v2"},
        "credentials": {"token": CANARY},
    }
    enabled = await admin.put("/plugins/orders", json=body)
    assert enabled.status_code == 201, enabled.text
    assert enabled.json()["missing_tools"] == ["refund"]
    assert (await state_of(admin))[2] == ["orders.find_orders", "orders.get_order"]
    tool = (await admin.get("/tools/orders.find_orders")).json()
    assert tool["description"] == "Find orders by their text."
    assert tool["outputs"] == {"type": "array", "items": {"type": "object"}}
    members = (await admin.get("/toolsets/orders")).json()["members"]
    assert [one["name"] for one in members] == ["find_orders", "get_order"]
    vendor.body = {"data": [{"id": 1, "customer": {"name": "Ann"}, "more": "x"}, {"id": 2, "customer": None}]}
    found = await admin.post("/toolsets/orders/tools/find_orders/call", json={"q": "cats"})
    assert found.json() == [{"id": 1, "name": "Ann"}, {"id": 2}]
    assert vendor.requests[-1]["target"] in ("/v2/orders?q=cats&limit=20", "/v2/orders?limit=20&q=cats")
    assert vendor.requests[-1]["headers"]["Authorization"] == f"Bearer {CANARY}"
    # The document stays, also for a new version of the entry.
    assert (await admin.put("/plugins/orders", json={})).status_code == 200
    orders(version=2)
    outdated = (await admin.get("/plugins/orders")).json()
    assert (outdated["enabled_version"], outdated["version"], outdated["is_outdated"]) == (1, 2, True)
    updated = await admin.put("/plugins/orders", json={})
    assert (updated.status_code, updated.json()["enabled_version"], updated.json()["is_outdated"]) == (
        200,
        2,
        False,
    )
    await admin.post("/toolsets/orders/tools/get_order/call", json={"id": "a b"})
    assert vendor.requests[-1]["target"] == "/v2/orders/a%20b"


async def test_a_document_is_fetched_from_its_url(api, admin, vendor, orders) -> None:
    vendor.body = ORDERS
    orders(url=f"{vendor.url}/openapi.json")
    enabled = await admin.put("/plugins/orders", json={"credentials": {"token": CANARY}})
    assert enabled.status_code == 201, enabled.text
    assert enabled.json()["source"]["kind"] == "document"
    provider = (await admin.get("/providers/orders")).json()
    # Not to where the document is from.
    assert provider["credentials"][0]["allowed_origins"] == ["https://orders.example.com"]
    assert CANARY not in str(vendor.requests)
    refreshed = await admin.post("/providers/orders/refresh")
    assert refreshed.status_code == 200, refreshed.text
    assert (await state_of(admin))[2] == ["orders.find_orders", "orders.get_order"]
    orders(url=f"{vendor.url}/gone")
    vendor.status, vendor.body = 404, {}
    failed = await admin.put("/plugins/orders", json={})
    assert failed.status_code >= 400
    assert (await admin.get("/plugins/orders")).json()["state"] == "enabled"
    assert (await state_of(admin))[2] == ["orders.find_orders", "orders.get_order"]


async def test_a_document_without_any_of_the_operations_enables_nothing(api, admin, orders) -> None:
    other = {
        **ORDERS,
        "paths": {"/x": {"get": {"operationId": "x", "responses": {"200": {"description": "ok"}}}}},
    }
    response = await admin.put("/plugins/orders", json={"document": other, "credentials": {"token": CANARY}})
    assert response.status_code == 422, response.text
    assert await state_of(admin) == ([], [], [], [])


async def test_an_export_and_an_import_make_an_ordinary_provider(api, admin, vendor) -> None:
    await admin.put("/plugins/filesystem", json={"settings": {"root": "/srv"}})
    export = (await admin.get("/export")).json()
    assert "plugin" not in str(export["providers"][0].get("options"))
    await admin.delete("/plugins/filesystem")
    imported = await admin.post("/import", json=export)
    assert imported.status_code in (200, 207), imported.text
    assert (await admin.get("/plugins/filesystem")).json()["state"] == "off"


def test_the_stored_form_of_an_enabled_plugin() -> None:
    plugin = EnabledPlugin("x", 3, {"root": "/a"}, {"database": {"port": 1}}, "given", "d")
    assert EnabledPlugin(**plugin.to_json()) == plugin
