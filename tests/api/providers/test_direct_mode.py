"""`/utcp?mode=direct`: what clients may call directly; no secret and no credential is in it."""

import pytest

CANARY = "canary-of-direct-mode-5150"
DOCUMENT = {
    "openapi": "3.0.3", "info": {"title": "Pets", "version": "1"},
    "components": {"securitySchemes": {
        "key": {"type": "apiKey", "in": "header", "name": "X-Pets"},
        "bearer": {"type": "http", "scheme": "bearer"},
        "basic": {"type": "http", "scheme": "basic"},
    }},
    "paths": {
        "/pets/{id}": {"get": {
            "operationId": "getPet", "security": [{"key": []}], "responses": {"200": {"description": "ok"}},
            "parameters": [
                {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}},
                {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                {"name": "tag", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                {"name": "filter", "in": "query", "style": "deepObject", "explode": True, "schema": {"type": "object"}},
            ],
        }},
        "/pets": {
            "post": {
                "operationId": "addPet", "security": [{"bearer": []}],
                "responses": {"200": {"description": "ok"}},
                "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}},
            },
            "get": {
                "operationId": "odd", "security": [{"basic": []}], "responses": {"200": {"description": "ok"}},
                "parameters": [{
                    "name": "f", "in": "query", "style": "deepObject", "explode": True, "required": True,
                    "schema": {"type": "object"},
                }],
            },
            "delete": {
                "operationId": "purge", "security": [{"basic": []}], "responses": {"200": {"description": "ok"}},
            },
        },
        "/$count": {"get": {
            "operationId": "both", "security": [{"key": [], "bearer": []}],
            "responses": {"200": {"description": "ok"}},
        }},
    },
}  # fmt: skip


async def registered(admin, upstream, **more):
    document = DOCUMENT | {"servers": [{"url": upstream.url}]}
    made = await admin.post("/providers", json={"name": "pets", "source": {"document": document}, **more})
    assert made.status_code == 201, made.text


async def direct(client, **query):
    found = await client.get("/utcp", params={"mode": "direct", **query})
    assert found.status_code == 200, found.text
    return {tool["name"]: tool for tool in found.json()["tools"]}, found


async def test_templates_of_a_document_are_utcps_own(admin, upstream):
    await registered(admin, upstream)
    tools, response = await direct(admin)
    assert sorted(tools) == ["pets_addPet", "pets_getPet", "pets_purge"]
    # deepObject, and two schemes at once, are nothing that UTCP could say.
    assert response.headers["x-tools-left-out"] == "2"
    assert tools["pets_getPet"]["tool_call_template"] == {
        "call_template_type": "http", "name": "pets", "http_method": "GET",
        "url": f"{upstream.url}/pets/{{id}}", "content_type": "application/json", "header_fields": ["X-Trace"],
        "auth": {"auth_type": "api_key", "api_key": "${PETS_KEY}", "var_name": "X-Pets", "location": "header"},
    }  # fmt: skip
    # The optional deepObject parameter is left out alone.
    assert sorted(tools["pets_getPet"]["inputs"]["properties"]) == ["X-Trace", "id", "tag"]
    add = tools["pets_addPet"]["tool_call_template"]
    assert (add["body_field"], add["auth"]["api_key"], add["auth"]["var_name"]) == (
        "body", "Bearer ${PETS_BEARER}", "Authorization",
    )  # fmt: skip
    assert tools["pets_purge"]["tool_call_template"]["auth"] == {
        "auth_type": "basic", "username": "${PETS_BASIC_USERNAME}", "password": "${PETS_BASIC_PASSWORD}",
    }  # fmt: skip
    assert "body" in tools["pets_addPet"]["inputs"]["properties"]


async def test_utcp_0_has_its_own_field_names(admin, upstream):
    await registered(admin, upstream)
    template = {"provider_type": "http_stream", "url": f"{upstream.url}/lines"}
    made = await admin.post("/tools", json={"provider": "s", "name": "lines", "call_template": template})
    assert made.status_code == 201, made.text
    tools, _ = await direct(admin, version="0")
    assert tools["pets_getPet"]["tool_provider"]["provider_type"] == "http"
    assert tools["s_lines"]["tool_provider"]["provider_type"] == "http_stream"
    newer, _ = await direct(admin)
    assert newer["s_lines"]["tool_call_template"]["call_template_type"] == "streamable_http"


async def test_a_provider_with_a_credential_is_called_through_the_gateway_only(admin, upstream):
    credential = {"kind": "api_key", "value": CANARY}
    await registered(admin, upstream, credentials={"key": credential})
    tools, response = await direct(admin)
    assert tools == {}
    for denied in (
        await admin.get("/utcp", params={"mode": "direct", "provider": "pets"}),
        await admin.get("/providers/pets/utcp", params={"mode": "direct"}),
    ):
        assert denied.status_code == 403
        assert "options.direct" in denied.json()["detail"]
    etag = (await admin.get("/providers/pets")).headers["etag"]
    patched = await admin.patch(
        "/providers/pets", json={"options": {"direct": True}}, headers={"If-Match": etag}
    )
    assert patched.status_code == 200, patched.text
    tools, response = await direct(admin)
    assert "pets_getPet" in tools
    assert CANARY not in response.text


async def test_a_registrar_may_exclude_a_provider_without_credentials_from_direct_mode(admin, upstream):
    await registered(admin, upstream, options={"direct": False})
    assert (await direct(admin))[0] == {}


async def test_values_of_a_template_become_variables_and_open_variables_are_written_out(admin, upstream):
    template = {
        "call_template_type": "http", "url": f"{upstream.url}/${{REGION}}/x?key={CANARY}",
        "headers": {"X-Key": "${SECRET}", "Accept": "text/plain"}, "body_field": None,
    }  # fmt: skip
    body = {
        "provider": "custom", "name": "get", "call_template": template,
        "variables": {"REGION": {"value": "eu", "secret": False}, "SECRET": {"value": CANARY}},
    }  # fmt: skip
    made = await admin.post("/tools", json=body)
    assert made.status_code == 201, made.text
    etag = (await admin.get("/providers/custom")).headers["etag"]
    await admin.patch("/providers/custom", json={"options": {"direct": True}}, headers={"If-Match": etag})
    tools, response = await direct(admin)
    found = tools["custom_get"]["tool_call_template"]
    assert found["url"] == f"{upstream.url}/eu/x?key=${{CUSTOM_STATIC_1_KEY}}"
    assert found["headers"] == {"Accept": "text/plain", "X-Key": "${CUSTOM_STATIC_1_X_KEY}"}
    assert None not in found.values()
    assert CANARY not in response.text


async def test_what_a_plugin_would_take_otherwise_is_left_out_or_named_for_it(admin, upstream):
    servers = {"tools": {"transport": "http", "url": f"{upstream.url}/mcp?key=secret-of-a-query"}}
    documents = {"plain": "{ now }", "typed": "query A($id: ID!) { user(id: $id) { id } }"}
    templates = {
        "m": {"call_template_type": "mcp", "config": {"mcpServers": servers}, "tool_name": "add"},
        **{
            name: {"call_template_type": "graphql", "url": f"{upstream.url}/g", "query": query}
            for name, query in documents.items()
        },
    }
    for name, template in templates.items():
        made = await admin.post("/tools", json={"provider": "x", "name": name, "call_template": template})
        assert made.status_code == 201, made.text
    assert (await admin.patch("/providers/x", json={"options": {"direct": True}})).status_code == 200
    tools, response = await direct(admin, protocol="mcp,graphql")
    assert sorted(tools) == ["tools.add", "x_plain"]
    server = tools["tools.add"]["tool_call_template"]["config"]["mcpServers"]["tools"]
    variable = "${X_STATIC_1_CONFIG_MCPSERVERS_TOOLS_QUERY_KEY}"
    assert (server["url"], "query" in server) == (f"{upstream.url}/mcp?key={variable}", False)
    assert response.headers["x-tools-left-out"] == "1"


@pytest.mark.parametrize("protocol", ["file", "cli", "http,nonsense"])
async def test_local_and_unknown_protocols_give_nothing(admin, upstream, protocol):
    await registered(admin, upstream)
    found = await admin.get("/utcp", params={"mode": "direct", "protocol": protocol})
    assert (found.status_code, found.json().get("tools", [])) in ((200, []), (422, []))


async def test_limits_of_a_key_hold_and_without_a_key_nothing_is_shown(gateway_app, admin, upstream):
    await registered(admin, upstream)
    other = await gateway_app.client("tools:read", providers=["other"])
    assert (await direct(other))[0] == {}
    reader = await gateway_app.client("tools:read")
    assert len((await direct(reader))[0]) == 3
