"""A call whose approval was decided is not described as waiting any more: each interface gives its state and,
where it was made, its result.
"""

import asyncio
from datetime import timedelta

from sqlalchemy import update

from app.storage.models import Approval, now
from tests.api.tools.test_call_approvals import agent, approver, asked, lend, own_id
from tests.harness.cases import for_each
from tests.harness.mcp_requests import McpClient

__all__ = ["agent", "approver", "lend"]

ARGUMENTS = {"q": "sea"}
KEY = "loan-9"


async def by_rest(client, key):
    """The status, the state of the approval, and the text of the response to a call by REST."""
    response = await client.post("/tools/library.lend/call", json=ARGUMENTS, headers={"Idempotency-Key": key})
    body = response.json()
    return response.status_code, (body.get("approval") or {}).get("state"), response.text


async def by_mcp(client, key, name="library_lend", arguments=ARGUMENTS):
    meta = {"utcp-gateway/idempotencyKey": key}
    response = await McpClient(client).modern("tools/call", {"name": name, "arguments": arguments}, meta=meta)
    result = response.json()["result"]
    text = result["content"][0]["text"]
    structured = result.get("structuredContent") or {}
    if not result["isError"]:
        return 200, None, text
    error = structured.get("error") or structured
    return error.get("status"), (error.get("approval") or {}).get("state"), text


async def by_meta_tool(client, key):
    return await by_mcp(client, key, "call_tool", {"name": "library_lend", "arguments": ARGUMENTS})


def by_model(message, path=""):
    async def call(client, key):
        response = await client.post(f"/tool-calls{path}", json=message, headers={"Idempotency-Key": key})
        body = response.json()
        (result,) = body["results"]
        return result["status"], None, str(body["messages"])

    return call


CHAT = {"role": "assistant", "tool_calls": [
    {"id": "c", "type": "function", "function": {"name": "library_lend", "arguments": '{"q": "sea"}'}}
]}  # fmt: skip
ANTHROPIC = {"role": "assistant", "content": [
    {"type": "tool_use", "id": "c", "name": "library_lend", "input": ARGUMENTS}
]}  # fmt: skip
GEMINI = {"role": "model", "parts": [
    {"functionCall": {"id": "c", "name": "library_lend", "args": ARGUMENTS}}
]}  # fmt: skip


async def by_command(client, key):
    command = {"commandName": "library.lend", "arguments": ARGUMENTS}
    response = await client.post("/ubp/commands", json=command, headers={"Idempotency-Key": key})
    answer = response.json()
    return 200 if answer["status"] == "SUCCESS" else None, None, response.text


INTERFACES = {
    "REST": by_rest,
    "MCP": by_mcp,
    "meta-tool": by_meta_tool,
    "OpenAI": by_model(CHAT),
    "Anthropic": by_model(ANTHROPIC),
    "Gemini": by_model(GEMINI),
    "command": by_command,
}


async def waiting_id(agent, call, key):
    await call(agent, key)
    (approval,) = (await agent.get("/approvals", params={"state": "pending"})).json()["items"]
    return approval["id"]


@for_each("name", list(INTERFACES))
async def test_repeated_call_with_its_idempotency_key_gets_the_result(lend, agent, approver, upstream, name):
    call = INTERFACES[name]
    approval = await waiting_id(agent, call, name)
    before = len(upstream.requests)
    assert (await approver.post(f"/approvals/{approval}/approve")).json()["state"] == "executed"
    for _ in range(2):
        status, state, text = await call(agent, name)
        assert (status, state) == (200, None), text
        assert "/echo?q=sea" in text
        assert "needs the approval" not in text
    assert len(upstream.requests) == before + 1


@for_each("name", list(INTERFACES))
async def test_repeated_call_says_that_it_was_rejected(lend, agent, approver, upstream, name):
    call = INTERFACES[name]
    approval = await waiting_id(agent, call, name)
    assert (await approver.post(f"/approvals/{approval}/reject")).status_code == 200
    status, state, text = await call(agent, name)
    assert (status, state) in ((409, "rejected"), (409, None), (None, None)), text
    assert "was rejected, and was not made" in text
    assert upstream.requests == []


async def test_repeated_call_gets_the_problem_that_it_failed_with(api, lend, agent, approver):
    approval = await waiting_id(agent, by_rest, KEY)
    stranger = await api.client("admin")
    await stranger.patch("/tools/library.lend", json={"description": "Another one."})
    assert (await approver.post(f"/approvals/{approval}/approve")).status_code == 409
    found = await agent.post("/tools/library.lend/call", json=ARGUMENTS, headers={"Idempotency-Key": KEY})
    assert (found.status_code, found.json()["type"].rpartition(":")[2]) == (409, "approval-outdated")
    _, _, text = await by_mcp(agent, KEY)
    assert "description or annotations" in text


async def read_more(client, handle):
    found = await McpClient(client).modern(
        "tools/call", {"name": "read_more", "arguments": {"continuation": handle}}
    )
    return found.json()["result"]


async def test_client_that_speaks_only_mcp_reads_the_result(api, lend, agent, approver, upstream):
    mcp = McpClient(agent)
    waiting = await mcp.modern("tools/call", {"name": "library_lend", "arguments": ARGUMENTS})
    text = waiting.json()["result"]["content"][0]["text"]
    handle = text.partition("with the continuation ")[2].partition(".")[0]
    assert handle.startswith("a_")
    listed = (await mcp.modern("tools/list")).json()["result"]["tools"]
    assert "read_more" in {tool["name"] for tool in listed}
    still = await read_more(agent, handle)
    assert (still["isError"], "has not been made yet" in still["content"][0]["text"]) == (True, True)
    assert handle in still["content"][0]["text"]
    await approver.post(f"/approvals/{handle[2:]}/approve")
    stranger = await api.client("tools:read", "tools:call")
    for _ in range(2):
        done = await read_more(agent, handle)
        assert (done["isError"], done["structuredContent"]["path"]) == (False, "/echo?q=sea")
        assert (await read_more(stranger, handle))["isError"] is True
    assert len(upstream.requests) == 1
    admin = await api.client("admin")
    limited = await admin.patch(
        f"/keys/{own_id(agent)}", json={"providers": ["another"], "allow_unknown_providers": True}
    )
    assert limited.status_code == 200, limited.text
    assert (await read_more(agent, handle))["isError"] is True
    for unknown in ("a_", "a_x", f"a_{lend.id}"):
        assert (await read_more(agent, unknown))["isError"] is True


async def test_read_of_a_rejected_call_says_so_and_a_large_result_is_cut(
    api, lend, agent, approver, upstream
):
    approval = await asked(agent)
    await approver.post(f"/approvals/{approval['id']}/reject")
    found = await read_more(agent, f"a_{approval['id']}")
    assert (found["isError"], "was rejected" in found["content"][0]["text"]) == (True, True)
    admin = await api.client("admin")
    definition = {"tools": ["library.lend"], "result_budget": {"max_bytes": 1000}}
    await admin.put("/toolsets/desk", json={"definition": definition})
    approval = await asked(agent, {"q": "x" * 5_000})
    await approver.post(f"/approvals/{approval['id']}/approve")
    mcp = McpClient(agent, "/toolsets/desk/mcp")
    cut = await mcp.modern(
        "tools/call", {"name": "read_more", "arguments": {"continuation": f"a_{approval['id']}"}}
    )
    text = cut.json()["result"]["content"][0]["text"]
    assert len(text) < 2_000
    assert "read_more" in text


async def test_call_that_is_being_made_is_no_longer_waiting_for_a_person(
    api, lend, agent, approver, upstream
):
    more = await api.provider("more")
    template = {"http_method": "GET", "url": f"{upstream.url}/in-two-parts"}
    await api.tool(more, "parts", template, override={"requires_approval": True})
    headers = {"Idempotency-Key": KEY}
    waiting = await agent.post("/tools/more.parts/call", json={}, headers=headers)
    location = waiting.headers["location"]
    deciding = asyncio.create_task(approver.post(f"{location}/approve"))
    await upstream.arrived.wait()
    found = await agent.post("/tools/more.parts/call", json={}, headers=headers)
    assert (found.status_code, found.json()["approval"]["state"]) == (202, "approved")
    _, _, text = await by_mcp(agent, KEY, "more_parts", {})
    assert "was approved, and is being made" in text
    upstream.second_part.set()
    assert (await deciding).json()["state"] == "executed"
    assert (await agent.post("/tools/more.parts/call", json={}, headers=headers)).status_code == 200


async def test_redirect_and_further_pages_of_an_approved_call_are_said(api, agent, approver, upstream):
    more = await api.provider("more")
    template = {"url": f"{upstream.url}/redirect", "response": {"redirects": ["302"]}}
    await api.tool(more, "archive", template, override={"requires_approval": True})
    target = "https://files.example/a.zip?signature=abc"
    waiting = await agent.post("/tools/more.archive/call", json={"status": 302, "to": target})
    location = waiting.headers["location"]
    await approver.post(f"{location}/approve")
    found = await read_more(agent, f"a_{location.rpartition('/')[2]}")
    assert f"redirect (HTTP 302) to {target}" in found["content"][0]["text"]
    result = (await agent.get(f"{location}/result")).json()
    assert (result["upstream_status"], result["headers"]["Location"]) == (302, target)


async def test_call_past_its_time_has_expired_before_the_sweep(api, lend, agent):
    approval = await waiting_id(agent, by_rest, KEY)
    async with api.services.database.transaction() as session:
        await session.execute(update(Approval).values(expires_at=now() - timedelta(seconds=1)))
    status, state, text = await by_rest(agent, KEY)
    assert (status, state) == (409, "expired"), text
    found = await read_more(agent, f"a_{approval}")
    text = found["content"][0]["text"]
    assert "in time, and it was not made" in text
    assert "again to ask anew" in text
    assert (await agent.get(f"/approvals/{approval}")).json()["state"] == "expired"
    assert (await agent.get(f"/approvals/{approval}/result")).status_code == 404


async def test_text_of_a_rejected_call_has_the_comment_and_what_to_do(lend, agent, approver):
    approval = await waiting_id(agent, by_mcp, KEY)
    await approver.post(f"/approvals/{approval}/reject", json={"comment": "Wrong branch."})
    for text in (
        (await by_mcp(agent, KEY))[2],
        (await read_more(agent, f"a_{approval}"))["content"][0]["text"],
    ):
        assert '"Wrong branch."' in text
        assert "Do not repeat the call as it is" in text
        assert "Read what is stored" not in text


async def test_result_is_closed_to_a_key_that_may_no_longer_use_the_tool(api, lend, agent, approver):
    path = f"/approvals/{(await asked(agent))['id']}"
    await approver.post(f"{path}/approve")
    assert (await agent.get(f"{path}/result")).status_code == 200
    admin = await api.client("admin")
    limits = {"providers": ["another"], "allow_unknown_providers": True}
    assert (await admin.patch(f"/keys/{own_id(agent)}", json=limits)).status_code == 200
    assert (await agent.get(f"{path}/result")).status_code == 404
    assert (await agent.get(path)).json()["state"] == "executed"
