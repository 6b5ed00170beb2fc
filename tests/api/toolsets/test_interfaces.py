"""Records, statistics and explanations say by which interface and by which toolset a call came."""

from collections import Counter

import pytest

DESK = {
    "providers": ["library"],
    "changes": {"library.books": {"name": "find_books", "presets": {"limit": 5}}},
}
MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


@pytest.fixture
async def admin(api, library):
    client = await api.client("admin")
    for name, definition in (("desk", DESK), ("sky", {"providers": ["weather"]})):
        made = await client.put(f"/toolsets/{name}", json={"definition": definition})
        assert made.status_code == 201, made.text
    return client


def model_call(name, arguments):
    return {"role": "assistant", "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}
    ]}  # fmt: skip


def rpc(name, arguments):
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@pytest.fixture
async def made(api, admin):
    """The numbers of calls by interface and toolset, which were made by every interface."""
    agent = await api.client()
    utcp = {"X-Call-Interface": "utcp"}
    calls = [
        ("rest", None, agent.post("/tools/library.books/call", json={"q": "a", "limit": 1})),
        ("rest", "desk", agent.post("/toolsets/desk/tools/find_books/call", json={"q": "a"})),
        ("rest", "desk", agent.post("/toolsets/desk/tools/find_books/call", json={"limit": 1})),
        ("utcp", "sky", agent.post("/toolsets/sky/tools/weather_now/call", json={}, headers=utcp)),
        ("mcp", None, agent.post("/mcp", json=rpc("weather_now", {}), headers=MCP)),
        ("mcp", "desk", agent.post("/toolsets/desk/mcp", json=rpc("find_books", {"q": "b"}), headers=MCP)),
        ("tool-calls", "desk",
         agent.post("/toolsets/desk/tool-calls", json=model_call("find_books", '{"q": "c"}'))),
        ("tool-calls", None, agent.post("/tool-calls", json=model_call("weather_now", "{}"))),
    ]  # fmt: skip
    for _, _, sent in calls:
        response = await sent
        assert response.status_code in (200, 422), response.text
    await admin.patch("/tools/weather.now", json={"requires_approval": True})
    waiting = await agent.post("/toolsets/sky/tools/weather_now/call", json={})
    assert (await admin.post(f"{waiting.headers['location']}/approve")).json()["state"] == "executed"
    await api.services.call_log.flush()
    counted = Counter((interface, toolset) for interface, toolset, _ in calls)
    return counted + Counter({("rest", "sky"): 1, ("approval", "sky"): 1})


async def test_records_have_interface_and_toolset(admin, made):
    records = (await admin.get("/calls")).json()["items"]
    assert Counter((one["interface"], one["toolset"]) for one in records) == made
    for query in ({"toolset": "desk"}, {"interface": "mcp"}, {"interface": "rest", "toolset": "desk"}):
        found = (await admin.get("/calls", params=query)).json()["items"]
        assert Counter((one["interface"], one["toolset"]) for one in found) == Counter(
            {
                (interface, toolset): count
                for (interface, toolset), count in made.items()
                if query.get("interface", interface) == interface and query.get("toolset", toolset) == toolset
            }
        )
        lines = (await admin.get("/calls.csv", params=query)).text.splitlines()
        assert lines[0].endswith(",interface,toolset,source")
        cells = [tuple(line.split(",")[-3:-1]) for line in lines[1:]]
        assert Counter(cells) == Counter((one["interface"], one["toolset"] or "") for one in found)
    assert (await admin.get("/calls", params={"toolset": "a b"})).status_code == 422


async def test_statistics_divide_by_interface_and_toolset(admin, made):
    async def counted(**query):
        response = await admin.get("/stats", params=query)
        assert response.status_code == 200, response.text
        return {one["value"]: one["totals"]["calls"] for one in response.json()["series"]}

    by_interface, by_toolset = Counter(), Counter()
    for (interface, toolset), count in made.items():
        by_interface[interface] += count
        by_toolset[toolset or ""] += count
    assert await counted(by="interface") == by_interface
    assert await counted(by="toolset") == by_toolset
    assert await counted(by="interface", toolset="desk") == {
        interface: count for (interface, toolset), count in made.items() if toolset == "desk"
    }
    assert await counted(by="toolset", interface="mcp") == {"": 1, "desk": 1}
    assert await counted(group="tool", interface="utcp") == {"weather.now": 1}
    assert (await admin.get("/stats", params={"interface": "soap"})).status_code == 422


async def test_explanation_of_a_call_by_a_toolset(api, admin):
    async def checks(client, **query):
        response = await client.get("/explain", params=query)
        assert response.status_code == 200, response.text
        return response.json(), {one["check"]: one["passed"] for one in response.json()["checks"]}

    body = {"name": "agent", "scopes": ["tools:read", "tools:call"], "toolsets": ["desk"]}
    made = (await admin.post("/keys", json=body)).json()
    agent = await api.client()
    agent.headers["Authorization"] = f"Bearer {made['key']}"
    found, passed = await checks(agent, tool="find_books", toolset="desk")
    assert (found["tool"], found["may_call"], passed["restrictions"]) == ("library.books", True, True)
    assert (await agent.post("/toolsets/desk/tools/find_books/call", json={"q": "a"})).status_code == 200
    found, passed = await checks(admin, tool="weather_now", toolset="sky", key=made["id"])
    assert (found["tool"], found["may_call"], passed["restrictions"]) == ("weather.now", False, False)
    assert (await agent.get("/explain", params={"tool": "find_books", "toolset": "sky"})).status_code == 404
    assert (await agent.get("/explain", params={"tool": "weather_now", "toolset": "desk"})).status_code == 404
    nobody = await api.client("calls:read")
    found, passed = await checks(nobody, tool="find_books", toolset="nowhere")
    assert (found["tool"], passed["restrictions"]) == (None, None)
