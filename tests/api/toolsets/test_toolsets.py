"""`/toolsets`: definitions are stored with versions and events, and show what has no effect."""

import asyncio

import pytest

from tests.harness.cases import for_each

DESK = {
    "providers": ["library"],
    "changes": {"library.books": {"name": "find_books", "title": "Books", "presets": {"limit": 5}}},
}


async def create(admin, name="desk", definition=DESK, **members):
    response = await admin.post("/toolsets", json={"name": name, "definition": definition, **members})
    assert response.status_code == 201, response.text
    return response


async def test_toolset_is_created_read_replaced_and_deleted(api, library):
    admin = await api.client("admin")
    created = await create(admin, title="Desk", description="For the desk.")
    assert created.headers["location"] == "/toolsets/desk"
    assert created.headers["etag"] == '"1"'
    found = await admin.get("/toolsets/desk")
    assert found.json() == created.json()
    assert [member["name"] for member in found.json()["members"]] == ["find_books", "library_loan"]
    assert found.json()["definition"] == {
        "providers": ["library"],
        "changes": {"library.books": {"name": "find_books", "title": "Books", "presets": {"/limit": 5}}},
    }
    assert found.json()["addresses"]["mcp"] == "https://gateway.example/toolsets/desk/mcp"
    body = {"title": "Desk 2", "definition": found.json()["definition"] | {"read_only": True}}
    replaced = await admin.put("/toolsets/desk", json=body, headers={"If-Match": '"1"'})
    assert (replaced.status_code, replaced.headers["etag"]) == (200, '"2"')
    assert replaced.json()["tools"] == 1
    assert (await admin.put("/toolsets/desk", json=body, headers={"If-Match": '"1"'})).status_code == 412
    assert (await admin.delete("/toolsets/desk", headers={"If-Match": '"1"'})).status_code == 412
    assert (await admin.delete("/toolsets/desk", headers={"If-Match": '"2"'})).status_code == 204
    assert (await admin.get("/toolsets/desk")).status_code == 404
    assert (await admin.delete("/toolsets/desk")).status_code == 404
    events = (await admin.get("/events", params={"object_type": "toolset", "sort": "at"})).json()["items"]
    assert [event["action"] for event in events] == ["created", "updated", "deleted"]


async def test_put_creates_a_toolset(api, library):
    admin = await api.client("admin")
    made = await admin.put("/toolsets/desk", json={"definition": DESK})
    assert (made.status_code, made.headers["location"]) == (201, "/toolsets/desk")
    assert (
        await admin.put("/toolsets/other", json={"definition": DESK}, headers={"If-Match": '"1"'})
    ).status_code == 412


async def test_name_is_used_once(api, library):
    admin = await api.client("admin")
    await create(admin)
    again = await admin.post("/toolsets", json={"name": "desk", "definition": DESK})
    assert (again.status_code, again.json()["errors"][0]["pointer"]) == (409, "/name")


async def test_concurrent_creations_make_one(api, library):
    admin = await api.client("admin")
    body = {"name": "desk", "definition": DESK}
    responses = await asyncio.gather(*(admin.post("/toolsets", json=body) for _ in range(4)))
    assert sorted(response.status_code for response in responses) == [201, 409, 409, 409]


async def test_retry_with_an_idempotency_key_gets_the_first_response(api, library):
    admin = await api.client("admin")
    body = {"name": "desk", "definition": DESK}
    first, second = [
        await admin.post("/toolsets", json=body, headers={"Idempotency-Key": "one"}) for _ in range(2)
    ]
    assert first.json() == second.json()
    assert second.headers["idempotency-replayed"] == "true"


async def test_what_does_not_exist_is_reported_until_it_does(api, library, upstream):
    admin = await api.client("admin")
    created = await create(admin, definition={"tools": ["library.books", "library.members"]})
    problem = {"kind": "tool", "name": "library.members", "detail": "There is no enabled tool of this name."}
    assert created.json()["problems"] == [problem]
    await api.tool(library, "members", {"url": f"{upstream}/members"})
    found = (await admin.get("/toolsets/desk")).json()
    assert (found["problems"], found["tools"]) == ([], 2)
    await admin.patch("/tools/library.members", json={"enabled": False})
    found = (await admin.get("/toolsets/desk")).json()
    assert (found["problems"], found["tools"]) == ([problem], 1)


async def test_list_is_paged_sorted_and_searched(api, library):
    admin = await api.client("admin")
    for name, title in (("b", "Second"), ("a", "First"), ("c", "Third")):
        await create(admin, name, title=title)
    page = await admin.get("/toolsets", params={"limit": 2})
    assert [item["name"] for item in page.json()["items"]] == ["a", "b"]
    assert page.json()["total"] == 3
    assert 'rel="next"' in page.headers["link"]
    rest = await admin.get("/toolsets", params={"limit": 2, "cursor": page.json()["next_cursor"]})
    assert [item["name"] for item in rest.json()["items"]] == ["c"]
    found = (await admin.get("/toolsets", params={"q": "third", "sort": "-name"})).json()["items"]
    assert [(item["name"], item["tools"]) for item in found] == [("c", 2)]


@pytest.mark.parametrize(
    ("limits", "visible"),
    [({"providers": ["weather"]}, ["sky"]), ({"tags": ["public"]}, ["desk"]), ({"providers": ["none"]}, [])],
    ids=["providers", "tags", "nothing"],
)
async def test_restricted_key_sees_toolsets_with_something_for_it(api, library, limits, visible):
    admin = await api.client("admin")
    await create(admin)
    await create(admin, "sky", {"tools": ["weather.now"]})
    limited = await api.client("tools:read", "providers:read", "providers:write", **limits)
    assert [item["name"] for item in (await limited.get("/toolsets")).json()["items"]] == visible
    for name in ("desk", "sky"):
        found = await limited.get(f"/toolsets/{name}")
        assert found.status_code == (200 if name in visible else 404)
        assert found.json().get("definition") is None
    assert (await limited.put("/toolsets/desk", json={"definition": DESK})).status_code == 403
    assert (await limited.post("/toolsets", json={"name": "x", "definition": {}})).status_code == 403
    assert (await limited.delete("/toolsets/desk")).status_code == 403


async def test_definition_is_shown_to_those_who_read_providers(api, library):
    await create(await api.client("admin"))
    agent = await api.client("tools:read")
    found = (await agent.get("/toolsets/desk")).json()
    assert (found["definition"], found["problems"]) == (None, [])
    assert (
        "limit"
        not in (await agent.get("/toolsets/desk/search", params={"q": "catalogue"})).json()["items"][0][
            "inputs"
        ]["properties"]
    )


@for_each(
    ("definition", "pointer"),
    [
        ({"tools": ["not a name"]}, "/definition/tools/0"),
        ({"changes": {"a.b": {"presets": {"x": "${TOKEN}"}}}}, "/definition/changes/a.b/presets"),
        ({"changes": {"a.b": {"name": "a.b"}}}, "/definition/changes/a.b/name"),
        ({"members": []}, "/definition/members"),
        ({"mode": "some"}, "/definition/mode"),
        ({"changes": {"a.b": {"name": "read_more"}}}, "/definition/changes/a.b/name"),
    ],
    ids=["tool", "variable", "name", "unknown", "mode", "meta-tool"],
)
async def test_invalid_definitions_are_rejected_with_a_pointer(api, definition, pointer):
    admin = await api.client("admin")
    response = await admin.put("/toolsets/desk", json={"definition": definition})
    assert response.status_code == 422
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]
