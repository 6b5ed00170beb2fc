"""A key that is limited to toolsets uses tools by their addresses only, and is told nothing of the rest."""

import pytest

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


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/tools/library.books"),
        ("POST", "/tools/library.books/call"),
        ("POST", "/tools/library.books/call?dry_run=true"),
        ("GET", "/providers/library/utcp"),
        ("GET", "/toolsets/sky"),
        ("GET", "/toolsets/sky/utcp"),
        ("GET", "/toolsets/sky/search"),
        ("POST", "/toolsets/sky/tools/weather_now/call"),
        ("POST", "/toolsets/desk/tools/weather_now/call"),
        ("POST", "/toolsets/none/tools/weather_now/call"),
    ],
    ids=lambda value: value,
)
async def test_any_other_address_is_not_found(api, admin, method, path):
    agent, _ = await limited(api, admin)
    assert (await agent.request(method, path)).status_code == 404


@pytest.mark.parametrize("path", ["/tools", "/tools/search", "/tools/search?q=catalogue", "/utcp"])
async def test_lists_of_the_registry_are_empty(api, admin, path):
    agent, _ = await limited(api, admin)
    found = (await agent.get(path)).json()
    assert found.get("items", found.get("tools")) == []


async def test_other_restrictions_apply_within_the_toolset(api, admin):
    agent, _ = await limited(api, admin, ("desk", "sky"), providers=["weather"])
    assert (await agent.get("/toolsets/desk")).status_code == 404
    assert (await agent.post("/toolsets/sky/tools/weather_now/call", json={})).status_code == 200


async def test_limit_is_shown_changed_and_kept_by_rotation(api, admin):
    agent, made = await limited(api, admin)
    assert made["toolsets"] == ["desk"]
    me = (await agent.get("/me")).json()
    assert (me["toolsets"], me["warnings"], me["visible"]) == (["desk"], [], {"providers": 0, "tools": 0})
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
