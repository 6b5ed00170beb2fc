"""Call templates of other protocols than HTTP: compared, sealed, restored, and read with their own `$`."""

import json

import pytest


def tool(name, template):
    return {"name": name, "description": name, "inputs": {}, "tool_call_template": template}


def manual(*tools):
    return {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": list(tools)}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"call_template_type": "tcp", "port": 7001}, {"port": 7002}),
        ({"call_template_type": "udp", "port": 7001}, {"host": "127.0.0.2"}),
        ({"call_template_type": "grpc", "port": 7001, "use_ssl": True, "service_name": "a.B",
          "method_name": "C"}, {"use_ssl": False}),
        ({"call_template_type": "tcp", "port": 7001}, {"host": "${OTHER}"}),
        ({"call_template_type": "tcp", "port": 7001}, {"call_template_type": "udp"}),
    ],
    ids=["port", "host", "tls", "variable", "protocol"],
)  # fmt: skip
async def test_another_destination_waits_for_approval_whatever_the_protocol(
    admin, approver, upstream, before, after
):
    first = {"host": "127.0.0.1", **before}
    upstream.pages["/utcp"] = manual(tool("t", first))
    body = {
        "name": "p", "source": {"url": f"{upstream.url}/utcp"},
        "variables": {"OTHER": {"value": "127.0.0.3", "secret": False}},
    }  # fmt: skip
    made = await admin.post("/providers", json=body)
    assert (made.status_code, made.json()["tool_count"]) == (201, 1)
    upstream.pages["/utcp"] = manual(tool("t", {**first, **after}))
    refreshed = (await admin.post("/providers/p/refresh")).json()
    assert [one["pending_approval"] for one in refreshed["pending"]["operations"]] == [True]
    assert (await approver.post("/providers/p/approve")).status_code == 200
    again = (await admin.post("/providers/p/refresh")).json()
    assert (again["difference"]["unchanged"], again["pending"]) == (["t"], None)


async def test_a_graphql_variable_is_not_a_variable_of_the_provider(admin, upstream):
    template = {
        "call_template_type": "graphql", "url": f"{upstream.url}/g", "headers": {"X-Key": "${token}"},
        "query": "query G($token: ID!) { user(id: $token) { id } }",
    }  # fmt: skip
    body = {"provider": "g", "name": "user", "call_template": template}
    body["variables"] = {"token": {"value": "secret-of-a-header"}}
    made = await admin.post("/tools", json=body)
    assert made.status_code == 201, made.text
    template["query"] = '{ user(id: "${token}") { id } }'
    rejected = await admin.post("/tools", json={**body, "name": "other", "variables": {}})
    assert [one["pointer"] for one in rejected.json()["errors"]] == ["/call_template/query"]


async def test_a_text_may_hold_dollars(admin):
    texts = {"schema": '{"$schema": "x"}', "keyed": "${KEY} costs $KEY or ${nothing}"}
    tools = [
        tool(name, {"call_template_type": "text", "content": content}) for name, content in texts.items()
    ]
    content = json.dumps({**manual(*tools), "$schema": "https://example.com"})
    source = {"call_template": {"call_template_type": "text", "content": content}}
    variables = {"KEY": {"value": "5", "secret": False}}
    made = await admin.post("/providers", json={"name": "t", "source": source, "variables": variables})
    assert made.status_code == 201, made.text
    assert (await admin.post("/tools/t.schema/call", json={})).text == texts["schema"]
    assert (await admin.post("/tools/t.keyed/call", json={})).text == "5 costs $KEY or ${nothing}"


async def test_sealed_fields_are_restored_after_an_export(admin):
    message = {"key": "${KEY}", "KEY": "a ${KEY}", "op": "get"}
    template = {"call_template_type": "websocket", "url": "ws://127.0.0.1:9/", "message": message}
    body = {"provider": "w", "name": "t", "call_template": template}
    body["variables"] = {"KEY": {"value": "secret-of-a-message"}}
    assert (await admin.post("/tools", json=body)).status_code == 201
    exported = (await admin.get("/export")).json()
    assert "secret-of" not in json.dumps(exported)
    assert (await admin.delete("/providers/w")).status_code == 204
    assert (await admin.post("/import", json=exported)).json()["counts"]["registered"] == 1
    names = {"/message/key", "/message/KEY"}
    slot = next(one for one in (await admin.get("/providers/w")).json()["slots"] if one["kind"] == "static")
    assert {value["name"] for value in slot["values"]} == names
    values = [{"location": "field", "name": name, "value": "two\nlines"} for name in sorted(names)]
    values_of = f"/providers/w/credentials/{slot['slot']}"
    assert (await admin.put(values_of, json={"kind": "static", "values": values})).status_code == 201
    described = (await admin.post("/tools/w.t/call?dry_run=true", json={})).json()
    assert described["body"] == {"key": "***", "KEY": "***", "op": "get"}


OPENAPI = {
    "openapi": "3.0.3", "info": {"title": "Pets", "version": "1"}, "servers": [{"url": "/v1"}],
    "paths": {"/pets": {"get": {"operationId": "pets", "responses": {"200": {"description": "ok"}}}}},
}  # fmt: skip


async def test_the_base_url_of_a_text_is_retained(admin, upstream):
    body = {"name": "t", "call_template_type": "text", "content": json.dumps(OPENAPI)}
    assert (await admin.post("/providers", json={**body, "base_url": upstream.url})).status_code == 201
    assert (await admin.post("/providers/t/refresh")).json()["difference"]["unchanged"] == ["GET /pets"]
    exported = (await admin.get("/export")).json()
    assert (await admin.delete("/providers/t")).status_code == 204
    assert (await admin.post("/import", json=exported)).json()["counts"]["registered"] == 1
    assert (await admin.post("/tools/t.pets/call", json={})).status_code == 200
    assert upstream.seen[-1][1] == "/v1/pets"


@pytest.mark.parametrize("kind", ["manual", "openapi"])
async def test_the_auth_of_a_texts_tools_is_sent_with_their_calls(admin, upstream, kind):
    document = manual(tool("pets", {"call_template_type": "http", "url": f"{upstream.url}/pets"}))
    if kind == "openapi":
        schemes = {"securitySchemes": {"k": {"type": "apiKey", "in": "header", "name": "X-Key"}}}
        document = OPENAPI | {
            "servers": [{"url": upstream.url}], "security": [{"k": []}], "components": schemes,
        }  # fmt: skip
    auth = {"auth_type": "api_key", "api_key": "key-of-tools", "var_name": "X-Key"}
    body = {"call_template_type": "text", "content": json.dumps(document), "auth_tools": auth}
    made = await admin.post("/providers", json={"name": "t", **body})
    assert made.status_code == 201, made.text
    assert [one["allowed_origins"] for one in made.json()["credentials"]] == [[upstream.url]]
    assert (await admin.post("/providers/t/refresh")).status_code == 200
    assert (await admin.post("/tools/t.pets/call", json={})).status_code == 200
    assert upstream.seen[-1][2]["X-Key"] == "key-of-tools"


async def test_protocols_are_allowed_in_either_spelling(admin, upstream):
    template = {"call_template_type": "streamable_http", "url": f"{upstream.url}/x"}
    upstream.pages["/utcp"] = manual(tool("t", template))
    source = {"call_template_type": "http", "url": f"{upstream.url}/utcp"}
    source["allowed_communication_protocols"] = ["http_stream"]
    made = await admin.post("/providers", json={"name": "p", "source": {"call_template": source}})
    assert made.json()["tool_count"] == 1
