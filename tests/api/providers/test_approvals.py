"""A refresh reports what changed and what that breaks; what moves credentials waits for approval."""

import pytest

from .documents import manual, openapi, tool


async def registered(admin, upstream, **changes):
    upstream.pages["/openapi.json"] = {**openapi(upstream.url, paths=("/a", "/b")), **changes}
    made = await admin.post("/providers", json={
        "name": "pets", "source": {"url": f"{upstream.url}/openapi.json"},
        "credentials": {"key": {"kind": "api_key", "value": "s3cret-value"}},
    })  # fmt: skip
    assert made.status_code == 201, made.text
    assert made.json()["pending"] is None
    return upstream.pages["/openapi.json"]


async def refreshed(admin):
    answer = await admin.post("/providers/pets/refresh")
    assert answer.status_code == 200, answer.text
    return answer.json()


def by_key(operations):
    return {one["source_key"]: one for one in operations}


async def test_each_operation_has_a_verdict(admin, upstream):
    document = await registered(admin, upstream)
    parameters = [{"name": "q", "in": "query", "schema": {"type": "string"}}]
    document["paths"]["/a"]["get"]["parameters"] = [{**parameters[0], "required": True}]
    document["paths"]["/c"] = {"get": {"operationId": "listC", "parameters": parameters, "responses": {}}}
    del document["paths"]["/b"]
    difference = (await refreshed(admin))["difference"]
    assert (difference["added"], difference["changed"], difference["removed"]) == (
        ["GET /c"],
        ["GET /a"],
        ["GET /b"],
    )
    assert difference["verdict"] == "breaking"
    found = by_key(difference["operations"])
    assert [(one["change"], one["verdict"], one["held"]) for one in found.values()] == [
        ("changed", "breaking", False), ("added", "compatible", False), ("removed", "breaking", False)]  # fmt: skip
    assert {(d["aspect"], d["effect"], d["pointer"]) for d in found["GET /a"]["differences"]} >= {
        ("input", "narrowed", "/q")
    }
    assert (await refreshed(admin))["difference"]["verdict"] == "compatible"


async def test_another_origin_waits_and_the_old_definition_works_on(admin, upstream, elsewhere):
    document = await registered(admin, upstream)
    document["servers"] = [{"url": elsewhere.url}]
    document["paths"]["/c"] = {"get": {"operationId": "listC", "responses": {}}}
    body = await refreshed(admin)
    assert body["difference"]["held"] == ["GET /a", "GET /b", "GET /c"]
    assert body["origins"] == [upstream.url]
    assert body["tool_count"] == 2
    provider = (await admin.get("/providers/pets")).json()
    assert [one["change"] for one in provider["pending"]["operations"]] == ["changed", "changed", "added"]
    assert elsewhere.url in provider["pending"]["operations"][0]["differences"][0]["detail"]
    assert (await admin.post("/tools/pets.listA/call", json={})).status_code == 200
    assert upstream.seen[-1][1] == "/a"
    assert elsewhere.seen == []
    assert (await admin.get("/tools/pets.listC")).status_code == 404

    stale = await admin.post("/providers/pets/approve", headers={"If-Match": '"1"'})
    assert stale.status_code == 412
    tag = f'"{provider["version"]}"'
    approved = await admin.post("/providers/pets/approve", headers={"If-Match": tag})
    assert approved.status_code == 200, approved.text
    assert approved.json()["pending"] is None
    assert approved.json()["origins"] == [upstream.url, elsewhere.url]
    assert approved.json()["tool_count"] == 3
    # The credential goes where its owner said, and nowhere else: that is another consent.
    assert (await admin.post("/tools/pets.listA/call", json={})).status_code == 403
    assert elsewhere.seen == []
    assert (await admin.post("/providers/pets/approve")).status_code == 409
    events = (await admin.get("/events?object_type=provider")).json()["items"]
    assert [one["action"] for one in events[:3]] == ["approved", "refreshed", "created"]
    assert events[0]["detail"]["operations"] == ["GET /a", "GET /b", "GET /c"]
    assert events[1]["detail"]["held"] == 3
    again = await refreshed(admin)
    assert (again["difference"]["unchanged"], again["pending"]) == (["GET /a", "GET /b", "GET /c"], None)
    assert again["origins"] == [elsewhere.url]


async def test_another_token_url_waits(admin, upstream, elsewhere):
    document = openapi(upstream.url, token_url=f"{upstream.url}/token")
    document["security"] = [{"oauth": []}]
    upstream.pages["/openapi.json"] = document
    source = {"url": f"{upstream.url}/openapi.json"}
    assert (await admin.post("/providers", json={"name": "pets", "source": source})).status_code == 201
    flow = document["components"]["securitySchemes"]["oauth"]["flows"]["clientCredentials"]
    flow["tokenUrl"] = f"{elsewhere.url}/token"
    document["paths"]["/new"] = {"get": {"operationId": "listNew", "responses": {}}}
    document["paths"]["/open"] = {"get": {"operationId": "listOpen", "security": [], "responses": {}}}
    body = await refreshed(admin)
    assert body["difference"]["held"] == ["GET /pets", "GET /new"]
    assert body["difference"]["added"] == ["GET /open"]
    assert [slot["token_url"] for slot in body["slots"] if slot["slot"] == "oauth"] == [
        f"{upstream.url}/token"
    ]
    approved = (await admin.post("/providers/pets/approve")).json()
    assert [slot["token_url"] for slot in approved["slots"] if slot["slot"] == "oauth"] == [
        f"{elsewhere.url}/token"
    ]
    assert approved["tool_count"] == 3


async def test_other_security_waits_and_goes_away_when_the_source_takes_it_back(admin, upstream):
    document = await registered(admin, upstream)
    document["paths"]["/a"]["get"]["security"] = []
    assert (await refreshed(admin))["difference"]["held"] == ["GET /a"]
    assert (await admin.get("/tools/pets.listA")).json()["security"] == [[{"slot": "key", "scopes": []}]]
    del document["paths"]["/a"]["get"]["security"]
    body = await refreshed(admin)
    assert (body["difference"]["held"], body["pending"]) == ([], None)
    assert (await admin.post("/providers/pets/approve")).status_code == 409


async def test_a_preview_says_what_would_wait(admin, upstream, elsewhere):
    document = await registered(admin, upstream)
    document["servers"] = [{"url": elsewhere.url}]
    shown = await admin.post(
        "/providers/preview", json={"name": "pets", "source": {"url": f"{upstream.url}/openapi.json"}}
    )
    assert shown.status_code == 200, shown.text
    assert shown.json()["difference"]["held"] == ["GET /a", "GET /b"]
    assert {one["verdict"] for one in shown.json()["difference"]["operations"]} == {"breaking"}
    fresh = await admin.post("/providers/preview", json={"name": "other", "source": {"url": f"{upstream.url}/openapi.json"}})  # fmt: skip
    assert fresh.json()["difference"]["held"] == []
    assert (await admin.get("/providers/pets")).json()["pending"] is None


async def test_a_manual_whose_tools_move_waits_too(admin, upstream, elsewhere):
    upstream.pages["/utcp"] = manual(tool("echo", f"{upstream.url}/echo"), tool("other", f"{upstream.url}/o"))
    source = {"url": f"{upstream.url}/utcp"}
    assert (await admin.post("/providers", json={"name": "pets", "source": source})).status_code == 201
    upstream.pages["/utcp"] = manual(
        tool("echo", f"{elsewhere.url}/echo"), tool("other", f"{upstream.url}/p")
    )
    body = await refreshed(admin)
    assert (body["difference"]["held"], body["difference"]["changed"]) == (["echo"], ["other"])
    assert (await admin.post("/tools/pets.echo/call", json={})).status_code == 200
    assert elsewhere.seen == []
    assert (await admin.post("/providers/pets/approve")).status_code == 200
    assert (await admin.post("/tools/pets.echo/call", json={})).status_code == 200
    assert len(elsewhere.seen) == 1


@pytest.mark.parametrize("scope", ["providers:write", "providers:read"])
async def test_approving_needs_the_scope_of_credentials(admin, upstream, gateway_app, scope):
    await registered(admin, upstream)
    small = await gateway_app.client(scope)
    assert (await small.post("/providers/pets/approve")).status_code == 403
    enough = await gateway_app.client("credentials:write")
    assert (await enough.post("/providers/pets/approve")).status_code == 409
    limited = await gateway_app.client("credentials:write", providers=["others"])
    assert (await limited.post("/providers/pets/approve")).status_code == 404


async def test_what_a_person_changed_outlives_an_approval(admin, upstream, elsewhere):
    document = await registered(admin, upstream)
    await admin.patch("/tools/pets.listA", json={"description": "Mine"})
    document["servers"] = [{"url": elsewhere.url}]
    await refreshed(admin)
    await admin.post("/providers/pets/approve")
    found = (await admin.get("/tools/pets.listA")).json()
    assert (found["description"], found["call_template"]["url"]) == ("Mine", f"{elsewhere.url}/a")


async def test_a_provider_without_tools_gets_none_at_an_origin_that_nobody_named(admin, upstream, elsewhere):
    empty = {**openapi(upstream.url, paths=()), "security": []}
    upstream.pages["/openapi.json"] = empty
    source = {"url": f"{upstream.url}/openapi.json"}
    assert (await admin.post("/providers", json={"name": "pets", "source": source})).status_code == 201
    far = {"get": {"operationId": "far", "servers": [{"url": elsewhere.url}], "responses": {}}}
    empty["paths"] = {"/far": far, "/near": {"get": {"operationId": "near", "responses": {}}}}
    body = await refreshed(admin)
    assert (body["difference"]["added"], body["difference"]["held"]) == (["GET /near"], ["GET /far"])
