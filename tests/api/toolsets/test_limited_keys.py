"""A key that is limited to toolsets uses their tools alone, and is told nothing of the rest."""

import pytest

from tests.harness.cases import for_each

DESK = {
    "providers": ["library"],
    "changes": {"library.books": {"name": "find_books", "presets": {"limit": 5}}},
}


@pytest.fixture
async def admin(api, library):
    client = await api.client("admin")
    for name, definition in (("desk", DESK), ("sky", {"providers": ["weather"]})):
        made = await client.put(f"/toolsets/{name}", json={"definition": definition})
        assert made.status_code == 201, made.text
    return client


async def limited(api, admin, toolsets=("desk",), scopes=("tools:read", "tools:call"), **more):
    body = {"name": "agent", "scopes": list(scopes), "toolsets": list(toolsets), **more}
    made = await admin.post("/keys", json=body)
    assert made.status_code == 201, made.text
    client = await api.client()
    client.headers["Authorization"] = f"Bearer {made.json()['key']}"
    return client, made.json()


async def test_key_uses_the_addresses_of_its_toolsets(api, admin):
    agent, _ = await limited(api, admin)
    called = await agent.post("/toolsets/desk/tools/find_books/call", json={"q": "tea"})
    assert (called.status_code, called.json()["path"]) == (200, "/books?q=tea&limit=5")
    names = [tool["name"] for tool in (await agent.get("/toolsets/desk/utcp")).json()["tools"]]
    assert names == ["find_books", "library_loan"]
    assert len((await agent.get("/toolsets/desk/search", params={"q": "catalogue"})).json()["items"]) == 1
    assert [item["name"] for item in (await agent.get("/toolsets")).json()["items"]] == ["desk"]
    assert (await agent.get("/toolsets/desk")).json()["definition"] is None


@for_each(
    ("method", "path"),
    [
        ("GET", "/tools/weather.now"),
        ("POST", "/tools/weather.now/call"),
        ("POST", "/tools/weather.now/call?dry_run=true"),
        ("GET", "/providers/weather/utcp"),
        ("GET", "/toolsets/sky"),
        ("GET", "/toolsets/sky/utcp"),
        ("GET", "/toolsets/sky/search"),
        ("POST", "/toolsets/sky/tools/weather_now/call"),
        ("POST", "/toolsets/desk/tools/weather_now/call"),
        ("POST", "/toolsets/none/tools/weather_now/call"),
    ],
    ids=lambda value: value,
)
async def test_what_is_in_none_of_them_is_not_found(api, admin, method, path):
    agent, _ = await limited(api, admin)
    assert (await agent.request(method, path)).status_code == 404


async def test_other_restrictions_apply_within_the_toolset(api, admin):
    agent, _ = await limited(api, admin, ("desk", "sky"), providers=["weather"])
    assert (await agent.get("/toolsets/desk")).status_code == 404
    assert (await agent.post("/toolsets/sky/tools/weather_now/call", json={})).status_code == 200


async def test_limit_is_shown_changed_and_kept_by_rotation(api, admin):
    agent, made = await limited(api, admin)
    assert made["toolsets"] == ["desk"]
    me = (await agent.get("/me")).json()
    assert (me["toolsets"], me["warnings"], me["visible"]) == (["desk"], [], {"providers": 1, "tools": 2})
    rotated = (await admin.post(f"/keys/{made['id']}/rotate")).json()
    assert rotated["toolsets"] == ["desk"]
    path = f"/keys/{rotated['id']}"
    changed = (await admin.patch(path, json={"toolsets": ["sky", "later"]})).json()
    assert changed["toolsets"] == ["later", "sky"]
    assert [(one["code"], one["detail"]) for one in changed["warnings"]] == [
        ("sees-nothing", "The key is limited to toolsets that do not exist: later.")
    ]
    nothing = (await admin.patch(path, json={"toolsets": []})).json()
    assert [one["detail"] for one in nothing["warnings"]] == ["The key is limited to no toolset at all."]
    assert (await admin.patch(path, json={"toolsets": None})).json()["toolsets"] is None
    events = (await admin.get("/events", params={"object_type": "key", "object_name": made["id"]})).json()
    assert events["items"][-1]["detail"]["toolsets"] == ["desk"]


async def test_limited_key_grants_no_more_than_it_has(api, admin):
    scopes = ("tools:read", "tools:call", "keys:manage")
    manager, _ = await limited(api, admin, ("desk", "sky"), scopes)
    body = {"name": "x", "scopes": ["tools:call"]}
    assert (await manager.post("/keys", json=body)).status_code == 403
    assert (await manager.post("/keys", json={**body, "toolsets": ["other"]})).status_code == 403
    made = await manager.post("/keys", json={**body, "toolsets": ["desk"]})
    assert made.status_code == 201
    await admin.post("/keys", json={**body, "name": "free"})
    listed = (await manager.get("/keys")).json()["items"]
    assert sorted(key["name"] for key in listed) == ["agent", "x"]
    assert (await manager.patch(f"/keys/{made.json()['id']}", json={"toolsets": None})).status_code == 403


async def test_call_that_waits_for_approval_is_made_for_a_limited_key(api, admin):
    assert (await admin.patch("/tools/library.books", json={"requires_approval": True})).status_code == 200
    agent, made = await limited(api, admin)
    waiting = await agent.post("/toolsets/desk/tools/find_books/call", json={"q": "tea"})
    assert waiting.status_code == 202, waiting.text
    location = waiting.headers["location"]
    approved = (await admin.post(f"{location}/approve")).json()
    assert approved["state"] == "executed", approved
    result = (await agent.get(f"{location}/result")).json()
    assert "/books?q=tea&limit=5" in str(result)
    waiting = await agent.post("/toolsets/desk/tools/find_books/call", json={"q": "tea"})
    await admin.patch(f"/keys/{made['id']}", json={"toolsets": ["sky"]})
    outdated = await admin.post(f"{waiting.headers['location']}/approve")
    assert outdated.status_code == 409
    assert "may not use the toolset desk" in outdated.json()["detail"]


async def test_preset_values_are_not_shown_to_the_agent(api, admin):
    agent, _ = await limited(api, admin)
    path = "/toolsets/desk/tools/find_books/call"
    preview = await agent.post(f"{path}?dry_run=true", json={"q": "tea"})
    assert preview.status_code == 403, preview.text
    assert "limit=5" in (await admin.post(f"{path}?dry_run=true", json={"q": "tea"})).text
    await admin.patch("/tools/library.books", json={"requires_approval": True})
    waiting = await agent.post(path, json={"q": "tea"})
    location = waiting.headers["location"]
    assert (await agent.get(location)).json()["arguments"] == {"q": "tea"}
    assert (await admin.get(location)).json()["arguments"] == {"q": "tea", "limit": 5}
    approved = (await admin.post(f"{location}/approve")).json()
    assert (approved["state"], approved["arguments"]) == ("executed", {"q": "tea", "limit": 5})


async def test_key_is_told_how_much_it_sees_in_its_toolsets(api, admin):
    async def visible(client):
        return (await client.get("/me")).json()["visible"]

    agent, _ = await limited(api, admin)
    assert await visible(agent) == {"providers": 1, "tools": 2}
    both, _ = await limited(api, admin, toolsets=("desk", "sky", "none"))
    assert await visible(both) == {"providers": 2, "tools": 3}
    within, _ = await limited(api, admin, toolsets=("desk", "sky"), providers=["weather"])
    assert await visible(within) == {"providers": 1, "tools": 1}
    nothing, _ = await limited(api, admin, toolsets=(), scopes=("tools:read",))
    assert await visible(nothing) == {"providers": 0, "tools": 0}
    caller, _ = await limited(api, admin, scopes=("tools:call",))
    assert await visible(caller) == {"providers": 0, "tools": 2}


async def test_error_about_a_name_says_where_the_names_of_the_toolset_are(api, admin):
    agent, _ = await limited(api, admin)
    for toolset, path in (("desk", "GET /toolsets/desk has"), ("elsewhere", "GET /toolsets has")):
        missing = await agent.post(f"/toolsets/{toolset}/tools/zzzz/call", json={})
        assert missing.status_code == 404
        assert path in missing.json()["hint"]
        assert "GET /tools " not in missing.text
    message = {"tool_calls": [{"id": "c", "function": {"name": "zzzz", "arguments": "{}"}}]}
    answered = await agent.post("/toolsets/desk/tool-calls", json=message)
    assert "GET /toolsets/desk has" in answered.json()["messages"][0]["content"]
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "zzzz", "arguments": {}}}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    over_mcp = await agent.post("/toolsets/desk/mcp", json=body, headers=headers)
    assert "GET /toolsets/desk has" in over_mcp.json()["error"]["data"]["hint"]


LOAN_BOOKS = {"tools": ["library.loan"]}
OUTDATING = {
    "no member": ({"definition": LOAN_BOOKS}, "is no longer in the toolset desk"),
    "another preset": (
        {"definition": {**DESK, "changes": {"library.books": {"presets": {"limit": 6}}}}},
        "sets for library.books have changed",
    ),
    "no preset": ({"definition": {"providers": ["library"]}}, "sets for library.books have changed"),
    "deleted": (None, "is no longer in the toolset desk"),
}


@pytest.mark.parametrize("is_limited", [True, False], ids=["limited", "not-limited"])
@pytest.mark.parametrize("change", OUTDATING)
async def test_an_approved_call_of_a_toolset_that_has_changed_is_not_made(api, admin, change, is_limited):
    assert (await admin.patch("/tools/library.books", json={"requires_approval": True})).status_code == 200
    agent, _ = await limited(api, admin, toolsets=("desk",)) if is_limited else (
        await api.client("tools:read", "tools:call"), None
    )  # fmt: skip
    waiting = await agent.post("/toolsets/desk/tools/find_books/call", json={"q": "tea"})
    assert waiting.status_code == 202, waiting.text
    body, detail = OUTDATING[change]
    if body is None:
        assert (await admin.delete("/toolsets/desk")).status_code == 204
    else:
        assert (await admin.put("/toolsets/desk", json=body)).status_code == 200
    outdated = await admin.post(f"{waiting.headers['location']}/approve")
    assert outdated.status_code == 409, outdated.text
    assert detail in outdated.json()["detail"]
    assert outdated.json()["approval"]["state"] == "failed"
    assert (await agent.get(f"{waiting.headers['location']}/result")).json()["json"] is None


async def test_an_approved_call_is_made_where_another_name_was_given_meanwhile(api, admin):
    assert (await admin.patch("/tools/library.books", json={"requires_approval": True})).status_code == 200
    agent, _ = await limited(api, admin)
    waiting = await agent.post("/toolsets/desk/tools/find_books/call", json={"q": "tea"})
    changes = {"library.books": {"name": "books", "presets": {"/limit": 5}}}
    body = {"definition": {"tools": ["library.books", "library.loan"], "changes": changes}}
    assert (await admin.put("/toolsets/desk", json=body)).status_code == 200
    approved = (await admin.post(f"{waiting.headers['location']}/approve")).json()
    assert approved["state"] == "executed", approved
