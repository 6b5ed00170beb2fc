"""At the addresses that name no toolset, a key that is limited to toolsets has the tools of these, each as the
address of its toolset has it.
"""

import asyncio
import re

import pytest

from tests.api.toolsets.test_limited_keys import DESK, limited
from tests.harness.cases import for_each
from tests.harness.mcp_requests import McpClient

FRONT = {
    "tools": ["library.books", "library.loan"],
    "changes": {"library.books": {"name": "search", "presets": {"limit": 9}}},
}
SEARCHES = {
    "tools": ["library.books", "weather.now"],
    "mode": "search",
    "pinned": ["weather.now"],
    "read_only": True,
    "result_budget": {"max_bytes": 1000},
    "changes": {"weather.now": {"description": "Rain."}},
}


@pytest.fixture
async def admin(api, library):
    client = await api.client("admin")
    definitions = {"desk": DESK, "sky": {"providers": ["weather"]}, "front": FRONT, "searches": SEARCHES}
    for name, definition in definitions.items():
        made = await client.put(f"/toolsets/{name}", json={"definition": definition})
        assert made.status_code == 201, made.text
    return client


def mcp(client, base):
    return McpClient(client, f"{base}/mcp")


async def call_by_mcp(client, base, name, /, **arguments):
    response = await mcp(client, base).modern("tools/call", {"name": name, "arguments": arguments})
    body = response.json()
    if "result" not in body:
        return body["error"]["code"], body["error"]["data"].get("suggestions")
    result = body["result"]
    return result["isError"], result.get("structuredContent"), [one["text"] for one in result["content"]]


def model_call(name, arguments):
    return {"role": "assistant", "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}
    ]}  # fmt: skip


async def call(client, base, tool, arguments=None, **query):
    response = await client.post(f"{base}/tools/{tool}/call", json=arguments or {}, params=query)
    return response.status_code, response.json()


async def problem(client, base, tool, arguments=None, **query):
    status, found = await call(client, base, tool, arguments, **query)
    pointers = [one["pointer"] for one in found.get("errors", ())]
    return status, found["type"].rpartition(":")[2], found.get("suggestions"), pointers


async def run_model_calls(client, base, name, arguments):
    response = await client.post(f"{base}/tool-calls", json=model_call(name, arguments))
    found = response.json()
    return response.status_code, found["messages"], [one["status"] for one in found["results"]]


def without_urls(value):
    if isinstance(value, dict):
        return {name: without_urls(one) for name, one in value.items() if name not in ("url", "call_url")}
    return [without_urls(one) for one in value] if isinstance(value, list) else value


async def read(client, base, path, **query):
    plain = "/tools" if path in ("/search", "/export") else ""
    response = await client.get(f"{base or plain}{path}", params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def searched(client, base, q, **query):
    found = (await read(client, base, "/search", q=q, **query))["items"]
    members = ("provider", "signature", "description", "effects", "inputs", "tags", "cost", "health")
    return [[item[name] for name in members] for item in found]


async def manual(client, base, **query):
    return without_urls((await read(client, base, "/utcp", **query))["tools"])


async def exported(client, base, form, **query):
    return without_urls((await read(client, base, "/export", format=form, **query))["tools"])


async def listed_by_mcp(client, base):
    return (await mcp(client, base).modern("tools/list")).json()["result"]["tools"]


async def approved(client, base, admin):
    await admin.patch("/tools/library.books", json={"requires_approval": True})
    waiting = await client.post(f"{base}/tools/find_books/call", json={"q": "tea"})
    location = waiting.headers["location"]
    done = (await admin.post(f"{location}/approve")).json()
    result = (await client.get(f"{location}/result")).json()
    await admin.patch("/tools/library.books", json={"requires_approval": False})
    return waiting.status_code, done["state"], done["arguments"], result["json"]


LOAN = {"branch": "north", "body": {"copy": "1", "desk": 2}}
EACH = {
    "call": lambda client, base, _: call(client, base, "find_books", {"q": "tea"}),
    "call of another tool": lambda client, base, _: call(client, base, "library.loan", LOAN),
    "preset argument": lambda client, base, _: problem(client, base, "find_books", {"q": "a", "limit": 1}),
    "canonical name": lambda client, base, _: problem(client, base, "library.books", {"q": "a"}),
    "unknown name": lambda client, base, _: problem(client, base, "lookup_everything"),
    "dry run": lambda client, base, _: problem(client, base, "find_books", {"q": "a"}, dry_run="true"),
    "dry run without presets": lambda client, base, _: call(
        client, base, "library_loan", LOAN, dry_run="true"
    ),
    "call over MCP": lambda client, base, _: call_by_mcp(client, base, "find_books", q="tea"),
    "unknown over MCP": lambda client, base, _: call_by_mcp(client, base, "library_books", q="tea"),
    "description": lambda client, base, _: call_by_mcp(client, base, "describe_tools", names=["find_books"]),
    "meta call": lambda client, base, _: call_by_mcp(
        client, base, "call_read_tool", name="find_books", arguments={"q": "tea"}
    ),
    "call of a model": lambda client, base, _: run_model_calls(client, base, "find_books", '{"q": "tea"}'),
    "meta call of a model": lambda client, base, _: run_model_calls(
        client, base, "call_tool", '{"name": "find_books", "arguments": {"q": "tea"}}'
    ),
    "approval": approved,
}
LISTS = {
    "search": lambda client, base: searched(client, base, "catalogue"),
    "search by name": lambda client, base: searched(client, base, "find_books"),
    "search without text": lambda client, base: searched(client, base, ""),
    "manual": manual,
    "manual of a search": lambda client, base: manual(client, base, q="catalogue"),
    "manual of a tag": lambda client, base: manual(client, base, tag="public"),
    "old manual": lambda client, base: manual(client, base, version="0"),
    "export": lambda client, base: exported(client, base, "openai-chat"),
    "export of a name": lambda client, base: exported(client, base, "anthropic", names="find_books"),
    "export for UTCP": lambda client, base: exported(client, base, "utcp"),
    "list over MCP": listed_by_mcp,
    "search over MCP": lambda client, base: call_by_mcp(client, base, "find_tools", query="catalogue"),
}


@for_each("name", list(EACH))
async def test_each_interface_calls_as_the_address_of_the_toolset(api, admin, name):
    for toolsets in (("desk",), ("desk", "sky")):
        agent, _ = await limited(api, admin, toolsets)
        expected = await EACH[name](agent, "/toolsets/desk", admin)
        found = await EACH[name](agent, "", admin)
        assert found == expected or name.startswith("unknown"), toolsets
        # Its suggestions are among the tools of all toolsets.
        assert found[0] == expected[0], toolsets


@for_each("name", list(LISTS))
async def test_each_list_has_the_tools_of_the_toolsets(api, admin, name):
    def ordered(found):
        return sorted(map(str, found)) if isinstance(found, list) else found

    agent, _ = await limited(api, admin)
    assert await LISTS[name](agent, "") == await LISTS[name](agent, "/toolsets/desk")
    agent, _ = await limited(api, admin, ("desk", "sky"))
    of_each = [await LISTS[name](agent, f"/toolsets/{toolset}") for toolset in ("desk", "sky")]
    if isinstance(of_each[0], list):
        shared = [one for one in of_each[0] if one in of_each[1]]
        expected = [*of_each[0], *(one for one in of_each[1] if one not in shared)]
        if name == "search by name":
            expected = expected[:1]
        assert ordered(await LISTS[name](agent, ""))[: len(expected)] == ordered(expected)


async def test_mode_pins_limits_and_read_only_rule_of_a_toolset_hold(api, admin):
    agent, _ = await limited(api, admin, ("searches",))
    for form in ("openai-chat", "utcp"):
        plain, there = [await exported(agent, base, form) for base in ("", "/toolsets/searches")]
        assert plain == there
    plain, there = [await listed_by_mcp(agent, base) for base in ("", "/toolsets/searches")]
    assert plain == there
    assert {"find_tools", "weather_now"} <= {tool["name"] for tool in plain}
    assert "library_books" not in {tool["name"] for tool in plain}
    long = "x" * 3_000
    for base in ("", "/toolsets/searches"):
        _, _, texts = await call_by_mcp(agent, base, "library_books", q=long, limit=1)
        assert len("".join(texts)) < 2_000
        _, _, texts = await call_by_mcp(
            agent, base, "call_tool", name="library_books", arguments={"q": long, "limit": 1}
        )
        assert len("".join(texts)) < 2_000
        _, (message,), _ = await run_model_calls(agent, base, "library_books", f'{{"q":"{long}","limit":1}}')
        assert len(message["content"]) < 2_000
    both, _ = await limited(api, admin, ("searches", "front"))
    listed = {tool["name"] for tool in await listed_by_mcp(both, "")}
    assert listed == {
        "find_tools",
        "describe_tools",
        "call_read_tool",
        "call_tool",
        "read_more",
        "weather_now",
    }
    _, _, texts = await call_by_mcp(both, "", "searches.library_books", q=long, limit=1)
    assert len("".join(texts)) < 2_000
    handle = re.search(r"c_[\w.-]*\w", "".join(texts))[0]
    _, _, texts = await call_by_mcp(both, "", "read_more", continuation=handle)
    assert 500 < len("".join(texts)) < 2_000
    _, _, texts = await call_by_mcp(both, "", "front.search", q=long)
    assert len("".join(texts)) > 3_000
    assert (await problem(agent, "", "library.loan", LOAN))[0] == 404


async def test_tool_that_toolsets_change_differently_has_both_names(api, admin):
    agent, _ = await limited(api, admin, ("desk", "front"))
    both = ["desk.find_books", "front.search"]
    for name, limit in zip(both, (5, 9), strict=True):
        status, body = await call(agent, "", name, {"q": "tea"})
        assert (status, body["path"]) == (200, f"/books?q=tea&limit={limit}")
        assert (await call_by_mcp(agent, "", name, q="tea"))[1] == body
        details = (await agent.get(f"/tools/{name}")).json()
        agent_name = name.replace(".", "_")
        assert (details["name"], details["agent_name"], details["call_template"]) == (name, agent_name, {})
        assert set(details["inputs"]["properties"]) == {"q"}
        status, (message,), _ = await run_model_calls(agent, "", details["alias"], '{"q": "tea"}')
        assert f"limit={limit}" in message["content"]
    for name in ("library.books", "library_books"):
        assert (await problem(agent, "", name, {"q": "a"}))[:3] == (409, "conflict", both)
        assert (await call_by_mcp(agent, "", name, q="a")) == (-32602, both)
        found = await agent.get(f"/tools/{name}")
        assert (found.status_code, found.json()["suggestions"]) == (409, both)
        assert all(one in found.json()["detail"] for one in both)
        _, (message,), (status,) = await run_model_calls(agent, "", name, '{"q": "a"}')
        assert (status, both[0] in message["content"]) == (409, True)
        command = await agent.post("/ubp/commands", json={"commandName": name, "arguments": {"q": "a"}})
        assert all(one in command.text for one in both), command.text
        assert "/command_name" in command.text
        explained = await agent.get("/explain", params={"tool": name})
        assert (explained.status_code, explained.json()["suggestions"]) == (404, both)
    # Both toolsets have the other one alike.
    assert (await call(agent, "", "library.loan", LOAN))[0] == 200
    names = [item["name"] for item in (await agent.get("/tools")).json()["items"]]
    assert names == ["desk.find_books", "front.search", "library.loan"]
    # Models take no dot in the name of a tool.
    for_agents = ["desk_find_books", "front_search", "library_loan"]
    assert [tool["name"] for tool in await manual(agent, "")] == for_agents
    found = (await read(agent, "", "/search", q="catalogue"))["items"]
    assert {item["name"] for item in found} == set(both)
    assert {tool["name"] for tool in await listed_by_mcp(agent, "")} == {*for_agents, "read_more"}
    functions = [tool["function"]["name"] for tool in await exported(agent, "", "openai-chat")]
    assert functions == for_agents


async def test_qualified_name_is_not_the_name_of_another_tool(api, admin):
    named = {
        "providers": ["library"],
        "changes": {"library.books": {"name": "loan", "presets": {"limit": 1}}},
    }
    await admin.put("/toolsets/library", json={"definition": named})
    agent, _ = await limited(api, admin, ("library", "front"))
    names = [item["name"] for item in (await agent.get("/tools")).json()["items"]]
    assert names[0] == "front.search"
    assert names[1] == "library.loan"
    assert names[2].startswith("library_loan_")
    for name in ("library.loan", "library_loan"):
        assert (await call(agent, "", name, LOAN))[1]["path"] == "/loans?branch=north", name
    status, body = await call(agent, "", names[2], {"q": "tea"})
    assert (status, body["path"]) == (200, "/books?q=tea&limit=1")
    assert [tool["name"] for tool in await listed_by_mcp(agent, "")][1:3] == ["library_loan", names[2]]


async def test_calls_of_one_message_by_several_toolsets_are_all_made(api, admin, upstream):
    for name, branch in (("east", "e"), ("west", "w")):
        changes = {"library.loan": {"presets": {"branch": branch}}}
        await admin.put(
            f"/toolsets/{name}", json={"definition": {"tools": ["library.loan"], "changes": changes}}
        )
    agent, _ = await limited(api, admin, ("east", "west"))
    written = '{"body": {"copy": "1", "desk": 2}}'
    names = ["east_library_loan", "west_library_loan", "east_library_loan"]
    (first,) = model_call(names[0], written)["tool_calls"]
    calls = [
        {**first, "id": f"c{index}", "function": {"name": name, "arguments": written}}
        for index, name in enumerate(names)
    ]
    found = (await agent.post("/tool-calls", json={"role": "assistant", "tool_calls": calls})).json()
    texts = [message["content"] for message in found["messages"]]
    assert ["branch=e" in texts[0], "branch=w" in texts[1]] == [True, True], texts
    assert texts[2].startswith("Duplicate tool call skipped"), texts


async def test_list_of_tools_is_filtered_and_paged_as_it_is_seen(api, admin):
    agent, _ = await limited(api, admin, ("desk", "front", "sky"))

    async def names(**query):
        return [item["name"] for item in (await agent.get("/tools", params=query)).json()["items"]]

    every = ["desk.find_books", "front.search", "library.loan", "weather.now"]
    assert await names() == every
    assert await names(sort="-name") == every[::-1]
    for query, expected in (
        ({"provider": "weather"}, every[3:]),
        ({"tag": "public"}, every[:3]),
        ({"q": "CATALOGUE"}, every[:2]),
        ({"q": "front."}, every[1:2]),
        ({"names": "library.books"}, every[:2]),
        ({"enabled": "false"}, []),
        ({"state": "destructive"}, []),
    ):
        assert await names(**query) == expected, query
    first = (await agent.get("/tools", params={"limit": 2})).json()
    assert ([item["name"] for item in first["items"]], first["total"]) == (every[:2], 4)
    assert await names(limit=2, cursor=first["next_cursor"]) == every[2:]
    urls = [item["call_url"].rpartition("/tools/")[2] for item in first["items"]]
    assert urls == ["desk_find_books/call", "front_search/call"]
    status = (await agent.post(f"/tools/{urls[0]}", json={"q": "a"})).status_code
    assert status == 200


async def test_other_tools_and_changes_stay_out_of_reach(api, admin):
    scopes = ("tools:read", "tools:call", "providers:write")
    agent, _ = await limited(api, admin, ("sky",), scopes)
    assert (await problem(agent, "", "library.books", {"q": "a"}))[0] == 404
    assert (await agent.get("/tools/library.books")).status_code == 404
    assert (await agent.patch("/tools/weather.now", json={"enabled": False})).status_code == 404
    operation = {"tool": "weather.now", "patch": {"enabled": False}}
    changed = await agent.post("/tools:batch", json={"operations": [operation]})
    assert changed.status_code == 207, changed.text
    assert [item["status"] for item in changed.json()["items"]] == [404]
    nothing, _ = await limited(api, admin, ("none",))
    assert (await nothing.get("/tools")).json()["items"] == []
    assert await manual(nothing, "") == []
    assert await searched(nothing, "", "catalogue") == []
    assert (await problem(nothing, "", "weather.now"))[0] == 404


async def test_records_name_the_toolset_and_explanations_follow_it(api, admin):
    agent, made = await limited(api, admin, ("desk", "sky"))
    await call(agent, "", "find_books", {"q": "a"})
    await call_by_mcp(agent, "", "weather_now")
    command = {"commandName": "find_books", "arguments": {"q": "b"}}
    answer = (await agent.post("/ubp/commands", json=command)).json()
    assert answer["result"]["value"]["path"] == "/books?q=b&limit=5"
    await api.services.call_log.flush()
    records = (await admin.get("/calls")).json()["items"]
    assert {(one["tool"], one["toolset"]) for one in records} == {
        ("library.books", "desk"), ("weather.now", "sky")
    }  # fmt: skip
    own = (await agent.get("/explain", params={"tool": "find_books"})).json()
    assert (own["tool"], own["may_call"]) == ("library.books", True)
    other = {"tool": "find_books", "key": made["id"]}
    assert (await admin.get("/explain", params=other)).json()["may_call"] is True


async def test_view_follows_changes_of_the_toolsets(api, admin):
    agent, made = await limited(api, admin, ("desk", "sky"))
    assert (await call(agent, "", "find_books", {"q": "a"}))[0] == 200
    await admin.put("/toolsets/desk", json={"definition": DESK | {"exclude": ["library.loan"]}})
    names = {item["name"] for item in (await agent.get("/tools")).json()["items"]}
    assert names == {"find_books", "weather.now"}
    await admin.patch(f"/keys/{made['id']}", json={"toolsets": ["sky"]})
    assert (await problem(agent, "", "find_books"))[0] == 404
    answers = await asyncio.gather(*(call(agent, "", "weather.now") for _ in range(3)))
    assert [status for status, _ in answers] == [200, 200, 200]


async def test_details_hide_what_the_toolset_replaces_and_their_tag_follows_it(api, admin):
    agent, _ = await limited(api, admin, ("front",))
    tags = []
    for change in ({"presets": {"limit": 9}}, {"presets": {"limit": 8}}, {"description": "Finds."}):
        definition = FRONT | {"changes": {"library.books": {"name": "lookup", **change}}}
        assert (await admin.put("/toolsets/front", json={"definition": definition})).status_code == 200
        response = await agent.get("/tools/lookup", params={"source": "true"})
        assert response.status_code == 200, response.text
        details = response.json()
        assert (details["source"], details["security"], details["call_template"]) == (None, [], {})
        tags.append(response.headers["etag"])
    assert len(set(tags)) == 3
