"""A refresh reports what changed and what that breaks; what moves credentials waits for approval."""

import asyncio
from datetime import timedelta

import orjson
import pytest
from sqlalchemy import update
from sqlmodel import col

from app.storage.models import Approval, now

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
    response = await admin.post("/providers/pets/refresh")
    assert response.status_code == 200, response.text
    return response.json()


def by_key(operations):
    return {one["source_key"]: one for one in operations}


async def test_each_operation_is_compared(admin, upstream):
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
    assert difference["compatibility"] == "breaking"
    found = by_key(difference["operations"])
    assert [(one["change"], one["compatibility"], one["pending_approval"]) for one in found.values()] == [
        ("changed", "breaking", False), ("added", "compatible", False), ("removed", "breaking", False)]  # fmt: skip
    assert {(d["aspect"], d["effect"], d["pointer"]) for d in found["GET /a"]["differences"]} >= {
        ("input", "narrowed", "/q")
    }
    assert (await refreshed(admin))["difference"]["compatibility"] == "compatible"


async def test_changes_that_an_approval_does_not_show_are_listed(admin, approver, upstream, elsewhere):
    document = await registered(admin, upstream)
    document["servers"] = [{"url": elsewhere.url}]
    document["paths"] |= {
        f"/p{n}": {"get": {"operationId": f"list{n}", "responses": {}}} for n in range(1_000)
    }
    pending = (await refreshed(admin))["pending"]
    operations = pending["operations"]
    assert len(operations) == 1_002
    shown = (await approver.get(f"/approvals/{pending['approval_id']}")).json()
    assert (len(shown["operations"]), shown["operation_count"]) == (1_000, 1_002)
    size = len(orjson.dumps(operations[1_000:]))
    (hidden,) = shown["hidden"]
    assert (hidden["pointer"], hidden["reason"]) == ("/operations/1000", "too-large")
    # The stored changes have the same members as those of the response.
    assert hidden["bytes"] == size
    assert (await approver.get(f"/approvals/{pending['approval_id']}/request")).status_code == 403


async def test_another_origin_waits_and_the_old_definition_works_on(admin, approver, upstream, elsewhere):
    document = await registered(admin, upstream)
    document["servers"] = [{"url": elsewhere.url}]
    document["paths"]["/c"] = {"get": {"operationId": "listC", "responses": {}}}
    body = await refreshed(admin)
    assert body["difference"]["pending_approval"] == ["GET /a", "GET /b", "GET /c"]
    assert body["origins"] == [upstream.url]
    assert body["tool_count"] == 2
    provider = (await admin.get("/providers/pets")).json()
    assert [one["change"] for one in provider["pending"]["operations"]] == ["changed", "changed", "added"]
    assert elsewhere.url in provider["pending"]["operations"][0]["differences"][0]["detail"]
    assert (await admin.post("/tools/pets.listA/call", json={})).status_code == 200
    assert upstream.seen[-1][1] == "/a"
    assert elsewhere.seen == []
    assert (await admin.get("/tools/pets.listC")).status_code == 404

    stale = await approver.post("/providers/pets/approve", headers={"If-Match": '"1"'})
    assert stale.status_code == 412
    tag = f'"{provider["version"]}"'
    approved = await approver.post("/providers/pets/approve", headers={"If-Match": tag})
    assert approved.status_code == 200, approved.text
    assert approved.json()["pending"] is None
    assert approved.json()["origins"] == [upstream.url, elsewhere.url]
    assert approved.json()["tool_count"] == 3
    # The credential is sent only where its owner allowed; that needs another consent.
    assert (await admin.post("/tools/pets.listA/call", json={})).status_code == 403
    assert elsewhere.seen == []
    assert (await approver.post("/providers/pets/approve")).status_code == 409
    events = (await admin.get("/events?object_type=provider")).json()["items"]
    assert [one["action"] for one in events[:3]] == ["approved", "refreshed", "created"]
    assert events[0]["detail"]["operations"] == ["GET /a", "GET /b", "GET /c"]
    assert events[1]["detail"]["pending_approval"] == 3
    again = await refreshed(admin)
    assert (again["difference"]["unchanged"], again["pending"]) == (["GET /a", "GET /b", "GET /c"], None)
    assert again["origins"] == [elsewhere.url]


async def test_another_token_url_waits(admin, approver, upstream, elsewhere):
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
    assert body["difference"]["pending_approval"] == ["GET /pets", "GET /new"]
    assert body["difference"]["added"] == ["GET /open"]
    assert [slot["token_url"] for slot in body["slots"] if slot["slot"] == "oauth"] == [
        f"{upstream.url}/token"
    ]
    approved = (await approver.post("/providers/pets/approve")).json()
    assert [slot["token_url"] for slot in approved["slots"] if slot["slot"] == "oauth"] == [
        f"{elsewhere.url}/token"
    ]
    assert approved["tool_count"] == 3


async def test_other_security_waits_and_ends_when_the_source_reverts_it(admin, approver, upstream):
    document = await registered(admin, upstream)
    document["paths"]["/a"]["get"]["security"] = []
    assert (await refreshed(admin))["difference"]["pending_approval"] == ["GET /a"]
    assert (await admin.get("/tools/pets.listA")).json()["security"] == [[{"slot": "key", "scopes": []}]]
    del document["paths"]["/a"]["get"]["security"]
    body = await refreshed(admin)
    assert (body["difference"]["pending_approval"], body["pending"]) == ([], None)
    assert (await approver.post("/providers/pets/approve")).status_code == 409


async def test_a_preview_shows_what_would_wait(admin, upstream, elsewhere):
    document = await registered(admin, upstream)
    document["servers"] = [{"url": elsewhere.url}]
    shown = await admin.post(
        "/providers/preview", json={"name": "pets", "source": {"url": f"{upstream.url}/openapi.json"}}
    )
    assert shown.status_code == 200, shown.text
    assert shown.json()["difference"]["pending_approval"] == ["GET /a", "GET /b"]
    assert {one["compatibility"] for one in shown.json()["difference"]["operations"]} == {"breaking"}
    fresh = await admin.post("/providers/preview", json={"name": "other", "source": {"url": f"{upstream.url}/openapi.json"}})  # fmt: skip
    assert fresh.json()["difference"]["pending_approval"] == []
    assert (await admin.get("/providers/pets")).json()["pending"] is None


async def test_a_manual_whose_tools_move_waits_too(admin, approver, upstream, elsewhere):
    upstream.pages["/utcp"] = manual(tool("echo", f"{upstream.url}/echo"), tool("other", f"{upstream.url}/o"))
    source = {"url": f"{upstream.url}/utcp"}
    assert (await admin.post("/providers", json={"name": "pets", "source": source})).status_code == 201
    upstream.pages["/utcp"] = manual(
        tool("echo", f"{elsewhere.url}/echo"), tool("other", f"{upstream.url}/p")
    )
    body = await refreshed(admin)
    assert (body["difference"]["pending_approval"], body["difference"]["changed"]) == (["echo"], ["other"])
    assert (await admin.post("/tools/pets.echo/call", json={})).status_code == 200
    assert elsewhere.seen == []
    assert (await approver.post("/providers/pets/approve")).status_code == 200
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


async def test_an_override_outlives_an_approval(admin, approver, upstream, elsewhere):
    document = await registered(admin, upstream)
    await admin.patch("/tools/pets.listA", json={"description": "Mine"})
    document["servers"] = [{"url": elsewhere.url}]
    await refreshed(admin)
    await approver.post("/providers/pets/approve")
    found = (await admin.get("/tools/pets.listA")).json()
    assert (found["description"], found["call_template"]["url"]) == ("Mine", f"{elsewhere.url}/a")


async def test_a_provider_without_tools_gets_none_at_an_unregistered_origin(admin, upstream, elsewhere):
    empty = {**openapi(upstream.url, paths=()), "security": []}
    upstream.pages["/openapi.json"] = empty
    body = {"name": "pets", "url": f"{upstream.url}/openapi.json", "options": {"allow_empty": True}}
    assert (await admin.post("/providers", json=body)).status_code == 201
    far = {"get": {"operationId": "far", "servers": [{"url": elsewhere.url}], "responses": {}}}
    empty["paths"] = {"/far": far, "/near": {"get": {"operationId": "near", "responses": {}}}}
    body = await refreshed(admin)
    assert (body["difference"]["added"], body["difference"]["pending_approval"]) == (
        ["GET /near"],
        ["GET /far"],
    )


async def approval_of(client, state="pending"):
    """The only approval of the provider `pets` in a state."""
    found = (await client.get(f"/approvals?provider=pets&state={state}")).json()["items"]
    assert len(found) == 1, found
    return (await client.get(f"/approvals/{found[0]['id']}")).json()


def move(document, url):
    document["servers"] = [{"url": url}]


def other_name(document, _url):
    document["components"]["securitySchemes"]["key"]["name"] = "X-Other"


def other_security(document, _url):
    document["paths"]["/a"]["get"]["security"] = []


@pytest.mark.parametrize(
    ("kind", "change"), [("origin", move), ("credential", other_name), ("definition", other_security)]
)
async def test_each_kind_of_change_is_an_approval(admin, approver, upstream, elsewhere, kind, change):
    document = await registered(admin, upstream)
    change(document, elsewhere.url)
    pending = (await refreshed(admin))["pending"]
    approval = await approval_of(approver)
    assert (approval["id"], approval["kind"]) == (pending["approval_id"], kind)
    assert approval["subject"] == {"type": "provider", "name": "pets", "provider": "pets"}
    assert approval["operations"] == pending["operations"]
    assert approval["operation_count"] == len(pending["operations"])
    assert approval["arguments"] is None
    response = await approver.post(f"/approvals/{approval['id']}/approve", json={"comment": "Reviewed."})
    assert (response.status_code, response.json()["state"]) == (200, "executed")
    assert (await admin.get("/providers/pets")).json()["pending"] is None
    assert (await refreshed(admin))["pending"] is None
    assert (await approver.post(f"/approvals/{approval['id']}/approve")).status_code == 409


async def test_the_key_that_refreshed_approves_by_neither_route(admin, approver, upstream, elsewhere):
    document = await registered(admin, upstream)
    move(document, elsewhere.url)
    await refreshed(admin)
    approval = await approval_of(approver)
    for path in ("/providers/pets/approve", f"/approvals/{approval['id']}/approve"):
        denied = await admin.post(path)
        assert (denied.status_code, denied.json()["type"].rpartition(":")[2]) == (403, "own-approval")
    assert (await admin.get("/providers/pets")).json()["pending"] is not None


async def test_a_later_refresh_replaces_an_approval(admin, approver, upstream, elsewhere):
    document = await registered(admin, upstream)
    move(document, elsewhere.url)
    await refreshed(admin)
    first = await approval_of(approver)
    document["paths"]["/c"] = {"get": {"operationId": "listC", "responses": {}}}
    await refreshed(admin)
    second = await approval_of(approver)
    assert second["id"] != first["id"]
    replaced = await approver.post(f"/approvals/{first['id']}/approve")
    assert (replaced.status_code, replaced.json()["state"]) == (409, "expired")
    assert (await approver.get(f"/approvals/{first['id']}")).json()["failure"]["title"] == "Replaced"
    assert elsewhere.seen == []
    assert (await approver.post(f"/approvals/{second['id']}/approve")).status_code == 200
    assert (await admin.get("/providers/pets")).json()["tool_count"] == 3


async def test_rejected_changes_are_discarded_until_the_next_refresh(admin, approver, upstream, elsewhere):
    document = await registered(admin, upstream)
    move(document, elsewhere.url)
    await refreshed(admin)
    approval = await approval_of(approver)
    rejected = await approver.post(f"/approvals/{approval['id']}/reject")
    assert (rejected.status_code, rejected.json()["state"]) == (200, "rejected")
    assert (await admin.get("/providers/pets")).json()["pending"] is None
    assert (await approver.post("/providers/pets/approve")).status_code == 409
    assert (await admin.get("/providers/pets")).json()["origins"] == [upstream.url]
    assert (await refreshed(admin))["pending"] is not None


async def test_expired_changes_are_discarded(admin, approver, upstream, elsewhere, gateway_app):
    document = await registered(admin, upstream)
    move(document, elsewhere.url)
    await refreshed(admin)
    approval = await approval_of(approver)
    services = gateway_app.services
    async with services.database.transaction() as session:
        past = now() - timedelta(seconds=1)
        await session.execute(
            update(Approval).where(col(Approval.state) == "pending").values(expires_at=past)
        )
    assert (await approver.post("/providers/pets/approve")).status_code == 409
    await services.approvals.sweep()
    assert (await admin.get("/providers/pets")).json()["pending"] is None
    assert (await approver.get(f"/approvals/{approval['id']}")).json()["state"] == "expired"


async def test_concurrent_approvals_apply_changes_once(admin, upstream, elsewhere, gateway_app):
    document = await registered(admin, upstream)
    move(document, elsewhere.url)
    await refreshed(admin)
    approvers = [await gateway_app.client("credentials:write", "providers:read") for _ in range(5)]
    approval = await approval_of(approvers[0])
    path = f"/approvals/{approval['id']}/approve"
    responses = await asyncio.gather(*(client.post(path) for client in approvers))
    assert sorted(response.status_code for response in responses) == [200] + [409] * 4
    events = (await admin.get(f"/events?object_type=approval&object_name={approval['id']}")).json()["items"]
    assert [one["action"] for one in events] == ["approved", "requested"]


async def test_changes_of_a_deleted_provider_are_approved_by_nobody(admin, approver, upstream, elsewhere):
    document = await registered(admin, upstream)
    move(document, elsewhere.url)
    await refreshed(admin)
    approval = await approval_of(approver)
    assert (await admin.delete("/providers/pets")).status_code == 204
    await registered(admin, upstream)
    assert (await approver.post(f"/approvals/{approval['id']}/approve")).status_code == 409


async def test_the_scope_for_calls_approves_no_changes(admin, upstream, elsewhere, gateway_app, approver):
    document = await registered(admin, upstream)
    move(document, elsewhere.url)
    await refreshed(admin)
    approval = await approval_of(approver)
    of_calls = await gateway_app.client("approvals:decide")
    assert (await of_calls.get("/approvals")).json()["items"] == []
    assert (await of_calls.post(f"/approvals/{approval['id']}/approve")).status_code == 404
    limited = await gateway_app.client("credentials:write", providers=["others"])
    assert (await limited.post(f"/approvals/{approval['id']}/approve")).status_code == 404


async def test_the_requirement_of_approval_outlives_a_refresh_and_an_export(admin, upstream):
    await registered(admin, upstream)
    await admin.patch("/tools/pets.listA", json={"requires_approval": True})
    upstream.pages["/openapi.json"]["paths"]["/d"] = upstream.pages["/openapi.json"]["paths"].pop("/a")
    await refreshed(admin)
    upstream.pages["/openapi.json"]["paths"]["/a"] = upstream.pages["/openapi.json"]["paths"].pop("/d")
    await refreshed(admin)
    names = {one["call_template"]["url"]: one for one in [
        (await admin.get(f"/tools/{tool['name']}")).json() for tool in (await admin.get("/tools")).json()["items"]
    ]}  # fmt: skip
    assert names[f"{upstream.url}/a"]["requires_approval"] is True
    exported = (await admin.get("/export")).json()
    assert exported["providers"][0]["overrides"]["GET /a"]["requires_approval"] is True
