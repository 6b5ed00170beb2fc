"""`/toolsets/{name}/mcp`: the tools of a toolset, by their names and with their presets."""

import pytest

from tests.api.agents.mcp.test_streams import listening, next_message
from tests.harness.mcp_requests import McpClient, error_of


@pytest.fixture
async def toolset(api, library):
    """A toolset that renames a tool and presets one of its arguments; raw requests to its address."""
    admin = await api.client("admin")
    definition = {
        "tools": ["library.find"],
        "changes": {"library.find": {"name": "find_books", "presets": {"limit": 5}}},
    }
    made = await admin.post("/toolsets", json={"name": "desk", "definition": definition})
    assert made.status_code == 201, made.text
    return McpClient(await api.client(), "/toolsets/desk/mcp")


async def test_a_toolset_lists_its_tools_by_their_names_there(toolset):
    for response in (await toolset.modern("tools/list"), await toolset.legacy("tools/list")):
        tool, _ = response.json()["result"]["tools"]
        assert tool["name"] == "find_books"
        assert set(tool["inputSchema"]["properties"]) == {"q"}
    assert "desk" in (await toolset.modern("server/discover")).json()["result"]["instructions"]


async def test_a_call_has_the_presets_which_the_client_cannot_give(toolset, api):
    called = await toolset.modern("tools/call", {"name": "find_books", "arguments": {"q": "x"}})
    assert called.json()["result"]["structuredContent"]["path"] == "/echo?q=x&limit=5"
    (record,) = await api.calls()
    assert (record["tool"], record["interface"]) == ("library.find", "mcp")
    given = await toolset.modern("tools/call", {"name": "find_books", "arguments": {"q": "x", "limit": 9}})
    assert given.json()["result"]["isError"] is True


async def test_other_tools_are_unknown_there(toolset):
    for send, status in ((toolset.modern, 400), (toolset.legacy, 200)):
        response = await send("tools/call", {"name": "library_json", "arguments": {}})
        assert error_of(response) == (status, -32602)
        assert response.json()["error"]["message"] == "Unknown tool: library_json"


async def test_a_key_that_is_limited_to_the_toolset_has_it_at_the_other_addresses(toolset, api):
    admin = await api.client("admin")
    body = {"name": "desk agent", "scopes": ["tools:read", "tools:call"], "toolsets": ["desk"]}
    made = (await admin.post("/keys", json=body)).json()
    toolset.http.headers["Authorization"] = f"Bearer {made['key']}"
    there = (await toolset.modern("tools/list")).json()["result"]["tools"]
    assert [tool["name"] for tool in there] == ["find_books", "read_more"]
    for path in ("/mcp", "/mcp/all"):
        elsewhere = McpClient(toolset.http, path)
        assert (await elsewhere.modern("tools/list")).json()["result"]["tools"] == there
        found = await elsewhere.modern("tools/call", {"name": "find_books", "arguments": {"q": "x"}})
        assert found.json()["result"]["structuredContent"]["path"] == "/echo?q=x&limit=5"
        unknown = await elsewhere.modern("tools/call", {"name": "library_find", "arguments": {"q": "x"}})
        assert error_of(unknown) == (400, -32602)


async def test_a_change_of_its_toolsets_is_told_to_a_key_at_an_address_that_names_none(toolset, api):
    admin = await api.client("admin")
    await admin.put("/toolsets/more", json={"definition": {"tools": ["library.json"]}})
    body = {"name": "desk agent", "scopes": ["tools:read", "tools:call"], "toolsets": ["desk"]}
    made = (await admin.post("/keys", json=body)).json()
    toolset.http.headers["Authorization"] = f"Bearer {made['key']}"
    async with listening(toolset.http, "/mcp") as (found, _):
        await admin.patch(f"/keys/{made['id']}", json={"toolsets": ["desk", "more"]})
        assert (await next_message(found))["method"] == "notifications/tools/list_changed"
    listed = (await McpClient(toolset.http).modern("tools/list")).json()["result"]["tools"]
    assert [tool["name"] for tool in listed] == ["find_books", "library_json", "read_more"]


async def test_a_change_of_the_toolset_is_told_to_its_subscriptions(toolset, api):
    admin = await api.client("admin")
    async with listening(toolset.http, "/toolsets/desk/mcp") as (found, _):
        current = await admin.get("/toolsets/desk")
        changed = await admin.put(
            "/toolsets/desk",
            json={"definition": {"tools": ["library.find", "library.json"]}},
            headers={"If-Match": current.headers["etag"]},
        )
        assert changed.status_code == 200, changed.text
        assert (await next_message(found))["method"] == "notifications/tools/list_changed"
