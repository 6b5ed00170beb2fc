"""Searches and exports of toolsets for models: dialects, their report, and the meta-tools."""

import orjson
import pytest

DESK = {
    "providers": ["library", "weather"],
    "changes": {"library.books": {"name": "find_books", "presets": {"limit": 5}}},
}


async def put(api, name, **definition):
    admin = await api.client("admin")
    made = await admin.put(f"/toolsets/{name}", json={"definition": DESK | definition})
    assert made.status_code in (200, 201), made.text
    return admin


def names_of(export):
    return [tool["function"]["name"] for tool in export["tools"]]


async def exported(client, path, **query):
    response = await client.get(path, params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def listed_by_mcp(client, path):
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    response = await client.post(path, json=body, headers=headers)
    return {tool["name"] for tool in response.json()["result"]["tools"]}


@pytest.mark.parametrize("form", ["openai-chat", "anthropic", "gemini-openapi"])
async def test_search_of_a_toolset_has_the_export_of_its_matches(api, library, form):
    await put(api, "desk")
    agent = await api.client()
    found = await exported(agent, "/toolsets/desk/search", q="catalogue", format=form, strict="true")
    assert [item["name"] for item in found["items"]] == ["find_books"]
    alone = await exported(agent, "/toolsets/desk/export", names="find_books", format=form, strict="true")
    assert {name: found[name] for name in ("format", "tools", "aliases", "report")} == alone
    assert "limit" not in str(found["tools"])
    plain = await exported(agent, "/toolsets/desk/search", q="catalogue")
    assert plain == {"items": found["items"], "ranking": "words", "weak": False}
    wrong = await agent.get("/toolsets/desk/search", params={"q": "a", "format": "soap"})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "#/query/format")


async def test_meta_tools_are_exported_by_name(api, library):
    agent = await api.client()
    found = await exported(agent, "/tools/export", names="find_tools,read_more,library.books")
    assert names_of(found) == ["find_tools", "read_more", "library_books"]
    assert [tool["name"] for tool in found["report"]["tools"]] == ["find_tools", "read_more", "library.books"]
    assert "3 tools of 2 providers" in found["tools"][0]["function"]["description"]
    utcp = await exported(agent, "/tools/export", names="find_tools", format="utcp")
    assert (utcp["tools"], utcp["report"]["tools"][0]["grade"]) == ([], "unsupported")
    many = await agent.get("/tools/export", params={"names": ",".join(["a"] * 201)})
    assert (many.status_code, many.json()["errors"][0]["pointer"]) == (422, "#/query/names")


async def test_export_of_a_toolset_has_what_mcp_lists(api, library):
    agent = await api.client()
    await put(api, "desk", mode="search", pinned=["library.books"])
    found = await exported(agent, "/toolsets/desk/export")
    assert set(names_of(found)) == await listed_by_mcp(agent, "/toolsets/desk/mcp")
    assert {"find_books", "find_tools", "call_tool"} <= set(names_of(found))
    assert set(names_of(await exported(agent, "/toolsets/desk/export", mode="all"))) == {
        "find_books", "library_loan", "weather_now"
    }  # fmt: skip
    assert names_of(await exported(agent, "/toolsets/desk/export", provider="weather")) == ["weather_now"]
    utcp = await exported(agent, "/toolsets/desk/export", format="utcp")
    assert len(utcp["tools"]) == 3
    await put(api, "desk", mode="auto")
    assert len((await exported(agent, "/toolsets/desk/export"))["tools"]) == 3
    assert len((await exported(agent, "/tools/export"))["tools"]) == 3
    assert len((await exported(agent, "/tools/export", mode="search"))["tools"]) == 5


async def test_large_toolset_is_exported_with_meta_tools(api, library):
    for number in range(40):
        await api.tool(library, f"many{number}", {"url": "https://api.example.com/x"})
    await put(api, "desk")
    agent = await api.client()
    names = set(names_of(await exported(agent, "/toolsets/desk/export")))
    assert names == {"find_tools", "describe_tools", "call_read_tool", "call_tool", "read_more"}
    assert names == await listed_by_mcp(agent, "/toolsets/desk/mcp")


@pytest.mark.parametrize("strict", ["true", "false"])
async def test_calls_of_exported_meta_tools_are_run(api, library, strict):
    await put(api, "desk", mode="search")
    agent = await api.client()
    export = await exported(agent, "/toolsets/desk/export", strict=strict)
    entry = next(tool for tool in export["tools"] if tool["function"]["name"] == "call_tool")
    fields = entry["function"]["parameters"]["properties"]
    given = {"q": "tea"}
    wrapped = given if fields["arguments"].get("type") == "object" else orjson.dumps(given).decode()
    arguments = orjson.dumps({"name": "find_books", "arguments": wrapped}).decode()
    function = {"name": "call_tool", "arguments": arguments}
    message = {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    query = {"format": "openai-chat", "strict": strict}
    response = await agent.post("/toolsets/desk/tool-calls", params=query, json=message)
    result = response.json()["results"][0]
    assert (result["is_error"], result["tool"]) == (False, "library.books"), result
    assert "/books?q=tea&limit=5" in response.json()["messages"][0]["content"]
