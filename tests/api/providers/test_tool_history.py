"""GET /tools/{name}/history: imports, approvals and changes by people, newest first."""

import asyncio

from .conftest import served
from .documents import manual, openapi, tool


async def history(client, name, **query):
    response = await client.get(f"/tools/{name}/history", params=query)
    assert response.status_code == 200, response.text
    return response.json()["items"]


async def register(admin, upstream, *paths):
    upstream.pages["/openapi.json"] = openapi(upstream.url, paths=paths)
    body = {"name": "pets", "source": {"url": f"{upstream.url}/openapi.json"}}
    made = await admin.post("/providers", json=body)
    assert made.status_code == 201, made.text


async def refresh(admin, status=200):
    response = await admin.post("/providers/pets/refresh")
    assert response.status_code == status, response.text
    return response.json()


async def test_the_first_import_is_the_oldest_entry_of_each_tool(admin, upstream):
    await register(admin, upstream, "/a", "/b")
    for name in ("pets.listA", "pets.listB"):
        (entry,) = await history(admin, name)
        assert (entry["action"], entry["changes"], entry["differences"]) == ("imported", [], [])
        assert entry["actor"]
        assert entry["revision"]


async def test_a_refresh_adds_the_differences_of_the_tools_that_it_changed(admin, upstream):
    await register(admin, upstream, "/a", "/b")
    document = openapi(upstream.url, paths=("/a", "/b", "/c"))
    document["paths"]["/a"]["get"]["summary"] = "New words"
    document["paths"]["/a"]["get"]["parameters"] = [
        {"name": "q", "in": "query", "required": True, "schema": {"type": "string"}}
    ]
    upstream.pages["/openapi.json"] = document
    await refresh(admin)
    changed, imported = await history(admin, "pets.listA")
    assert (imported["action"], changed["action"], changed["compatibility"]) == (
        "imported", "changed", "breaking",
    )  # fmt: skip
    assert "input" in {one["aspect"] for one in changed["differences"]}
    description = next(one for one in changed["changes"] if one["field"] == "description")
    assert "New words" in description["after"]
    assert "New words" not in description["before"]
    assert [one["action"] for one in await history(admin, "pets.listB")] == ["imported"]
    assert [one["action"] for one in await history(admin, "pets.listC")] == ["added"]


async def test_changes_by_people_have_the_values_before_and_after(admin, upstream):
    await register(admin, upstream, "/a")
    before = (await admin.get("/tools/pets.listA")).json()["description"]
    await admin.patch("/tools/pets.listA", json={"description": "mine", "tags": ["x"]})
    operation = {"tool": "pets.listA", "patch": {"enabled": False, "description": None}}
    assert (await admin.post("/tools:batch", json={"operations": [operation]})).status_code == 200
    second, first, _ = await history(admin, "pets_listA")
    assert first["action"] == second["action"] == "overridden"
    assert first["changes"] == [
        {"field": "description", "before": before, "after": "mine", "truncated": False},
        {"field": "tags", "before": [], "after": ["x"], "truncated": False},
    ]
    assert second["changes"] == [
        {"field": "description", "before": "mine", "after": before, "truncated": False},
        {"field": "enabled", "before": True, "after": False, "truncated": False},
    ]


async def test_the_history_continues_when_the_source_has_the_tool_again(admin, upstream):
    await register(admin, upstream, "/a", "/b")
    upstream.pages["/openapi.json"] = openapi(upstream.url, paths=("/a",))
    await refresh(admin)
    assert (await admin.get("/tools/pets.listB/history")).status_code == 404
    upstream.pages["/openapi.json"] = openapi(upstream.url, paths=("/a", "/b"))
    await refresh(admin)
    assert [one["action"] for one in await history(admin, "pets.listB")][:2] == ["added", "removed"]


async def test_an_approval_has_the_differences_that_were_approved(admin, approver, upstream, elsewhere):
    await register(admin, upstream, "/a")
    document = openapi(elsewhere.url, paths=("/a",))
    upstream.pages["/openapi.json"] = document
    assert (await refresh(admin))["difference"]["pending_approval"]
    assert len(await history(admin, "pets.listA")) == 1
    assert (await approver.post("/providers/pets/approve")).status_code == 200
    approved = (await history(admin, "pets.listA"))[0]
    assert (approved["action"], approved["compatibility"]) == ("approved", "breaking")
    assert elsewhere.url in approved["differences"][0]["detail"]
    url = next(one for one in approved["changes"] if one["field"] == "call_template.url")
    assert (url["before"], url["after"]) == (f"{upstream.url}/a", f"{elsewhere.url}/a")


async def test_a_custom_tool_has_its_creation(admin, upstream):
    template = {"call_template_type": "http", "url": f"{upstream.url}/x", "http_method": "GET"}
    body = {"provider": "own", "name": "x", "call_template": template}
    assert (await admin.post("/tools", json=body)).status_code == 201
    assert (await admin.delete("/tools/own.x")).status_code == 204
    assert (await admin.post("/tools", json=body)).status_code == 201
    assert [one["action"] for one in await history(admin, "own.x")] == ["created", "deleted", "created"]


async def test_secrets_of_call_templates_are_in_no_entry(admin, upstream):
    for secret in ("hidden-one", "hidden-two"):
        document = manual(tool("echo", f"{upstream.url}/e?k={secret}", headers={"X-S": secret}))
        upstream.pages["/utcp"] = document
        if secret == "hidden-one":
            template = {"name": "m", "call_template_type": "http", "url": f"{upstream.url}/utcp"}
            made = await admin.post("/providers", json=template)
            assert made.status_code == 201, made.text
        else:
            assert (await admin.post("/providers/m/refresh")).status_code == 200
            await admin.post("/providers/m/approve")
    response = await admin.get("/tools/m.echo/history")
    assert response.status_code == 200
    assert "hidden-" not in response.text


async def test_pages_follow_each_other_and_texts_are_searched(admin, upstream):
    await register(admin, upstream, "/a")
    for number in range(4):
        await admin.patch("/tools/pets.listA", json={"description": f"words {number}"})
    first = (await admin.get("/tools/pets.listA/history?limit=2")).json()
    second = (await admin.get(f"/tools/pets.listA/history?limit=200&cursor={first['next_cursor']}")).json()
    listed = [*first["items"], *second["items"]]
    assert [one["action"] for one in listed] == ["overridden"] * 4 + ["imported"]
    assert first["total"] == 5
    assert await history(admin, "pets.listA", sort="at") == listed[::-1]
    assert [one["changes"][0]["after"] for one in await history(admin, "pets.listA", q="WORDS 3")] == [
        "words 3"
    ]


async def test_a_restricted_key_sees_its_tools_and_no_ids_of_other_keys(admin, gateway_app, upstream):
    await register(admin, upstream, "/a")
    limited = await gateway_app.client("providers:read", providers=["pets"])
    (entry,) = await history(limited, "pets.listA")
    assert entry["actor"] is None
    other = await gateway_app.client("providers:read", providers=["others"])
    assert (await other.get("/tools/pets.listA/history")).status_code == 404
    reader = await gateway_app.client("tools:read")
    assert (await reader.get("/tools/pets.listA/history")).status_code == 403


async def test_the_oldest_entries_beyond_the_maximum_are_deleted(servers, upstream):
    async with served(servers, tool_history_max=2) as application:
        client = await application.client("admin")
        await register(client, upstream, "/a")
        for number in range(4):
            await client.patch("/tools/pets.listA", json={"description": str(number)})
        found = [one for one in await history(client, "pets.listA") if one["action"] == "overridden"]
        assert [one["changes"][0]["after"] for one in found] == ["3", "2"]


async def test_concurrent_changes_are_all_recorded(admin, upstream):
    await register(admin, upstream, "/a")
    bodies = [{"description": str(number)} for number in range(5)]
    await asyncio.gather(*(admin.patch("/tools/pets.listA", json=body) for body in bodies))
    entries = (await history(admin, "pets.listA"))[:-1]
    values = [one["changes"][0] for one in entries]
    assert {one["after"] for one in values} == {"0", "1", "2", "3", "4"}
    assert [one["before"] for one in values[:-1]] == [one["after"] for one in values[1:]]
