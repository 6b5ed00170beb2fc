"""Calls that wait for approval: stored sealed, approved by another key, made once, by the key that asked."""

import asyncio
from datetime import timedelta

import orjson
import pytest
from sqlalchemy import func, select, update
from sqlmodel import col

from app.catalog.feed import record_change
from app.core.rate_limit import RateLimit
from app.storage.models import (
    Approval,
    Event,
    Key,
    Tool,
    now,
)

SECRET = "canary-4711-secret"
INPUTS = {
    "type": "object",
    "properties": {
        "q": {"type": "string"},
        "pin": {"type": "string", "writeOnly": True},
        "limit": {"type": "integer"},
    },
}


@pytest.fixture
async def lend(api, upstream):
    """A tool that POSTs to the upstream and requires approval."""
    library = await api.provider("library", tags=["public"])
    return await api.tool(
        library,
        "lend",
        {"http_method": "POST", "url": f"{upstream.url}/echo", "body_field": None},
        inputs=INPUTS,
        override={"requires_approval": True},
    )


@pytest.fixture
async def agent(api):
    return await api.client("tools:read", "tools:call")


@pytest.fixture
async def approver(api):
    return await api.client("approvals:decide")


async def asked(client, arguments=None, **headers):
    """The approval of a new call."""
    response = await client.post(
        "/tools/library.lend/call", json={"q": "sea", **(arguments or {})}, headers=headers
    )
    assert response.status_code == 202, response.text
    return response.json()["approval"]


async def rows(api):
    async with api.services.database.read_session() as session:
        return list((await session.scalars(select(Approval))).all())


def own_id(client):
    return client.headers["authorization"].split("_")[1]


async def test_a_call_waits_and_is_made_once_approved(api, upstream, lend, agent, approver):
    response = await agent.post("/tools/library.lend/call", json={"q": "sea"})
    assert response.status_code == 202
    approval = response.json()["approval"]
    assert response.headers["location"] == f"/approvals/{approval['id']}"
    assert response.headers["retry-after"] == "10"
    assert (approval["kind"], approval["state"], approval["requested_by"]) == (
        "call",
        "pending",
        own_id(agent),
    )
    assert approval["subject"] == {"type": "tool", "name": "library.lend", "provider": "library"}
    assert upstream.requests == []
    assert [call["outcome"] for call in await api.calls()] == ["approval-pending"]
    assert (await api.calls())[0]["status"] == 202
    path = f"/approvals/{approval['id']}"
    assert (await agent.get(f"{path}/result")).status_code == 409

    approved = await approver.post(f"{path}/approve", json={"comment": "Fine."})
    assert approved.status_code == 200, approved.text
    body = approved.json()
    assert (body["state"], body["decided_by"], body["comment"]) == ("executed", own_id(approver), "Fine.")
    assert len(upstream.requests) == 1
    result = await agent.get(f"{path}/result")
    assert result.status_code == 200, result.text
    assert result.json()["json"]["method"] == "POST"
    assert result.json()["call_id"] == body["call_id"]
    assert result.headers["cache-control"] == "no-store"
    made = next(call for call in await api.calls() if call["id"] == body["call_id"])
    assert (made["outcome"], made["key_id"]) == ("ok", own_id(agent))
    assert (await approver.get(f"{path}/result")).status_code == 403


async def test_concurrent_approvals_make_one_call(upstream, lend, agent, approver, api):
    path = f"/approvals/{(await asked(agent))['id']}/approve"
    others = [await api.client("approvals:decide") for _ in range(7)]
    responses = await asyncio.gather(*(client.post(path) for client in (approver, *others)))
    assert sorted(response.status_code for response in responses) == [200] + [409] * 7
    assert len(upstream.requests) == 1
    assert (await approver.post(path)).status_code == 409
    assert len(upstream.requests) == 1


async def test_a_key_does_not_approve_its_own_call_nor_do_keys_that_it_created(api, lend, upstream):
    both = await api.client("tools:call", "approvals:decide", "keys:manage")
    path = f"/approvals/{(await asked(both))['id']}/approve"
    denied = await both.post(path)
    assert (denied.status_code, denied.json()["type"].rpartition(":")[2]) == (403, "own-approval")
    minted = (
        await both.post("/keys", json={"name": "x", "scopes": ["approvals:decide", "keys:manage"]})
    ).json()
    child = {"Authorization": f"Bearer {minted['key']}"}
    assert (await both.post(path, headers=child)).json()["type"].endswith("own-approval")
    second = await both.post("/keys", json={"name": "y", "scopes": ["approvals:decide"]}, headers=child)
    grandchild = {"Authorization": f"Bearer {second.json()['key']}"}
    assert (await both.post(path, headers=grandchild)).json()["type"].endswith("own-approval")
    assert upstream.requests == []


@pytest.mark.parametrize("rotated_by", ["itself", "another key"])
@pytest.mark.parametrize("requested_by", ["predecessor", "successor"])
async def test_keys_of_one_chain_of_rotations_do_not_approve_each_others_calls(
    api, lend, upstream, rotated_by, requested_by
):
    agent = await api.client("tools:call", "approvals:decide")
    manager = agent if rotated_by == "itself" else await api.client("admin")
    rotated = (await manager.post(f"/keys/{own_id(agent)}/rotate", json={})).json()
    successor = {"Authorization": f"Bearer {rotated['key']}"}
    old, new = {}, successor
    asker, decider = (old, new) if requested_by == "predecessor" else (new, old)
    location = (await agent.post("/tools/library.lend/call", json={}, headers=asker)).headers["location"]
    denied = await agent.post(f"{location}/approve", headers=decider)
    assert (denied.status_code, denied.json()["type"].rpartition(":")[2]) == (403, "own-approval")
    assert upstream.requests == []


async def test_a_key_that_a_rotated_key_created_does_not_approve_the_calls_of_its_predecessor(
    api, lend, upstream
):
    agent = await api.client("tools:call", "approvals:decide", "keys:manage")
    location = (await agent.post("/tools/library.lend/call", json={})).headers["location"]
    manager = await api.client("admin")
    rotated = (await manager.post(f"/keys/{own_id(agent)}/rotate", json={})).json()
    successor = {"Authorization": f"Bearer {rotated['key']}"}
    minted = await agent.post("/keys", json={"name": "x", "scopes": ["approvals:decide"]}, headers=successor)
    child = {"Authorization": f"Bearer {minted.json()['key']}"}
    denied = await agent.post(f"{location}/approve", headers=child)
    assert (denied.status_code, denied.json()["type"].rpartition(":")[2]) == (403, "own-approval")
    assert upstream.requests == []


async def test_the_creator_of_a_key_approves_its_calls(api, lend, upstream):
    creator = await api.client("tools:call", "approvals:decide", "keys:manage")
    minted = (await creator.post("/keys", json={"name": "x", "scopes": ["tools:call"]})).json()
    child = {"Authorization": f"Bearer {minted['key']}"}
    response = await creator.post("/tools/library.lend/call", json={}, headers=child)
    assert (await creator.post(f"{response.headers['location']}/approve")).json()["state"] == "executed"
    assert len(upstream.requests) == 1


async def test_approving_calls_needs_its_scope(api, lend, agent):
    path = f"/approvals/{(await asked(agent))['id']}"
    other = await api.client("tools:call", "credentials:write", "providers:write")
    assert (await other.post(f"{path}/approve")).status_code == 404
    assert (await other.get("/approvals")).json()["items"] == []
    reader = await api.client("tools:read", "calls:read", "keys:manage")
    assert (await reader.get("/approvals")).status_code == 403
    assert (await reader.get(path)).status_code == 403


@pytest.mark.parametrize("change", ["revoked", "expired", "scope", "restricted"])
async def test_a_key_that_lost_its_rights_has_its_call_fail(api, lend, agent, approver, upstream, change):
    approval = await asked(agent)
    values = {
        "revoked": {"revoked_at": now()},
        "expired": {"expires_at": now() - timedelta(seconds=1)},
        "scope": {"scopes": ["tools:read"]},
        "restricted": {"providers": ["another"]},
    }[change]
    async with api.services.database.transaction() as session:
        await session.execute(update(Key).where(col(Key.key_id) == own_id(agent)).values(**values))
    response = await approver.post(f"/approvals/{approval['id']}/approve")
    assert response.status_code == 409, response.text
    assert response.json()["type"].endswith("approval-outdated")
    assert response.json()["approval"]["state"] == "failed"
    assert upstream.requests == []
    (row,) = await rows(api)
    assert (row.state, row.sealed_request) == ("failed", None)


@pytest.mark.parametrize("change", ["definition", "disabled", "deleted"])
async def test_a_changed_tool_is_not_called(api, lend, agent, approver, upstream, change):
    approval = await asked(agent)
    owner = await api.client("admin")
    if change == "disabled":
        assert (await owner.patch("/tools/library.lend", json={"enabled": False})).status_code == 200
    elif change == "deleted":
        assert (await owner.delete("/tools/library.lend")).status_code == 204
    else:
        async with api.services.database.transaction() as session:
            template = {**lend.call_template, "url": f"{upstream.url}/other"}
            statement = update(Tool).where(col(Tool.id) == lend.id).values(call_template=template)
            await session.execute(statement)
            await record_change(session, kind="tool", provider_id=lend.provider_id, object_id=str(lend.id))
        await api.services.feed.catch_up()
    response = await approver.post(f"/approvals/{approval['id']}/approve")
    assert (response.status_code, response.json()["approval"]["state"]) == (409, "failed")
    assert upstream.requests == []
    assert (await agent.get(f"/approvals/{approval['id']}")).json()["failure"]["status"] in (404, 409)


@pytest.mark.parametrize("change", [{"description": "Lend."}, {"read_only": True}])
async def test_what_the_approver_reads_about_the_tool_may_not_change_meanwhile(
    api, lend, agent, approver, upstream, change
):
    approval = await asked(agent)
    owner = await api.client("admin")
    if "read_only" in change:
        change = {"annotations": change}
    assert (await owner.patch("/tools/library.lend", json=change)).status_code == 200
    preview = await approver.get(f"/approvals/{approval['id']}/request")
    assert (preview.status_code, preview.json()["type"].rpartition(":")[2]) == (409, "approval-outdated")
    response = await approver.post(f"/approvals/{approval['id']}/approve")
    assert (response.status_code, response.json()["approval"]["state"]) == (409, "failed")
    assert "description" in response.json()["detail"]
    assert upstream.requests == []


async def test_the_approver_sees_what_is_sent(api, agent, approver, upstream):
    bank = await api.provider("bank")
    await api.tool(
        bank,
        "pay",
        {"http_method": "POST", "url": f"{upstream.url}/echo", "body_field": "body"},
        inputs={"type": "object", "properties": {"body": INPUTS}},
        override={"requires_approval": True},
    )
    deep = "bottom"
    for _ in range(60):
        deep = {"a": deep}
    sent = {
        "q": "https://user:pw@bank.example/transfer?to=X&amount=1000000",
        "note": "Use Bearer abcdefghijklmnop, " + "x" * 20_000 + " then pay.",
        "api_key": "4711",
        "deep": deep,
        "exact": "EXACT",
        "pin": SECRET,
    }
    exact = b"0.1000000000000000055511151231257827"
    text = orjson.dumps({"body": sent}).replace(b'"EXACT"', exact)
    headers = {"Content-Type": "application/json"}
    waiting = await agent.post("/tools/bank.pay/call", content=text, headers=headers)
    assert waiting.status_code == 202, waiting.text
    size = len(SECRET) + 2
    hidden = [{"pointer": "/arguments/body/pin", "reason": "declared-secret", "bytes": size}]
    assert waiting.json()["approval"]["hidden"] == hidden
    path = waiting.headers["location"]
    shown = orjson.dumps({**sent, "pin": "***"}).replace(b'"EXACT"', exact)
    response = await approver.get(path)
    assert response.json()["hidden"] == hidden
    assert b'"arguments":{"body":' + shown + b"}" in response.content
    assert (await approver.get("/approvals")).json()["items"][0]["hidden"] is None

    preview = await approver.get(f"{path}/request")
    assert preview.status_code == 200, preview.text
    assert preview.headers["cache-control"] == "no-store"
    assert b'"body":' + shown in preview.content
    assert preview.json()["hidden"] == [{**hidden[0], "pointer": "/request/body/pin"}]
    assert upstream.requests == []
    assert (await approver.post(f"{path}/approve")).json()["state"] == "executed"
    assert orjson.loads(upstream.requests[0][3]) == orjson.loads(text)["body"]


async def waiting_post(api, agent, upstream, content_type, text):
    """The response to a call of a tool that sends an argument, given as JSON text, as its body."""
    bank = await api.provider("bank")
    template = {"http_method": "POST", "url": f"{upstream.url}/echo", "body_field": "body"}
    await api.tool(
        bank,
        "send",
        {**template, "content_type": content_type},
        inputs={"type": "object", "properties": {"body": {}}},
        override={"requires_approval": True},
    )
    headers = {"Content-Type": "application/json"}
    return await agent.post("/tools/bank.send/call", content=f'{{"body":{text}}}', headers=headers)


@pytest.mark.parametrize(
    ("content_type", "body", "shown"),
    [
        ("application/json", {"bytes": "abc"}, '{"bytes":"abc"}'),
        ("application/json", {"bytes": 12}, '{"bytes":12}'),
        ("text/plain", "[" * 300, "[" * 300),
        ("text/plain", "[" * 300 + "]" * 300, "[" * 300 + "]" * 300),
        ("text/plain", "[" * 252 + "]" * 252, "[" * 252 + "]" * 252),
        ("text/plain", '{"amount":1,"amount":1000000}', '{"amount":1,"amount":1000000}'),
        ("text/plain", '{"amount":1000000}', {"amount": 1000000}),
    ],
)
async def test_the_body_of_a_request_is_shown_as_it_is_sent(
    api, agent, approver, upstream, content_type, body, shown
):
    waiting = await waiting_post(api, agent, upstream, content_type, orjson.dumps(body).decode())
    assert waiting.status_code == 202, waiting.text
    path = waiting.headers["location"]
    preview = await approver.get(f"{path}/request")
    assert preview.status_code == 200, preview.text
    assert (preview.json()["request"]["body"], preview.json()["hidden"]) == (shown, [])
    assert (await approver.post(f"{path}/approve")).json()["state"] == "executed"
    sent = upstream.requests[0][3].decode()
    assert sent == (shown if isinstance(shown, str) else orjson.dumps(shown).decode())


@pytest.mark.parametrize("levels", [245, 250, 251, 252, 253, 254])
async def test_whatever_waits_can_be_read_and_decided(api, agent, approver, upstream, levels):
    value = '{"a":' * levels + "1" + "}" * levels
    waiting = await waiting_post(api, agent, upstream, "application/json", value)
    if waiting.status_code == 422:
        assert levels > 250
        assert await rows(api) == []
        return
    path = waiting.headers["location"]
    shown = await approver.get(path)
    assert shown.status_code == 200, shown.text
    assert value in shown.text
    preview = await approver.get(f"{path}/request")
    assert preview.status_code == 200, preview.text
    body = preview.json()["request"]["body"]
    assert preview.json()["hidden"] == []
    assert (body if isinstance(body, str) else orjson.dumps(body).decode()) == value
    decided = await approver.post(f"{path}/approve")
    assert decided.json()["state"] == "executed", decided.text
    assert upstream.requests[0][3].decode() == value


async def test_a_worker_of_the_release_before_reads_a_waiting_call(api, lend, agent, approver):
    """What it reads of a call: the arguments as they are shown, by one context or the other."""
    approval = await asked(agent, {"pin": SECRET})
    store = api.services.calls.approvals
    (row,) = await rows(api)
    opened = store.vault.open(row.sealed_arguments, context=("approval", str(row.id), "arguments"))
    assert orjson.loads(opened) == {"q": "sea", "pin": "***"}
    assert "/arguments/pin" not in str(row.detail)
    path = f"/approvals/{approval['id']}"
    hidden = (await approver.get(path)).json()["hidden"]
    assert [one["pointer"] for one in hidden] == ["/arguments/pin"]
    done = (await approver.post(f"{path}/approve")).json()
    assert (done["state"], done["hidden"]) == ("executed", hidden)


async def test_a_worker_of_the_release_before_reads_a_waiting_call_with_presets(api, lend, agent, approver):
    admin = await api.client("admin")
    changes = {"library.lend": {"presets": {"limit": 3, "pin": SECRET}}}
    definition = {"providers": ["library"], "changes": changes}
    made = await admin.put("/toolsets/desk", json={"definition": definition})
    assert made.status_code == 201, made.text
    waiting = await agent.post("/toolsets/desk/tools/library_lend/call", json={"q": "sea"})
    assert waiting.json()["approval"]["hidden"] == []
    store = api.services.calls.approvals
    (row,) = await rows(api)
    context = ("approval", str(row.id), "arguments-and-presets")
    opened = orjson.loads(store.vault.open(row.sealed_arguments, context=context))
    assert opened == [{"q": "sea", "limit": 3, "pin": "***"}, ["/limit", "/pin"]]
    shown = (await approver.get(waiting.headers["location"])).json()
    assert shown["arguments"] == opened[0]
    assert [one["pointer"] for one in shown["hidden"]] == ["/arguments/pin"]
    own = (await agent.get(waiting.headers["location"])).json()
    assert (own["arguments"], own["hidden"]) == ({"q": "sea"}, [])


async def test_the_request_is_shown_to_those_who_decide_while_the_call_waits(api, lend, agent, approver):
    path = f"/approvals/{(await asked(agent))['id']}"
    assert (await agent.get(f"{path}/request")).status_code == 403
    elsewhere = await api.client("approvals:decide", providers=["another"])
    assert (await elsewhere.get(f"{path}/request")).status_code == 404
    assert (await approver.get(f"{path}/request")).status_code == 200
    await approver.post(f"{path}/reject")
    assert (await approver.get(f"{path}/request")).status_code == 409


async def test_the_request_of_a_call_whose_key_is_revoked_is_outdated(api, lend, agent, approver):
    approval = await asked(agent)
    async with api.services.database.transaction() as session:
        await session.execute(update(Key).where(col(Key.key_id) == own_id(agent)).values(revoked_at=now()))
    response = await approver.get(f"/approvals/{approval['id']}/request")
    assert (response.status_code, response.json()["type"].rpartition(":")[2]) == (409, "approval-outdated")


async def test_what_an_earlier_release_has_hidden_is_listed(api, lend, agent, approver, upstream):
    """Release 0.2 stored masked arguments without a list, and no digest of the description."""
    approval = await asked(agent, {"q": "password=hunter2hunter2"})
    store = api.services.calls.approvals
    (row,) = await rows(api)
    members = store.open_request(row)
    del members["description_digest"]

    def seal(value, part):
        return store.vault.seal(orjson.dumps(value), context=("approval", str(row.id), part))

    values = {
        "sealed_request": seal(members, "request"),
        "sealed_arguments": seal({"q": "password=***"}, "arguments"),
        "detail": {},
    }
    async with api.services.database.transaction() as session:
        await session.execute(update(Approval).values(**values))
    path = f"/approvals/{approval['id']}"
    shown = (await approver.get(path)).json()
    assert shown["arguments"] == {"q": "password=***"}
    assert [(one["pointer"], one["reason"]) for one in shown["hidden"]] == [("/arguments", "earlier-release")]
    done = (await approver.post(f"{path}/approve")).json()
    assert (done["state"], done["hidden"]) == ("executed", None)
    assert "hunter2hunter2" in upstream.requests[0][1]


async def test_a_rejected_call_is_never_made(api, lend, agent, approver, upstream):
    path = f"/approvals/{(await asked(agent))['id']}"
    rejected = await approver.post(f"{path}/reject", json={"comment": "No."})
    assert (rejected.status_code, rejected.json()["state"]) == (200, "rejected")
    assert (await approver.post(f"{path}/approve")).status_code == 409
    assert (await agent.get(f"{path}/result")).status_code == 404
    taken_back = f"/approvals/{(await asked(agent))['id']}/reject"
    assert (await agent.post(taken_back)).json()["state"] == "rejected"
    assert upstream.requests == []
    assert {row.sealed_request for row in await rows(api)} == {None}


async def test_approvals_expire_and_what_they_stored_is_deleted(api, lend, agent, approver, upstream):
    approval = await asked(agent)
    executed = await asked(agent)
    await approver.post(f"/approvals/{executed['id']}/approve")
    past = now() - timedelta(days=2)
    async with api.services.database.transaction() as session:
        await session.execute(
            update(Approval).where(col(Approval.state) == "pending").values(expires_at=past)
        )
        await session.execute(
            update(Approval).where(col(Approval.state) == "executed").values(ended_at=past, requested_at=past)
        )
    late = await approver.post(f"/approvals/{approval['id']}/approve")
    assert (late.status_code, late.json()["state"]) == (409, "expired")
    await api.services.approvals.sweep()
    found = (await agent.get(f"/approvals/{approval['id']}")).json()
    assert found["state"] == "expired"
    assert {row.sealed_request for row in await rows(api)} == {None}
    assert (await agent.get(f"/approvals/{executed['id']}/result")).status_code == 404
    async with api.services.database.transaction() as session:
        await session.execute(update(Approval).values(ended_at=now() - timedelta(days=91)))
    await api.services.approvals.sweep()
    assert await rows(api) == []
    async with api.services.database.read_session() as session:
        query = select(Event.action).where(col(Event.object_name) == approval["id"]).order_by(col(Event.id))
        assert list((await session.scalars(query)).all()) == ["requested", "expired"]
    assert len(upstream.requests) == 1


async def test_an_interrupted_call_fails_and_is_not_made_again(api, lend, agent, approver, upstream):
    approval = await asked(agent)
    async with api.services.database.transaction() as session:
        values = {"state": "approved", "decided_by": "x", "decided_at": now() - timedelta(hours=2)}
        await session.execute(update(Approval).values(**values))
    await api.services.approvals.sweep()
    found = (await agent.get(f"/approvals/{approval['id']}")).json()
    assert (found["state"], found["failure"]["title"]) == ("failed", "Interrupted")
    assert (await approver.post(f"/approvals/{approval['id']}/approve")).status_code == 409
    assert upstream.requests == []


async def test_an_idempotency_key_stands_for_one_approval(api, lend, agent, approver, upstream):
    named = {"Idempotency-Key": '"loan-1"'}
    first = await asked(agent, **named)
    bodies = [{"q": "sea"}] * 4
    again = await asyncio.gather(
        *(agent.post("/tools/library.lend/call", json=body, headers=named) for body in bodies)
    )
    assert {response.json()["approval"]["id"] for response in again} == {first["id"]}
    other = await agent.post("/tools/library.lend/call", json={"q": "storm"}, headers=named)
    assert (other.status_code, other.json()["type"].rpartition(":")[2]) == (422, "idempotency-mismatch")
    stranger = await api.client("tools:call")
    assert (await asked(stranger, **named))["id"] != first["id"]
    decided = (await approver.post(f"/approvals/{first['id']}/approve")).json()
    repeated = await agent.post("/tools/library.lend/call", json={"q": "sea"}, headers=named)
    assert (repeated.status_code, repeated.headers["idempotency-replayed"]) == (200, "true")
    assert repeated.headers["x-call-id"] == decided["call_id"]
    result = (await agent.get(f"/approvals/{first['id']}/result")).json()
    assert repeated.json() == result["json"]
    assert len(upstream.requests) == 1


async def test_concurrent_requests_with_one_idempotency_key_get_one_approval(api, lend, agent):
    named = {"Idempotency-Key": '"loan-2"'}
    found = await asyncio.gather(*(asked(agent, **named) for _ in range(8)))
    assert len({one["id"] for one in found}) == 1
    assert len(await rows(api)) == 1


async def test_arguments_are_checked_before_anything_waits(api, lend, agent):
    response = await agent.post("/tools/library.lend/call", json={"limit": "x"})
    assert response.status_code == 422
    assert await rows(api) == []


async def test_arguments_that_are_nested_too_deeply_are_rejected(api, lend, agent):
    body = '{"more": ' + "[" * 400 + "]" * 400 + "}"
    headers = {"Content-Type": "application/json"}
    response = await agent.post("/tools/library.lend/call", content=body, headers=headers)
    assert response.status_code == 422, response.text
    assert await rows(api) == []


async def test_a_dry_run_says_that_approval_is_required(lend, agent, api):
    response = await agent.post("/tools/library.lend/call?dry_run=true", json={"q": "sea"})
    assert (response.status_code, response.json()["requires_approval"]) == (200, True)
    assert await rows(api) == []


@pytest.mark.parametrize("accept", ["text/event-stream", "application/x-ndjson", "application/json"])
async def test_a_stream_waits_too(lend, agent, upstream, accept):
    response = await agent.post("/tools/library.lend/call", json={}, headers={"Accept": accept})
    assert (response.status_code, response.headers["content-type"]) == (202, "application/json")
    assert upstream.requests == []


async def test_query_arguments_are_stored(lend, agent, approver, upstream):
    response = await agent.post("/tools/library.lend/call?limit=3", json={"q": "sea"})
    approval = (await approver.get(response.headers["location"])).json()
    assert approval["arguments"] == {"q": "sea", "limit": 3}


async def test_secrets_in_arguments_are_shown_to_nobody(api, lend, agent, approver, upstream):
    api.services.masker.add(f"{SECRET}-known")
    approval = await asked(agent, {"pin": SECRET, "q": f"is it {SECRET}-known?"})
    path = f"/approvals/{approval['id']}"
    shown = (await approver.get(path)).json()
    assert shown["arguments"] == {"pin": "***", "q": "is it ***?"}
    assert [(one["pointer"], one["reason"]) for one in shown["hidden"]] == [
        ("/arguments/q", "known-secret"),
        ("/arguments/pin", "declared-secret"),
    ]
    auditor = await api.client("calls:read", "metrics:read")
    texts = [
        (await client.get(where)).text
        for client in (agent, approver)
        for where in ("/approvals", "/approvals?q=lend", path)
    ]
    texts += [(await auditor.get(where)).text for where in ("/events", "/calls", "/metrics")]
    texts.append((await approver.post(f"{path}/approve")).text)
    assert not [text for text in texts if SECRET in text]
    assert SECRET in upstream.requests[0][1]
    (row,) = await rows(api)
    public = row.model_dump(exclude={"sealed_arguments", "sealed_result", "fingerprint", "content_digest"})
    assert SECRET not in str(public)
    for blob in (row.sealed_arguments, row.sealed_result):
        assert SECRET.encode() not in blob
    assert row.sealed_request is None


async def test_a_sealed_call_opens_for_its_own_approval_only(api, lend, agent, approver, upstream):
    first, second = await asked(agent, {"q": "one"}), await asked(agent, {"q": "two"})
    one, two = sorted(await rows(api), key=lambda row: row.id)
    async with api.services.database.transaction() as session:
        moved = {"sealed_request": two.sealed_request}
        await session.execute(update(Approval).where(col(Approval.id) == one.id).values(**moved))
    response = await approver.post(f"/approvals/{first['id']}/approve")
    assert response.json()["state"] == "failed"
    assert upstream.requests == []
    assert (await approver.post(f"/approvals/{second['id']}/approve")).json()["state"] == "executed"


async def test_restricted_keys_see_and_decide_what_they_may_use(api, lend, agent, upstream):
    path = f"/approvals/{(await asked(agent))['id']}"
    for limits in ({"providers": ["another"]}, {"tags": ["internal"]}):
        outside = await api.client("approvals:decide", **limits)
        assert (await outside.get("/approvals")).json()["total"] == 0
        for response in (
            await outside.get(path), await outside.post(f"{path}/approve"), await outside.post(f"{path}/reject"),
        ):  # fmt: skip
            assert response.status_code == 404
    for limits in ({"providers": ["library"]}, {"tags": ["public"]}):
        inside = await api.client("approvals:decide", **limits)
        assert (await inside.get("/approvals")).json()["total"] == 1
    assert (await inside.post(f"{path}/approve")).json()["state"] == "executed"


async def test_a_key_sees_its_own_requests_only(api, lend, agent):
    other = await api.client("tools:call")
    mine, _ = await asked(agent), await asked(other)
    items = (await agent.get("/approvals")).json()["items"]
    assert [one["id"] for one in items] == [mine["id"]]
    assert (await other.get(f"/approvals/{mine['id']}")).status_code == 404
    assert (await other.get(f"/approvals/{mine['id']}/result")).status_code == 404


async def test_lists_are_filtered_sorted_and_paged(api, lend, agent, approver):
    ids = [(await asked(agent))["id"] for _ in range(3)]
    await approver.post(f"/approvals/{ids[0]}/reject")
    page = await approver.get("/approvals?sort=requested_at&limit=2")
    assert [one["id"] for one in page.json()["items"]] == ids[:2]
    assert page.json()["total"] == 3
    assert 'rel="next"' in page.headers["link"]
    more = await approver.get(f"/approvals?sort=requested_at&limit=2&cursor={page.json()['next_cursor']}")
    assert [one["id"] for one in more.json()["items"]] == ids[2:]
    for query, number in (
        ("state=pending", 2), ("state=rejected", 1), ("kind=call", 3), ("kind=origin", 0), ("q=LEND", 3),
        ("q=nothing", 0), ("provider=library", 3), ("provider=other", 0),
    ):  # fmt: skip
        assert (await approver.get(f"/approvals?{query}")).json()["total"] == number, query
    assert (await approver.get("/approvals?state=unknown")).status_code == 422


async def test_an_upstream_error_fails_the_approval_and_only_the_asker_reads_it(
    api, upstream, agent, approver
):
    library = await api.provider("library")
    await api.tool(
        library,
        "lend",
        {"http_method": "POST", "url": f"{upstream.url}/respond/422/json"},
        inputs=INPUTS,
        override={"requires_approval": True},
    )
    approval = await asked(agent)
    response = await approver.post(f"/approvals/{approval['id']}/approve")
    assert (response.status_code, response.json()["state"]) == (200, "failed")
    assert response.json()["failure"]["type"].endswith("upstream-rejected")
    assert "upstream_body" not in response.text
    problem = (await agent.get(f"/approvals/{approval['id']}/result")).json()["problem"]
    assert problem["upstream_status"] == 422


@pytest.mark.parametrize("rotations", [0, 2])
async def test_waiting_calls_of_a_key_and_its_predecessors_are_bounded(api, lend, agent, rotations):
    store = api.services.calls.approvals
    rest = store.max_pending
    async with api.services.database.transaction() as session:
        session.add_all(
            Approval(
                kind="call", subject_type="tool", subject_name="library.lend", provider="library",
                provider_id=lend.provider_id, requested_by=own_id(agent), expires_at=now() + timedelta(days=1),
            )
            for _ in range(rest)
        )  # fmt: skip
    for _ in range(rotations):
        rotated = (await agent.post(f"/keys/{own_id(agent)}/rotate", json={})).json()
        agent.headers["authorization"] = f"Bearer {rotated['key']}"
    response = await agent.post("/tools/library.lend/call", json={})
    assert (response.status_code, response.headers["retry-after"]) == (429, "60")
    async with api.services.database.read_session() as session:
        assert (await session.execute(select(func.count()).select_from(Approval))).scalar_one() == rest


async def test_only_approvers_remove_the_requirement(api, lend, agent):
    writer = await api.client("providers:write", "tools:read")
    for value in (False, None):
        denied = await writer.patch("/tools/library.lend", json={"requires_approval": value})
        assert (denied.status_code, denied.json()["missing_scopes"]) == (403, ["approvals:decide"])
    both = await api.client("providers:write", "approvals:decide")
    freed = await both.patch("/tools/library.lend", json={"requires_approval": None})
    assert (freed.status_code, freed.json()["requires_approval"]) == (200, False)
    assert (await agent.post("/tools/library.lend/call", json={})).status_code == 200
    required = await writer.patch("/tools/library.lend", json={"requires_approval": True})
    assert required.json()["requires_approval"] is True
    assert (await agent.post("/tools/library.lend/call", json={})).status_code == 202
    listed = (await agent.get("/tools")).json()["items"]
    assert [one["requires_approval"] for one in listed] == [True]


async def test_direct_manuals_leave_out_tools_that_require_approval(api, lend, agent):
    owner = await api.client("admin")
    direct = (await agent.get("/utcp?mode=direct")).json()["tools"]
    assert direct == []
    await owner.patch("/tools/library.lend", json={"requires_approval": False})
    assert len((await agent.get("/utcp?mode=direct")).json()["tools"]) == 1


async def test_approvals_are_counted_and_recorded_as_events(api, lend, agent, approver):
    counts = api.services.approvals.counts
    before = dict(counts)
    approval = await asked(agent)
    await approver.post(f"/approvals/{approval['id']}/approve")
    added = {key: counts[key] - before.get(key, 0) for key in counts}
    assert {key: number for key, number in added.items() if number} == {
        ("call", "pending"): 1, ("call", "approved"): 1, ("call", "executed"): 1,
    }  # fmt: skip
    await asked(agent)
    await api.services.approvals.sweep()
    assert api.services.approvals.pending == {"call": 1}
    reader = await api.client("calls:read", "metrics:read")
    events = (await reader.get("/events?object_type=approval&sort=at")).json()["items"]
    assert [(one["action"], one["actor"]) for one in events] == [
        ("requested", own_id(agent)),
        ("approved", own_id(approver)),
        ("executed", own_id(approver)),
        ("requested", own_id(agent)),
    ]
    metrics = (await reader.get("/metrics")).text
    assert 'utcp_gateway_approvals_pending{kind="call"} 1' in metrics
    assert 'utcp_gateway_approvals_total{kind="call",state="executed"}' in metrics
    assert orjson.dumps(events)


async def streamed(api, upstream, agent, approver, query):
    """The approval and the result of a call whose response the upstream sends in pieces."""
    library = await api.provider("library")
    await api.tool(
        library,
        "lend",
        {"url": f"{upstream.url}/pieces?type=text/plain&{query}"},
        override={"requires_approval": True},
    )
    approval = await asked(agent, {})
    decided = await approver.post(f"/approvals/{approval['id']}/approve")
    assert decided.status_code == 200, decided.text
    return decided.json(), (await agent.get(f"/approvals/{approval['id']}/result")).json()


async def test_the_result_of_a_stream_is_stored_whole(api, upstream, agent, approver):
    approval, result = await streamed(api, upstream, agent, approver, "body=abcdefghij&times=3&size=4")
    assert (approval["state"], result["text"]) == ("executed", "abcdefghij" * 3)
    made = next(call for call in await api.calls() if call["id"] == approval["call_id"])
    assert (made["outcome"], made["response_bytes"]) == ("ok", 30)


async def test_a_result_that_is_too_large_is_not_stored(api, upstream, agent, approver):
    size = api.services.calls.max_stored_bytes // 10 + 10
    query = f"body=abcdefghij&times={size}&size=65536"
    approval, result = await streamed(api, upstream, agent, approver, query)
    assert approval["state"] == "failed"
    assert result["problem"]["type"].endswith("response-too-large")
    assert result["problem"]["call_id"] == approval["call_id"]


async def test_an_approved_call_outlives_the_client_that_approved_it(api, lend, agent, approver, upstream):
    approval = await asked(agent)
    handler = api.services.approvals._handlers["call"]
    decision = asyncio.create_task(approver.post(f"/approvals/{approval['id']}/approve"))
    while not len(handler.running) and not upstream.requests:  # noqa: ASYNC110 - it has no event.
        await asyncio.sleep(0.001)
    decision.cancel()
    await handler.aclose()
    found = (await agent.get(f"/approvals/{approval['id']}")).json()
    assert (found["state"], len(upstream.requests)) == ("executed", 1)


async def test_a_call_is_counted_against_the_rate_limit_once(api, lend, approver, upstream):
    limited = await api.client("tools:call", rate=RateLimit(1, 3600, 1))
    approval = await asked(limited)
    assert (await limited.post("/tools/library.lend/call", json={})).status_code == 429
    assert (await approver.post(f"/approvals/{approval['id']}/approve")).json()["state"] == "executed"
    assert len(upstream.requests) == 1


async def test_decisions_are_those_that_the_key_may_take(api, lend, agent, approver):
    approval = await asked(agent)

    async def seen_by(client):
        (item,) = (await client.get("/approvals")).json()["items"]
        one = (await client.get(f"/approvals/{approval['id']}")).json()
        assert one["decisions"] == item["decisions"]
        return item["decisions"]

    assert "decisions" not in approval
    assert await seen_by(approver) == ["approve", "reject"]
    assert await seen_by(agent) == ["reject"]
    manager = await api.client("keys:manage", "tools:call", "approvals:decide")
    made = await manager.post("/keys", json={"name": "made", "scopes": ["approvals:decide"]})
    own = await asked(manager)
    child = {"Authorization": f"Bearer {made.json()['key']}"}
    found = await manager.get("/approvals", params={"sort": "requested_at"}, headers=child)
    listed = found.json()["items"]
    assert [(one["id"], one["decisions"]) for one in listed] == [
        (approval["id"], ["approve", "reject"]),
        (own["id"], ["reject"]),
    ]
    rejected = await approver.post(f"/approvals/{approval['id']}/reject")
    assert rejected.json()["decisions"] == []
